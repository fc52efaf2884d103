"""Queries without judgements, such as a blind test set or a query log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import json_query, tsv_query
from condenser.files import write_json


def collect_unjudged(file: Path, folder: Path, *, name: str, bad_rows: str) -> dict[str, Any]:
    """Write `queries.<name>.jsonl`, `rejected.jsonl` and `counts.json` into `folder`; gives the counts.

    `file` is JSON Lines if its name says so (`_id`, `text`), else `id<tab>text`; each also as gzip.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), an id occurs twice, or none is left.
    """
    is_json = file.name.removesuffix(".gz").endswith(".jsonl")
    with CanonicalFiles(folder, bad_rows=bad_rows) as files:
        files.write_unjudged(name, files.rows(file, json_query if is_json else tsv_query))
        counts = {key: files.counts[key] for key in ("files", "rejected", "queries")}
    write_json(folder / "counts.json", counts)
    return counts
