from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

import pytest
import torch
from small_models import chosen, small_condenser
from torch import Tensor, nn

from condenser.loss.contrastive import span_contrastive_loss
from condenser.loss.mlm import masked_cross_entropy_sum
from condenser.model.operations import weights_unchanged
from condenser.model.pretraining import Condenser
from condenser.model.rows import Chosen, Rows
from condenser.model.text_vector import TextVector
from condenser.train.chunks import Chunk
from condenser.train.distributed import alone
from condenser.train.gradient_cache import batch_backward
from condenser.train.memory import StepMemory

torch.set_num_threads(1)
NUM_SPANS, WIDTH, NUM_MASKED = 8, 10, 16


def span_batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids, lengths, two masked columns of each row, labels."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 40, (NUM_SPANS, WIDTH), generator=generator)
    lengths = torch.randint(5, WIDTH + 1, (NUM_SPANS,), generator=generator)
    columns = torch.tensor([[1, 3]] * NUM_SPANS)
    return ids, lengths, columns, ids[:, 4:6]


def in_rows(ids: Tensor, lengths: Tensor) -> Rows:
    return Rows.of(ids.numpy(), lengths.numpy())


def masked(rows: Rows, columns: Tensor) -> Chosen:
    return chosen(rows, (columns + WIDTH * torch.arange(len(columns))[:, None]).flatten(), width=WIDTH)


def span_chunks(rows_per_chunk: int, *, seed: int = 100) -> list[Chunk[Tensor]]:
    """Rows in another order than the batch's, as chunks of like length come."""
    order = torch.tensor([5, 0, 7, 2, 1, 6, 3, 4])
    return [
        Chunk("spans", rows, rows, seed + number) for number, rows in enumerate(order.split(rows_per_chunk))
    ]


def cocondenser_gradient(
    model: Condenser,
    chunks: list[Chunk[Tensor]],
    *,
    keep_graphs: bool,
    scale: float = 1.0,
    precision: torch.dtype | None = None,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    ids, lengths, columns, labels = span_batch()

    def context():
        return nullcontext() if precision is None else torch.autocast("cpu", dtype=precision)

    def encode(chunk: Chunk[Tensor]) -> Tensor:
        with context():
            return model.represent(in_rows(ids[chunk.rows], lengths[chunk.rows]))

    def encode_with_losses(chunk: Chunk[Tensor]) -> tuple[Tensor, Mapping[str, Tensor]]:
        rows = chunk.rows
        texts = in_rows(ids[rows], lengths[rows])
        with context():
            output = model(texts, masked(texts, columns[rows]))
        own_labels = labels[rows].flatten()
        assert output.late_logits is not None
        return output.vector, {
            "head": masked_cross_entropy_sum(output.head_logits, own_labels) / NUM_MASKED,
            "late": masked_cross_entropy_sum(output.late_logits, own_labels) / NUM_MASKED,
        }

    model.zero_grad(set_to_none=True)
    losses = batch_backward(
        chunks,
        encode,
        span_contrastive_loss,
        num_rows={"spans": NUM_SPANS},
        width=12,
        encode_with_losses=encode_with_losses,
        loss_names=["head", "late"],
        keep_graphs=keep_graphs,
        memory=StepMemory(model, keeps_graphs=keep_graphs),
        processes=alone(torch.device("cpu")),
        scale=scale,
    )
    return losses, gradients(model)


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def plain_gradient(model: Condenser) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The whole batch at once, by one call of backward."""
    ids, lengths, columns, labels = span_batch()
    texts = in_rows(ids, lengths)
    output = model(texts, masked(texts, columns))
    assert output.late_logits is not None
    losses = {
        "batch": span_contrastive_loss(output.vector),
        "head": nn.functional.cross_entropy(output.head_logits[:NUM_MASKED], labels.flatten()),
        "late": nn.functional.cross_entropy(output.late_logits[:NUM_MASKED], labels.flatten()),
    }
    model.zero_grad(set_to_none=True)
    torch.stack(list(losses.values())).sum().backward()
    return {name: value.item() for name, value in losses.items()}, gradients(model)


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], *, relative: float) -> None:
    assert ours.keys() == theirs.keys()
    scale = max(gradient.abs().max().item() for gradient in theirs.values())
    assert scale > 1e-3
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, theirs[name], rtol=relative, atol=relative * scale, msg=name)


COSINES = TextVector("mean", normalised=True)


@pytest.mark.parametrize(
    ("rows_per_chunk", "keep_graphs", "vector"),
    [
        *((1, True, COSINES), (2, False, TextVector()), (3, True, TextVector()), (3, False, COSINES)),
        *((NUM_SPANS, False, TextVector()), (NUM_SPANS, True, COSINES)),
    ],
    ids=str,
)
def test_without_dropout_the_gradient_is_the_plain_one(
    rows_per_chunk: int, keep_graphs: bool, vector: TextVector
) -> None:
    model = small_condenser(vector=vector)
    losses, ours = cocondenser_gradient(model, span_chunks(rows_per_chunk), keep_graphs=keep_graphs)
    expected_losses, expected = plain_gradient(model)
    assert losses == pytest.approx(expected_losses, rel=1e-12)
    assert_same(ours, expected, relative=1e-10)
    assert not any(name.startswith("backbone.pooler.") for name in ours)


@pytest.mark.parametrize(
    ("rows_per_chunk", "skip_from", "vector", "dtype", "relative"),
    [
        pytest.param(1, 2, COSINES, torch.float64, 1e-12, marks=pytest.mark.ci),
        (3, 2, TextVector(), torch.float64, 1e-12),
        pytest.param(3, 4, COSINES, torch.float32, 1e-5, marks=pytest.mark.ci),
        (NUM_SPANS, 2, TextVector(), torch.float32, 1e-5),
    ],
    ids=str,
)
def test_with_dropout_recomputed_chunks_give_the_gradient_of_kept_ones(
    rows_per_chunk: int, skip_from: int, dtype: torch.dtype, relative: float, vector: TextVector
) -> None:
    model = small_condenser(skip_from=skip_from, dropout=0.1, vector=vector).to(dtype).train()
    chunks = span_chunks(rows_per_chunk)
    cached_losses, cached = cocondenser_gradient(model, chunks, keep_graphs=False)
    kept_losses, kept = cocondenser_gradient(model, chunks, keep_graphs=True)
    assert cached_losses == pytest.approx(kept_losses, rel=relative)
    assert_same(cached, kept, relative=relative)
    # the masks are those of the seeds: others give another gradient
    _, other = cocondenser_gradient(model, span_chunks(rows_per_chunk, seed=900), keep_graphs=False)
    name = "backbone.embeddings.word_embeddings.weight"
    assert (other[name] - cached[name]).abs().max() > 1e-4


def test_with_dropout_kept_graphs_are_those_of_one_backward_call() -> None:
    """The plain way with the same chunks: each seeded, all kept, one loss, one backward."""
    model = small_condenser(dropout=0.1).train()
    chunks = span_chunks(3)
    _, ours = cocondenser_gradient(model, chunks, keep_graphs=False)

    ids, lengths, columns, labels = span_batch()
    spans = torch.zeros(NUM_SPANS, 12, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for chunk in chunks:
        torch.manual_seed(chunk.seed)
        texts = in_rows(ids[chunk.rows], lengths[chunk.rows])
        output = model(texts, masked(texts, columns[chunk.rows]))
        spans = spans.index_copy(0, chunk.rows, output.vector)
        for logits in (output.head_logits, output.late_logits):
            total = total + masked_cross_entropy_sum(logits, labels[chunk.rows].flatten()) / NUM_MASKED
    model.zero_grad(set_to_none=True)
    (total + span_contrastive_loss(spans)).backward()
    assert_same(ours, gradients(model), relative=1e-12)


def test_under_autocast_recomputed_chunks_still_train_every_weight() -> None:
    """Weights that are converted in the first pass, which has no graph, are used again in the second."""
    model = small_condenser(dropout=0.1).float().train()
    with weights_unchanged():
        _, cached = cocondenser_gradient(model, span_chunks(3), keep_graphs=False, precision=torch.bfloat16)
    _, kept = cocondenser_gradient(model, span_chunks(3), keep_graphs=True, precision=torch.bfloat16)
    assert_same(cached, kept, relative=1e-5)


def test_a_loss_scale_multiplies_gradients_but_not_the_returned_losses() -> None:
    model = small_condenser()
    losses, plain = cocondenser_gradient(model, span_chunks(3), keep_graphs=False)
    scaled_losses, scaled = cocondenser_gradient(model, span_chunks(3), keep_graphs=False, scale=1024.0)
    assert scaled_losses == losses
    assert_same({name: value / 1024 for name, value in scaled.items()}, plain, relative=1e-12)


def test_a_row_left_out_is_noticed() -> None:
    with pytest.raises(AssertionError, match="never or twice"):
        cocondenser_gradient(small_condenser(), span_chunks(3)[:-1], keep_graphs=False)


def test_if_memory_is_full_in_the_backward_pass_all_chunks_are_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, calls, backward = small_condenser(dropout=0.1).train(), list[None](), torch.autograd.backward
    _, expected = cocondenser_gradient(model, span_chunks(3), keep_graphs=True)

    def full_once(*given: object) -> None:
        calls.append(None)
        if len(calls) == 2:
            raise torch.OutOfMemoryError("full")
        backward(*given)

    monkeypatch.setattr(torch.autograd, "backward", full_once)
    _, found = cocondenser_gradient(model, span_chunks(3), keep_graphs=True)
    assert_same(found, expected, relative=1e-12)
    assert len(calls) == 2 + 3
