"""Fine-tuning for late interaction: to tell the positives of a query from negatives by MaxSim.

Source: Khattab and Zaharia 2020 (ColBERT), §3.2 and §3.3, without [Q] and [D] markers and [MASK] tokens
behind a query. For equal tokens (COIL) and first states (ME-BERT) see `condenser.retrieve.late`, whose score
is learnt here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from condenser.data.token_choice import ChosenTokens, token_choices
from condenser.data.tokens import Tokenizer
from condenser.loss.late import maxsim_loss, maxsim_scores
from condenser.model.projection import new_projection, vector_dim
from condenser.model.retriever import Retriever
from condenser.model.text_vector import assumed_notes, write_text_vector
from condenser.train.vectors import Vectors


def token_vectors(
    initial: Path,
    *,
    dim: int | None,
    special_tokens: bool,
    punctuation: bool,
    match: str,
    first_states: int | None,
    seed: int,
) -> Vectors:
    """Late interaction: each token that counts has a vector, and a score is MaxSim of those that meet.

    Queries and passages share one encoder, and the scale is 1, as in ColBERT, COIL and ME-BERT. All products
    of a batch's query tokens and passage tokens are in memory at once. With `match: all` vectors have length
    1; those of the others keep theirs.

    Args:
        dim: of a new projection of the token states, drawn by `seed`; None: there is none.
        special_tokens, punctuation, match, first_states: which tokens count, and which of them meet
            (`condenser.data.token_choice.token_choices`).
    """
    model, tokenizer = Retriever.load(initial, dropout=None), Tokenizer(initial)
    is_projected = dim is not None
    if dim is not None:
        model.projection = new_projection(model.backbone, dim, seed=seed)
    choices = token_choices(
        tokenizer,
        special_tokens=special_tokens,
        punctuation=punctuation,
        match=match,
        first_states=first_states,
    )
    choice_of = {"queries": choices["query"], "passages": choices["passage"]}

    def meeting(queries: ChosenTokens, passages: ChosenTokens, device: torch.device) -> dict[str, Any]:
        """What `maxsim_scores` needs besides the vectors."""
        query_ids, passage_ids = (torch.from_numpy(texts.ids).to(device) for texts in (queries, passages))
        return {
            "query_counts": torch.from_numpy(queries.counts).to(device),
            "passage_counts": torch.from_numpy(passages.counts).to(device),
            "meets": passage_ids[:, None] == query_ids if match == "exact" else None,
        }

    def loss(tokens: Mapping[str, ChosenTokens], scale: float) -> Callable[..., Tensor]:
        def of_batch(queries: Tensor, passages: Tensor) -> Tensor:
            given = meeting(tokens["queries"], tokens["passages"], queries.device)
            return maxsim_loss(queries, passages, **given, scale=scale)

        return of_batch

    def scores(query: Tensor, passages: Tensor, asked: ChosenTokens, found: ChosenTokens) -> Tensor:
        return maxsim_scores(query, passages, **meeting(asked, found, query.device))[0]

    def save(folder: Path, origin: Path) -> None:
        model.save(folder, origin)
        if is_projected:
            num_states, assumed = model.backbone.config.hidden_size, assumed_notes(origin)
            write_text_vector(
                model.vector, folder, dim=num_states, projection=model.projection, assumed=assumed
            )

    return Vectors(
        model=model,
        encoders={"queries": model, "passages": model},
        dim=vector_dim(model.backbone, model.projection if is_projected else None),
        scale=1.0,  # ColBERT, COIL and ME-BERT
        counted=lambda group, ids, whole, first: choice_of[group].counted(ids, whole, first=first),
        encode=lambda _, texts: model.token_states(
            texts.rows, texts.counted, is_projected=is_projected, is_normalised=match == "all"
        ),
        loss=loss,
        scores=scores,
        save=save,
    )
