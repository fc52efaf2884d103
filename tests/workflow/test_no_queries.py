"""A collection whose queries are not judged for training, or that has none: its models are made."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from graphs import Graph, Load, refusal, rules
from runs import checkout, finished, rows_of, run

TINY = {"source": "beir", "path": "tests/data/tiny", "train_split": None}
DATASETS = {"judged": TINY, "texts": {**TINY, "path": "texts", "eval_split": None}}
TABLES = {"brief": {"rows": ["bm25", "backbone-zeroshot"], "measures": ["MRR@10"]}}


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    datasets = {**DATASETS, "texts": {**DATASETS["texts"], "path": "tests/data/tiny"}}
    hub = {"source": "hub_text", "parts": [{"id": "a/b"}]}
    return load({"datasets": {**datasets, "hub": hub}}, configfile="configs/tiny.yaml")


def test_rows_without_fine_tuning_need_no_train_query(graph: Graph) -> None:
    jobs = graph.jobs("results/judged/adapt.tsv")
    assert not rules(set(jobs)) & {"examples", "subset"}
    files = {file for job in jobs for file in [*graph.inputs(job), *graph.outputs(job)]}
    assert not [file for file in files if ".train" in file]
    assert sum(job.startswith("metrics ") for job in jobs) == 11


def test_a_table_reads_the_counts_behind_its_rows(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny"}
    graph = load({"datasets": {"mine": mine}}, configfile="configs/tiny.yaml")
    (table,) = (job for job in graph.jobs("results/mine/table2.tsv") if job.startswith("table "))
    manifests = {file for file in graph.inputs(table) if file.endswith(".manifest.json")}
    assert not [file for file in manifests if "run.train" in file]
    assert {
        "results/mine/models/cocondenser.manifest.json",
        "results/mine/systems/bm25/seed42/examples.jsonl.manifest.json",
        "results/mine/systems/bm25/untrained/run.dev.trec.manifest.json",
        "results/mine/systems/cocondenser-round2/seed42/model.manifest.json",
        "results/mine/systems/cocondenser-round2/seed42/embeddings/collection.0-of-2.manifest.json",
    } <= manifests


@pytest.mark.parametrize("dataset", ["texts", "hub"])
def test_without_queries_a_table_makes_the_models_of_its_rows_and_the_index(
    graph: Graph, dataset: str
) -> None:
    jobs = graph.jobs(f"results/{dataset}/adapt.tsv")
    made = {job.split()[2] for job in jobs if job.startswith(("pretrain ", "checkpoint "))}
    assert made == {"backbone", "mlm", "ict", "stacked", "condenser", "cocondenser"}
    assert rules(set(jobs)) == {
        *("collect", "checkpoint", "tokens", "lengths", "pretrain", "bm25_index", "table"),
        # the distilled row learns from a ranking of queries that are made from the texts
        *("extracted", "query_tokens", "bm25_run", "encode", "encode_queries", "search", "merge"),
        *("late", "fusion", "train", "best_of"),
    }
    lineage = graph.spec(f"table {dataset} adapt")["lineage"]
    assert {"pretrain mlm", "pretrain cocondenser", "bm25_index index"} <= set(lineage)
    assert graph.jobs(f"results/{dataset}/adapt.plan.H200.tsv")


def test_with_train_queries_alone_systems_are_trained_and_not_measured(load: Load) -> None:
    mine = {"source": "beir", "path": "tests/data/tiny", "eval_split": None}
    graph = load({"datasets": {"mine": mine}}, configfile="configs/tiny.yaml")
    jobs = graph.jobs("results/mine/table2.tsv")
    assert {job.split()[2] for job in jobs if job.startswith("train ")} == {
        "cocondenser-round1",
        "cocondenser-round2",
    }
    assert not [job for job in jobs if job.startswith("metrics ")]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            "texts/table2.tsv",
            "results/texts: expected a data set with queries and judgements, got one without t",
        ),
        (
            "judged/table2.tsv",
            "got one without train_split. Ask for results/judged/adapt.tsv, whose systems need no train",
        ),
        ("texts/adapt.tests.tsv", "results/texts/adapt.tests.tsv: .* There is nothing to test"),
        (
            "judged/systems/bm25/untrained/run.train.trec",
            r"expected a split of the data set \(dev\), got train",
        ),
    ],
)
def test_what_needs_queries_is_refused_in_one_line(graph: Graph, result: str, message: str) -> None:
    assert re.search(message, refusal(lambda: graph.jobs(f"results/{result}")))


@pytest.mark.ci
def test_a_folder_of_texts_is_adapted_to_and_one_without_train_queries_is_measured(
    root: Path, tmp_path: Path
) -> None:
    folder = checkout(root, tmp_path / "checkout")
    (folder / "texts").mkdir()
    shutil.copy(folder / "tests/data/tiny/corpus.jsonl", folder / "texts")
    (folder / "tests/data/tiny/qrels/train.tsv").unlink()
    overlay = {"datasets": {**DATASETS, "tiny": TINY}, "tables": TABLES}
    (folder / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    options = {"overlays": ["overlay.yaml"], "target": "results/texts/adapt.tsv"}
    said = finished(folder, "results/judged/brief.tsv", **options)

    texts = folder / "results/texts"
    table = rows_of(texts / "adapt.tsv")
    assert len(table) == 11 and {row["MRR@10"] + row["R@100"] + row["origin"] for row in table} == {""}
    about = "texts (no judged queries: not measured)"
    assert {(row["collection"], row["passages"], row["queries"]) for row in table} == {(about, "240", "0")}
    assert f"{about}: 240 passages, 0 queries" in said
    models = "results/texts/models"
    assert f"Made: results/texts/bm25/index, {models}/backbone, {models}/mlm, {models}/ict, " in said
    search = 'make search DATASET=texts SYSTEM=hybrid QUERY="..."'
    assert f'{search} CONFIG="configs/tiny.yaml overlay.yaml"' in said
    for name in ("backbone", "mlm", "ict", "stacked", "condenser", "cocondenser"):
        assert (texts / "models" / name / "model.safetensors").is_file()
    assert (texts / "bm25/index").is_dir() and (texts / "models/adapted.tsv").is_file()
    bm25, start = rows_of(folder / "results/judged/brief.tsv")
    assert float(bm25["MRR@10"]) > 0 and start["origin"] == "measured" and start["queries"] == "48"

    assert "Nothing to be done" in finished(folder, **options)
    done = run(folder, overlays=["overlay.yaml"], target="results/texts/adapt.tests.tsv")
    assert done.returncode != 0 and "There is nothing to test." in done.stdout
    plan = finished(folder, overlays=["overlay.yaml"], target="results/texts/adapt.plan.H200.tsv")
    assert "Traceback" not in plan
    assert "0 findings" in finished(folder, overlays=["overlay.yaml"], target="verify")
