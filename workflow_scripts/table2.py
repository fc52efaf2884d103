"""Make coCondenser's Table 2 from the metrics of all systems, and show it.

    python workflow_scripts/table2.py --spec '{"config": {"batch_size": 8, ...}, "seed": 42, ...}' \\
        --metrics condenser-round1=results/msmarco/metrics/condenser-round1.dev.json \\
        bm25=results/msmarco/metrics/bm25.dev.json --counts results/msmarco/data/counts.json \\
        --output results/msmarco/table2.tsv --manifest results/msmarco/table2.manifest.json

Reads the metrics and the counts of the collection; writes the table as TSV and the manifest.
Settings: `batch_size`, `passages_per_query`, `source` (of the data set), `eval` (depth of its runs) and
the backbone's `id`, `path` or shape.
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
    parser.add_argument("--metrics", nargs="+", required=True, metavar="SYSTEM=FILE")
    parser.add_argument("--counts", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    if not all("=" in pair for pair in arguments.metrics):
        parser.error("--metrics: expected SYSTEM=FILE each time")
    files = {system: Path(file) for system, file in (pair.split("=", 1) for pair in arguments.metrics)}
    spec, config = arguments.spec, arguments.spec["config"]
    manifest = program.Manifest(arguments.manifest, spec, inputs=[*files.values(), arguments.counts])

    from condenser.evaluate import tables
    from condenser.files import read_json

    results, num_queries = tables.read_results(files)
    table = tables.table2(
        results,
        dataset=spec["wildcards"]["dataset"],
        source=config["source"],
        num_passages=read_json(arguments.counts)["passages"],
        num_queries=num_queries,
        depth=config["eval"],
        batch_size=config["batch_size"] * config["passages_per_query"],
        backbone=tables.backbone_name(config),
        seed=spec["seed"],
    )
    tables.write_table(arguments.output, table)
    print(tables.rendered(table))
    manifest.write(outputs=[arguments.output], counts={"rows": len(table)})


if __name__ == "__main__":
    program.run(main)
