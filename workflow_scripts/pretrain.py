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

from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.training_parser(__doc__)
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, help="all shards, in order")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser import kinds
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.train.machine import run_training
    from condenser.train.pretrain import pretrain

    objective = config["model"]["objective"]
    prefixes = [prefix_of(file) for file in args.tokens]
    tokens = [file for prefix in prefixes for file in shard_files(prefix)]
    run_training(
        args,
        settings=config["model"],
        inputs=[args.initial, *tokens, args.doc_ids],
        train=lambda run: pretrain(
            kinds.load("objectives", objective).training,
            prefixes,
            args.initial,
            args.output,
            run,
            title=objective,
            doc_ids=args.doc_ids,
        ),
    )


if __name__ == "__main__":
    program.run(main)
