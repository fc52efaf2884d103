"""Texts without queries, for pre-training at the papers' scale: Wikipedia and BookCorpus.

Each part is a dataset of the Hugging Face hub, read as a stream, or a folder in such a dataset's
layout (`[config/]...<split>*.parquet` or `.jsonl`). The hub's client reads streams and Parquet, one
file at a time; JSON Lines are read here, as it takes texts that look like dates or numbers for such.
Source of the two corpora: Cond §4.1; of one paragraph a record: luyug/Condenser.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import BadRow, Row, json_object, preview
from condenser.data.records import Passage
from condenser.nouns import Texts
from condenser.program import check_proxies
from condenser.settings import Block, Count, HomePath

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")
_STRINGS = ("string", "large_string", "string_view", "null")  # a null column has no text: its rows say so


class Part(Block):
    """One collection of texts on the hub, or a folder in its layout."""

    id: HomePath  # a data set of the hub, or a folder in its layout
    config: str | None = None  # a part of the data set, as the hub names it
    split: str = "train"  # as the hub names it
    column: str = "text"  # of the texts
    revision: str | None = None  # a commit; null: the newest one, which is recorded
    rows_per_passage: Count = 1  # rows that are joined to a text
    whole_rows: bool = False  # take a row as one text instead of cutting it at its lines
    min_words: Count = 1  # of a text; shorter ones are left out and counted
    max_rows: Count | None = None  # take the first rows alone


class Settings(Texts):
    """Texts without queries, for pre-training."""

    NEEDS_NETWORK = True

    parts: Annotated[list[Part], Field(min_length=1)]
    # stop at a row that cannot be used, or leave it out and count it
    bad_rows: Literal["strict", "skip"] = "skip"

    def local_files(self) -> list[Path]:
        return files_of(self.parts)

    def written_paths(self) -> dict[str, str]:
        return {f"parts[{number}].id": part.id for number, part in enumerate(self.parts)}


def files_of(parts: Sequence[Part]) -> list[Path]:
    """The files of the parts that are folders."""
    return [
        file
        for part in parts
        if Path(part.id).is_dir()
        for file in part_files(Path(part.id), part.config, part.split)
    ]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the texts of all parts, one after the other, as a collection; gives the counts.

    With one row a passage, a row is split at blank lines into paragraphs, each a passage with the row's
    `title`; with `whole_rows` its paragraphs are one passage (an article). With more rows a passage, as many
    consecutive rows are joined by spaces (BookCorpus has a sentence a row). A paragraph of fewer than
    `min_words` words (Wikipedia's headings) is passed over, and counted. Ids count the passages from 0, those
    rejected included, so that none shifts when a row is left out. Of parts on the hub the counts have the
    commits, as `revisions`.

    Raises:
        ValueError: a part cannot be opened, or has no text in its column; a row has no text or one that
            is empty or broken, or a title that is no text (with `bad_rows` "strict").
    """
    short: Counter[str] = Counter()
    commits = dict[str, str]()

    def rows() -> Iterator[Row[Passage]]:
        number = 0
        for part in settings.parts:
            for row in part_passages(part, files, short, commits):
                if isinstance(row.record, Passage):
                    row = Row(row.file, row.line, Passage(str(number), row.record.title, row.record.text))
                # a row that is no text counts as a passage, unless one is made of the rows around it
                number += isinstance(row.record, Passage) or part.rows_per_passage == 1
                yield row

    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        files.write_collection(rows())
        revisions = {"revisions": commits} if commits else {}
        return files.counts | {"short_passages": dict(short)} | revisions


def part_passages(
    part: Part, files: CanonicalFiles, short: Counter[str], commits: dict[str, str]
) -> Iterator[Row[Passage]]:
    """The passages of one part, still without ids; rows are counted from 1 in each file, or on the hub.

    `short` counts its short passages, `commits` gets its commit on the hub.

    Raises:
        ValueError: the part cannot be opened or read, or no row of it has its column.
    """
    column, name = part.column, part.id
    per_passage, min_words = part.rows_per_passage, part.min_words
    has_column = False
    rows = islice(_part_rows(part, files, commits), part.max_rows)
    while group := list(islice(rows, per_passage)):
        texts, title = list[str](), ""
        for row in group:
            has_column = has_column or (isinstance(row.record, dict) and column in row.record)
            try:
                text = _text(row.record, column)
                title = _title(row.record) if per_passage == 1 else ""
            except BadRow as unfit:
                yield Row(row.file, row.line, unfit)
            else:
                texts.append(text)
        pieces = _BLANK_LINES.split("".join(texts)) if per_passage == 1 else [" ".join(texts)]
        if part.whole_rows:
            long = [piece.strip() for piece in pieces if len(piece.split()) >= min_words]
            short[name] += (len(pieces) - len(long)) if texts else 0
            pieces = ["\n".join(long)] if long else []
        for piece in pieces:
            if len(piece.split()) < min_words:
                short[name] += bool(texts)
            else:
                yield Row(group[0].file, group[0].line, Passage("", title, piece.strip()))
    if not has_column:
        raise ValueError(
            f"{name}: expected rows with a column {preview(column)}, got none. "
            "Are its files whole, and is `column` right?"
        )


def _text(record: dict[str, Any] | BadRow, column: str) -> str:
    if isinstance(record, BadRow):
        raise record
    if column not in record:
        raise BadRow(f"a column {preview(column)}", f"only {preview(sorted(record))}", "Set `column`.")
    if not isinstance(record[column], str):
        raise BadRow("a text", preview(record[column]), "Repair the row.")
    return record[column]


def _title(record: dict[str, Any] | BadRow) -> str:
    title = None if isinstance(record, BadRow) else record.get("title")
    if title is not None and not isinstance(title, str):
        raise BadRow("a title that is text", preview(title), "Write it as text.")
    return title or ""


def _part_rows(part: Part, files: CanonicalFiles, commits: dict[str, str]) -> Iterator[Row[dict[str, Any]]]:
    """The rows of one part, in the order of its files."""
    folder, column = Path(part.id), part.column
    if not folder.is_dir():
        dataset, commits[part.id] = open_hub(part)
        yield from _dataset_rows(part.id, dataset, column)
        return
    paths = part_files(folder, part.config, part.split)
    files.add_part(folder, paths)
    for file in paths:
        if file.suffix == ".jsonl":
            yield from files.rows(file, json_object)
        else:
            yield from _dataset_rows(str(file), open_parquet(file), column)


def _dataset_rows(name: str, dataset: Any, column: str) -> Iterator[Row[dict[str, Any]]]:
    """The rows of an opened dataset.

    Raises:
        ValueError: its column is missing or holds no strings, or it cannot be read to its end.
    """
    if (types := dataset.features) is not None:
        if column not in types:
            raise ValueError(
                f"{name}: expected a column {preview(column)}, got only {preview(sorted(types))}. "
                "Set `column`."
            )
        if getattr(types[column], "dtype", None) not in _STRINGS:
            raise ValueError(
                f"{name}: expected strings in the column {preview(column)}, got {preview(types[column])}. "
                "Set `column`, or write the texts as strings."
            )
    number = 0
    try:
        for number, record in enumerate(dataset, start=1):
            yield Row(name, number, record)
    except (OSError, ValueError) as error:  # of the client that reads and decodes
        raise ValueError(
            f"{name}: expected rows to read behind row {number:,}, got damaged ones "
            f"({_first_line(error)}). Repair the file, or fetch it again."
        ) from error


def open_hub(part: Part) -> tuple[Any, str]:
    """The dataset of the hub that is a part, as a stream; and its commit.

    Raises:
        ValueError: the hub has no such dataset, or cannot be reached.
    """
    import datasets  # takes seconds to import

    check_proxies()
    split = part.split
    try:
        builder = datasets.load_dataset_builder(part.id, part.config, revision=part.revision)
        return builder.as_streaming_dataset(split=split), str(builder.hash)
    except (OSError, ValueError, StopIteration) as error:  # the last of a file without a row
        raise ValueError(
            f"{part.id}: expected a dataset of the hub or a folder in its layout ({_first_line(error)}). "
            "Is the network there, and the name right?"
        ) from error


def open_parquet(file: Path) -> Any:
    """A Parquet file as a stream of rows, by itself: of several the client casts all to the first's types.

    Raises:
        ValueError: it is no Parquet file, or damaged.
    """
    import datasets  # takes seconds to import

    try:
        return datasets.load_dataset("parquet", data_files=[str(file)], split="train", streaming=True)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{file}: expected a Parquet file, got a damaged one ({_first_line(error)}). "
            "Repair the file, or fetch it again."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def part_files(folder: Path, config: str | None, split: str) -> list[Path]:
    """The files of one split in a folder, in order of their names.

    Raises:
        ValueError: there are none.
    """
    base = folder / config if config else folder
    paths = sorted(base.rglob(f"{split}*.parquet")) or sorted(base.rglob(f"{split}*.jsonl"))
    if not paths:
        raise ValueError(
            f"{base}: expected {split}*.parquet or {split}*.jsonl, got none. Is the layout the hub's?"
        )
    return paths
