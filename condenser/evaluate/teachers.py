"""Is a teacher better than the system whose hits it ranks? Only then its scores are used.

No training has seen the held-out train queries, neither the teacher's nor that of its candidates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from condenser.data.records import hits_by_query, is_relevant, read_qrels
from condenser.data.subsets import read_subset
from condenser.evaluate.metrics import Grades, RankedQuery, grades_of, means, measure_run, ranked

log = logging.getLogger(__name__)

MEASURE = "MRR@10"  # as a trained bi-encoder is compared with its start: condenser.train.validation


@dataclass(frozen=True)
class TeacherComparison:
    """A teacher beside its candidates, on the held-out queries that are judged.

    Attributes:
        queries: how many were compared; of none the teacher is used.
        teacher, candidates: the mean of `MEASURE` of each.
        won, lost: queries that the teacher ranks better, and worse.
    """

    queries: int = 0
    teacher: float | None = None
    candidates: float | None = None
    won: int = 0
    lost: int = 0

    @property
    def is_used(self) -> bool:
        """Whether the teacher's scores are used."""
        return self.teacher is None or self.candidates is None or self.teacher > self.candidates

    def __str__(self) -> str:
        if self.teacher is None or self.candidates is None:
            return "teacher: used, not compared with its candidates: no judged train query is held out"
        return (
            f"teacher: {'used, better' if self.is_used else 'NOT used, NOT better'} than its candidates on "
            f"{self.queries:,} held-out train queries ({MEASURE}): candidates {self.candidates:.3f}, teacher "
            f"{self.teacher:.3f}; {self.won:,} queries won, {self.lost:,} lost"
        )

    def counts(self) -> dict[str, Any]:
        """For the manifest of what it decides on."""
        return {"teacher": {**asdict(self), "is_used": self.is_used}}


def compare_teacher(
    runs: Sequence[Path],
    qrels: Path,
    *,
    held_out: Path | None,
    relevant_grade: int,
) -> TeacherComparison:
    """Compare the run of a teacher and that of its candidates, cut as deep; a line says the result.

    `held_out` has the ids of the queries that count, those with a relevant passage; without it nothing is
    compared.
    """
    comparison = TeacherComparison()
    if held_out:
        run, candidates = runs
        wanted = read_subset(held_out)
        grades = grades_of(qrel for qrel in read_qrels(qrels) if qrel.query_id in wanted)
        grades = {
            query_id: of_query
            for query_id, of_query in grades.items()
            if is_relevant(max(of_query.values()), relevant_grade)
        }
        if grades:
            comparison = _compare(run, candidates, grades, relevant_grade=relevant_grade)
    log.log(logging.INFO if comparison.is_used else logging.WARNING, "%s", comparison)
    return comparison


def _compare(run: Path, candidates: Path, grades: Grades, *, relevant_grade: int) -> TeacherComparison:
    of_teacher = {ranking.query_id: ranking for ranking in _rankings(run, grades)}
    depths = {query_id: len(ranking.doc_ids) for query_id, ranking in of_teacher.items()}
    theirs, ours = (
        measure_run(rankings, grades, measures=[MEASURE], relevant_grade=relevant_grade)[0]
        for rankings in (_rankings(candidates, grades, depths=depths), of_teacher.values())
    )
    gains = [ours[query_id][MEASURE] - theirs[query_id][MEASURE] for query_id in grades]
    return TeacherComparison(
        queries=len(grades),
        teacher=means(ours)[MEASURE],
        candidates=means(theirs)[MEASURE],
        won=sum(gain > 0 for gain in gains),
        lost=sum(gain < 0 for gain in gains),
    )


def _rankings(run: Path, grades: Grades, *, depths: Mapping[str, int] | None = None) -> Iterator[RankedQuery]:
    """The rankings of the judged queries of a run; with `depths` the first hits of each."""
    for query_id, doc_ids, scores in hits_by_query(run):
        if query_id in grades:
            depth = len(doc_ids) if depths is None else depths.get(query_id, 0)
            yield ranked(query_id, doc_ids[:depth], scores[:depth], grades)
