"""Add up how long the texts of a data set are, by the tokenizer of a model.

    python workflow_scripts/lengths.py --spec '{"config": {}, ...}' --model results/msmarco/models/backbone \\
        --passages results/msmarco/tokens/backbone/collection.0-of-1.counts.json \\
        --queries results/msmarco/tokens/backbone/queries.train.counts.json ... \\
        --output results/msmarco/tokens/backbone/lengths.json \\
        --manifest results/msmarco/tokens/backbone/lengths.json.manifest.json

Reads the counts of all token shards, of the passages and of the queries of all splits, and the number of
positions, the prompts and the assumptions of the model. Writes them together as JSON, and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--passages", type=Path, nargs="+", required=True, help="the counts of all shards")
    parser.add_argument("--queries", type=Path, nargs="*", default=[], help="those of all splits")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)
    files = [
        args.model / name for name in ("config.json", "tokenizer.json", "config_sentence_transformers.json")
    ]
    manifest = Manifest(args.manifest, args.spec, inputs=[*files, *args.passages, *args.queries])

    from condenser.data.lengths import TextLengths, counts_of, total
    from condenser.data.tokens import Tokenizer
    from condenser.files import read_json
    from condenser.model.text_vector import Role, assumptions, read_text_vector

    num_positions = read_json(args.model / "config.json")["max_position_embeddings"]
    tokenizer, vector = Tokenizer(args.model), read_text_vector(args.model)
    roles: tuple[Role, ...] = ("query", "passage")
    lengths = TextLengths(
        num_positions,
        total(counts_of(read_json(file)) for file in args.passages),
        {file.name.split(".")[1]: counts_of(read_json(file)) for file in args.queries},
        {role: len(tokenizer.encode_prompt(vector.prompt(role), max_tokens=num_positions)) for role in roles},
        assumptions(args.model),
    )
    lengths.write(args.output)
    counts = {"passages": lengths.passages.num_rows, "tokens": lengths.passages.num_tokens}
    manifest.write(outputs=[args.output], counts=counts)


if __name__ == "__main__":
    program.run(main)
