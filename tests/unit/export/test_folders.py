"""The exported folders give other libraries this workflow's own vectors, whatever the model's vector."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import full_rows, padded
from small_retrievers import random_retriever

from condenser.data.tokens import Tokenizer, TokenShards
from condenser.export.agreement import int8_loss
from condenser.export.folders import joined, passage_encoder_folder, write_index, write_model
from condenser.files import read_json, save_npy
from condenser.model.retriever import Retriever, query_encoder_folder
from condenser.model.rows import Rows

WAYS = [("cls", False, True), ("cls", True, False), ("mean", False, False), ("mean", True, True)]  # by pairs
QUERY_LENGTH, PASSAGE_LENGTH = 6, 12
TEXTS = ["abc abd", "bcd abc abd bcd abc abd bcd abd abc bcd abd abc bcd", "", "abd [SEP] abc"]


def own_vectors(encoder: Path, texts: Sequence[str], length: int) -> np.ndarray:
    """Each text alone, from the workflow's own tokens."""
    tokenizer, model = Tokenizer(encoder), Retriever.load(encoder, dropout=None).eval()
    rows = []
    for ids in tokenizer.encode(texts):
        row = [tokenizer.cls_id, *ids[: length - 2].tolist(), tokenizer.sep_id]
        with torch.no_grad():
            rows.append(model(full_rows(torch.tensor([row])))[0].numpy())
    return np.stack(rows)


@pytest.mark.parametrize(("pooling", "normalised", "tied"), WAYS)
def test_sentence_transformers_cuts_and_encodes_queries_and_passages_as_the_workflow(
    tmp_path: Path, pooling: str, normalised: bool, tied: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    source = random_retriever(tmp_path, pooling=pooling, normalised=normalised, tied=tied)
    write_model(source, tmp_path / "model", query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH)
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert loaded.similarity_fn_name == ("cosine" if normalised else "dot")
    queries = own_vectors(query_encoder_folder(source), TEXTS, QUERY_LENGTH)
    passages = own_vectors(source, TEXTS, PASSAGE_LENGTH)
    np.testing.assert_allclose(loaded.encode_query(TEXTS), queries, atol=2e-6)
    np.testing.assert_allclose(loaded.encode_document(TEXTS), passages, atol=2e-6)
    np.testing.assert_allclose(loaded.encode(TEXTS), passages, atol=2e-6)  # without a word: passages
    assert np.abs(queries - passages).max() > 1e-4  # the long text is cut at two lengths
    scores = loaded.similarity(loaded.encode_query(TEXTS), loaded.encode_document(TEXTS)).numpy()
    np.testing.assert_allclose(scores, queries @ passages.T, atol=1e-5)


WRITE = """
import sys
from pathlib import Path
from condenser.export.onnx_files import write_onnx
for folder in sys.argv[1:]:
    write_onnx(Path(folder))
"""
ONNX = {"cls": False, "mean": True}  # whether the vector is normalised, by pooling


@pytest.fixture(scope="module")
def onnx(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with ONNX files, by pooling; `again` is the first one, written a second time elsewhere."""
    folder = tmp_path_factory.mktemp("onnx")
    made = {
        pooling: random_retriever(folder / pooling, pooling=pooling, normalised=normalised, tied=True)
        for pooling, normalised in ONNX.items()
    }
    made["again"] = shutil.copytree(made["cls"], folder / "again")
    # in another process: the tests' checks of shapes cannot be exported
    subprocess.run([sys.executable, "-c", WRITE, *made.values()], cwd=root, check=True, capture_output=True)
    return made


@pytest.mark.ci
@pytest.mark.parametrize("pooling", ONNX)
def test_onnx_gives_the_vectors_of_rows_of_any_length_and_names_no_place(
    onnx: dict[str, Path], pooling: str
) -> None:
    import onnxruntime

    source = onnx[pooling]
    num_words = read_json(source / "config.json")["vocab_size"]
    ids = torch.randint(0, num_words, (5, 13), generator=torch.Generator().manual_seed(3))
    rows = Rows.of(ids.numpy(), np.array([13, 2, 7, 9, 13]))
    with torch.no_grad():
        expected = Retriever.load(source, dropout=None).eval()(rows).numpy()
    found = {}
    for name in ("model", "model_int8"):
        file = source / "onnx" / f"{name}.onnx"
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        given = {"input_ids": ids.numpy(), "attention_mask": padded(rows)[1].long().numpy()}
        (found[name],) = session.run(["sentence_embedding"], given)
        assert b".py" not in file.read_bytes()
    np.testing.assert_allclose(found["model"], expected, atol=1e-5)
    assert 1e-6 < np.abs(found["model_int8"] - expected).max() < 0.2


@pytest.mark.ci
def test_the_loss_of_weights_of_8_bits_is_measured(onnx: dict[str, Path], tmp_path: Path) -> None:
    model = shutil.copytree(onnx["mean"], tmp_path / "model")
    own = own_vectors(model, TEXTS, PASSAGE_LENGTH)
    assert 1e-4 < int8_loss(model, TEXTS, own, max_tokens=PASSAGE_LENGTH) < 0.2
    shutil.copyfile(model / "onnx/model.onnx", model / "onnx/model_int8.onnx")
    assert int8_loss(model, TEXTS, own, max_tokens=PASSAGE_LENGTH) < 1e-5


@pytest.mark.ci
@pytest.mark.parametrize("name", ["model", "model_int8"])
def test_onnx_files_of_a_model_are_the_same_bytes_wherever_it_lies(onnx: dict[str, Path], name: str) -> None:
    first, again = (onnx[made] / "onnx" / f"{name}.onnx" for made in ("cls", "again"))
    assert first.read_bytes() == again.read_bytes()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an index of three passages in two shards."""
    tmp_path = tmp_path_factory.mktemp("exported")
    source = random_retriever(tmp_path, pooling="mean", normalised=True, tied=False)
    write_model(source, tmp_path / "model", query_length=QUERY_LENGTH, passage_length=PASSAGE_LENGTH)
    vectors = np.eye(3, 12, dtype=np.float32)
    save_npy(tmp_path / "0.npy", vectors[:2])
    save_npy(tmp_path / "1.npy", vectors[2:])
    (tmp_path / "doc_ids.txt").write_text("d1\nd2\nd3\n")
    counts = write_index(
        tmp_path / "index", tmp_path / "model", [tmp_path / "0.npy", tmp_path / "1.npy"],
        tmp_path / "doc_ids.txt", query_length=QUERY_LENGTH,
    )  # fmt: skip
    assert counts == {"passages": 3, "dim": 12}
    return tmp_path


def test_an_index_names_the_files_of_its_model_as_sha256sum_reads_them(exported: Path) -> None:
    def is_of_this_model() -> bool:
        check = ["sha256sum", "--check", "--quiet", "model.sha256"]
        return subprocess.run(check, cwd=exported / "index", capture_output=True).returncode == 0

    assert is_of_this_model()
    named = [line.split("  ")[1] for line in (exported / "index" / "model.sha256").read_text().splitlines()]
    assert {"../model/query/model.safetensors", "../model/passage/model.safetensors"} < set(named)
    for name in named:
        file = exported / "index" / name
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        assert not is_of_this_model(), name
        file.write_bytes(content)


def test_a_tokenizer_cuts_by_itself_where_a_library_names_no_length(exported: Path) -> None:
    lengths = {
        exported / "model" / "query": QUERY_LENGTH,
        exported / "model" / "passage": PASSAGE_LENGTH,
        exported / "index" / "tokenizer": QUERY_LENGTH,
    }
    for folder, length in lengths.items():
        assert read_json(folder / "tokenizer_config.json")["model_max_length"] == length
    assert passage_encoder_folder(exported / "model") == exported / "model" / "passage"


@pytest.mark.parametrize(
    ("title", "always", "expected"),
    [
        ("sorted", True, "sorted [SEP] A list."),
        ("  ", False, "A list."),
        ("", True, "[SEP] A list."),
    ],
)
def test_a_title_is_joined_as_the_workflow_joins_its_tokens(
    title: str, always: bool, expected: str, exported: Path
) -> None:
    given = joined(title, "A list.", separator=" [SEP] ", always=always)
    assert given == expected
    tokenizer = Tokenizer(exported / "model" / "passage")
    shards = TokenShards.of_texts([(title, "A list.")], tokenizer, split=True, leading_separator=always)
    ids = shards.read(np.zeros(1, np.int64), shards.row_starts[1:], width=int(shards.row_starts[1]), fill=0)
    assert ids[0].tolist() == tokenizer.encode([given])[0].tolist()
