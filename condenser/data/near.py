"""The words of a text, and queries that are equal or nearly equal.

Case, punctuation and white space do not count. The similarity of two queries is the weighted Jaccard
similarity of their trigrams of letters, which tolerate other endings and typing errors: the weight of the
shared ones, divided by the weight of those that either has. The weight is ln((n + 1) / df): rare ones weigh
more, so that a common template does not make queries similar.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain

import numpy as np

# A letter of a script without spaces (Thai, Kana, Han) is a word of its own.
_WITHOUT_SPACES = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_WITHOUT_SPACES}]|[^\W{_WITHOUT_SPACES}]+")


def words_of(text: str) -> list[str]:
    """The words of a text in order, in one case and form.

    >>> words_of("The ﬁrst  Step: 再现!")
    ['the', 'first', 'step', '再', '现']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def text_digest(words: Sequence[str]) -> int:
    """A number of 64 bits that two different texts share with a chance of 2^-64."""
    return int.from_bytes(blake2b(" ".join(words).encode(), digest_size=8).digest(), "little")


def trigrams_of(text: str) -> frozenset[str]:
    """Three letters in a row of each word with its ends: few change with an ending or a typing error.

    >>> sorted(trigrams_of("A map"))
    ['_a_', '_ma', 'ap_', 'map']
    """
    ended = (f"_{word}_" for word in words_of(text))
    return frozenset(word[at : at + 3] for word in ended for at in range(len(word) - 2))


def numbers_of(text: str) -> set[str]:
    """The words with a digit: queries that differ in them ask for different things."""
    return {word for word in words_of(text) if any(map(str.isdigit, word))}


def near(
    sets: Sequence[frozenset[str]], others: Sequence[frozenset[str]], least: float
) -> Iterator[list[tuple[float, int]]]:
    """For each of `sets` those of `others` with a similarity of `least` or more, and their rows.

    The most similar comes first. Exact; an empty set resembles nothing. Weights are from both.
    """
    sets_with = Counter(chain.from_iterable((*sets, *others)))
    num_sets = len(sets) + len(others)
    weight_of = {feature: math.log((num_sets + 1) / count) for feature, count in sets_with.items()}

    def weight(features: Iterable[str]) -> float:
        return math.fsum(map(weight_of.__getitem__, features))  # exact, so that no order changes it

    rows_with = defaultdict[str, list[int]](list)
    for row, features in enumerate(others):
        for feature in features:
            rows_with[feature].append(row)
    places = {feature: np.array(rows) for feature, rows in rows_with.items()}
    weights = np.array([weight(features) for features in others])
    for features in sets:
        of_set, shared = weight(features), np.zeros(len(others))
        for feature in features & places.keys():
            shared[places[feature]] += weight_of[feature]
        # sums in another order differ in rounding, so a little less is looked at exactly
        candidates = np.flatnonzero(shared > least * (of_set + weights - shared) * (1 - 1e-9))
        similar = []
        for row in candidates.tolist():
            exact = weight(features & others[row])
            similar.append((float(exact / (of_set + weights[row] - exact)), row))
        yield sorted((pair for pair in similar if pair[0] >= least), key=lambda pair: (-pair[0], pair[1]))
