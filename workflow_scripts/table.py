"""Make a table from the metrics of its rows, and show it.

    python workflow_scripts/table.py --spec '{"config": {"table": {"rows": [...], ...}, ...}, ...}' \\
        --metrics results/msmarco/systems/bm25/untrained/metrics.dev.json ... \\
        --counts results/msmarco/data/counts.json --output results/msmarco/table2.tsv \\
        --manifest results/msmarco/table2.tsv.manifest.json

Reads the metrics of every row and variant, query by query, in the order of the spec's rows, and the counts of
the collection; with --models instead of --metrics, where no query is judged, the cells of the measures are
empty; with --published the figures of the paper, which stand in the table only beside a run on the official
collection. Writes the table as TSV and the manifest.
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
    of_rows = parser.add_mutually_exclusive_group(required=True)
    of_rows.add_argument("--metrics", type=Path, nargs="+", default=[])
    of_rows.add_argument("--models", type=Path, nargs="*", help="what the rows are made of")
    parser.add_argument("--counts", type=Path, required=True)
    parser.add_argument("--published", type=Path, help="a file of condenser/evaluate/published/")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config, published = args.spec["config"], [args.published] if args.published else []
    rows = config["table"]["rows"]
    names = [(row["system"], variant) for row in rows for variant in row["variants"]]
    if args.models is None and len(names) != len(args.metrics):
        parser.error(f"--metrics: expected {len(names)} files for the rows, got {len(args.metrics)}")
    inputs = [*args.metrics, *(args.models or []), args.counts, *published]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.evaluate import published as figures
    from condenser.evaluate import tables
    from condenser.evaluate.comparisons import measured
    from condenser.files import read_json

    metrics = dict(zip(names, args.metrics, strict=True)) if args.metrics else {}
    measures = config["table"]["measures"]
    found = measured(
        rows, config["table"]["comparisons"], metrics, measures=measures, **config["significance"]
    )
    counts = read_json(args.counts)
    table = tables.make_table(
        rows,
        metrics,
        measures=measures,
        found=found,
        starts=config["table"]["starts"],
        published=figures.read(args.published) if args.published else [],
        dataset=args.spec["wildcards"]["dataset"],
        source=config["dataset"]["source"],
        num_passages=counts["passages"],
        num_shared_queries=sum(counts.get("queries_shared_by_splits", {}).values()),
        official=counts.get("official"),
    )
    tables.write_table(args.output, table)
    print(tables.rendered(table, confidence=config["significance"]["confidence"]))
    manifest.write(outputs=[args.output], counts={"rows": len(table)})


if __name__ == "__main__":
    program.run(main)
