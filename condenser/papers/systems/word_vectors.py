"""The mean of the vectors of a sentence's words, such as GloVe's.

Source: Condenser, Table 1 (after Reimers and Gurevych 2019, Table 1).
"""

from __future__ import annotations

from condenser.nouns import System
from condenser.settings import HomePath


class Settings(System):
    """`path` is a text file with a word and its vector in each line, as GloVe's."""

    TASKS = ("similarity", "triplets")

    path: HomePath  # a text file with a word and its vector in each line
