"""Merge the hits of all shards of a collection into one run.

    python workflow_scripts/merge.py --spec '{"config": {"depth": 1000, "dataset": {"split": null}}, ...}' \\
        --rows results/msmarco/systems/condenser-round1/seed42/search/dev.{0,1}-of-2.rows.npy \\
        --scores results/msmarco/systems/condenser-round1/seed42/search/dev.{0,1}-of-2.scores.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt --queries results/msmarco/data/queries.dev.jsonl \\
        --output results/msmarco/systems/condenser-round1/seed42/run.dev.trec \\
        --manifest results/msmarco/systems/condenser-round1/seed42/run.dev.trec.manifest.json

Reads rows and scores of the shards, in order, and the ids; with --subset the run is of those queries alone.
Writes a TREC run and the manifest. Settings: `depth`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--scores", type=Path, nargs="+", required=True)
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--subset", type=Path, help="ids of the queries that were searched; else all")
    parser.add_argument("--output", type=Path, required=True, help="the run")
    arguments = parser.parse_args(argv)
    if len(arguments.rows) != len(arguments.scores):
        parser.error(f"{len(arguments.rows)} files of rows, but {len(arguments.scores)} of scores")
    inputs = [*arguments.rows, *arguments.scores, arguments.doc_ids, arguments.queries]
    inputs += [arguments.subset] if arguments.subset else []
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=inputs)

    from condenser.data.records import read_doc_ids, read_queries, write_run
    from condenser.data.subsets import read_subset
    from condenser.retrieve.search import merged_run

    query_ids = [query.query_id for query in read_queries(arguments.queries)]
    if arguments.subset:
        wanted = read_subset(arguments.subset)
        query_ids = [query_id for query_id in query_ids if query_id in wanted]
    run = merged_run(
        list(zip(arguments.rows, arguments.scores, strict=True)),
        query_ids,
        read_doc_ids(arguments.doc_ids),
        depth=arguments.spec["config"]["depth"],
        is_split=arguments.spec["config"]["dataset"]["split"] is not None,
    )
    num_hits = write_run(arguments.output, run, system=arguments.spec["wildcards"]["system"])
    manifest.write(outputs=[arguments.output], counts={"queries": len(query_ids), "hits": num_hits})


if __name__ == "__main__":
    program.run(main)
