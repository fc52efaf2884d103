"""Measure a run against judgements.

    python workflow_scripts/metrics.py --spec '{"config": {"relevant_grade": 1}, ...}' \\
        --run results/msmarco/runs/bm25.dev.trec --qrels results/msmarco/data/qrels.dev.tsv \\
        --output results/msmarco/metrics/bm25.dev.json \\
        --manifest results/msmarco/metrics/bm25.dev.manifest.json

Reads a TREC run and judgements; writes MRR@10, R@100, R@1000 and nDCG@10 (means, counts and every
query's values) as JSON, and the manifest. A passage is relevant from `relevant_grade` on: 1 for MS MARCO
dev, 2 for TREC DL 2019 passages.
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
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    manifest = program.Manifest(arguments.manifest, arguments.spec, inputs=[arguments.run, arguments.qrels])

    from condenser.evaluate.metrics import evaluate

    counts = evaluate(
        arguments.run,
        arguments.qrels,
        arguments.output,
        system=arguments.spec["wildcards"]["system"],
        relevant_grade=arguments.spec["config"]["relevant_grade"],
    )
    manifest.write(outputs=[arguments.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
