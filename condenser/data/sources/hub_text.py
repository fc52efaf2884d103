"""Texts without queries, for pre-training at the papers' scale: Wikipedia and BookCorpus.

Each part is a dataset of the Hugging Face hub, read as a stream, or a folder in such a dataset's
layout (`[config/]...<split>*.parquet` or `.jsonl`). Source of the two corpora: Cond §4.1; of one
paragraph a record: luyug/Condenser.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import Row, Unfit, preview
from condenser.data.records import Passage

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def raw_files(settings: Mapping[str, Any]) -> list[str]:
    """None: the hub's client fetches what it reads."""
    return []


def local_files(settings: Mapping[str, Any]) -> list[Path]:
    """The files of the parts that are folders."""
    return [
        file
        for part in settings["parts"]
        if Path(part["id"]).is_dir()
        for file in part_files(Path(part["id"]), part.get("config"), part.get("split", "train"))
    ]


def collect(
    folder: Path, raw: Mapping[str, Path], *, parts: Sequence[Mapping[str, Any]], bad_rows: str, **_: Any
) -> dict[str, Any]:
    """Write the texts of all parts, one after the other, as a collection; gives the counts.

    A part has `id` and may have `config`, `split` (train), `column` (text), `revision`,
    `rows_per_passage` (1), `min_words` (1) and `max_rows` (all). With one row a passage, a row is
    split at blank lines into paragraphs, each a passage with the row's `title`; with more, as many
    consecutive rows are joined by spaces (BookCorpus has a sentence a row). A passage of fewer than
    `min_words` words (Wikipedia's headings) is passed over, and counted. Ids count the passages from 0,
    those rejected included, so that none shifts when a row is left out.

    Raises:
        ValueError: a part cannot be opened or lacks its column, or a text is empty or broken (with
            `bad_rows` "strict").
    """
    short: Counter[str] = Counter()

    def rows() -> Iterator[Row[Passage]]:
        number = 0
        for part in parts:
            for row in part_passages(part, short):
                if isinstance(row.record, Passage):
                    row = Row(row.file, row.line, Passage(str(number), row.record.title, row.record.text))
                # a row that is no text counts as a passage, unless one is made of the rows around it
                number += isinstance(row.record, Passage) or part.get("rows_per_passage", 1) == 1
                yield row

    with CanonicalFiles(folder, bad_rows=bad_rows) as files:
        files.write_collection(rows())
        return files.counts | {"short_passages": dict(short)}


def part_passages(part: Mapping[str, Any], short: Counter[str]) -> Iterator[Row[Passage]]:
    """The passages of one part, still without ids; rows of the part are counted from 1."""
    column, name = part.get("column", "text"), part["id"]
    per_passage, min_words = part.get("rows_per_passage", 1), part.get("min_words", 1)
    records = _numbered_rows(part)
    while group := list(islice(records, per_passage)):
        first = group[0][0]
        texts = []
        for number, record in group:
            if column not in record:
                raise ValueError(
                    f"{name}: expected a column {column!r}, got {', '.join(sorted(record))}. Set `column`."
                )
            if isinstance(record[column], str):
                texts.append(record[column])
            else:
                unfit = Unfit("a text", preview(record[column]), "Repair the row, or set bad_rows: skip.")
                yield Row(name, number, unfit)
        pieces = _BLANK_LINES.split("".join(texts)) if per_passage == 1 else [" ".join(texts)]
        title = group[0][1].get("title") if per_passage == 1 else None
        for piece in pieces:
            if len(piece.split()) < min_words:
                short[name] += bool(texts)
            else:
                yield Row(name, first, Passage("", title or "", piece.strip()))


def _numbered_rows(part: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    rows = islice(open_part(part), part.get("max_rows"))
    try:
        for number, record in enumerate(rows, start=1):
            yield number, record
    except (OSError, ValueError) as error:  # of the client that reads and decodes
        raise ValueError(
            f"{part['id']}: expected rows to read behind row {number:,}, got damaged ones "
            f"({_first_line(error)}). Repair the file, or fetch it again."
        ) from error


def open_part(part: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The rows of one part, streamed in the order of its files.

    Raises:
        ValueError: the hub, or the folder, has no such dataset, or cannot be reached.
    """
    import datasets  # takes seconds to import

    split, config = part.get("split", "train"), part.get("config")
    try:
        if Path(part["id"]).is_dir():
            files = part_files(Path(part["id"]), config, split)
            kind = "parquet" if files[0].suffix == ".parquet" else "json"
            return datasets.load_dataset(
                kind, data_files=list(map(str, files)), split="train", streaming=True
            )
        return datasets.load_dataset(
            part["id"], config, split=split, revision=part.get("revision"), streaming=True
        )
    except (OSError, ValueError, StopIteration) as error:  # the last of a file without a row
        raise ValueError(
            f"{part['id']}: expected a dataset of the hub or a folder in its layout ({_first_line(error)}). "
            "Is the network there, and the name right?"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def part_files(folder: Path, config: str | None, split: str) -> list[Path]:
    """The files of one split in a folder, in order of their names.

    Raises:
        ValueError: there are none.
    """
    base = folder / config if config else folder
    found = sorted(base.rglob(f"{split}*.parquet")) or sorted(base.rglob(f"{split}*.jsonl"))
    if not found:
        raise ValueError(
            f"{base}: expected {split}*.parquet or {split}*.jsonl, got none. Is the layout the hub's?"
        )
    return found
