"""An encoder of every architecture goes through every training, encoding and export."""

from __future__ import annotations

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
from small_trainings import Files, losses, prepare, train

from condenser.data.batches import pack_pairs, pair_windows
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.export.folders import joined, write_model
from condenser.model.backbone import backbone_from
from condenser.model.crossencoder import CrossEncoder
from condenser.model.devices import set_up
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.retrieve.encode import encode_texts

torch.set_num_threads(1)
QUICK = "modernbert"  # the least alike to BERT, on which all other tests train
KINDS = [kind if kind == QUICK else pytest.param(kind, marks=pytest.mark.ci) for kind in ARCHITECTURES]


@pytest.fixture(scope="module", params=KINDS)
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("every"), dropout=0.0, kind=request.param)


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


def test_it_is_pre_trained_and_its_cached_gradient_is_the_plain_one(files: Files, tmp_path: Path) -> None:
    """By coCondenser, which has each head and the vector; other objectives: tests of every training."""
    train("cocondenser", files, tmp_path / "start", updates=1)
    for cache in ("always", "never"):
        changes = {"initial": tmp_path / "start", "gradient_cache": cache, "warmup_ratio": 0.0}
        train("cocondenser", files, tmp_path / cache, updates=2, **changes)
    for one, other in zip(*(losses(tmp_path / cache) for cache in ("always", "never")), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-4)
    _, outcome = transformers.AutoModel.from_pretrained(tmp_path / "always", output_loading_info=True)
    assert not any(outcome.values()), outcome
    for name in ("model", "mlm_head", "condenser_head"):
        before, after = (load_file(tmp_path / of / f"{name}.safetensors") for of in ("start", "always"))
        unmoved = [key for key in before if torch.equal(before[key], after[key])]
        assert all(key.startswith("pooler.") for key in unmoved), unmoved


def test_it_is_fine_tuned_encodes_and_is_exported_as_it_is_used(files: Files, tmp_path: Path) -> None:
    train("retriever", files, tmp_path / "tied", updates=2, warmup_ratio=0.0)
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
    train("crossencoder", files, tmp_path / "out", updates=2, warmup_ratio=0.0)
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
    rows = Rows.of(
        ids, windows.lengths, token_types=types if model.encoder.config.layout.has_segments else None
    )
    with torch.inference_mode():
        scores = model(rows)[:, 0].numpy()
    library = TheirCrossEncoder(str(tmp_path / "out"), device="cpu", local_files_only=True)
    pairs = [("the signal of", "A signal. It is sent on."), ("Who, then?", "No one.")]
    np.testing.assert_allclose(scores, library.predict(pairs), rtol=1e-4, atol=1e-5)


def test_a_sentence_encoder_is_trained_by_the_library_and_kept_by_name(files: Files, tmp_path: Path) -> None:
    train("similarity", files, tmp_path / "out", updates=2, warmup_ratio=0.0)
    start, trained = (
        load_file(folder / "model.safetensors") for folder in (files.backbone, tmp_path / "out")
    )
    assert start.keys() == trained.keys()
    moved = [name for name in start if not torch.equal(start[name], trained[name])]
    assert len(moved) > len(start) / 2, moved


@pytest.fixture(params=ARCHITECTURES)
def tokenizers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Tokenizer]:
    """Of an architecture, the library's and ours."""
    library = tokenizer_of(request.param, TEXTS)
    library.save_pretrained(tmp_path / "tokenizer")
    return library, Tokenizer(tmp_path / "tokenizer")


def test_tokens_of_sentences_are_those_of_the_whole_text(
    tokenizers: tuple[Any, Tokenizer], tmp_path: Path
) -> None:
    texts = [*TEXTS, 'One.  Two!\n\n"Three?" she said...  And 4: five. ', "x", "", "Née à Zürich. 北京 ok."]
    library, tokenizer = tokenizers
    prefix = tmp_path / "t"
    write_token_shard([("", text) for text in texts], prefix, tokenizer, batch_size=3, split=True)
    shards = TokenShards([prefix])
    for row, text in enumerate(texts):
        start, end = shards.row_starts[row : row + 2]
        ids = shards.read(np.array([start]), np.array([end - start]), width=end - start, fill=0)[0]
        assert ids.tolist() == library(text, add_special_tokens=False)["input_ids"], text


def test_words_begin_where_the_tokenizer_begins_them(tokenizers: tuple[Any, Tokenizer]) -> None:
    """Where spaces or punctuation begin a word, so does the vocabulary's rule; it splits nothing else."""
    library, tokenizer = tokenizers
    for text in TEXTS[:4]:
        encoding = library(text, add_special_tokens=False, return_offsets_mapping=True)
        for token, (begin, end) in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
            piece = text[begin:end]
            if (begin == 0 and tokenizer.keeps_spaces) or piece == "":
                continue  # the first piece of a text has no space before it
            begins = begin == 0 or piece[:1].isspace() or text[begin - 1].isspace() or not piece[0].isalnum()
            if text[begin - 1].isalnum() or piece[:1].isspace():
                assert bool(tokenizer.is_continuation[token]) != begins, (text, piece)


POOLINGS = {"max": "max", "last": "lasttoken", "weighted": "weightedmean", "mean": "mean"}


@pytest.mark.parametrize(
    ("files", "pooling"),
    [
        *(("bert", "max"), ("bert", "last"), ("bert", "weighted"), ("bert", "mean")),
        *(("roberta", "weighted"), ("modernbert", "last"), ("mpnet", "max"), ("electra", "mean")),
    ],
    indirect=["files"],
)
def test_every_pooling_and_a_dense_layer_are_those_of_sentence_transformers(
    files: Files, tmp_path: Path, pooling: str
) -> None:
    from sentence_transformers.sentence_transformer import modules

    texts = [passage.text for passage in files.passages[:12]]
    transformer = modules.Transformer(str(files.root / "source"), max_seq_length=40)
    dense = modules.Dense(24, 10, activation_function=torch.nn.Tanh())
    parts = [transformer, modules.Pooling(24, pooling_mode=POOLINGS[pooling]), dense, modules.Normalize()]
    library = SentenceTransformer(modules=parts, device="cpu")
    library.save(str(tmp_path / "theirs"), create_model_card=False)
    counts = backbone_from(tmp_path / "theirs", tmp_path / "ours", seed=1)
    assert (counts["pooling"], counts["normalised"], counts["max_seq_length"]) == (pooling, True, 40)
    tokenizer, prefix = Tokenizer(tmp_path / "ours"), tmp_path / "tokens"
    write_token_shard([("", text) for text in texts], prefix, tokenizer, batch_size=8, split=True)
    ours = vectors(tmp_path / "ours", files, prefix, tmp_path)
    np.testing.assert_allclose(ours, library.encode(texts), rtol=0, atol=1e-5)
    model = Retriever.load(tmp_path / "ours", dropout=None)
    assert model.dim == 10
    model.save(tmp_path / "saved", tmp_path / "ours")
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu", local_files_only=True)
    again.max_seq_length = 40
    np.testing.assert_allclose(again.encode(texts), ours, rtol=0, atol=1e-5)


@pytest.mark.ci
@pytest.mark.parametrize(
    "files",
    [
        pytest.param(kind, marks=() if kind in ("bert", "modernbert") else pytest.mark.weekly)
        for kind in KINDS
    ],
    indirect=True,
)
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
