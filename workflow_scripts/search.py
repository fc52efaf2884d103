"""Search one shard of embeddings exhaustively with every query of a split.

    python workflow_scripts/search.py \\
        --spec '{"config": {"depth": 1000, "encode": {"block_rows": 1024}, ...}, ...}' --shard 0-of-2 \\
        --embeddings results/msmarco/systems/condenser-round1/seed42/embeddings/collection.0-of-2.npy \\
        --queries results/msmarco/systems/condenser-round1/seed42/embeddings/queries.dev.npy \\
        --doc-ids results/msmarco/data/doc_ids.txt --work-folder results/.work/search-0123 \\
        --rows results/msmarco/systems/condenser-round1/seed42/search/dev.0-of-2.rows.npy \\
        --scores results/msmarco/systems/condenser-round1/seed42/search/dev.0-of-2.scores.npy \\
        --manifest results/msmarco/systems/condenser-round1/seed42/search/dev.0-of-2.manifest.json

Reads the embeddings of the shard and of the queries. Writes the best rows (int64, counted over the
whole collection) and their scores (float32), [query, rank], and the manifest. Finished blocks of
queries are kept in the work folder until the files are complete. Settings: `depth`, `encode.block_rows`,
`compute.threads`, `compute.device`, `dataset.split`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--embeddings", type=Path, required=True)
    parser.add_argument("--shard", required=True, help="for example 0-of-2")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True, help="their embeddings")
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--scores", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.rows.name
    manifest = Manifest(
        arguments.manifest,
        arguments.spec,
        inputs=[arguments.embeddings, arguments.queries, arguments.doc_ids],
    )

    from condenser.data.records import count_doc_ids, read_doc_ids
    from condenser.data.tokens import shard_rows
    from condenser.retrieve.documents import documents_of_rows
    from condenser.retrieve.search import search_device, search_shard

    compute = config["compute"]
    device = search_device(compute["device"], threads=compute["threads"])
    first_row, end_row = shard_rows(
        count_doc_ids(arguments.doc_ids), arguments.shard, multiple_of=config["encode"]["block_rows"]
    )
    documents = None
    if config["dataset"]["split"]:
        documents = documents_of_rows(read_doc_ids(arguments.doc_ids)[first_row:end_row])
    counts = search_shard(
        arguments.embeddings,
        arguments.queries,
        arguments.rows,
        arguments.scores,
        first_row=first_row,
        depth=config["depth"],
        block_rows=config["encode"]["block_rows"],
        threads=compute["threads"],
        device=device,
        documents=documents,
        work_folder=manifest.own_folder(work_folder),
    )
    manifest.write(
        outputs=[arguments.rows, arguments.scores],
        counts=counts,
        device=f"{device.type} fp32" if device else "cpu",
        work_folder=work_folder,
    )


if __name__ == "__main__":
    program.run(main)
