"""What one job sees of a validated configuration, and what is wrong with a result that has no job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from typing import Any

from condenser import kinds
from condenser.blocks import Config
from condenser.data import sources
from condenser.experiment import (
    VARIANT,
    is_trained,
    metrics,
    model_of,
    parse_variant,
    recipe,
    recipe_name,
    run_depth,
    unknown,
)
from condenser.experiment.tables import (
    figure_settings,
    table_columns,
    table_comparisons,
    table_entry,
    table_notes,
    table_rows,
)
from condenser.settings import BlockType, Settings, partly, plain
from condenser.systems import FOLDER as SYSTEMS
from condenser.systems import UNTRAINED


def job_settings(config: Config, wildcards: Mapping[str, str]) -> Settings:
    """The configuration as one job sees it.

    Besides the blocks of the configuration: `dataset` (with `split` None if it has no such key), `recipe`,
    `model`, `system`, `table` and `figure` of the job's wildcards, its `seed` and `train_queries` (None:
    all), `lengths` of its data set's recipe, also of texts that name none, `similarities` of a recipe for
    sentences, which no training reads, `depth`, the number of hits per query in runs of its split, and
    `query_set`, the entry of `extracted` for its split where that has one. Such queries, and official ones
    without judgement, have runs as deep as those of train queries. `expansion` is the entry of `expansions`
    for an index or for a system's queries, without its files, which are inputs; else None.

    Raises:
        LookupError: the configuration has no such data set, model, system, table or figure.
    """
    seen = Settings(**vars(config))
    dataset = system = None
    for noun in ("dataset", "system", "table", "figure"):
        if noun in wildcards:
            known = getattr(config, f"{noun}s")
            if wildcards[noun] not in known:
                raise unknown(noun, wildcards[noun], known)
    if "model" in wildcards:
        model, seed = model_of(config, wildcards["model"])
        seen.model = config.models[model]
        if seed is None:
            seed = seen.model.seed
        seen.seed = config.seed if seed is None else seed
    seen.train_queries, seed = parse_variant(wildcards.get("variant", ""))
    if seed is not None:
        seen.seed = seed
    if "system" in wildcards:
        system = config.systems[wildcards["system"]]
        hidden = {"label", "recipe"}
        if "split" not in wildcards:
            hidden.update(getattr(kinds.load(SYSTEMS, system.kind), "OF_RUNS", ()))
        seen.system = _without(system, hidden)
        if "dataset" in wildcards and "split" not in wildcards:
            seen.hybrid = hybrid_of(config, wildcards["dataset"], wildcards["system"])
    name = getattr(system, "expanded_queries", None)
    if "index" in wildcards:
        name = wildcards["index"].partition(".")[2]
    seen.expansion = _without(config.expansions[name], {"files"}) if name else None
    if extracted := config.extracted.get(wildcards.get("split", "")):
        own = config.seed if extracted.seed is None else extracted.seed
        seen.query_set = partly(type(extracted), {**vars(extracted), "seed": own})
    if "dataset" in wildcards:
        dataset = config.datasets[wildcards["dataset"]]
        named = recipe_name(config, wildcards["dataset"])
        seen.lengths = getattr(config.recipes[named], "lengths", None)
        seen.metrics = metrics(config, wildcards["dataset"], wildcards.get("split"))
        seen.dataset = sources.settings_of_collect(dataset)
    if dataset is not None and (hasattr(dataset, "recipe") or system is not None):
        ranked = sources.task(dataset) is None
        asked = recipe(config, named, system)
        if seen.train_queries in (by_size := getattr(asked, "epochs_by_size", {})):
            asked.epochs, asked.updates = by_size[seen.train_queries], None
        if ranked and system is not None and not is_trained(config, wildcards["system"]):
            asked.negatives = copy(asked.negatives)
            asked.negatives.margin = None
        seen.recipe = _without(asked, {"epochs_by_size", "similarities"})
        seen.similarities = getattr(asked, "similarities", None)
        if ranked and "split" in wildcards:
            of_training = {*(getattr(dataset, key, None) for key in ("train_split", "unjudged"))}
            of_training |= config.extracted.keys()
            purpose = "train" if wildcards["split"] in of_training else "eval"
            seen.depth = (
                getattr(asked.depth, purpose)
                if system is None
                else run_depth(config, wildcards["dataset"], wildcards["system"], purpose=purpose)
            )
    if "table" in wildcards:
        names = wildcards["dataset"], wildcards["table"]
        rows = table_rows(config, *names)
        starts, comparisons = table_comparisons(config, *names, rows)
        of_table, left_out = table_columns(config, *names)
        seen.table = Settings(
            columns=[asdict(column) for column in of_table],
            left_out=left_out,
            published=table_entry(config, *names).published,
            notes=table_notes(config, *names),
            rows=rows,
            starts=starts,
            comparisons=comparisons,
        )
    if "figure" in wildcards:
        seen.figure = figure_settings(config, wildcards["dataset"], wildcards["figure"])
    return seen


def hybrid_of(config: Config, dataset: str, system: str) -> dict[str, Any] | None:
    """The first fusion of a bi-encoder with BM25, and with MaxSim of its model's token states or without.

    Its settings and those of its parts, each with its name and the `hits` of its runs. None where there is no
    such fusion that other libraries can make too: of whole passages, with all tokens.
    """
    entry = config.systems[system]
    if entry.kind != "biencoder" or getattr(config.datasets[dataset], "split", None):
        return None
    fusions = [(name, found) for name, found in config.systems.items() if found.kind == "fusion"]
    for name, fusion in fusions:
        parts = {part: config.systems[part] for part in fusion.of}
        others = [part for key, part in parts.items() if key != system]
        late = [part for part in others if part.kind == "late"]
        is_plain = all(
            part.initial == entry.initial
            and not entry.train
            and not part.train
            and part.special_tokens
            and part.punctuation
            and part.match == "all"
            and not part.recipe
            and set(part.candidates) <= parts.keys()
            for part in late
        )
        is_plain = is_plain and fusion.weights != "learnt" and not any(map(_is_expanded, others))
        kinds_of_others = [part.kind for part in others if part not in late]
        if system in parts and kinds_of_others == ["bm25"] and len(late) < 2 and is_plain:
            hits = {part: run_depth(config, dataset, part, purpose="eval") for part in parts}
            shown = [{"name": part, "hits": hits[part], **plain(parts[part])} for part in parts]
            return {"name": name, "system": plain(fusion), "parts": shown}
    return None


def _is_expanded(part: Any) -> bool:
    return bool(getattr(part, "expanded_passages", None) or getattr(part, "expanded_queries", None))


def _without(block: BlockType, names: set[str]) -> BlockType:
    """A block without some of its keys."""
    made = copy(block)
    for name in names:
        vars(made).pop(name, None)
    return made


_ASKED_FOR = (  # where names stand in the path of a result
    r"results/(?P<dataset>[^/]+)/systems/(?P<system>[^/]+)/(?P<variant>[^/]+)/.*",
    r"results/(?P<dataset>[^/]+)/models/(?P<model>[^/]+)/.*",
    r"results/(?P<dataset>[^/]+)/(?P<figure>[^/]+)\.svg",
    r"results/(?P<dataset>[^/]+)/(?P<table>[^/]+)\.(?:tsv|crate\.zip)",
    r"results/(?P<dataset>[^/]+)/.*",
)


def unknown_name(config: Config, result: str) -> str | None:
    """A sentence on a name in the path of a result that the configuration lacks; None if it has all."""
    names = next((match.groupdict() for place in _ASKED_FOR if (match := re.fullmatch(place, result))), {})
    try:
        job_settings(config, names)
    except (LookupError, ValueError) as error:
        return str(error)
    if "variant" in names and not re.fullmatch(VARIANT, names["variant"]):
        return f"expected a variant such as seed42, n1000-seed42 or {UNTRAINED}, got {names['variant']}."
    return None
