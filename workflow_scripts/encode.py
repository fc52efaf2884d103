"""Embed one shard of a collection's passages with a retriever.

    python workflow_scripts/encode.py --spec '{"config": {"passage": 128, ...}, ...}' \\
        --retriever results/msmarco/models/condenser-round1 --shard 0-of-2 \\
        --tokens results/msmarco/tokens/collection.0-of-2 results/msmarco/tokens/collection.1-of-2 \\
        --doc-ids results/msmarco/data/doc_ids.txt --work-folder results/.work/encode-0123 \\
        --output results/msmarco/embeddings/condenser-round1/collection.0-of-2.npy \\
        --manifest results/msmarco/embeddings/condenser-round1/collection.0-of-2.manifest.json

Reads the retriever and all token shards (by prefix, in order); the ids only to name a passage in
an error. Writes float32 [passage, dim] and the manifest; finished blocks are kept in the work
folder. Settings: `passage`, `batch_tokens`, `block_rows`, `threads`, `device`, `precision`.
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
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, help="prefixes of all shards")
    parser.add_argument("--shard", required=True, help="for example 0-of-2")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--work-folder", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]
    work_folder = arguments.work_folder / arguments.output.name

    from condenser.data.records import read_doc_ids
    from condenser.data.tokens import shard_files
    from condenser.model.devices import claim_visible_gpus
    from condenser.retrieve.encode import encode_shard

    prefixes = arguments.tokens
    tokens = [file for prefix in prefixes for file in shard_files(prefix)]
    manifest = program.Manifest(
        arguments.manifest, arguments.spec, inputs=[arguments.retriever, *tokens, arguments.doc_ids]
    )
    if config["device"] != "cpu":
        claim_visible_gpus(count=1)
    counts, device = encode_shard(
        arguments.retriever,
        prefixes,
        arguments.output,
        shard=arguments.shard,
        max_tokens=config["passage"],
        batch_tokens=config["batch_tokens"],
        block_rows=config["block_rows"],
        threads=config["threads"],
        device=config["device"],
        precision=config["precision"],
        work_folder=manifest.own_folder(work_folder),
        name_of_row=lambda row: f"passage {read_doc_ids(arguments.doc_ids)[row]}",
    )
    manifest.write(outputs=[arguments.output], counts=counts, device=device, work_folder=work_folder)


if __name__ == "__main__":
    program.run(main)
