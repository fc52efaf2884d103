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


def test_head_reaches_the_last_layer_through_cls_alone() -> None:
    slow = Slow(small_condenser())
    final: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> None:
        output.retain_grad()
        final.append(output)

    # the slow way keeps the last layer's states whole, so that the gradient of each can be seen
    slow.backbone.encoder.layer[-1].register_forward_hook(keep)
    labels = torch.full((30,), -100)
    labels[MASKED] = 7
    head_loss, _, _ = slow(labels.view(3, 10))
    head_loss.backward()
    gradient = final[0].grad
    assert gradient is not None
    assert (gradient[:, 1:] == 0).all()
    assert (gradient[:, 0].abs().sum(dim=1) > 1e-6).all()


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


def test_early_layers_learn_from_the_head_even_when_the_late_ones_are_cut_off() -> None:
    """The skip connection carries the head's gradient around the late layers."""
    model = small_condenser(skip_from=2)
    layers = model.backbone.layers
    layers[2].output.register_forward_hook(lambda _module, _inputs, output: output.detach())
    output = model(rows(), masked(rows()))
    masked_cross_entropy_sum(output.head_logits, torch.full_like(MASKED, 7)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n in (0, 1) for p in layers[n].parameters())
    assert all(p.grad is None for p in layers[2].parameters())


def test_another_batch_item_changes_no_row() -> None:
    """A layer's output taken as layer_out[0] would be the first row for everyone."""
    model = small_condenser().eval()
    ids = input_ids().numpy()
    together = model(rows(), masked(rows()))
    for row in range(3):
        inside = torch.eq(MASKED // 10, row)
        alone = Rows.of(ids[row : row + 1], LENGTHS[row : row + 1])
        single = model(alone, chosen(alone, MASKED[inside] - 10 * row, width=10))
        torch.testing.assert_close(single.vector[0], together.vector[row])
        count = int(inside.sum())
        for logits in ("head_logits", "late_logits"):
            ours, of_all = (getattr(output, logits) for output in (single, together))
            torch.testing.assert_close(ours[:count], of_all[: len(MASKED)][inside])


def test_padding_changes_nothing() -> None:
    model = small_condenser().eval()
    ids = input_ids()[1:2].numpy()
    found = []
    for width in (10, 6):
        of_width = Rows.of(ids[:, :width], LENGTHS[1:2])
        found.append(model(of_width, chosen(of_width, torch.tensor([2, 4]), width=width)))
    torch.testing.assert_close(found[0].head_logits[:2], found[1].head_logits[:2])
    torch.testing.assert_close(found[0].vector, found[1].vector)


def test_decoder_is_the_embedding_matrix_and_gets_both_gradients() -> None:
    model = small_condenser()
    matrices = [p for p in model.parameters() if p.shape == (40, 12)]
    assert len(matrices) == 1 and matrices[0] is model.backbone.embeddings.word_embeddings.weight
    unseen = sorted(set(range(5, 40)) - set(input_ids().flatten().tolist()))[0]
    output = model(rows(), masked(rows()))
    masked_cross_entropy_sum(output.head_logits, torch.full_like(MASKED, unseen)).backward()
    gradient = matrices[0].grad
    assert gradient is not None
    # no input has this word, so its row can only move as part of the decoder
    assert gradient[unseen].abs().sum() > 0


def test_represent_draws_the_dropout_that_forward_draws() -> None:
    model = small_condenser(dropout=0.3).train()
    torch.manual_seed(11)
    alone = model.represent(rows())
    torch.manual_seed(11)
    with_logits = model(rows(), masked(rows())).vector
    torch.manual_seed(12)
    assert not torch.allclose(model.represent(rows()), alone)
    assert torch.equal(alone, with_logits)


def test_a_batch_without_masked_words_has_a_loss_of_zero() -> None:
    model = small_condenser()
    none = torch.zeros(0, dtype=torch.int64)
    whole = full_rows(input_ids())
    output = model(whole, chosen(whole, none, width=10))
    assert output.head_logits.shape == (0, 40)
    assert output.late_logits is not None and output.late_logits.shape == (0, 40)
    assert masked_cross_entropy_sum(output.head_logits, none).item() == 0.0
