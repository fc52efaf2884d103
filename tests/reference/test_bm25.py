"""Our BM25 against Pyserini's LuceneSearcher, and against the formula worked by hand."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import pytest
from forks import FORKS

from condenser.data.records import Passage, Query, read_passages, read_run, write_passages, write_queries
from condenser.retrieve.bm25 import find_java, index_collection, run_anserini, search_bm25
from condenser.systems.bm25 import Language

WORDS = [
    "river", "runs", "running", "table", "query", "lucene", "café",
    "index", "tree", "wind", "mill", "stone", "bread", "salt", "wool",
]  # fmt: skip


def pyserini_batch_search(
    index: Path, queries: dict[str, str], *, depth: int, folder: Path, language: str | None = None
):
    """Hits of Pyserini's own searcher, in a process of its own: Java starts once in a process."""
    arguments = (index, queries, depth, folder / "hits.json", language)
    process = FORKS.Process(target=_write_pyserinis_hits, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == 0
    return json.loads((folder / "hits.json").read_text())


def _write_pyserinis_hits(
    index: Path, queries: dict[str, str], depth: int, hits: Path, language: str | None
) -> None:
    java = find_java().parent.parent
    os.environ["JAVA_HOME"], os.environ["JVM_PATH"] = str(java), str(java / "lib" / "server" / "libjvm.so")
    os.environ["OPENAI_API_KEY"] = "unused"
    import jnius_config

    add_options = jnius_config.add_options
    # the module is not in every Java runtime, and nothing needs it
    jnius_config.add_options = lambda *options: add_options(*(o for o in options if "incubator" not in o))
    jnius_config.add_options("-Xmx200m")
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(index))
    if language:
        searcher.set_language(language)
    searcher.set_bm25(0.82, 0.68)
    found = searcher.batch_search(list(queries.values()), list(queries), k=depth, threads=2)
    hits.write_text(json.dumps({q: [[hit.docid, hit.score] for hit in found[q]] for q in found}))


def searched(
    folder: Path,
    index: Path,
    queries: dict[str, str],
    *,
    depth: int,
    threads: int = 1,
    language: str = "en",
    **expansion,
):
    folder.mkdir(exist_ok=True)
    write_queries(folder / "queries.jsonl", (Query(query_id, text) for query_id, text in queries.items()))
    counts = search_bm25(
        *(index, folder / "queries.jsonl", folder / "run.trec"),
        **{"k1": 0.82, "b": 0.68, "depth": depth, "language": language, "threads": threads, "heap_mb": 200},
        **{"work_folder": folder / "work", "system": "bm25", **expansion},
    )
    return folder / "run.trec", counts


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Path:
    """Titled and untitled passages, many of them alike, so that scores tie."""
    rng = np.random.default_rng(11)
    file = tmp_path_factory.mktemp("data") / "collection.jsonl"
    passages = [
        Passage(f"d{row}", str(rng.choice(WORDS)) if row % 2 else "", " ".join(rng.choice(WORDS, 4)))
        for row in rng.permutation(600)
    ]
    passages += [Passage("long", "", " ".join(rng.choice(WORDS, 90))), Passage("stop", "", "the of and")]
    write_passages(file, passages)
    return file


@pytest.fixture(scope="module")
def index(collection, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bm25") / "index"
    counts = index_collection(collection, folder, threads=1, heap_mb=200)
    assert counts == {"passages": 602, "indexed": 602, "empty": 0}
    return folder


QUERIES = {
    "plain": "river table",
    "stemmed": "runs in the winds",
    "signs": 'title:river AND (table OR "stone bread)^3 -mill +wool~ lucene*? [a TO b] \\',
    "10": "café\tsalt\u2028index",
    "9": "bread bread bread stone",
    "stop words only": "the of and",
    "unknown": "zeppelin",
}


@pytest.mark.ci
def test_hits_ranks_and_scores_equal_pyserinis_batch_search(tmp_path, index):
    run_file, counts = searched(tmp_path, index, QUERIES, depth=40)
    expected = pyserini_batch_search(index, QUERIES, depth=40, folder=tmp_path)
    ours: dict[str, list] = {query_id: [] for query_id in QUERIES}
    for row in read_run(run_file):
        ours[row.query_id].append([row.doc_id, row.score])
    assert sum(map(len, ours.values())) == counts["hits"] > 150
    assert counts["queries"] == 7
    assert counts["queries_without_hits"] == 2
    for query_id, hits in ours.items():
        found = expected.get(query_id, [])
        assert [doc_id for doc_id, _ in hits] == [doc_id for doc_id, _ in found]
        # a score is written with six decimals
        np.testing.assert_allclose([s for _, s in hits], [s for _, s in found], rtol=0, atol=1.5e-6)


GERMAN = {
    "haus": "Das Haus steht am See.",
    "katze": "Eine Katze schläft im Garten.",
    "lauf": "Er lief durch die engen Straßen der Stadt.",
    "english": "The houses are running.",
}
GERMAN_QUERIES = {  # and what Lucene's GermanAnalyzer makes of them
    "plural": "Häuser",  # haus
    "stop": "die",  # nothing
    "case": "Katzen Gärten",  # katz, gart
    "sharp": "Strasse",  # strass, as Straßen
    "compound": "Hausboot",  # itself: compounds are not taken apart
    "english": "running house",  # stemmed as German: running stays, house is hous, as houses
}


@pytest.fixture(scope="module")
def german_index(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("german")
    write_passages(folder / "c.jsonl", (Passage(doc_id, "", text) for doc_id, text in GERMAN.items()))
    index_collection(folder / "c.jsonl", folder / "index-de", language="de", threads=1, heap_mb=200)
    return folder / "index-de"


GERMAN_HITS = {("plural", "haus"), ("case", "katze"), ("sharp", "lauf"), ("english", "english")}


def test_a_language_has_its_own_stemmer_and_stop_words_in_index_and_search(tmp_path, german_index):
    run, _ = searched(tmp_path, german_index, GERMAN_QUERIES, depth=10, language="de")
    assert {(row.query_id, row.doc_id) for row in read_run(run)} == GERMAN_HITS


@pytest.mark.ci
def test_german_hits_are_those_of_pyserini(tmp_path, german_index):
    hits = pyserini_batch_search(german_index, GERMAN_QUERIES, depth=10, folder=tmp_path, language="de")
    assert {(query_id, hit[0]) for query_id, found in hits.items() for hit in found} == GERMAN_HITS


def test_english_is_what_anserini_does_without_a_language(tmp_path, index):
    queries = {str(number): f"{word} runs the tables" for number, word in enumerate(WORDS)}
    run, _ = searched(tmp_path, index, queries, depth=30)
    topics = tmp_path / "topics"
    topics.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in queries.items()))
    with (tmp_path / "plain.trec").open("wb") as output:
        options = {"index": index, "topics": topics, "topicReader": "TsvInt", "hits": 30}
        run_anserini(
            "search.SearchCollection", {**options, "bm25.k1": 0.82, "bm25.b": 0.68}, switches=["bm25"],
            heap_mb=200, output=output,
        )  # fmt: skip
    assert list(read_run(run)) == [*read_run(tmp_path / "plain.trec")] != []


def test_the_languages_are_those_of_anserini():
    process = FORKS.Process(target=_compare_languages)
    process.start()
    process.join(120)
    assert process.exitcode == 0


def _compare_languages() -> None:
    from condenser.retrieve.java import start_java

    start_java(heap_mb=200)
    from jnius import autoclass

    known = autoclass("io.anserini.analysis.AnalyzerMap").analyzerMap.keySet().toArray()
    assert sorted(known) == sorted(set(get_args(Language)) - {"en"})


def test_scores_are_those_of_the_formula(tmp_path):
    """idf ln(1 + (N - n + .5) / (n + .5)), times tf / (tf + k1 (1 - b + b length / mean length))."""
    texts = {"a": "salt wool", "b": "salt salt salt stone", "c": "bread"}
    write_passages(tmp_path / "c.jsonl", (Passage(doc_id, "", text) for doc_id, text in texts.items()))
    index_collection(tmp_path / "c.jsonl", tmp_path / "index", threads=1, heap_mb=200)
    run_file, _ = searched(tmp_path / "run", tmp_path / "index", {"q": "salt stone"}, depth=10)
    mean = 7 / 3

    def part(count: int, length: int, found_in: int) -> float:
        idf = math.log(1 + (3 - found_in + 0.5) / (found_in + 0.5))
        return idf * count / (count + 0.82 * (1 - 0.68 + 0.68 * length / mean))

    expected = [("b", part(3, 4, 2) + part(1, 4, 1)), ("a", part(1, 2, 2))]
    hits = list(read_run(run_file))
    assert [hit.doc_id for hit in hits] == ["b", "a"]
    for hit, (_, score) in zip(hits, expected, strict=True):
        assert hit.score == pytest.approx(score, abs=5.1e-5)  # Anserini rounds to four decimals


def test_threads_change_no_byte_of_the_run(tmp_path, collection, index, monkeypatch):
    monkeypatch.setattr("condenser.retrieve.bm25.PASSAGES_PER_FILE", 50)  # work for both threads
    index_collection(collection, tmp_path / "index", threads=2, heap_mb=200)
    queries = {str(number): f"{WORDS[number]} {WORDS[-number]}" for number in range(1, 12)}
    one, _ = searched(tmp_path / "one", index, queries, depth=30, threads=1)
    two, _ = searched(tmp_path / "two", tmp_path / "index", queries, depth=30, threads=2)
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_bytes().splitlines()) == 11 * 30


class Entry(NamedTuple):
    """An entry of `expansions`."""

    by: str
    field: str = "contents"
    weights: float | None = None


@pytest.mark.ci
def test_expanded_passages_and_queries_rank_as_if_written_out_by_hand(tmp_path, collection):
    """The index of a collection with predicted queries, and of one that already holds them."""
    rng = np.random.default_rng(3)
    passages = list(read_passages(collection))
    words = [" ".join(rng.choice(WORDS, 3)) for _ in passages]
    (tmp_path / "predicted.txt").write_text("".join(f"{line}\n" for line in words))
    by_hand = (
        Passage(one.doc_id, one.title, f"{one.text} {line}")
        for one, line in zip(passages, words, strict=True)
    )
    write_passages(tmp_path / "by-hand.jsonl", by_hand)
    queries = {"1": "river", "2": "stone bread", "3": "wool"}
    asked = {"1": "river mill", "2": "stone bread salt salt", "3": "wool"}
    (tmp_path / "asked.jsonl").write_text(
        '{"id": "2", "titles": ["salt", "salt"]}\n{"id": "1", "titles": "mill"}\n'
    )
    entry = Entry("row")
    counts = index_collection(
        collection, tmp_path / "a", expansions=tmp_path / "predicted.txt", expansion=entry, threads=1,
        heap_mb=200,
    )  # fmt: skip
    assert counts == {"passages": 602, "indexed": 602, "empty": 0, "expanded": 602}
    index_collection(tmp_path / "by-hand.jsonl", tmp_path / "b", threads=1, heap_mb=200)
    file, entry = tmp_path / "asked.jsonl", Entry("id", "titles")
    ours, counts = searched(
        tmp_path / "ours", tmp_path / "a", queries, depth=40, expansions=file, expansion=entry
    )
    assert (counts["expanded"], counts["not_expanded"], counts["unused_expansions"]) == (2, 1, 0)
    theirs, _ = searched(tmp_path / "theirs", tmp_path / "b", asked, depth=40)
    assert ours.read_bytes() == theirs.read_bytes() != b""


def test_term_weights_are_frequencies_in_the_formula_of_bm25(tmp_path):
    """DeepCT, eq. 4: round(10 y) of salt is 3 in one passage, 1 in the other; lengths are sums of these."""
    write_passages(tmp_path / "c.jsonl", [Passage("a", "Sea", "salt"), Passage("b", "", "salt wool")])
    (tmp_path / "w.tsv").write_text("sea 0.14\tsalt 0.3\nsalt 0.1\twool 0.31\n")
    index_collection(
        tmp_path / "c.jsonl", tmp_path / "index", expansions=tmp_path / "w.tsv",
        expansion=Entry("row", weights=10), threads=1, heap_mb=200,
    )  # fmt: skip
    run, _ = searched(tmp_path / "run", tmp_path / "index", {"q": "salt"}, depth=9)
    expected = {
        doc_id: math.log(1 + (2 - 2 + 0.5) / (2 + 0.5)) * count / (count + 0.82 * (0.32 + 0.68 * 4 / 4))
        for doc_id, count in (("a", 3), ("b", 1))
    }
    hits = list(read_run(run))
    assert [hit.doc_id for hit in hits] == ["a", "b"]
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.doc_id], abs=5.1e-5)
