"""The columns of tables: a measure on an evaluation set, written `[data set/][evaluation set/]measure`.

`MRR@10` is on the main evaluation set of the table's own data set, `dl19/nDCG@10` on another one of it,
`nq/hits@20` on the main one of the data set nq, `nq/dev/hits@20` on another one of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from condenser import kinds

Place = tuple[str, str | None]  # a data set and its evaluation set; None: it has no judged queries


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of one data set.

    Attributes:
        name: as the table's block writes it; the header.
        source: of the data set.
        train_split: of the data set; None where it has none.
        depth: hits a query in the shortest of the rows' runs; None where nothing is judged.
    """

    name: str
    dataset: str
    split: str | None
    measure: str
    source: str
    train_split: str | None
    depth: int | None

    @property
    def place(self) -> Place:
        """The data set and split on which it is measured."""
        return self.dataset, self.split


def parse(
    name: str, *, dataset: str, datasets: Mapping[str, Any], optional: Collection[str] = ()
) -> tuple[str, str | None, str] | None:
    """Data set, evaluation set and measure of a column; None if it is optional and its place not configured.

    Of two parts the first is a data set if there is one of this name, else an evaluation set.

    Args:
        dataset: the data set of the table.
        datasets: their settings, by name.
        optional: data sets and evaluation sets that may be missing.

    Raises:
        ValueError: there is no such data set or evaluation set.
    """
    *above, measure = name.split("/")
    if len(above) > 2 or not all((*above, measure)):
        raise ValueError(f"expected [data set/][evaluation set/]measure, got {name!r:.80}.")
    mine = datasets[dataset].eval_splits
    if not above:
        return dataset, next(iter(mine), None), measure
    first, *rest = above
    if not rest and first not in datasets:
        if first in mine:
            return dataset, first, measure
        return None if first in optional else _refuse(name, first, [*datasets, *mine])
    if first not in datasets:
        return None if first in optional else _refuse(name, first, datasets)
    there = datasets[first].eval_splits
    split = rest[0] if rest else next(iter(there), None)
    if split in there:
        return first, split, measure
    if rest and split in optional:
        return None
    if not there:
        raise ValueError(f"{name}: expected a data set with judged queries, got {first}, which has none.")
    return _refuse(name, str(split), there)


def _refuse(name: str, place: str, known: Collection[str]) -> NoReturn:
    hint = kinds.suggest_name(place, known, otherwise="Add it, or name it among the table's optional ones.")
    listed = ", ".join(known)
    raise ValueError(f"{name}: expected a data set or evaluation set ({listed}), got {place:.80}. {hint}")


def places(columns: Sequence[Column]) -> list[Place]:
    """Where columns are measured, each place once, in order."""
    return list(dict.fromkeys(column.place for column in columns))


def measures_in(headers: Iterable[str]) -> list[str]:
    """Of the headers of a table, those of measures: each has an interval.

    >>> measures_in(["method", "MRR@10", "queries", "MRR@10_low", "MRR@10_high"])
    ['MRR@10']
    """
    known = dict.fromkeys(headers)
    return [name for name in known if f"{name}_low" in known]
