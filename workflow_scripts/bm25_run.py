"""Search a BM25 index with every query of a split.

    python workflow_scripts/bm25_run.py \\
        --spec '{"config": {"system": {"k1": 0.82, "b": 0.68, ...}, "depth": 1000, ...}, ...}' \\
        --index results/msmarco/bm25/index --queries results/msmarco/data/queries.dev.jsonl \\
        --threads 2 --heap-mb 1500 --work-folder results/.work/bm25_run-0123 \\
        --output results/msmarco/systems/bm25/untrained/run.dev.trec \\
        --manifest results/msmarco/systems/bm25/untrained/run.dev.trec.manifest.json

Reads the index and the queries; writes a TREC run and the manifest. Finished blocks of queries
are kept in the work folder until the run is complete. Settings: `system.k1`, `system.b`,
`system.language`, `depth`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True, help="changes no result")
    parser.add_argument("--heap-mb", type=int, required=True, help="memory Java may use; changes no result")
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the run")
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.output.name
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=[arguments.index, arguments.queries])

    from condenser.retrieve.bm25 import search_bm25

    counts = search_bm25(
        arguments.index,
        arguments.queries,
        arguments.output,
        k1=config["system"]["k1"],
        b=config["system"]["b"],
        depth=config["depth"],
        language=config["system"]["language"],
        threads=arguments.threads,
        heap_mb=arguments.heap_mb,
        work_folder=manifest.own_folder(work_folder),
        system=arguments.spec["wildcards"]["system"],
        is_split=config["dataset"]["split"] is not None,
    )
    manifest.write(outputs=[arguments.output], counts=counts, work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
