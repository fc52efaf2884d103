"""The plan against times that were measured, against counts by hand, and against what has run."""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from graphs import Load
from own_collections import write_beir

from condenser.pipeline import costs
from condenser.pipeline.costs import Job

# Seconds of the benchmarks of finished runs, two jobs at a time on two shared cores (2026-11-29).
MEASURED = {
    "msmarco": {"bm25_run": 24.9, "encode": 181.4, "encode_queries": 31.1, "pretrain": 152.6, "train": 623.1},
    "medquad": {
        "bm25_run": 65.9,
        "encode": 954.0,
        "encode_queries": 63.8,
        "late": 30.0,
        "train": 924.8,
    },  # late: with kept states, 2026-11-30
}
MEDQUAD = {  # 15,809 passages, 11,466 and 1,446 queries, by the counts of their tokens
    "passages": {"rows": 15_809, "tokens": 4_417_239},
    "train": {"rows": 11_466, "tokens": 149_386},
    "test": {"rows": 1_446, "tokens": 19_079},
}

Jobs = Callable[..., list[Job]]


@pytest.fixture
def jobs(load: Load) -> Jobs:
    def of_table(dataset: str, table: str, overlay: dict[str, Any] | None = None, **more: Any) -> list[Job]:
        return deepcopy(load(overlay or {}, **more).planned_jobs(dataset, table))

    return of_table


@pytest.fixture
def tiny(jobs: Jobs) -> list[Job]:
    return jobs("tiny", "table2", configfile="configs/tiny.yaml")


def seconds_by_rule(rows: list[dict[str, Any]]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for row in rows:
        sums[row["rule"].split()[0]] += row["seconds"] or 0.0
    return sums


def only(jobs: list[Job], rule: str, **wildcards: str) -> Job:
    (job,) = [job for job in jobs if job.rule == rule and wildcards.items() <= job.wildcards.items()]
    return job


def test_the_plan_of_the_default_is_within_a_factor_of_two_of_what_it_took(load: Load) -> None:
    planned = seconds_by_rule(load().plan("msmarco", "table2", "Xeon"))
    for name, took in MEASURED["msmarco"].items():
        assert took / 2 < planned[name] < 2 * took, (name, planned[name])


def test_so_is_that_of_a_collection_with_thirteen_times_as_many_tokens(load: Load, tmp_path: Path) -> None:
    write_beir(tmp_path / "medquad", **{"qrels/test.tsv": "query-id\tcorpus-id\tscore\nq2\td2\t2\n"})
    entry = {"source": "beir", "path": str(tmp_path / "medquad"), "eval_split": "test"}
    entry |= {"lengths": {"query": 32, "passage": 128}}
    best = {"train_queries": [1000], "seeds": [1]}
    jobs = load({"datasets": {"medquad": entry}, "tables": {"best": best}}).planned_jobs("medquad", "best")
    for job in jobs:
        if job.rule in ("tokens", "query_tokens"):
            job.counts = MEDQUAD[job.wildcards.get("split", "passages")]
    planned = seconds_by_rule(costs.plan_of(jobs, "medquad", "Xeon"))
    for name, took in MEASURED["medquad"].items():
        assert took / 2 < planned[name] < 2 * took, (name, planned[name])


def test_a_training_has_its_tokens_by_hand(jobs: Jobs) -> None:
    behind = jobs("msmarco", "table2")
    sizes = costs.Sizes(behind)
    # 18 updates of 64 blocks of 89 tokens with two specials; 45 of 64 times two spans of 32
    assert costs.training(only(behind, "pretrain", model="condenser"), sizes)[0] == 18 * 64 * 91
    assert costs.training(only(behind, "pretrain", model="cocondenser"), sizes)[0] == 45 * 64 * 2 * 34
    train = only(behind, "train", system="backbone-round1")
    assert costs.training(train, sizes)[0] == 2 * 1000 * (14.5 + 2 * 91)  # two epochs, a negative each
    assert sizes.model(train) == (6 * 12 * 384**2 / 1e6, 384)


def test_the_papers_scale_is_that_of_an_h200(load: Load) -> None:
    rows = {row["rule"]: row for row in load(configfile="configs/paper.yaml").plan("msmarco", "table2")}
    hours = {name: (row["seconds"] or 0) / 3600 for name, row in rows.items()}
    assert 25 < hours["pretrain wikibook condenser"] < 90  # some 2e10 tokens
    assert 60 < hours["total"] < 150
    assert rows["encode backbone-zeroshot untrained"]["bytes_on_disk"] == pytest.approx(8_841_823 * 768 * 4)
    # what nobody has measured is said
    assert rows["download collectionandqueries.tar.gz"]["seconds"] is None
    assert rows["download collectionandqueries.tar.gz"]["basis"] == "unknown"
    assert "without download collectionandqueries.tar.gz" in rows["total"]["basis"]
    assert "bert-base-uncased as large as BERT-base" in rows["pretrain wikibook condenser"]["sizes"]


def test_a_gpu_waits_for_its_kernels_where_chunks_are_small() -> None:
    rates = costs.Rates("H200")
    computing = rates.seconds("train", {"trained": 1e9, "launch": 0.0})
    waiting = rates.seconds("train", {"trained": 1e9, "launch": 1e6})
    assert computing is not None and waiting is not None and waiting > 10 * computing
    on_cpu = costs.Rates("Xeon")
    assert on_cpu.seconds("train", {"trained": 1.0, "launch": 1e6}) == on_cpu.seconds(
        "train", {"trained": 1.0}
    )


def test_what_ran_here_scales_what_is_planned(tiny: list[Job]) -> None:
    before = {row["rule"]: row for row in costs.plan_of(tiny, "tiny", "Xeon")}
    trained = only(tiny, "train", system="cocondenser-round1")
    trained.seconds, name = 1e5, trained.name("tiny")
    after = {row["rule"]: row for row in costs.plan_of(tiny, "tiny", "Xeon")}
    assert after[name]["seconds"] == 1e5 and after[name]["basis"] == "measured"
    ratio = (1e5 + 10) / (before[name]["seconds"] + 10)
    others = [name for name, row in after.items() if row["basis"] == "scaled"]
    assert others and all(
        after[name]["seconds"] == pytest.approx(ratio * before[name]["seconds"])
        for name in others
        if not name.startswith("train ")
    )
    # the times of another data set do as well
    once = costs.plan_of(tiny[:3], "tiny", "Xeon", others=[trained])
    assert once[0]["basis"] == "scaled"


def test_counts_take_the_place_of_what_is_assumed(tiny: list[Job]) -> None:
    sizes = costs.Sizes(tiny)
    encode = next(job for job in tiny if job.rule == "encode")
    assumed = sizes.passages(encode)
    assert assumed.basis == "corpus.jsonl by its first lines" and sizes.assumed == [assumed.basis]
    only(tiny, "collect").counts = {"passages": 7, "queries": {"train": 2, "dev": 3}}
    counted = costs.Sizes(tiny).passages(encode)
    assert counted.count == 7 and counted.tokens == assumed.tokens and counted.basis == "lengths of texts"
    for job in tiny:
        if job.rule == "tokens":
            job.counts = {"rows": 5, "tokens": 50}
    num_shards = sum(job.rule == "tokens" for job in tiny)
    assert costs.Sizes(tiny).passages(encode) == costs.Rows(5 * num_shards, 10.0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_users_file_is_known_by_its_first_lines_and_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(costs, "_HEAD_BYTES", 20_000)
    file, text = tmp_path / "corpus.jsonl", ("x" * 43 + "\n") * 10_000
    file.write_bytes(gzip.compress(text.encode(), mtime=0) if packed else text.encode())
    rows = costs._of_file(file)
    assert rows.count == pytest.approx(10_000, rel=0.2) and rows.tokens == pytest.approx(10, rel=0.02)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(b"\x1f\x8b" + b"no gzip" * 9)
    with pytest.raises(ValueError, match=r"corpus\.jsonl\.gz: expected gzip, got a damaged file"):
        costs._of_file(tmp_path / "corpus.jsonl.gz")


def test_every_rule_with_work_has_a_rate(jobs: Jobs) -> None:
    behind = jobs("tiny", "best", configfile="configs/tiny.yaml")
    rows = costs.plan_of(behind, "tiny", "Xeon")
    assert not [row["rule"] for row in rows if row["seconds"] is None]
    rules = {key[0] for key in costs.Rates("H200")._seconds} - {"*"}
    assert rules <= {*costs._WORK} | {"late"}  # which ranks candidates, as `work_of` sees by its settings


def test_a_plan_is_a_table_and_its_summary_says_what_it_rests_on(tiny: list[Job], tmp_path: Path) -> None:
    rows = costs.plan_of(tiny, "tiny", "Xeon")
    costs.write_plan(rows, tmp_path / "plan.tsv")
    header, *lines = [line.split("\t") for line in (tmp_path / "plan.tsv").read_text().splitlines()]
    assert tuple(header) == costs.COLUMNS and len(lines) == len(rows)
    assert {len(line) for line in lines} == {len(header)} and lines[-1][0] == "total"
    assert float(lines[-1][2]) == pytest.approx(sum(float(line[2]) for line in lines[:-1]), rel=0.01)
    assert costs.rendered(rows).startswith("Xeon: ")


def test_half_a_benchmark_of_a_killed_run_says_nothing(tmp_path: Path) -> None:
    for text, seconds in (("s\th:m:s\n12.5\t0:00:12\n", 12.5), ("s\th:m:s\n", None), ("", None)):
        (tmp_path / "b.tsv").write_text(text)
        assert costs._seconds_of(str(tmp_path / "b.tsv")) == seconds
    assert costs._seconds_of(str(tmp_path / "none.tsv")) is None and costs._seconds_of(None) is None
