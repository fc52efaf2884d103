"""How widely the first token of a text, [CLS], attends to the others in each layer of a BERT.

Source: Condenser, §5 and Figure 2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import BertModel
from transformers.models.bert.modeling_bert import BertLayer

from condenser.model.layers import by_head, embed, full_layer
from condenser.model.rows import Rows


@torch.no_grad()
def cls_attention_entropies(backbone: BertModel, rows: Rows) -> Float[Tensor, "row layer"]:
    """Entropy of the [CLS] row of attention in nats, the mean over the heads of each layer.

    Attention that is uniform over a text of n tokens gives ln n, attention to one token 0. The entropy is
    that of each head, not that of the mean of the heads.
    """
    states, found = embed(backbone.embeddings, rows), []
    for layer in backbone.encoder.layer:
        found.append(_entropy_of_first_row(layer, states, rows))
        states = full_layer(layer, states, rows, recompute=False)
    return torch.stack(found, dim=1)


def _entropy_of_first_row(
    layer: BertLayer, states: Float[Tensor, "token dim"], rows: Rows
) -> Float[Tensor, " row"]:
    module = layer.attention.self
    queries = by_head(layer, module.query(states.index_select(0, rows.first_tokens))[:, None])
    keys = by_head(layer, rows.laid_out(module.key(states)))
    scores = (queries * module.scaling) @ keys.transpose(-1, -2)
    if rows.attended is not None:
        scores = scores.masked_fill(~rows.attended, -torch.inf)
    shares = torch.softmax(scores, dim=-1)
    return torch.special.entr(shares).sum(dim=-1).mean(dim=(1, 2))
