"""Where each stage leaves its manifest, and what it says. The rules name the same places."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from condenser.files import json_bytes
from condenser.program import sealed

SUFFIX = ".manifest.json"
OTHER_BYTES = "its bytes are not those its stage wrote"

MANIFESTS = {
    "download": "downloads/{file}.manifest.json",
    "collect": "{dataset}/data.manifest.json",
    "backbone": "{dataset}/models/backbone.manifest.json",
    "tokens": "{dataset}/tokens/collection.{shard}.manifest.json",
    "query_tokens": "{dataset}/tokens/queries.{split}.manifest.json",
    "pretrain_condenser": "{dataset}/models/condenser.manifest.json",
    "pretrain_cocondenser": "{dataset}/models/cocondenser.manifest.json",
    "bm25_index": "{dataset}/bm25/index.manifest.json",
    "bm25_run": "{dataset}/runs/bm25.{split}.trec.manifest.json",
    "examples": "{dataset}/examples/{system}.jsonl.manifest.json",
    "triple_examples": "{dataset}/examples/triples.jsonl.manifest.json",
    "retriever": "{dataset}/models/{system}.manifest.json",
    "encode": "{dataset}/embeddings/{system}/collection.{shard}.manifest.json",
    "encode_queries": "{dataset}/embeddings/{system}/queries.{split}.manifest.json",
    "search": "{dataset}/search/{system}.{split}.{shard}.manifest.json",
    "merge": "{dataset}/runs/{system}.{split}.trec.manifest.json",
    "metrics": "{dataset}/metrics/{system}.{split}.json.manifest.json",
    "table2": "{dataset}/table2.tsv.manifest.json",
    "plan": "{dataset}/plan{on}.tsv.manifest.json",
}


def manifest_path(results: Path, stage: str, wildcards: Mapping[str, str]) -> Path:
    """The manifest of one job, with the parts `.` and `..` of the path worked out.

    Raises:
        LookupError: there is no such stage, or a wildcard of it is missing.
    """
    return Path(os.path.normpath(results / MANIFESTS[stage].format(**wildcards)))


@dataclass(frozen=True)
class Record:
    """What a sound manifest says; inputs and outputs are SHA-256 by path."""

    spec: dict[str, Any]
    inputs: dict[Path, str]
    outputs: dict[Path, str]


def read_manifest(path: Path) -> Record:
    """The manifest at `path`.

    Raises:
        ValueError: it cannot be read, or is not as a stage wrote it; the message says why.
    """
    try:
        if not path.is_file():
            raise ValueError("is no file")
        as_read = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    try:
        manifest = json.loads(as_read)
        rest = {name: value for name, value in manifest.items() if name != "sha256"}
        is_whole = sealed(rest) == manifest and json_bytes(manifest) == as_read
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no readable manifest ({error})") from error
    if not is_whole:
        raise ValueError(OTHER_BYTES)
    try:
        spec = manifest["spec"]
        _texts({"stage": spec["stage"], **spec["wildcards"]})
        return Record(spec, _beside(path, manifest["inputs"]), _beside(path, manifest["outputs"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no manifest of a stage ({error!r})") from error


def _beside(manifest: Path, digests: dict[str, str]) -> dict[Path, str]:
    """Digests by path, from those by path relative to the manifest's folder."""
    return {
        Path(os.path.normpath(manifest.parent / name)): digest for name, digest in _texts(digests).items()
    }


def _texts(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected a text, got {value!r}")
    return values
