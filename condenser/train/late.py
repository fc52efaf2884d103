"""Fine-tuning for late interaction: to tell the positives of a query from negatives by MaxSim.

Source: Khattab and Zaharia 2020 (ColBERT), §3.2 and §3.3, without [Q] and [D] markers and [MASK] tokens
behind a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condenser.blocks import FineTuning
from condenser.data.token_choice import TokenChoice, punctuation_ids
from condenser.data.tokens import Tokenizer
from condenser.loss.late import maxsim_loss, maxsim_scores
from condenser.model.projection import new_projection, vector_dim
from condenser.model.retriever import Retriever
from condenser.model.text_vector import assumptions, write_text_vector
from condenser.train.examples import TrainingFiles
from condenser.train.finetune import Vectors, train_retriever
from condenser.train.loop import Run


def train_late(
    files: TrainingFiles,
    initial: Path,
    output: Path,
    run: Run[FineTuning],
    *,
    dim: int | None,
    special_tokens: bool,
    punctuation: bool,
    keep_graphs: bool = True,
) -> dict[str, int]:
    """Fine-tune the encoder of the Hugging Face folder `initial` for MaxSim on examples; gives counts.

    As `condenser.train.finetune.train_retriever` does for a bi-encoder, but for two keys of the recipe:
    queries and passages share one encoder whatever `tied` says, and `scale` is 1 by default, as in ColBERT.
    All products of a batch's query tokens and passage tokens are in memory at once.

    Args:
        dim: of a new projection of the token states; None: there is none.
        special_tokens, punctuation: which tokens count (`condenser.data.token_choice.TokenChoice`).
    """
    vectors = token_vectors(
        initial, dim=dim, special_tokens=special_tokens, punctuation=punctuation, seed=run.seed
    )
    return train_retriever(files, initial, output, run, vectors=vectors, keep_graphs=keep_graphs)


def token_vectors(
    initial: Path, *, dim: int | None, special_tokens: bool, punctuation: bool, seed: int
) -> Vectors:
    """Late interaction: each token that counts has a vector of length 1, and a score is MaxSim.

    The seed draws the projection.
    """
    model, tokenizer = Retriever.load(initial, dropout=None), Tokenizer(initial)
    is_projected, signs = dim is not None, punctuation_ids(tokenizer)
    if dim is not None:
        model.projection = new_projection(model.backbone, dim, seed=seed)
    choices = {
        "queries": TokenChoice(special_tokens, signs[:0], tokenizer.sep_id),
        "passages": TokenChoice(special_tokens, signs[:0] if punctuation else signs, tokenizer.sep_id),
    }

    def loss(counts: Mapping[str, np.ndarray], scale: float) -> Callable[..., Tensor]:
        of_texts = {group: torch.from_numpy(of_group) for group, of_group in counts.items()}

        def of_batch(queries: Tensor, passages: Tensor) -> Tensor:
            given = {group: of_group.to(queries.device) for group, of_group in of_texts.items()}
            return maxsim_loss(
                *(queries, passages),
                query_counts=given["queries"],
                passage_counts=given["passages"],
                scale=scale,
            )

        return of_batch

    def scores(query: Tensor, passages: Tensor, counts: Tensor) -> Tensor:
        number = torch.tensor([len(query)])
        return maxsim_scores(query, passages, query_counts=number, passage_counts=counts)[0]

    def save(folder: Path, origin: Path) -> None:
        model.save(folder, origin)
        if is_projected:
            num_states, assumed = model.backbone.config.hidden_size, assumptions(origin)
            write_text_vector(
                model.vector, folder, dim=num_states, projection=model.projection, assumed=assumed
            )

    return Vectors(
        model=model,
        encoders={"queries": model, "passages": model},
        dim=vector_dim(model.backbone, model.projection if is_projected else None),
        scale=1.0,  # ColBERT
        counted=lambda group, ids, whole, first: choices[group].counted(ids, whole, first=first),
        encode=lambda _, texts: model.token_states(texts.rows, texts.counted, is_projected=is_projected),
        loss=loss,
        scores=scores,
        save=save,
    )
