"""Fine-tune a system on training examples.

    python workflow_scripts/train.py \\
        --spec '{"config": {"system": {...}, "recipe": {...}, "seed": 42, ...}, ...}' \\
        --initial results/msmarco/models/condenser \\
        --collection-tokens results/msmarco/tokens/backbone/collection.0-of-1.tokens.npy \\
        --query-tokens results/msmarco/tokens/backbone/queries.train \\
        --doc-ids results/msmarco/data/doc_ids.txt --queries results/msmarco/data/queries.train.jsonl \\
        --examples results/msmarco/systems/bm25/seed42/examples.jsonl \\
        --output results/msmarco/systems/condenser-round1/seed42/model \\
        --work-folder results/.work/train-0123 \\
        --manifest results/msmarco/systems/condenser-round1/seed42/model.manifest.json \\
        --checkpoint-every-s=300 --checkpoints-kept=2 --bad-loss-patience=0

The settings are the system's entry, the data set's recipe, `compute` and `seed`. Reads the model to start
from, the tokens and ids of the collection and of the train queries, and one file of examples for each system
whose negatives it learns from. Writes a Hugging Face folder with losses.jsonl, and the manifest. SIGTERM
saves a checkpoint; started again with the same spec and inputs, the training resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.training_parser(__doc__)
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--collection-tokens", type=Path, nargs="+", required=True, help="all shards")
    parser.add_argument("--query-tokens", type=Path, required=True, help="prefix")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--examples", type=Path, nargs="+", required=True)
    parser.add_argument("--lengths", type=Path, help="lengths.json, where a length of the recipe is auto")
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser import kinds
    from condenser.data.lengths import resolved
    from condenser.data.text_files import TextFiles
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.train.examples import TrainingFiles
    from condenser.train.machine import run_training

    prefixes = [prefix_of(file) for file in args.collection_tokens]
    tokens = [file for prefix in [*prefixes, args.query_tokens] for file in shard_files(prefix)]
    texts = TextFiles(prefixes, args.query_tokens, args.doc_ids, args.queries)
    files = TrainingFiles(args.examples, texts)
    system = kinds.load("systems", config["system"]["kind"])
    given = [args.lengths] if args.lengths else []
    in_one_row = hasattr(system, "longest_row")
    lengths = resolved(config["recipe"]["lengths"], args.lengths, in_one_row=in_one_row)
    run_training(
        args,
        settings={**config["recipe"], "lengths": lengths},
        inputs=[args.initial, *tokens, args.doc_ids, args.queries, *args.examples, *given],
        train=lambda run: system.train(files, args.initial, args.output, run),
    )


if __name__ == "__main__":
    program.run(main)
