"""The entropy of [CLS] attention: by hand, by a slow computation, and passage by passage."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import full_rows, padded, small_backbone, transformers_bert
from small_trainings import sharpen

from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.files import read_json
from condenser.model.backbone import new_backbone
from condenser.model.folder import load_backbone
from condenser.model.rows import Rows
from condenser.model.text_vector import TextVector
from condenser.papers.attention import cls_attention_entropies, write_attention_entropies

TEXTS = [("a title" * (row % 2), "one two three four " * (1 + row % 5)) for row in range(12)]
IDS = [f"d{row}" for row in range(len(TEXTS))]
MAX_TOKENS = 16

TOKENS = np.array([[3, 9, 17, 25, 2, 8], [3, 11, 4, 2, 0, 0]])
LENGTHS = np.array([6, 4])
ROWS = Rows.of(TOKENS, LENGTHS)


def test_uniform_attention_over_n_tokens_gives_ln_n() -> None:
    backbone = small_backbone().eval()
    for layer in backbone.encoder.layer:
        torch.nn.init.zeros_(layer.attention.self.query.weight)
        torch.nn.init.zeros_(layer.attention.self.query.bias)
    found = cls_attention_entropies(backbone, ROWS)
    expected = torch.tensor([[math.log(length)] * 4 for length in LENGTHS], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("is_padded", [True, False])
def test_it_equals_a_slow_computation_from_the_attention_of_transformers(is_padded: bool) -> None:
    backbone = small_backbone().eval()
    rows, lengths = (ROWS, LENGTHS) if is_padded else (Rows.of(TOKENS[:1], LENGTHS[:1]), LENGTHS[:1])
    ids, mask = padded(rows)
    plain = transformers_bert(backbone)
    attentions = plain(ids, attention_mask=mask.long(), output_attentions=True).attentions
    expected = []
    for row, length in enumerate(lengths):
        expected.append([])
        for layer in attentions:
            heads = [-sum(p * math.log(p) for p in head[0][:length].tolist() if p > 0) for head in layer[row]]
            expected[-1].append(sum(heads) / len(heads))
    found = cls_attention_entropies(backbone, rows)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert len({round(value, 6) for value in found.flatten().tolist()}) == found.numel()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    new_backbone(
        folder, seed=5,
        shape={"hidden_size": 24, "num_layers": 3, "num_heads": 2, "intermediate_size": 32,
               "vocab_size": 60, "max_positions": 32},
        texts=[text for _, text in TEXTS], vector=TextVector("mean", normalised=True),
    )  # fmt: skip
    sharpen(folder)
    return folder


@pytest.fixture(scope="module")
def prefixes(tmp_path_factory: pytest.TempPathFactory, model: Path) -> list[Path]:
    folder = tmp_path_factory.mktemp("tokens")
    made = [folder / f"collection.{number}-of-2" for number in range(2)]
    for prefix, texts in zip(made, (TEXTS[:8], TEXTS[8:]), strict=True):
        write_token_shard(texts, prefix, Tokenizer(model), batch_size=10, split=True)
    return made


def entropies(model: Path, prefixes: list[Path], output: Path, **changes: Any) -> dict[str, Any]:
    settings = {"num_passages": 5, "seed": 1, "max_tokens": MAX_TOKENS, "batch_tokens": 64, **changes}
    counts = write_attention_entropies(
        model, prefixes, IDS, output / "variant" / "a.json", device=torch.device("cpu"), **settings
    )
    return {**read_json(output / "variant" / "a.json"), "counts": counts}


def test_each_passage_has_the_entropies_that_it_has_alone(
    model: Path, prefixes: list[Path], tmp_path: Path
) -> None:
    found = entropies(model, prefixes, tmp_path, num_passages=len(IDS))
    backbone, tokenizer = load_backbone(model, dropout=None).eval(), Tokenizer(model)
    lengths = []
    for doc_id, (title, text) in zip(IDS, TEXTS, strict=True):
        tokens = [*tokenizer.encode_flat([title])[0]]
        tokens += [tokenizer.sep_id] if tokens else []
        tokens = [*tokens, *tokenizer.encode_flat([text])[0]][: MAX_TOKENS - 2]
        row = torch.tensor([[tokenizer.cls_id, *map(int, tokens), tokenizer.sep_id]])
        lengths.append(row.shape[1])
        alone = cls_attention_entropies(backbone, full_rows(row))[0]
        assert found["per_passage"][doc_id] == pytest.approx(alone.tolist(), abs=2e-6)
    assert MAX_TOKENS in lengths and min(lengths) < 8  # some are cut, some short
    assert found["uniform"] == pytest.approx(np.mean(np.log(lengths)), abs=1e-6)
    assert found["means"] == pytest.approx(np.mean(list(found["per_passage"].values()), axis=0), abs=2e-6)
    assert found["counts"] == {"passages": len(IDS), "tokens": sum(lengths)}
    assert (found["pooling"], found["normalised"]) == ("mean", True)


def test_passages_are_drawn_by_the_seed(model: Path, prefixes: list[Path], tmp_path: Path) -> None:
    one, again, other = (
        set(entropies(model, prefixes, tmp_path / str(number), seed=seed)["per_passage"])
        for number, seed in enumerate((1, 1, 2))
    )
    assert len(one) == 5 and one == again != other


def test_fewer_passages_than_asked_for_are_taken_whole_and_counted(
    model: Path, prefixes: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    found = entropies(model, prefixes, tmp_path, num_passages=1000)
    assert found["counts"]["passages"] == len(found["per_passage"]) == len(IDS)
    assert "asked for 1000 passages, the collection has 12" in caplog.text
