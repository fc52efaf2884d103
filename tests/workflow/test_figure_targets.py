"""The figures of the tiny run: what each needs, what it shows, and that times of runs make none stale."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graphs import Graph, Load, rules
from runs import digests, finished, rows_of, run, started_rules

from condenser.files import read_json
from condenser.pipeline.specs import unknown_name

FIGURES = ("attention_entropy", "train_size", "loss_curve", "differences", "costs")
OVERLAY = {
    "tables": {
        "sizes": {
            "rows": ["bm25", "cocondenser-round1"],
            "measures": ["MRR@10"],
            "train_queries": [30, "all"],
        }
    },
    "figures": {
        "attention": {
            "kind": "attention_entropy",
            "panels": {"coCondenser": ["cocondenser-zeroshot", "cocondenser-round1"]},
            "passages": 50,
            "seed": 1,
        },
        "by_size": {"kind": "train_size", "table": "sizes"},
    },
}  # fmt: skip
TARGETS = [f"results/tiny/{name}.svg" for name in ("attention", "by_size", "loss_curve", "costs")]


@pytest.mark.parametrize("configfile", [None, "configs/paper.yaml"])
def test_the_figures_are_planned_on_the_default_and_at_their_scale(
    load: Load, configfile: str | None
) -> None:
    graph = load(configfile=configfile)
    for name in FIGURES:
        (*behind, figure) = graph.jobs(f"results/msmarco/{name}.svg")
        assert figure == f"figure msmarco {name}"
        assert graph.owner(f"results/msmarco/{name}.tsv") == figure
        assert "train" in rules(set(behind))


def test_attention_is_measured_before_and_after_fine_tuning_on_the_same_passages(load: Load) -> None:
    graph = load()
    jobs = graph.jobs("results/msmarco/attention_entropy.svg")
    encoders = {tuple(job.split()[2:]) for job in jobs if job.startswith("attention_entropy ")}
    draw = ("1000", "42")
    assert encoders == {
        (f"{model}-{name}", variant, *draw)
        for model in ("backbone", "ict", "condenser", "cocondenser")
        for name, variant in (("zeroshot", "untrained"), ("round1", "seed42"))
    }
    assert not {"encode", "search", "table"} & rules(set(jobs))
    of_start = "attention_entropy msmarco backbone-zeroshot untrained 1000 42"
    assert "results/msmarco/models/backbone/model.safetensors" in graph.inputs(of_start)
    assert graph.spec("figure msmarco attention_entropy")["config"]["figure"]["passages"] == 1000


def test_a_figure_over_seeds_reads_each(load: Load) -> None:
    graph = load(
        {
            "figures": {"attention_entropy": {"seeds": [1, 2]}},
            "models": {name: {"seed": "each"} for name in ("ict", "stacked")},
        }
    )
    graph.jobs("results/msmarco/attention_entropy.svg")
    read = graph.inputs("figure msmarco attention_entropy")
    variants = [file.split("/")[4] for file in read if "/ict-" in file]
    assert variants == ["seed1", "seed2", "seed1", "seed2"]


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    return load(OVERLAY, configfile="configs/tiny.yaml")


def test_costs_read_the_manifests_of_all_jobs_behind_the_table(graph: Graph) -> None:
    jobs, table = graph.jobs(TARGETS[-1]), graph.jobs("results/tiny/table2.tsv")
    assert set(jobs) - set(table) == {"figure tiny costs"} and set(table) - set(jobs) == {"table tiny table2"}
    *manifests, published = graph.inputs("figure tiny costs")
    assert len(manifests) == len(table) - 1
    assert all(file.endswith(".manifest.json") for file in manifests)
    assert published.endswith("condenser/evaluate/figures/costs.tsv")


@pytest.mark.ci  # the quick ones: tests/unit/evaluate/test_figures.py
def test_every_figure_is_made_and_a_job_that_takes_another_time_makes_none_again(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    (folder / "overlay.yaml").write_text(json.dumps(OVERLAY))
    options: dict[str, Any] = {"overlays": ["overlay.yaml"], "target": TARGETS[0], "cores": 1}
    before = digests(folder)
    finished(folder, *TARGETS[1:], **options)
    after, results = digests(folder), folder / "results" / "tiny"
    assert {name: after[name] for name in before} == before

    attention = rows_of(results / "attention.tsv")
    assert [(row["stage"], row["layer"]) for row in attention] == [
        (stage, layer) for stage in ("pre-trained", "fine-tuned") for layer in ("1", "2")
    ]
    for row in attention:
        assert 0 < float(row["low"]) <= float(row["entropy_nats"]) <= float(row["high"])
        assert float(row["entropy_nats"]) <= float(row["uniform_nats"])
        assert (row["passages"], row["vector"], row["collection"]) == ("50", "cls", "tiny (beir)")

    sizes, table = rows_of(results / "by_size.tsv"), rows_of(results / "sizes.tsv")
    assert [(row["method"], row["train_queries"]) for row in sizes] == [
        ("BM25", ""), ("coCondenser w/o hard negatives", "30"), ("coCondenser w/o hard negatives", "all"),
    ]  # fmt: skip
    num_train = read_json(results / "data" / "counts.json")["queries"]["train"]
    assert [row["queries"] for row in sizes] == ["", "30", str(num_train)]
    assert [(row["value"], row["low"], row["high"]) for row in sizes] == [
        (row["MRR@10"], row["MRR@10_low"], row["MRR@10_high"]) for row in table
    ]

    losses = rows_of(results / "loss_curve.tsv")
    assert {row["method"] for row in losses} == {
        "coCondenser w/o hard negatives",
        "coCondenser + hard negatives",
    }
    log = (results / "systems/cocondenser-round1/seed42/model/losses.jsonl").read_text().splitlines()
    assert float(losses[0]["loss"]) == pytest.approx(
        sum(json.loads(line)["loss"] for line in log[:5]) / 5, abs=1e-4
    )

    costs = {(row["rule"], row["name"]): row for row in rows_of(results / "costs.tsv")}
    train = costs["train", "cocondenser-round1"]
    recorded = read_json(results / "systems/cocondenser-round1/seed42/model.manifest.json")
    assert float(train["seconds"]) == pytest.approx(recorded["wall_time_s"], abs=0.06)
    assert int(train["peak_memory_mb"]) == recorded["peak_memory_mb"] > 100
    assert float(train["processor_hours"]) == pytest.approx(recorded["processor_s"] / 3600, abs=1e-6)
    assert costs["pretrain", "Condenser"]["origin"] == "published"
    pretrained = costs["pretrain", "cocondenser"]
    assert int(pretrained["parameters"]) > int(train["parameters"]) > 10_000  # with its heads

    # a rule that is run again to the same bytes took another time
    bm25 = results / "systems" / "bm25" / "untrained" / "metrics.dev.json"
    bm25.unlink()
    finished(folder, **{**options, "target": f"results/tiny/{bm25.relative_to(results)}"})
    assert started_rules(finished(folder, *TARGETS[1:], "-n", **options)) == set()
    assert run(folder, **{**options, "target": "verify"}).returncode == 0

    for target in TARGETS:
        (folder / target).unlink()
    finished(folder, *TARGETS[1:], **options)
    remade = digests(folder)
    for target in TARGETS[:-1]:
        assert remade[target.removeprefix("results/")] == after[target.removeprefix("results/")], target


def test_a_figure_that_the_configuration_lacks_is_named(graph: Graph) -> None:
    said = unknown_name(graph.settings, "results/tiny/loss_curves.svg")
    assert said is not None and said.startswith("expected a figure of the configuration (")
    assert said.endswith("Did you mean loss_curve?")
