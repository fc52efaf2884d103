"""Faults as people make them, to plant in a collection: edited copies of passages, reworded queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

_SWAPS = [  # words for words that ask the same
    {"the": "a", "a": "the", "an": "the", "of": "for", "for": "of", "in": "within", "from": "out of"},
    {"using": "with", "with": "using", "given": "specified", "whether": "if", "to": "into", "by": "via"},
    {"compute": "calculate", "return": "give", "get": "return", "perform": "do", "is": "was", "did": "does"},
]
_STARTS = ("How to", "Please", "How do I", "What does it mean to", "I want to")


def edited(text: str, draw: Random, vocabulary: Sequence[str]) -> str:
    """A copy with 4 to 8 % of its words changed or left out; its sentences also cut, or in another order.

    A cut takes the last sentence if that is at most a quarter of the words, else the last tenth. The new
    words come from `vocabulary`.
    """
    words = text.split()
    for place in draw.sample(range(len(words)), max(1, round(len(words) * draw.uniform(0.04, 0.08)))):
        words[place] = draw.choice(vocabulary) if draw.random() < 0.7 else ""
    sentences = re.split(r"(?<=[.?!])\s+", " ".join(filter(None, words)))
    way = draw.choice(["order", "cut", "neither"])
    if way == "order" and len(sentences) > 1:
        draw.shuffle(sentences)
    elif way == "cut":
        kept, last = sentences[:-1], len(sentences[-1].split())
        if not kept or last > len(words) / 4:
            return " ".join(" ".join(sentences).split()[: -max(1, len(words) // 10)])
        sentences = kept
    return " ".join(sentences)


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
