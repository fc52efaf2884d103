"""BM25 over expanded passages and queries: its inputs, what reruns, what is refused, and a whole run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load, refusal, rerun
from made import make
from runs import checkout, finished, scores_by_query
from small_generators import write_generator

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
TRAINED = {
    **{"initial": "backbone", "max_tokens": 40, "rows_per_chunk": 8, "batch_size": 8, "epochs": 1},
    **{"learning_rate": 1.0e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0},
}
WEIGHED: dict[str, Any] = {
    "expansions": {"learnt": {"weights": 100, "trained": TRAINED}},
    "systems": {"deepct": {"kind": "bm25", "k1": 10, "b": 0.9, "expanded_passages": "learnt"}},
}
WEIGHED_RUN = "results/msmarco/systems/deepct/seed42/run.dev.trec"
OWN: dict[str, Any] = {
    "expansions": {
        "queries-own": {
            "generated": {
                **{
                    "samples": 3,
                    "top_k": 10,
                    "max_tokens": 9,
                    "max_input_tokens": 40,
                    "rows_per_chunk": 9,
                    "prefix": "ask: ",
                }
            }
        },
        "answers-own": {
            "generated": {"samples": 1, "max_tokens": 9, "max_input_tokens": 40, "rows_per_chunk": 9}
        },
    },
    "systems": {
        "own": {
            **{"kind": "bm25", "k1": 0.82, "b": 0.68},
            **{"expanded_passages": "queries-own", "expanded_queries": "answers-own"},
        },
    },
}
OWN_RUN = "results/msmarco/systems/own/untrained/run.dev.trec"


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


def test_learnt_weights_of_terms_are_a_job_between_train_queries_and_index(load: Load) -> None:
    graph = load(WEIGHED)
    assert graph.jobs(WEIGHED_RUN)
    assert graph.parents("bm25_index msmarco index.learnt.seed42") == {
        "collect msmarco",
        "term_weights msmarco seed42 learnt",
    }
    learnt_from = {
        *("collect msmarco", "checkpoint msmarco backbone", "held_out msmarco seed42"),
        *("tokens msmarco backbone 0-of-1", "query_tokens msmarco backbone train"),
    }
    assert graph.parents("term_weights msmarco seed42 learnt") == learnt_from
    assert graph.jobs(WEIGHED_RUN.replace("seed42", "n100-seed1"))
    assert graph.parents("term_weights msmarco n100-seed1 learnt") == {
        *(job.replace("seed42", "n100-seed1") for job in learnt_from),
        "subset msmarco n100-seed1",
    }


def test_a_fusion_learns_its_weights_from_queries_that_learnt_weights_of_terms_never_saw(load: Load) -> None:
    mixed = {"of": ["backbone-zeroshot", "deepct"], "kind": "fusion", "method": "convex", "depth": 9}
    graph = load(merged(WEIGHED, {"systems": {"mixed": {**mixed, "weights": "learnt"}}}))
    assert graph.jobs("results/msmarco/systems/mixed/seed3/run.dev.trec")
    learnt_from = graph.inputs("fusion_weights msmarco mixed seed3")
    assert "results/msmarco/held_out/seed3.txt" in learnt_from
    assert "results/msmarco/systems/deepct/seed3/run.train.trec" in learnt_from


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"trained": {"learning_rate": 2.0e-3}}, {"term_weights", "bm25_index", "bm25_run"}),
        ({"trained": {"initial": "mlm"}}, {"term_weights", "bm25_index", "bm25_run", "pretrain"}),
        ({"weights": 50}, {"bm25_index", "bm25_run"}),
    ],
)
def test_a_key_of_learnt_weights_reruns_what_reads_it(
    load: Load, edit: dict[str, Any], expected: set[str]
) -> None:
    changed = load(merged(WEIGHED, {"expansions": {"learnt": edit}}))
    found = rerun(load(WEIGHED).hashes(WEIGHED_RUN), changed.hashes(WEIGHED_RUN))
    assert {job.split()[0] for job in found} == expected


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            {"expansions": {"learnt": {"by": "row"}}},
            "expansions.learnt: expected files and by, or else trained, or else generated.",
        ),
        (
            {"expansions": {"none": {"by": "row"}}},
            "expansions.none: expected files and by, or else trained, or else generated.",
        ),
        (
            {"expansions": {"learnt": {"files": {"msmarco": FILE}, "by": "row"}}},
            "expansions.learnt: expected files and by, or else trained, or else generated.",
        ),
        (
            {"expansions": {"learnt": {"weights": None}}},
            "expansions.learnt: weights: expected a number beside",
        ),
        (
            {"expansions": {"learnt": {"trained": {"initial": "bert"}}}},
            "expansions.learnt.trained.initial: expected one of backbone, condenser",
        ),
        (
            {"expansions": {"learnt": {"trained": {"initial": "adapted"}}}},
            "expansions.learnt.trained.initial: expected a model that no system is behind, got adapted.",
        ),
        (
            {"systems": {"gar": {"kind": "bm25", "k1": 1, "b": 0.4, "expanded_queries": "learnt"}}},
            "systems.gar.expanded_queries: expected an expansion with files or generated, got learnt",
        ),
    ],
)
def test_an_entry_that_cannot_be_is_refused_in_one_line(
    load: Load, edit: dict[str, Any], message: str
) -> None:
    said = refusal(lambda: load(merged(WEIGHED, edit)))
    assert re.match(f"error: config: {message}", said)


def test_weights_cannot_be_learnt_without_train_queries(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny", "train_split": None, "eval_split": "dev"}
    table = {"rows": ["bm25", "deepct"], "measures": ["MRR@10"]}
    graph = load(merged(WEIGHED, {"datasets": {"mine": mine}, "tables": {"weighed": table}}))
    said = refusal(lambda: graph.jobs("results/mine/weighed.tsv"))
    assert said.startswith("error: results/mine: expected a data set with queries and judgements, got one")
    assert "results/mine/adapt.tsv" in said and "weighed" not in said  # what needs no train query


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generator")
    write_generator("t5", folder)
    return folder


def with_generator(folder: str | Path, edit: dict[str, Any] | None = None) -> dict[str, Any]:
    model = {"generated": {"model": str(folder)}}
    return merged(OWN, merged({"expansions": dict.fromkeys(OWN["expansions"], model)}, edit or {}))


def test_generated_texts_are_a_job_between_the_texts_and_bm25(load: Load, generator: Path) -> None:
    graph = load(with_generator(generator, {"datasets": {"msmarco": {"queries": {"log": FILE}}}}))
    assert graph.jobs(OWN_RUN, OWN_RUN.replace("dev", "train"), OWN_RUN.replace("dev", "log"))
    of_passages = "generate msmarco queries-own passages"
    assert graph.parents("bm25_index msmarco index.queries-own") == {"collect msmarco", of_passages}
    assert graph.parents(of_passages) == {"collect msmarco"}
    for split in ("dev", "train", "log"):
        maker = f"generate msmarco answers-own queries.{split}"
        assert maker in graph.parents(f"bm25_run msmarco own untrained {split}")
        assert f"queries.{split}.jsonl" in graph.inputs(maker)[-1]
    read = {Path(file).name for file in graph.inputs(of_passages)}
    assert {"config.json", "model.safetensors", "tokenizer.json", "collection.jsonl"} <= read


@pytest.mark.parametrize(
    ("name", "edit"), [("queries-own", {"samples": 4}), ("answers-own", {"prefix": "answer: "})]
)
def test_a_key_of_generated_texts_reruns_what_reads_it(
    load: Load, generator: Path, name: str, edit: dict[str, Any]
) -> None:
    changed = with_generator(generator, {"expansions": {name: {"generated": edit}}})
    found = rerun(load(with_generator(generator)).hashes(OWN_RUN), load(changed).hashes(OWN_RUN))
    of_index = {"bm25_index"} if name == "queries-own" else set()
    assert {job.split()[0] for job in found} == {"generate", "bm25_run"} | of_index


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"generated": {"top_k": None}}, r"generated: samples: expected 1 without top_k, .* got 3"),
        ({"weights": 100}, "weights: expected none beside generated, got 100"),
        ({"field": "texts"}, "field: expected contents without files, got texts"),
        ({"by": "row"}, "expected files and by, or else trained, or else generated"),
        ({"generated": {"model": "a{b}"}}, r"generated.model: expected a path without \{"),
    ],
)
def test_generated_texts_that_cannot_be_are_refused_in_one_line(
    load: Load, generator: Path, edit: dict[str, Any], message: str
) -> None:
    changed = with_generator(generator, {"expansions": {"queries-own": edit}})
    assert re.match(rf"error: config: expansions.queries-own.*{message}", refusal(lambda: load(changed)))


def test_a_folder_without_a_generator_stops_what_needs_it_with_one_line(load: Load, tmp_path: Path) -> None:
    graph = load(with_generator(tmp_path))
    assert graph.jobs("results/msmarco/table2.tsv")
    said = refusal(lambda: graph.jobs(OWN_RUN))
    assert re.match(r"error: config: expansions.\S+-own.generated.model: expected config.json in", said)


def test_texts_that_a_model_generates_are_indexed_and_asked(
    root: Path, tmp_path: Path, generator: Path
) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "own.yaml").write_text(yaml.safe_dump(with_generator(generator)))
    run = OWN_RUN.replace("msmarco", "tiny")
    make(folder, run, overlays=["own.yaml"])
    made = folder / "results" / "tiny" / "expansions"
    passages = [one.doc_id for one in read_passages(folder / "results/tiny/data/collection.jsonl")]
    lines = [json.loads(line) for line in (made / "queries-own/passages.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == passages
    assert {len(line["contents"]) for line in lines} == {3}
    queries = (folder / "results/tiny/data/queries.dev.jsonl").read_text().splitlines()
    answers = (made / "answers-own/queries.dev.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["contents"]) for line in answers] == [1] * len(queries)
    indexed = read_json(folder / "results/tiny/bm25/index.queries-own.manifest.json")["counts"]
    assert indexed["expanded"] == len(passages)
    assert scores_by_query(folder / run)
    assert "0 findings" in finished(folder, target="verify", overlays=["own.yaml"])


def test_weights_that_are_learnt_from_train_queries_are_indexed(root: Path, tmp_path: Path) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "weighed.yaml").write_text(yaml.safe_dump(WEIGHED))
    run = WEIGHED_RUN.replace("msmarco", "tiny")
    make(folder, run, overlays=["weighed.yaml"])
    counts = read_json(folder / "results/tiny/expansions/learnt/seed42.manifest.json")["counts"]
    lines = (folder / "results/tiny/expansions/learnt/seed42/weights.jsonl").read_text().splitlines()
    passages = [one.doc_id for one in read_passages(folder / "results/tiny/data/collection.jsonl")]
    assert [json.loads(line)["id"] for line in lines] == passages and counts["passages"] == len(passages)
    indexed = read_json(folder / "results/tiny/bm25/index.learnt.seed42.manifest.json")["counts"]
    assert indexed["expanded"] == len(passages)
    assert scores_by_query(folder / run)
    assert "0 findings" in finished(folder, target="verify", overlays=["weighed.yaml"])


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
    make(folder, run, overlays=["mine.yaml"])
    best = {
        query: max(hits, key=lambda hit: hits[hit]) for query, hits in scores_by_query(folder / run).items()
    }
    passages = [one.doc_id for one in read_passages(folder / "results/mine/data/collection.jsonl")]
    assert set(best.values()) == {corpus[7]} <= set(passages)
    counts = read_json(folder / "results/mine/bm25/index.predicted.manifest.json")["counts"]
    assert (counts["expanded"], counts["unused_expansions"]) == (1, 1)
    assert counts["not_expanded"] == len(passages) - 1
    assert "0 findings" in finished(folder, target="verify", overlays=["mine.yaml"])
