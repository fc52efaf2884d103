"""What files belong together by their names: those of a token shard, and of an encoder."""

from __future__ import annotations

from pathlib import Path

PARTS = ("tokens", "sentence_lengths", "num_sentences")


def shard_files(prefix: str | Path) -> list[Path]:
    """The files of the shard behind a prefix, in the order of `PARTS`."""
    prefix = Path(prefix)
    return [prefix.with_name(f"{prefix.name}.{part}.npy") for part in PARTS]


def counts_file(prefix: str | Path) -> Path:
    """The counts beside the shard behind a prefix."""
    prefix = Path(prefix)
    return prefix.with_name(f"{prefix.name}.counts.json")


def prefix_of(tokens_file: str | Path) -> Path:
    """The prefix of the shard that a tokens file belongs to.

    >>> str(prefix_of("a/queries.dev.tokens.npy"))
    'a/queries.dev'
    """
    tokens_file = Path(tokens_file)
    return tokens_file.with_name(tokens_file.name.removesuffix(f".{PARTS[0]}.npy"))


QUERY_FOLDER = "query"
"""Where an untied retriever has its query encoder, inside the folder that holds its passage encoder."""


def encoder_files(folder: Path) -> list[Path]:
    """The files of an encoder's folder, without those of another encoder inside it."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in files if QUERY_FOLDER not in file.relative_to(folder).parts[:-1])
