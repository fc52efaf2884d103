"""The lines below a table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from condenser.blocks import AutoLengths
from condenser.data.languages import LanguageTally
from condenser.data.lengths import TextLengths, TokenCounts
from condenser.evaluate.columns import Column
from condenser.evaluate.comparisons import Measured
from condenser.evaluate.notes import (
    kept_lines,
    language_lines,
    left_out_lines,
    notes_of_table,
    pooled_lines,
    trivial_lines,
    uncompared_lines,
    unknown_lines,
    update_lines,
    write_notes,
)
from condenser.evaluate.significance import Comparison
from condenser.files import write_json
from condenser.manifest import Record
from condenser.settings import partly
from condenser.shown import is_counted
from condenser.train.validation import NOT_COMPARED, StartComparison


def columns_of(*measures: str, depth: int = 1000) -> list[Column]:
    return [Column(name, "mine", "dev", name, "beir", "train", depth) for name in measures]


def losses(path: Path, *, steps: int, items_of_epoch: int, skipped: int = 0) -> Path:
    lines = [
        {"outcome": "updated", "items": 16, "items_of_epoch": items_of_epoch} for _ in range(steps - skipped)
    ]
    for outcome in ("overflowed", "skipped")[:skipped]:
        lines.insert(0, {**lines[0], "outcome": outcome})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


TEXTS = TextLengths(
    512,
    TokenCounts(100, 37, Counter({100: 64, 200: 236})),
    {"dev": TokenCounts(1000, 9, Counter({12: 40}))},
    {"query": 0, "passage": 0},
    partly(AutoLengths, {"share": 0.95, "multiple": 8}),
    ("[CLS] is assumed.",),
)


BETTER = Comparison(0.02, -0.001, 0.04, 0.03, 0.12, "better", 0.05, "randomisation over queries")


def notes(folder: Path, **changes: Any) -> list[str]:
    of_text = {"dataset": "mine", "model": "backbone", "lengths": {"query": 32, "passage": 128}}
    texts = [of_text | {"in_one_row": False, "splits": ["dev"], "systems": ["A", "B"]}]
    counts = {
        **{"passages": 300, "rejected_rows": {"passages": 2, "judgements of dev": 3}},
        **{"repeated_texts": 12, "queries_of_unknown_passages": {"dev": 3}},
    }
    given = {
        "dataset": "mine",
        "columns": columns_of("MRR@10", "R@1000"),
        "counts": {"mine": counts},
        "noted": {"texts": texts, "trainings": [{"model": "condenser", "seed": None}], "compared": []},
        "lengths": {("mine", "backbone"): TEXTS},
        "losses": [losses(folder / "condenser.jsonl", steps=18, items_of_epoch=1152)],
        "validations": [],
        "records": [],
        "by_column": {"MRR@10": Measured([], {(1, 0): BETTER}, 40)},
        "unknown_words": 0.01,
    }
    return notes_of_table(**{**given, **changes})


def test_a_table_says_what_was_left_out_cut_unknown_trivial_and_made(tmp_path: Path) -> None:
    assert notes(tmp_path) == [
        "Left out as bad rows: 2 passages, 3 judgements of dev; rejected.jsonl lists them.",
        "3 queries of dev are left out: all their judgements name passages that the collection lacks.",
        "12 of 300 passages have the title and text of an earlier one: they count as wrong where only that "
        "one is judged, and may be negatives of it.",
        "236 of 300 passages (78.7 %) are longer than 128 tokens; 32.1 % of the tokens are never read.",
        "backbone: [CLS] is assumed.",
        "37.0 % of the words of the passages are unknown to the vocabulary of backbone, which reads [UNK] in "
        "place of each.",
        "R@1000 is the same for every ranking: its depth covers all 300 ranked texts.",
        "condenser: 18 updates, 0.25 epochs.",
        'An interval of a difference may hold 0 beside "better" or "worse": it also allows for queries '
        "unlike those measured, and the verdict is by a test that does not.",
    ]


def test_lines_name_the_systems_where_they_read_alike_and_the_data_set_where_it_is_another(
    tmp_path: Path,
) -> None:
    of_text = {"dataset": "other", "model": "backbone", "in_one_row": False, "splits": []}
    texts = [
        {**of_text, "lengths": {"query": 32, "passage": 128}, "systems": ["A", "B"]},
        {**of_text, "lengths": {"query": 32, "passage": 200}, "systems": ["C"]},
    ]
    changes = {
        "counts": {
            "mine": {"passages": 5000, "left_out": {"body_short": 7}},
            "other": {"passages": 300, "rejected_rows": {"queries": 1}},
        },
        "noted": {"texts": texts, "trainings": [], "compared": []},
        "lengths": {("other", "backbone"): TEXTS},
        **{"losses": [], "unknown_words": 0.5, "by_column": {}},
    }
    assert notes(tmp_path, **changes) == [
        "other: Left out as bad rows: 1 queries; rejected.jsonl lists them.",
        "other: A, B: 236 of 300 passages (78.7 %) are longer than 128 tokens; 32.1 % of the tokens are "
        "never read.",
        "other: C: None of the 300 passages is longer than 200 tokens.",
        "backbone: [CLS] is assumed.",
    ]


def test_a_note_names_each_training_that_is_not_better_than_its_start_and_what_was_kept(
    tmp_path: Path,
) -> None:
    trainings = [{"system": "round1", "variant": f"seed{seed}"} for seed in range(4)]
    outcomes = [
        StartComparison("trained", 100, 487, 0.5, 0.75, won=40, lost=15),
        StartComparison("mean", 1200, 487, 0.5, 0.4375, 0.625, won=20, lost=30),
        StartComparison("start", 60, 300, 0.5, 0.5, 0.25, won=3, lost=3),
        NOT_COMPARED,
    ]
    files = [tmp_path / f"{number}.json" for number in range(4)]
    for file, outcome in zip(files, outcomes, strict=True):
        write_json(file, asdict(outcome))
    assert kept_lines(trainings, files) == [
        "round1, seed1, is not better than its start on 1,200 held-out train queries "
        "(MRR@10 0.438, start 0.500; 20 won, 30 lost): a mean with the start's weights is kept.",
        "round1, seed2, is not better than its start on 60 held-out train queries "
        "(MRR@10 0.500, start 0.500; 3 won, 3 lost): the start's weights are kept.",
    ]


def test_a_depth_is_compared_with_the_documents_of_split_passages(tmp_path: Path) -> None:
    counts = {"mine": {"passages": 5000, "documents": 40}}
    line = "R@1000 is the same for every ranking: its depth covers all 40 ranked texts."
    assert line in notes(tmp_path, counts=counts)


SAME = "{} is the same for every ranking: its depth covers all {} ranked texts."
LITTLE = "R@100 tells little: its depth covers 33 % of the 300 ranked texts, so a random ranking has 0.33"


@pytest.mark.parametrize(
    ("measure", "num_passages", "depth", "line"),
    [
        ("R@1000", 1000, 1000, SAME.format("R@1000", "1,000")),
        ("hits@20", 20, 1000, SAME.format("hits@20", 20)),
        ("R@1000", 1001, 2000, "R@1000 tells little: its depth covers 100 % of the 1,001 ranked texts"),
        ("R@1000", 800, 200, None),  # the runs are not so deep
        ("MRR@1000", 300, 1000, None),
        ("R@100", 300, 1000, LITTLE),
        ("R@100", 301, 1000, None),
    ],
)
def test_a_depth_that_takes_in_much_of_the_passages_tells_little(
    measure: str, num_passages: int, depth: int, line: str | None
) -> None:
    lines = trivial_lines(columns_of(measure, depth=depth), {"mine": num_passages})
    assert len(lines) == (line is not None) and all(found.startswith(str(line)) for found in lines)


def test_updates_are_those_of_the_log_and_seeds_of_one_system_share_a_line(tmp_path: Path) -> None:
    files = [
        losses(tmp_path / str(number), steps=steps, items_of_epoch=32, skipped=skipped)
        for number, (steps, skipped) in enumerate([(6, 2), (6, 0), (2, 0), (6, 0)])
    ]
    trainings = [{"system": "round1", "variant": name} for name in ("seed1", "seed2", "n250-seed1")]
    trainings.append({"system": "round2", "variant": "seed1", "soup": 3})
    assert update_lines(trainings, files, []) == [
        "round1: 4 to 6 updates, 3 epochs.",
        "round1 (250 train queries): 2 updates, 1 epoch.",
        "round2: 6 updates, 3 epochs, in 3 trainings whose weights are averaged.",
    ]


def record(rule: str, counts: dict[str, Any], *outputs: Path, config: Any = None, **wildcards: str) -> Record:
    spec = {"rule": rule, "wildcards": {"dataset": "mine", **wildcards}, "config": config or {}}
    return Record(Path(), spec, {}, dict.fromkeys(outputs, ""), counts, {})


def test_a_line_says_where_a_bound_and_not_epochs_decided_on_the_updates(tmp_path: Path) -> None:
    files = [losses(tmp_path / name, steps=32, items_of_epoch=64) for name in ("bound", "epochs")]
    recipes = [{"epochs": 2, "updates": {"least": 32}}, {"epochs": 8, "updates": {"least": 32}}]
    records = [
        record("train", {}, file, config={"recipe": recipe})
        for file, recipe in zip(files, recipes, strict=True)
    ]
    trainings = [{"system": file.name, "variant": "seed1"} for file in files]
    assert update_lines(trainings, files, records) == [
        "bound: 32 updates, 8 epochs. updates.least (32) decides, not epochs: 2 epochs would be 8 updates.",
        "epochs: 32 updates, 8 epochs.",
    ]


def test_a_line_says_that_too_few_train_queries_are_held_out_to_compare_with_the_start(
    tmp_path: Path,
) -> None:
    file = tmp_path / "validation.json"
    write_json(file, asdict(NOT_COMPARED))
    held_out = record(
        *("held_out", {"queries": 0, "of": 192}),
        config={"recipe": {"held_out": {"share": 0.1, "least": 50}}},
        variant="seed1",
    )
    trained, not_asked = ({"recipe": {"validation": asked}} for asked in ({"keep": "better"}, None))
    trainings = [{"system": "round1", "variant": "seed1"}]
    assert uncompared_lines(trainings, [file], [held_out, record("train", {}, file, config=trained)]) == [
        "round1 is not compared with its start: a share of 0.1 of 192 train queries is less than 50, so none "
        "is held out (held_out)."
    ]
    assert uncompared_lines(trainings, [file], [held_out, record("train", {}, file, config=not_asked)]) == []


def test_a_line_tells_what_of_each_ranking_pooled_judgements_miss() -> None:
    pool = {"systems": ["bm25", "hybrid"], "depth": 10, "last": "2026-11-30"}
    firsts = {"first_hits": 50, "unjudged_first_hits": 6}
    dense = {"system": "dense", "variant": "seed1", "split": "judged"}
    records = [
        record("metrics", firsts, system="late", variant="untrained", split="judged"),
        record("metrics", {**firsts, "unjudged_first_hits": 0}, **dense),
        record("metrics", firsts, system="other", variant="untrained", split="dev"),
    ]
    assert pooled_lines("mine", {"pooled": {"judged": pool}}, records) == [
        "The judgements of judged are of the first 10 hits of bm25, hybrid, pooled, the last of 2026-11-30. "
        "Of the first ten hits of each row these have no judgement, and count as not relevant: late 12 %, "
        "dense seed1 0 %."
    ]
    assert pooled_lines("mine", {}, records) == []


def test_a_line_tells_each_count_of_the_jobs_behind_a_table_that_is_not_0() -> None:
    seed1, bm25 = {"variant": "seed1"}, {"system": "bm25"}
    round1, round1_of_seed2 = {"system": "round1", **seed1}, {"system": "round1", "variant": "seed2"}
    examples = {"queries": 192, "examples": 92, "without_hits": 96, "without_positive_in_run": 4}
    fusion = {"system": {"least_queries": 40, "of": ["a", "b", "c"]}}
    measured = {"metrics": {"measures": ["MRR@10"], "relevant_grade": 2}}
    metrics = {"queries": 10, "queries_without_relevant": 3, "queries_of_equal_scores": 2}
    spans, english = {"model": {"min_span_tokens": 4}}, {"system": {"language": "en"}}
    without_hits = {"queries": 10, "queries_without_hits": 5}
    from_bm25, from_both = ({"system": {"negatives": names}} for names in (["bm25"], ["bm25", "round1"]))
    records = [
        record("pretrain", {"rows": 300, "documents_left_out": 30}, config=spans, model="cocondenser"),
        record("pretrain", {"rows": 300, "texts_of_one_sentence": 7}, model="ict-seed1"),
        record("examples", examples, **bm25, **seed1),
        record("examples", {**examples, "examples": 188, "without_hits": 0}, **round1),
        record("train", {}, config=from_bm25, **round1),
        record("train", {}, config=from_both, system="round2", **seed1),
        record("bm25_run", without_hits, config=english, split="dev", **bm25),
        record("fusion_weights", {"queries": 0}, config=fusion, system="hybrid", **seed1),
        record("encode", {"rows": 150, "zero_vectors": 1}, shard="0-of-2", **round1),
        record("encode", {"rows": 150, "zero_vectors": 2}, shard="1-of-2", **round1),
        record("metrics", metrics, config=measured, split="dev", **round1),
        record("metrics", {**metrics, "queries_of_equal_scores": 0}, config=measured, **round1_of_seed2),
    ]
    assert left_out_lines(records, "mine") == [
        "cocondenser: 30 of 300 passages are left out: too short for two spans of 4 tokens.",
        "ict: 7 of 300 passages are left out: they have one sentence at most.",
        "round1: 92 of 192 train queries; 96 without a hit of bm25, 4 without their positive in its run.",
        "round2: 92 of 192 train queries with negatives of bm25; 96 without a hit of bm25, 4 without their "
        "positive in its run.",
        "round2: 188 of 192 train queries with negatives of round1; 4 without their positive in the run of "
        "round1.",
        "bm25: found nothing for 5 of 10 queries: its language is en.",
        "hybrid: its weights are equal (0.33 each) and not learnt: that needs 40 judged queries that no part "
        "is trained on, and there are 0.",
        "round1: 3 of 300 passages have a vector of length 0, whose scores are all 0.",
        "round1, seed1: the first ten scores are equal for 2 of 10 queries: their order says nothing.",
        "3 of 10 queries have no passage of grade 2 or more: each ranking scores 0 for them.",
    ]
    clean = [Record(one.path, one.spec, {}, {}, dict.fromkeys(one.counts, 0), {}) for one in records]
    lines = left_out_lines([one for one in clean if one.spec["rule"] != "fusion_weights"], "mine")
    assert lines == []


TEXTS_OF_LANGUAGES = {
    "pl": "Koszt jest wysoki, ale nie przez to, że się psuje, lecz z powodu podatku od paliwa na wsi. ",
    "en": "The cost of this is high, and that is not by the tax which they have paid for it with fuel. ",
    "ja": "この費用は高いですが、それは燃料にかかる税金のためではありません。",
    "th": "ค่าใช้จ่ายนี้สูง แต่ไม่ใช่เพราะภาษีที่พวกเขาจ่ายสำหรับน้ำมันเชื้อเพลิง",
    "cs": "Cena je vysoká, ale ne kvůli dani, kterou platíme za palivo pro auta a traktory. ",
}
STARTS_IN_ENGLISH = "backbone was trained on English (take a multilingual start)"
STARTS_IN_CZECH = "backbone was trained on cs (take a multilingual start)"


@pytest.mark.parametrize(
    ("texts", "bm25", "start", "seem", "reasons"),
    [
        ("en", "en", ["en"], "", ""),
        ("pl", "pl", ["multilingual"], "", ""),
        ("pl", "pl", ["en", "pl"], "", ""),
        ("ja", "ja", [], "", ""),
        ("pl", "en", [], "Polish", "bm25 reads English (set systems.bm25.language: pl)"),
        ("ja", "en", ["en"], "Japanese",
         f"bm25 reads English (set systems.bm25.language: ja), {STARTS_IN_ENGLISH}"),
        ("th", "en", [], "Thai", "bm25 reads English (put spaces between the words, or leave it out)"),
        ("pl", "pl", ["cs"], "Polish", STARTS_IN_CZECH),
        ("cs", "en", [], "of another language", "bm25 reads English (set systems.bm25.language)"),
    ],
)  # fmt: skip
def test_a_line_says_where_bm25_or_the_start_is_of_another_language(
    texts: str, bm25: str, start: list[str], seem: str, reasons: str
) -> None:
    tally = LanguageTally()
    tally.add(TEXTS_OF_LANGUAGES[texts] * 40)
    records = [
        record("bm25_run", {}, config={"system": {"language": bm25}}, system="bm25", split="dev"),
        record("checkpoint", {"languages": start}, model="backbone"),
    ]
    expected = [f"The passages seem to be {seem}: {reasons}."] if seem else []
    assert language_lines("mine", {"languages": tally.as_json()}, records) == expected


def test_few_texts_and_lists_of_names_are_of_any_language() -> None:
    english = [record("bm25_run", {}, config={"system": {"language": "en"}}, system="bm25", split="dev")]
    for text in ("Koszt jest wysoki.", "trousers black 34 zip, jacket green 52 wool. " * 8, ""):
        tally = LanguageTally()
        tally.add(text)
        assert language_lines("mine", {"languages": tally.as_json()}, english) == []


def test_counts_are_read_of_the_evaluation_sets_of_a_table_alone() -> None:
    places = [("mine", "dev")]
    run = {"dataset": "mine", "system": "bm25", "split": "dev"}
    assert is_counted("bm25_run", run, places)
    assert not is_counted("bm25_run", {**run, "split": "train"}, places)
    assert is_counted("examples", {"dataset": "mine"}, places) and not is_counted("tokens", {}, places)


@pytest.mark.parametrize(("above", "is_said"), [(0.125, False), (0.12, True)])
def test_unknown_words_are_said_where_their_share_is_above_the_limit(above: float, is_said: bool) -> None:
    texts = replace(TEXTS, passages=TokenCounts(8, 1, Counter({9: 1})))
    assert bool(unknown_lines(texts, "m", splits=[], above=above)) == is_said


def test_notes_are_a_line_each(tmp_path: Path) -> None:
    write_notes(tmp_path / "n.txt", ["one", "two"])
    assert (tmp_path / "n.txt").read_bytes() == b"one\ntwo\n"
