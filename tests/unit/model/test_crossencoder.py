"""The cross-encoder against transformers' own BERT for classification, and its folder without our code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import full_rows, perturb, small_backbone, transformers_config
from small_trainings import Files, contents, prepare, train
from torch.nn import functional
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForSequenceClassification

from condenser.loss.listwise import localised_contrastive_loss
from condenser.model.backbone import backbone_from
from condenser.model.crossencoder import CrossEncoder
from condenser.model.rows import Rows
from condenser.model.text_vector import assumptions
from condenser.train.chunks import Chunk
from condenser.train.distributed import alone
from condenser.train.gradient_cache import batch_backward
from condenser.train.memory import StepMemory

LENGTHS = np.array([16, 7, 11, 5, 16, 9])
PASSAGE_BEGINS = [6, 3, 5, 4, 10, 2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("crossencoder"), dropout=0.1)


@pytest.fixture(scope="module")
def trained(files: Files) -> Path:
    train("crossencoder", files, files.root / "trained")
    return files.root / "trained"


def small_crossencoder() -> CrossEncoder:
    model = CrossEncoder(small_backbone(), seed=3).double()
    perturb(model.scorer.out)
    return model


def plain(ours: CrossEncoder) -> BertForSequenceClassification:
    """transformers' model with the same weights, which it finds under the same names."""
    config = transformers_config(ours.encoder.config)
    config.num_labels = 1
    model = BertForSequenceClassification(config).double()
    model.load_state_dict({ours.their_name(name): value for name, value in ours.state_dict().items()})
    return model.eval()


def in_rows(ids: torch.Tensor, types: torch.Tensor, rows: Sequence[int] = range(6)) -> Rows:
    return Rows.of(ids.numpy(), LENGTHS[list(rows)], token_types=types.numpy())


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(5, 40, (6, 16), generator=torch.Generator().manual_seed(4))
    types = torch.zeros(6, 16, dtype=torch.int64)
    for row, (begin, length) in enumerate(zip(PASSAGE_BEGINS, LENGTHS, strict=True)):
        types[row, begin:length] = 1
    return ids, types


def test_scores_of_a_padded_batch_are_those_of_transformers_one_pair_at_a_time() -> None:
    ours, (ids, types) = small_crossencoder().eval(), pairs()
    theirs = plain(ours)
    scores = ours(in_rows(ids, types))
    assert scores.shape == (6, 1)
    for row, length in enumerate(LENGTHS):
        expected = theirs(ids[row : row + 1, :length], token_type_ids=types[row : row + 1, :length]).logits
        torch.testing.assert_close(scores[row], expected[0], rtol=1e-12, atol=1e-12)
    other = ours(in_rows(ids, torch.zeros_like(types)))
    assert (scores - other).abs().min() > 1e-4  # token types count


def chunks_of(ids: torch.Tensor, types: torch.Tensor, places: list[list[int]]) -> list[Chunk]:
    return [Chunk("scores", torch.tensor(rows), in_rows(ids[rows], types[rows], rows), 7) for rows in places]


@pytest.mark.parametrize("keep_graphs", [True, False])
def test_gradients_of_chunks_are_those_of_a_plain_loop_over_pairs(keep_graphs: bool) -> None:
    ours, (ids, types) = small_crossencoder(), pairs()
    theirs = plain(ours)
    loss = torch.zeros((), dtype=torch.float64)
    for first in (0, 3):  # two queries of three passages
        scores = []
        for row in range(first, first + 3):
            length = LENGTHS[row]
            logits = theirs(ids[row : row + 1, :length], token_type_ids=types[row : row + 1, :length]).logits
            scores.append(logits[0, 0])
        loss = loss - (scores[0] - torch.stack(scores).logsumexp(0)) / 2
    loss.backward()

    found = batch_backward(
        chunks_of(ids, types, [[4, 0], [2, 5, 1], [3]]),
        lambda chunk: ours(chunk.inputs),
        lambda scores: localised_contrastive_loss(scores, passages_per_query=3),
        num_rows={"scores": 6},
        width=1,
        keep_graphs=keep_graphs,
        memory=StepMemory(ours, keeps_graphs=keep_graphs),
        processes=alone(torch.device("cpu")),
        scale=1.0,
    )
    assert found["batch"] == pytest.approx(loss.item(), rel=1e-12)
    expected = dict(theirs.named_parameters())
    for name, weight in ours.named_parameters():
        assert weight.grad is not None, name  # the pooler's too
        torch.testing.assert_close(weight.grad, expected[ours.their_name(name)].grad, rtol=1e-9, atol=1e-12)


def test_activation_checkpointing_changes_no_gradient() -> None:
    gradients = []
    for recompute in (False, True):
        model, (ids, types) = small_crossencoder(), pairs()
        model.recompute_layers = recompute
        functional.softplus(model(full_rows(ids, types))).sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_the_new_layer_is_drawn_by_the_seed_alone() -> None:
    backbones = [small_backbone() for _ in range(3)]
    state = torch.get_rng_state()
    first, same, other = (
        CrossEncoder(backbone, seed=seed).scorer for backbone, seed in zip(backbones, (3, 3, 4), strict=True)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.out.weight, same.out.weight)
    assert not torch.equal(first.out.weight, other.out.weight) and not first.out.bias.any()
    assert torch.equal(first.dense.weight, small_backbone().pooler.dense.weight.float())


def test_a_trained_folder_loads_without_our_code_and_in_ours(files: Files, trained: Path) -> None:
    from sentence_transformers import CrossEncoder as TheirCrossEncoder

    assert set(contents(trained)) == {  # no vector of a text
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        *("losses.jsonl", "validation.json"),
    }
    model, loading = AutoModelForSequenceClassification.from_pretrained(trained, output_loading_info=True)
    assert isinstance(model, BertForSequenceClassification) and model.config.num_labels == 1
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(trained)
    texts = [(files.queries[0].text, files.passages[row].text[:60]) for row in (1, 4, 7)]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    ours = CrossEncoder.load(trained).eval()
    with torch.inference_mode():
        expected = model.eval()(**inputs).logits
        ids, types, mask = (
            inputs[name].numpy() for name in ("input_ids", "token_type_ids", "attention_mask")
        )
        scores = ours(Rows.of(ids, mask.sum(1), token_types=types))
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    theirs = TheirCrossEncoder(str(trained), device="cpu").predict(texts)
    torch.testing.assert_close(torch.tensor(theirs), expected[:, 0], rtol=1e-5, atol=1e-5)


def test_texts_that_have_no_positions_together_are_refused_before_the_first_step(
    files: Files, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"a query and a passage \(65 tokens with specials\), got 64"):
        train("crossencoder", files, tmp_path / "out", lengths={"query": 12, "passage": 54})


def test_a_layer_for_classes_that_is_left_out_is_said(trained: Path, tmp_path: Path) -> None:
    backbone_from(trained, tmp_path / "start", seed=1)
    (said,) = (line for line in assumptions(tmp_path / "start") if "left out" in line)
    assert "left out: 'classifier.bias', 'classifier.weight'. A cross-encoder that starts here draws" in said
