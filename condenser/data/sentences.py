"""Sentences of English texts; a boundary is never inside a word."""

from __future__ import annotations

import unicodedata
from functools import cache

from sentencex import segment

# sentencex 1.0.32 panics on a capital letter, one of these spaces and a full stop ("John F\u00a0. Kennedy"),
# as it assumes that every space is one byte. So we segment a copy with plain spaces, of equal length.
_WIDE_SPACES = dict.fromkeys(map(ord, "\u0085\u00a0\u1680\u2028\u2029\u202f\u205f\u3000"), " ")
_WIDE_SPACES |= dict.fromkeys(range(0x2000, 0x200B), " ")


def split_sentences(text: str) -> list[str]:
    """The sentences of an English text; joined they are the text, with its whitespace.

    A boundary is kept only after whitespace or punctuation, where BERT also splits words. So the tokens of
    the sentences, concatenated, are the tokens of the text.
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
    # BERT removes control characters, also those that are whitespace to Python: they do not end a word.
    # The character must be punctuation in Unicode 3.2, too: the tokenizer may not know newer punctuation.
    tables = (unicodedata, unicodedata.ucd_3_2_0)
    return char in "\t\n\r" or all(table.category(char)[0] in "PZ" for table in tables)
