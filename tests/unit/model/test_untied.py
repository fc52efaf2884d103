from __future__ import annotations

from collections.abc import Callable
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
SHAPE = {"hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new BERT."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    new_backbone(
        folder,
        seed=1,
        shape={**SHAPE, "max_positions": 16, "vocab_size": 40},
        texts=["abc abd bcd abc"] * 3,
    )
    return folder


def texts() -> tuple[Tensor, Tensor]:
    """Two queries and, for each, three passages."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(5, 40, (2, 6), generator=generator), torch.randint(
        5, 40, (6, 9), generator=generator
    )


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def test_two_encoders_start_equal_and_share_no_weight(folder: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    queries, passages = model.queries.state_dict(), model.passages.state_dict()
    assert queries.keys() == passages.keys()
    assert all(torch.equal(weight, passages[name]) for name, weight in queries.items())
    with torch.no_grad():
        for weight in model.queries.parameters():
            weight.add_(1.0)
    untouched = Retriever.load(folder, dropout=None).state_dict()
    assert all(torch.equal(weight, untouched[name]) for name, weight in model.passages.state_dict().items())


def test_the_gradient_of_one_shared_encoder_is_the_sum_of_both(folder: Path) -> None:
    """By the chain rule, where the two are equal; and each by itself is another one."""
    queries, passages = (full_rows(ids) for ids in texts())
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


def test_both_encoders_are_folders_that_load_without_our_code(folder: Path, tmp_path: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    with torch.no_grad():
        for weight in model.queries.parameters():
            weight.mul_(2.0)
    model.save(tmp_path / "out", folder)
    for place, encoder in ((tmp_path / "out", model.passages), (tmp_path / "out" / "query", model.queries)):
        loaded, report = AutoModel.from_pretrained(place, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        expected = encoder.backbone.state_dict()
        assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())
        assert AutoTokenizer.from_pretrained(place)("abc")["input_ids"]


def test_two_encoders_start_from_a_folder_that_has_two(folder: Path, tmp_path: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    with torch.no_grad():
        for weight in model.queries.parameters():
            weight.mul_(2.0)
    model.save(tmp_path / "out", folder)
    loaded = UntiedEncoders.load(tmp_path / "out", dropout=None).state_dict()
    assert all(torch.equal(weight, loaded[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("load", "found"), [(UntiedEncoders.load, QUERY_FOLDER), (Retriever.load, ".")], ids=["untied", "tied"]
)
def test_the_query_encoder_is_found_in_either_folder(
    folder: Path, tmp_path: Path, load: Callable, found: str
) -> None:
    load(folder, dropout=None).save(tmp_path / "out", folder)
    assert query_encoder_folder(tmp_path / "out") == tmp_path / "out" / found


def test_a_tied_retriever_in_the_place_of_an_untied_one_has_no_old_query_encoder(
    folder: Path, tmp_path: Path
) -> None:
    UntiedEncoders.load(folder, dropout=None).save(tmp_path / "out", folder)
    Retriever.load(folder, dropout=None).save(tmp_path / "out", folder)
    assert query_encoder_folder(tmp_path / "out") == tmp_path / "out"


def test_activation_checkpointing_is_that_of_both_encoders(folder: Path) -> None:
    model = UntiedEncoders.load(folder, dropout=None)
    assert not model.recompute_layers
    model.recompute_layers = True
    assert model.recompute_layers and model.queries.recompute_layers and model.passages.recompute_layers
