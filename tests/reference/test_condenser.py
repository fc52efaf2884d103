"""The Condenser against a slow one, written from the paper's equations on transformers' own layers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from small_models import chosen, full_rows, padded, small_condenser, transformers_bert, transformers_layer
from torch import Tensor, nn
from torch.nn.functional import gelu

from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.pretraining import Condenser
from condenser.model.rows import Chosen, Rows

LENGTHS = np.array([10, 6, 9])
MASKED = torch.tensor([3, 8, 11, 14, 21, 27])  # flat, into 3 rows of 10
torch.set_num_threads(1)


def input_ids() -> Tensor:
    return torch.randint(5, 40, (3, 10), generator=torch.Generator().manual_seed(0))


def rows() -> Rows:
    return Rows.of(input_ids().numpy(), LENGTHS)


def masked(of: Rows) -> Chosen:
    return chosen(of, MASKED, width=10)


class Slow(nn.Module):
    """The same weights in transformers' modules; equations 3-11 with every position computed."""

    def __init__(self, ours: Condenser) -> None:
        super().__init__()
        self.backbone = transformers_bert(ours.backbone)
        self.head = nn.ModuleList(transformers_layer(layer, ours.backbone.config) for layer in ours.head)
        self.mlm_head = copy.deepcopy(ours.mlm_head)
        self.skip_from = ours.skip_from

    def forward(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both losses, by Hugging Face's ignore_index, and the late [CLS]."""
        _, mask = padded(rows())
        output = self.backbone(input_ids(), attention_mask=mask.long(), output_hidden_states=True)
        late, early = output.hidden_states[-1], output.hidden_states[self.skip_from]
        states = torch.cat([late[:, :1], early[:, 1:]], dim=1)
        hidden = torch.zeros(mask.shape).double().masked_fill(~mask, -torch.inf)[:, None, None]
        for layer in self.head:
            states = layer(states, hidden)

        def loss(final: Tensor) -> Tensor:
            transform = self.mlm_head.transform
            transformed = transform.LayerNorm(gelu(transform.dense(final)))
            logits = transformed @ self.backbone.embeddings.word_embeddings.weight.T + self.mlm_head.bias
            return nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")(
                logits.view(-1, 40), labels.view(-1)
            )

        return loss(states), loss(late), late[:, 0]


@pytest.mark.parametrize("skip_from", [0, 1, 3, 4])
@pytest.mark.parametrize("num_head_layers", [1, 2])
def test_losses_and_every_gradient_are_those_of_the_equations(skip_from: int, num_head_layers: int) -> None:
    model = small_condenser(skip_from=skip_from, num_head_layers=num_head_layers)
    true_ids = torch.randint(5, 40, (len(MASKED),), generator=torch.Generator().manual_seed(9))
    labels = torch.full((30,), -100)
    labels[MASKED] = true_ids

    output = model(rows(), masked(rows()))
    losses = (
        masked_cross_entropy_sum(output.head_logits, true_ids),
        masked_cross_entropy_sum(output.late_logits, true_ids),
    )
    (losses[0] + 0.7 * losses[1] + output.vector.sum()).backward()

    slow = Slow(model)
    expected = slow(labels.view(3, 10))
    torch.testing.assert_close(losses, expected[:2], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.vector, expected[2], rtol=1e-12, atol=1e-12)
    (expected[0] + 0.7 * expected[1] + expected[2].sum()).backward()
    for name, parameter in model.named_parameters():
        if name.startswith("backbone.pooler."):
            assert parameter.grad is None
            continue
        theirs = slow.get_parameter(name).grad
        torch.testing.assert_close(parameter.grad, theirs, rtol=1e-10, atol=1e-11, msg=name)


def test_head_loss_alone_has_the_gradient_of_the_slow_way_in_late_layers() -> None:
    """Ours never builds the last layer's other states; what reaches the layers below must agree."""
    model = small_condenser(use_late_mlm=False)
    output = model(rows(), masked(rows()))
    assert output.late_logits is None
    labels = torch.full((30,), -100)
    labels[MASKED] = 7
    masked_cross_entropy_sum(output.head_logits, labels[MASKED]).backward()
    slow = Slow(model)
    slow(labels.view(3, 10))[0].backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            theirs = slow.get_parameter(name).grad
            torch.testing.assert_close(parameter.grad, theirs, rtol=1e-10, atol=1e-11, msg=name)


def test_a_batch_without_masked_words_has_a_loss_of_zero() -> None:
    model = small_condenser()
    none = torch.zeros(0, dtype=torch.int64)
    whole = full_rows(input_ids())
    output = model(whole, chosen(whole, none, width=10))
    assert output.head_logits.shape == (0, 40)
    assert output.late_logits is not None and output.late_logits.shape == (0, 40)
    assert masked_cross_entropy_sum(output.head_logits, none).item() == 0.0
