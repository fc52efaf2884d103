"""Word vectors from a text file: which lines count."""

from __future__ import annotations

from pathlib import Path

import pytest

from condenser.papers.word_vectors import read_word_vectors


@pytest.mark.parametrize(
    ("lines", "most", "expected", "num_left_out"),
    [
        (["2 3", "a 1 2", "b 3 4"], None, {"a": [1, 2], "b": [3, 4]}, 0),  # word2vec's first line
        (["a 1 2", "a 5 6", "b 3 4"], None, {"a": [1, 2], "b": [3, 4]}, 0),  # of a word the first line
        (["a 1 2", "b 3", "c x 4", "b 5 6", "d 1 1"], None, {"a": [1, 2], "b": [5, 6], "d": [1, 1]}, 2),
        (["a 1 2", "b 3 4", "c 5"], 2, {"a": [1, 2], "b": [3, 4]}, 0),
    ],
)
def test_the_vectors_are_those_of_the_lines_that_fit(
    tmp_path: Path, lines: list[str], most: int | None, expected: dict[str, list[float]], num_left_out: int
) -> None:
    (tmp_path / "v.txt").write_text("".join(f"{line}\n" for line in lines))
    vectors, left_out = read_word_vectors(tmp_path / "v.txt", None, most=most)
    assert {word: vector.tolist() for word, vector in vectors.items()} == expected
    assert left_out == num_left_out


def test_a_file_of_which_half_the_lines_do_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\nb 3\n")
    with pytest.raises(ValueError, match=r"got 1 of 2 lines with 2 numbers"):
        read_word_vectors(tmp_path / "v.txt", None)
