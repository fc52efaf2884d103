"""Lengths of texts in tokens, counted beside their token shards, and the value of `lengths: auto`.

A length is that of a whole row as an encoder reads it, `[CLS] title [SEP] text [SEP]`, so that it compares
with the `lengths` of a recipe. Counts of shards add up to those of the whole collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from condenser.blocks import AutoLengths, Lengths
from condenser.files import read_json, write_json
from condenser.settings import AUTO, partly

NUM_SPECIALS = 2  # [CLS] in front, [SEP] behind


@dataclass
class TokenCounts:
    """Counts of the rows of a token shard, or of several.

    Attributes:
        num_words: words and punctuation marks, as the tokenizer splits them.
        num_unknown: of these, those that became [UNK].
        rows: the number of rows by length, special tokens included.
    """

    num_words: int = 0
    num_unknown: int = 0
    rows: Counter[int] = field(default_factory=Counter)

    def add(self, lengths: Int[np.ndarray, " row"], *, num_words: int) -> None:
        """Count rows of these lengths, which are without [CLS] and [SEP] around them."""
        distinct, times = np.unique(lengths, return_counts=True)
        for length, count in zip(distinct.tolist(), times.tolist(), strict=True):
            self.rows[length + NUM_SPECIALS] += count
        self.num_words += num_words

    @property
    def num_rows(self) -> int:
        """All rows."""
        return self.rows.total()

    @property
    def num_tokens(self) -> int:
        """The tokens of all rows, without special tokens around them."""
        return sum((length - NUM_SPECIALS) * count for length, count in self.rows.items())

    @property
    def unknown_share(self) -> float:
        """The share of the words that are not in the vocabulary."""
        return self.num_unknown / self.num_words if self.num_words else 0.0

    def rows_above(self, max_tokens: int) -> int:
        """The rows that are cut at this length."""
        return sum(count for length, count in self.rows.items() if length > max_tokens)

    def tokens_above(self, max_tokens: int) -> int:
        """The tokens beyond this length, which are not read."""
        return sum(max(0, length - max_tokens) * count for length, count in self.rows.items())

    def describe_cuts(self, max_tokens: int, texts: str) -> str:
        """A sentence that says how many of the `texts` are cut at this length.

        >>> TokenCounts(rows=Counter({20: 60, 102: 40})).describe_cuts(52, "passages")
        '40 of 100 passages (40.0 %) are longer than 52 tokens; 39.4 % of the tokens are never read.'
        """
        if not (num_cut := self.rows_above(max_tokens)):
            return f"None of the {self.num_rows:,} {texts} is longer than {max_tokens} tokens."
        rows, tokens = num_cut / self.num_rows, self.tokens_above(max_tokens) / self.num_tokens
        return (
            f"{num_cut:,} of {self.num_rows:,} {texts} ({100 * rows:.1f} %) are longer than {max_tokens} "
            f"tokens; {100 * tokens:.1f} % of the tokens are never read."
        )

    def behind(self, num_tokens: int) -> TokenCounts:
        """The counts of the same texts with a prompt of so many tokens before each."""
        rows = Counter({length + num_tokens: count for length, count in self.rows.items()})
        return TokenCounts(self.num_words, self.num_unknown, rows)

    def covering(self, share: float, *, multiple: int, num_positions: int) -> int:
        """The smallest multiple at which this share of the rows is not cut, but at most `num_positions`.

        >>> TokenCounts(rows=Counter({20: 94, 33: 5, 700: 1})).covering(0.95, multiple=8, num_positions=512)
        40
        """
        num_whole = 0
        for length in sorted(self.rows):
            num_whole += self.rows[length]
            if num_whole >= share * self.num_rows:
                return min(-(-length // multiple) * multiple, num_positions)
        return num_positions  # there are no texts: cut none

    def as_json(self) -> dict[str, Any]:
        """The counts as JSON values, lengths ascending."""
        rows = {str(length): self.rows[length] for length in sorted(self.rows)}
        return {"words": self.num_words, "unknown_words": self.num_unknown, "rows": rows}


def counts_of(value: Mapping[str, Any]) -> TokenCounts:
    """The counts that `TokenCounts.as_json` gave."""
    rows = Counter({int(length): count for length, count in value["rows"].items()})
    return TokenCounts(value["words"], value["unknown_words"], rows)


def total(parts: Iterable[TokenCounts]) -> TokenCounts:
    """The counts of several shards together."""
    whole = TokenCounts()
    for part in parts:
        whole.num_words += part.num_words
        whole.num_unknown += part.num_unknown
        whole.rows.update(part.rows)
    return whole


@dataclass(frozen=True)
class TextLengths:
    """Token counts of a data set by a model's tokenizer, and how much its backbone can read.

    Attributes:
        num_positions: tokens of a row, specials included.
        queries: by split.
        prompts: tokens of the model's prompt before a `query` and a `passage`, which the counts are without.
        auto: what a length `auto` of a recipe leaves whole.
        assumed: what was assumed of the model's vectors (`condenser.model.text_vector.assumptions`).
    """

    num_positions: int
    passages: TokenCounts
    queries: Mapping[str, TokenCounts]
    prompts: Mapping[str, int]
    auto: AutoLengths
    assumed: Sequence[str] = ()

    def write(self, path: Path) -> None:
        """Write them as JSON."""
        queries = {split: counts.as_json() for split, counts in self.queries.items()}
        value = {"positions": self.num_positions, "passages": self.passages.as_json(), "queries": queries}
        texts = {"prompts": dict(self.prompts), "auto": vars(self.auto), "assumed": list(self.assumed)}
        write_json(path, value | texts)

    def _covering(self, counts: TokenCounts, num_positions: int) -> int:
        return counts.covering(self.auto.share, multiple=self.auto.multiple, num_positions=num_positions)

    def _read(self, key: str, counts: TokenCounts, *, in_one_row: bool) -> TokenCounts:
        """The counts of texts as a system reads them: a bi-encoder behind a prompt."""
        return counts if in_one_row else counts.behind(self.prompts[key])

    def resolve(self, lengths: Mapping[str, int | str], *, in_one_row: bool) -> dict[str, int]:
        """The `lengths` of a recipe as numbers; those that are not `auto` as they are.

        Args:
            lengths: of `query`, of `passage`, or of both.
            in_one_row: a query and a passage share the positions, and a [CLS], as in a cross-encoder.
        """
        numbers = dict(lengths)
        if numbers.get("query") == AUTO:
            queries = self._read("query", total(self.queries.values()), in_one_row=in_one_row)
            numbers["query"] = self._covering(queries, self.num_positions)
        if numbers.get("passage") == AUTO:
            room = self.num_positions - (int(numbers["query"]) - 1 if in_one_row else 0)
            passages = self._read("passage", self.passages, in_one_row=in_one_row)
            numbers["passage"] = self._covering(passages, room)
        return {name: int(length) for name, length in numbers.items()}

    def cuts(
        self, lengths: Mapping[str, int | str], *, splits: Iterable[str], in_one_row: bool
    ) -> list[tuple[str, int]]:
        """How many passages, and queries of `splits`, are cut at these lengths.

        Gives sentences, each with the number of texts that are cut. Notes and the audit say the same.
        """
        numbers = self.resolve(lengths, in_one_row=in_one_row)
        kinds = {"passages": ("passage", self.passages)}
        kinds |= {f"{split} queries": ("query", self.queries[split]) for split in splits}
        sentences = []
        for texts, (key, of_texts) in kinds.items():
            counts = self._read(key, of_texts, in_one_row=in_one_row)
            chosen = f"lengths.{key}: auto is {numbers[key]}. " if lengths[key] == AUTO else ""
            num_cut = counts.rows_above(numbers[key])
            if num_cut or chosen or key == "passage":
                sentences.append((chosen + counts.describe_cuts(numbers[key], texts), num_cut))
        return sentences


def read_text_lengths(path: Path) -> TextLengths:
    """What `TextLengths.write` wrote."""
    value = read_json(path)
    queries = {split: counts_of(counts) for split, counts in value["queries"].items()}
    passages = counts_of(value["passages"])
    auto = partly(AutoLengths, value["auto"])
    return TextLengths(value["positions"], passages, queries, value["prompts"], auto, tuple(value["assumed"]))


def resolve_lengths(lengths: Lengths, file: Path | None, *, in_one_row: bool = False) -> Lengths:
    """The `lengths` of a recipe as numbers; `file` has the `TextLengths`, where one of them is `auto`."""
    if file is None:
        return lengths
    return partly(Lengths, read_text_lengths(file).resolve(vars(lengths), in_one_row=in_one_row))
