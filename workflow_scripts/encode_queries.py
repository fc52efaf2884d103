"""Embed the queries of a split with a retriever.

    python workflow_scripts/encode_queries.py --spec '{"config": {"query": 32, ...}, ...}' \\
        --retriever results/msmarco/models/condenser-round1 \\
        --tokens results/msmarco/tokens/queries.dev --queries results/msmarco/data/queries.dev.jsonl \\
        --work-folder results/.work/encode_queries-0123 \\
        --output results/msmarco/embeddings/condenser-round1/queries.dev.npy \\
        --manifest results/msmarco/embeddings/condenser-round1/queries.dev.manifest.json

Reads the retriever and the queries' tokens (by prefix); the queries only to name one in an error.
Writes float32 [query, dim] and the manifest; finished blocks are kept in the work folder.
Settings: `query`, `batch_tokens`, `block_rows`, `threads`, `device`, `precision`.
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
    parser.add_argument("--retriever", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--tokens", type=Path, required=True, help="prefix of the queries' tokens")
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.output.name

    from condenser.data.records import read_queries
    from condenser.data.tokens import shard_files
    from condenser.model.devices import claim_visible_gpus
    from condenser.retrieve.encode import encode_shard

    prefixes = [arguments.tokens]
    tokens = [file for prefix in prefixes for file in shard_files(prefix)]
    manifest = program.Manifest(
        arguments.manifest, arguments.spec, inputs=[arguments.retriever, *tokens, arguments.queries]
    )
    if config["device"] != "cpu":
        claim_visible_gpus(count=1)
    counts, device = encode_shard(
        arguments.retriever,
        prefixes,
        arguments.output,
        shard="0-of-1",
        max_tokens=config["query"],
        batch_tokens=config["batch_tokens"],
        block_rows=config["block_rows"],
        threads=config["threads"],
        device=config["device"],
        precision=config["precision"],
        work_folder=manifest.own_folder(work_folder),
        name_of_row=lambda row: f"query {list(read_queries(arguments.queries))[row].query_id}",
    )
    manifest.write(outputs=[arguments.output], counts=counts, device=device, work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
