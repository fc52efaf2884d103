"""The tiny collection with split documents: trained, ranked, judged, asked and exported by document."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from runs import checkout, finished, hits_by_query

from condenser.data.records import (
    ScoredDoc,
    document_of,
    read_doc_ids,
    read_examples,
    read_passages,
    read_positives,
    read_qrels,
    read_queries,
)
from condenser.evaluate.metrics import grades_of
from condenser.files import load_npy, read_json
from condenser.live.systems import Known, LiveSystem

pytestmark = pytest.mark.ci  # the quick ones: tests/unit/retrieve/test_documents.py

# The tiny models score all passages alike; the embedded encoder does not.
OVERLAY = """
datasets:
  tiny: {source: beir, path: tests/data/tiny, split: {words: 20, stride: 10}}
models:
  encoder: {objective: checkpoint, source: embedded}
systems:
  dense: {kind: biencoder, initial: encoder, train: false}
  learnt: {kind: biencoder, initial: cocondenser, negatives: [bm25, dense]}
  first: {kind: crossencoder, initial: backbone, negatives: [dense], candidates: dense, depth: 10}
  second: {kind: crossencoder, initial: condenser, negatives: [dense], candidates: dense, depth: 10}
  both: {kind: fusion, of: [first, second], method: mean, depth: 10}
  tokens: {kind: late, initial: encoder, candidates: [bm25, dense], depth: 100}
  mixed: {kind: fusion, of: [bm25, dense, tokens], method: convex, depth: 100}
tables:
  split: {rows: [bm25, dense, learnt, first, second, both, tokens, mixed], measures: [MRR@10, R@100]}
recipes:
  marco: {lengths: {query: 16, passage: 32}, depth: {train: 40, eval: 300}}
"""
SYSTEMS = Path("results/tiny/systems")
RUNS = {
    "bm25": "untrained",
    "dense": "untrained",
    "learnt": "seed42",
    "first": "seed42",
    "second": "seed42",
    "both": "seed42",
    "tokens": "untrained",
    "mixed": "untrained",
}


@pytest.fixture(scope="module")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = checkout(root, tmp_path_factory.mktemp("split") / "checkout")
    (folder / "overlay.yaml").write_text(OVERLAY)
    targets = ["ask", "results/tiny/audit.tsv", f"{SYSTEMS}/dense/untrained/export/agreement.json"]
    finished(folder, *targets, target="results/tiny/split.tsv", overlays=["overlay.yaml"], cores=1)
    finished(folder, target="results/tiny/report.html", overlays=["overlay.yaml"], cores=1)
    return folder


def hits_of(made: Path, system: str) -> dict[str, list[ScoredDoc]]:
    return hits_by_query(made / SYSTEMS / system / RUNS[system] / "run.dev.trec")


@pytest.mark.parametrize("system", RUNS)
def test_runs_name_each_document_once_with_a_passage_of_it(made: Path, system: str) -> None:
    ids = set(read_doc_ids(made / "results/tiny/data/doc_ids.txt"))
    corpus = (made / "tests/data/tiny/corpus.jsonl").read_text().splitlines()
    documents = {json.loads(line)["_id"] for line in corpus}
    assert {document_of(one) for one in ids} == documents and len(ids) > 2 * len(documents)
    for hits in hits_of(made, system).values():
        found = [hit.doc_id for hit in hits]
        assert len(found) == len(set(found)) and documents.issuperset(found)
        assert all(hit.passage_id in ids and document_of(hit.passage_id) == hit.doc_id for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        if system in ("dense", "learnt"):
            assert len(found) == len(documents), "depth 300 is beyond the 240 documents"


@pytest.mark.parametrize("system", ["dense", "learnt"])
def test_the_run_is_the_best_of_all_passages_by_the_embeddings(made: Path, system: str) -> None:
    folder = made / SYSTEMS / system / RUNS[system] / "embeddings"
    passages = np.concatenate([load_npy(folder / f"collection.{shard}-of-2.npy") for shard in range(2)])
    queries, ids = load_npy(folder / "queries.dev.npy"), read_doc_ids(made / "results/tiny/data/doc_ids.txt")
    found = hits_of(made, system)
    query_ids = [query.query_id for query in read_queries(made / "results/tiny/data/queries.dev.jsonl")]
    for query_id, scores in zip(query_ids, queries.astype(np.float64) @ passages.T, strict=True):
        best: dict[str, float] = {}
        for passage_id, score in zip(ids, scores.tolist(), strict=True):
            best[document_of(passage_id)] = max(best.get(document_of(passage_id), -np.inf), score)
        assert {hit.doc_id for hit in found[query_id]} == set(best)
        for hit in found[query_id]:
            assert hit.score == pytest.approx(best[hit.doc_id], abs=1e-4)
            assert hit.score == pytest.approx(scores[ids.index(hit.passage_id)], abs=1e-4)


def test_measures_are_those_of_documents(made: Path) -> None:
    grades = grades_of(read_qrels(made / "results/tiny/data/qrels.dev.tsv"))
    found = hits_of(made, "dense")
    ranks = {
        query_id: next((rank for rank, hit in enumerate(found[query_id], 1) if of.get(hit.doc_id, 0) > 0), 99)
        for query_id, of in grades.items()
    }
    expected = np.mean([1 / rank if rank <= 10 else 0 for rank in ranks.values()])
    metrics = read_json(made / SYSTEMS / "dense/untrained/metrics.dev.json")
    assert metrics["measures"]["MRR@10"] == pytest.approx(expected, abs=1e-5)
    assert expected > 0.3


@pytest.mark.parametrize("system", ["bm25", "dense"])
def test_examples_have_passages_and_no_negative_is_of_a_relevant_document(made: Path, system: str) -> None:
    positives = read_positives(made / "results/tiny/data/qrels.train.tsv", relevant_grade=1)
    ids = set(read_doc_ids(made / "results/tiny/data/doc_ids.txt"))
    examples = list(read_examples(made / SYSTEMS / system / "seed42/examples.jsonl"))
    assert len(examples) > 50
    for example in examples:
        judged = positives[example.query_id]
        assert [document_of(one) for one in example.positive_doc_ids] == list(judged)
        assert not judged.keys() & {document_of(one) for one in example.negative_doc_ids}
        assert ids.issuperset((*example.positive_doc_ids, *example.negative_doc_ids))
    counts = read_json(made / SYSTEMS / system / "seed42/examples.jsonl.manifest.json")["counts"]
    num_positives = sum(len(example.positive_doc_ids) for example in examples)
    assert counts["positives_by_run"] + counts["positives_by_first_passage"] == num_positives
    assert counts["positives_by_run"] > 0


@pytest.mark.parametrize(
    "system", [name for name in RUNS if name != "learnt"]
)  # whose scores are nearly all alike
def test_a_query_is_answered_by_documents_with_their_best_passages(
    made: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    live = LiveSystem(Known(made / ".snakemake/known.json").asked("tiny", system))
    assert live.asked.variant == RUNS[system]
    passages = {one.doc_id: one for one in read_passages("results/tiny/data/collection.jsonl")}
    found = hits_of(made, system)
    for query in list(read_queries("results/tiny/data/queries.dev.jsonl"))[:6]:
        hits = live.answer(query.text, 7).hits
        expected = found[query.query_id][:7]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-4)
        for hit in hits:
            assert document_of(hit.passage_id) == hit.doc_id
            assert hit.text == passages[hit.passage_id].text
    live.close()


def test_the_export_holds_the_passages_of_documents(made: Path) -> None:
    export = made / SYSTEMS / "dense/untrained/export"
    agreement = read_json(export / "agreement.json")
    assert agreement["same_rankings"] == agreement["queries"] == 48 and agreement["passages"] == 50
    ids = read_doc_ids(made / "results/tiny/data/doc_ids.txt")
    assert (export / "pyserini/docid").read_text().split() == ids
    card = (export / "model/README.md").read_text()
    assert f"240 documents in {len(ids):,} passages" in card and "20 words of a document" in card


def test_the_report_shows_the_passage_that_was_found_and_judges_its_document(made: Path) -> None:
    page = (made / "results/tiny/report.html").read_text()
    (data,) = [line for line in page.splitlines() if '"relevant_grade"' in line]
    data = json.loads(data[data.index("{") : data.rindex("}") + 1])
    system = next(one for one in data["systems"] if one["name"].startswith("dense"))
    found, names = hits_of(made, "dense"), [passage[0] for passage in data["passages"]]
    for number, (query_id, _) in enumerate(data["queries"]):
        hits = found[query_id][:10]
        assert [names[one] for one in system["hits"][number][::2]] == [hit.doc_id for hit in hits]
        assert [names[one] for one in system["shown"][number]] == [hit.passage_id for hit in hits]


def test_the_audit_says_nothing_of_the_length_that_windows_have(made: Path) -> None:
    findings = read_json(made / "results/tiny/audit.json")["findings"]
    assert findings["cut_collection"] == 0
