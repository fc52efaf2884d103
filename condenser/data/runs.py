"""TREC runs by query: what `condenser.data.records.read_run` reads line by line, as columns.

pyarrow parses a block of lines of the usual form: ASCII, one space between columns. Any other block is
read line by line (`parse_hit`). So both readers accept the same files, and say the same of a bad line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from condenser.data.records import parse_hit

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import csv

    Columns = tuple[pyarrow.Array, pyarrow.Array, Float64[np.ndarray, " line"]]  # query_ids, doc_ids, scores

_COLUMNS = ("query_id", "Q0", "doc_id", "rank", "score", "system")
_BLOCK_BYTES = 1 << 21  # fits into a cache; pyarrow reads each in another thread, which may have to wait


def hits_by_query(path: str | Path) -> Iterator[tuple[str, pyarrow.StringArray, Float64[np.ndarray, " hit"]]]:
    """query_id, doc_ids and scores of all lines of a run that stand together, in file order.

    A query whose lines stand in several places comes several times.

    Raises:
        ValueError: a line is not a hit (`condenser.data.records.parse_hit`).
    """
    import pyarrow
    import pyarrow.compute

    current: str | None = None
    doc_ids: list[pyarrow.StringArray] = []
    scores: list[np.ndarray] = []
    for query_ids, of_block, scores_of_block in _blocks(Path(path)):
        changes = np.flatnonzero(pyarrow.compute.not_equal(query_ids[1:], query_ids[:-1])) + 1
        bounds = [0, *changes.tolist(), len(query_ids)]
        for start, end in pairwise(bounds):
            query_id = query_ids[start].as_py()
            if query_id != current and current is not None:
                yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)
                doc_ids, scores = [], []
            current = query_id
            doc_ids.append(of_block[start:end])
            scores.append(scores_of_block[start:end])
    if current is not None:
        yield current, pyarrow.concat_arrays(doc_ids), np.concatenate(scores)


def _blocks(path: Path) -> Iterator[Columns]:
    """The lines of a run, in blocks of whole lines."""
    if not path.stat().st_size:  # cannot be mapped
        return
    with path.open("rb") as file:
        text = mmap(file.fileno(), 0, access=ACCESS_READ)
    num_lines, start = 0, 0
    while start < len(text):
        end = text.find(b"\n", min(start + _BLOCK_BYTES, len(text) - 1)) + 1
        lines = memoryview(text)[start:end] if end else memoryview(text[start:].removesuffix(b"\n") + b"\n")
        columns = _columns(path, num_lines, lines)
        yield columns
        num_lines, start = num_lines + len(columns[0]), end or len(text)


def _columns(path: Path, num_before: int, lines: memoryview) -> Columns:
    """The columns of whole lines; before them the file has `num_before`."""
    if columns := _parsed(lines):
        return columns
    import pyarrow

    each = bytes(lines[:-1]).split(b"\n")
    hits = [parse_hit(path, number, line) for number, line in enumerate(each, start=num_before + 1)]
    return (
        pyarrow.array([hit.query_id for hit in hits]),
        pyarrow.array([hit.doc_id for hit in hits]),
        np.array([hit.score for hit in hits]),
    )


def _parsed(lines: memoryview) -> Columns | None:
    """The columns of whole lines; None where one is not of the usual form, or no hit."""
    import pyarrow
    from pyarrow import csv

    text = np.frombuffer(lines, np.int8)
    is_space = text <= ord(" ")  # negative where the text is not ASCII
    if is_space[0] or (is_space[1:] & is_space[:-1]).any():
        return None
    try:
        table = csv.read_csv(
            pyarrow.py_buffer(lines),
            csv.ReadOptions(column_names=_COLUMNS, use_threads=False, block_size=len(lines) + 1),
            *_options(),
        )
    except pyarrow.ArrowInvalid:
        return None
    query_ids, doc_ids, scores = (column.combine_chunks() for column in table.columns)
    found = scores.to_numpy()
    if np.isnan(found).any() or np.count_nonzero(is_space) != len(_COLUMNS) * len(found):
        return None  # also where a column has another white space, or a letter that is not ASCII
    return query_ids, doc_ids, found


@cache
def _options() -> tuple[csv.ParseOptions, csv.ConvertOptions]:
    import pyarrow
    from pyarrow import csv

    types = {"query_id": pyarrow.string(), "doc_id": pyarrow.string(), "score": pyarrow.float64()}
    return (
        csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False),
        csv.ConvertOptions(column_types=types, include_columns=[*types], null_values=[], check_utf8=False),
    )
