"""Measures of one query's ranking, such as MRR@10: a family, found by its file name, at a depth.

The family MRR is the module `condenser.evaluate.measures.mrr`. It holds:

- `NAME`: as it is written in tables;
- `value(ranking, *, depth) -> float`: of one judged query.

It may hold `NEEDS_ANSWERS = True`, where it looks for the answers of a query in the texts of passages;
then `ranking.has_answer` is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from condenser import kinds

FOLDER = "evaluate/measures"


@dataclass(frozen=True)
class Ranking:
    """What a system gave for one judged query, and what the judgements say."""

    in_run_order: list[str]  # doc_ids by their ranks in the run, as MS MARCO's script reads it
    in_trec_order: list[str]  # doc_ids by score, as trec_eval reads it
    relevant: frozenset[str]  # doc_ids from the least relevant grade on
    grades: Mapping[str, int]
    has_answer: Callable[[str], bool] | None = None  # of a doc_id


@dataclass(frozen=True)
class Measure:
    """A measure at a depth."""

    name: str
    module: ModuleType
    depth: int

    def __call__(self, ranking: Ranking) -> float:
        return self.module.value(ranking, depth=self.depth)

    @property
    def needs_answers(self) -> bool:
        """Whether it reads the texts of passages."""
        return getattr(self.module, "NEEDS_ANSWERS", False)


def parse(name: str) -> Measure:
    """The measure of a name such as "MRR@10".

    Raises:
        ValueError: there is no such measure.
    """
    family, _, depth = name.partition("@")
    known = {kinds.load(FOLDER, kind).NAME: kind for kind in kinds.names(FOLDER)}
    if family not in known or not depth.isdecimal() or depth.startswith("0"):
        written = ", ".join(f"{one}@10" for one in sorted(known))
        raise ValueError(f"expected measures such as {written}, got {name!r:.80}.")
    return Measure(name, kinds.load(FOLDER, known[family]), int(depth))
