"""Queries without judgements, such as a blind test set or a query log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import json_query, tsv_query
from condenser.data.records import read_queries
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


def new_queries(queries: Path, known: Sequence[Path]) -> frozenset[str]:
    """The ids of the queries that no other file has, neither their id nor their text.

    Texts that differ only in case or white space are the same. So no query that is evaluated on, or held out,
    is trained on under another id.
    """
    ids, texts = set[str](), set[str]()
    for file in known:
        for query in read_queries(file):
            ids.add(query.query_id)
            texts.add(_plain(query.text))
    found = (query for query in read_queries(queries) if query.query_id not in ids)
    return frozenset(query.query_id for query in found if _plain(query.text) not in texts)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
