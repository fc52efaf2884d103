"""BM25 over expanded passages and queries: its inputs, what reruns, what is refused, and a whole run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load, refusal, rerun
from runs import checkout, finished, scores_by_query

from condenser.data.records import read_passages
from condenser.files import read_json
from condenser.settings import merged

FILE = "tests/data/tiny/corpus.jsonl"  # any that is there
OVERLAY: dict[str, Any] = {
    "expansions": {
        "predicted": {"files": {"msmarco": FILE}, "by": "row"},
        "contexts": {"files": {"msmarco/dev": FILE}, "by": "id", "field": "text"},
    },
    "systems": {
        "doc2query": {"kind": "bm25", "k1": 0.9, "b": 0.4, "expanded_passages": "predicted"},
        "gar": {"kind": "bm25", "k1": 0.9, "b": 0.4, "language": "de", "expanded_queries": "contexts"},
        "both": {"kind": "fusion", "of": ["gar", "doc2query"], "method": "rrf", "depth": 9},
    },
}
RUN = "results/msmarco/systems/both/untrained/run.dev.trec"


def test_an_expansion_has_an_index_or_queries_of_its_own(load: Load) -> None:
    graph = load(OVERLAY)
    jobs = graph.jobs(RUN)
    assert {"bm25_index msmarco index.predicted", "bm25_index msmarco index-de"} < set(jobs)
    assert FILE in graph.inputs("bm25_index msmarco index.predicted")
    assert FILE not in graph.inputs("bm25_index msmarco index-de")
    assert FILE in graph.inputs("bm25_run msmarco gar untrained dev")
    assert FILE not in graph.inputs("bm25_run msmarco doc2query untrained dev")


@pytest.mark.parametrize(
    ("name", "edit", "expected"),
    [
        ("predicted", {"by": "id"}, {"bm25_index", "bm25_run", "fusion"}),
        ("contexts", {"field": "title"}, {"bm25_run", "fusion"}),
        ("predicted", {"files": {"msmarco": FILE, "other": "gone"}}, set()),  # of another data set
    ],
)
def test_what_an_expansion_says_reruns_what_reads_it(
    load: Load, name: str, edit: dict[str, Any], expected: set[str]
) -> None:
    changed = merged(OVERLAY, {"expansions": {name: edit}})
    found = rerun(load(OVERLAY).hashes(RUN), load(changed).hashes(RUN))
    assert {job.split()[0] for job in found} == expected
    assert not any("doc2query" in job for job in found if name == "contexts")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"expansions": {"predicted": {"files": {"msmarco": "gone"}}}},
            "expected a file, found none at gone",
        ),
        (
            {"systems": {"gar": {"expanded_queries": "predicted"}}},
            "expected a file for msmarco/dev, got none",
        ),
    ],
)
def test_a_missing_file_stops_what_needs_it_with_one_line(
    load: Load, edit: dict[str, Any], message: str
) -> None:
    graph = load(merged(OVERLAY, edit))
    assert graph.jobs("results/msmarco/table2.tsv")
    said = refusal(lambda: graph.jobs(RUN))
    assert re.match(f"error: config: expansions.predicted.files.*{message}", said)


def test_an_unknown_expansion_is_refused(load: Load) -> None:
    edit = {"systems": {"gar": {"expanded_queries": "context"}}}
    with pytest.raises(
        SystemExit, match=r"systems\.gar\.expanded_queries: expected one of predicted, contexts"
    ):
        load(merged(OVERLAY, edit))


@pytest.mark.workflow
def test_a_passage_is_found_by_words_that_only_its_expansion_has(root: Path, tmp_path: Path) -> None:
    folder = checkout(root, tmp_path / "checkout")
    tiny = {"source": "beir", "path": "tests/data/tiny", "train_split": "train", "eval_split": "dev"}
    source = root / "tests" / "data" / "tiny"
    queries = [json.loads(line)["_id"] for line in (source / "queries.jsonl").read_text().splitlines()]
    corpus = [json.loads(line)["_id"] for line in (source / "corpus.jsonl").read_text().splitlines()]
    (folder / "predicted.tsv").write_text(f"{corpus[7]}\tzeppelin zeppelin\nnone\tx\n")
    rows = [json.dumps({"id": query, "answers": ["zeppelin"] * 50}) for query in queries]
    (folder / "contexts.jsonl").write_text("\n".join(rows) + "\n")
    overlay = {
        "datasets": {"mine": tiny},
        "expansions": {
            "predicted": {"files": {"mine": "predicted.tsv"}, "by": "id"},
            "contexts": {"files": {"mine/dev": "contexts.jsonl"}, "by": "id", "field": "answers"},
        },
        "systems": {
            "both": {
                **{"kind": "bm25", "k1": 0.9, "b": 0.4},
                **{"expanded_passages": "predicted", "expanded_queries": "contexts"},
            }
        },
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(overlay))
    run = "results/mine/systems/both/untrained/run.dev.trec"
    finished(folder, target=run, overlays=["mine.yaml"])
    best = {
        query: max(hits, key=lambda hit: hits[hit]) for query, hits in scores_by_query(folder / run).items()
    }
    passages = [one.doc_id for one in read_passages(folder / "results/mine/data/collection.jsonl")]
    assert set(best.values()) == {corpus[7]} <= set(passages)
    counts = read_json(folder / "results/mine/bm25/index.predicted.manifest.json")["counts"]
    assert (counts["expanded"], counts["unused_expansions"]) == (1, 1)
    assert counts["not_expanded"] == len(passages) - 1
    assert "0 findings" in finished(folder, target="verify", overlays=["mine.yaml"])
