"""The official triples: parsed exactly, sampled evenly, whatever their order."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from job_files import do

from condenser.data import triples as module
from condenser.data.records import Qrel, Query, read_examples, write_qrels, write_queries
from condenser.data.sources.msmarco import TRIPLES
from condenser.data.triples import make_triple_examples, sample_negatives, triple_blocks

NOTHING = np.empty(0, dtype=np.int64)


def write_gzip(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()))
    return path


def some_rows(count: int, *, seed: int) -> list[tuple[int, int, int]]:
    draw = random.Random(seed)
    return [(draw.randrange(1, 30) * 37_000, draw.randrange(9), draw.randrange(10**9)) for _ in range(count)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_numbers_are_those_that_int_reads_for_any_cut_into_blocks(tmp_path, monkeypatch, end, block_bytes):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    rows = [*some_rows(50, seed=1), (0, 0, 0), (999_999_999, 1, 999_999_999)]
    path = write_gzip(tmp_path / "t.gz", "".join("\t".join(map(str, row)) + end for row in rows))
    counts: Counter[str] = Counter()
    read = np.concatenate(list(triple_blocks(path, counts)))
    assert [tuple(row) for row in read.tolist()] == rows
    assert counts["rows"] == len(rows)


@pytest.mark.parametrize("bad", ["1\t2", "1\t2\t3\t4", "1 2 3", "1\t2\tx", "1\t\t3", "", "1\t2\t12345678901"])
def test_a_row_that_is_not_a_triple_is_named_by_its_line(tmp_path, monkeypatch, bad):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 64)
    path = write_gzip(tmp_path / "t.gz", "1\t2\t3\n" * 20 + bad + "\n" + "1\t2\t3\n" * 20)
    with pytest.raises(
        ValueError, match=r"t\.gz: expected three tab-separated numbers a row, got '.*Row #21: "
    ):
        list(triple_blocks(path, Counter()))


def test_the_sample_is_distinct_and_from_the_querys_own_negatives(tmp_path):
    rows = some_rows(3000, seed=2) * 2  # every pair twice
    path = write_gzip(tmp_path / "t.gz", "".join(f"{q}\t{p}\t{n}\n" for q, p, n in rows))
    truth: dict[int, set[int]] = {}
    for query, _, negative in rows:
        truth.setdefault(query, set()).add(negative)
    sampled = dict(sample_negatives(path, NOTHING, Counter(), sample=30, seed=1))
    assert list(sampled) == sorted(truth)
    for query, negatives in sampled.items():
        assert len(negatives) == len(set(negatives)) == min(30, len(truth[query]))
        assert set(negatives) <= truth[query]


def test_neither_order_nor_cut_nor_repetition_changes_the_sample_and_the_seed_does(tmp_path, monkeypatch):
    rows = some_rows(2000, seed=3)
    path = write_gzip(tmp_path / "a.gz", "".join(f"{q}\t{p}\t{n}\n" for q, p, n in rows))
    first = list(sample_negatives(path, NOTHING, Counter(), sample=5, seed=1))
    assert first != list(sample_negatives(path, NOTHING, Counter(), sample=5, seed=2))
    random.Random(4).shuffle(rows)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 999)
    path = write_gzip(tmp_path / "b.gz", "".join(f"{q}\t{p}\t{n}\n" for q, p, n in rows + rows[:500]))
    assert list(sample_negatives(path, NOTHING, Counter(), sample=5, seed=1)) == first


def test_two_queries_with_the_same_negatives_have_samples_of_their_own(tmp_path):
    path = write_gzip(tmp_path / "t.gz", "".join(f"{q}\t1\t{n}\n" for n in range(100) for q in (5, 6)))
    sampled = dict(sample_negatives(path, NOTHING, Counter(), sample=20, seed=1))
    assert len({*sampled[5]} & {*sampled[6]}) < 12  # 4 by chance


def test_every_negative_is_as_likely_as_any_other(tmp_path):
    path = write_gzip(tmp_path / "t.gz", "".join(f"5\t1\t{n}\n" for n in range(100)))
    drawn: Counter[int] = Counter()
    for seed in range(400):
        drawn.update(dict(sample_negatives(path, NOTHING, Counter(), sample=10, seed=seed))[5])
    # 4,000 draws over 100 negatives: binomial, mean 40, standard deviation 6
    assert min(drawn[n] for n in range(100)) > 40 - 5 * 6
    assert max(drawn.values()) < 40 + 5 * 6


def examples_of(triples: Path, **options) -> dict[str, int]:
    """Write the examples of the queries `q` and judgements `r` beside the triples; gives the counts."""
    files = (triples.with_name(name) for name in ("q", "r", "out"))
    given = {"relevant_grade": 1, "sample": 30, "wanted": None, "seed": 1, **options}
    return make_triple_examples(triples, *files, **given)


def test_examples_have_the_judged_positives_and_no_positive_among_the_negatives(tmp_path):
    path = write_gzip(tmp_path / "t.gz", "10\t1\t5\n10\t1\t2\n10\t1\t6\n11\t3\t7\n77\t3\t8\n")
    write_queries(tmp_path / "q", [Query("10", "a"), Query("11", "b"), Query("12", "without triples")])
    judged = [("10", "1"), ("10", "2"), ("11", "3"), ("12", "4")]
    write_qrels(tmp_path / "r", [Qrel(query_id, doc_id, 1) for query_id, doc_id in judged])
    counts = examples_of(path, official_rows=5)
    examples = {example.query_id: example for example in read_examples(tmp_path / "out")}
    assert list(examples) == ["10", "11"]
    assert examples["10"].positive_doc_ids == ("1", "2")
    assert sorted(examples["10"].negative_doc_ids) == ["5", "6"]
    assert counts == {
        **{"rows": 5, "queries": 3, "examples": 2},
        **{"negatives_judged_positive": 1, "unknown_queries": 1, "queries_without_triples": 1},
    }


NO_EXAMPLE = "expected triples of the queries"
OTHER_NUMBER = r"t\.gz: expected the official {} rows, got 1\. Delete the download"


@pytest.mark.parametrize(
    ("rows", "official_rows", "message"),
    [
        ("10\t1\t5\n", 1, NO_EXAMPLE),  # of another query
        ("99\t1\t1\n", 1, NO_EXAMPLE),  # a positive alone
        ("", 0, "expected three tab-separated numbers a row, got 'Empty"),
        ("99\t1\t5\n", 0, OTHER_NUMBER.format(0)),
        ("99\t1\t5\n", 2, OTHER_NUMBER.format(2)),
    ],
)
def test_other_triples_than_expected_are_an_error_and_leave_no_file(tmp_path, rows, official_rows, message):
    path = write_gzip(tmp_path / "t.gz", rows)
    write_queries(tmp_path / "q", [Query("99", "a")])
    write_qrels(tmp_path / "r", [Qrel("99", "1", 1)])
    with pytest.raises(ValueError, match=message):
        examples_of(path, official_rows=official_rows)
    assert not (tmp_path / "out").exists()


def test_of_wanted_queries_the_examples_are_those_without_the_others(tmp_path):
    """What the triples know of the other queries is no unknown query."""
    rows = [(query, 1, negative) for query in (10, 11, 12, 77) for negative in range(2, 40)]
    path = write_gzip(tmp_path / "t.gz", "".join(f"{q}\t{p}\t{n}\n" for q, p, n in rows))
    write_queries(tmp_path / "q", [Query(name, "text") for name in ("10", "11", "12", "13")])
    write_qrels(tmp_path / "r", [Qrel(name, "1", 1) for name in ("10", "11", "12", "13")])
    made, counts = {}, {}
    for wanted in (None, {"11", "13"}):
        counts[wanted is None] = examples_of(path, sample=5, wanted=wanted, official_rows=len(rows))
        made[wanted is None] = {one.query_id: one for one in read_examples(tmp_path / "out")}
    assert made[False] == {"11": made[True]["11"]}
    assert counts[True]["unknown_queries"] == counts[False]["unknown_queries"] == 1
    assert {name: counts[False][name] for name in ("queries", "examples", "queries_without_triples")} == {
        **{"queries": 2, "examples": 1, "queries_without_triples": 1}
    }


def test_the_program_holds_the_file_to_the_published_number_of_rows(tmp_path):
    path = write_gzip(tmp_path / TRIPLES, "10\t1\t5\n")
    write_queries(tmp_path / "q", [Query("10", "a")])
    write_qrels(tmp_path / "r", [Qrel("10", "1", 1)])
    config = {"dataset": {"source": "msmarco"}, "recipe": {"negatives": {"sample": 30}}, "seed": 1}
    config["metrics"] = {"relevant_grade": 1}
    with pytest.raises(ValueError, match="expected the official 397,768,673 rows, got 1"):
        do(
            "examples",
            settings=config,
            input={"raw": [path], "subset": [], "queries": tmp_path / "q", "qrels": tmp_path / "r"},
            output={"examples": tmp_path / "out", "manifest": tmp_path / "manifest.json"},
        )
