"""Tokenise the queries of one split.

    python workflow_scripts/query_tokens.py --spec '{"config": {}, ...}' \\
        --queries results/msmarco/data/queries.dev.jsonl --tokenizer results/msmarco/models/backbone \\
        --output-prefix results/msmarco/tokens/backbone/queries.dev \\
        --manifest results/msmarco/tokens/backbone/queries.dev.manifest.json

Reads the queries and a model's tokenizer. Writes PREFIX.tokens.npy,
PREFIX.sentence_lengths.npy, PREFIX.num_sentences.npy (a query is one sentence after an empty title),
PREFIX.counts.json (rows by their length, words and unknown words) and the manifest, which counts rows, rows
without tokens and tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest

BATCH_ROWS = 4096  # changes no byte


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--queries", type=Path, required=True, help="queries.SPLIT.jsonl")
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder with the tokenizer")
    parser.add_argument("--output-prefix", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.data.tokens import Tokenizer, counts_file, shard_files, tokenise_queries

    manifest = Manifest(args.manifest, args.spec, inputs=[args.queries, args.tokenizer / "tokenizer.json"])
    counts = tokenise_queries(
        args.queries, args.output_prefix, Tokenizer(args.tokenizer), batch_size=BATCH_ROWS
    )
    manifest.write(outputs=[*shard_files(args.output_prefix), counts_file(args.output_prefix)], counts=counts)


if __name__ == "__main__":
    program.run(main)
