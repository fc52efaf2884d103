"""The mean of the vectors of a sentence's words, such as GloVe's.

Source: Condenser, Table 1 (after Reimers and Gurevych 2019, Table 1).
"""

from __future__ import annotations

from condenser.settings import HomePath, System

TASKS = ("similarity", "triplets")


class Settings(System):
    """`path` is a text file with a word and its vector in each line, as GloVe's."""

    path: HomePath


def is_trained(settings: Settings) -> bool:
    """Nothing is learnt."""
    return False
