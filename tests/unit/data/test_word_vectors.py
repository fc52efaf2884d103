"""Word vectors from a text file: which lines count."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from condenser.papers.word_vectors import read_word_vectors


@pytest.mark.parametrize(
    ("lines", "words", "most", "expected", "num_left_out"),
    [
        (["2 3", "a 1 2", "b 3 4"], None, None, {"a": [1, 2], "b": [3, 4]}, 0),  # word2vec's first line
        (["\ufeffa 1 2", "a 5 6", "b 3 4"], None, None, {"a": [1, 2], "b": [3, 4]}, 0),  # the first of a word
        (["a 1 2", "b 3", "c x 4", "b 5 6", "a phrase 1 2", "d 1 1", "e 7 8"], {"a", "b", "c"}, None,
         {"a": [1, 2], "b": [5, 6]}, 3),
        (["a 1 2", "b 3 4", "c 5"], None, 2, {"a": [1, 2], "b": [3, 4]}, 0),
    ],
)  # fmt: skip
def test_the_vectors_are_those_of_the_lines_that_fit(
    tmp_path: Path,
    lines: list[str],
    words: set[str] | None,
    most: int | None,
    expected: dict[str, list[float]],
    num_left_out: int,
) -> None:
    (tmp_path / "v.txt").write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    vectors, left_out = read_word_vectors(tmp_path / "v.txt", words, most=most)
    assert {word: vector.tolist() for word, vector in vectors.items()} == expected
    assert left_out == num_left_out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "got 0 of 0 lines with 0 numbers"),
        ("a\nb\n", "got 0 of 2 lines with 0 numbers"),
        ("a 1 2\nb 1\nc 1 2 3\nd 4\n", "got 1 of 4 lines with 2 numbers, as many as the first has"),
        ("a 1 2\nb nan 1\nc 1 x\n", "got 1 of 3 lines with 2 numbers"),
    ],
)
def test_a_file_of_which_half_the_lines_do_not_fit_is_refused_in_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "v.txt").write_text(text)
    message = f"v.txt: expected a word and its vector in each line, {said}"
    with pytest.raises(ValueError, match=message) as refused:
        read_word_vectors(tmp_path / "v.txt", None)
    assert "\n" not in str(refused.value)
