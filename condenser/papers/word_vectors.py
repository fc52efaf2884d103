"""Vectors of words from a text file such as GloVe's: a word and its numbers in each line."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import numpy as np

from condenser.data.archives import open_unpacked
from condenser.data.parsing import BYTE_ORDER_MARK


def read_word_vectors(
    path: Path, words: Set[str] | None, *, most: int | None = None
) -> tuple[dict[str, np.ndarray], int]:
    """The vectors of words, float32 [dim] by word, and the number of lines left out.

    A line is left out where it is not a word and as many finite numbers as in the first line. Of a word that
    occurs twice the first line counts.

    Args:
        words: those that are wanted; None for all.
        most: how many vectors to read; None for all.

    Raises:
        ValueError: half of the lines or more are left out, or there are none.
    """
    vectors: dict[str, np.ndarray] = {}
    dim, num_lines, num_left_out = 0, 0, 0
    for word, cells in _lines(path):
        dim, num_lines = dim or len(cells), num_lines + 1
        if not cells or len(cells) != dim:
            num_left_out += 1
        elif word not in vectors and (words is None or word in words):
            try:
                vector = np.array([float(cell) for cell in cells], dtype=np.float32)
            except ValueError:
                vector = np.array(np.nan)
            if np.isfinite(vector).all():
                vectors[word] = vector
            else:
                num_left_out += 1
        if len(vectors) == most:
            break
    if 2 * num_left_out >= num_lines:
        raise ValueError(
            f"{path}: expected a word and its vector in each line, got {num_lines - num_left_out:,} of "
            f"{num_lines:,} lines with {dim} numbers, as many as the first has. Is it a text file such as "
            "GloVe's?"
        )
    return vectors, num_left_out


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Words and cells; the first line may have the numbers of words and dimensions alone, as word2vec's."""
    with open_unpacked(path) as file:
        for number, line in enumerate(file):
            if number == 0:
                line = line.removeprefix(BYTE_ORDER_MARK)
            word, *cells = line.decode(errors="replace").rstrip().split(" ")
            if number or len(cells) != 1:
                yield word, cells
