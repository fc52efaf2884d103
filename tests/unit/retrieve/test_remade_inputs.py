"""An input made again with other bytes, under the same spec, behind a job that was broken off."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from job_files import do

from condenser.data.records import Query, write_queries
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.files import save_npy
from condenser.model.backbone import new_backbone
from condenser.retrieve import bm25, device_search, exact, inference, search


def broken_off_then_remade(folder, monkeypatch, noted, rule, *, make, parts, output, step):
    """The outputs of a job whose inputs were remade after its first step, and of one that saw no others.

    `make(folder, version)` makes the inputs; `step` is the module and function that computes a block.
    """
    job = {**parts, "output": {**output, "manifest": "manifest.json"}, "work": "work"}
    noted(*step, lambda *_, **__: None, breaks_at=2)
    results = []
    for place, versions in (("remade", (1, 2)), ("anew", (2,))):
        (folder / place).mkdir(parents=True)
        monkeypatch.chdir(folder / place)
        for version in versions:
            make(folder / place, version)
            with pytest.raises(KeyboardInterrupt) if version == 1 else nullcontext():
                do(rule, **job)
        results.append([(folder / place / file).read_bytes() for file in output.values()])
        assert not (folder / place / "work").exists()
    return results


@pytest.mark.parametrize(
    ("device", "step"),
    [(None, (search, "top_passages")), (torch.device("cpu"), (device_search, "top_passages_on"))],
    ids=["faiss", "pytorch"],
)
def test_a_search_mixes_no_hits_of_other_embeddings(tmp_path, monkeypatch, noted, device, step):
    def make(folder, version):
        rng = np.random.default_rng(version)
        save_npy(folder / "passages.npy", rng.standard_normal((30, 8), np.float32))
        save_npy(folder / "queries.npy", rng.standard_normal((10, 8), np.float32))
        (folder / "doc_ids.txt").write_text("".join(f"d{row}\n" for row in range(30)))
        write_queries(folder / "queries.jsonl", [Query(f"q{row}", "words") for row in range(10)])

    compute = {"threads": 1, "device": "cpu"}
    config = {"dataset": {"split": None}, "depth": 5, "encode": {"block_rows": 8}, "compute": compute}
    monkeypatch.setattr(exact, "QUERIES_PER_PRODUCT", 4)
    monkeypatch.setattr(device_search, "HELD_BYTES", 1)  # so many queries at a time on a device, too
    monkeypatch.setattr(search, "search_device", lambda name, threads, multiplications: device)
    remade, anew = broken_off_then_remade(
        tmp_path,
        monkeypatch,
        noted,
        "search",
        make=make,
        parts={
            "settings": config,
            "wildcards": {"shard": "0-of-1"},
            "input": {
                **{"embeddings": "passages.npy", "doc_ids": "doc_ids.txt", "queries": "queries.npy"},
                "texts": "queries.jsonl",
            },
        },
        output={"rows": "rows.npy", "scores": "scores.npy"},
        step=step,
    )
    assert remade == anew
    made = json.loads((tmp_path / "anew" / "manifest.json").read_text())
    assert made["device"] == ("cpu" if device is None else "cpu fp32")


def test_an_encoding_mixes_no_vectors_of_another_model(tmp_path, monkeypatch, noted):
    texts = [f"passage number {row} of the sea" for row in range(20)]

    shape = {
        **{"hidden_size": 12, "num_layers": 1, "num_heads": 3, "intermediate_size": 20},
        **{"vocab_size": 60, "max_positions": 16},
    }

    def make(folder, version):
        shutil.rmtree(folder / "retriever", ignore_errors=True)
        new_backbone(folder / "retriever", seed=version, shape=shape, texts=texts)
        tokenizer = Tokenizer(folder / "retriever")
        write_token_shard([("", t) for t in texts], folder / "queries", tokenizer, batch_size=8, split=False)
        write_queries(folder / "queries.jsonl", (Query(f"q{row}", text) for row, text in enumerate(texts)))

    config = {
        "recipe": {"lengths": {"query": 16}},
        "encode": {"batch_tokens": 64, "block_rows": 8},
        "compute": {"threads": 1, "device": "cpu", "precision": "fp32"},
    }
    remade, anew = broken_off_then_remade(
        tmp_path,
        monkeypatch,
        noted,
        "encode_queries",
        make=make,
        parts={
            "settings": config,
            "input": {
                "model": "retriever/model.safetensors",
                "tokens": "queries.tokens.npy",
                "queries": "queries.jsonl",
                "subset": [],
                "lengths": [],
            },
        },
        output={"embeddings": "out.npy"},
        step=(inference, "row_windows"),
    )
    assert remade == anew


def test_a_bm25_run_mixes_no_hits_of_another_index(tmp_path, monkeypatch, noted):
    def make(folder, version):
        (folder / "index").mkdir(exist_ok=True)
        (folder / "index" / "version").write_text(str(version))
        write_queries(folder / "queries.jsonl", [Query("a", "salt"), Query("b", "wool")])

    def run_anserini(_program, options, *, output, **_):  # without Java, which takes a second each time
        version = (options["index"] / "version").read_text()
        output.write(f"0 Q0 d{version} 1 1.0 Anserini\n".encode())
        return "INFO: 1 queries processed\n"

    system = {"k1": 0.9, "b": 0.4, "language": "en"}
    monkeypatch.setattr(bm25, "run_anserini", run_anserini)
    monkeypatch.setattr(bm25, "MAX_QUERIES_PER_BLOCK", 1)
    remade, anew = broken_off_then_remade(
        tmp_path,
        monkeypatch,
        noted,
        "bm25_run",
        make=make,
        parts={
            "settings": {"dataset": {"split": None}, "system": system, "depth": 2, "expansion": None},
            "wildcards": {"system": "bm25"},
            "input": {"index": "index", "queries": "queries.jsonl", "expansions": []},
            "options": {"threads": 1, "heap_mb": 100},
        },
        output={"run": "run.trec"},
        step=(bm25, "_search_block"),
    )
    assert remade == anew
