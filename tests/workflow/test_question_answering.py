"""A whole table of question answering on small files in DPR's exact forms, from a mirror folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from made import make
from official_files import accepted, write_mirror
from runs import checkout, rows_of

from condenser.data.records import read_examples, read_passages, read_qrels, read_queries
from condenser.evaluate.answers import has_answer
from condenser.files import read_json

pytestmark = pytest.mark.ci

OVERLAY = """
datasets:
  few: {source: dpr, name: nq, recipe: dpr}
systems:
  backbone-round2: {kind: biencoder, initial: backbone, negatives: [bm25, backbone-round1]}
recipes:
  dpr:
    lengths: {query: 16, passage: 64}
    depth: {train: 20, eval: 100}
    negatives: {depth: 10, sample: 5}
    batch_size: 16
    learning_rate: 1.0e-3
    epochs: 1
tables:
  qa: {rows: [bm25, backbone-round1, backbone-round2], measures: [hits@5, hits@20, hits@100]}
downloads: {mirror: mirror}
"""


@pytest.fixture(scope="module")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tiny = checkout(root, tmp_path_factory.mktemp("qa") / "checkout"), root / "tests/data/tiny"
    write_mirror(tiny, folder / "mirror")
    (folder / "qa.yaml").write_text(OVERLAY)
    with accepted(tiny):
        make(folder, "results/few/qa.tsv", overlays=["qa.yaml"])
    return folder


def test_every_row_has_hits_between_0_and_1_that_grow_with_depth(made: Path) -> None:
    rows = rows_of(made / "results/few/qa.tsv")
    assert [row["method"] for row in rows] == [
        "BM25",
        "Start, fine-tuned",
        "Start + hard negatives of its own",
    ]
    for row in rows:
        hits = [float(row[f"hits@{depth}"]) for depth in (5, 20, 100)]
        assert 0 < hits[0] <= hits[1] <= hits[2] <= 1
        assert (row["passages"], row["queries"]) == ("240", "48")
        assert row["collection"] == "few (not the official passages and queries)"


def test_hits_are_those_of_a_slow_count_over_the_run(made: Path) -> None:
    data, system = made / "results/few/data", made / "results/few/systems/bm25/untrained"
    texts = {passage.doc_id: passage.text for passage in read_passages(data / "collection.jsonl")}
    ranked: dict[str, list[str]] = {}
    for line in (system / "run.test.trec").read_text().splitlines():
        query_id, _, doc_id, *_ = line.split()
        ranked.setdefault(query_id, []).append(doc_id)
    queries = list(read_queries(data / "queries.test.jsonl"))
    found = [
        any(has_answer(texts[one], query.answers) for one in ranked.get(query.query_id, [])[:5])
        for query in queries
    ]
    metrics = read_json(system / "metrics.test.json")
    assert metrics["per_query"]["hits@5"] == found
    assert metrics["per_query"]["query_id"] == [query.query_id for query in queries]
    assert metrics["measures"]["hits@5"] == sum(found) / len(found)
    assert (data / "qrels.test.tsv").read_bytes() == b""


def test_negatives_are_the_files_own_then_hits_without_an_answer(made: Path) -> None:
    data, systems = made / "results/few/data", made / "results/few/systems"
    assert not (systems / "bm25/untrained/run.train.trec").exists()
    given = {one.query_id: one for one in read_examples(systems / "bm25/seed42/examples.jsonl")}
    queries = {query.query_id: query for query in read_queries(data / "queries.train.jsonl")}
    assert len(given) == len(queries) == 192 and all(len(one.negative_doc_ids) == 4 for one in given.values())
    texts = {passage.doc_id: passage.text for passage in read_passages(data / "collection.jsonl")}
    mined = list(read_examples(systems / "backbone-round1/seed42/examples.jsonl"))
    assert len(mined) > 100
    assert not [
        (one.query_id, doc_id)
        for one in mined
        for doc_id in one.negative_doc_ids
        if has_answer(texts[doc_id], queries[one.query_id].answers)
    ]
    counts = read_json(systems / "backbone-round1/seed42/examples.jsonl.manifest.json")["counts"]
    assert counts["removed_by_answer"] > 0 and counts["negatives"] == sum(
        len(one.negative_doc_ids) for one in mined
    )


def test_two_encoders_are_trained_and_a_question_without_a_positive_is_counted(made: Path) -> None:
    model = made / "results/few/systems/backbone-round2/seed42/model"
    assert (model / "model.safetensors").is_file() and (model / "query" / "model.safetensors").is_file()
    counts = read_json(made / "results/few/data/counts.json")
    assert counts["files"]["biencoder-nq-train.json.gz"]["without_positives"] == 1
    assert len(list(read_qrels(made / "results/few/data/qrels.train.tsv"))) == 192
