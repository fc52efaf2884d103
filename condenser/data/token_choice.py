"""Which tokens of texts count where these are compared token by token."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from condenser.data.tokens import Tokenizer


def punctuation_ids(tokenizer: Tokenizer) -> Int[np.ndarray, " sign"]:
    """The tokens of single ASCII signs of punctuation, as ColBERT leaves them out."""
    ids, lengths = tokenizer.encode_flat(list(string.punctuation))
    assert len(ids) == lengths.sum()
    return np.setdiff1d(ids, [tokenizer.unk_id])


@dataclass(frozen=True)
class TokenChoice:
    """Which tokens of a text count: those of the text, and others.

    Attributes:
        special_tokens: whether [CLS], each [SEP] and the prompt count too.
        left_out: ids that do not count.
        sep_id: of [SEP], which also stands behind a title.
        most: only so many first tokens of a text count, the special ones among them; None for all.
    """

    special_tokens: bool
    left_out: Int[np.ndarray, " id"]
    sep_id: int
    most: int | None = None

    def counted(
        self, ids: Int[np.ndarray, "row place"], whole: Int[np.ndarray, " row"], *, first: int
    ) -> Bool[np.ndarray, "row place"]:
        """True at the tokens that count; if a text has none, at all of its tokens.

        Args:
            whole: tokens of each row with the special ones; behind them is padding.
            first: the place of a text's first token.
        """
        places = np.arange(ids.shape[1])
        is_token = places < whole[:, None]
        counted = is_token & ~np.isin(ids, self.left_out)
        if not self.special_tokens:
            counted &= (places >= first) & (places < whole[:, None] - 1) & (ids != self.sep_id)
        if self.most is not None:
            counted, is_token = counted & (places < self.most), is_token & (places < self.most)
        return np.where(counted.any(axis=1, keepdims=True), counted, is_token)


def token_choices(
    tokenizer: Tokenizer, *, special_tokens: bool, punctuation: bool, match: str, first_states: int | None
) -> dict[Literal["query", "passage"], TokenChoice]:
    """Which tokens of queries and of passages count.

    Args:
        punctuation: whether signs of punctuation count in passages, too; in queries they do.
        match: `first` leaves a query its [CLS] alone, and a passage its `first_states` first tokens.
    """
    signs, sep_id, is_first = punctuation_ids(tokenizer), tokenizer.sep_id, match == "first"
    left_out = signs[:0] if punctuation else signs
    return {
        "query": TokenChoice(special_tokens, signs[:0], sep_id, most=1 if is_first else None),
        "passage": TokenChoice(special_tokens, left_out, sep_id, most=first_states if is_first else None),
    }


@dataclass(frozen=True)
class ChosenTokens:
    """The tokens that count of some texts, which stand end to end.

    Attributes:
        counts: of each text.
        ids: of each token.
    """

    counts: Int[np.ndarray, " text"]
    ids: Int[np.ndarray, " token"]

    def of_each_text(self) -> list[ChosenTokens]:
        """Those of each text alone.

        >>> [one.ids.tolist() for one in ChosenTokens(np.array([1, 2]), np.array([7, 8, 9])).of_each_text()]
        [[7], [8, 9]]
        """
        ids = np.split(self.ids, np.cumsum(self.counts)[:-1])
        return [ChosenTokens(self.counts[text : text + 1], of_text) for text, of_text in enumerate(ids)]


def counted_tokens(
    counted: Bool[np.ndarray, "row place"], whole: Int[np.ndarray, " row"]
) -> Int[np.ndarray, " counted"]:
    """The numbers of the tokens that count among those of all rows, which stand end to end without padding.

    >>> counted_tokens(np.array([[True, False, False], [False, True, True]]), np.array([2, 3]))
    array([0, 3, 4])
    """
    return np.flatnonzero(counted[np.arange(counted.shape[1]) < whole[:, None]])
