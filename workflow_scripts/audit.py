"""Look for faults in a data set: short, cut, double, leaked, and negatives that are none.

    python workflow_scripts/audit.py \\
        --spec '{"config": {"audit": {"systems": ["bm25"], "judges": [], ...}, ...}, ...}' \\
        --collection results/msmarco/data/collection.jsonl \\
        --train-queries results/msmarco/data/queries.train.jsonl \\
        --eval-queries results/msmarco/data/queries.dev.jsonl \\
        --qrels results/msmarco/data/qrels.train.tsv results/msmarco/data/qrels.dev.tsv \\
        --examples results/msmarco/systems/bm25/seed42/examples.jsonl \\
        --output results/msmarco/audit.tsv --counts results/msmarco/audit.json \\
        --manifest results/msmarco/audit.manifest.json

Reads the passages; queries, judgements, examples of the systems `audit.systems` and runs of the systems
`audit.judges` on the train queries, where there are some; how long the texts are, by the checkpoint (the
folder of the file) whose tokenizer reads them. Writes a line for each finding, their counts as JSON, and the
manifest. Removes nothing. Settings: `audit`, `lengths`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--collection", type=Path, required=True, help="collection.jsonl")
    parser.add_argument("--train-queries", type=Path, help="queries.SPLIT.jsonl")
    parser.add_argument("--eval-queries", type=Path, nargs="*", default=[], help="queries.SPLIT.jsonl")
    parser.add_argument("--qrels", type=Path, nargs="*", default=[], help="qrels.SPLIT.tsv of all splits")
    parser.add_argument("--examples", type=Path, nargs="*", default=[], help="of audit.systems, in order")
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="of audit.judges, in order")
    parser.add_argument("--lengths", type=Path, nargs="*", default=[], help="lengths.json of each checkpoint")
    parser.add_argument("--output", type=Path, required=True, help="the findings")
    parser.add_argument("--counts", type=Path, required=True)
    args = parser.parse_args(argv)
    train = [args.train_queries] if args.train_queries else []
    inputs = [args.collection, *train, *args.eval_queries, *args.qrels, *args.examples, *args.runs]
    inputs += args.lengths
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.data.audit import Thresholds, audit, write_findings
    from condenser.data.lengths import read_text_lengths
    from condenser.files import write_json

    settings = args.spec["config"]["audit"]
    findings, counts = audit(
        args.collection,
        train_queries=args.train_queries,
        eval_queries={file.name.split(".")[1]: file for file in args.eval_queries},
        qrels=args.qrels,
        examples=dict(zip(settings["systems"], args.examples, strict=False)),  # none without train queries
        runs=dict(zip(settings["judges"], args.runs, strict=False)),
        lengths=args.spec["config"]["lengths"],
        text_lengths={file.parent.name: read_text_lengths(file) for file in args.lengths},
        thresholds=Thresholds(**{key: settings[key] for key in Thresholds._fields}),
        is_split=args.spec["config"]["dataset"]["split"] is not None,
    )
    write_findings(args.output, findings)
    write_json(args.counts, counts)
    manifest.write(outputs=[args.output, args.counts], counts=counts)
    found = ", ".join(f"{kind} {count}" for kind, count in counts["findings"].items() if count)
    print(f"{args.output}: {found or 'nothing found'}")


if __name__ == "__main__":
    program.run(main)
