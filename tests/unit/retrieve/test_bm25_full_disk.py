"""No room on the disk, for Java and for what is made of its hits: told, and nothing half-written is kept.

Played by the system's limit on the size of a file.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from condenser.data.records import Passage, Query, read_run, write_passages, write_queries
from condenser.program import bound
from condenser.retrieve import bm25
from condenser.retrieve.bm25 import index_collection, search_bm25
from tests.small_files import small_files

NUM_PASSAGES, DEPTH = 40, 30
# Becomes a command that can make no file of more than so many bytes.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("data") / "collection.jsonl"
    write_passages(file, (Passage(f"d{row}", "", f"wool of sheep {row}") for row in range(NUM_PASSAGES)))
    return file


def test_an_index_for_which_there_is_no_room_is_an_error_though_anserini_counts_every_passage(
    tmp_path: Path, collection: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(command: list[str], *, number: signal.Signals) -> list[str]:
        return bound([sys.executable, "-c", LIMITED, "100", *command], number=number)

    with monkeypatch.context() as patch:
        patch.setattr(bm25, "bound", limited)
        with pytest.raises(OSError, match="File too large") as caught:
            index_collection(collection, tmp_path / "index", threads=1, heap_mb=100)
    assert caught.value.filename == str(tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_a_run_for_which_there_is_no_room_is_an_error_and_never_cut(tmp_path: Path, collection: Path) -> None:
    index_collection(collection, tmp_path / "index", threads=1, heap_mb=100)
    write_queries(tmp_path / "queries.jsonl", [Query("a", "wool"), Query("b", "sheep")])

    def search() -> dict[str, int]:
        return search_bm25(
            tmp_path / "index",
            tmp_path / "queries.jsonl",
            tmp_path / "run.trec",
            k1=0.9,
            b=0.4,
            depth=DEPTH,
            threads=1,
            heap_mb=100,
            work_folder=tmp_path / "work",
            system="bm25",
        )

    with small_files(1000), pytest.raises(OSError, match="File too large") as caught:
        search()
    assert caught.value.filename.endswith(".trec")
    assert not (tmp_path / "run.trec").exists()
    assert not list((tmp_path / "work").glob("*.trec"))
    assert search()["hits"] == len(list(read_run(tmp_path / "run.trec"))) == 2 * DEPTH
