"""Texts that are equal or nearly equal: a measure, and a search that is linear in the number of texts.

Case, punctuation and white space do not count. The similarity of two texts is the weighted Jaccard
similarity of their features: the weight of the shared ones, divided by the weight of those that either has.
Features of a passage are pairs of neighbouring words, which hardly depend on the order of sentences; those
of a query are trigrams of letters, which tolerate other endings and typing errors. The weight is ln((n + 1)
/ df): rare features weigh more, so that a common template does not make texts similar.

Candidates among passages are found by MinHash (Broder 1997, "On the resemblance and containment of
documents") in bands (Leskovec et al. 2020, "Mining of Massive Datasets", 3.4), and then compared exactly.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import numpy as np

from condenser.data.records import Passage

# A letter of a script without spaces (Thai, Kana, Han) is a word of its own.
_WITHOUT_SPACES = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_WITHOUT_SPACES}]|[^\W{_WITHOUT_SPACES}]+")
_BUCKETS = 1 << 24  # counters of how many texts have a pair of words; pairs may share one
_BANDS, _ROWS = 32, 4  # texts with similarity s (unweighted) are compared with a chance of 1 - (1 - s^4)^32
_BATCH = 256
_KEPT = 1 << 16  # passages whose words stay in memory
_GOLDEN, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def words_of(text: str) -> list[str]:
    """The words of a text in order, in one case and form.

    >>> words_of("The ﬁrst  Step: 再现!")
    ['the', 'first', 'step', '再', '现']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def text_digest(words: Sequence[str]) -> int:
    """A number of 64 bits that two different texts share with a chance of 2^-64."""
    return int.from_bytes(blake2b(" ".join(words).encode(), digest_size=8).digest(), "little")


def pairs_of(words: Sequence[str]) -> np.ndarray:
    """Numbers of the pairs of neighbouring words, ascending and each once: uint64 [pair].

    A text of one word has that word, one without words nothing.
    """
    hashes = np.fromiter((crc32(word.encode()) for word in words), np.uint64, len(words))
    if len(hashes) > 1:
        hashes = hashes[:-1] << np.uint64(32) | hashes[1:]
    return np.unique(_mixed(hashes))


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ (values >> np.uint64(31))) * _GOLDEN
    values = (values ^ (values >> np.uint64(29))) * _MIX
    return values ^ (values >> np.uint64(32))


class Passages:
    """Random access to the passages of a file, with document frequencies over all of them.

    Memory does not grow with the length of the texts. A passage takes 145 bytes: where it begins, the digest
    of its text, `_BANDS` keys, and whether it has words.
    """

    def __init__(self, path: Path, *, num_rows: int) -> None:
        self._file, self.num_rows = path.open("rb"), num_rows
        self._begins, self._digests = array("Q"), array("Q")
        self._keys = np.zeros((_BANDS, num_rows), np.uint32)
        self._has_words = np.zeros(num_rows, bool)
        self._texts_with = np.zeros(_BUCKETS, np.uint32)
        self._waiting: list[tuple[int, np.ndarray]] = []
        self._factors = _mixed(np.arange(1, _BANDS * _ROWS + 1, dtype=np.uint64)) | np.uint64(1)
        self.pairs = lru_cache(maxsize=_KEPT)(self._pairs)

    def read(self) -> Iterator[tuple[Passage, list[str]]]:
        """All passages with their words, once and in order."""
        self._file.seek(0)
        while True:
            begin = self._file.tell()
            line = self._file.readline()
            if not line:
                break
            passage = Passage(**json.loads(line))
            words = words_of(f"{passage.title} {passage.text}")
            self._begins.append(begin)
            self._digests.append(text_digest(words))
            pairs = pairs_of(words)
            self._texts_with[self._buckets(pairs)] += 1
            if len(pairs):
                self._has_words[len(self) - 1] = True
                self._waiting.append((len(self) - 1, pairs))
            if len(self._waiting) == _BATCH:
                self._add_keys()
            yield passage, words
        self._add_keys()

    def close(self) -> None:
        """Close the file; `contextlib.closing` does so."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, row: int) -> Passage:
        self._file.seek(self._begins[row])
        return Passage(**json.loads(self._file.readline()))

    def words(self, row: int) -> list[str]:
        """The words of a passage, those of its title first."""
        passage = self[row]
        return words_of(f"{passage.title} {passage.text}")

    def _pairs(self, row: int) -> tuple[np.ndarray, float]:
        """The pairs of a passage and their weight."""
        pairs = pairs_of(self.words(row))
        return pairs, self._weight(pairs)

    def _buckets(self, pairs: np.ndarray) -> np.ndarray:
        return (pairs >> np.uint64(40)).astype(np.int64)

    def _weight(self, pairs: np.ndarray) -> float:
        texts_with = np.maximum(self._texts_with[self._buckets(pairs)], 1)
        return float(np.log((len(self) + 1) / texts_with).sum())

    def similarity(self, row: int, other_row: int) -> float:
        """The weighted Jaccard similarity of two passages, from 0 to 1; 0 if neither has words."""
        (pairs, weight), (other_pairs, other_weight) = self.pairs(row), self.pairs(other_row)
        shared = self._weight(np.intersect1d(pairs, other_pairs, assume_unique=True))
        either = weight + other_weight - shared
        return min(1.0, shared / either) if either else 0.0

    def are_equal(self, row: int, other_row: int) -> bool:
        """Whether two passages have the same words in the same order."""
        return self._digests[row] == self._digests[other_row]

    def have_words(self, rows: np.ndarray) -> np.ndarray:
        """Which of some rows have a word: bool [row]."""
        return self._has_words[rows]

    def may_be_similar(self, row: int, others: np.ndarray) -> np.ndarray:
        """Which of other rows share a band with a passage: bool [row]."""
        return (self._keys[:, others] == self._keys[:, [row]]).any(axis=0)

    def _add_keys(self) -> None:
        """The keys of the waiting passages: each of a band's `_ROWS` smallest numbers, hashed together."""
        if not self._waiting:
            return
        rows, pairs = zip(*self._waiting, strict=True)
        begins = np.cumsum([0, *map(len, pairs[:-1])])
        values, rows_of_keys = np.concatenate(pairs), np.array(rows)
        for band in range(_BANDS):
            key = np.zeros(len(rows), np.uint64)
            for factor in self._factors[band * _ROWS : (band + 1) * _ROWS]:
                key = _mixed(key ^ np.minimum.reduceat(values * factor, begins))
            self._keys[band, rows_of_keys] = key >> np.uint64(32)
        self._waiting = []

    def equal_rows(self) -> np.ndarray:
        """For each passage the first row with the same words, or its own: int64 [row]."""
        _, first, of = np.unique(
            np.frombuffer(self._digests, np.uint64), return_index=True, return_inverse=True
        )
        return first[of]

    def near_rows(self, rows: np.ndarray, least: float) -> Iterator[tuple[int, int, float]]:
        """The passages of `rows` that resemble an earlier one: row, that row (the most similar), similarity.

        Of many that share a band each is compared with the first and with the one before it, so that the
        time stays linear. `rows` ascend, and have words.
        """
        candidates = np.zeros(0, np.uint64)
        for band in self._keys:
            keys = band[rows]
            order = np.argsort(keys, kind="stable")
            is_new = np.append(True, keys[order][1:] != keys[order][:-1])
            places = np.arange(len(order))
            first = np.maximum.accumulate(np.where(is_new, places, 0))
            later = rows[order[~is_new]].astype(np.uint64) << np.uint64(32)
            for earlier in (first[~is_new], places[~is_new] - 1):
                pairs_of_rows = later | rows[order[earlier]].astype(np.uint64)
                candidates = np.union1d(candidates, pairs_of_rows)
        row, best, highest = -1, -1, 0.0
        for candidate in map(int, candidates):
            if candidate >> 32 != row:
                if highest >= least:
                    yield row, best, highest
                row, highest = candidate >> 32, 0.0
            earlier_row = candidate & 0xFFFFFFFF
            if (similarity := self.similarity(earlier_row, row)) > highest:
                best, highest = earlier_row, similarity
        if highest >= least:
            yield row, best, highest


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
