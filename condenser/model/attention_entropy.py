"""How widely the first token of a text, [CLS], attends to the others in each layer of a BERT.

Source: Condenser, §5 and Figure 2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from condenser.model.attention import by_head
from condenser.model.bert import Bert, Layer
from condenser.model.products import linear
from condenser.model.rows import Rows


@torch.no_grad()
def cls_attention_entropies(backbone: Bert, rows: Rows) -> Float[Tensor, "row layer"]:
    """Entropy of the [CLS] row of attention in nats, the mean over the heads of each layer.

    Attention that is uniform over a text of n tokens gives ln n, attention to one token 0. The entropy is
    that of each head, not that of the mean of the heads.
    """
    states, found = backbone.embeddings(rows), []
    for layer in backbone.layers:
        found.append(_entropy_of_first_row(layer, states, rows))
        states = layer.at_all(states, rows, recompute=False)
    return torch.stack(found, dim=1)


def _entropy_of_first_row(
    layer: Layer, states: Float[Tensor, "token dim"], rows: Rows
) -> Float[Tensor, " row"]:
    module, first, layout = layer.attention.self, rows.first, rows.layout
    queries = first.layout.by_group(linear(states.index_select(0, first.tokens), module.query))
    keys, entropies = layout.by_group(linear(states, module.key)), []
    for asked, over, shown in zip(queries, keys, layout.shown, strict=True):
        asked, over = by_head(asked, module.num_heads), by_head(over, module.num_heads)
        scores = asked @ over.transpose(-1, -2) * asked.shape[-1] ** -0.5
        if shown is not None:
            scores = scores.masked_fill(~shown, -torch.inf)
        shares = torch.softmax(scores, dim=-1)
        entropies.append(torch.special.entr(shares).sum(dim=-1).mean(dim=(1, 2)))
    return torch.cat(entropies)
