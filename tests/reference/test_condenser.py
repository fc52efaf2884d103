"""The Condenser against a slow one, written from the paper's equations on transformers' own layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import small_condenser
from torch import Tensor

from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows

LENGTHS = np.array([10, 6, 9])
MASKED = torch.tensor([3, 8, 11, 14, 21, 27])  # flat, into 3 rows of 10
torch.set_num_threads(1)


def input_ids() -> Tensor:
    return torch.randint(5, 40, (3, 10), generator=torch.Generator().manual_seed(0))


def rows() -> Rows:
    return Rows.of(input_ids().numpy(), LENGTHS)


def slow_losses(model: Condenser, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Equations 3-11 with every position computed and Hugging Face's ignore_index."""
    attended = rows().mask
    assert attended is not None
    output = model.backbone(input_ids(), attention_mask=attended.long(), output_hidden_states=True)
    late, early = output.hidden_states[-1], output.hidden_states[model.skip_from]
    states = torch.cat([late[:, :1], early[:, 1:]], dim=1)
    hidden = attended[:, None, None]
    for layer in model.head:
        states = layer(states, hidden)

    def loss(final: Tensor) -> Tensor:
        transformed = model.mlm_head.transform(final)
        logits = transformed @ model.backbone.embeddings.word_embeddings.weight.T + model.mlm_head.bias
        return torch.nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")(
            logits.view(-1, 40), labels.view(-1)
        )

    return loss(states), loss(late), late[:, 0]


@pytest.mark.parametrize("skip_from", [0, 1, 3])
@pytest.mark.parametrize("num_head_layers", [1, 2])
def test_losses_and_every_gradient_are_those_of_the_equations(skip_from: int, num_head_layers: int) -> None:
    model = small_condenser(skip_from=skip_from, num_head_layers=num_head_layers)
    true_ids = torch.randint(5, 40, (len(MASKED),), generator=torch.Generator().manual_seed(9))
    labels = torch.full((30,), -100)
    labels[MASKED] = true_ids

    output = model(rows(), MASKED)
    losses = (
        masked_cross_entropy_sum(output.head_logits, true_ids),
        masked_cross_entropy_sum(output.late_logits, true_ids),
    )
    (losses[0] + 0.7 * losses[1] + output.vector.sum()).backward()
    ours = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)

    expected = slow_losses(model, labels.view(3, 10))
    torch.testing.assert_close(losses, expected[:2], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(output.vector, expected[2], rtol=1e-12, atol=1e-12)
    (expected[0] + 0.7 * expected[1] + expected[2].sum()).backward()
    for name, parameter in model.named_parameters():
        if name.startswith("backbone.pooler."):
            assert ours[name] is None
            continue
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-10, atol=1e-11, msg=name)


def test_head_reaches_the_last_layer_through_cls_alone() -> None:
    model = small_condenser()
    final: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> None:
        output.retain_grad()
        final.append(output)

    # the slow way keeps the last layer's states whole, so that the gradient of each can be seen
    model.backbone.encoder.layer[-1].register_forward_hook(keep)
    labels = torch.full((30,), -100)
    labels[MASKED] = 7
    head_loss, _, _ = slow_losses(model, labels.view(3, 10))
    head_loss.backward()
    gradient = final[0].grad
    assert gradient is not None
    assert (gradient[:, 1:] == 0).all()
    assert (gradient[:, 0].abs().sum(dim=1) > 1e-6).all()


def test_head_loss_alone_has_the_gradient_of_the_slow_way_in_late_layers() -> None:
    """Ours never builds the last layer's other states; what reaches the layers below must agree."""
    model = small_condenser(use_late_mlm=False)
    output = model(rows(), MASKED)
    assert output.late_logits is None
    labels = torch.full((30,), -100)
    labels[MASKED] = 7
    masked_cross_entropy_sum(output.head_logits, labels[MASKED]).backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    slow_losses(model, labels.view(3, 10))[0].backward()
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, model.get_parameter(name).grad, rtol=1e-10, atol=1e-11, msg=name)


def test_early_layers_learn_from_the_head_even_when_the_late_ones_are_cut_off() -> None:
    """The skip connection carries the head's gradient around the late layers."""
    model = small_condenser(skip_from=2)
    layers = model.backbone.encoder.layer
    layers[2].output.register_forward_hook(lambda _module, _inputs, output: output.detach())
    output = model(rows(), MASKED)
    masked_cross_entropy_sum(output.head_logits, torch.full_like(MASKED, 7)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for n in (0, 1) for p in layers[n].parameters())
    assert all(p.grad is None for p in layers[2].parameters())


def test_another_batch_item_changes_no_row() -> None:
    """A layer's output taken as layer_out[0] would be the first row for everyone."""
    model = small_condenser().eval()
    ids = input_ids().numpy()
    together = model(rows(), MASKED)
    for row in range(3):
        inside = torch.eq(MASKED // 10, row)
        single = model(Rows.of(ids[row : row + 1], LENGTHS[row : row + 1]), MASKED[inside] - 10 * row)
        torch.testing.assert_close(single.vector[0], together.vector[row])
        torch.testing.assert_close(single.head_logits, together.head_logits[inside])
        torch.testing.assert_close(single.late_logits, together.late_logits[inside])


def test_padding_changes_nothing() -> None:
    model = small_condenser().eval()
    ids = input_ids()[1:2].numpy()
    padded = model(Rows.of(ids, LENGTHS[1:2]), torch.tensor([2, 4]))
    exact = model(Rows.of(ids[:, :6], LENGTHS[1:2]), torch.tensor([2, 4]))
    torch.testing.assert_close(padded.head_logits, exact.head_logits)
    torch.testing.assert_close(padded.vector, exact.vector)


def test_decoder_is_the_embedding_matrix_and_gets_both_gradients() -> None:
    model = small_condenser()
    matrices = [p for p in model.parameters() if p.shape == (40, 12)]
    assert len(matrices) == 1 and matrices[0] is model.backbone.embeddings.word_embeddings.weight
    unseen = sorted(set(range(5, 40)) - set(input_ids().flatten().tolist()))[0]
    output = model(rows(), MASKED)
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
    with_logits = model(rows(), MASKED).vector
    torch.manual_seed(12)
    assert not torch.allclose(model.represent(rows()), alone)
    assert torch.equal(alone, with_logits)


def test_a_batch_without_masked_words_has_a_loss_of_zero() -> None:
    model = small_condenser()
    none = torch.zeros(0, dtype=torch.int64)
    output = model(Rows(input_ids(), None), none)
    assert output.head_logits.shape == (0, 40)
    assert output.late_logits is not None and output.late_logits.shape == (0, 40)
    assert masked_cross_entropy_sum(output.head_logits, none).item() == 0.0
