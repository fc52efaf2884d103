"""The vector of a text: pooled and normalised as sentence-transformers does, kept through every training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from small_models import (
    chosen,
    full_rows,
    meant,
    padded,
    small_backbone,
    transformers_bert,
    transformers_layer,
)

from condenser.model.backbone import backbone_from, new_backbone
from condenser.model.backbone_sources import embedded_folder
from condenser.model.masked_language import MaskedLanguageModel
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever, UntiedEncoders, query_encoder_folder
from condenser.model.rows import Rows
from condenser.model.text_vector import Pooling, TextVector, read_text_vector, write_text_vector
from condenser.shards import encoder_files

WAYS = [TextVector("cls"), TextVector("mean", normalised=True)]
OTHER_WAYS = [TextVector("max"), TextVector("last", normalised=True), TextVector("weighted")]
LENGTHS = np.array([9, 4, 7])
IDS = torch.randint(5, 40, (3, 9), generator=torch.Generator().manual_seed(3))
ROWS = Rows.of(IDS.numpy(), LENGTHS)
MASKED = torch.tensor([1, 4, 11, 20])
CHOSEN = chosen(ROWS, MASKED, width=9)


def new_head(backbone: Any) -> MaskedLanguageHead:
    return MaskedLanguageHead(backbone.config).double()


def plainly(backbone: Any, vector: TextVector) -> torch.Tensor:
    """Each row alone, without padding, from the whole last layer."""
    rows = []
    for ids, length in zip(IDS, LENGTHS.tolist(), strict=True):
        states = backbone(ids[None, :length]).last_hidden_state[0]
        places = torch.arange(1.0, length + 1, dtype=states.dtype)
        row = {
            "cls": states[0],
            "mean": states.mean(dim=0),
            "max": states.amax(dim=0),
            "last": states[-1],
            "weighted": places @ states / places.sum(),
        }[vector.pooling]
        rows.append(row / row.norm() if vector.normalised else row)
    return torch.stack(rows)


@pytest.mark.parametrize("vector", [*WAYS, *OTHER_WAYS], ids=str)
def test_a_retriever_and_a_condenser_have_the_vector_of_the_plain_way_and_its_gradient(vector) -> None:
    backbone = small_backbone().double().eval()
    head = new_head(backbone)
    condenser = (
        Condenser(backbone, head, num_head_layers=1, skip_from=1, use_late_mlm=True, seed=1, vector=vector)
        .double()
        .eval()
    )
    weights = torch.randn(3, backbone.config.hidden_size, dtype=torch.float64)
    theirs = transformers_bert(backbone)
    expected = plainly(theirs, vector)
    (expected * weights).sum().backward()
    gradients = {name: value.grad for name, value in theirs.named_parameters() if value.grad is not None}
    for found in (
        Retriever(backbone, vector)(ROWS),
        condenser.represent(ROWS),
        condenser(ROWS, CHOSEN).vector,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        backbone.zero_grad()
        (found * weights).sum().backward()
        for name, gradient in gradients.items():
            torch.testing.assert_close(backbone.get_parameter(name).grad, gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_an_empty_text_has_a_vector(pooling) -> None:
    model = Retriever(small_backbone(num_layers=2), TextVector(pooling)).eval()
    ids = np.array([[2, 3, 0, 0], [2, 8, 9, 3]])  # [CLS] [SEP] and padding
    with torch.no_grad():
        beside = model(Rows.of(ids, np.array([2, 4])))[0]
        alone = model(Rows.of(ids[:1, :2], np.array([2])))[0]
    torch.testing.assert_close(beside, alone)
    assert torch.isfinite(beside).all()


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_head_reads_the_vector_before_it_is_normalised_and_the_early_states(pooling) -> None:
    backbone = small_backbone().double().eval()
    outputs = [
        Condenser(
            backbone, new_head(backbone), num_head_layers=2, skip_from=1,
            use_late_mlm=True, seed=1, vector=TextVector(pooling, normalised),
        ).double().eval()
        for normalised in (False, True)
    ]  # fmt: skip
    outputs[1].mlm_head = outputs[0].mlm_head
    plain, normalised = (model(ROWS, CHOSEN) for model in outputs)
    assert torch.equal(plain.head_logits, normalised.head_logits)
    model = outputs[0]
    theirs, (_, mask) = transformers_bert(backbone), padded(ROWS)
    all_states = theirs(IDS, attention_mask=mask, output_hidden_states=True).hidden_states
    head = torch.cat([plainly(theirs, TextVector(pooling))[:, None], all_states[1][:, 1:]], dim=1)
    hidden = torch.zeros(mask.shape).double().masked_fill(~mask, -torch.inf)[:, None, None]
    for layer in model.head:
        head = transformers_layer(layer, backbone.config)(head, hidden)
    words = backbone.embeddings.word_embeddings.weight
    expected = model.mlm_head(head.view(-1, head.shape[-1])[MASKED], words)
    torch.testing.assert_close(meant(plain.head_logits, CHOSEN.layout), expected, rtol=1e-9, atol=1e-11)
    late = model.mlm_head(all_states[-1].view(-1, head.shape[-1])[MASKED], words)
    torch.testing.assert_close(meant(plain.late_logits, CHOSEN.layout), late, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("vector", WAYS, ids=str)
def test_the_dropout_of_the_vector_is_the_same_alone_and_with_the_losses(vector) -> None:
    backbone = small_backbone(dropout=0.3)
    model = Condenser(
        backbone, new_head(backbone), num_head_layers=1, skip_from=1,
        use_late_mlm=True, seed=1, vector=vector,
    ).double().train()  # fmt: skip
    torch.manual_seed(5)
    alone = model.represent(ROWS)
    torch.manual_seed(5)
    assert torch.equal(model(ROWS, CHOSEN).vector, alone)
    assert not torch.equal(model.represent(ROWS), alone)


def test_the_embedded_model_is_what_sentence_transformers_makes_of_it(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    counts = backbone_from(embedded_folder(), tmp_path / "backbone", seed=7)
    assert (counts["pooling"], counts["normalised"]) == ("mean", True)
    texts = ["a short text", "another text, of a few more words than the first one", "42"]
    theirs = SentenceTransformer(str(embedded_folder()), device="cpu")
    loaded = SentenceTransformer(str(tmp_path / "backbone"), device="cpu")
    assert loaded.similarity_fn_name == "cosine"
    tokens = loaded.tokenize(texts)
    ours = Retriever.load(tmp_path / "backbone", dropout=None).eval()
    with torch.no_grad():
        vectors = ours(Rows.of(tokens["input_ids"].numpy(), tokens["attention_mask"].sum(1).numpy()))
    expected = torch.from_numpy(theirs.encode(texts))
    torch.testing.assert_close(vectors, expected, rtol=0, atol=2e-6)
    torch.testing.assert_close(torch.from_numpy(loaded.encode(texts)), expected, rtol=0, atol=2e-6)


def test_the_embedded_model_has_the_papers_vector_if_asked(tmp_path: Path) -> None:
    backbone_from(embedded_folder(), tmp_path / "cls", seed=7, pooling="cls", normalised=False)
    model = Retriever.load(tmp_path / "cls", dropout=None).eval()
    ids = torch.randint(1000, 2000, (2, 6))
    with torch.no_grad():
        plain = transformers_bert(model.backbone)(ids).last_hidden_state[:, 0]
        torch.testing.assert_close(model(full_rows(ids)), plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("vector", WAYS, ids=str)
def test_every_folder_that_is_saved_says_how_its_vector_is_made(vector, tmp_path: Path) -> None:
    new_backbone(
        tmp_path / "start", texts=["a cat sat on a mat"] * 3, vector=vector, seed=7,
        shape={"hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 20, "vocab_size": 80,
               "max_positions": 16},
    )  # fmt: skip
    assert read_text_vector(tmp_path / "start") == vector
    Condenser.load(
        tmp_path / "start", num_head_layers=1, skip_from=1, use_late_mlm=True, missing_head="random", seed=1,
        dropout=None,
    ).save(tmp_path / "condenser", tmp_path / "start")  # fmt: skip
    MaskedLanguageModel.load(tmp_path / "condenser", dropout=None).save(
        tmp_path / "mlm", tmp_path / "condenser"
    )
    model = Retriever.load(tmp_path / "mlm", dropout=None)
    assert model.vector == vector
    model.save(tmp_path / "tied", tmp_path / "mlm")
    UntiedEncoders.load(tmp_path / "tied", dropout=None).save(tmp_path / "untied", tmp_path / "tied")
    for folder in ("tied", "untied", "untied/query"):
        assert read_text_vector(tmp_path / folder) == vector
    assert query_encoder_folder(tmp_path / "untied") == tmp_path / "untied" / "query"
    names = {str(file.relative_to(tmp_path / "untied")) for file in encoder_files(tmp_path / "untied")}
    assert {"model.safetensors", "modules.json", "1_Pooling/config.json"} < names
    assert not any(name.startswith("query") for name in names)


def test_a_folder_that_says_nothing_has_the_papers_vector(tmp_path: Path) -> None:
    assert read_text_vector(tmp_path) == TextVector("cls", normalised=False)
    assert TextVector("cls").scale == 1.0 and TextVector("mean", normalised=True).scale == 20.0


@pytest.mark.parametrize("settings", [{"pooling_mode": "cls"}, {"pooling_mode_cls_token": True}])
def test_both_ways_of_naming_a_pooling_are_read(settings, tmp_path: Path) -> None:
    write_text_vector(TextVector("mean"), tmp_path, dim=4)
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert read_text_vector(tmp_path).pooling == "cls"
