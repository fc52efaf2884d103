from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_models import full_rows, small_backbone
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from condenser.loss.contrastive import in_batch_loss
from condenser.model.backbone import new_backbone
from condenser.model.retriever import Retriever, UntiedEncoders, query_encoder_folder
from condenser.shards import QUERY_FOLDER

torch.set_num_threads(1)
SHAPE = {
    **{"hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 20},
    **{"max_positions": 16, "vocab_size": 40},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new BERT."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    new_backbone(folder, seed=1, shape=SHAPE, texts=["abc abd bcd abc"] * 3)
    return folder


def doubled(folder: Path) -> UntiedEncoders:
    """Two encoders, of which that of queries has twice the weights."""
    model = UntiedEncoders.load(folder, dropout=None)
    with torch.no_grad():
        for weight in model.queries.parameters():
            weight.mul_(2.0)
    return model


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def test_two_encoders_start_equal_and_share_no_weight(folder: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    queries, passages = model.queries.state_dict(), model.passages.state_dict()
    assert queries.keys() == passages.keys()
    assert all(torch.equal(weight, passages[name]) for name, weight in queries.items())
    untouched = Retriever.load(folder, dropout=None).state_dict()
    passages = doubled(folder).passages.state_dict()
    assert all(torch.equal(weight, untouched[name]) for name, weight in passages.items())


def test_the_gradient_of_one_shared_encoder_is_the_sum_of_both() -> None:
    """By the chain rule, where the two are equal; and each by itself is another one."""
    generator = torch.Generator().manual_seed(0)
    queries, passages = (
        full_rows(torch.randint(5, 40, size, generator=generator)) for size in ((2, 6), (6, 9))
    )
    untied = UntiedEncoders(Retriever(small_backbone()), Retriever(small_backbone()))
    in_batch_loss(untied.queries(queries), untied.passages(passages)).backward()
    tied = Retriever(small_backbone())
    in_batch_loss(tied(queries), tied(passages)).backward()
    of_queries, of_passages = gradients(untied.queries), gradients(untied.passages)
    expected = gradients(tied)
    assert expected.keys() == of_queries.keys() == of_passages.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(
            of_queries[name] + of_passages[name], gradient, rtol=1e-10, atol=1e-12, msg=name
        )
    name = "backbone.encoder.layer.0.output.dense.weight"
    assert not torch.allclose(of_queries[name], of_passages[name])


def test_both_encoders_are_folders_that_load_without_our_code_and_in_ours(
    folder: Path, tmp_path: Path
) -> None:
    model = doubled(folder)
    model.save(tmp_path / "out", folder)
    for place, encoder in ((tmp_path / "out", model.passages), (tmp_path / "out" / "query", model.queries)):
        loaded, report = AutoModel.from_pretrained(place, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        expected = encoder.backbone.state_dict()
        assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())
        assert AutoTokenizer.from_pretrained(place)("abc")["input_ids"]
    again = UntiedEncoders.load(tmp_path / "out", dropout=None).state_dict()
    assert all(torch.equal(weight, again[name]) for name, weight in model.state_dict().items())


def test_the_query_encoder_is_found_in_either_folder(folder: Path, tmp_path: Path) -> None:
    doubled(folder).save(tmp_path / "out", folder)
    assert query_encoder_folder(tmp_path / "out") == tmp_path / "out" / QUERY_FOLDER
    Retriever.load(folder, dropout=None).save(tmp_path / "out", folder)  # in its place: no old one is left
    assert query_encoder_folder(tmp_path / "out") == tmp_path / "out"


def test_activation_checkpointing_is_that_of_both_encoders(folder: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    assert not model.recompute_layers
    model.recompute_layers = True
    assert model.recompute_layers and model.queries.recompute_layers and model.passages.recompute_layers
