"""Make training examples: train queries with positives, and negatives sampled from a system's run.

    python workflow_scripts/examples.py \\
        --spec '{"config": {"recipe": {"negatives": {...}}, "seed": 42, ...}, ...}' \\
        --run results/msmarco/systems/bm25/untrained/run.train.trec \\
        --queries results/msmarco/data/queries.train.jsonl --qrels results/msmarco/data/qrels.train.tsv \\
        --output results/msmarco/systems/bm25/seed42/examples.jsonl \\
        --manifest results/msmarco/systems/bm25/seed42/examples.jsonl.manifest.json

Reads the run of the train queries (or, with --raw, the official files that contain the system's negatives),
the train queries and their judgements; with --collection also the passages, because those with an answer are
no negatives (`negatives.without_answers`). With --subset only those queries count. Writes one example a line
and the manifest, which counts the queries without an example by reason. Settings: `recipe.negatives`,
`seed`, `dataset.source`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    made_from = parser.add_mutually_exclusive_group(required=True)
    made_from.add_argument("--run", type=Path, help="run.SPLIT.trec")
    made_from.add_argument("--raw", type=Path, nargs="+", help="official files with negatives")
    parser.add_argument("--queries", type=Path, required=True, help="queries.SPLIT.jsonl")
    parser.add_argument("--qrels", type=Path, required=True, help="qrels.SPLIT.tsv")
    parser.add_argument("--collection", type=Path, help="collection.jsonl, where answers decide")
    parser.add_argument("--subset", type=Path, help="ids of the train queries that count")
    parser.add_argument("--output", type=Path, required=True, help="examples.jsonl")
    args = parser.parse_args(argv)
    config = args.spec["config"]
    negatives = config["recipe"]["negatives"]
    files = [args.run] if args.run else args.raw
    subset = [args.subset] if args.subset else []
    texts = [args.collection] if args.collection else []
    manifest = Manifest(args.manifest, args.spec, inputs=[*files, args.queries, args.qrels, *texts, *subset])

    from condenser.data import sources
    from condenser.data.negatives import make_examples
    from condenser.data.subsets import read_subset

    wanted = read_subset(args.subset) if args.subset else None
    if args.run:
        answering: set[tuple[str, str]] = set()
        if args.collection:
            from condenser.evaluate.answers import answering_pairs

            answering = answering_pairs(args.run, args.collection, args.queries, depth=None, wanted=wanted)
        counts = make_examples(
            args.run,
            args.queries,
            args.qrels,
            args.output,
            depth=negatives["depth"],
            sample=negatives["sample"],
            positive_in_run=args.spec["wildcards"]["system"] in negatives["positive_in_run"],
            margin=negatives["margin"],
            wanted=wanted,
            seed=config["seed"],
            answering=answering,
            is_split=config["dataset"]["split"] is not None,
        )
    else:
        counts = sources.load(config["dataset"]).make_examples(
            {file.name: file for file in args.raw},
            args.queries,
            args.qrels,
            args.output,
            sample=negatives["sample"],
            wanted=wanted,
            seed=config["seed"],
        )
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
