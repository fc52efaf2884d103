"""The training of sentence encoders, held to sentence-transformers' own model, losses and evaluation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as their_losses
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    TripletEvaluator,
)
from sentence_transformers.sentence_transformer.modules import Pooling, WordEmbeddings
from small_trainings import OPTIMISER, TASKS, Files, items_of, losses, prepare, sharpen, train
from transformers import AutoModel

from condenser.data.batches import num_steps, step_items
from condenser.data.records import Item, read_items, read_similarities, write_items
from condenser.model.devices import set_up
from condenser.papers.measures import accuracy, spearman
from condenser.papers.sentence_encoder import load_sentence_encoder
from condenser.papers.sentence_training import sentence_loss
from condenser.papers.similarities import write_model_similarities, write_word_similarities
from condenser.train.loop import linear_factor, num_warmup_steps

# weights whose gradients are rounding alone: a distance does not change where all vectors move together
LAST_BIAS = "encoder.layer.2.output.LayerNorm.bias"
ROUNDING = {"similarity": ("key.bias",), "triplets": ("key.bias", LAST_BIAS), "inference": ("key.bias",)}
BATCH_SIZE, EPOCHS, NUM_ITEMS, SEED, MARGIN = 4, 2, 10, 42, 5.0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return sharpened(tmp_path_factory.mktemp("sentences"), dropout=0.0)


@pytest.fixture(scope="module")
def files_with_dropout(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return sharpened(tmp_path_factory.mktemp("dropout"), dropout=0.1)


def sharpened(folder: Path, *, dropout: float) -> Files:
    files = prepare(folder, dropout=dropout)
    sharpen(files.backbone)
    return files


def theirs(files: Files, task: str) -> tuple[list[float], SentenceTransformer]:
    """The same training written out with sentence-transformers' classes and torch's AdamW; no dropout."""
    model = SentenceTransformer(str(files.backbone), device="cpu")
    model.max_seq_length = 32
    if task == "similarity":
        loss: Any = their_losses.CosineSimilarityLoss(model)
    elif task == "triplets":
        loss = their_losses.TripletLoss(model)  # Euclidean, margin 5
    else:
        mine, _ = sentence_loss(model, task, margin=None, products=False, seed=SEED)
        loss = their_losses.SoftmaxLoss(model, model.get_embedding_dimension(), num_labels=3)
        loss.classifier.load_state_dict(mine.classifier.state_dict())
    loss.train()
    named = [(name, weight) for name, weight in loss.named_parameters() if "pooler" not in name]
    plain = ("bias", "LayerNorm.weight")
    optimiser = torch.optim.AdamW(
        [
            {
                "params": [w for n, w in named if not n.endswith(plain)],
                "weight_decay": OPTIMISER["weight_decay"],
            },
            {"params": [w for n, w in named if n.endswith(plain)], "weight_decay": 0.0},
        ],
        lr=OPTIMISER["learning_rate"],
    )
    items, values = items_of(files, task), []
    steps = num_steps(NUM_ITEMS, batch_size=BATCH_SIZE, epochs=EPOCHS)
    warmup = num_warmup_steps(steps, warmup_ratio=OPTIMISER["warmup_ratio"])
    for step in range(steps):
        _, _, places = step_items(NUM_ITEMS, batch_size=BATCH_SIZE, step=step, seed=SEED, stream="sentences")
        batch = [items[place] for place in places]
        labels = torch.tensor([one.label or 0.0 for one in batch])
        labels = labels / 5 if task == "similarity" else labels.long() if task == "inference" else labels
        value = loss(
            [model.preprocess([one.texts[place] for one in batch]) for place in range(TASKS[task])], labels
        )
        value.backward()
        torch.nn.utils.clip_grad_norm_([weight for _, weight in named], OPTIMISER["max_grad_norm"])
        for group in optimiser.param_groups:
            group["lr"] = OPTIMISER["learning_rate"] * linear_factor(
                step, num_steps=steps, num_warmup_steps=warmup
            )
        optimiser.step()
        optimiser.zero_grad()
        values.append(float(value.detach()))
    return values, model


@pytest.mark.parametrize("task", TASKS)
def test_a_training_is_that_of_sentence_transformers(files: Files, tmp_path: Path, task: str) -> None:
    counts = train(task, files, tmp_path / "ours", epochs=EPOCHS)
    values, model = theirs(files, task)
    assert counts["items"] == NUM_ITEMS and counts["steps"] == len(values) == 6
    assert [line["loss"] for line in losses(tmp_path / "ours")] == pytest.approx(values, rel=1e-4)
    ours = AutoModel.from_pretrained(tmp_path / "ours").state_dict()
    for name, weight in model[0].auto_model.state_dict().items():
        if not name.endswith(ROUNDING[task]):
            torch.testing.assert_close(ours[name], weight, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("task", ["similarity", "triplets"])
def test_similarities_and_measures_are_those_of_sentence_transformers(
    files_with_dropout: Files, tmp_path: Path, task: str
) -> None:
    """Of several kinds, ours in the order of columns, its evaluators give `..._max`: the best counts."""
    kinds, folder = ["cosine", "manhattan", "euclidean", "dot"], files_with_dropout.backbone
    items, file = items_of(files_with_dropout, task), tmp_path / "items.test.jsonl"
    write_items(file, items)

    def similarities(kinds: list[str] | None) -> np.ndarray:
        counts = write_model_similarities(
            folder, file, tmp_path / "s.tsv", task=task, similarities=kinds, max_tokens=32,
            batch_tokens=96, compute=set_up(device="cpu", precision="fp32", threads=1),
        )  # fmt: skip
        assert counts == {"items": NUM_ITEMS}
        return np.array([values for _, values in read_similarities(tmp_path / "s.tsv")])

    found, default = similarities(kinds), similarities(None)
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 32
    texts = [[item.texts[place] for item in items] for place in range(TASKS[task])]
    columns = [model.encode(of_place) for of_place in texts]
    if task == "similarity":
        labels = np.array([item.label for item in items])
        cosines = torch.cosine_similarity(*map(torch.from_numpy, columns)).numpy()
        np.testing.assert_allclose(default[:, 0], cosines, atol=1e-5)
        given = EmbeddingSimilarityEvaluator(
            *texts, labels.tolist(), write_csv=False, similarity_fn_names=kinds
        )(model)
        assert [spearman.correlation(column, labels) for column in found.T] == pytest.approx(
            [given[f"spearman_{kind}"] for kind in kinds], abs=1e-6
        )
        assert spearman.values(found, labels).mean() == pytest.approx(given["spearman_max"], abs=1e-6)
    else:
        distances = [np.linalg.norm(columns[0] - other, axis=1) for other in columns[1:]]
        np.testing.assert_allclose(default, -np.stack(distances, axis=1), atol=1e-4)
        given = TripletEvaluator(*texts, write_csv=False, similarity_fn_names=kinds)(model)
        assert accuracy.values(found, np.zeros(NUM_ITEMS)).mean() == pytest.approx(given["max_accuracy"])
        assert (found[:, 0::2] > found[:, 1::2]).mean(axis=0).tolist() == pytest.approx(
            [given[f"{kind}_accuracy"] for kind in kinds]
        )


def test_a_subset_trains_on_its_items_alone(files: Files, tmp_path: Path) -> None:
    (tmp_path / "subset.txt").write_text("".join(f"train-{number}\n" for number in (1, 4, 5)))
    counts = train("similarity", files, tmp_path / "out", subset=tmp_path / "subset.txt")
    assert (counts["items"], counts["steps"], counts["items_seen"]) == (3, 2, 6)


def test_triplets_of_equal_texts_have_a_finite_gradient(files: Files) -> None:
    encoder = load_sentence_encoder(files.backbone, max_tokens=32, device=torch.device("cpu"))
    loss, _ = sentence_loss(encoder, "triplets", margin=MARGIN, products=False, seed=SEED)
    value = loss([encoder.preprocess(["the same"]) for _ in range(3)], torch.zeros(1))
    value.backward()
    assert float(value.detach()) == pytest.approx(MARGIN, abs=1e-3)
    gradients = [weight.grad for weight in encoder.parameters() if weight.grad is not None]
    assert gradients and all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_the_vector_is_computed_in_float32_within_autocast(files: Files) -> None:
    encoder = load_sentence_encoder(files.backbone, max_tokens=32, device=torch.device("cpu")).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        features = encoder(encoder.preprocess(["one two", "three"]))
    assert features["token_embeddings"].dtype == features["sentence_embedding"].dtype == torch.float32


WORDS = {
    "plane": [1.0, 2.0, 0.0],
    "taking": [0.5, -1.0, 2.0],
    "flute": [0.0, 1.0, 1.0],
    "Flute": [3.0, 1.0, -1.0],
}


def word_file(path: Path, *more: str) -> Path:
    lines = [" ".join([word, *map(str, vector)]) for word, vector in WORDS.items()]
    path.write_text("".join(f"{line}\n" for line in [*lines, *more]))
    return path


def test_word_vectors_give_the_similarities_of_sentence_transformers(tmp_path: Path) -> None:
    pairs = [("A Plane, taking off!", "The flute."), ("Flute Flute plane", "taking a plane"), ("zz", "plane")]
    items = [Item(f"test-{number}", texts, 1.0) for number, texts in enumerate(pairs)]
    write_items(tmp_path / "items.test.jsonl", items)
    vectors = word_file(tmp_path / "vectors.txt")
    counts = write_word_similarities(
        vectors, tmp_path / "items.test.jsonl", tmp_path / "s.tsv", task="similarity"
    )
    write_items(tmp_path / "triplet.jsonl", [Item("t", (*pairs[0], pairs[1][1]), None)])
    write_word_similarities(vectors, tmp_path / "triplet.jsonl", tmp_path / "t.tsv", task="triplets")
    found = [values[0] for _, values in read_similarities(tmp_path / "s.tsv")]
    words = WordEmbeddings.from_text_file(str(vectors))
    model = SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())], device="cpu")
    columns = [torch.from_numpy(model.encode([pair[place] for pair in pairs])).double() for place in (0, 1)]
    ((_, distances),) = read_similarities(tmp_path / "t.tsv")
    others = (columns[1][0], columns[1][1])
    assert distances == pytest.approx([-float(torch.dist(columns[0][0], one)) for one in others], abs=1e-6)
    expected = torch.cosine_similarity(*columns).tolist()
    assert found[:2] == pytest.approx(expected[:2], abs=1e-6) and not math.isnan(found[2])
    assert found[2] == 0  # no word is known
    assert counts == {"items": 3, "words": 4, "texts_without_a_word": 1, "lines_left_out": 0}


def test_a_file_without_a_word_of_the_sentences_is_refused(tmp_path: Path) -> None:
    write_items(tmp_path / "items.test.jsonl", [Item("test-1", ("Nothing known", "here"), 1.0)])
    with pytest.raises(
        ValueError, match=r"vectors.txt: expected a word and its vector in each line, got none"
    ):
        write_word_similarities(
            word_file(tmp_path / "vectors.txt"),
            tmp_path / "items.test.jsonl",
            tmp_path / "s.tsv",
            task="similarity",
        )
    assert list(read_items(tmp_path / "items.test.jsonl"))
