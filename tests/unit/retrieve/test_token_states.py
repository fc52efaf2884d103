"""Token states that are kept from the indexing, and rows that are copied from the last one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import sharpen
from transformers import AutoModel, AutoTokenizer

from condenser.data.tokens import Tokenizer, shard_bounds, write_token_shard
from condenser.files import _beside
from condenser.model.backbone import new_backbone
from condenser.model.devices import set_up
from condenser.retrieve import encode as module
from condenser.retrieve.blocks import BlockFile
from condenser.retrieve.encode import encode_texts
from condenser.retrieve.last_rows import LastRows
from condenser.retrieve.token_states import KeptStates, StatesFiles, in_eight_bits, in_floats, states_files

WORDS = [
    "a",
    "retriever",
    "maps",
    "every",
    "passage",
    "to",
    "one",
    "vector",
    "and",
    "finds",
    "neighbours",
    "of",
    "the",
    "question",
]
NUM_ROWS, LENGTH = 29, 24
Row = tuple[str, str]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    drawn = random.Random(5)
    return [
        ("one" * (row % 2), " ".join(drawn.choices(WORDS, k=drawn.randint(1, 30)))) for row in range(NUM_ROWS)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models") / "retriever"
    shape = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "intermediate_size": 64}
    shape |= {"vocab_size": 60, "max_positions": 64}
    new_backbone(folder, seed=5, shape=shape, texts=[" ".join(WORDS)])
    sharpen(folder)
    return folder


def index(
    folder: Path, model: Path, rows: list[Row], *, last: LastRows | None = None, **changes: Any
) -> tuple[dict[str, int], np.ndarray, StatesFiles]:
    """The counts, the embeddings and the states' files of some texts in one shard, or in a part of them."""
    folder.mkdir(exist_ok=True)
    write_token_shard(rows, folder / "texts", Tokenizer(model), batch_size=10, split=True)
    states = states_files(folder / "out.states.npy")
    settings = {
        **{"rows": None, "role": "passage", "max_tokens": LENGTH, "batch_tokens": 128, "block_rows": 8},
        **{"compute": set_up(device="cpu", precision="fp32", threads=1), "name_of_row": str},
        **{"states": states, "states_gb": 1.0, "last": last, "work_folder": folder / "work"},
    } | changes
    counts = encode_texts(model, folder / "texts", folder / "out.npy", **settings)
    return counts, np.load(folder / "out.npy"), states


def test_states_are_those_of_transformers_to_half_of_a_scale(
    tmp_path: Path, model: Path, rows: list[Row]
) -> None:
    counts, _, states = index(tmp_path, model, rows)
    kept = KeptStates([states])
    found, tokenizer, plain = kept.of_rows(np.arange(NUM_ROWS)), AutoTokenizer.from_pretrained(model), None
    plain = AutoModel.from_pretrained(model).eval()
    for (title, text), records in zip(rows, found, strict=True):
        words = [*tokenizer.tokenize(title), *(["[SEP]"] if title else []), *tokenizer.tokenize(text)]
        ids = tokenizer.convert_tokens_to_ids(["[CLS]", *words[: LENGTH - 2], "[SEP]"])
        assert records["id"].tolist() == ids
        with torch.inference_mode():
            expected = plain(torch.tensor([ids])).last_hidden_state[0].numpy()
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        error = np.abs(in_floats(records) - expected)
        assert (error <= records["scale"][:, None] / 2 + 1e-6).all() and error.max() > 1e-5
        assert (np.abs(records["state"]).max(axis=1) == 127).all()
    assert counts["states_bytes"] == sum(map(len, found)) * (32 + 8)


def test_a_state_of_zeros_stays_one() -> None:
    scales, states = in_eight_bits(torch.zeros(2, 4))
    assert (states == 0).all() and np.isfinite(scales).all()


def test_keeping_states_changes_no_vector(tmp_path: Path, model: Path, rows: list[Row]) -> None:
    _, with_states, _ = index(tmp_path / "with", model, rows)
    _, without, _ = index(tmp_path / "without", model, rows, states=None)
    assert with_states.tobytes() == without.tobytes()


def test_the_budget_is_what_all_states_need(tmp_path: Path, model: Path, rows: list[Row]) -> None:
    counts, _, _ = index(tmp_path / "all", model, rows)
    needed = counts["states_bytes"] / 1e9
    for name, budget, is_kept in (("enough", needed, True), ("little", needed - 1e-9, False)):
        counts, embeddings, states = index(tmp_path / name, model, rows, states_gb=budget)
        assert KeptStates([states]).are_kept == is_kept == bool(counts["states_bytes"])
        assert len(np.load(states.states)) == is_kept * counts["tokens"] and len(embeddings) == NUM_ROWS


def test_rows_of_several_shards_are_found(tmp_path: Path, model: Path, rows: list[Row]) -> None:
    _, _, whole = index(tmp_path / "whole", model, rows)
    bounds = shard_bounds(NUM_ROWS, num_shards=5, multiple_of=8)  # of four blocks: one is empty
    parts = [
        index(tmp_path / f"part{number}", model, rows[begin:end])[2]
        for number, (begin, end) in enumerate(bounds)
    ]
    wanted = np.array([28, 0, 7, 8, 17, 3])
    found, expected = (KeptStates(files).of_rows(wanted) for files in (parts, [whole]))
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]


def test_starts_of_other_states_are_refused(tmp_path: Path, model: Path, rows: list[Row]) -> None:
    _, _, some = index(tmp_path / "some", model, rows)
    _, _, fewer = index(tmp_path / "fewer", model, rows[1:])
    with pytest.raises(ValueError, match=r"out\.starts\.npy: expected the starts of .*out\.states\.npy"):
        KeptStates([StatesFiles(some.states, fewer.starts)])


@pytest.mark.parametrize("at", range(1, 8))
def test_a_killed_indexing_resumes_where_vectors_and_states_are_whole(
    tmp_path: Path, model: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Also between the two: a block's vectors are there, its states are not."""
    _, expected, files = index(tmp_path / "whole", model, rows)
    append, calls = BlockFile.append, list[int]()

    def killed(blocks: BlockFile, content: bytes) -> None:
        calls.append(len(content))
        if len(calls) == at:
            raise KeyboardInterrupt
        append(blocks, content)

    with monkeypatch.context() as patched:
        patched.setattr(BlockFile, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            index(tmp_path / "part", model, rows)
    computed = list[int]()
    outputs_of = module.outputs_of
    monkeypatch.setattr(
        module, "outputs_of", lambda *given, **named: computed.append(1) or outputs_of(*given, **named)
    )
    _, found, resumed = index(tmp_path / "part", model, rows)
    assert found.tobytes() == expected.tobytes()
    assert [file.read_bytes() for file in resumed] == [file.read_bytes() for file in files]
    assert len(computed) == 4 - (at - 1) // 2


# ---- rows of the last encoding ---------------------------------------------------------------------


def edited(rows: list[Row], seed: int) -> list[Row]:
    """Some rows are removed, changed, added, doubled, and the order is another."""
    drawn = random.Random(seed)
    made = [row for row in rows if drawn.random() < 0.8]
    made = [(title, f"{text} question") if drawn.random() < 0.2 else (title, text) for title, text in made]
    made += [("", " ".join(drawn.choices(WORDS, k=drawn.randint(1, 30)))) for _ in range(drawn.randint(0, 9))]
    made += drawn.sample(made, 2)
    if seed % 2:
        drawn.shuffle(made)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_after_edits_the_result_is_that_from_nothing(
    tmp_path: Path, model: Path, rows: list[Row], seed: int
) -> None:
    _, _, files = index(tmp_path / "first", model, rows, last=LastRows(tmp_path / "last", "model"))
    known = {records["id"].tobytes() for records in KeptStates([files]).of_rows(np.arange(NUM_ROWS))}
    for number, now in enumerate((edited(rows, seed), edited(rows, seed + 100))):
        counts, found, states = index(
            tmp_path / f"{number}", model, now, last=LastRows(tmp_path / "last", "model")
        )
        _, expected, of_states = index(tmp_path / f"new{number}", model, now)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        kept, anew = (KeptStates([files]).of_rows(np.arange(len(now))) for files in (states, of_states))
        for one, other in zip(kept, anew, strict=True):
            assert (one["id"] == other["id"]).all()
            np.testing.assert_allclose(one["scale"], other["scale"], rtol=1e-4)
            assert np.abs(one["state"].astype(int) - other["state"]).max() <= 1  # rounded to the other side
        ids = [records["id"].tobytes() for records in kept]
        assert 0 < counts["rows_copied"] == sum(one in known for one in ids) < counts["rows"] == len(now)
        known = set(ids)


def test_where_nothing_changed_nothing_is_encoded(
    tmp_path: Path, model: Path, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, expected, files = index(tmp_path / "first", model, rows, last=LastRows(tmp_path / "last", "model"))
    monkeypatch.setattr(module, "outputs_of", None)
    last = LastRows(tmp_path / "last", "model")
    counts, found, copied = index(tmp_path / "again", model, rows, last=last)
    assert found.tobytes() == expected.tobytes() and counts["rows_copied"] == NUM_ROWS
    assert [file.read_bytes() for file in copied] == [file.read_bytes() for file in files]


@pytest.mark.parametrize("change", ["identity", "damage", "half", "no states"])
def test_rows_of_another_model_or_of_damaged_files_are_not_copied(
    tmp_path: Path, model: Path, rows: list[Row], change: str
) -> None:
    budget = 0.0 if change == "no states" else 1.0
    last = LastRows(tmp_path / "last", "model")
    index(tmp_path / "first", model, rows, last=last, states_gb=budget)
    if change == "damage":
        file = tmp_path / "last" / "embeddings.npy"
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.unlink()
        file.write_bytes(content)
    elif change == "half":
        shutil.move(tmp_path / "last" / "keys.npy", tmp_path / "keys.npy")
    identity = "another" if change == "identity" else "model"
    assert LastRows(tmp_path / "last", "model").folder.exists() == (change in ("identity", "no states"))
    counts, found, _ = index(tmp_path / "again", model, rows, last=LastRows(tmp_path / "last", identity))
    _, expected, _ = index(tmp_path / "new", model, rows)
    assert counts["rows_copied"] == 0 and found.tobytes() == expected.tobytes()


def test_the_half_that_a_killed_process_kept_is_removed(tmp_path: Path) -> None:
    half = _beside(tmp_path / "one")  # as `atomic_folder` names it
    half.mkdir()
    (half / "embeddings.npy").write_text("half")
    (other := _beside(tmp_path / "one.0-of-2")).mkdir()
    LastRows(tmp_path / "one", "model")
    assert list(tmp_path.iterdir()) == [other]
