"""Make training examples from one system's run over the train queries.

    python workflow_scripts/examples.py --run runs/bm25.train.trec --queries data/queries.train.jsonl \\
        --qrels data/qrels.train.tsv --output examples/bm25.jsonl --manifest examples/bm25.manifest.json \\
        --spec '{"config": {"depth": 200, "sample": 30, "positive_in_run": true}, "seed": 42,
                 "wildcards": {"system": "bm25"}}'

Reads the run (in the order of the queries), the train queries and their judgements. Writes the
examples and the manifest, whose counts say what became of every query. `positive_in_run` is
BM25's filter (coCondenser, A.1); a dense system's run keeps all queries.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--run", type=Path, required=True, help="SYSTEM.SPLIT.trec")
    parser.add_argument("--queries", type=Path, required=True, help="queries.SPLIT.jsonl")
    parser.add_argument("--qrels", type=Path, required=True, help="qrels.SPLIT.tsv")
    parser.add_argument("--output", type=Path, required=True, help="examples/SYSTEM.jsonl")
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.data.negatives import make_examples

    config = args.spec["config"]
    manifest = program.Manifest(args.manifest, args.spec, inputs=[args.run, args.queries, args.qrels])
    counts = make_examples(
        args.run,
        args.queries,
        args.qrels,
        args.output,
        depth=config["depth"],
        sample=config["sample"],
        positive_in_run=config["positive_in_run"] and args.spec["wildcards"]["system"] == "bm25",
        seed=args.spec["seed"],
    )
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
