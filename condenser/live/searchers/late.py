"""Late interaction: the hits of its candidates, by the function that the rule `late` calls.

All passages of an answer go through the model again, so a query takes longer than in the rule, which encodes
a passage once for all queries. They are in other batches than in the rule: token states, of 16 bits, may
differ in their last bit, and scores in their third decimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc
from condenser.live.searchers import Rank
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "maxsim"


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Gives the scored hits."""
    import numpy as np

    from condenser.retrieve.late import LateModel

    system, block_rows = settings["system"], settings["encode"]["block_rows"]
    model = PairModel(
        *(files, settings, texts, LateModel),
        in_one_row=False,
        special_tokens=system["special_tokens"],
        punctuation=system["punctuation"],
        match=system["match"],
        first_states=system["first_states"],
        is_trained=system["train"],
        is_projected=system["dim"] is not None,
    )

    def rank(query: str, hits_of_parts: list[list[ScoredDoc]]) -> Iterable[ScoredDoc]:
        read = model.texts(query, [hit for hits in hits_of_parts for hit in hits[: system["depth"]]])
        scores = model.scorer.scores_of_query(read, block_rows=block_rows)
        return model.ranked(read, np.arange(len(scores)), scores)

    return rank
