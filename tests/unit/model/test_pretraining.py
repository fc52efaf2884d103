"""Condenser folders; what it computes is held to its equations in tests/reference/test_condenser.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import chosen, full_rows, padded, small_backbone, small_condenser
from transformers import AutoModel

from condenser.model.backbone import new_backbone
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.weights import read_settings

torch.set_num_threads(1)
SHAPE = {"hidden_size": 12, "num_layers": 4, "num_heads": 3, "intermediate_size": 20, "max_positions": 16}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "backbone"
    new_backbone(
        folder,
        seed=1,
        shape={**SHAPE, "vocab_size": 40},
        texts=["abc abd bcd abc"] * 3,
    )
    return folder


def load(folder: Path, **changes: Any) -> Condenser:
    settings: dict[str, Any] = {
        "num_head_layers": 2,
        "skip_from": 2,
        "use_late_mlm": True,
        "missing_head": "refuse",
        "seed": 5,
        "dropout": None,
    }
    return Condenser.load(folder, **{**settings, **changes})


def test_saved_and_loaded_condenser_gives_the_same_bits(scratch: Path, tmp_path: Path) -> None:
    model = load(scratch, missing_head="random").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.save(tmp_path / "condenser", scratch)
    again = load(tmp_path / "condenser", seed=99).eval()
    rows = full_rows(torch.randint(5, model.backbone.config.vocab_size, (2, 8)))
    masked = chosen(rows, torch.tensor([1, 9]), width=8)
    ours, theirs = model(rows, masked), again(rows, masked)
    assert torch.equal(ours.head_logits, theirs.head_logits)
    assert torch.equal(ours.late_logits, theirs.late_logits)
    assert torch.equal(ours.vector, theirs.vector)
    assert not any(parameter.requires_grad for parameter in again.backbone.pooler.parameters())


def test_saved_backbone_is_a_drop_in_bert_without_the_head(scratch: Path, tmp_path: Path) -> None:
    model = load(scratch, missing_head="random").eval()
    model.save(tmp_path / "condenser", scratch)
    drop_in, outcome = AutoModel.from_pretrained(tmp_path / "condenser", output_loading_info=True)
    assert not any(outcome.values()), outcome
    ids = torch.randint(5, drop_in.config.vocab_size, (3, 8))
    rows = Rows.of(ids.numpy(), np.array([8, 5, 2]))
    _, mask = padded(rows)
    plain = drop_in.eval()(ids, attention_mask=mask.long()).last_hidden_state[:, 0]
    torch.testing.assert_close(model.represent(rows), plain, rtol=0, atol=1e-6)
    folder = tmp_path / "condenser"
    names = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    assert names == {
        *("config.json", "model.safetensors", "mlm_head.safetensors", "condenser_head.safetensors"),
        *("tokenizer.json", "tokenizer_config.json", *VECTOR_FILES),
    }


def test_saving_twice_gives_the_same_bytes(scratch: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        load(scratch, missing_head="random").save(tmp_path / str(number), scratch)
    for file in (tmp_path / "1").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "2" / file.relative_to(tmp_path / "1")).read_bytes(), file


def test_warm_start_without_a_head_is_refused_unless_asked_for(scratch: Path) -> None:
    with pytest.raises(ValueError, match=r"condenser_head\.safetensors: no such file.*random head"):
        load(scratch)
    load(scratch, missing_head="random")


def test_a_random_head_asked_for_does_not_replace_one_that_is_there(scratch: Path, tmp_path: Path) -> None:
    first = load(scratch, missing_head="random", seed=5)
    first.save(tmp_path / "condenser", scratch)
    again = load(tmp_path / "condenser", missing_head="random", seed=6)
    assert torch.equal(first.head[0].output.dense.weight, again.head[0].output.dense.weight)


def test_a_new_head_depends_on_its_seed_alone(scratch: Path) -> None:
    torch.manual_seed(1)
    first = load(scratch, missing_head="random", seed=5)
    torch.manual_seed(2)
    same, other = (load(scratch, missing_head="random", seed=seed) for seed in (5, 6))
    for name, value in first.head.state_dict().items():
        assert torch.equal(value, same.head.state_dict()[name]), name
    assert not torch.equal(first.head[1].output.dense.weight, other.head[1].output.dense.weight)
    # the two layers are not copies of one another
    assert not torch.equal(first.head[0].output.dense.weight, first.head[1].output.dense.weight)


@pytest.mark.parametrize(("name", "asked", "stored"), [("skip_from", 1, 2), ("num_head_layers", 1, 2)])
def test_a_head_trained_with_other_settings_is_refused(
    name: str, asked: int, stored: int, scratch: Path, tmp_path: Path
) -> None:
    load(scratch, missing_head="random").save(tmp_path / "condenser", scratch)
    with pytest.raises(ValueError, match=f"expected {name} {asked}, got {stored}. Set it to {stored}"):
        load(tmp_path / "condenser", **{name: asked})


def test_a_damaged_head_is_refused_in_one_line(scratch: Path, tmp_path: Path) -> None:
    load(scratch, missing_head="random").save(tmp_path / "condenser", scratch)
    path = tmp_path / "condenser" / "condenser_head.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="expected a complete safetensors file") as caught:
        load(tmp_path / "condenser")
    assert "\n" not in str(caught.value)


def test_a_quantised_head_is_refused(scratch: Path, tmp_path: Path) -> None:
    load(scratch, missing_head="random").save(tmp_path / "condenser", scratch)
    path = tmp_path / "condenser" / "condenser_head.safetensors"
    settings = {"settings": json.dumps(read_settings(path))}
    save_file(
        {name: value.to(torch.int8) for name, value in load_file(path).items()}, path, metadata=settings
    )
    with pytest.raises(
        ValueError, match=r"condenser_head\.safetensors: expected floating-point weights of 16"
    ):
        load(tmp_path / "condenser")


@pytest.mark.parametrize("skip_from", [-1, 5])
def test_skip_from_must_be_a_layer(skip_from: int) -> None:
    with pytest.raises(ValueError, match=f"0 to 4, got {skip_from}"):
        small_condenser(skip_from=skip_from)


@pytest.mark.parametrize(("num_layers", "half"), [(1, 0), (2, 1), (3, 1), (6, 3), (12, 6)])
def test_without_skip_from_the_head_reads_from_half_of_the_layers(num_layers: int, half: int) -> None:
    backbone = small_backbone(num_layers=num_layers)
    head = MaskedLanguageHead(backbone.config)
    model = Condenser(backbone, head, num_head_layers=1, skip_from=None, use_late_mlm=True, seed=1)
    assert model.skip_from == half


def test_a_head_trained_with_half_of_the_layers_is_read_without_naming_them(
    scratch: Path, tmp_path: Path
) -> None:
    load(scratch, missing_head="random", skip_from=None).save(tmp_path / "condenser", scratch)
    assert read_settings(tmp_path / "condenser" / "condenser_head.safetensors")["skip_from"] == 2
    assert load(tmp_path / "condenser", skip_from=None).skip_from == 2


def test_without_a_head_the_last_layer_alone_predicts(scratch: Path, tmp_path: Path) -> None:
    with_head = load(scratch, missing_head="random").eval()
    with_head.save(tmp_path / "condenser", scratch)
    model = load(tmp_path / "condenser", num_head_layers=0).eval()
    rows = full_rows(torch.randint(5, model.backbone.config.vocab_size, (2, 8)))
    masked = chosen(rows, torch.tensor([1, 9]), width=8)
    output, expected = model(rows, masked), with_head(rows, masked)
    assert output.head_logits is None
    torch.testing.assert_close(output.late_logits, expected.late_logits)
    assert torch.equal(output.vector, expected.vector)
    model.save(tmp_path / "without", tmp_path / "condenser")
    assert not (tmp_path / "without" / "condenser_head.safetensors").exists()


def test_head_file_holds_the_head_alone(scratch: Path, tmp_path: Path) -> None:
    load(scratch, missing_head="random").save(tmp_path / "condenser", scratch)
    names = load_file(tmp_path / "condenser" / "condenser_head.safetensors")
    assert {name.split(".")[0] for name in names} == {"0", "1"}


@pytest.mark.parametrize("content", ["import os", "[1]", '"skip_from"'])
def test_a_head_whose_header_holds_no_settings_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "condenser_head.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"settings": content})
    with pytest.raises(ValueError, match=r"condenser_head\.safetensors: expected") as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)
