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

from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.training_parser(__doc__)
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--items", type=Path, required=True, help="items.SPLIT.jsonl")
    parser.add_argument("--subset", type=Path, help="ids of the items to train on; all by default")
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser.data import sources
    from condenser.train.machine import run_training
    from condenser.train.sentences import train_sentence_encoder

    task = sources.task(config["dataset"])
    assert task is not None
    run_training(
        args,
        settings=config["recipe"],
        inputs=[args.initial, args.items, *([args.subset] if args.subset else [])],
        train=lambda run: train_sentence_encoder(
            args.items, args.subset, args.initial, args.output, run, task=task
        ),
    )


if __name__ == "__main__":
    program.run(main)
