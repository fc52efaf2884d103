"""The exported folders: a model for sentence-transformers and transformers, an index for Pyserini.

A retriever with one encoder is one folder, in which a query and a passage differ in length alone. A retriever
with two has the folders `query/` and `passage/`, each complete, between which sentence-transformers chooses.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import faiss

from condenser.encoders import read_encoder_config
from condenser.files import load_npy, read_json, sha256_file, write_json
from condenser.model.folder import TOKENIZER_FILES
from condenser.model.retriever import query_encoder_folder
from condenser.model.text_vector import (
    MODULES_FILE,
    SIMILARITY_FILE,
    assumed_notes,
    folder_projection,
    read_text_vector,
    write_text_vector,
)
from condenser.model.weights import WEIGHTS_FILE
from condenser.shards import QUERY_FOLDER

PASSAGE_FOLDER = "passage"
DIGESTS_FILE = "model.sha256"
"""Digests of the model that an index belongs to, as `sha256sum --check` reads them."""


def passage_encoder_folder(folder: Path) -> Path:
    """The folder of an exported model's passage encoder: its own, or the one that both share."""
    own = folder / PASSAGE_FOLDER
    return own if own.is_dir() else folder


def joined(title: str, text: str, *, separator: str, always: bool) -> str:
    """A passage as other libraries must be given it; with `always`, the separator stands without a title too.

    `separator` has the spaces around it (`Tokenizer.joint`).

    >>> joined("sorted", "Return a list.", separator=" [SEP] ", always=False)
    'sorted [SEP] Return a list.'
    """
    if title.strip():
        return f"{title}{separator}{text}"
    return f"{separator.lstrip()}{text}" if always else text


def write_model(retriever: Path, folder: Path, *, query_length: int, passage_length: int) -> None:
    """Write the weights, the tokenizer and what sentence-transformers needs into `folder`.

    Lengths are in tokens with specials and prompt. The tokenizer cuts at `passage_length`; in
    sentence-transformers `encode_query` and `encode_document` cut each at its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    query = query_encoder_folder(retriever)
    if query == retriever:
        _write_encoder(retriever, folder, query_length=query_length, passage_length=passage_length)
        return
    routes = {  # as sentence-transformers calls them
        "query": (QUERY_FOLDER, query, query_length),
        "document": (PASSAGE_FOLDER, retriever, passage_length),
    }
    types: dict[str, str] = {}
    structure: dict[str, list[str]] = {}
    for route, (name, encoder, length) in routes.items():
        _write_encoder(encoder, folder / name, query_length=length, passage_length=length)
        modules = read_json(folder / name / MODULES_FILE)
        steps = {Path(name, step["path"]).as_posix(): step["type"] for step in modules}
        types |= steps
        structure[route] = list(steps)
    write_json(
        folder / "router_config.json",
        {"types": types, "structure": structure, "parameters": {"default_route": "document"}},
    )
    write_json(
        folder / MODULES_FILE,
        [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}],
    )
    shutil.copyfile(folder / QUERY_FOLDER / SIMILARITY_FILE, folder / SIMILARITY_FILE)


def _write_encoder(encoder: Path, folder: Path, *, query_length: int, passage_length: int) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("config.json", WEIGHTS_FILE):
        shutil.copyfile(encoder / name, folder / name)
    write_tokenizer(encoder, folder, max_tokens=passage_length)
    write_text_vector(
        read_text_vector(encoder),
        folder,
        dim=read_encoder_config(encoder).hidden_size,
        projection=folder_projection(encoder),
        assumed=assumed_notes(encoder),
    )
    lengths = {"query_length": query_length, "document_length": passage_length}
    write_json(folder / "sentence_bert_config.json", lengths)


def write_tokenizer(encoder: Path, folder: Path, *, max_tokens: int) -> None:
    """Write the tokenizer of an encoder, which cuts a text to `max_tokens` tokens with specials."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TOKENIZER_FILES:
        if (encoder / name).is_file():
            shutil.copyfile(encoder / name, folder / name)
    file = folder / "tokenizer_config.json"
    settings = read_json(file) if file.is_file() else {}
    write_json(file, {**settings, "model_max_length": max_tokens})


def write_index(
    folder: Path, model: Path, embeddings: Sequence[Path], doc_ids: Path, *, query_length: int
) -> dict[str, int]:
    """Write what Pyserini's `FaissSearcher` reads, and a tokenizer that cuts queries; gives counts.

    `embeddings` are the shards of the collection, in order, and `doc_ids` its ids. The index is exact, holds
    all vectors in memory, and belongs to the exported `model` beside it.
    """
    folder.mkdir(parents=True)
    shards = [load_npy(file) for file in embeddings]
    index = faiss.IndexFlatIP(shards[0].shape[1])
    for shard in shards:
        index.add(shard)
    faiss.write_index(index, str(folder / "index"))
    shutil.copyfile(doc_ids, folder / "docid")
    write_tokenizer(query_encoder_folder(model), folder / "tokenizer", max_tokens=query_length)
    lines = (f"{digest}  ../{model.name}/{name}\n" for name, digest in _digests(model).items())
    (folder / DIGESTS_FILE).write_text("".join(lines), encoding="utf-8")
    return {"passages": index.ntotal, "dim": index.d}


def _digests(model: Path) -> dict[str, str]:
    """SHA-256 of the files of an exported model that decide a vector, by path."""
    wanted = {"config.json", WEIGHTS_FILE, MODULES_FILE, SIMILARITY_FILE, *TOKENIZER_FILES}
    files = sorted(file for file in model.rglob("*") if file.name in wanted)
    return {file.relative_to(model).as_posix(): sha256_file(file) for file in files}
