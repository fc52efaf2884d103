"""Condenser folders; what it computes is held to its equations in tests/reference/test_condenser.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import chosen, full_rows, padded, small_backbone, small_condenser
from transformers import AutoModel

from condenser.files import canonical_json
from condenser.model.backbone import new_backbone
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.weights import read_settings

torch.set_num_threads(1)
HEAD = "condenser_head.safetensors"
SHAPE = {
    **{"hidden_size": 12, "num_layers": 4, "num_heads": 3, "intermediate_size": 20},
    **{"vocab_size": 40, "max_positions": 16},
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "backbone"
    new_backbone(folder, seed=1, shape=SHAPE, texts=["abc abd bcd abc"] * 3)
    return folder


@pytest.fixture(scope="module")
def condenser(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Condenser with a new head."""
    folder = tmp_path_factory.mktemp("models") / "condenser"
    load(scratch, missing_head="random").save(folder, scratch)
    return folder


def load(folder: Path, **changes: Any) -> Condenser:
    settings: dict[str, Any] = {"num_head_layers": 2, "skip_from": 2, "use_late_mlm": True}
    settings |= {"missing_head": "refuse", "seed": 5, "dropout": None}
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


def test_saved_backbone_is_a_drop_in_bert_without_the_head(condenser: Path) -> None:
    drop_in, outcome = AutoModel.from_pretrained(condenser, output_loading_info=True)
    assert not any(outcome.values()), outcome
    ids = torch.randint(5, drop_in.config.vocab_size, (3, 8))
    rows = Rows.of(ids.numpy(), np.array([8, 5, 2]))
    _, mask = padded(rows)
    plain = drop_in.eval()(ids, attention_mask=mask.long()).last_hidden_state[:, 0]
    torch.testing.assert_close(load(condenser).eval().represent(rows), plain, rtol=0, atol=1e-6)
    assert {str(file.relative_to(condenser)) for file in condenser.rglob("*") if file.is_file()} == {
        *("config.json", "model.safetensors", "mlm_head.safetensors", HEAD),
        *("tokenizer.json", "tokenizer_config.json", *VECTOR_FILES),
    }
    assert {name.split(".")[0] for name in load_file(condenser / HEAD)} == {"0", "1"}  # the head alone


def test_saving_twice_gives_the_same_bytes(scratch: Path, condenser: Path, tmp_path: Path) -> None:
    load(scratch, missing_head="random").save(tmp_path / "again", scratch)
    for file in condenser.rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(condenser)).read_bytes(), file


def test_warm_start_without_a_head_is_refused_unless_asked_for(scratch: Path) -> None:
    with pytest.raises(ValueError, match=r"condenser_head\.safetensors: no such file.*random head"):
        load(scratch)
    load(scratch, missing_head="random")


def test_a_random_head_asked_for_does_not_replace_one_that_is_there(condenser: Path) -> None:
    first, again = load(condenser), load(condenser, missing_head="random", seed=6)
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
    name: str, asked: int, stored: int, condenser: Path
) -> None:
    with pytest.raises(ValueError, match=f"expected {name} {asked}, got {stored}. Set it to {stored}"):
        load(condenser, **{name: asked})


@pytest.mark.parametrize(
    ("settings", "dtype", "size", "message"),
    [
        (None, torch.float32, -100, "expected a complete safetensors file"),
        (None, torch.int8, None, "expected floating-point weights of 16"),
        ("import os", torch.float32, None, "expected a complete safetensors file"),
        ("[1]", torch.float32, None, "expected settings in its header"),
    ],
    ids=["cut", "quantised", "no JSON", "no settings"],
)
def test_a_head_that_is_damaged_or_quantised_is_refused_in_one_line(
    settings: str | None, dtype: torch.dtype, size: int | None, message: str, condenser: Path, tmp_path: Path
) -> None:
    head = shutil.copytree(condenser, tmp_path / "condenser") / HEAD
    metadata = {"settings": settings or canonical_json(read_settings(head))}
    save_file({name: value.to(dtype) for name, value in load_file(head).items()}, head, metadata=metadata)
    head.write_bytes(head.read_bytes()[:size])
    with pytest.raises(ValueError, match=message) as caught:
        load(tmp_path / "condenser")
    assert str(caught.value).startswith(f"{head}: {message}") and "\n" not in str(caught.value)


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
    assert read_settings(tmp_path / "condenser" / HEAD)["skip_from"] == 2
    assert load(tmp_path / "condenser", skip_from=None).skip_from == 2


def test_without_a_head_the_last_layer_alone_predicts(condenser: Path, tmp_path: Path) -> None:
    with_head, model = load(condenser).eval(), load(condenser, num_head_layers=0).eval()
    rows = full_rows(torch.randint(5, model.backbone.config.vocab_size, (2, 8)))
    masked = chosen(rows, torch.tensor([1, 9]), width=8)
    output, expected = model(rows, masked), with_head(rows, masked)
    assert output.head_logits is None
    torch.testing.assert_close(output.late_logits, expected.late_logits)
    assert torch.equal(output.vector, expected.vector)
    model.save(tmp_path / "without", condenser)
    assert not (tmp_path / "without" / HEAD).exists()
