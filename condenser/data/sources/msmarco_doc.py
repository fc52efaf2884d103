"""MS MARCO documents from the official file: texts to pre-train on, longer than the passages.

A row is `id<tab>url<tab>title<tab>body`, without a header. Source of the form and of the number of rows:
microsoft.github.io/msmarco.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from condenser.data.archives import open_gzip
from condenser.data.canonical import CanonicalFiles
from condenser.data.official import check_official_rows
from condenser.data.parsing import Row, tab_columns
from condenser.data.records import Passage
from condenser.settings import Texts

DOCUMENTS = "msmarco-docs.tsv.gz"
OFFICIAL_ROWS = {DOCUMENTS: 3_213_835}


class Settings(Texts):
    """Texts without queries, for pre-training."""


def raw_files(settings: Mapping[str, Any]) -> list[str]:
    """The official file."""
    return [DOCUMENTS]


def local_files(settings: Mapping[str, Any]) -> list[Path]:
    """None: everything is downloaded."""
    return []


def collect(
    folder: Path,
    raw: Mapping[str, Path],
    *,
    bad_rows: str,
    official_rows: Mapping[str, int] = OFFICIAL_ROWS,
    **_: Any,
) -> dict[str, Any]:
    """Write the documents as a collection, with their titles; gives the counts.

    A document whose body is empty is left out, and counted as `without_text`.

    Raises:
        ValueError: the file is damaged, has a row that does not fit, or another number of rows than the
            official one (`official_rows`).
    """
    with CanonicalFiles(folder, bad_rows=bad_rows) as files:
        files.write_collection(_documents(raw[DOCUMENTS], files), num_rows=official_rows[DOCUMENTS])
        check_official_rows(files.counts["files"], [DOCUMENTS], official_rows)
        return files.counts


def _documents(path: Path, files: CanonicalFiles) -> Iterator[Row[Passage]]:
    with open_gzip(path) as stream:
        for row in files.stream_rows(str(path), stream, _document):
            if isinstance(row.record, Passage) and not row.record.text.strip():
                files.tally(path).update(rows=1, without_text=1)
            else:
                yield row


def _document(line: bytes) -> Passage:
    doc_id, _, title, body = tab_columns(line, names=("id", "url", "title", "body"))
    return Passage(doc_id, title.strip(), body)
