"""Queries without judgements, such as a blind test set or a query log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from condenser.data.canonical import CanonicalFiles
from condenser.data.parsing import json_query, tsv_query
from condenser.data.records import comparable, mark_texts_of_collection, read_queries, write_queries
from condenser.files import write_json


def collect_unjudged(
    file: Path, folder: Path, *, collection: Path, doc_ids: Path, is_split: bool, name: str, bad_rows: str
) -> dict[str, Any]:
    """Write `queries.<name>.jsonl`, `rejected.jsonl` and `counts.json` into `folder`; gives the counts.

    Queries that are texts of the collection themselves are marked, and counted as `queries_in_collection`.

    `file` is JSON Lines if its name says so (`_id`, `text`), else `id<tab>text`; each also as gzip.

    Raises:
        ValueError: a row does not fit (with `bad_rows` "strict"), an id occurs twice, or none is left.
    """
    is_json = file.name.removesuffix(".gz").endswith(".jsonl")
    with CanonicalFiles(folder, bad_rows=bad_rows) as files:
        files.write_unjudged(name, files.rows(file, json_query if is_json else tsv_query))
        counts = {key: files.counts[key] for key in ("files", "rejected", "queries")}
    written = folder / f"queries.{name}.jsonl"
    queries = {query.query_id: query for query in read_queries(written)}
    if num_marked := mark_texts_of_collection(queries, collection, doc_ids, is_split=is_split):
        counts["queries_in_collection"] = {name: num_marked}
        write_queries(written, queries.values())
    write_json(folder / "counts.json", counts)
    return counts


def new_queries(queries: Path, known: Sequence[Path]) -> frozenset[str]:
    """The ids of the queries whose text no other file has.

    Texts that differ only in case or white space are the same, and ids of two files have nothing to do with
    each other. So no query that is evaluated on, or held out, is trained on under another id.
    """
    texts = {comparable(query.text) for file in known for query in read_queries(file)}
    return frozenset(query.query_id for query in read_queries(queries) if comparable(query.text) not in texts)
