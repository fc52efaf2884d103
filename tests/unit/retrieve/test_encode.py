from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from job_files import do
from small_trainings import sharpen
from transformers import AutoModel, AutoTokenizer

from condenser.data.tokens import Tokenizer, shard_bounds, write_token_shard
from condenser.model.backbone import new_backbone
from condenser.model.backbone_sources import embedded_folder
from condenser.model.devices import set_up
from condenser.model.retriever import Retriever
from condenser.retrieve import inference
from condenser.retrieve.encode import encode_texts

WORDS = [
    "a", "retriever", "maps", "every", "passage", "to", "one",
    "vector", "and", "finds", "neighbours", "of", "the", "question",
]  # fmt: skip
HEADER = 128  # bytes of an NPY file
NUM_ROWS = 45


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    """Titled, untitled, empty and over-long texts of many lengths."""
    rng = np.random.default_rng(3)
    made = [
        (" ".join(rng.choice(WORDS, row % 3)), " ".join(rng.choice(WORDS, int(rng.integers(1, 40)))) + ".")
        for row in range(NUM_ROWS)
    ]
    made[7] = ("", "")
    made[11] = (made[11][0], " ".join(WORDS * 8))
    return made


@pytest.fixture(scope="module")
def retriever(tmp_path_factory, texts) -> Path:
    """Two layers as wide as the embedded backbone's over few words, which load in no time."""
    folder = tmp_path_factory.mktemp("models") / "retriever"
    layers = {"hidden_size": 384, "num_layers": 2, "num_heads": 12, "intermediate_size": 1536}
    new_backbone(
        folder,
        seed=5,
        shape={**layers, "vocab_size": 90, "max_positions": 64},
        texts=[text for _, text in texts],
    )
    sharpen(folder)
    return folder


@pytest.fixture(scope="module")
def tokens(tmp_path_factory, retriever, texts) -> Path:
    """All texts in one shard."""
    return token_shards(tmp_path_factory.mktemp("tokens"), retriever, texts, num_shards=1)[0]


def token_shards(folder: Path, model: Path, texts: list[tuple[str, str]], *, num_shards: int) -> list[Path]:
    """The texts in shards cut at multiples of 8 rows, by the model's own tokenizer."""
    tokenizer, prefixes = Tokenizer(model), []
    for number, (begin, end) in enumerate(shard_bounds(NUM_ROWS, num_shards=num_shards, multiple_of=8)):
        prefixes.append(folder / f"collection.{number}-of-{num_shards}")
        write_token_shard(texts[begin:end], prefixes[-1], tokenizer, batch_size=10, split=True)
    return prefixes


def encode_into(folder: Path, retriever: Path, tokens: Path, **changes) -> dict[str, int]:
    precision = changes.pop("precision", "fp32")
    settings = {
        **{"rows": None, "role": "passage", "max_tokens": 32, "batch_tokens": 128, "block_rows": 8},
        "compute": set_up(device="cpu", precision=precision, threads=1),
        "name_of_row": lambda row: f"passage d{row}",
    } | changes
    return encode_texts(retriever, tokens, folder / "out.npy", work_folder=folder / "work", **settings)


def encoded(folder: Path, retriever: Path, tokens: Path, **changes) -> np.ndarray:
    encode_into(folder, retriever, tokens, **changes)
    return np.load(folder / "out.npy")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, retriever, tokens) -> Path:
    """A folder in which all texts are encoded: `out.npy` and the work folder."""
    folder = tmp_path_factory.mktemp("encoded")
    encoded(folder, retriever, tokens)
    return folder


def test_embeddings_are_the_last_layers_cls_of_title_sep_text(retriever, finished, texts):
    ours = np.load(finished / "out.npy")
    tokenizer, model = AutoTokenizer.from_pretrained(retriever), AutoModel.from_pretrained(retriever).eval()
    assert ours.shape == (NUM_ROWS, 384)
    assert ours.dtype == np.float32
    for row, (title, text) in enumerate(texts):
        words = (
            tokenizer.tokenize(title) + ([tokenizer.sep_token] if title else []) + tokenizer.tokenize(text)
        )
        ids = tokenizer.convert_tokens_to_ids([tokenizer.cls_token, *words[:30], tokenizer.sep_token])
        with torch.inference_mode():
            cls = model(torch.tensor([ids])).last_hidden_state[0, 0].numpy()
        np.testing.assert_allclose(ours[row], cls, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("file", "damage", "begins"),
    [
        ("embeddings.npy", lambda content: content, 48),  # killed before its manifest
        ("embeddings.npy", lambda content: b"", 0),
        ("embeddings.npy", lambda content: flipped(content, HEADER - 1), 0),
        ("embeddings.npy", lambda content: flipped(content, HEADER + 3 * 8 * 384 * 4), 24),
        ("embeddings.npy", lambda content: flipped(content, len(content) - 1), 40),
        ("embeddings.npy", lambda content: content[: HEADER + 2 * 8 * 384 * 4 + 5], 16),
        ("embeddings.sha256", lambda content: flipped(content, 0), 0),
        ("embeddings.sha256", lambda content: content[:70], 8),
    ],
)
def test_a_damaged_block_is_encoded_again(tmp_path, retriever, tokens, finished, noted, file, damage, begins):
    shutil.copytree(finished / "work", tmp_path / "work")
    path = tmp_path / "work" / file
    path.write_bytes(damage(path.read_bytes()))
    blocks = noted(inference, "row_windows", lambda shards, rows, **_: int(rows[0]))
    encoded(tmp_path, retriever, tokens)
    assert (tmp_path / "out.npy").read_bytes() == (finished / "out.npy").read_bytes()
    assert blocks == list(range(begins, NUM_ROWS, 8))


def flipped(content, place):
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_bfloat16_moves_no_embedding_beyond_its_rounding(tmp_path, texts):
    """By what an embedding has of its own: its distance from the mean of all."""
    (tokens,) = token_shards(tmp_path, embedded_folder(), texts, num_shards=1)
    exact, ours = (
        encoded(tmp_path / precision, embedded_folder(), tokens, precision=precision)
        for precision in ("fp32", "bf16")
    )
    unit = 2.0**-8  # six layers of some six products, each rounded so, add up like a random walk: 6 units
    error = np.linalg.norm(ours - exact, axis=1)
    assert (error > 0).all()  # it was bfloat16
    assert (error < 8 * unit * np.linalg.norm(exact - exact.mean(axis=0), axis=1)).all()


@pytest.mark.parametrize(
    ("precision", "num_shards"), [("fp32", 3), ("bf16", 2), ("bf16", 7)]
)  # six blocks: of seven shards one is empty
def test_the_number_of_shards_changes_no_bit(tmp_path, retriever, tokens, texts, precision, num_shards):
    whole = encoded(tmp_path, retriever, tokens, precision=precision)
    shards = token_shards(tmp_path, retriever, texts, num_shards=num_shards)
    parts = [encoded(tmp_path / shard.name, retriever, shard, precision=precision) for shard in shards]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_of_chosen_rows_the_embeddings_are_theirs_in_that_order(tmp_path, retriever, tokens, finished):
    every = encoded(tmp_path / "every", retriever, tokens, rows=range(NUM_ROWS))
    assert (tmp_path / "every" / "out.npy").read_bytes() == (finished / "out.npy").read_bytes()
    rows = [40, 3, 11, 7, *range(20, 30)]
    some = encoded(tmp_path / "some", retriever, tokens, rows=rows)
    # other rows share a batch with other neighbours, and sums of floats with them
    np.testing.assert_allclose(some, every[rows], rtol=1e-4, atol=1e-5)
    assert encoded(tmp_path / "none", retriever, tokens, rows=[]).shape == (0, 384)


def test_chosen_rows_resume_after_their_saved_blocks(tmp_path, retriever, tokens, noted):
    rows = list(range(1, NUM_ROWS, 2))  # 22: three blocks
    whole = encoded(tmp_path, retriever, tokens, rows=rows)
    path = tmp_path / "work" / "embeddings.npy"
    path.write_bytes(path.read_bytes()[: HEADER + 2 * 8 * 384 * 4])
    blocks = noted(inference, "row_windows", lambda shards, rows, **_: rows.tolist())
    assert encoded(tmp_path, retriever, tokens, rows=rows).tobytes() == whole.tobytes()
    assert blocks == [rows[16:]]


def test_an_interrupted_encoding_resumes_after_its_saved_blocks(tmp_path, retriever, tokens, finished, noted):
    blocks = noted(inference, "row_windows", lambda shards, rows, **_: int(rows[0]), breaks_at=4)
    with pytest.raises(KeyboardInterrupt):
        encoded(tmp_path, retriever, tokens)
    with (tmp_path / "work" / "embeddings.npy").open("ab") as file:
        file.write(b"half a block")  # written, but not known to be complete
    encoded(tmp_path, retriever, tokens)
    assert (tmp_path / "out.npy").read_bytes() == (finished / "out.npy").read_bytes()
    assert blocks == [0, 8, 16, 24, 24, 32, 40]


def test_the_file_is_written_once_and_copied_where_no_link_is_possible(
    tmp_path, retriever, tokens, finished, monkeypatch
):
    assert (finished / "out.npy").samefile(finished / "work" / "embeddings.npy")

    def refused(*_):
        raise OSError

    shutil.copytree(finished / "work", tmp_path / "work")
    monkeypatch.setattr(os, "link", refused)
    encoded(tmp_path, retriever, tokens)
    output, work = tmp_path / "out.npy", tmp_path / "work" / "embeddings.npy"
    assert not output.samefile(work) and output.read_bytes() == work.read_bytes()
    assert output.read_bytes() == (finished / "out.npy").read_bytes()


def test_an_embedding_with_nan_is_an_error_with_its_id(tmp_path, retriever, tokens):
    model = Retriever.load(retriever, dropout=None)
    with torch.no_grad():
        model.backbone.embeddings.position_embeddings.weight[31] = float("nan")  # only long rows get there
    model.save(tmp_path / "broken", retriever)
    with pytest.raises(ValueError, match=r"broken: expected finite embeddings, .* passage d\d+ and \d+ more"):
        encoded(tmp_path, tmp_path / "broken", tokens)
    with pytest.raises(ValueError, match=r"for passage d11 and 0 more of"):  # 11 is its row of the shard
        encoded(tmp_path / "few", tmp_path / "broken", tokens, rows=[7, 11], batch_tokens=8)


def test_the_program_names_a_passage_by_its_row_of_the_whole_collection(tmp_path, retriever, texts):
    model = Retriever.load(retriever, dropout=None)
    with torch.no_grad():
        model.backbone.embeddings.position_embeddings.weight[0] = float("nan")
    model.save(tmp_path / "broken", retriever)
    shard = token_shards(tmp_path, retriever, texts, num_shards=2)[1]
    (tmp_path / "doc_ids.txt").write_text("".join(f"id {row}\n" for row in range(NUM_ROWS)))
    config = {
        "recipe": {"lengths": {"passage": 32}},
        "encode": {"batch_tokens": 512, "block_rows": 8},
        "compute": {"threads": 1, "device": "cpu", "precision": "fp32"},
        "states_gb": 0.0,
    }
    parts = ("states", "starts")
    with pytest.raises(ValueError, match="NaN or infinity for passage id 24 and 7 more of its block"):
        do(
            "encode",
            settings=config,
            wildcards={"shard": "1-of-2"},
            input={
                "model": tmp_path / "broken" / "model.safetensors",
                "tokens": f"{shard}.tokens.npy",
                "doc_ids": tmp_path / "doc_ids.txt",
                "lengths": [],
            },
            output={
                "embeddings": tmp_path / "out.npy",
                "manifest": tmp_path / "m.json",
                **{part: tmp_path / f"{part}.npy" for part in parts},
            },
            options={"last": tmp_path / "last"},
        )
    assert not (tmp_path / "out.npy").exists() and not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_counts_tell_how_many_texts_were_cut_and_have_no_vector(
    tmp_path, retriever, texts, monkeypatch, factor
):
    vectors_of = Retriever.forward
    monkeypatch.setattr(Retriever, "forward", lambda model, rows: factor * vectors_of(model, rows))
    tokenizer = Tokenizer(retriever)
    lengths = [
        len(tokenizer.encode([text])[0]) + (len(tokenizer.encode([title])[0]) + 1 if title else 0) + 2
        for title, text in texts[24:]
    ]
    limit = next(length for length in lengths if length + 1 in lengths)  # one fits, one is a token too long
    shard = token_shards(tmp_path, retriever, texts, num_shards=2)[1]
    assert encode_into(tmp_path, retriever, shard, max_tokens=limit, batch_tokens=64) == {
        "rows": NUM_ROWS - 24,
        "tokens": sum(min(length, limit) for length in lengths),
        "rows_cut": sum(length > limit for length in lengths),
        "zero_vectors": (NUM_ROWS - 24) * (factor == 0.0),
    }
