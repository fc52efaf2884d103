"""Two steps of each training against a plain loop written from the papers' equations.

The plain loops know nothing of chunks, gradient caches, partial layers or processes: transformers'
own model on the whole padded batch, PyTorch's own losses, clipping and AdamW. Dropout is off. Both
add float32 numbers in different orders, hence the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_trainings import (
    CONDENSER,
    OPTIMISER,
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    Files,
    prepare,
    sharpen,
    text_of,
    train,
    training,
)
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, BertModel, get_linear_schedule_with_warmup
from transformers.models.bert.modeling_bert import BertLayer

from condenser.data.batches import negative_window, step_items
from condenser.data.masking import mask_tokens
from condenser.data.records import read_examples
from condenser.data.spans import sample_spans, span_documents
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.model.pretraining import Condenser

SEED, NUM_STEPS = 42, 2
# one epoch of two steps, without warm-up: rates 1 and 1/2 of the full one
STEADY = {"warmup_ratio": 0.0, "epochs": 1, "seed": SEED}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("steps"), dropout=0.0)
    sharpen(files.backbone)
    return files


class _Plain(nn.Module):
    """BERT, the Condenser's head layer and the masked language head, in full at every position."""

    def __init__(self, files: Files) -> None:
        super().__init__()
        self.bert = BertModel.from_pretrained(files.backbone, attn_implementation="eager")
        self.bert.pooler.requires_grad_(False)
        self.layer = BertLayer(self.bert.config)
        # weights alone come from our own loader: what they compute is written below
        ours = Condenser.load(
            files.backbone,
            num_head_layers=1,
            skip_from=1,
            use_late_mlm=True,
            missing_head="random",
            seed=SEED,
            dropout=None,
        )
        self.layer.load_state_dict(ours.head[0].state_dict())
        self.mlm_head = ours.mlm_head
        self.train()

    def forward(self, ids: Tensor, is_token: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of head and last layer at every position, and the late [CLS]."""
        states = self.bert(ids, attention_mask=is_token.long(), output_hidden_states=True).hidden_states
        late, early = states[-1], states[CONDENSER["skip_from"]]
        mixed = torch.cat([late[:, :1], early[:, 1:]], dim=1)  # Condenser, eq. 8
        hidden = torch.where(is_token, 0.0, torch.finfo(torch.float32).min)[:, None, None, :]
        words = self.bert.embeddings.word_embeddings.weight

        def logits(inputs: Tensor) -> Tensor:
            transform = self.mlm_head.transform
            transformed = transform.LayerNorm(functional.gelu(transform.dense(inputs)))
            return transformed @ words.T + self.mlm_head.bias

        return logits(self.layer(mixed, hidden)), logits(late), late[:, 0]


def _optimise(model: nn.Module, loss_of_step) -> None:
    decayed, spared = [], []
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            (spared if "LayerNorm" in name or name.endswith("bias") else decayed).append(weight)
    groups = [
        {"params": decayed, "weight_decay": OPTIMISER["weight_decay"]},
        {"params": spared, "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=OPTIMISER["learning_rate"])
    schedule = get_linear_schedule_with_warmup(optimiser, 0, NUM_STEPS)
    for step in range(NUM_STEPS):
        optimiser.zero_grad()
        loss_of_step(step).backward()
        nn.utils.clip_grad_norm_(model.parameters(), OPTIMISER["max_grad_norm"])
        optimiser.step()
        schedule.step()


def _items(num_items: int, batch_size: int, step: int, stream: str):
    return step_items(num_items, batch_size=batch_size, step=step, seed=SEED, stream=stream)


def _masked(shards, tokenizer, starts, lengths, positions, epoch) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, tokens-not-padding, labels (-100 where nothing is masked) of a whole batch, padded to 48."""
    ids = np.full((len(starts), 48), tokenizer.pad_id)
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        text = shards.read(np.array([start]), np.array([length]), width=int(length), fill=0)[0]
        ids[row, : length + 2] = [tokenizer.cls_id, *text, tokenizer.sep_id]
    masked = mask_tokens(
        ids,
        is_continuation=tokenizer.is_continuation,
        random_ids=tokenizer.random_ids,
        mask_id=tokenizer.mask_id,
        probability=0.15,
        max_predictions=48,
        positions=positions,
        seed=SEED,
        epoch=epoch,
    )
    labels = np.full(ids.size, -100)
    labels[masked.masked_positions] = masked.labels
    is_token = np.arange(48) < (lengths + 2)[:, None]
    return torch.tensor(masked.input_ids), torch.tensor(is_token), torch.tensor(labels)


# The same number added to all scores of a softmax changes nothing. So the gradient of a key bias is zero
# but for rounding, which AdamW makes as large as any other step. In a passage encoder of its own, so is
# that of the last bias: it adds the same number to a query's scores of all passages.
_KEY_BIAS, _LAST_BIAS = "attention.self.key.bias", "encoder.layer.2.output.LayerNorm.bias"
TOLERANCE = 1e-4  # by rounding, of a single weight whose gradient is nearly zero: up to 3.5e-5


def _assert_close(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], *, without: tuple[str, ...] = (_KEY_BIAS,)
) -> None:
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if not name.endswith(without):
            torch.testing.assert_close(
                weight, theirs[name], rtol=1e-3, atol=TOLERANCE, msg=lambda text, name=name: f"{name}: {text}"
            )


def _assert_same(plain: _Plain, output: Path, before: dict[str, Tensor]) -> None:
    trained = load_file(output / "model.safetensors")
    heads = load_file(output / "condenser_head.safetensors"), load_file(output / "mlm_head.safetensors")
    for ours, theirs in (
        (trained, plain.bert.state_dict()),
        ({name.removeprefix("0."): weight for name, weight in heads[0].items()}, plain.layer.state_dict()),
        (heads[1], plain.mlm_head.state_dict()),
    ):
        _assert_close(ours, theirs)
    moved = trained["encoder.layer.0.output.dense.weight"] - before["encoder.layer.0.output.dense.weight"]
    assert moved.abs().max() > 10 * TOLERANCE  # the comparison would see a step that was not taken


def _cocondenser_losses(
    files: Files, plain: _Plain, *, with_contrast: bool = True
) -> tuple[int, Callable[[int], Tensor]]:
    """Batch size, and the loss of each of `NUM_STEPS` steps. Source: coCondenser, eq. 6 and 7."""
    shards, tokenizer = TokenShards(files.tokens), Tokenizer(files.backbone)
    documents = span_documents(shards, min_tokens=4)
    batch_size = -(-len(documents) // NUM_STEPS)

    def loss_of_step(step: int) -> Tensor:
        epoch, _, items = _items(len(documents), batch_size, step, "cocondenser")
        starts, lengths = sample_spans(
            shards,
            documents,
            items,
            is_continuation=tokenizer.is_continuation,
            min_tokens=4,
            lengths=[10, 20],
            short_probability=0.1,
            seed=SEED,
            epoch=epoch,
        )
        positions = np.array([2 * item + which for item in items for which in (0, 1)])
        ids, is_token, labels = _masked(shards, tokenizer, starts, lengths, positions, epoch)
        head, late, spans = plain(ids, is_token)
        vocab = head.shape[-1]
        mlm = functional.cross_entropy(head.view(-1, vocab), labels) + functional.cross_entropy(
            late.view(-1, vocab), labels
        )
        if not with_contrast:
            return mlm
        contrastive = torch.zeros(())
        for i in range(len(spans)):
            twin = i + 1 if i % 2 == 0 else i - 1
            others = torch.stack([spans[i] @ spans[k] for k in range(len(spans)) if k != i])
            contrastive = contrastive - (spans[i] @ spans[twin] - others.logsumexp(0))
        return mlm + contrastive / len(spans)

    return batch_size, loss_of_step


@pytest.mark.parametrize("gradient_cache", ["always", pytest.param("never", marks=pytest.mark.ci)])
def test_cocondenser_steps_are_those_of_the_equations(
    files: Files, tmp_path: Path, gradient_cache: str
) -> None:
    plain = _Plain(files)
    batch_size, loss_of_step = _cocondenser_losses(files, plain)
    _optimise(plain, loss_of_step)
    settings = {"gradient_cache": gradient_cache, "rows_per_chunk": 16}
    train("cocondenser", files, tmp_path / "out", batch_size=batch_size, **settings, **STEADY)
    _assert_same(plain, tmp_path / "out", load_file(files.backbone / "model.safetensors"))


def _plain_retriever(files: Files) -> BertModel:
    model = BertModel.from_pretrained(files.backbone, attn_implementation="eager").train()
    model.pooler.requires_grad_(False)
    return model


def _retriever_losses(
    files: Files, *, query_model: BertModel, passage_model: BertModel
) -> tuple[int, Callable[[int], Tensor]]:
    """Batch size, and the loss of each of `NUM_STEPS` steps over the texts."""
    examples = list(read_examples(files.examples))
    passages = {passage.doc_id: text_of(passage) for passage in files.passages}
    queries = {query.query_id: query.text for query in files.queries}
    tokenizer = AutoTokenizer.from_pretrained(files.backbone)
    batch_size, group = -(-len(examples) // NUM_STEPS), 3

    def encode(model: BertModel, texts: list[str], max_length: int) -> Tensor:
        inputs = tokenizer(texts, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
        return model(**inputs).last_hidden_state[:, 0]

    def loss_of_step(step: int) -> Tensor:
        epoch, _, items = _items(len(examples), batch_size, step, "retriever")
        texts = []
        for item in items.tolist():
            example = examples[item]
            positives, negatives = example.positive_doc_ids, example.negative_doc_ids
            texts.append(passages[positives[(item + SEED + epoch) % len(positives)]])
            window = negative_window(len(negatives), group - 1, seed=SEED, item=item, epoch=epoch)
            texts += [passages[negatives[index]] for index in window]
        asked = encode(query_model, [queries[examples[item].query_id] for item in items], QUERY_LENGTH)
        scores = asked @ encode(passage_model, texts, PASSAGE_LENGTH).T
        return functional.cross_entropy(scores, torch.arange(len(items)) * group)

    return batch_size, loss_of_step


def test_retriever_steps_are_those_of_a_plain_loop_over_the_texts(files: Files, tmp_path: Path) -> None:
    model = _plain_retriever(files)
    batch_size, loss_of_step = _retriever_losses(files, query_model=model, passage_model=model)
    _optimise(model, loss_of_step)
    train("retriever", files, tmp_path / "out", batch_size=batch_size, rows_per_chunk=4, **STEADY)
    trained = load_file(tmp_path / "out" / "model.safetensors")
    _assert_close(trained, model.state_dict())
    before = load_file(files.backbone / "model.safetensors")["encoder.layer.0.output.dense.weight"]
    assert (trained["encoder.layer.0.output.dense.weight"] - before).abs().max() > 10 * TOLERANCE


def test_the_steps_of_two_encoders_are_those_of_a_plain_loop_with_two(files: Files, tmp_path: Path) -> None:
    """The norm that is clipped is that of both encoders together."""
    queries, passages = _plain_retriever(files), _plain_retriever(files)
    batch_size, loss_of_step = _retriever_losses(files, query_model=queries, passage_model=passages)
    _optimise(nn.ModuleList([queries, passages]), loss_of_step)
    train("untied", files, tmp_path / "out", batch_size=batch_size, rows_per_chunk=4, **STEADY)
    _assert_close(
        load_file(tmp_path / "out" / "model.safetensors"),
        passages.state_dict(),
        without=(_KEY_BIAS, _LAST_BIAS),
    )
    _assert_close(load_file(tmp_path / "out" / "query" / "model.safetensors"), queries.state_dict())
    weight = "encoder.layer.0.output.dense.weight"
    assert (queries.state_dict()[weight] - passages.state_dict()[weight]).abs().max() > 10 * TOLERANCE


@pytest.mark.parametrize("precision", [pytest.param("fp32", marks=pytest.mark.ci), "bf16"])
@pytest.mark.parametrize("kind", ["words alone", "cocondenser", "retriever"])
def test_a_step_in_bfloat16_has_the_plain_loss_and_gradients_to_its_eight_bits(
    files: Files, tmp_path: Path, kind: str, precision: str
) -> None:
    """Against the plain step in float32; ours in float32 shows that bfloat16 makes all the difference.

    A product is rounded to one part in `unit`. A gradient has come through some 36 of them here,
    three layers and back, whose errors add like a random walk to 6 units; one weight's has fewer
    numbers to even out in. A loss is a mean over many scores and is not rounded itself: a part of one.
    """
    unit = {"fp32": 2.0**-18, "bf16": 2.0**-8}[precision]  # float32: 24 bits, less for sums in another order
    plain: nn.Module
    if kind == "retriever":
        plain = _plain_retriever(files)
        batch_size, loss_of_step = _retriever_losses(files, query_model=plain, passage_model=plain)
        their_names, changes = {"backbone.": ""}, {}
    else:
        plain = _Plain(files)
        batch_size, loss_of_step = _cocondenser_losses(files, plain, with_contrast=kind == "cocondenser")
        changes = {} if kind == "cocondenser" else {"contrastive_weight": 0.0}
        their_names = {"backbone.": "bert.", "head.0.": "layer.", "mlm_head.": "mlm_head."}
    expected_loss = loss_of_step(0)
    expected_loss.backward()
    expected = {name: weight.grad for name, weight in plain.named_parameters() if weight.grad is not None}
    settings = {"batch_size": batch_size, "precision": precision, **changes, **STEADY}
    name = "retriever" if kind == "retriever" else "cocondenser"
    trainable, _ = training(name, files, tmp_path / "out", **settings)
    loss = trainable.backward(trainable.prepare(0).content, 1.0)["loss"]
    ours = {
        new + name.removeprefix(old): weight.grad
        for name, weight in trainable.model.named_parameters()
        for old, new in their_names.items()
        if name.startswith(old) and weight.grad is not None
    }
    assert ours.keys() == expected.keys()
    assert loss == pytest.approx(expected_loss.item(), rel=unit / 4)
    whole = torch.cat([gradient.flatten() for gradient in expected.values()])
    error = torch.cat([(ours[name] - gradient).flatten() for name, gradient in expected.items()])
    assert error.norm() < 8 * unit * whole.norm()
    for name, gradient in expected.items():
        if not name.endswith(_KEY_BIAS):
            assert (ours[name] - gradient).norm() < 16 * unit * gradient.norm(), name
