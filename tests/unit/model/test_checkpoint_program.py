from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from job_files import do

from condenser.data.records import Passage, write_passages
from condenser.files import read_json, sha256_file
from condenser.model.folder import load_backbone
from condenser.model.text_vector import VECTOR_FILES

ABSENT = {
    "objective": "checkpoint",
    "id": None,
    "revision": None,
    "path": None,
    "pooling": None,
    "normalised": None,
    "prompts": {"query": None, "passage": None},
}  # as a validated configuration has them
SCRATCH = {
    **ABSENT,
    **{"source": "scratch", "hidden_size": 12, "num_layers": 2, "num_heads": 3},
    **{"intermediate_size": 20, "vocab_size": 80, "max_positions": 16},
}


def parts(tmp_path: Path, config: dict, collection: Path | None = None) -> dict[str, Any]:
    """Of a job that makes the folder `backbone`."""
    return {
        "settings": {"model": config, "seed": 3},
        "input": {"collection": collection or [], "system": []},
        "output": {
            "model": tmp_path / "backbone" / "model.safetensors",
            "manifest": tmp_path / "backbone.manifest.json",
        },
        "options": {"mirror": None},
    }


def test_manifest_names_the_collection_and_every_file(tmp_path: Path) -> None:
    collection = tmp_path / "collection.jsonl"
    write_passages(collection, [Passage("1", "Cats", "the cat sat"), Passage("2", "", "the mat sat")] * 2)
    do("checkpoint", **parts(tmp_path, SCRATCH, collection))
    manifest = read_json(tmp_path / "backbone.manifest.json")
    assert manifest["inputs"] == {"collection.jsonl": sha256_file(collection)}
    assert set(manifest["outputs"]) == {
        f"backbone/{name}"
        for name in (
            *("config.json", "model.safetensors", "mlm_head.safetensors"),
            *("tokenizer.json", "tokenizer_config.json", *VECTOR_FILES),
        )
    }
    assert manifest["counts"]["layers"] == 2 and manifest["counts"]["mlm_head"] == "new"
    assert load_backbone(tmp_path / "backbone", dropout=None).config.vocab_size <= 80


def test_mirror_is_also_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = tmp_path / "collection.jsonl"
    write_passages(collection, [Passage("1", "Cats", "the cat sat")] * 3)
    do("checkpoint", **parts(tmp_path / "first", SCRATCH, collection))
    (tmp_path / "mirror" / "someone").mkdir(parents=True)
    (tmp_path / "first" / "backbone").rename(tmp_path / "mirror" / "someone" / "small")
    monkeypatch.setenv("CONDENSER_MIRROR", str(tmp_path / "mirror"))
    do("checkpoint", **parts(tmp_path, {**ABSENT, "source": "hub", "id": "someone/small"}))
    assert read_json(tmp_path / "backbone.manifest.json")["counts"]["mlm_head"] == "from checkpoint"


def test_a_hub_out_of_reach_is_told_in_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    config = {**ABSENT, "source": "hub", "id": "nobody/nothing"}
    with pytest.raises(ValueError, match=r"^backbone nobody/nothing: not reachable .*downloads\.mirror"):
        do("checkpoint", **parts(tmp_path, config))
    assert not (tmp_path / "backbone").exists() and not (tmp_path / "backbone.manifest.json").exists()
