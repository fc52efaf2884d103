"""Subsets of the train queries, for training on fewer of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from condenser.data.randomness import permutation
from condenser.data.records import read_examples, read_items, read_queries
from condenser.files import atomic_write


def write_subset(
    queries: str | Path, output: str | Path, *, count: int, seed: int, examples: Path | None = None
) -> dict[str, int]:
    """Write the ids of `count` queries drawn by `seed`, one per line, in file order; gives counts.

    `queries` may also be a file of items (`condenser.data.records.Item`). With `examples`, only queries that
    have one there are drawn, so that as many are trained on.

    With one seed, a smaller subset is part of every larger one.
    Source: Condenser, §4: random subsets of the train queries.

    Raises:
        ValueError: there are fewer such queries.
    """
    if Path(queries).name.startswith("items."):
        ids = [item.item_id for item in read_items(queries)]
    else:
        ids = [query.query_id for query in read_queries(queries)]
    num_queries = len(ids)
    if examples is not None:
        with_example = {example.query_id for example in read_examples(examples)}
        ids = [query_id for query_id in ids if query_id in with_example]
    if count > len(ids):
        raise ValueError(
            f"{queries}: expected at least {count:,} train queries, got {len(ids):,}. "
            "Choose a smaller train_queries in the table, or all."
        )
    _write_drawn(ids, output, count=count, seed=seed, stream="train subset")
    counts = {"queries": count, "of": len(ids)}
    return counts if examples is None else counts | {"without_example": num_queries - len(ids)}


def write_held_out(
    queries: str | Path,
    output: str | Path,
    *,
    subset: Path | None,
    share: float,
    least: int,
    most: int,
    seed: int,
) -> dict[str, int]:
    """Write the ids of the train queries that no training sees, one per line, in file order; gives counts.

    They are a `share` of the train queries, or of those of `subset`, at most `most`, drawn by `seed`. A share
    of fewer than `least` would show nothing: then the file is empty, and all queries are trained on.
    """
    wanted = read_subset(subset) if subset else None
    ids = [query.query_id for query in read_queries(queries)]
    if wanted is not None:
        ids = [query_id for query_id in ids if query_id in wanted]
    count = min(int(share * len(ids)), most)
    if count < least:
        count = 0
    _write_drawn(ids, output, count=count, seed=seed, stream="held-out queries")
    return {"queries": count, "of": len(ids)}


def _write_drawn(ids: list[str], output: str | Path, *, count: int, seed: int, stream: str) -> None:
    chosen = np.sort(permutation(seed, stream, 0, len(ids))[:count])
    with atomic_write(output) as file:
        file.writelines(f"{ids[index]}\n".encode() for index in chosen)


def read_subset(path: str | Path) -> frozenset[str]:
    """The ids of a subset."""
    return frozenset(Path(path).read_text(encoding="utf-8").split("\n")) - {""}
