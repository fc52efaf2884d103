"""The training of a cross-encoder, against transformers on one pair at a time."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from small_trainings import (
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    RETRIEVER,
    first_batch,
    losses,
    prepare,
    sharpen,
    text_of,
    train,
    training,
)
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from condenser.files import read_json, write_json
from condenser.model.crossencoder import CrossEncoder

GROUP = RETRIEVER["passages_per_query"]


@pytest.mark.parametrize("loss", ["localised", "pointwise"])
def test_the_first_loss_is_that_of_the_pairs_with_their_token_types(tmp_path: Path, loss: str) -> None:
    files = prepare(tmp_path, dropout=0.0)
    sharpen(files.backbone)
    config = read_json(files.backbone / "config.json")
    write_json(files.backbone / "config.json", {**config, "initializer_range": 1.0})  # of the scores' layer
    train("crossencoder", files, tmp_path / "out", updates=1, loss=loss)
    examples, items, drawn = first_batch(files, stream="crossencoder")
    CrossEncoder.start(files.backbone, seed=42).save(tmp_path / "start", files.backbone)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "start").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "start")
    scores = []
    for place, row in enumerate(drawn.tolist()):
        query, passage = files.queries[examples.queries[items[place // GROUP]]], files.passages[row]
        first = tokenizer(query.text, truncation=True, max_length=QUERY_LENGTH)["input_ids"]
        second = tokenizer(text_of(passage), truncation=True, max_length=PASSAGE_LENGTH)["input_ids"][1:]
        types = torch.tensor([[0] * len(first) + [1] * len(second)])
        with torch.inference_mode():
            scores.append(model(torch.tensor([first + second]), token_type_ids=types).logits.item())
    of_queries = torch.tensor(scores).view(-1, GROUP)
    if loss == "localised":
        expected = -of_queries.log_softmax(dim=1)[:, 0].mean()
    else:
        positives = torch.zeros_like(of_queries)
        positives[:, 0] = 1
        expected = torch.nn.BCELoss()(of_queries.sigmoid(), positives)
    assert losses(tmp_path / "out")[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(("passage", "fits"), [(53, True), (54, False)])
def test_a_pair_may_take_all_positions_and_no_more(tmp_path: Path, passage: int, fits: bool) -> None:
    """12 tokens and 53 share a [CLS], so that they are 64."""
    files = prepare(tmp_path, dropout=0.0)
    lengths = {"query": 12, "passage": passage}
    with nullcontext() if fits else pytest.raises(ValueError, match=r"\(65 tokens with specials\), got 64"):
        training("crossencoder", files, tmp_path / "out", lengths=lengths)
