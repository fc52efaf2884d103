"""A model that is a system of another data set: what it is made from, what cannot be one, and a real one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphs import Load, refusal, rerun
from made import make
from runs import finished, rows_of, rules_to_run, scores_by_query

from condenser.config.positions import check_longest_row
from condenser.experiment import origin, root
from condenser.experiment.tables import table_rows
from condenser.files import read_json, sha256_file
from condenser.settings import merged

SYSTEM = {"objective": "checkpoint", "source": "system"}
MOVED: dict[str, Any] = {
    "datasets": {"mine": {"source": "beir", "path": "tests/data/tiny"}},
    "models": {
        "moved": {**SYSTEM, "dataset": "msmarco", "system": "cocondenser-round2"},
        "again": {"objective": "condenser", "initial": "moved"},
    },
    "systems": {
        "moved-zeroshot": {"kind": "biencoder", "initial": "moved", "train": False},
        "moved-tuned": {"kind": "biencoder", "initial": "moved", "negatives": ["bm25"]},
        "again-zeroshot": {"kind": "biencoder", "initial": "again", "train": False},
    },
    "tables": {
        "moved": {
            "rows": ["backbone-zeroshot", "moved-zeroshot", "moved-tuned", "again-zeroshot"],
            "measures": ["MRR@10"],
        }
    },
}
TABLE = "results/mine/moved.tsv"


def with_model(**keys: Any) -> dict[str, Any]:
    """The overlay with other keys of the model."""
    return merged(MOVED, {"models": {"moved": keys}})


def test_the_model_needs_the_system_with_all_that_makes_it_on_its_own_data_set(load: Load) -> None:
    graph = load(MOVED)
    jobs = graph.jobs(TABLE)
    assert graph.parents("checkpoint mine moved") == {"train msmarco cocondenser-round2 seed42"}
    assert graph.parents("pretrain mine again") >= {"checkpoint mine moved", "tokens mine moved 0-of-1"}
    assert "train mine moved-tuned seed42" in jobs and "train mine cocondenser-round2 seed42" not in jobs
    (encode,) = (job for job in jobs if job.startswith("encode mine moved-zeroshot "))
    assert "results/mine/models/moved/model.safetensors" in graph.inputs(encode)
    assert {job.split()[1] for job in jobs if job.startswith("collect ")} == {"msmarco", "mine"}


@pytest.mark.parametrize("variant", ["n250-seed1", "seed7"])
def test_it_takes_the_variant_that_it_names(load: Load, variant: str) -> None:
    graph = load(with_model(variant=variant))
    graph.jobs(TABLE)
    assert graph.parents("checkpoint mine moved") == {f"train msmarco cocondenser-round2 {variant}"}


def test_a_distilled_one_a_late_one_and_one_of_sentences_are_taken_too(load: Load) -> None:
    late = {"kind": "late", "initial": "backbone", "candidates": ["bm25"], "depth": 9, "train": True}
    overlay = merged(
        with_model(system="distilled"), {"systems": {"colbert": {**late, "negatives": ["bm25"]}}}
    )
    of_late = {**SYSTEM, "dataset": "msmarco", "system": "colbert"}
    of_sentences = {**SYSTEM, "dataset": "nli", "system": "backbone-nli-sentences"}
    graph = load(merged(overlay, {"models": {"late-moved": of_late, "of-nli": of_sentences}}))
    graph.jobs(
        *(f"results/mine/models/{name}/model.safetensors" for name in ("moved", "late-moved", "of-nli"))
    )
    assert graph.parents("checkpoint mine moved") == {"train msmarco distilled seed42"}
    assert graph.parents("checkpoint mine late-moved") == {"train msmarco colbert seed42"}
    assert graph.parents("checkpoint mine of-nli") == {"train_sentences nli backbone-nli-sentences seed42"}


def test_it_lies_once_under_its_corpus(load: Load) -> None:
    graph = load(with_model(corpus="msmarco"))
    jobs = graph.jobs(TABLE)
    assert "checkpoint msmarco moved" in jobs and "checkpoint mine moved" not in jobs


def test_an_edit_of_the_other_data_set_reruns_what_depends_on_it(load: Load) -> None:
    before = load(MOVED).hashes(TABLE)
    edit = {"systems": {"cocondenser-round2": {"recipe": {"learning_rate": 1.0e-3}}}}
    after = load(merged(MOVED, edit))
    made = {"train msmarco cocondenser-round2 seed42"}
    assert rerun(before, after.hashes(TABLE)) == after.below(made, TABLE)
    assert "train mine moved-tuned seed42" in after.below(made, TABLE)
    here = load(merged(MOVED, {"datasets": {"mine": {"eval_split": "train", "train_split": "dev"}}}))
    changed = rerun(before, here.hashes(TABLE))
    assert "checkpoint mine moved" not in changed and not [job for job in changed if " msmarco " in job]


def test_its_layers_are_those_of_the_checkpoint_behind_it_and_its_tokens_its_own(load: Load) -> None:
    config = load(MOVED).settings
    assert (root(config, "again"), origin(config, "again")) == ("moved", "backbone")
    shown = {row["system"]: row["backbone"] for row in table_rows(config, "mine", "moved")}
    assert shown["again-zeroshot"] == shown["moved-tuned"] == "cocondenser-round2 of msmarco"
    said = refusal(lambda: load(merged(MOVED, {"models": {"again": {"skip_from": 7}}})))
    assert said == (
        "error: config: models.again.skip_from: expected at most 6 (the backbone's layers), got 7."
    )
    entry = {"kind": "crossencoder", "initial": "moved", "negatives": ["bm25"], "candidates": "bm25"}
    long = {
        "systems": {"pairs": {**entry, "depth": 9, "recipe": {"lengths": {"query": 400, "passage": 400}}}}
    }
    with pytest.raises(ValueError, match=r"^models\.backbone\.path: expected at least 799 positions for"):
        check_longest_row(load(merged(MOVED, long)).settings, "mine", "pairs")


def test_the_plan_knows_its_shape(load: Load, tmp_path: Path) -> None:
    from condenser.pipeline.costs.data import Data
    from condenser.pipeline.costs.jobs import read_jobs
    from condenser.pipeline.costs.tables import Tables

    jobs = read_jobs(load(MOVED).write_plan_of("mine", "moved", tmp_path))
    tables = Tables(Path(__file__).resolve().parents[2] / "condenser/pipeline/costs/tables")
    data = Data(jobs, tables, tables.device("H200"))

    def shape(rule: str, **wildcards: str) -> Any:
        (job,) = (one for one in jobs if one.rule == rule and wildcards.items() <= one.wildcards.items())
        return data.shape(job)

    start = shape("checkpoint", model="backbone", dataset="mine")
    assert start.num_layers == 6
    assert shape("checkpoint", model="moved") == start
    assert shape("train", system="moved-tuned") == start
    assert shape("pretrain", model="again") == start  # a Condenser's head is not left by a fine-tuning


@pytest.mark.parametrize(
    ("overlay", "line"),
    [
        (with_model(dataset="msmarko"), "dataset: expected one of mine, msmarco, .* Did you mean msma"),
        (with_model(system="cocondensr-round2"), "system: expected one of moved-zeroshot, .* mean coc"),
        (with_model(system="bm25"), "system: expected a system that is trained to encode texts of msmarco, "
         "got bm25, which is not trained. Name a model as initial for a model as it is."),
        (with_model(system="hybrid"), "system: expected .* got hybrid, which is not trained"),
        (with_model(system="backbone-zeroshot"), "system: expected .* got backbone-zeroshot, which is"),
        (with_model(system="rerank-backbone"), "system: expected .* which reads a query and a pass"),
        (with_model(system="backbone-sentences"), "system: expected .* backbone-sentences, which is not for "
         "queries"),
        (with_model(dataset="stsb"), "system: expected .* of stsb, got cocondenser-round2, which is not for "
         "sentences"),
        (with_model(variant="untrained"), "variant: expected one that cocondenser-round2 has, such as "
         "seed42, got 'untrained'"),
        (with_model(variant="../seed1"), "variant: expected one that .* got '../seed1'"),
        (with_model(system="distilled", variant="n10-seed1"), "variant: expected one that distilled has, "
         "such as seed42, got 'n10-seed1'"),
        (with_model(seed="each"), "seed: expected a whole number, got each"),
        (with_model(system=None), "source system needs system"),
        (with_model(id="x"), "source system takes no id"),
        (with_model(system="moved-tuned"), "system: expected a system that does not start from moved itself, "
         "got moved-tuned"),
        (merged(with_model(system="last"), {
            "models": {"other": {**SYSTEM, "dataset": "mine", "system": "moved-tuned"}},
            "systems": {"last": {"kind": "biencoder", "initial": "other", "negatives": ["bm25"]}}}),
         "system: expected a system that does not start from moved itself, got moved-tuned"),
        (merged(with_model(system="last"), {"systems": {"last": {
            "kind": "biencoder", "initial": "backbone", "negatives": ["moved-zeroshot"]}}}),
         "system: expected a system that does not start from moved itself, got moved-zeroshot"),
    ],
)  # fmt: skip
def test_what_no_model_can_be_made_of_is_refused_in_one_line(
    load: Load, overlay: dict[str, Any], line: str
) -> None:
    said = refusal(lambda: load(overlay))
    assert re.match(rf"error: config: models\.moved[.:] ?{line}", said), said


TWO = {
    "models": {"two": {**SYSTEM, "dataset": "msmarco", "system": "condenser-untied"}},
    "systems": {
        "two-zeroshot": {"kind": "biencoder", "initial": "two", "train": False},
        "two-tuned": {
            **{"kind": "biencoder", "initial": "two", "negatives": ["bm25"]},
            "recipe": {"tied": False},
        },
    },
}


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        ({"models": {"again": {"initial": "two"}}}, "models.again.initial: expected a model with one "
         "encoder, got two, which has two. Set systems.condenser-untied.recipe.tied to true."),
        ({"systems": {"two-tuned": {"recipe": {"tied": True}}}}, "systems.two-tuned.initial: expected a "
         "model with one encoder, got two, which has two. Set systems.condenser-untied.recipe.tied to true, "
         "or systems.two-tuned.recipe.tied to false."),
        ({"systems": {"late": {"initial": "two"}}}, "systems.late.initial: expected a model with one "),
    ],
)  # fmt: skip
def test_one_with_two_encoders_starts_only_what_reads_both(
    load: Load, edit: dict[str, Any], line: str
) -> None:
    load(merged(MOVED, TWO))
    assert refusal(lambda: load(merged(merged(MOVED, TWO), edit))).startswith(f"error: config: {line}")


SCRATCH = {"source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2,
           "intermediate_size": 64, "max_positions": 136}  # fmt: skip
CHOSEN = merged(MOVED, {"models": {"adapted": {"of": ["backbone-zeroshot", "moved-zeroshot"]}}})


def test_it_can_be_chosen_over_the_start_that_it_began_with(load: Load) -> None:
    graph = load(CHOSEN)
    graph.jobs("results/mine/models/adapted/model.safetensors")
    assert graph.parents("best_of mine adapted") > {"checkpoint mine moved", "checkpoint mine backbone"}


@pytest.mark.parametrize(
    ("models", "fault"),
    [
        ({"moved": {"prompts": {"query": "q: "}}}, "moved-zeroshot, which has prompts of its own."),
        ({"adapted": {"of": ["backbone-zeroshot", "two-zeroshot"]}},
         "two-zeroshot, which has two encoders."),
        ({"backbone": SCRATCH}, "moved-zeroshot, whose vocabulary is of another data set."),
        ({"adapted": {"of": ["backbone-zeroshot", "other-zeroshot"]}}, "other-zeroshot, which has other."),
    ],
)  # fmt: skip
def test_it_cannot_be_chosen_where_it_reads_other_tokens(
    load: Load, models: dict[str, Any], fault: str
) -> None:
    other = {
        "models": {"other": {"objective": "checkpoint", "source": "embedded"}},
        "systems": {"other-zeroshot": {"kind": "biencoder", "initial": "other", "train": False}},
    }
    overlay = merged(merged(CHOSEN, TWO), merged(other, {"models": models}))
    said = refusal(lambda: load(overlay))
    assert f"models.adapted.of: expected models of one checkpoint, got {fault}" in said


@pytest.mark.ci
def test_a_retriever_of_one_data_set_ranks_is_trained_on_and_exported_on_another(
    copy_of_golden: Callable[[], Path],
) -> None:
    """The second data set is the first two thirds of the tiny one, so its own vocabulary would be another."""
    folder = copy_of_golden()
    shutil.copytree(folder / "tests/data/tiny", folder / "mine")
    passages = (folder / "mine/corpus.jsonl").read_text().splitlines(keepends=True)
    (folder / "mine/corpus.jsonl").write_text("".join(passages[:160]))
    overlay = {
        **MOVED,
        "datasets": {"mine": {"source": "beir", "path": "mine", "bad_rows": "skip"}},
        "models": {
            "moved": {**SYSTEM, "dataset": "tiny", "system": "cocondenser-round1"},
            "again": {"objective": "condenser", "initial": "moved"},
        },
    }
    (folder / "moved.yaml").write_text(yaml.safe_dump(overlay))
    exported = "results/mine/systems/moved-tuned/seed42/export"
    said = finished(folder, f"{exported}/agreement.json", target=TABLE, overlays=["moved.yaml"])
    assert "results/tiny" not in said  # it was trained before

    theirs, ours = (folder / "results" / path for path in (
        "tiny/systems/cocondenser-round1/seed42/model", "mine/models/moved"
    ))  # fmt: skip
    files = {file.relative_to(theirs) for file in theirs.rglob("*") if file.is_file()}
    assert {"model.safetensors", "tokenizer.json", "modules.json"} <= {file.name for file in files}
    for file in files - {Path("losses.jsonl"), Path("validation.json")}:
        assert sha256_file(ours / file) == sha256_file(theirs / file), file
    manifest = read_json(folder / "results/mine/models/moved.manifest.json")
    assert manifest["counts"]["mlm_head"] == "new"
    assert manifest["inputs"]["../../tiny/systems/cocondenser-round1/seed42/model/model.safetensors"]
    measured = {
        system: json.loads(
            next((folder / f"results/mine/systems/{system}").glob("*/metrics.dev.json")).read_text()
        )
        for system in overlay["tables"]["moved"]["rows"]
    }
    assert len({json.dumps(one["per_query"]) for one in measured.values()}) == 4
    assert {row["backbone"] for row in rows_of(folder / TABLE)} > {"cocondenser-round1 of tiny"}

    card = (folder / exported / "model/README.md").read_text()
    assert "| `cocondenser-round1` of tiny | train |" in card and "| `moved-tuned` | train |" in card
    assert "| Collection | mine, 160 passages |" in card

    edit = {"systems": {"cocondenser-round1": {"recipe": {"learning_rate": 1.0e-4}}}}
    (folder / "edit.yaml").write_text(yaml.safe_dump(edit))
    again = rules_to_run(folder, target=TABLE, overlays=["moved.yaml", "edit.yaml"])
    assert {"train", "checkpoint", "pretrain", "encode", "table"} <= again
    assert not again & {"collect_mine", "collect_tiny", "bm25_index"}


@pytest.mark.ci
def test_a_model_with_two_encoders_ranks_as_its_system_and_is_trained_on(
    copy_of_golden: Callable[[], Path],
) -> None:
    folder = copy_of_golden()
    model = {"two": {**SYSTEM, "dataset": "tiny", "system": "condenser-untied"}}
    (folder / "two.yaml").write_text(yaml.safe_dump({**TWO, "models": model}))
    system, copy, tuned = (folder / "results/tiny" / path for path in (
        "systems/condenser-untied/seed42/model", "models/two", "systems/two-tuned/seed42/model"
    ))  # fmt: skip
    runs = [
        f"results/tiny/systems/{name}/run.dev.trec"
        for name in ("condenser-untied/seed42", "two-zeroshot/untrained")
    ]
    weights = str((tuned / "model.safetensors").relative_to(folder))
    make(folder, *runs, weights, overlays=["two.yaml"])
    theirs, ours = (scores_by_query(folder / run) for run in runs)
    assert ours == theirs and len(ours) > 40
    encoders = ["model.safetensors", "query/model.safetensors"]
    assert [sha256_file(copy / name) for name in encoders] == [
        sha256_file(system / name) for name in encoders
    ]
    assert len({sha256_file(one / name) for one in (copy, tuned) for name in encoders}) == 4
    inputs = read_json(folder / "results/tiny/models/two.manifest.json")["inputs"]
    assert "../systems/condenser-untied/seed42/model/query/model.safetensors" in inputs
