"""Tokenise one shard of a collection.

    python workflow_scripts/tokens.py \\
        --spec '{"config": {"encode": {"block_rows": 1024, "separator": "titled"}}, ...}' \\
        --collection results/msmarco/data/collection.jsonl --doc-ids results/msmarco/data/doc_ids.txt \\
        --tokenizer results/msmarco/models/backbone --shard 0-of-2 \\
        --output-prefix results/msmarco/tokens/backbone/collection.0-of-2 \\
        --manifest results/msmarco/tokens/backbone/collection.0-of-2.manifest.json

Reads the collection, its ids and a model's tokenizer. Writes PREFIX.tokens.npy,
PREFIX.sentence_lengths.npy, PREFIX.num_sentences.npy, PREFIX.counts.json (rows by their length, words and
unknown words) and the manifest, which counts rows, rows with a
title, rows without tokens, sentences and tokens. Settings: `encode.block_rows`; shards are cut at multiples
of it. `encode.separator`: `always` puts a [SEP] also before a passage without a title.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest

BATCH_ROWS = 512  # few enough that a batch's Python objects stay cheap; changes no byte


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--collection", type=Path, required=True, help="collection.jsonl")
    parser.add_argument("--doc-ids", type=Path, required=True, help="doc_ids.txt")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with the tokenizer")
    parser.add_argument("--shard", required=True, help="for example 0-of-2")
    parser.add_argument("--output-prefix", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.data.tokens import Tokenizer, counts_file, shard_files, tokenise_collection

    manifest = Manifest(
        args.manifest, args.spec, inputs=[args.collection, args.doc_ids, args.tokenizer / "tokenizer.json"]
    )
    settings = args.spec["config"]["encode"]
    counts = tokenise_collection(
        args.collection,
        args.doc_ids,
        args.output_prefix,
        Tokenizer(args.tokenizer),
        shard=args.shard,
        multiple_of=settings["block_rows"],
        leading_separator=settings["separator"] == "always",
        batch_size=BATCH_ROWS,
    )
    manifest.write(outputs=[*shard_files(args.output_prefix), counts_file(args.output_prefix)], counts=counts)


if __name__ == "__main__":
    program.run(main)
