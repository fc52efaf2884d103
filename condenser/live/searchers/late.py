"""Late interaction: the hits of its candidates, by the function that the rule `late` calls.

The states of passages are read as they were kept when the passages were indexed, by the rule as well. Where
they were not kept, all passages of an answer go through the model again. Then they are in other batches than
in the rule: token states, of 16 bits, may differ in their last bit, and scores in their third decimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.records import ScoredDoc
from condenser.live.searchers import Ranker
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "maxsim"
ENCODED_ANEW = (
    "MaxSim encodes the passages for each query, because their token states are not kept: they need more "
    "than encode.states_gb, or no bi-encoder among its candidates has its model."
)


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Ranker:
    """Gives the scored hits."""
    import numpy as np

    from condenser.retrieve.late import LateModel
    from condenser.retrieve.token_states import KeptStates, states_files

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

    kept = KeptStates([states_files(file) for file in files.get("states", [])])

    def rank(query: str, hits_of_parts: list[list[ScoredDoc]]) -> Iterable[ScoredDoc]:
        hits = [hit for hits in hits_of_parts for hit in hits[: system["depth"]]]
        rows = model.rows(hits)
        read = model.texts(query, [] if kept.are_kept else rows)
        places = rows if kept.are_kept else np.arange(len(rows))
        scores = model.scorer.scores_of_query(read, places, block_rows=block_rows, kept=kept)
        return model.ranked(rows, np.arange(len(rows)), scores)

    return Ranker(rank, system["depth"], [] if kept.are_kept else [ENCODED_ANEW])
