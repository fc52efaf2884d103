"""The best of several models on a collection without judgements: a copy of one of them; it trains nothing.

The candidates are bi-encoders. They are compared on queries that are made from passages, by how early they
rank the passage that a query is made from, and if asked on queries of people, by how early they rank what
other systems rank first. The first candidate is the start; another one is taken only where its gain over the
start is shown. The computation is `condenser.evaluate.choice`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from condenser.nouns import Model
from condenser.settings import Count, Name, NotNegative


class Settings(Model):
    """The candidates, and what they are compared by.

    `of` names bi-encoders, the first of them `initial` as it is. `queries` names sets that are made from the
    collection (`extracted`), `unjudged` names sets of the data set's own `queries`; one of fewer than
    `least_queries` is left out. The first hit of the `voters`, fused by z-scores, is what a query of
    `unjudged` has to find; they are systems of other families than the candidates and than each other. A gain
    in `measure` of less than `least_gain` in a set does not count.
    """

    initial: Name  # the first of the candidates as it is
    of: Annotated[list[Name], Field(min_length=2)]  # the candidates: bi-encoders that are not fine-tuned
    queries: Annotated[list[Name], Field(min_length=1)]
    unjudged: list[Name]
    voters: Annotated[list[Name], Field(min_length=1)]
    least_queries: Count
    least_gain: NotNegative
    measure: str

    @property
    def start(self) -> str:
        return self.initial

    @property
    def is_chosen(self) -> bool:
        return True

    @property
    def made_of(self) -> list[str]:
        return list(self.of)
