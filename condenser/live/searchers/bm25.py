"""BM25 by Anserini's SimpleSearcher, in a Java virtual machine inside this process.

The rule `bm25_run` starts Anserini's program for a whole file of queries; its start takes longer than a
query. Pyserini's LuceneSearcher is a wrapper of the same Java class, but importing it takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from condenser.live.searchers import Found, sound_manifest
from condenser.live.texts import Lines
from condenser.manifest import OTHER_BYTES, SUFFIX

HEAP_MB = 512  # of Java; a query of some hundred hits needs a few


class Searcher:
    """An index that is open. All calls must come from one thread, which Java knows."""

    def __init__(self, files: Mapping[str, Sequence[Path]], settings: Any, *, doc_ids: Lines) -> None:
        (index,) = files["index"]
        _refuse_another_collections(index, doc_ids.path)
        # absolute: Java does not follow a change of the working folder
        self._searcher = _java()("io.anserini.search.SimpleSearcher")(str(index.absolute()))
        if (language := settings["system"]["language"]) != "en":  # which has no name there
            self._searcher.set_language(language)
        self._searcher.set_bm25(settings["system"]["k1"], settings["system"]["b"])

    def search(self, query: str, depth: int) -> Found:
        """The `depth` best passages: score descending, then doc_id as text. A query is a bag of words.

        Scores have six decimals, as Anserini writes them into a run.
        """
        began = perf_counter()
        words = " ".join(query.replace("\0", " ").split())
        hits = [(hit.docid, round(float(hit.score), 6)) for hit in self._searcher.search(words, depth)]
        return Found(hits, {"search": (perf_counter() - began) * 1000})


def _refuse_another_collections(index: Path, doc_ids: Path) -> None:
    """See by the manifests that the index is whole and was made from the collection that is there."""
    record = sound_manifest(Path(f"{index}{SUFFIX}"))
    for file in record.outputs:
        if not file.is_file():
            raise ValueError(f"{file}: {OTHER_BYTES}, bm25_index: it is missing.")
    collection = doc_ids.with_name("collection.jsonl")
    of_data = sound_manifest(Path(f"{doc_ids.parent}{SUFFIX}"))
    if record.inputs.get(collection) != of_data.outputs.get(collection):
        raise ValueError(f"{index}: expected the index of {collection}, got that of another collection.")


@cache
def _java() -> Any:
    """Start Java, once in a process; gives the function that finds a Java class by its name."""
    from condenser.retrieve.java import start_java

    start_java(heap_mb=HEAP_MB)
    from jnius import autoclass

    levels = autoclass("java.util.logging.Level")
    autoclass("java.util.logging.Logger").getLogger("").setLevel(levels.WARNING)
    return autoclass
