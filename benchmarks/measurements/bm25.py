"""BM25 of all train queries, from index to run, against Pyserini's batch_search and bm25s."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from measuring import Form, in_turn, line, shares
from steps import in_new_process

from condenser.data.records import Query, ScoredDoc, read_passages, read_queries, write_queries, write_run
from condenser.retrieve.bm25 import find_java, index_collection, search_bm25

K1, B, DEPTH, HEAP_MB = 0.82, 0.68, 200, 1500


def measure(form: Form) -> list[dict[str, Any]]:
    """Each in a new process, imports and the start of Java included."""
    data, folder = form.inputs / "data", form.work
    once = list(read_queries(data / "queries.train.jsonl"))
    queries = [
        Query(f"{turn}-{query.query_id}", query.text) for turn in range(form.size(1, 50)) for query in once
    ]
    write_queries(folder / "queries.jsonl", queries)
    index_collection(data / "collection.jsonl", folder / "index", threads=form.threads, heap_mb=HEAP_MB)
    in_new_process(index_by_bm25s, data, folder)
    works = {
        name: (lambda work=work: in_new_process(work, data, folder, threads=form.threads))
        for name, work in (("ours", ours), ("pyserini", by_pyserini), ("bm25s", by_bm25s))
    }
    seconds = in_turn(works, repeats=3, clock=form.clock)
    write_queries(folder / "queries.jsonl", queries[:1])
    start = in_turn({"ours": works["ours"]}, repeats=3, clock=form.clock)["ours"]
    rates = {name: len(queries) / of_one for name, of_one in seconds.items()}
    what, note = (
        "BM25 of all train queries",
        f"{len(queries):,} queries, depth {DEPTH}, whole processes, {seconds['ours']:.1f} s",
    )
    return [
        line(
            what,
            "queries/s",
            rates["ours"],
            better="more",
            against=name,
            peer=rates[key],
            least_ratio=least,
            profile=shares({"a run of one query": start}, seconds["ours"]),
            note=note,
        )
        for name, key, least in (
            ("Pyserini's batch_search", "pyserini", 1.5),
            ("bm25s with numba and a stemmer", "bm25s", 0.5),
        )
    ]


def ours(data: Path, folder: Path, *, threads: int) -> None:
    """Our stage."""
    work = folder / f"work-{os.getpid()}"
    search_bm25(
        folder / "index",
        folder / "queries.jsonl",
        folder / "ours.trec",
        k1=K1,
        b=B,
        depth=DEPTH,
        threads=threads,
        heap_mb=HEAP_MB,
        work_folder=work,
        system="bm25",
    )


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
    queries = list(read_queries(folder / "queries.jsonl"))
    found = searcher.batch_search(
        [query.text for query in queries], [query.query_id for query in queries], k=DEPTH, threads=threads
    )
    hits = (
        ScoredDoc(query.query_id, hit.docid, hit.score)
        for query in queries
        for hit in found.get(query.query_id, [])
    )
    write_run(folder / "pyserini.trec", hits, system="bm25")


def index_by_bm25s(data: Path, folder: Path) -> None:
    """An index with the same k1 and b, English stopwords and the Snowball stemmer."""
    import bm25s

    texts = [passage.text for passage in read_passages(data / "collection.jsonl")]
    searcher = bm25s.BM25(k1=K1, b=B)
    searcher.index(_words(texts), show_progress=False)
    searcher.save(str(folder / "bm25s"))


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
    queries = list(read_queries(folder / "queries.jsonl"))
    tokens = _words([query.text for query in queries])
    rows, scores = searcher.retrieve(tokens, k=DEPTH, n_threads=threads, show_progress=False)
    hits: Iterable[ScoredDoc] = (
        ScoredDoc(query.query_id, doc_ids[row], score)
        for query, of_query, of_scores in zip(queries, rows.tolist(), scores.tolist(), strict=True)
        for row, score in zip(of_query, of_scores, strict=True)
        if score > 0
    )
    write_run(folder / "bm25s.trec", hits, system="bm25s")
