"""Models that are pre-trained for each seed of a table: a folder for each, and rows with a spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import pytest
import yaml
from graphs import Graph, Load
from made import make
from runs import digests, finished, rows_of, run

from condenser.files import read_json
from condenser.pipeline.specs import unknown_name

TABLE = "results/tiny/spread.tsv"
OVERLAY = {
    "models": {
        "condenser": {"seed": "each", "epochs": 1},
        "cocondenser": {"epochs": 1},  # its seed is the Condenser's
        "mlm": {"seed": None},
    },
    "tables": {
        "spread": {
            "rows": ["backbone-zeroshot", "cocondenser-zeroshot", "cocondenser-round1"],
            "measures": ["MRR@10"],
            "train_queries": [30],
            "seeds": [1, 2],
        }
    },
}


@pytest.fixture(scope="module")
def graph(load: Load) -> Graph:
    return load(OVERLAY, configfile="configs/tiny.yaml")


def test_every_seed_is_pre_trained_once_and_all_above_is_shared(graph: Graph) -> None:
    jobs = graph.jobs(TABLE)
    counts = Counter(job.split()[0] for job in jobs)
    assert [job for job in jobs if job.startswith("pretrain ")] == [
        f"pretrain tiny {model}-seed{seed}" for seed in (1, 2) for model in ("condenser", "cocondenser")
    ]
    assert counts["checkpoint"] == 1 and counts["tokens"] == 2 and counts["query_tokens"] == 2
    variants = {tuple(job.split()[2:4]) for job in jobs if job.startswith("merge ")}
    assert variants == {("backbone-zeroshot", "untrained")} | {
        (f"cocondenser-{system}", f"{size}seed{seed}")
        for system, size in (("zeroshot", ""), ("round1", "n30-"))
        for seed in (1, 2)
    }
    files = Counter(file for job in jobs for file in graph.outputs(job))
    assert set(files.values()) == {1}


def test_a_variant_starts_from_the_model_of_its_seed(graph: Graph) -> None:
    graph.jobs(TABLE)
    models = "results/tiny/models"
    assert f"{models}/condenser-seed2/model.safetensors" in graph.inputs("pretrain tiny cocondenser-seed2")
    assert f"{models}/backbone/model.safetensors" in graph.inputs("pretrain tiny condenser-seed2")
    for job in (
        "train tiny cocondenser-round1 n30-seed2",
        "encode tiny cocondenser-zeroshot seed2 0-of-2",
        "encode_queries tiny cocondenser-zeroshot seed2 dev",
    ):
        assert f"{models}/cocondenser-seed2/model.safetensors" in graph.inputs(job)
        assert "pretrain cocondenser-seed2" in graph.spec(job)["lineage"]
    first, second = (graph.spec(f"pretrain tiny cocondenser-seed{seed}") for seed in (1, 2))
    assert (first["config"].pop("seed"), second["config"].pop("seed")) == (1, 2)
    assert first["config"] == second["config"] and first["code"] == second["code"]


def test_a_model_that_starts_from_one_of_all_seeds_may_have_its_own(load: Load) -> None:
    graph = load({"models": {"cocondenser": {"seed": "each"}}})
    target = "results/msmarco/models/cocondenser-seed3/model.safetensors"
    assert [job for job in graph.jobs(target) if job.startswith("pretrain ")] == [
        "pretrain msmarco condenser", "pretrain msmarco cocondenser-seed3"
    ]  # fmt: skip
    assert graph.owner("results/msmarco/models/cocondenser/model.safetensors") is None
    assert graph.owner("results/msmarco/models/condenser-seed3/model.safetensors") is None
    jobs = graph.jobs("results/msmarco/table2.tsv")  # its seed is the configuration's
    assert "pretrain msmarco cocondenser-seed42" in jobs


def test_a_path_without_the_seed_is_refused_in_one_line(load: Load) -> None:
    graph = load({"models": {"cocondenser": {"seed": "each"}}})
    result = "results/msmarco/models/cocondenser/model.safetensors"
    said = unknown_name(graph.settings, result)
    assert said == (
        "expected a seed for cocondenser, which is pre-trained for each seed. "
        "Ask for another, such as cocondenser-seed42 or the variant seed42."
    )
    with pytest.raises(SystemExit, match="error: results/msmarco: expected a seed for cocondenser"):
        graph.jobs("results/msmarco/systems/cocondenser-zeroshot/untrained/run.dev.trec")
    other = graph.jobs("results/msmarco/systems/mlm-zeroshot/untrained/run.dev.trec")
    assert "pretrain msmarco mlm" in other


@pytest.mark.ci
def test_two_seeds_give_two_models_and_a_row_of_untrained_systems_a_spread(
    golden: Path, copy_of_golden: Callable[[], Path]
) -> None:
    folder = copy_of_golden()
    (folder / "overlay.yaml").write_text(yaml.safe_dump(OVERLAY))
    made = make(folder, TABLE, overlays=["overlay.yaml"])
    assert "pretrain" in made and not {"tokens", "query_tokens", "checkpoint"} & made
    after = digests(folder)
    assert {name: after.get(name) for name in digests(golden)} == digests(golden)  # nothing overwritten
    weights = [after[f"tiny/models/cocondenser-seed{seed}/model.safetensors"] for seed in (1, 2)]
    assert weights[0] != weights[1]
    values = [
        read_json(folder / f"results/tiny/systems/cocondenser-zeroshot/seed{seed}/metrics.dev.json")
        for seed in (1, 2)
    ]
    scores = [value["measures"]["MRR@10"] for value in values]
    start, untrained, trained = rows_of(folder / TABLE)
    assert (start["seeds"], start["MRR@10_sd"]) == ("", "")
    assert (untrained["seeds"], untrained["train_queries"]) == ("1,2", "all")
    assert untrained["MRR@10"] == f"{fmean(scores):.4f}"
    assert untrained["MRR@10_sd"] == f"{stdev(scores):.4f}" and stdev(scores) > 0
    assert (trained["seeds"], trained["train_queries"]) == ("1,2", "30")
    assert "Nothing to be done" in finished(folder, target=TABLE, overlays=["overlay.yaml"])

    done = run(folder, target="results/tiny/models/cocondenser/model.safetensors", overlays=["overlay.yaml"])
    assert done.returncode != 0 and "such as cocondenser-seed42" in done.stdout
    # what was made before the models had a seed each is stale, as a model that was removed would be
    report = run(folder, target="verify", overlays=["overlay.yaml"]).stdout
    stale = [line for line in report.splitlines() if line.startswith("stale: ")]
    assert stale and not any("seed1" in line or "seed2" in line for line in stale)
    assert "damaged: " not in report and "unknown: " not in report
