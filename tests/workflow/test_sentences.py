"""The sentence tasks: what a table of them asks for, what it refuses, and one that is made."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from graphs import Load, refusal, rules
from made import make
from runs import rows_of

LOW_DATA = "results/stsb/low_data.tsv"


def test_a_table_of_sentences_trains_each_size_and_seed_once_and_ranks_nothing(load: Load) -> None:
    graph = load()
    jobs = graph.jobs(LOW_DATA)
    assert rules(set(jobs)) == {
        *("download", "collect", "checkpoint", "tokens", "pretrain", "subset"),
        *("train_sentences", "similarities", "sentence_metrics", "table"),
    }
    variants = {f"{size}seed{seed}" for size in ("n500-", "n1000-", "") for seed in (1, 2, 3)}
    trained = {tuple(job.split()[2:]) for job in jobs if job.startswith("train_sentences ")}
    systems = ("backbone-sentences", "condenser-sentences")
    assert trained == {(system, variant) for system in systems for variant in variants}
    measured = {job for job in jobs if job.startswith("sentence_metrics ")}
    assert len(measured) == len(trained) + 1  # the untouched start
    assert {job.split()[2] for job in jobs if job.startswith("subset ")} == {
        variant for variant in variants if variant.startswith("n")
    }
    rows = graph.spec(jobs[-1])["config"]["table"]
    assert [column["name"] for column in rows["columns"]] == ["spearman"] and rows["starts"] == [
        None,
        *[0] * 6,
    ]


def test_the_models_of_sentences_are_pre_trained_on_them_or_on_the_documents_of_the_data_set(
    load: Load,
) -> None:
    assert "pretrain stsb condenser" in load().jobs(LOW_DATA)
    jobs = load({"datasets": {"stsb": {"documents": "msmarco"}}}).jobs(LOW_DATA)
    assert "pretrain msmarco condenser" in jobs and "pretrain stsb condenser" not in jobs


def test_an_encoder_is_trained_on_nli_first_with_one_seed_for_all_its_variants(load: Load) -> None:
    graph = load()
    job = "train_sentences stsb backbone-nli-sentences n500-seed3"
    jobs = graph.jobs("results/stsb/systems/backbone-nli-sentences/n500-seed3/model/model.safetensors")
    first = "results/nli/systems/backbone-nli-sentences/seed42/model/model.safetensors"
    assert jobs[-1] == job and first in graph.inputs(job)
    before = "train_sentences nli backbone-nli-sentences seed42"
    assert before in jobs and "results/nli/models/backbone/model.safetensors" in graph.inputs(before)
    assert graph.spec(before)["config"]["recipe"]["epochs"] == 1
    assert graph.spec(job)["config"]["recipe"]["epochs"] == 4


LSTM = {"objective": "checkpoint", "source": "lstm", "path": "config.yaml", "vocab_size": 99,
        "hidden_size": 4, "pooling": "max"}  # fmt: skip


def test_an_lstm_starts_from_the_users_file_and_serves_other_data_sets_as_a_model(load: Load) -> None:
    overlay = {
        "models": {
            "lstm": LSTM,
            "of-nli": {"objective": "checkpoint", "source": "system", "dataset": "nli", "system": "trained"},
        },
        "systems": {
            "trained": {"kind": "sentence_encoder", "initial": "lstm"},
            "infersent": {"kind": "sentence_encoder", "initial": "of-nli", "train": False},
        },
    }
    graph = load(overlay)
    jobs = graph.jobs("results/stsb/systems/infersent/untrained/metrics.test.json")
    assert [job for job in jobs if job.startswith(("checkpoint", "train", "similarities"))] == [
        *("checkpoint nli lstm", "train_sentences nli trained seed42", "checkpoint stsb of-nli"),
        "similarities stsb infersent untrained test",
    ]
    assert graph.spec("checkpoint nli lstm")["contents"].keys() == {"config.yaml"}
    assert "sentence-transformers" in graph.spec("checkpoint nli lstm")["versions"]
    lost = load({**overlay, "models": {**overlay["models"], "lstm": {**LSTM, "path": "no/glove.txt"}}})
    line = refusal(lambda: lost.jobs("results/stsb/systems/trained/seed42/metrics.test.json"))
    assert line.startswith("error: config: models.lstm.path: expected a file of word vectors such as GloVe's")


def test_word_vectors_are_the_users_file_and_train_nothing(load: Load) -> None:
    graph = load({"systems": {"glove": {"kind": "word_vectors", "path": "config.yaml"}}})
    jobs = graph.jobs("results/stsb/systems/glove/untrained/metrics.test.json")
    assert rules(set(jobs)) == {"download", "collect", "word_similarities", "sentence_metrics"}
    assert graph.spec("word_similarities stsb glove untrained test")["contents"].keys() == {"config.yaml"}


def test_an_overlay_that_speaks_of_sentences_makes_their_table(load: Load) -> None:
    assert load({"datasets": {"stsb": {"documents": "msmarco"}}}).default_targets() == [LOW_DATA]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("results/stsb/table2.tsv", "expected rows of systems for sentences, got backbone-zeroshot"),
        ("results/msmarco/sentences.tsv", "expected rows of systems for queries, got backbone-sentences"),
        ("results/nli/low_data.tsv", "expected rows of systems for sentences, got backbone-zeroshot"),
        ("results/nli/loss_curve.svg", "expected rows of systems for sentences, got backbone-round1"),
        ("results/nli/attention_entropy.svg", "expected rows of systems for sentences, got backbone"),
    ],
)
def test_a_table_or_figure_of_the_other_kind_is_refused_in_one_line(
    load: Load, target: str, said: str
) -> None:
    table = {"rows": ["backbone-sentences"], "measures": ["MRR@10"]}
    line = refusal(lambda: load({"tables": {"sentences": table}}).jobs(target))
    assert line.startswith(f"error: {target.rpartition('/')[0]}") and said in line


@pytest.mark.ci
def test_a_table_of_pairs_is_made_from_a_folder_of_ones_own(copy_of_golden: Callable[[], Path]) -> None:
    folder = copy_of_golden()
    words = ["brain", "heart", "liver", "lung", "skin", "bone", "blood", "nerve", "muscle", "eye"]
    for split, count in (("train", 24), ("test", 12)):
        pairs = [
            (f"What is the {words[row % 10]}?", f"The {words[(row * 3) % 10]} is that.", f"{row % 6}.0")
            for row in range(count)
        ]
        with (folder / f"stsb-en-{split}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(pairs)
    (folder / "pairs.yaml").write_text(
        "datasets: {stsb: {path: ., documents: tiny}}\n"
        "recipes: {stsb: {epochs: 1, max_tokens: 32}}\n"
        "tables: {low_data: {by_dataset: {stsb: {train_queries: [12, all], seeds: [1]}}}}\n"
    )
    figure = "results/stsb/train_size.svg"
    make(folder, figure, overlays=["pairs.yaml"])
    rows = rows_of(folder / LOW_DATA)
    assert [(row["method"], row["train_queries"], row["queries"]) for row in rows] == [
        ("Start, not fine-tuned", "all", "12"),
        *((method, size, "12") for method in ("Start, fine-tuned", "Condenser") for size in ("12", "all")),
    ]
    assert all(-1 <= float(row["spearman"]) <= 1 for row in rows)
    figures = rows_of((folder / figure).with_suffix(".tsv"))
    drawn = {(row["train_queries"], row["queries"]) for row in figures}
    assert drawn == {("", ""), ("12", "12"), ("all", "24")}
