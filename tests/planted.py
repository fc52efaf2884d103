"""Queries as people reword them, to plant among train queries."""

from __future__ import annotations

from random import Random

_SWAPS = [  # words for words that ask the same
    {"the": "a", "a": "the", "an": "the", "of": "for", "for": "of", "in": "within", "from": "out of"},
    {"using": "with", "with": "using", "given": "specified", "whether": "if", "to": "into", "by": "via"},
    {"compute": "calculate", "return": "give", "get": "return", "perform": "do", "is": "was", "did": "does"},
]
_STARTS = ("How to", "Please", "How do I", "What does it mean to", "I want to")


def reworded(query: str, draw: Random) -> str:
    """The same question in slightly other words.

    Other small words or verbs, a new start, another order, a plural, a typing error; two of these, and always
    another case and no full stop.
    """
    words = query.lower().rstrip(".?").split()

    def swap() -> None:
        swaps = draw.choice(_SWAPS)
        words[:] = [swaps.get(word, word) for word in words]

    def start() -> None:
        words[:0] = draw.choice(_STARTS).split()

    def order() -> None:
        place = next((at for at in range(2, len(words) - 1) if words[at] in ("of", "for", "in", "from")), 0)
        words[:] = words[place:] + words[:place]

    def plural() -> None:
        place = draw.randrange(len(words))
        words[place] = words[place][:-1] if words[place].endswith("s") else f"{words[place]}s"

    def mistype() -> None:
        place = max(range(len(words)), key=lambda at: (len(words[at]), at))
        if len(words) >= 8:
            words[place] = words[place][:2] + words[place][3:]

    for change in draw.sample([swap, start, order, plural, mistype], 2):
        change()
    return " ".join(words)
