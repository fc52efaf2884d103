"""What a model's card says of a fusion that the model is part of: code that makes its ranking without ours.

The parts may be the model, BM25, and MaxSim of the model's own token states: Pyserini and
sentence-transformers have what these need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from string import Template
from typing import Any

_SECTION = Template("""\
## Use it as a hybrid

`$name` fuses this model with $others. Copy the folder `results/$dataset/bm25/$index`
beside `model/` as `bm25/`, and `results/$dataset/data/collection.jsonl`. Then Pyserini finds the hits and
sentence-transformers gives the vectors:

```python
import json
import os

os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini 1.6 cannot be imported without one
import numpy as np
from pyserini.search.faiss import FaissSearcher
from pyserini.search.lucene import LuceneSearcher
from sentence_transformers import SentenceTransformer

query = "how is a list sorted"
model, runs = SentenceTransformer("model"), {}
$parts
runs = [dict(list(runs[name].items())[:$depth]) for name in $order]
pool = list(dict.fromkeys(doc_id for run in runs for doc_id in run))
$fusion
hits = sorted(zip(-fused, pool))[:10]  # minus the score, and the id of each passage
```

""")

_DENSE = Template("""\
found = FaissSearcher("pyserini", None).search(model.encode_query(query)[None], k=$hits)
runs[$name] = {hit.docid: float(hit.score) for hit in found}
""")

_BM25 = Template("""\
searcher = LuceneSearcher("bm25")
searcher.set_bm25($k1, $b)
${language}runs[$name] = {hit.docid: hit.score for hit in searcher.search(query, k=$hits)}
""")

_LATE = Template("""\
candidates = dict.fromkeys(doc_id for name in $candidates for doc_id in list(runs[name])[:$depth])
texts = {}
with open("collection.jsonl", encoding="utf-8") as lines:
    passages = [passage for passage in map(json.loads, lines) if passage["doc_id"] in candidates]
for passage in passages:
    start = f"{passage['title']} [SEP] " if passage["title"].strip() else "$bare"
    texts[passage["doc_id"]] = start + passage["text"]
tokens = {"output_value": "token_embeddings", "normalize_embeddings": False}
of_query = model.encode_query([query], **tokens)[0]
maxsim = {}
for doc_id, states in zip(texts, model.encode_document(list(texts.values()), **tokens)):
    cosines = of_query / of_query.norm(dim=1, keepdim=True) @ (states / states.norm(dim=1, keepdim=True)).T
    maxsim[doc_id] = float(cosines.max(dim=1).values.sum())
runs[$name] = dict(sorted(maxsim.items(), key=lambda hit: -hit[1])[:$hits])
""")

_CONVEX = Template("""\

def z_scores(run):
    lowest = min(run.values(), default=0.0)
    scores = np.array([run.get(doc_id, lowest) for doc_id in pool])
    return (scores - scores.mean()) / scores.std() if scores.std() > 0 else 0 * scores

weights = $weights
fused = sum(weight * z_scores(run) for weight, run in zip(weights, runs)) / sum(weights)""")

_RRF = Template("""\
weights = $weights
ranks = [{doc_id: rank for rank, doc_id in enumerate(run, start=1)} for run in runs]
fused = np.array([
    sum(weight / ($k + rank[doc_id]) for weight, rank in zip(weights, ranks) if doc_id in rank)
    for doc_id in pool
])""")


def hybrid_section(hybrid: Mapping[str, Any] | None, *, dataset: str, always_separated: bool) -> str:
    """The section on a fusion (`condenser.pipeline.specs.hybrid_of`); empty without one."""
    if hybrid is None:
        return ""
    from condenser.retrieve.bm25 import index_name

    system, parts = hybrid["system"], hybrid["parts"]
    weights = [1] * len(parts) if system["weights"] == "equal" else system["weights"]
    (bm25,) = (part for part in parts if part["kind"] == "bm25")
    is_late = any(part["kind"] == "late" for part in parts)
    return _SECTION.substitute(
        name=hybrid["name"],
        others="BM25 and MaxSim of its own token states" if is_late else "BM25",
        dataset=dataset,
        index=index_name(bm25["language"]),
        parts="".join(
            _code(part, always_separated=always_separated)
            for part in sorted(parts, key=lambda part: part["kind"] == "late")  # which reads the others
        ).rstrip(),
        order=json.dumps([part["name"] for part in parts]),
        depth=system["depth"],
        fusion=(_RRF if system["method"] == "rrf" else _CONVEX).substitute(weights=weights, k=system["k"]),
    )


def _code(part: Mapping[str, Any], *, always_separated: bool) -> str:
    """The lines that make the run of a part for one query."""
    given = {**part, "name": json.dumps(part["name"])}
    if part["kind"] == "biencoder":
        return _DENSE.substitute(given)
    if part["kind"] == "bm25":
        named = part["language"] != "en"  # which has no name there
        language = f"searcher.set_language({json.dumps(part['language'])})\n" if named else ""
        return _BM25.substitute(given, language=language)
    bare = "[SEP] " if always_separated else ""
    return _LATE.substitute(given, candidates=json.dumps(part["candidates"]), bare=bare)
