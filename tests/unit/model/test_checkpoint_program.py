from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from forks import Program

from condenser.data.records import Passage, write_passages
from condenser.files import read_json, sha256_file
from condenser.model.backbone_folder import load_backbone
from condenser.model.text_vector import VECTOR_FILES

ABSENT = {
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


@pytest.fixture
def main(root: Path) -> Callable[[Sequence[str]], None]:
    return runpy.run_path(str(root / "workflow_scripts" / "checkpoint.py"))["main"]


def flags(tmp_path: Path, config: dict, *more: str) -> list[str]:
    spec = json.dumps({"stage": "checkpoint", "config": {"model": config, "seed": 3}})
    return [
        *("--spec", spec, "--mirror", "", "--output", str(tmp_path / "backbone")),
        *("--manifest", str(tmp_path / "backbone.manifest.json"), *more),
    ]


def test_manifest_names_the_collection_and_every_file(main: Callable, tmp_path: Path) -> None:
    collection = tmp_path / "collection.jsonl"
    write_passages(collection, [Passage("1", "Cats", "the cat sat"), Passage("2", "", "the mat sat")] * 2)
    main(flags(tmp_path, SCRATCH, "--collection", str(collection)))
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


def test_scratch_without_a_collection_is_refused(main: Callable, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--collection: expected a collection"):
        main(flags(tmp_path, SCRATCH))


def test_mirror_is_also_taken_from_the_environment(
    main: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = tmp_path / "collection.jsonl"
    write_passages(collection, [Passage("1", "Cats", "the cat sat")] * 3)
    main(flags(tmp_path / "first", SCRATCH, "--collection", str(collection)))
    (tmp_path / "mirror" / "someone").mkdir(parents=True)
    (tmp_path / "first" / "backbone").rename(tmp_path / "mirror" / "someone" / "small")
    monkeypatch.setenv("CONDENSER_MIRROR", str(tmp_path / "mirror"))
    main(flags(tmp_path, {**ABSENT, "source": "hub", "id": "someone/small"}))
    assert read_json(tmp_path / "backbone.manifest.json")["counts"]["mlm_head"] == "from checkpoint"


def test_a_mistake_is_one_line_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    """The whole program: a hub that cannot be reached."""
    config = {**ABSENT, "source": "hub", "id": "nobody/nothing"}
    program = [str(root / "workflow_scripts" / "checkpoint.py"), *flags(tmp_path, config)]
    status, said = Program(program, tmp_path / "said").ended(timeout_s=120)
    assert status == 1
    assert said.startswith("error: backbone nobody/nothing: not reachable")
    assert said.count("\n") == 1
    assert not (tmp_path / "backbone").exists() and not (tmp_path / "backbone.manifest.json").exists()
