"""An encoder of every architecture goes through every training, encoding and export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from architectures import ARCHITECTURES, TEXTS, tokenizer_of
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder as TheirCrossEncoder
from sentence_transformers import SentenceTransformer
from small_trainings import (
    OBJECTIVES,
    OPTIMISER,
    Files,
    contents,
    losses,
    prepare,
    run_of,
    train,
)

from condenser import kinds
from condenser.data.batches import pack_pairs, pair_windows
from condenser.data.records import Item, write_items
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.export.folders import joined, write_model
from condenser.model.backbone import backbone_from
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import set_up
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.retrieve.encode import encode_texts
from condenser.train.loop import train_to_folder
from condenser.train.pretrain import pretraining
from condenser.train.sentences import sentence_training

torch.set_num_threads(1)
_COMMON = {"initial_share": 0.0, "batch_size": 8, "rows_per_chunk": 5, "epochs": 1, "updates": None}
MLM = {"max_tokens": 30, "short_probability": 0.1, "mask_probability": 0.15, **_COMMON}
ICT = {
    **{"max_sentence_tokens": 10, "max_tokens": 30, "remove_probability": 0.9},
    **{"gradient_cache": "always", "memory_gb": 1.0, "scale": None, **_COMMON, "epochs": None, "updates": 2},
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("every"), dropout=0.0, kind=request.param)


def kind_of(files: Files) -> str:
    kind: str = json.loads((files.backbone / "config.json").read_text())["model_type"]
    return kind


def pretrained(objective: str, files: Files, output: Path, initial: Path, **changes: Any) -> None:
    settings = {**OBJECTIVES, "mlm": MLM, "ict": ICT}[objective]
    run = run_of(objective, output, OPTIMISER | settings, **changes)
    training = kinds.load("objectives", objective).training
    trainable = pretraining(training, files.tokens, initial, run, title=objective, doc_ids=files.doc_ids)
    train_to_folder(trainable, run, output)


def assert_loss_falls(output: Path) -> None:
    """The mean over the last third of the steps is below that over the first third."""
    steps = [step["loss"] for step in losses(output)]
    third = max(1, len(steps) // 3)
    assert np.mean(steps[-third:]) < np.mean(steps[:third]), (output.name, steps)


def vectors(folder: Path, files: Files, prefix: Path, work: Path) -> np.ndarray:
    encode_texts(
        folder,
        prefix,
        work / "vectors.npy",
        rows=None,
        role="passage",
        max_tokens=40,
        batch_tokens=512,
        block_rows=16,
        compute=set_up(device="cpu", precision="fp32", threads=1),
        work_folder=work / "work",
        name_of_row=str,
    )
    return np.load(work / "vectors.npy")


def test_it_is_pre_trained_by_every_objective(files: Files, tmp_path: Path) -> None:
    """Then the loss of the first batch is lower; between batches the losses of contrast differ by more.

    So few sentences teach the inverse cloze task nothing: of it only that the weights were trained.
    """
    for name in ("condenser", "cocondenser", "mlm", "ict"):
        output, again = tmp_path / name, tmp_path / f"{name}-again"
        initial = tmp_path / "condenser" if name == "cocondenser" else files.backbone
        pretrained(name, files, output, initial)
        _, outcome = transformers.AutoModel.from_pretrained(output, output_loading_info=True)
        assert not any(outcome.values()), (name, outcome)
        if name == "ict":
            start, trained = (load_file(folder / "model.safetensors") for folder in (initial, output))
            assert any(not torch.equal(trained[key], start[key]) for key in trained)
            continue
        pretrained(name, files, again, output, updates=1)
        before, after = (losses(folder)[0]["loss"] for folder in (output, again))
        assert after < before - 0.05, (name, before, after)


def test_the_cached_gradient_of_cocondenser_is_the_plain_one(files: Files, tmp_path: Path) -> None:
    train("condenser", files, tmp_path / "start", updates=1)
    for cache in ("always", "never"):
        train(
            "cocondenser",
            files,
            tmp_path / cache,
            initial=tmp_path / "start",
            gradient_cache=cache,
            updates=2,
        )
    first, second = (contents(tmp_path / cache)["losses.jsonl"] for cache in ("always", "never"))
    for one, other in zip(*(map(json.loads, text.splitlines()) for text in (first, second)), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)


def test_it_is_fine_tuned_encodes_and_is_exported_as_it_is_used(files: Files, tmp_path: Path) -> None:
    train("retriever", files, tmp_path / "tied", epochs=6)
    train("untied", files, tmp_path / "untied")
    assert_loss_falls(tmp_path / "tied")
    assert (tmp_path / "untied" / "query" / "model.safetensors").is_file()
    write_model(tmp_path / "tied", tmp_path / "export", query_length=12, passage_length=40)
    library = SentenceTransformer(str(tmp_path / "export"), device="cpu", local_files_only=True)
    separator = Tokenizer(tmp_path / "tied").joint
    texts = [
        joined(passage.title, passage.text, separator=separator, always=False) for passage in files.passages
    ]
    theirs = library.encode(texts[:30], batch_size=7)
    ours = vectors(tmp_path / "tied", files, files.tokens[0], tmp_path)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_a_cross_encoder_scores_pairs_as_sentence_transformers_does(files: Files, tmp_path: Path) -> None:
    train("crossencoder", files, tmp_path / "out")
    tokenizer, model = Tokenizer(tmp_path / "out"), CrossEncoder.load(tmp_path / "out").eval()
    for name, texts in (
        ("q", ["the signal of", "Who, then?"]),
        ("p", ["A signal. It is sent on.", "No one."]),
    ):
        write_token_shard(
            [("", text) for text in texts], tmp_path / name, tokenizer, batch_size=8, split=True
        )
    queries, passages = TokenShards([tmp_path / "q"]), TokenShards([tmp_path / "p"])
    windows = pair_windows(
        *(queries, np.arange(2), passages, np.arange(2)),
        query_length=12,
        passage_length=40,
        num_separators=tokenizer.num_separators,
    )
    ids, types = pack_pairs(queries, passages, windows, tokenizer)
    rows = Rows.of(ids, windows.lengths, token_types=types if model.encoder.config.has_segments else None)
    with torch.inference_mode():
        scores = model(rows)[:, 0].numpy()
    library = TheirCrossEncoder(str(tmp_path / "out"), device="cpu", local_files_only=True)
    pairs = [("the signal of", "A signal. It is sent on."), ("Who, then?", "No one.")]
    np.testing.assert_allclose(scores, library.predict(pairs), rtol=1e-4, atol=1e-5)


def test_a_sentence_encoder_is_trained_by_the_library_and_kept_by_name(files: Files, tmp_path: Path) -> None:
    texts = [" ".join(passage.text.split()[:6]) for passage in files.passages]
    items = [Item(f"train-{row}", tuple(texts[2 * row : 2 * row + 2]), float(row % 6)) for row in range(10)]
    write_items(tmp_path / "items.jsonl", items)
    settings = {"max_tokens": 32, "batch_size": 4, "epochs": 1, "margin": 5.0, "products": False}
    run = run_of("similarity", tmp_path / "out", {**OPTIMISER, **settings})
    trainable = sentence_training(tmp_path / "items.jsonl", None, files.backbone, run, task="similarity")
    train_to_folder(trainable, run, tmp_path / "out")
    start, trained = (
        load_file(folder / "model.safetensors") for folder in (files.backbone, tmp_path / "out")
    )
    assert start.keys() == trained.keys()
    moved = [name for name in start if not torch.equal(start[name], trained[name])]
    assert len(moved) > len(start) / 2, moved


def test_tokens_of_sentences_are_those_of_the_whole_text(tmp_path: Path) -> None:
    texts = [*TEXTS, 'One.  Two!\n\n"Three?" she said...  And 4: five. ', "x", "", "Née à Zürich. 北京 ok."]
    for kind in ARCHITECTURES:
        library = tokenizer_of(kind, TEXTS)
        library.save_pretrained(tmp_path / kind)
        tokenizer = Tokenizer(tmp_path / kind)
        prefix = tmp_path / kind / "t"
        write_token_shard([("", text) for text in texts], prefix, tokenizer, batch_size=3, split=True)
        shards = TokenShards([prefix])
        for row, text in enumerate(texts):
            start, end = shards.row_starts[row : row + 2]
            ids = shards.read(np.array([start]), np.array([end - start]), width=end - start, fill=0)[0]
            assert ids.tolist() == library(text, add_special_tokens=False)["input_ids"], (kind, text)


def test_words_begin_where_the_tokenizer_begins_them(tmp_path: Path) -> None:
    """Where spaces or punctuation begin a word, so does the vocabulary's rule; it splits nothing else."""
    for kind in ARCHITECTURES:
        library = tokenizer_of(kind, TEXTS)
        library.save_pretrained(tmp_path / kind)
        tokenizer = Tokenizer(tmp_path / kind)
        for text in TEXTS:
            encoding = library(text, add_special_tokens=False, return_offsets_mapping=True)
            for token, (begin, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
                piece = text[begin:end]
                begins = (
                    begin == 0 or piece[:1].isspace() or text[begin - 1].isspace() or not piece[0].isalnum()
                )
                continues = bool(tokenizer.is_continuation[token])
                if (begin == 0 and tokenizer.keeps_spaces) or piece == "" or kind == "bert":
                    continue  # the first piece of a text has no space before it
                if text[begin - 1].isalnum() or piece[:1].isspace():
                    assert continues != begins, (kind, text, piece)


def test_every_pooling_and_a_dense_layer_are_those_of_sentence_transformers(
    files: Files, tmp_path: Path
) -> None:
    from sentence_transformers.sentence_transformer import modules

    texts = [passage.text for passage in files.passages[:12]]
    for name, mode in (("max", "max"), ("last", "lasttoken"), ("weighted", "weightedmean"), ("mean", "mean")):
        transformer = modules.Transformer(str(files.root / "source"), max_seq_length=40)
        dense = modules.Dense(24, 10, activation_function=torch.nn.Tanh())
        parts = [transformer, modules.Pooling(24, pooling_mode=mode), dense, modules.Normalize()]
        library = SentenceTransformer(modules=parts, device="cpu")
        library.save(str(tmp_path / name), create_model_card=False)
        counts = backbone_from(tmp_path / name, tmp_path / f"{name}-ours", seed=1)
        assert (counts["pooling"], counts["normalised"], counts["max_seq_length"]) == (name, True, 40)
        tokenizer, prefix = Tokenizer(tmp_path / f"{name}-ours"), tmp_path / f"{name}-tokens"
        write_token_shard([("", text) for text in texts], prefix, tokenizer, batch_size=8, split=True)
        (tmp_path / f"{name}-work").mkdir()
        ours = vectors(tmp_path / f"{name}-ours", files, prefix, tmp_path / f"{name}-work")
        np.testing.assert_allclose(ours, library.encode(texts), rtol=0, atol=1e-5)
        model = Retriever.load(tmp_path / f"{name}-ours", dropout=None)
        assert model.dim == 10
        model.save(tmp_path / f"{name}-saved", tmp_path / f"{name}-ours")
        again = SentenceTransformer(str(tmp_path / f"{name}-saved"), device="cpu", local_files_only=True)
        again.max_seq_length = 40
        np.testing.assert_allclose(again.encode(texts), ours, rtol=0, atol=1e-5)


@pytest.mark.ci
def test_onnx_gives_the_vectors_for_texts_of_every_width(files: Files, tmp_path: Path) -> None:
    folders = [tmp_path / pooling for pooling in ("mean", "last")]
    for folder in folders:
        backbone_from(files.root / "source", folder, seed=1, pooling=folder.name, normalised=True)
    write = (
        "import sys, pathlib, condenser.export.onnx_files as onnx\n"
        "for folder in sys.argv[1:]: onnx.write_onnx(pathlib.Path(folder))"
    )
    program = [sys.executable, "-c", write, *map(str, folders)]
    subprocess.run(program, check=True, capture_output=True)  # sizes are no ints there
    for folder in folders:
        session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"))
        model = Retriever.load(folder, dropout=None).eval()
        for lengths in ([20, 7, 1], [70, 40]):  # below and above ModernBERT's window
            ids = np.random.default_rng(1).integers(5, 60, (len(lengths), max(lengths)))
            mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
            (vectors,) = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": mask})
            with torch.inference_mode():
                expected = model(Rows.of(ids, np.array(lengths))).numpy()
            np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5, err_msg=folder.name)
