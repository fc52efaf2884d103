"""Sentence boundaries that no word straddles."""

from __future__ import annotations

import unicodedata
from functools import cache

from sentencex import segment


def split_sentences(text: str) -> list[str]:
    """The sentences of an English text; joined they are the text again, whitespace included.

    A boundary is kept only behind whitespace or punctuation, where BERT's own word splitting
    cuts as well: the tokens of the sentences, end to end, are then the tokens of the text.
    """
    pieces: list[str] = []
    is_closed = True
    for piece in segment("en", text):
        if is_closed:
            pieces.append(piece)
        else:
            pieces[-1] += piece
        is_closed = _ends_word(piece[-1])
    return pieces


@cache
def _ends_word(char: str) -> bool:
    # Other control characters count as whitespace in Python, yet BERT drops them: they end no word.
    return char in "\t\n\r" or unicodedata.category(char)[0] in "PZ"
