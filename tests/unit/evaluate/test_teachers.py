"""A teacher beside its candidates, by hand."""

from __future__ import annotations

from pathlib import Path

from condenser.data.records import Qrel, ScoredDoc, write_qrels, write_run
from condenser.evaluate.teachers import TeacherComparison, compare_teacher

Run = dict[str, list[str]]


def compared(folder: Path, teacher: Run, candidates: Run, *, held_out: str | None) -> TeacherComparison:
    for name, run in (("teacher", teacher), ("candidates", candidates)):
        ranked = ((query, rank, doc) for query, docs in run.items() for rank, doc in enumerate(docs))
        hits = [ScoredDoc(query, doc, -float(rank)) for query, rank, doc in ranked]
        write_run(folder / f"{name}.trec", hits, system=name)
    judged = [Qrel(query, "p", 1) for query in "qrst"]
    write_qrels(folder / "qrels.tsv", [*judged, Qrel("zero", "a", 0)])
    if held_out is not None:
        (folder / "held.txt").write_text("".join(f"{query}\n" for query in held_out.split()))
    return compare_teacher(
        [folder / "teacher.trec", folder / "candidates.trec"],
        folder / "qrels.tsv",
        held_out=None if held_out is None else folder / "held.txt",
        relevant_grade=1,
    )


def test_means_are_over_the_judged_held_out_queries_alone(tmp_path: Path) -> None:
    """Teacher: 1, 1/2, 0; candidates: 1/2, 1/2, 1. The fourth query is not held out, two have no positive."""
    teacher = {"q": ["p", "a"], "r": ["a", "p"], "s": ["a", "b"], "t": ["a", "p"]}
    teacher |= {"zero": ["a"], "new": ["a"]}
    candidates = {**teacher, "q": ["a", "p"], "s": ["p", "b"], "t": ["p", "a"]}
    found = compared(tmp_path, teacher, candidates, held_out="q r s zero new")
    assert found == TeacherComparison(3, 1.5 / 3, 2 / 3, won=1, lost=1)
    assert not found.is_used
    assert str(found) == (
        "teacher: NOT used, NOT better than its candidates on 3 held-out train queries (MRR@10): candidates "
        "0.667, teacher 0.500; 1 queries won, 1 lost"
    )
    assert compared(tmp_path, candidates, teacher, held_out="q r s").is_used
    assert not compared(tmp_path, teacher, teacher, held_out="q r s").is_used  # equal is not better


def test_candidates_are_compared_as_deep_as_the_teacher_ranks_them(tmp_path: Path) -> None:
    """Else a teacher of the first two hits would lose to the third one."""
    found = compared(tmp_path, {"q": ["b", "a"]}, {"q": ["a", "b", "p"]}, held_out="q")
    assert (found.teacher, found.candidates) == (0.0, 0.0)


def test_without_judged_held_out_queries_nothing_is_compared_and_the_teacher_is_used(tmp_path: Path) -> None:
    for held_out in (None, "", "zero"):
        found = compared(tmp_path, {"q": ["p"]}, {"q": ["p"]}, held_out=held_out)
        assert found == TeacherComparison() and found.is_used
        assert "not compared" in str(found)
