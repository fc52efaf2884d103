"""Tables exported from a spreadsheet, without headers and without line breaks inside a cell.

`passages.csv` (id, text), `queries.<split>.csv` (id, text), `judgements.<split>.csv` (query id, passage id,
grade).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import BadRow, decode, preview, whole_grade
from condenser.data.records import Passage, Qrel, Query
from condenser.nouns import JudgedTexts


class Settings(JudgedTexts):
    """The folder of the user's files."""

    path: str

    def local_files(self) -> list[Path]:
        """The passages, and queries and judgements of the two splits."""
        tables = [f"{table}.{split}.csv" for table in ("queries", "judgements") for split in self.splits]
        return [Path(self.path, name) for name in ("passages.csv", *tables)]


def collect(folder: Path, raw: Mapping[str, Path], settings: Settings) -> dict[str, Any]:
    """Write the canonical files into `folder`; gives the counts."""
    splits, place = settings.splits, Path(settings.path)
    with CanonicalFiles(folder, bad_rows=settings.bad_rows) as files:
        files.write_collection(files.rows(place / "passages.csv", _passage))
        files.write_splits(
            {split: files.rows(place / f"judgements.{split}.csv", _qrel) for split in splits},
            [((split,), files.rows(place / f"queries.{split}.csv", _query)) for split in splits],
        )
        return files.counts


def _passage(line: bytes) -> Passage:
    doc_id, text = _cells(line, names=("id", "text"))
    return Passage(doc_id, "", text)


def _query(line: bytes) -> Query:
    query_id, text = _cells(line, names=("id", "text"))
    return Query(query_id, text)


def _qrel(line: bytes) -> Qrel:
    query_id, doc_id, grade = _cells(line, names=("query id", "passage id", "grade"))
    return Qrel(query_id, doc_id, whole_grade(grade))


def _cells(line: bytes, *, names: tuple[str, ...]) -> list[str]:
    cells = next(csv.reader([decode(line)]))
    if len(cells) != len(names):
        advice = "Export it with commas, one row a line."
        raise BadRow(f"{len(names)} cells ({', '.join(names)})", f"{len(cells)} in {preview(line)}", advice)
    return cells
