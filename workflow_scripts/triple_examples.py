"""Make round-1 training examples from MS MARCO's official triples, whose negatives are BM25's.

    python workflow_scripts/triple_examples.py --spec '{"config": {"sample": 30}, "seed": 42, ...}' \\
        --triples results/downloads/qidpidtriples.train.full.2.tsv.gz \\
        --queries results/msmarco/data/queries.train.jsonl --qrels results/msmarco/data/qrels.train.tsv \\
        --output results/msmarco/examples/triples.jsonl \\
        --manifest results/msmarco/examples/triples.jsonl.manifest.json

Reads the triples, the train queries and their judgements. Writes one example for each query that
the triples know (coCondenser, A.1: about 400,000), with `sample` negatives, and the manifest.
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
    parser.add_argument("--spec", type=json.loads, required=True)
    parser.add_argument("--triples", type=Path, required=True, help="query, positive, negative; gzip")
    parser.add_argument("--queries", type=Path, required=True, help="queries.SPLIT.jsonl")
    parser.add_argument("--qrels", type=Path, required=True, help="qrels.SPLIT.tsv")
    parser.add_argument("--output", type=Path, required=True, help="examples/SYSTEM.jsonl")
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    inputs = [arguments.triples, arguments.queries, arguments.qrels]
    manifest = program.Manifest(arguments.manifest, arguments.spec, inputs=inputs)

    from condenser.data.triples import OFFICIAL_ROWS, make_triple_examples

    counts = make_triple_examples(
        arguments.triples,
        arguments.queries,
        arguments.qrels,
        arguments.output,
        sample=arguments.spec["config"]["sample"],
        seed=arguments.spec["seed"],
        official_rows=OFFICIAL_ROWS,
    )
    manifest.write(outputs=[arguments.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
