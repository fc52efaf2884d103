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


class Rarity:
    """Weights of features, ln((n + 1) / df), from n sets of features."""

    def __init__(self, sets: Iterable[frozenset[str]]) -> None:
        sets_with: Counter[str] = Counter()
        num_sets = 0
        for features in sets:
            sets_with.update(features)
            num_sets += 1
        self._weights = {feature: math.log((num_sets + 1) / count) for feature, count in sets_with.items()}

    def weight(self, features: Iterable[str]) -> float:
        """The sum of the weights of features that the sets have; exact, so that no order changes it."""
        return math.fsum(map(self._weights.__getitem__, features))

    def similarity(self, features: frozenset[str], other_features: frozenset[str]) -> float:
        """The weighted Jaccard similarity of two sets, from 0 to 1; one of them is not empty."""
        return self._similarity(
            self.weight(features & other_features), self.weight(features), self.weight(other_features)
        )

    @staticmethod
    def _similarity(shared: float, weight: float, other_weight: float) -> float:
        return shared / (weight + other_weight - shared)

    def _rarest(self, features: frozenset[str], least: float) -> Iterator[str]:
        """Features of which two sets share one if their similarity is `least`: the others weigh too little.

        Source: Chaudhuri et al. 2006, "A Primitive Operator for Similarity Joins in Data Cleaning".
        """
        left = self.weight(features)
        enough = least * left * (1 - 1e-9)
        for feature in sorted(features, key=lambda feature: (-self._weights[feature], feature)):
            if left < enough:
                return
            yield feature
            left -= self._weights[feature]

    def near(
        self, sets: Iterable[frozenset[str]], others: Sequence[frozenset[str]], least: float
    ) -> Iterator[list[tuple[float, int]]]:
        """For each of `sets` those of `others` with a similarity of `least` or more, and their numbers.

        The most similar comes first. Exact; an empty set resembles nothing.
        """
        with_feature: dict[str, list[int]] = defaultdict(list)
        weights = [self.weight(features) for features in others]
        for number, features in enumerate(others):
            for feature in self._rarest(features, least):
                with_feature[feature].append(number)
        for features in sets:
            weight = self.weight(features)
            lightest, heaviest = least * weight * (1 - 1e-9), weight / least * (1 + 1e-9)
            candidates = {
                number
                for feature in self._rarest(features, least)
                for number in with_feature.get(feature, ())
            }
            similar = [
                (self._similarity(self.weight(features & others[number]), weight, weights[number]), number)
                for number in candidates
                if lightest <= weights[number] <= heaviest
            ]
            yield sorted((pair for pair in similar if pair[0] >= least), key=lambda pair: (-pair[0], pair[1]))
