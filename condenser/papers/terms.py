"""The words of tokenised texts as terms of an index, and what share of a passage's queries contains each.

Source: Dai and Callan 2019 (DeepCT). AdeDZY/DeepCT compares Porter's stems and leaves out stop words; here
words are compared as they are (docs/studies/papers_in_small has one trial of both).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Int, Integer

from condenser.data.tokens import Tokenizer

_CACHED = 1 << 20  # words; some 200 MB


class WordReader:
    """Reads the words of texts from their tokens, in lower case, as an index has them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._spelling = lru_cache(_CACHED)(self._spelled)

    def words(self, ids: Integer[np.ndarray, " token"]) -> tuple[Int[np.ndarray, " word"], list[str]]:
        """The place of each word's first token, and the words; special tokens such as [UNK] are none."""
        is_first = ~self._tokenizer.is_continuation[ids]
        is_first[:1] = True
        is_first[1:] |= ids[:-1] == self._tokenizer.sep_id  # behind a title
        firsts = np.flatnonzero(is_first)
        words = [self._spelling(tuple(pieces.tolist())) for pieces in np.split(ids, firsts[1:])]
        return firsts[[bool(word) for word in words[: len(firsts)]]], list(filter(None, words))

    def _spelled(self, pieces: tuple[int, ...]) -> str:
        return self._tokenizer.decode(pieces).lower()


def query_term_recall(words: Sequence[str], queries: Sequence[Collection[str]]) -> list[float]:
    """For each word of a passage, the share of its queries that contain the word.

    QTR(t, d) = |Q_{d,t}| / |Q_d| (DeepCT, eq. 2).

    >>> query_term_recall(["cheap", "black", "tea"], [{"black", "tea"}, {"tea", "shop"}])
    [0.0, 0.5, 1.0]
    """
    return [sum(word in query for query in queries) / len(queries) for word in words]
