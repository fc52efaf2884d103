"""Measures, found by their file names: of one query's ranking at a depth, such as MRR@10, or of sentences.

The family MRR is the module `condenser.evaluate.measures.mrr`. It holds:

- `NAME`: as it is written in tables;
- `value(ranking, *, depth) -> float`: of one judged query.

It may hold `NEEDS_ANSWERS = True`, where it looks for the answers of a query in the texts of passages;
then `ranking.has_answer` is there.

A measure of sentences has no depth. It holds instead of `value`:

- `TASK`: that of the data sets that it measures (`condenser.data.sources`);
- `values(similarities, labels) -> values`: float64 [item, similarity] and [item] give numbers [item], whose
  mean is the measure and whose spread is its uncertainty.

A measure that is the same for every ranking of all passages holds `WHOLE_IS_TRIVIAL = True`.

It may hold `LEAST`, its least value where that is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from condenser import kinds

if TYPE_CHECKING:
    import pyarrow

FOLDER = "evaluate/measures"


@dataclass(frozen=True)
class Ranking:
    """What a system gave for one judged query, and what the judgements say."""

    hits: pyarrow.StringArray  # doc_ids in the order of the run
    run_ranks: Mapping[str, int]  # from 1, of the judged passages in the run, as MS MARCO's script reads it
    trec_ranks: Mapping[str, int]  # of the same by score, as trec_eval reads it
    relevant: frozenset[str]  # doc_ids from the least relevant grade on
    grades: Mapping[str, int]
    has_answer: Callable[[str], bool] | None = None  # of a doc_id


@dataclass(frozen=True)
class Measure:
    """A measure at a depth, which is 0 for one of sentences."""

    name: str
    module: ModuleType
    depth: int

    def __call__(self, ranking: Ranking) -> float:
        return self.module.value(ranking, depth=self.depth)

    @property
    def needs_answers(self) -> bool:
        """Whether it reads the texts of passages."""
        return getattr(self.module, "NEEDS_ANSWERS", False)

    @property
    def task(self) -> str | None:
        """The task of the sentences that it measures; None for a measure of rankings."""
        return getattr(self.module, "TASK", None)

    def random_share(self, *, num_passages: int, run_depth: int) -> float:
        """The share of the passages that its depth takes in; 0 for a measure to which the order matters.

        A random ranking has this recall. At 1 every ranking has the same value.
        """
        is_of_order = not getattr(self.module, "WHOLE_IS_TRIVIAL", False)
        return 0.0 if is_of_order else min(self.depth, run_depth, num_passages) / num_passages

    @property
    def least(self) -> float:
        """The smallest value of the measure; the largest is 1."""
        return getattr(self.module, "LEAST", 0.0)


def parse(name: str) -> Measure:
    """The measure of a name such as "MRR@10" or "spearman".

    Raises:
        ValueError: there is no such measure, or two files have the same name.
    """
    family, _, depth = name.partition("@")
    known = _by_name()
    of_sentences = {measure for measure, module in known.items() if hasattr(module, "TASK")}
    if name in of_sentences:
        return Measure(name, known[name], 0)
    if family not in known.keys() - of_sentences or not depth.isdecimal() or depth.startswith("0"):
        written = [f"{measure}@10" for measure in sorted(known.keys() - of_sentences)] + sorted(of_sentences)
        raise ValueError(f"expected measures such as {', '.join(written)}, got {name!r:.80}.")
    return Measure(name, known[family], int(depth))


@cache  # the settings of every job name measures
def _by_name() -> dict[str, ModuleType]:
    known: dict[str, ModuleType] = {}
    for module in (kinds.load(FOLDER, kind) for kind in kinds.names(FOLDER)):
        if (other := known.setdefault(module.NAME, module)) is not module:
            raise ValueError(
                f"{module.__file__}: NAME: expected another name than those of the other measures, got "
                f"{module.NAME!r}, that of {other.__file__}. Rename one."
            )
    return known
