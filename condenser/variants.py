"""The names of variants (train size and seed of a result) and of splits."""

from __future__ import annotations

import re

from condenser.settings import UNTRAINED

TRAINED = r"(n[1-9]\d*-)?seed\d+"
"""Train size and seed of a result, for example `seed42` or `n1000-seed1`, as a regular expression."""

CROSSFIT = "crossfit-"
"""Before a variant: the same trained without the held-out queries, which then show what to choose for it."""

FITTED = rf"({CROSSFIT})?{TRAINED}"
"""A variant that a training reaches, as a regular expression."""

VARIANT = rf"{FITTED}|{UNTRAINED}"
"""Those, or that no training by seed reaches it."""

HELD_OUT = ".held_out"
"""Behind the name of a train split: of its queries those that no training of the variant sees."""

SPLIT = rf"[A-Za-z0-9_-]+({re.escape(HELD_OUT)})?"
"""A split of a data set, or of its train split the held-out queries alone, as a regular expression."""

SEED = r"-seed(0|[1-9]\d*)"
"""The end of the name of a model that is pre-trained for each seed, for example `condenser-seed1`."""


def is_held_out(split: str) -> bool:
    """Whether a split has only the held-out train queries of a variant."""
    return split.endswith(HELD_OUT)


def whole_split(split: str) -> str:
    """The split of a data set that a split is, or has a part of.

    >>> whole_split("train.held_out"), whole_split("dev")
    ('train', 'dev')
    """
    return split.removesuffix(HELD_OUT)


def parse_variant(name: str) -> tuple[int | None, int | None]:
    """Train queries (None: all) and seed (None: untrained) of a variant.

    >>> parse_variant("n1000-seed1"), parse_variant("crossfit-seed42"), parse_variant("untrained")
    ((1000, 1), (None, 42), (None, None))
    """
    match = re.fullmatch(rf"(?:{CROSSFIT})?(?:n(\d+)-)?seed(\d+)", name)
    if match is None:
        return None, None
    return int(match[1]) if match[1] else None, int(match[2])
