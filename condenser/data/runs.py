"""The columns of TREC runs, and their hits by query: millions of lines, without an object for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("query_id", "passage_id", "doc_id", "rank", "score", "system")
_BLOCK_BYTES = 1 << 21  # fits into a cache


def hits_by_query(path: str | Path) -> Iterator[tuple[str, pyarrow.StringArray, Float64[np.ndarray, " hit"]]]:
    """query_id, doc_ids and scores of all hits of each query of a run, in file order."""
    import pyarrow
    import pyarrow.compute

    current: str | None = None
    doc_ids: list[pyarrow.StringArray] = []
    scores: list[np.ndarray] = []
    for query_ids, of_block, scores_of_block in run_columns(path, "query_id", "doc_id", "score"):
        changes = np.flatnonzero(pyarrow.compute.not_equal(query_ids[1:], query_ids[:-1])) + 1
        bounds = [0, *changes.tolist(), len(query_ids)]
        for start, end in pairwise(bounds):
            query_id = query_ids[start].as_py()
            if query_id != current and current is not None:
                yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)
                doc_ids, scores = [], []
            current = query_id
            doc_ids.append(of_block[start:end])
            scores.append(scores_of_block[start:end].to_numpy())
    if current is not None:
        yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)


def run_columns(path: str | Path, *names: str) -> Iterator[list[pyarrow.Array]]:
    """The named columns (`COLUMNS`) of a run, in blocks of lines; scores are float64, all others texts."""
    import pyarrow
    from pyarrow import csv

    if not Path(path).stat().st_size:  # refused by pyarrow
        return
    types = {name: pyarrow.float64() if name == "score" else pyarrow.string() for name in names}
    with csv.open_csv(
        path,
        csv.ReadOptions(column_names=COLUMNS, use_threads=False, block_size=_BLOCK_BYTES),
        csv.ParseOptions(delimiter=" ", quote_char=False),
        csv.ConvertOptions(column_types=types, include_columns=names, null_values=[], check_utf8=False),
    ) as reader:
        for block in reader:
            if len(block):
                yield block.columns
