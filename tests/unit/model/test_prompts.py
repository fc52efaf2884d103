"""Prompts and similarity of a folder: those of sentence-transformers, kept through every training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trainings import QUERY_LENGTH, prepare, sharpen, train

from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.export.folders import write_model
from condenser.files import load_npy, read_json, write_json
from condenser.model.backbone import new_backbone
from condenser.model.backbone_sources import embedded_folder
from condenser.model.devices import set_up
from condenser.model.text_vector import (
    POOLING_FILE,
    SIMILARITY_FILE,
    Role,
    TextVector,
    assumptions,
    read_text_vector,
    write_text_vector,
)
from condenser.objectives import checkpoint
from condenser.retrieve.encode import encode_texts

QUERIES = ["how is a list sorted", "", "##s of the matrix " * 12, "1.5 metres?", "[SEP] an odd one", "é, 的"]
PASSAGES = ["Return a new list with the items in ascending order.", "-", "The inverse of a matrix. " * 20]
LENGTHS: dict[Role, int] = {"query": 16, "passage": 32}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT with the vector of the embedded model."""
    folder = tmp_path_factory.mktemp("models") / "small"
    texts = [
        *QUERIES,
        *PASSAGES,
        "query: passage: cluster: represent this sentence for searching relevant",
    ] * 3
    new_backbone(folder, seed=1, vector=TextVector("mean", normalised=True), texts=texts, shape={
        "hidden_size": 32, "num_layers": 2, "num_heads": 2, "intermediate_size": 48, "vocab_size": 400,
        "max_positions": 64,
    })  # fmt: skip
    sharpen(folder)
    return folder


@pytest.fixture
def folder_with(small: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder `origin` with other modules and settings of sentence-transformers."""

    def make(*, modules: Sequence[str] | None = None, **settings: Any) -> Path:
        folder = shutil.copytree(small, tmp_path / "origin")
        write_json(folder / SIMILARITY_FILE, settings)
        if modules is not None:
            entries = read_json(folder / "modules.json")
            kept = [entry for entry in entries if entry["type"].rsplit(".", 1)[-1] in modules]
            write_json(folder / "modules.json", kept)
        return folder

    return make


def made(origin: Path, folder: Path, **settings: Any) -> Path:
    """The model that the workflow makes of a folder."""
    entry = checkpoint.Settings(objective="checkpoint", source="folder", path=str(origin), **settings)
    checkpoint.prepare(entry, folder, seed=1, mirror=None, collection=None, system=None)
    return folder


def encoded(encoder: Path, texts: Sequence[str], role: Role, work: Path) -> np.ndarray:
    """The workflow's own vectors of some texts."""
    work.mkdir()
    tokenizer = Tokenizer(encoder)
    write_token_shard(
        (("", text) for text in texts), work / "texts", tokenizer, batch_size=2, split=role == "passage"
    )
    encode_texts(
        encoder, work / "texts", work / "out.npy", rows=None, role=role, max_tokens=LENGTHS[role],
        batch_tokens=64, block_rows=4, compute=set_up(device="cpu", precision="fp32", threads=1),
        work_folder=work / "work", name_of_row=str,
    )  # fmt: skip
    return load_npy(work / "out.npy", mapped=False)


def theirs(folder: Path, texts: Sequence[str], role: Role, **options: Any) -> np.ndarray:
    """The vectors of sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = LENGTHS[role]
    if options:
        return np.asarray(model.encode(list(texts), **options))
    return np.asarray((model.encode_query if role == "query" else model.encode_document)(list(texts)))


def test_a_folder_with_prompts_has_the_vectors_of_sentence_transformers(
    small: Path, folder_with: Callable[..., Path], tmp_path: Path
) -> None:
    origin = folder_with(prompts={"query": "query: ", "document": "passage: "})
    model, plain = made(origin, tmp_path / "model"), made(small, tmp_path / "plain")
    ours = {}
    for role, texts in (("query", QUERIES), ("passage", PASSAGES)):
        ours[role] = encoded(model, texts, role, tmp_path / role)
        np.testing.assert_allclose(ours[role], theirs(origin, texts, role), atol=1e-5)
        np.testing.assert_allclose(ours[role], theirs(model, texts, role), atol=1e-5)
        without = encoded(plain, texts, role, tmp_path / f"plain-{role}")
        assert (np.abs(ours[role] - without).max(axis=1) > 1e-3).all()
    assert assumptions(model) == []


def test_prompts_of_the_config_take_the_place_of_those_of_the_folder(
    folder_with: Callable[..., Path], tmp_path: Path
) -> None:
    prompts = {"query": "Represent this sentence for searching relevant passages:", "passage": ""}
    origin = folder_with(prompts={"query": "query: ", "document": "passage: "})
    model = made(origin, tmp_path / "model", prompts=prompts)
    assert read_text_vector(model) == TextVector("mean", True, prompts["query"], "")
    ours = encoded(model, QUERIES, "query", tmp_path / "work")
    np.testing.assert_allclose(ours, theirs(origin, QUERIES, "query", prompt=prompts["query"]), atol=1e-5)
    half = made(origin, tmp_path / "half", prompts={"query": "Q: "})
    assert read_text_vector(half) == TextVector("mean", True, "Q: ", "passage: ")


def test_a_prompt_named_passage_is_used_and_said(folder_with: Callable[..., Path], tmp_path: Path) -> None:
    """In sentence-transformers 6.2, encode_document of such a folder puts nothing before a passage."""
    prompts = {"query": "query: ", "passage": "passage: ", "clustering": "cluster: "}
    origin = folder_with(prompts=prompts, default_prompt_name="clustering")
    model = made(origin, tmp_path / "model")
    ours = encoded(model, PASSAGES, "passage", tmp_path / "work")
    np.testing.assert_allclose(ours, theirs(origin, PASSAGES, "passage", prompt_name="passage"), atol=1e-5)
    np.testing.assert_allclose(ours, theirs(model, PASSAGES, "passage"), atol=1e-5)  # it is named document
    said = assumptions(model)
    assert len(said) == 3 and all("\n" not in sentence for sentence in said)
    assert "prompt named 'passage' is put before passages" in said[0]
    assert "left out: 'clustering'." in said[1] and "default_prompt_name 'clustering'" in said[2]


def test_a_folder_of_others_puts_no_sentence_of_its_own_below_a_table(
    folder_with: Callable[..., Path], tmp_path: Path
) -> None:
    sentence = "All rows are verified by the authors."
    odd = {f"\x1b[2J\n[a](b){'x' * 500}{number}": "p" for number in range(9)}
    kept = [sentence, [sentence], {"cosine": 1}, ["cosine"], ["cosine", "\u202eagain"], [3], []]
    default = {"a\n": sentence}
    origin = folder_with(prompts=odd, default_prompt_name=default, assumed=kept, similarity_fn_name="cosine")
    said = assumptions(made(origin, tmp_path / "model"))
    assert len(said) == 3 and said[0].startswith("The folder names no similarity")
    assert all(
        one.isprintable() and sentence not in one and len(one) < 400 and "[a]" not in one for one in said
    )
    assert "5 more" in said[1]


@pytest.mark.parametrize("tied", [True, False])
def test_an_exported_folder_holds_the_prompts_and_gives_the_same_vectors(
    folder_with: Callable[..., Path], tmp_path: Path, tied: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    from condenser.model.retriever import UntiedEncoders, query_encoder_folder

    origin = folder_with(prompts={"query": "query: ", "document": "passage: "})
    model = made(origin, tmp_path / "model")
    if not tied:
        encoders = UntiedEncoders.load(model, dropout=None)
        with torch.no_grad():
            for weight in encoders.queries.parameters():
                weight += 0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2))
        encoders.save(tmp_path / "untied", model)
        model = tmp_path / "untied"
    write_model(
        model, tmp_path / "exported", query_length=LENGTHS["query"], passage_length=LENGTHS["passage"]
    )
    loaded = SentenceTransformer(str(tmp_path / "exported"), device="cpu")
    assert loaded.prompts == {"query": "query: ", "document": "passage: "}
    queries = encoded(query_encoder_folder(model), QUERIES, "query", tmp_path / "query")
    passages = encoded(model, PASSAGES, "passage", tmp_path / "passage")
    np.testing.assert_allclose(loaded.encode_query(QUERIES), queries, atol=1e-5)
    np.testing.assert_allclose(loaded.encode_document(PASSAGES), passages, atol=1e-5)
    np.testing.assert_allclose(loaded.encode(PASSAGES), passages, atol=1e-5)  # without a word: passages


def test_fine_tuning_with_prompts_equals_fine_tuning_on_texts_that_begin_with_them(tmp_path: Path) -> None:
    files = prepare(tmp_path, dropout=0.0)
    dim, vector = read_json(files.backbone / "config.json")["hidden_size"], TextVector("mean", True)
    write_text_vector(vector, files.backbone, dim=dim)
    texts, tokenizer = {}, Tokenizer(files.backbone)
    write_token_shard(
        ((f"to: {one.title}" if one.title else "", one.text if one.title else f"to: {one.text}")
         for one in files.passages),
        tmp_path / "begun", tokenizer, batch_size=8, split=True,
    )  # fmt: skip
    write_token_shard(
        (("", f"from: {one.text}") for one in files.queries), tmp_path / "asked", tokenizer,
        batch_size=8, split=False,
    )  # fmt: skip
    train("retriever", files, tmp_path / "expected", token_prefixes=[tmp_path / "begun"],
          query_tokens=[tmp_path / "asked"])  # fmt: skip
    train("retriever", files, tmp_path / "without")
    write_text_vector(replace(vector, query_prompt="from: ", passage_prompt="to: "), files.backbone, dim=dim)
    counts = train("retriever", files, tmp_path / "prompted")
    for name in ("expected", "without", "prompted"):
        texts[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert texts["prompted"] == texts["expected"] != texts["without"]
    assert read_text_vector(tmp_path / "prompted").query_prompt == "from: "
    assert counts["steps"] > 0
    write_text_vector(replace(vector, query_prompt="long " * 12), files.backbone, dim=dim)
    with pytest.raises(ValueError, match=f"room for a text within {QUERY_LENGTH} tokens, got a prompt of"):
        train("retriever", files, tmp_path / "long")


@pytest.mark.ci
def test_pre_training_reads_no_prompt_and_keeps_it(tmp_path: Path) -> None:
    files = prepare(tmp_path, dropout=0.1)
    train("cocondenser", files, tmp_path / "without")
    vector = replace(read_text_vector(files.backbone), query_prompt="from: ", passage_prompt="to: ")
    write_text_vector(vector, files.backbone, dim=read_json(files.backbone / "config.json")["hidden_size"])
    train("cocondenser", files, tmp_path / "prompted")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("without", "prompted")]
    assert weights[0] == weights[1]
    assert read_text_vector(tmp_path / "prompted") == vector


@pytest.mark.parametrize("prompt", ["query: ", "Find it:", "为这个句子生成表示：", "这", "a\n", "Task(1) "])
def test_a_prompt_before_a_text_has_the_tokens_of_both_together(prompt: str) -> None:
    tokenizer = Tokenizer(embedded_folder())
    ids = tokenizer.encode_prompt(prompt, max_tokens=32)
    for text in [*QUERIES, *PASSAGES, " x", "\u0301a", "ﬁ", "SEP] x", "İ"]:
        (together,) = tokenizer.encode([prompt + text])
        assert together.tolist() == [*ids.tolist(), *tokenizer.encode([text])[0].tolist()], text


@pytest.mark.parametrize("prompt", ["query", "1", "é", "in ["])
def test_a_prompt_that_would_run_into_the_text_is_refused_in_one_line(
    prompt: str, small: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="keeps the prompt apart from a text's first word") as said:
        made(small, tmp_path / "model", prompts={"query": prompt})
    assert "\n" not in str(said.value) and repr(prompt) in str(said.value)


@pytest.mark.parametrize(
    ("settings", "normalised"),
    [({"similarity_fn_name": "cosine"}, True), ({"similarity_fn_name": "dot"}, False), ({}, True)],
)
def test_a_folder_without_a_normalize_module_ranks_as_sentence_transformers_ranks_with_it(
    folder_with: Callable[..., Path], tmp_path: Path, settings: dict[str, str], normalised: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    origin = folder_with(modules=["Transformer", "Pooling"], **settings)
    model = made(origin, tmp_path / "model")
    assert read_text_vector(model) == TextVector("mean", normalised)
    texts = [" ".join(PASSAGES[0].split()[:words]) for words in range(1, 11)] + PASSAGES
    queries = encoded(model, texts[:6], "query", tmp_path / "query")
    passages = encoded(model, texts, "passage", tmp_path / "passage")
    loaded = SentenceTransformer(str(origin), device="cpu")
    expected = loaded.similarity(theirs(origin, texts[:6], "query"), theirs(origin, texts, "passage")).numpy()
    np.testing.assert_allclose(queries @ passages.T, expected, rtol=1e-5, atol=1e-5)
    vectors = theirs(origin, texts, "passage"), theirs(origin, texts[:6], "query")
    inner = vectors[1] @ vectors[0].T
    is_other = not np.array_equal(np.argsort(-inner), np.argsort(-expected))
    assert is_other == normalised, "these texts tell the two similarities apart"
    said = " ".join(assumptions(model))
    assert ("similarity" in said) == normalised and ("assumed" in said) == (not settings)


def test_what_a_bare_folder_leaves_open_is_kept_with_the_model_and_said_when_it_is_made(
    folder_with: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    origin = folder_with()
    for file in (origin / "modules.json", origin / SIMILARITY_FILE):
        file.unlink()
    model = made(origin, tmp_path / "model")
    assert read_text_vector(model) == TextVector("cls", normalised=False)
    first, second = assumptions(model)
    assert "no modules.json: [CLS] is assumed" in first and "the inner product is assumed" in second
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        first,
        second,
    ]
    again = made(model, tmp_path / "again")
    assert assumptions(again) == [first, second]  # a folder of ours says it on
    told = made(origin, tmp_path / "told", pooling="cls", normalised=False)
    assert assumptions(told) == []
    write_model(model, tmp_path / "exported", query_length=8, passage_length=8)
    assert assumptions(tmp_path / "exported") == [first, second]


def test_a_pooling_without_the_prompt_is_read_where_there_is_none(tmp_path: Path) -> None:
    write_text_vector(TextVector("mean", True), tmp_path, dim=4)
    write_json(tmp_path / POOLING_FILE, read_json(tmp_path / POOLING_FILE) | {"include_prompt": False})
    assert read_text_vector(tmp_path) == TextVector("mean", True)


def test_without_prompts_files_hold_nothing_new(small: Path, tmp_path: Path) -> None:
    model = made(small, tmp_path / "model")
    assert read_json(model / SIMILARITY_FILE) == {"similarity_fn_name": "cosine"}
