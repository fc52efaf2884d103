"""BM25 of all train queries, from index to run, against Pyserini's batch_search and bm25s."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jobs
from jobs import K1, B
from measuring import Form, in_new_process, in_turn, lines, shares

from condenser.data.records import Query, ScoredDoc, read_passages, read_queries, write_queries, write_run
from condenser.retrieve.bm25 import find_java, index_collection

DEPTH = 200
PEERS = {"Pyserini's batch_search": 1.5, "bm25s with numba and a stemmer": 0.5}  # goals


def measure(form: Form) -> list[dict[str, Any]]:
    """Each in a new process, imports and the start of Java included."""
    data, folder = form.inputs / "data", form.work
    file, once = folder / "queries.jsonl", list(read_queries(data / "queries.train.jsonl"))
    queries = [Query(f"{n}-{query.query_id}", query.text) for n in range(form.size(1, 50)) for query in once]
    write_queries(file, queries)
    collection = data / "collection.jsonl"
    index_collection(collection, folder / "index", threads=form.threads, heap_mb=jobs.HEAP_MB)
    in_new_process(index_by_bm25s, data, folder)
    by = dict(zip(("ours", *PEERS), (ours, by_pyserini, by_bm25s), strict=True))
    works = {
        name: lambda work=work: in_new_process(work, data, folder, threads=form.threads)
        for name, work in by.items()
    }
    seconds = in_turn(works, repeats=3, clock=form.clock)
    write_queries(file, queries[:1])
    start = in_turn({"ours": works["ours"]}, repeats=3, clock=form.clock)["ours"]
    rates = {name: len(queries) / each for name, each in seconds.items()}
    return lines(
        "BM25 of all train queries", "queries/s", rates.pop("ours"), rates, goals=PEERS,
        profile=shares({"a run of one query": start}, seconds["ours"]),
        note=f"{len(queries):,} queries, depth {DEPTH}, whole processes, {seconds['ours']:.1f} s",
    )  # fmt: skip


def ours(data: Path, folder: Path, *, threads: int) -> None:
    """Our job."""
    index, queries = folder / "index", folder / "queries.jsonl"
    jobs.bm25(index, queries, folder / "ours.trec", depth=DEPTH, threads=threads)


def by_pyserini(data: Path, folder: Path, *, threads: int) -> None:
    """The same index."""
    java = find_java().parent.parent
    os.environ["JAVA_HOME"], os.environ["JVM_PATH"] = str(java), str(java / "lib" / "server" / "libjvm.so")
    os.environ["OPENAI_API_KEY"] = "unused"  # Pyserini's import asks for one
    import jnius_config

    add_options = jnius_config.add_options
    # the module is not in every Java runtime, and nothing needs it
    jnius_config.add_options = lambda *options: add_options(*(o for o in options if "incubator" not in o))
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(folder / "index"))
    searcher.set_bm25(K1, B)
    query_ids, texts = _queries(folder)
    found = searcher.batch_search(texts, query_ids, k=DEPTH, threads=threads)
    hits = (ScoredDoc(q, hit.docid, hit.score) for q in query_ids for hit in found.get(q, []))
    write_run(folder / "pyserini.trec", hits, system="bm25")


def index_by_bm25s(data: Path, folder: Path) -> None:
    """An index with the same k1 and b, English stopwords and the Snowball stemmer."""
    import bm25s

    texts = [passage.text for passage in read_passages(data / "collection.jsonl")]
    searcher = bm25s.BM25(k1=K1, b=B)
    searcher.index(_words(texts), show_progress=False)
    searcher.save(str(folder / "bm25s"))


def _queries(folder: Path) -> tuple[list[str], list[str]]:
    """Ids and texts."""
    queries = list(read_queries(folder / "queries.jsonl"))
    return [query.query_id for query in queries], [query.text for query in queries]


def _words(texts: list[str]) -> Any:
    import bm25s
    import Stemmer

    return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


def by_bm25s(data: Path, folder: Path, *, threads: int) -> None:
    """From its index to a run, by its numba backend."""
    import bm25s

    searcher = bm25s.BM25.load(str(folder / "bm25s"))
    searcher.backend = "numba"
    doc_ids = (data / "doc_ids.txt").read_text().splitlines()
    query_ids, texts = _queries(folder)
    rows, scores = searcher.retrieve(_words(texts), k=DEPTH, n_threads=threads, show_progress=False)
    hits = (
        ScoredDoc(query_id, doc_ids[row], score)
        for query_id, *found in zip(query_ids, rows.tolist(), scores.tolist(), strict=True)
        for row, score in zip(*found, strict=True)
        if score > 0
    )
    write_run(folder / "bm25s.trec", hits, system="bm25s")
