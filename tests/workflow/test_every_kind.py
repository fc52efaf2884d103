"""The results of every kind of row on the tiny collection: made once (every_kind.py), looked at here."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import every_kind
import numpy as np
import pytest
import torch
import yaml
from made import READ, make
from runs import copied, digests, finished, hits_by_query, rows_of, scores_by_query, started_rules
from scipy.stats import zscore
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from condenser.data.records import (
    document_of,
    read_doc_ids,
    read_examples,
    read_passages,
    read_positives,
    read_qrels,
    read_queries,
    read_run,
)
from condenser.data.subsets import read_subset
from condenser.evaluate.metrics import grades_of
from condenser.files import load_npy, read_json, sha256_file
from condenser.live.known import Known
from condenser.live.systems import LiveSystem
from condenser.model.crossencoder import CrossEncoder

pytestmark = pytest.mark.ci

Scores = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def tiny(every_row: Path) -> Path:
    return every_row / "results" / "tiny"


def scores_of(results: Path, system: str, split: str = "dev") -> Scores:
    """The run of a system, by query and hit; of its own seed if it has one.

    Held-out queries are ranked by its twin that never saw them.
    """
    variants = ("seed42", "crossfit-seed42", "untrained")
    files = (results / "systems" / system / variant / f"run.{split}.trec" for variant in variants)
    return scores_by_query(next(filter(Path.is_file, files)))


def counts_of(file: Path) -> dict[str, Any]:
    return read_json(Path(f"{file}.manifest.json"))["counts"]


def test_all_of_it_is_up_to_date_and_sound_and_left_the_other_results_as_they_were(
    golden: Path, every_row: Path
) -> None:
    first, *others = every_kind.TARGETS
    assert started_rules(finished(every_row, *others, "-n", target=first, **OVERLAYS)) == set()
    assert "0 findings" in finished(every_row, target="verify", **OVERLAYS)
    before, after = digests(golden), digests(every_row)
    assert {name: after.get(name) for name in before} == before


OVERLAYS: dict[str, Any] = {"overlays": [every_kind.NAME]}


def test_a_spec_has_no_setting_that_the_program_of_its_rule_does_not_read(every_row: Path) -> None:
    """A result would be made again for nothing. A reranker's entry names the candidates that it reads."""
    read = read_json(every_row / READ)
    manifests = [read_json(file) for file in (every_row / "results").rglob("*.manifest.json")]
    assert len({manifest["spec"]["rule"] for manifest in manifests}) > 30
    for spec in (manifest["spec"] for manifest in manifests):
        unread = spec["config"].keys() - set(read[spec["rule"]])
        assert unread <= ({"system"} if spec["rule"] == "rerank" else set()), spec["rule"]


# ---- variants ------------------------------------------------------------------------------------


def test_subsets_of_a_seed_lie_in_each_other_and_each_variant_has_a_model(tiny: Path) -> None:
    names = [f"n{size}-seed{seed}" for size in (30, 90) for seed in (42, 7)]
    subsets = {name: read_subset(tiny / f"subsets/{name}.txt") for name in names}
    assert [len(subset) for subset in subsets.values()] == [30, 30, 90, 90]
    for seed in (42, 7):
        assert subsets[f"n30-seed{seed}"] < subsets[f"n90-seed{seed}"]
    assert subsets["n30-seed42"] != subsets["n30-seed7"]
    manifests = tiny.glob("systems/cocondenser-round1/*/model.manifest.json")
    models = {read_json(file)["outputs"]["model/model.safetensors"] for file in manifests}
    assert len(models) == 6
    rows = [(row["train_queries"], row["seeds"]) for row in rows_of(tiny / "sizes.tsv") if row["seeds"]]
    assert rows == [(size, "42,7") for size in ("30", "90", "all")]
    first, *_ = tests = rows_of(tiny / "sizes.tests.tsv")
    assert {row["row"] for row in tests if row["row_seeds"] == "42,7"} and 0 < float(first["p_value"]) <= 1


def test_a_row_over_seeds_of_pre_training_has_a_mean_and_a_spread(tiny: Path) -> None:
    models = {sha256_file(tiny / f"models/each-seed{seed}/model.safetensors") for seed in (1, 2)}
    places = [tiny / f"systems/each-zeroshot/seed{seed}/metrics.dev.json" for seed in (1, 2)]
    scores = [read_json(place)["measures"]["MRR@10"] for place in places]
    start, untrained, trained = rows_of(tiny / "spread.tsv")
    assert len(models) == 2 and (start["seeds"], start["MRR@10_sd"]) == ("", "")
    assert (untrained["seeds"], untrained["train_queries"]) == ("1,2", "all")
    assert (untrained["MRR@10"], untrained["MRR@10_sd"]) == (f"{fmean(scores):.4f}", f"{stdev(scores):.4f}")
    assert stdev(scores) > 0 and (trained["seeds"], trained["train_queries"]) == ("1,2", "30")


# ---- bi-encoders ---------------------------------------------------------------------------------


def test_queries_of_an_untied_system_are_encoded_by_the_query_encoder(tiny: Path) -> None:
    made = tiny / "systems/condenser-untied/seed42"
    assert (made / "model/query/model.safetensors").is_file()
    assert "../model/query/model.safetensors" in (made / "embeddings/queries.dev.manifest.json").read_text()
    assert "../model/query" not in (made / "embeddings/collection.0-of-2.manifest.json").read_text()


def test_a_model_with_two_encoders_ranks_as_its_system_and_is_trained_on(tiny: Path) -> None:
    assert scores_of(tiny, "two-zeroshot") == scores_of(tiny, "condenser-untied")
    files = [
        tiny / place / name
        for name in ("model.safetensors", "query/model.safetensors")
        for place in ("systems/condenser-untied/seed42/model", "models/two", "systems/two-tuned/seed42/model")
    ]
    system, copy, tuned, *of_queries = map(sha256_file, files)
    assert system == copy and of_queries[0] == of_queries[1]
    assert len({copy, tuned, *of_queries}) == 4


def test_a_round_is_the_training_from_the_folder_of_the_last_one(
    golden: Path, tiny: Path, copy_of_golden: Callable[[], Path]
) -> None:
    """Byte for byte: the folder as a checkpoint is the same start."""
    folder, made = copy_of_golden(), "results/tiny/systems/cocondenser-round1/seed42/model"
    overlay = {
        "models": {"copy": {"objective": "checkpoint", "source": "folder", "path": made}},
        "systems": {"by-hand": every_kind.OVERLAY["systems"]["next"] | {"initial": "copy"}},
    }
    (folder / "rounds.yaml").write_text(yaml.safe_dump(overlay))
    file = "systems/by-hand/seed42/model/model.safetensors"
    make(folder, f"results/tiny/{file}", overlays=["rounds.yaml"])
    digest = sha256_file(folder / "results/tiny" / file)
    assert digest == sha256_file(tiny / file.replace("by-hand", "next"))
    assert digest != sha256_file(golden / made / "model.safetensors")


def test_a_student_is_distilled_from_its_teachers_ranking(tiny: Path) -> None:
    counts = counts_of(tiny / "systems/distilled/seed42/model")
    assert counts["steps"] == 4 and counts["queries_with_fewer_hits"] == 0


def test_a_model_of_another_data_set_is_its_system_and_ranks_and_learns_here(every_row: Path) -> None:
    theirs, ours = (every_row / "results" / path for path in (
        "tiny/systems/cocondenser-round1/seed42/model", "mine/models/moved"
    ))  # fmt: skip
    files = {file.relative_to(theirs) for file in theirs.rglob("*") if file.is_file()}
    assert {"model.safetensors", "tokenizer.json", "modules.json"} <= {file.name for file in files}
    for file in files - {Path("losses.jsonl"), Path("validation.json")}:
        assert sha256_file(ours / file) == sha256_file(theirs / file), file
    manifest = read_json(every_row / "results/mine/models/moved.manifest.json")
    assert manifest["counts"]["mlm_head"] == "new"
    assert manifest["inputs"]["../../tiny/systems/cocondenser-round1/seed42/model/model.safetensors"]
    rows = every_kind.OVERLAY["tables"]["moved"]["rows"]
    files = [next((every_row / f"results/mine/systems/{row}").glob("*/metrics.dev.json")) for row in rows]
    assert len({json.dumps(read_json(file)["per_query"]) for file in files}) == 4
    shown = {row["backbone"] for row in rows_of(every_row / "results/mine/moved.tsv")}
    assert shown > {"cocondenser-round1 of tiny"}


# ---- late interaction, fusions, rerankers --------------------------------------------------------


def test_hits_of_late_interaction_are_those_of_transformers(tiny: Path) -> None:
    """Two queries: the best of the first 20 of both systems, by states of eight bits."""
    late, runs = scores_of(tiny, "late"), [scores_of(tiny, name) for name in ("backbone-zeroshot", "bm25")]
    model = AutoModel.from_pretrained(tiny / "models/backbone").eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny / "models/backbone")
    passages = {
        one.doc_id: f"{one.title} [SEP] {one.text}" if one.title else one.text
        for one in read_passages(tiny / "data/collection.jsonl")
    }

    def states(text: str, length: int) -> torch.Tensor:
        given = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
        with torch.inference_mode():
            return normalize(model(**given).last_hidden_state[0], dim=1)

    assert len(late) == 48
    for query in list(read_queries(tiny / "data/queries.dev.jsonl"))[:2]:
        pool = {doc_id for run in runs for doc_id in list(run.get(query.query_id, {}))[:20]}
        asked = states(query.text, 16)
        expected = {
            doc_id: (asked @ states(passages[doc_id], 64).T).amax(dim=1).sum().item() for doc_id in pool
        }
        hits = late[query.query_id]
        assert hits == pytest.approx({doc_id: expected[doc_id] for doc_id in hits}, abs=2e-2)
        assert min(hits.values()) >= sorted(expected.values(), reverse=True)[19] - 2e-2


def test_a_fusion_is_the_mean_of_z_scores(tiny: Path) -> None:
    parts_of = [scores_of(tiny, name) for name in ("backbone-zeroshot", "bm25", "late")]
    hybrid = scores_of(tiny, "hybrid")
    assert len(hybrid) == 48
    for query_id, hits in hybrid.items():
        parts = [dict(list(run.get(query_id, {}).items())[:30]) for run in parts_of]
        pool = list(dict.fromkeys(doc_id for part in parts for doc_id in part))
        table = [[part.get(doc_id, min(part.values(), default=0.0)) for part in parts] for doc_id in pool]
        columns = zscore(table, axis=0)
        columns[:, [len(set(column)) == 1 for column in zip(*table, strict=True)]] = 0.0
        expected = dict(zip(pool, columns.mean(axis=1), strict=True))
        assert list(hits.values()) == sorted(hits.values(), reverse=True) and len(hits) == 30
        assert hits == pytest.approx({doc_id: expected[doc_id] for doc_id in hits}, abs=1e-6)
        assert min(hits.values()) >= sorted(expected.values(), reverse=True)[29] - 1e-6


def test_weights_are_learnt_on_held_out_queries_which_are_ranked_as_among_all(every_row: Path) -> None:
    split = every_row / "results/split"
    held_out = read_subset(split / "held_out/seed42.txt")
    assert len(held_out) == 19
    for system in ("inner", "learnt"):
        assert scores_of(split, system, "train.held_out").keys() == held_out
    among_all = scores_by_query(split / "systems/late/untrained/run.train.trec")
    assert len(among_all) == 192
    for query_id, hits in scores_of(split, "late", "train.held_out").items():
        assert hits == pytest.approx(among_all[query_id], abs=1e-5)
    counts = counts_of(split / "systems/outer/seed42/weights.json")
    assert counts["queries"] + counts["without_relevant_hit"] == 19


@pytest.mark.parametrize(("system", "dim"), [("projected", 16), ("exact", 16), ("first", 32)])
def test_training_late_interaction_changes_the_ranking(tiny: Path, system: str, dim: int) -> None:
    start, ranked = scores_of(tiny, "late"), scores_of(tiny, system)
    assert ranked.keys() == start.keys()
    assert sum(list(ranked[query]) != list(start[query]) for query in ranked) > len(ranked) / 2
    model = tiny / "systems" / system / "seed42" / "model"
    assert (model / "2_Dense/model.safetensors").is_file() == (dim == 16)
    assert counts_of(model)["steps"] > 1


def test_rerankers_sort_the_first_hits_anew_and_an_ensemble_is_their_mean(tiny: Path) -> None:
    names = ("cocondenser-round2", "rerank-backbone", "rerank-condenser", "rerank-ensemble")
    first, backbone, condenser, ensemble = (scores_of(tiny, name) for name in names)
    assert len(first) == 48 and backbone != condenser
    for query_id, hits in first.items():
        top = set(list(hits)[:10])
        assert set(backbone[query_id]) == set(condenser[query_id]) == set(ensemble[query_id]) == top
        for doc_id, score in ensemble[query_id].items():
            mean = (backbone[query_id][doc_id] + condenser[query_id][doc_id]) / 2
            assert score == pytest.approx(mean, rel=1e-7, abs=1e-9)
    for name in names[1:3]:
        place = tiny / "systems" / name / "seed42"
        CrossEncoder.load(place / "model")
        counts = counts_of(place / "run.dev.trec")
        assert (counts["queries"], counts["hits"], counts["queries_of_fewer_hits"]) == (48, 480, 0)


def test_where_no_query_is_held_out_none_is_reranked_and_weights_are_equal(tiny: Path) -> None:
    assert (tiny / "systems/rerank-backbone/crossfit-seed42/run.train.held_out.trec").read_bytes() == b""
    assert read_json(tiny / "systems/mixed-backbone/seed42/weights.json")["weights"] == [0.5, 0.5]


# ---- teachers ------------------------------------------------------------------------------------


def chosen(ranked: dict[str, float], relevant: list[str]) -> tuple[list[str], set[str]]:
    """Positives and possible negatives of a query by their probabilities, with one `if` for each hit."""
    positives, negatives = list(relevant), set()
    for doc_id, score in ranked.items():
        probability = 1 / (1 + math.exp(-score))
        if doc_id not in relevant and probability > every_kind.ABOVE:
            positives.append(doc_id)
        elif doc_id not in relevant and probability < every_kind.BELOW:
            negatives.add(doc_id)
    return positives, negatives


@pytest.mark.parametrize(
    ("place", "split"),
    [("teacher/seed42/examples.jsonl", "train"), ("labeller/seed42/pseudo_labels.log.jsonl", "log")],
)
def test_examples_are_those_of_a_teachers_scores(tiny: Path, place: str, split: str) -> None:
    file = tiny / "systems" / place
    judged = read_positives(tiny / "data/qrels.train.tsv", relevant_grade=1) if split == "train" else {}
    examples = {example.query_id: example for example in read_examples(file)}
    counts = counts_of(file)
    assert counts["examples"] == len(examples) > 0 and counts["positives_by_score"] > 0
    for query_id, ranked in scores_by_query(file.parent / f"run.{split}.trec").items():
        positives, negatives = chosen(ranked, list(judged.get(query_id, {})))
        is_known = query_id == f"new-{every_kind.NUM_NEW}"
        assert (query_id in examples) == bool(positives and negatives and not is_known)
        if example := examples.get(query_id):
            assert list(example.positive_doc_ids) == positives
            assert set(example.negative_doc_ids) <= negatives
            assert len(example.negative_doc_ids) == min(10, len(negatives))
    unused = {"queries": 0, "teacher": None, "candidates": None, "won": 0, "lost": 0, "is_used": True}
    assert counts["teacher"] == unused
    assert counts.get("known_queries") == (1 if split == "log" else None)


def test_a_student_learns_from_examples_and_pseudo_labels(tiny: Path) -> None:
    files = ("teacher/seed42/examples.jsonl", "labeller/seed42/pseudo_labels.log.jsonl")
    parts = [counts_of(tiny / "systems" / file)["examples"] for file in files]
    assert counts_of(tiny / "systems/augmented/seed42/model")["examples"] == sum(parts)


def test_a_teacher_that_is_not_better_than_its_candidates_is_not_used(every_row: Path) -> None:
    """A teacher of one hit for each query ranks as its candidates, which is not better."""
    systems = every_row / "results/split/systems"
    examples = systems / "shallow/seed42/examples.jsonl"
    assert examples.read_bytes() == (systems / "encoder-zeroshot/seed42/examples.jsonl").read_bytes()
    compared = counts_of(examples)["teacher"]
    assert compared["queries"] == 19 and compared["is_used"] is False
    assert compared["teacher"] == compared["candidates"]


def test_a_reranker_learns_from_queries_made_of_passages_each_with_its_own(tiny: Path) -> None:
    made = {query.query_id for query in read_queries(tiny / "queries/practice/queries.practice.jsonl")}
    examples = list(read_examples(tiny / "systems/backbone-zeroshot/seed42/pseudo_labels.practice.jsonl"))
    assert examples and {example.query_id for example in examples} <= made
    assert all(example.positive_doc_ids == (example.query_id,) for example in examples)
    assert not [example for example in examples if example.query_id in example.negative_doc_ids]


# ---- expansions ----------------------------------------------------------------------------------


def test_a_passage_is_found_by_words_that_only_its_expansion_has(tiny: Path) -> None:
    passages = [one.doc_id for one in read_passages(tiny / "data/collection.jsonl")]
    best = {max(hits, key=lambda hit, of=hits: of[hit]) for hits in scores_of(tiny, "predicted").values()}
    assert best == {passages[every_kind.EXPANDED]}
    counts = counts_of(tiny / "bm25/index.predicted")
    expected = {"expanded": 1, "unused_expansions": 1, "not_expanded": len(passages) - 1}
    assert expected.items() <= counts.items()


def test_texts_that_a_model_generates_are_indexed_and_asked(tiny: Path) -> None:
    passages = [one.doc_id for one in read_passages(tiny / "data/collection.jsonl")]
    made = tiny / "expansions"
    lines = [json.loads(line) for line in (made / "queries-own/passages.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == passages
    assert {len(line["contents"]) for line in lines} == {3}
    queries = (tiny / "data/queries.dev.jsonl").read_text().splitlines()
    answers = (made / "answers-own/queries.dev.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["contents"]) for line in answers] == [1] * len(queries)
    assert counts_of(tiny / "bm25/index.queries-own")["expanded"] == len(passages)
    assert scores_of(tiny, "own")


def test_weights_that_are_learnt_from_train_queries_are_indexed(tiny: Path) -> None:
    made = tiny / "expansions/weights/seed42"
    passages = [one.doc_id for one in read_passages(tiny / "data/collection.jsonl")]
    lines = (made / "weights.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == passages
    assert counts_of(made)["passages"] == len(passages)
    assert counts_of(tiny / "bm25/index.weights.seed42")["expanded"] == len(passages)
    assert scores_of(tiny, "deepct")


# ---- split documents -----------------------------------------------------------------------------

OF_DOCUMENTS = ["bm25", "encoder-zeroshot", "learnt", "pairs", "tokens", "mixed", "outer"]


@pytest.mark.parametrize("system", OF_DOCUMENTS)
def test_runs_name_each_document_once_with_a_passage_of_it(every_row: Path, system: str) -> None:
    ids = set(read_doc_ids(every_row / "results/split/data/doc_ids.txt"))
    corpus = (every_row / "tests/data/tiny/corpus.jsonl").read_text().splitlines()
    documents = {json.loads(line)["_id"] for line in corpus}
    assert {document_of(one) for one in ids} == documents and len(ids) > 2 * len(documents)
    (run,) = (every_row / f"results/split/systems/{system}").glob("*/run.dev.trec")
    for hits in hits_by_query(run).values():
        found = [hit.doc_id for hit in hits]
        assert len(found) == len(set(found)) and documents.issuperset(found)
        assert all(hit.passage_id in ids and document_of(hit.passage_id) == hit.doc_id for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        if system in ("encoder-zeroshot", "learnt"):
            assert len(found) == len(documents), "depth 300 is beyond the 240 documents"


@pytest.mark.parametrize("place", ["encoder-zeroshot/untrained", "learnt/seed42"])
def test_a_run_of_documents_is_the_best_of_all_passages_by_the_embeddings(
    every_row: Path, place: str
) -> None:
    split = every_row / "results/split"
    folder = split / "systems" / place / "embeddings"
    passages = np.concatenate([load_npy(folder / f"collection.{shard}-of-2.npy") for shard in range(2)])
    queries, ids = load_npy(folder / "queries.dev.npy"), read_doc_ids(split / "data/doc_ids.txt")
    found = hits_by_query(folder.parent / "run.dev.trec")
    query_ids = [query.query_id for query in read_queries(split / "data/queries.dev.jsonl")]
    for query_id, scores in zip(query_ids, queries.astype(np.float64) @ passages.T, strict=True):
        best: dict[str, float] = {}
        for passage_id, score in zip(ids, scores.tolist(), strict=True):
            best[document_of(passage_id)] = max(best.get(document_of(passage_id), -np.inf), score)
        assert {hit.doc_id for hit in found[query_id]} == set(best)
        for hit in found[query_id]:
            assert hit.score == pytest.approx(best[hit.doc_id], abs=1e-4)
            assert hit.score == pytest.approx(scores[ids.index(hit.passage_id)], abs=1e-4)


def test_measures_are_those_of_documents(every_row: Path) -> None:
    split = every_row / "results/split"
    grades = grades_of(read_qrels(split / "data/qrels.dev.tsv"))
    found = hits_by_query(split / "systems/encoder-zeroshot/untrained/run.dev.trec")
    ranks = [
        next((rank for rank, hit in enumerate(found[query_id], 1) if of.get(hit.doc_id, 0) > 0), 99)
        for query_id, of in grades.items()
    ]
    expected = np.mean([1 / rank if rank <= 10 else 0 for rank in ranks])
    metrics = read_json(split / "systems/encoder-zeroshot/untrained/metrics.dev.json")
    assert metrics["measures"]["MRR@10"] == pytest.approx(expected, abs=1e-5) and expected > 0.3


@pytest.mark.parametrize("system", ["bm25", "encoder-zeroshot"])
def test_examples_have_passages_and_no_negative_is_of_a_relevant_document(
    every_row: Path, system: str
) -> None:
    split = every_row / "results/split"
    positives = read_positives(split / "data/qrels.train.tsv", relevant_grade=1)
    ids = set(read_doc_ids(split / "data/doc_ids.txt"))
    file = split / "systems" / system / "seed42/examples.jsonl"
    examples = list(read_examples(file))
    assert len(examples) > 50
    for example in examples:
        judged = positives[example.query_id]
        assert [document_of(one) for one in example.positive_doc_ids] == list(judged)
        assert not judged.keys() & {document_of(one) for one in example.negative_doc_ids}
        assert ids.issuperset((*example.positive_doc_ids, *example.negative_doc_ids))
    counts = counts_of(file)
    num_positives = sum(len(example.positive_doc_ids) for example in examples)
    assert counts["positives_by_run"] + counts["positives_by_first_passage"] == num_positives
    assert counts["positives_by_run"] > 0


def test_the_audit_says_nothing_of_the_length_that_windows_have(every_row: Path) -> None:
    assert read_json(every_row / "results/split/audit.json")["findings"]["cut_collection"] == 0


@pytest.fixture(scope="module")
def shown(every_row: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with an export and a report of the split documents, by real jobs."""
    folder = copied(every_row, tmp_path_factory.mktemp("shown") / "checkout")
    export = "results/split/systems/encoder-zeroshot/untrained/export/agreement.json"
    finished(folder, "results/split/report.html", target=export, **OVERLAYS)
    return folder


def test_the_export_of_split_documents_holds_their_passages(shown: Path) -> None:
    export = shown / "results/split/systems/encoder-zeroshot/untrained/export"
    agreement = read_json(export / "agreement.json")
    assert agreement["same_rankings"] == agreement["queries"] and agreement["passages"] == 50
    ids = read_doc_ids(shown / "results/split/data/doc_ids.txt")
    assert (export / "pyserini/docid").read_text().split() == ids
    card = (export / "model/README.md").read_text()
    assert f"240 documents in {len(ids):,} passages" in card and "20 words of a document" in card


def test_the_report_shows_the_passage_that_was_found_and_judges_its_document(shown: Path) -> None:
    page = (shown / "results/split/report.html").read_text()
    (data,) = [line for line in page.splitlines() if '"relevant_grade"' in line]
    data = json.loads(data[data.index("{") : data.rindex("}") + 1])
    system = next(one for one in data["systems"] if one["name"].startswith("encoder-zeroshot"))
    found = hits_by_query(shown / "results/split/systems/encoder-zeroshot/untrained/run.dev.trec")
    names = [passage[0] for passage in data["passages"]]
    for number, (query_id, _) in enumerate(data["queries"]):
        hits = found[query_id][:10]
        assert [names[one] for one in system["hits"][number][::2]] == [hit.doc_id for hit in hits]
        assert [names[one] for one in system["shown"][number]] == [hit.passage_id for hit in hits]


# ---- what is asked -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(every_row: Path, root: Path) -> Known:
    return Known.read(every_kind.load(root, every_row).write_known())


@pytest.mark.parametrize(
    ("dataset", "system"),
    [
        *(("tiny", system) for system in ("projected", "exact", "first")),
        # scores of the other two are nearly alike
        *(("split", system) for system in OF_DOCUMENTS if system not in ("learnt", "outer")),
    ],
)
def test_a_query_is_answered_as_the_run_has_it(
    every_row: Path, known: Known, dataset: str, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(every_row)
    data = Path(f"results/{dataset}/data")
    live = LiveSystem(known.asked(dataset, system))
    passages = {one.doc_id: one for one in read_passages(data / "collection.jsonl")}
    run = f"results/{dataset}/systems/{system}/{live.asked.variant}/run.dev.trec"
    found = hits_by_query(Path(run))
    for query in list(read_queries(data / "queries.dev.jsonl"))[:4]:
        hits, expected = live.answer(query.text, 5).hits, found[query.query_id][:5]
        assert [hit.score for hit in hits] == pytest.approx(
            [hit.score for hit in expected], rel=1e-3, abs=5e-3
        )
        for hit in hits:
            assert hit.text == passages[hit.passage_id or hit.doc_id].text
            assert dataset == "tiny" or document_of(hit.passage_id) == hit.doc_id


# ---- other data ----------------------------------------------------------------------------------


def test_a_folder_of_texts_is_adapted_to_and_one_without_train_queries_is_measured(every_row: Path) -> None:
    texts = every_row / "results/texts"
    table = rows_of(texts / "adapt.tsv")
    assert len(table) == 11 and {row["MRR@10"] + row["R@100"] + row["origin"] for row in table} == {""}
    about = "texts (no judged queries: not measured)"
    assert {(row["collection"], row["passages"], row["queries"]) for row in table} == {(about, "240", "0")}
    for name in ("backbone", "mlm", "ict", "stacked", "condenser", "cocondenser"):
        assert (texts / "models" / name / "model.safetensors").is_file()
    assert (texts / "bm25/index").is_dir() and (texts / "models/adapted.tsv").is_file()
    bm25, start = rows_of(every_row / "results/judged/brief.tsv")
    assert float(bm25["MRR@10"]) > 0 and start["origin"] == "measured" and start["queries"] == "48"


@pytest.mark.parametrize("system", ["bm25", "backbone-zeroshot"])
def test_a_collection_without_any_judgement_ranks_a_log(every_row: Path, system: str) -> None:
    hits = Counter(
        hit.query_id for hit in read_run(every_row / f"results/texts/systems/{system}/untrained/run.log.trec")
    )
    assert hits.keys() == {f"new-{number}" for number in range(every_kind.NUM_NEW + 1)}
    assert max(hits.values()) <= 50


def test_sentences_are_trained_on_and_measured_and_drawn_by_size(every_row: Path) -> None:
    stsb = every_row / "results/stsb"
    rows = rows_of(stsb / "low_data.tsv")
    assert [(row["method"], row["train_queries"], row["queries"]) for row in rows] == [
        ("Start, not fine-tuned", "all", "12"),
        *((method, size, "12") for method in ("Start, fine-tuned", "Condenser") for size in ("12", "all")),
    ]
    assert all(-1 <= float(row["spearman"]) <= 1 for row in rows)
    drawn = {(row["train_queries"], row["queries"]) for row in rows_of(stsb / "train_size.tsv")}
    assert drawn == {("", ""), ("12", "12"), ("all", "24")}
    vectors = read_json(stsb / "systems/vectors/untrained/metrics.test.json")
    assert -1 <= vectors["measures"]["spearman"] <= 1


def test_columns_of_a_second_collection_have_its_figures(every_row: Path) -> None:
    results = every_row / "results"
    rows = rows_of(results / "tiny/places.tsv")
    assert list(rows[0])[2:6] == ["MRR@10", "mine/MRR@10", "mine/late/nDCG@10", "origin"]
    assert {row["origin"] for row in rows} == {"measured"}  # no published row is at this scale
    places = ("bm25/untrained", "backbone-zeroshot/untrained", "backbone-round1/seed42")
    for row, place in zip(rows, places, strict=True):
        for column, file, measure in (
            ("MRR@10", f"tiny/systems/{place}/metrics.dev.json", "MRR@10"),
            ("mine/MRR@10", f"mine/systems/{place}/metrics.dev.json", "MRR@10"),
            ("mine/late/nDCG@10", f"mine/systems/{place}/metrics.late.json", "nDCG@10"),
        ):
            value = read_json(results / file)["measures"][measure]
            assert row[column] == f"{value:.4f}"
            if row[f"{column}_low"]:  # empty where all queries score the same
                assert float(row[f"{column}_low"]) <= round(value, 4) <= float(row[f"{column}_high"])
    num_late = len({one.query_id for one in read_qrels(results / "mine/data/qrels.late.tsv")})
    assert f"mine/late/nDCG@10: mine, 160 passages, {num_late} queries" in rows[0]["other_columns"]
    assert {line["measure"] for line in rows_of(results / "tiny/places.tests.tsv")} == {*list(rows[0])[2:5]}


# ---- figures and audit ---------------------------------------------------------------------------


def test_attention_is_measured_layer_by_layer_before_and_after_fine_tuning(tiny: Path) -> None:
    attention = rows_of(tiny / "attention.tsv")
    stages = [(stage, layer) for stage in ("pre-trained", "fine-tuned") for layer in ("1", "2")]
    assert [(row["stage"], row["layer"]) for row in attention] == stages
    for row in attention:
        assert 0 < float(row["low"]) <= float(row["entropy_nats"]) <= float(row["high"])
        assert float(row["entropy_nats"]) <= float(row["uniform_nats"])
        assert (row["passages"], row["vector"], row["collection"]) == ("50", "cls", "tiny (beir)")


def test_figures_show_the_table_and_the_losses(tiny: Path) -> None:
    sizes, table = rows_of(tiny / "by_size.tsv"), rows_of(tiny / "sizes.tsv")
    num_train = str(read_json(tiny / "data/counts.json")["queries"]["train"])
    assert [row["queries"] for row in sizes] == ["", "30", "90", num_train]
    assert [(row["value"], row["low"], row["high"]) for row in sizes] == [
        (row["MRR@10"], row["MRR@10_low"], row["MRR@10_high"]) for row in table
    ]
    losses = rows_of(tiny / "loss_curve.tsv")
    log = (tiny / "systems/cocondenser-round1/seed42/model/losses.jsonl").read_text().splitlines()
    mean = fmean(json.loads(line)["loss"] for line in log[:5])
    assert float(losses[0]["loss"]) == pytest.approx(mean, abs=1e-4)


def test_costs_are_those_of_the_manifests(tiny: Path) -> None:
    costs = {(row["rule"], row["name"]): row for row in rows_of(tiny / "costs.tsv")}
    train = costs["train", "cocondenser-round1"]
    recorded = read_json(tiny / "systems/cocondenser-round1/seed42/model.manifest.json")
    assert float(train["seconds"]) == pytest.approx(recorded["wall_time_s"], abs=0.06)
    assert int(train["peak_memory_mb"]) == recorded["peak_memory_mb"] > 100
    assert float(train["processor_hours"]) == pytest.approx(recorded["processor_s"] / 3600, abs=1e-6)
    assert costs["pretrain", "Condenser"]["origin"] == "published"
    assert (
        int(costs["pretrain", "cocondenser"]["parameters"]) > int(train["parameters"]) > 10_000
    )  # with its heads


def test_an_audit_counts_what_it_finds(tiny: Path) -> None:
    counts = read_json(tiny / "audit.json")
    assert counts["passages"] == 240 and counts["queries"]["train"] > 0
    assert len((tiny / "audit.tsv").read_text().splitlines()) == 1 + sum(counts["findings"].values())
