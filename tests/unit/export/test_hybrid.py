"""The code that a card shows for a hybrid gives the hits of the workflow's functions."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import numpy as np
import pytest
from graphs import Load
from huggingface_hub import ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results
from small_trainings import PASSAGE_LENGTH, QUERY_LENGTH, Files, prepare, sharpen
from yaml import safe_load

from condenser.data.records import ScoredDoc, read_run, write_run
from condenser.export.card import _STATES, _base_model, _model_index
from condenser.export.folders import write_model
from condenser.export.hybrid import hybrid_section
from condenser.model.devices import set_up
from condenser.model.text_vector import Pooling
from condenser.pipeline.specs import hybrid_of
from condenser.retrieve.fusion import fused_run
from condenser.retrieve.late import LateModel, rank_by_maxsim

LATE_DEPTH, LATE_HITS = 8, 12


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("hybrid"), dropout=0.1)
    sharpen(files.backbone)
    lengths = {"query_length": QUERY_LENGTH, "passage_length": PASSAGE_LENGTH}
    write_model(files.backbone, files.root / "model", **lengths)
    generator = np.random.default_rng(5)
    for name in ("dense", "bm25"):
        hits = [
            ScoredDoc(query.query_id, files.passages[row].doc_id, float(score))
            for query in files.queries
            for row, score in zip(
                generator.permutation(60)[:20].tolist(), -np.sort(-generator.random(20)), strict=True
            )
        ]
        write_run(files.root / f"{name}.trec", hits, system=name)
    model = LateModel(
        **{"model_folder": files.backbone, "special_tokens": True, "punctuation": True, "match": "all"},
        **{"first_states": None, "is_trained": False, "is_projected": False, "batch_tokens": 256},
        lengths={"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH},
        compute=set_up(device="cpu", precision="fp32", threads=1),
    )
    rank_by_maxsim(
        *(
            model,
            [files.root / "dense.trec", files.root / "bm25.trec"],
            files.root / "late.trec",
            files.texts,
        ),
        **{"subset": None, "hits": LATE_DEPTH, "depth": LATE_HITS, "system": "late", "block_rows": 20},
        work_folder=files.root / "work",
    )
    return files


def hybrid(method: str, weights: Any) -> dict[str, Any]:
    dense, bm25 = {"kind": "biencoder"}, {"kind": "bm25", "k1": 0.9, "b": 0.4, "language": "de"}
    late = {"kind": "late", "candidates": ["dense", "bm25"], "depth": LATE_DEPTH}
    return {
        "name": "mixed",
        "system": {"method": method, "weights": weights, "depth": 10, "k": 7},
        "parts": [
            {"name": "late", "hits": LATE_HITS, **late},
            {"name": "dense", "hits": 20, **dense},
            {"name": "bm25", "hits": 20, **bm25},
        ],
    }


def run_of(files: Files, name: str, query_id: str) -> dict[str, float]:
    hits = read_run(files.root / f"{name}.trec")
    return {hit.doc_id: hit.score for hit in hits if hit.query_id == query_id}


@pytest.mark.parametrize(
    ("method", "weights"), [("convex", "equal"), ("convex", [2, 0.5, 1]), ("rrf", [2, 1, 1])]
)
def test_the_lines_of_the_card_rank_as_the_workflow(
    files: Files, monkeypatch: pytest.MonkeyPatch, method: str, weights: Any
) -> None:
    from sentence_transformers import SentenceTransformer

    monkeypatch.chdir(files.root)
    said = hybrid_section(hybrid(method, weights), dataset="tiny", always_separated=False)
    (code,) = re.findall(r"```python\n(.*?)```", said, flags=re.DOTALL)
    assert 'set_language("de")' in code and "set_bm25(0.9, 0.4)" in code and "bm25/index-de`" in said
    lines = code[code.index("candidates =") :]  # from there on neither Pyserini nor Java
    model = SentenceTransformer("model", device="cpu")
    run = fused_run(
        [files.root / f"{name}.trec" for name in ("late", "dense", "bm25")],
        files.texts.queries[0],
        subset=None,
        method=method,
        weights=None if weights == "equal" else weights,
        depth=10,
        k=7,
    )
    expected = list(run)
    for query in files.queries[:3]:
        runs = {name: run_of(files, name, query.query_id) for name in ("dense", "bm25")}
        names: dict[str, Any] = {"model": model, "runs": runs, "query": query.text, "json": json, "np": np}
        exec(lines, names)
        late = dict(list(run_of(files, "late", query.query_id).items())[:10])  # the depth of the fusion
        given = dict(zip(("late", "dense", "bm25"), names["runs"], strict=True))
        assert given["late"] == pytest.approx(late, abs=5e-3)  # whose token states have 16 bits
        hits = [hit for hit in expected if hit.query_id == query.query_id]
        found = {doc_id: -minus for minus, doc_id in names["hits"]}
        assert list(found.values()) == pytest.approx([hit.score for hit in hits], abs=5e-3)
        assert len(found.keys() & {hit.doc_id for hit in hits}) >= 9


def test_the_first_fusion_of_the_model_with_bm25_is_described(load: Load) -> None:
    config = load().settings
    found = hybrid_of(config, "msmarco", "backbone-zeroshot")
    assert found is not None and found["name"] == "hybrid"
    assert [(part["name"], part["hits"]) for part in found["parts"]] == [
        ("backbone-zeroshot", 1000), ("bm25", 1000), ("late", 100),
    ]  # fmt: skip
    assert hybrid_of(config, "msmarco", "condenser-zeroshot") is None
    for changes in ({"late": {"punctuation": False}}, {"hybrid": {"method": "mean"}}):
        changed = load({"systems": changes}).settings
        assert hybrid_of(changed, "msmarco", "backbone-zeroshot") is None
    assert hybrid_section(None, dataset="msmarco", always_separated=False) == ""


def test_the_front_matter_is_read_by_the_library_of_the_models_place() -> None:
    metrics = {"measures": {"MRR@10": 0.51234, "R@100": 0.9}}
    names = {"dataset": "mine", "system": "round1", "variant": "seed42"}
    front = safe_load(_base_model({"source": "embedded"}) + _model_index(metrics, names))
    assert front["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    name, results = model_index_to_eval_results(front["model-index"])
    assert name == "round1-seed42" and {one.dataset_name for one in results} == {"mine"}
    assert [(one.metric_name, one.metric_value) for one in results] == [("MRR@10", 0.5123), ("R@100", 0.9)]
    assert ModelCardData(**front).base_model == front["base_model"]
    assert _base_model({"source": "hub", "id": "bert-base-uncased"}) == 'base_model: "bert-base-uncased"\n'
    assert _base_model({"source": "scratch"}) == _model_index(None, names) == ""


def test_the_card_has_words_for_every_pooling() -> None:
    assert set(_STATES) == set(get_args(Pooling))
