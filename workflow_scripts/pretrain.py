"""Pre-train a model by its objective.

    python workflow_scripts/pretrain.py \\
        --spec '{"config": {"model": {"objective": "condenser", ...}, ...}, ...}' \\
        --tokens results/msmarco/tokens/backbone/collection.0-of-1.tokens.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt --initial results/msmarco/models/backbone \\
        --output results/msmarco/models/condenser --work-folder results/.work/pretrain-0123 \\
        --manifest results/msmarco/models/condenser.manifest.json \\
        --checkpoint-every-s=300 --checkpoints-kept=2 --bad-loss-patience=0

The settings are the model's entry in the configuration, `compute` and `seed`. Reads the token shards and the
folder to start from, and the ids to name texts in an error. Writes a Hugging Face folder with the model's
heads in files beside the weights and losses.jsonl, and the manifest. SIGTERM saves a checkpoint; started
again with the same spec and inputs, the training resumes.
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
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, help="all shards, in order")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser import kinds
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.train.checkpoint import remove_checkpoints
    from condenser.train.machine import loop_settings, training_machine
    from condenser.train.pretrain import pretrain

    prefixes = [prefix_of(file) for file in args.tokens]
    tokens = [file for prefix in prefixes for file in shard_files(prefix)]
    manifest = Manifest(args.manifest, args.spec, inputs=[args.initial, *tokens, args.doc_ids])
    work_folder = manifest.own_folder(args.work_folder)
    with training_machine(**config["compute"]) as machine:
        counts = pretrain(
            kinds.load("objectives", config["model"]["objective"]).training,
            prefixes,
            args.initial,
            args.output,
            title=config["model"]["objective"],
            settings=config["model"],
            doc_ids=args.doc_ids,
            seed=config["seed"],
            precision=machine.precision,
            work_folder=work_folder,
            processes=machine.processes,
            **loop_settings(
                config["model"],
                fingerprint=manifest.fingerprint,
                checkpoint_every_s=args.checkpoint_every_s,
                checkpoints_kept=args.checkpoints_kept,
                bad_loss_patience=args.bad_loss_patience,
            ),
        )
        if machine.processes.is_first:
            manifest.write(outputs=[args.output], counts=counts, device=machine.device_name)
            remove_checkpoints(work_folder)


if __name__ == "__main__":
    program.run(main)
