"""How widely the first token of a text, [CLS], attends to the others in each layer.

Source: Condenser, §5 and Figure 2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from condenser.model.encoder import Encoder
from condenser.model.rows import Rows


@torch.no_grad()
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
