"""Fine-tune an encoder of sentences on pairs or triplets.

    python workflow_scripts/train_sentences.py \\
        --spec '{"config": {"dataset": {"source": "stsb", ...}, "recipe": {...}, "seed": 1, ...}, ...}' \\
        --initial results/stsb/models/condenser --items results/stsb/data/items.train.jsonl \\
        --subset results/stsb/subsets/n500-seed1.txt \\
        --output results/stsb/systems/condenser-sentences/n500-seed1/model \\
        --work-folder results/.work/train_sentences-0123 \\
        --manifest results/stsb/systems/condenser-sentences/n500-seed1/model.manifest.json \\
        --checkpoint-every-s=300 --checkpoints-kept=2 --bad-loss-patience=0

The settings are the data set's source, its recipe, `compute` and `seed`. Reads the model to start from and
the items, of which --subset names those to train on. Writes a Hugging Face folder with losses.jsonl, and the
manifest. SIGTERM saves a checkpoint; started again with the same spec and inputs, the training resumes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--items", type=Path, required=True, help="items.SPLIT.jsonl")
    parser.add_argument("--subset", type=Path, help="ids of the items to train on; all by default")
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser.data import sources
    from condenser.train.checkpoint import remove_checkpoints
    from condenser.train.machine import loop_settings, training_machine
    from condenser.train.sentences import train_sentence_encoder

    inputs = [args.initial, args.items, *([args.subset] if args.subset else [])]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)
    work_folder = manifest.own_folder(args.work_folder)
    task = sources.task(config["dataset"])
    assert task is not None
    with training_machine(**config["compute"]) as machine:
        counts = train_sentence_encoder(
            args.items,
            args.subset,
            args.initial,
            args.output,
            task=task,
            max_tokens=config["recipe"]["max_tokens"],
            batch_size=config["recipe"]["batch_size"],
            epochs=config["recipe"]["epochs"],
            margin=config["recipe"]["margin"],
            seed=config["seed"],
            precision=machine.precision,
            work_folder=work_folder,
            processes=machine.processes,
            **loop_settings(
                config["recipe"],
                fingerprint=manifest.fingerprint,
                checkpoint_every_s=args.checkpoint_every_s,
                checkpoints_kept=args.checkpoints_kept,
                bad_loss_patience=args.bad_loss_patience,
            ),
        )
        manifest.write(outputs=[args.output], counts=counts, device=machine.device_name)
        remove_checkpoints(work_folder)


if __name__ == "__main__":
    program.run(main)
