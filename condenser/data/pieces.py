"""Where words begin in the pieces of a tokenizer's vocabulary: WordPiece, byte-level BPE or SentencePiece."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class WordMark:
    """How the pieces of a vocabulary tell where words begin.

    Attributes:
        text: what is before a piece.
        is_of_first: whether it is before a word's first piece, for the space there; else before the others.
        is_bytes: whether a piece's characters stand for bytes (byte-level BPE).
    """

    text: str
    is_of_first: bool
    is_bytes: bool

    def continues_word(self, piece: str) -> bool:
        """Whether a piece continues the word before it.

        Where the mark is for a space, a piece without it continues a word if it begins with a letter, a digit
        or the rest of a character, so that punctuation begins a word, as BERT splits it. Of a text's first
        word the first piece has no mark; there is no word before it.
        """
        if not self.is_of_first:
            return piece.startswith(self.text)
        if piece.startswith(self.text):
            return False
        if self.is_bytes:
            bytes_of = _bytes_of_characters()
            piece = bytes(bytes_of.get(character, 0x20) for character in piece).decode(errors="replace")
        return piece[:1].isalnum() or piece[:1] == "\ufffd"


def word_mark(backend: Any) -> WordMark | None:
    """The word mark of a tokenizer; None if the kind of tokenizer is unknown."""
    prefix = getattr(backend.model, "continuing_subword_prefix", None)
    if type(backend.model).__name__ == "WordPiece":
        return WordMark(prefix, is_of_first=False, is_bytes=False) if prefix else None
    settings = json.loads(backend.to_str())
    kinds = {part for name in ("pre_tokenizer", "decoder") for part in _kinds(settings[name])}
    if "ByteLevel" in kinds:
        return WordMark("Ġ", is_of_first=True, is_bytes=True)
    return WordMark("▁", is_of_first=True, is_bytes=False) if "Metaspace" in kinds else None


def _kinds(part: Any) -> Iterator[str]:
    """The kinds of a part of a tokenizer.json, and of its parts."""
    if isinstance(part, Mapping):
        yield str(part.get("type"))
        for inner in part.get("pretokenizers") or part.get("decoders") or ():
            yield from _kinds(inner)


@cache
def _bytes_of_characters() -> dict[str, int]:
    """The byte that each character of byte-level BPE stands for: printable bytes are themselves.

    Source: Radford et al. 2019 (GPT-2).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = [*map(chr, printable), *(chr(256 + number) for number in range(len(others)))]
    return dict(zip(characters, [*printable, *others], strict=True))
