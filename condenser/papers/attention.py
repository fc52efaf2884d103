"""How widely the first token of a text, [CLS], attends to the others: its entropy, passage by passage.

Source: Condenser, §5 and Figure 2.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from condenser.data.randomness import permutation
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import write_json
from condenser.model.devices import Compute
from condenser.model.encoder import Encoder
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.progress import track
from condenser.retrieve.inference import TextReader, outputs_of

log = logging.getLogger(__name__)

_DECIMALS = 6  # of nats: float32 has no more


def write_attention_entropies(
    encoder_folder: Path,
    token_prefixes: Sequence[Path],
    doc_ids: Sequence[str],
    output: Path,
    *,
    num_passages: int,
    seed: int,
    max_tokens: int,
    batch_tokens: int,
    device: torch.device,
) -> dict[str, int]:
    """Write the entropies of `num_passages` passages drawn by `seed`; gives counts.

    A collection with fewer passages is taken whole, which the log says. A passage is
    `[CLS] title [SEP] text [SEP]`, the model's prompt before the title, of at most `max_tokens` tokens.
    Computed in float32.

    The file holds, in nats: `per_passage`, by doc_id `[entropy of layer 1, ..., of the last]`; `means`, their
    mean over the passages; `uniform`, what uniform attention would give; `pooling` and `normalised`, how the
    model makes the vector of a text.

    Raises:
        ValueError: an entropy is NaN.
    """
    shards, tokenizer = TokenShards(token_prefixes), Tokenizer(encoder_folder)
    retriever = Retriever.load(encoder_folder, dropout=None).to(device).eval()
    if shards.num_rows < num_passages:
        log.info("asked for %d passages, the collection has %d: all are used", num_passages, shards.num_rows)
    rows = np.sort(permutation(seed, "attention passages", 0, shards.num_rows)[:num_passages])
    prompt = tokenizer.encode_prompt(retriever.vector.prompt("passage"), max_tokens=max_tokens)
    reader = TextReader(shards, tokenizer, max_tokens, batch_tokens, prompt)
    names = [doc_ids[row] for row in rows]
    entropies = outputs_of(
        *(
            track(reader.batches(rows), "attention", total=None, unit="batches"),
            Compute(device, "fp32"),
            partial(cls_attention_entropies, retriever.backbone),
        ),
        shape=(len(rows), retriever.backbone.config.num_hidden_layers),
        what=f"{encoder_folder}: expected finite attention",
        name_of_row=lambda place: f"passage {names[place]}",
    ).astype(np.float64)
    lengths = np.minimum(reader.whole_lengths(rows), max_tokens)
    content: dict[str, Any] = {
        "per_passage": {
            name: [round(value, _DECIMALS) for value in of_layers]
            for name, of_layers in zip(names, entropies.tolist(), strict=True)
        },
        "means": [round(value, _DECIMALS) for value in entropies.mean(axis=0).tolist()],
        "uniform": round(math.fsum(map(math.log, lengths.tolist())) / len(rows), _DECIMALS),
        "pooling": retriever.vector.pooling,
        "normalised": retriever.vector.normalised,
    }
    write_json(output, content)
    return {"passages": len(rows), "tokens": int(lengths.sum())}


def cls_attention_entropies(backbone: Encoder, rows: Rows) -> Float[Tensor, "row layer"]:
    """Entropy of the [CLS] row of attention in nats, the mean over the heads of each layer.

    Attention that is uniform over a text of n tokens gives ln n, attention to one token 0. The entropy is
    that of each head, not that of the mean of the heads.
    """
    states, entropies = backbone.embedded(rows), []
    for layer in backbone.layers:
        shares = (torch.softmax(scores, dim=-1) for scores in layer.first_row_scores(states, rows))
        entropies.append(
            torch.cat([torch.special.entr(each).sum(dim=-1).mean(dim=(1, 2)) for each in shares])
        )
        states = layer.at_all(states, rows, recompute=False)
    return torch.stack(entropies, dim=1)
