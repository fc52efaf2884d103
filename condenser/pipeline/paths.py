"""Where each stage leaves its manifest, below the folder of all results. The rules name the same places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

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
