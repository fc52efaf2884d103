"""Embed the queries of a split with a retriever.

    python workflow_scripts/encode_queries.py \\
        --spec '{"config": {"recipe": {"lengths": {"query": 32}}, ...}, ...}' \\
        --retriever results/msmarco/systems/condenser-round1/seed42/model \\
        --tokens results/msmarco/tokens/backbone/queries.dev.tokens.npy \\
        --queries results/msmarco/data/queries.dev.jsonl --work-folder results/.work/encode_queries-0123 \\
        --output results/msmarco/systems/condenser-round1/seed42/embeddings/queries.dev.npy \\
        --manifest results/msmarco/systems/condenser-round1/seed42/embeddings/queries.dev.manifest.json

Reads the retriever (if it has two encoders, that of queries), the tokens of the queries, and the queries
themselves: to name one in an error, and to find those of --subset, the only ones that are embedded then.
Writes float32 [query, dim] and the manifest. Finished blocks are kept in the work folder until the file is
complete. Settings: `recipe.lengths.query`, `encode`, `compute`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--retriever", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--tokens", type=Path, required=True, help="the queries' tokens")
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--subset", type=Path, help="ids of the queries to embed; else all")
    parser.add_argument("--lengths", type=Path, help="lengths.json, where a length of the recipe is auto")
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.output.name

    from condenser.data.lengths import resolved
    from condenser.data.records import read_queries
    from condenser.data.subsets import read_subset
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.model.devices import set_up
    from condenser.model.untied import query_encoder_folder
    from condenser.retrieve.encode import encode_texts

    prefix, encoder = prefix_of(arguments.tokens), query_encoder_folder(arguments.retriever)
    inputs = [encoder, *shard_files(prefix), arguments.queries]
    rows = None
    if arguments.subset:
        inputs.append(arguments.subset)
        wanted = read_subset(arguments.subset)
        ids = (query.query_id for query in read_queries(arguments.queries))
        rows = [row for row, query_id in enumerate(ids) if query_id in wanted]
    if arguments.lengths:
        inputs.append(arguments.lengths)
    manifest = Manifest(arguments.manifest, arguments.spec, inputs=inputs)
    compute = set_up(**config["compute"])
    counts = encode_texts(
        encoder,
        prefix,
        arguments.output,
        rows=rows,
        role="query",
        max_tokens=resolved(config["recipe"]["lengths"], arguments.lengths)["query"],
        **config["encode"],
        compute=compute,
        work_folder=manifest.own_folder(work_folder),
        name_of_row=lambda row: f"query {list(read_queries(arguments.queries))[row].query_id}",
    )
    manifest.write(outputs=[arguments.output], counts=counts, device=str(compute), work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
