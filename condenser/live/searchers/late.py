"""Late interaction: the hits of its candidates, by the function that the rule `late` calls.

All passages of an answer go through the model again, so a query takes longer than in the rule, which encodes
a passage once for all queries. They are in other batches than in the rule: token states, of 16 bits, may
differ in their last bit, and scores in their third decimal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.live.searchers import OneQuery, Rank
from condenser.live.searchers._models import PairModel
from condenser.live.texts import Texts

STEP = "maxsim"


def parts(settings: Any) -> list[str]:
    """The systems whose hits it scores."""
    return list(settings.candidates)


def ranker(files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], texts: Texts) -> Rank:
    """Writes the run of the scored hits."""
    system = settings["system"]
    model = PairModel(files, settings, texts, in_one_row=False)

    def rank(query: OneQuery, output: Path) -> None:
        from condenser.retrieve.late import rank_by_maxsim

        hits = system["depth"]
        rank_by_maxsim(
            candidates=query.runs,
            output=output,
            files=model.write_texts(query, hits=hits),
            hits=hits,
            special_tokens=system["special_tokens"],
            punctuation=system["punctuation"],
            match=system["match"],
            first_states=system["first_states"],
            is_trained=system["train"],
            is_projected=system["dim"] is not None,
            **model.options,
            work_folder=query.folder / "work",
            system="late",
            is_split=query.is_split,
        )

    return rank
