"""The LSTM over word vectors: its forward pass by hand, its training, and its folder in the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from job_files import do
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from small_trainings import OPTIMISER, SENTENCES, contents, run_of
from torch import Tensor, nn

from condenser.data.records import Item, read_similarities, write_items
from condenser.model.devices import set_up
from condenser.papers.lstm import new_lstm
from condenser.papers.sentence_encoder import load_sentence_encoder
from condenser.papers.sentence_training import sentence_loss, sentence_training
from condenser.papers.similarities import write_model_similarities
from condenser.papers.word_vectors import read_word_vectors
from condenser.train.loop import train_to_folder

WORDS = ["the", "cat", "sat", "on", "a", "mat", ",", "dog", "<unk>", "</s>"]
TEXTS = ["The cat sat on a mat", "a zebra", "", "cat, cat, cat, dog", "the dog sat"]
# each text as rows of the file; its words between the begin, which the file lacks (-1: zeros), and the end
ROWS = [
    [-1, 0, 1, 2, 3, 4, 5, 9], [-1, 4, 8, 9], [-1, 9], [-1, 1, 6, 1, 6, 1, 6, 7, 9], [-1, 0, 7, 2, 9],
]  # fmt: skip
DIM, HIDDEN, SEED = 3, 5, 42


def vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(len(WORDS), DIM)).astype(np.float32)


def vectors_file(path: Path) -> Path:
    lines = (" ".join([word, *map(repr, row)]) for word, row in zip(WORDS, vectors().tolist(), strict=True))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def start(folder: Path, *, pooling: str = "max", num_words: int = 100, seed: int = SEED) -> Path:
    folder.mkdir(exist_ok=True)
    file = vectors_file(folder / "vectors.txt")
    read, _ = read_word_vectors(file, None, most=num_words)
    new_lstm(read, folder / pooling, hidden_size=HIDDEN, pooling=pooling, seed=seed)
    return folder / pooling


def by_hand(folder: Path, rows: list[int], *, pooling: str) -> Tensor:
    """The vector of one text, without padding and without packing, by torch's own LSTM."""
    lstm = nn.LSTM(DIM, HIDDEN, bidirectional=True, batch_first=True)
    weights = load_file(folder / "1_LSTM" / "model.safetensors")
    lstm.load_state_dict({name.removeprefix("encoder."): value for name, value in weights.items()})
    words = torch.from_numpy(np.concatenate([vectors(), np.zeros((1, DIM), np.float32)])[rows])
    with torch.inference_mode():
        states = lstm(words[None])[0][0]
    return states.amax(dim=0) if pooling == "max" else states.mean(dim=0)


@pytest.mark.parametrize("pooling", ["max", "mean"])
def test_the_vector_is_pooled_over_the_states_of_an_lstm_in_both_directions(
    tmp_path: Path, pooling: str
) -> None:
    folder = start(tmp_path, pooling=pooling)
    expected = torch.stack([by_hand(folder, rows, pooling=pooling) for rows in ROWS])
    encoder = load_sentence_encoder(folder, max_tokens=32, device=torch.device("cpu")).eval()
    with torch.inference_mode():
        together = encoder(encoder.preprocess(TEXTS))["sentence_embedding"]
        alone = [encoder(encoder.preprocess([text]))["sentence_embedding"][0] for text in TEXTS]
    torch.testing.assert_close(together, expected)
    torch.testing.assert_close(together, torch.stack(alone))  # padding changes nothing
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoder(encoder.preprocess(TEXTS))["sentence_embedding"], together)
    library = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    torch.testing.assert_close(torch.from_numpy(library), expected)


def test_a_long_text_is_cut_and_a_file_is_read_to_the_number_of_words(tmp_path: Path) -> None:
    folder = start(tmp_path, num_words=3)
    encoder = load_sentence_encoder(folder, max_tokens=4, device=torch.device("cpu"))
    features = encoder.preprocess([TEXTS[0]])
    known = encoder[0].tokenizer.get_vocab(())
    assert sorted(known, key=known.get) == ["the", "cat", "sat", "<unk>", "<s>", "</s>"]
    assert features["input_ids"].tolist() == [[known["<s>"], 0, 1, 2]]
    assert encoder[0].emb_layer.weight[3:].eq(0).all()


def test_a_file_with_capital_letters_keeps_them(tmp_path: Path) -> None:
    cased = {"cat": np.ones(2, np.float32), "Cat": np.ones(2, np.float32)}
    new_lstm(cased, tmp_path / "m", hidden_size=2, pooling="max", seed=1)
    encoder = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    assert encoder.preprocess(["Cat cat CAT"])["input_ids"].tolist() == [[3, 1, 0, 2, 4]]


def items_of(task: str) -> list[Item]:
    texts = [" ".join(np.random.default_rng(row).choice(WORDS[:8], 2 + row % 5)) for row in range(30)]
    size = 3 if task == "triplets" else 2
    labels: dict[str, Any] = {"inference": lambda row: float(row % 3), "similarity": lambda row: row % 6}
    label = labels.get(task, lambda row: None)
    return [Item(f"train-{row}", tuple(texts[row * size :][:size]), label(row)) for row in range(10)]


def train(folder: Path, task: str, output: Path) -> dict[str, int]:
    torch.set_num_threads(1)
    items = output.with_name(f"{output.name}.jsonl")
    write_items(items, items_of(task))
    run = run_of(task, output, {**OPTIMISER, **SENTENCES, "products": True}, seed=SEED)
    return train_to_folder(sentence_training(items, None, folder, run, task=task), run, output)


@pytest.mark.parametrize("task", ["similarity", "triplets", "inference", "neighbours"])
def test_a_training_moves_the_lstm_alone_and_repeats_to_the_byte(tmp_path: Path, task: str) -> None:
    folder = start(tmp_path)
    assert train(folder, task, tmp_path / "first")["steps"] == 6
    train(folder, task, tmp_path / "second")
    first = contents(tmp_path / "first")
    assert first == contents(tmp_path / "second")
    assert first["model.safetensors"] == contents(folder)["model.safetensors"]  # vectors of words
    before, after = (load_file(of / "1_LSTM/model.safetensors") for of in (folder, tmp_path / "first"))
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_the_weights_are_drawn_by_the_seed(tmp_path: Path) -> None:
    first, again, other = (
        contents(start(tmp_path / name, seed=seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {"1_LSTM/model.safetensors"}


def test_a_trained_folder_and_its_copy_as_a_model_load_in_sentence_transformers(tmp_path: Path) -> None:
    train(start(tmp_path), "similarity", tmp_path / "out")
    settings = {"objective": "checkpoint", "source": "system", "pooling": None, "normalised": None}
    output = {"model": tmp_path / "copy/model.safetensors", "manifest": tmp_path / "copy.manifest.json"}
    do(
        "checkpoint",
        settings={"model": settings | {"prompts": {"query": None, "passage": None}}, "seed": 1},
        input={"collection": [], "system": tmp_path / "out" / "model.safetensors"},
        output=output,
        options={"mirror": None},
    )
    trained, copied = contents(tmp_path / "out"), contents(tmp_path / "copy")
    del trained["losses.jsonl"]
    assert copied == trained
    items, file = items_of("similarity"), tmp_path / "items.jsonl"
    write_items(file, items)
    write_model_similarities(
        tmp_path / "copy", file, tmp_path / "s.tsv", task="similarity", similarities=None, max_tokens=32,
        batch_tokens=64, compute=set_up(device="cpu", precision="fp32", threads=1),
    )  # fmt: skip
    ours = [values[0] for _, values in read_similarities(tmp_path / "s.tsv")]
    model = SentenceTransformer(str(tmp_path / "copy"), device="cpu")
    columns = [model.encode([item.texts[place] for item in items]) for place in (0, 1)]
    cosines = torch.cosine_similarity(*map(torch.from_numpy, columns)).numpy()
    np.testing.assert_allclose(ours, cosines, atol=1e-6)


@pytest.mark.parametrize("task", ["inference", "neighbours"])
def test_the_losses_of_infersent_and_quick_thoughts_by_hand(tmp_path: Path, task: str) -> None:
    folder, batch = start(tmp_path), items_of(task)[:4]
    encoder = load_sentence_encoder(folder, max_tokens=32, device=torch.device("cpu"))
    loss, _ = sentence_loss(encoder, task, margin=None, products=True, seed=SEED)
    columns = [[item.texts[place] for item in batch] for place in (0, 1)]
    labels = torch.tensor([int(item.label or 0) for item in batch])
    value = float(loss([encoder.preprocess(column) for column in columns], labels).detach())
    first, second = (encoder.encode(column).astype(np.float64) for column in columns)
    if task == "inference":
        weight, bias = (
            part.detach().double().numpy() for part in (loss.classifier.weight, loss.classifier.bias)
        )
        scores = np.hstack([first, second, np.abs(first - second), first * second]) @ weight.T + bias
    else:
        scores, labels = first @ second.T, torch.arange(4)
    of_right = scores[np.arange(4), labels.numpy()] - np.log(np.exp(scores).sum(axis=1))
    assert value == pytest.approx(-of_right.mean(), rel=1e-5)
    if task == "neighbours":  # only the vectors are rounded
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = loss([encoder.preprocess(column) for column in columns], labels)
        assert rounded.dtype == torch.float32 and float(rounded.detach()) == pytest.approx(value, rel=0.02)
