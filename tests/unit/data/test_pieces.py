from __future__ import annotations

from condenser.data.tokens import WordMark


def test_of_bytes_the_rest_of_a_character_continues_the_word_before_it() -> None:
    """In UTF-8 "é" is the bytes C3 A9, which byte-level BPE writes "Ã" and "©"."""
    mark = WordMark("Ġ", is_of_first=True, is_bytes=True)
    continues = {"Ġcaf": False, "Ã": True, "©": True, "Ã©": True, "x": True, ".": False, "Ġ.": False}
    assert {piece: mark.continues_word(piece) for piece in continues} == continues
