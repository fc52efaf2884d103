"""Sentence boundaries that no word straddles."""

from __future__ import annotations

import unicodedata
from functools import cache

from sentencex import segment

# sentencex 1.0.32 panics on a capital, one of these and a full stop ("John F\u00a0. Kennedy"): it
# takes every whitespace for one byte. Cutting at the same character of a copy with plain spaces is safe.
_WIDE_SPACES = dict.fromkeys(map(ord, "\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000"), " ")
_WIDE_SPACES |= dict.fromkeys(range(0x2000, 0x200B), " ")


def split_sentences(text: str) -> list[str]:
    """The sentences of an English text; joined they are the text again, whitespace included.

    A boundary is kept only behind whitespace or punctuation, where BERT's own word splitting
    cuts as well: the tokens of the sentences, end to end, are then the tokens of the text.
    """
    pieces: list[str] = []
    begin = end = 0
    for piece in segment("en", text if text.isascii() else text.translate(_WIDE_SPACES)):
        end += len(piece)
        if _ends_word(text[end - 1]):
            pieces.append(text[begin:end])
            begin = end
    if begin < len(text):
        pieces.append(text[begin:])
    return pieces


@cache
def _ends_word(char: str) -> bool:
    # BERT drops control characters, even those that Python takes for whitespace: they end no word.
    # By Unicode 3.2 too, since punctuation that is newer may be news to the tokenizer.
    tables = (unicodedata, unicodedata.ucd_3_2_0)
    return char in "\t\n\r" or all(table.category(char)[0] in "PZ" for table in tables)
