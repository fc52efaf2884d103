"""What one job sees of a validated configuration, and what is wrong with a result that has no job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from condenser import kinds
from condenser.data import sources
from condenser.experiment import (
    VARIANT,
    Config,
    is_trained,
    merged,
    metrics,
    model_of,
    parse_variant,
    recipe,
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
from condenser.systems import FOLDER as SYSTEMS
from condenser.systems import UNTRAINED


def job_settings(config: Config, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The configuration as one job sees it.

    Besides the blocks of the configuration: `dataset` (with `split` None if it has no such key), `recipe`,
    `model`, `system`, `table` and `figure` of the job's wildcards, its `seed` and `train_queries` (None:
    all), `lengths` of its data set's recipe, also of texts that name none, and `depth`, the number of hits
    per query in runs of its split.

    Raises:
        LookupError: the configuration has no such data set, model, system, table or figure.
    """
    seen: dict[str, Any] = dict(config)
    for noun in ("dataset", "system", "table", "figure"):
        if noun in wildcards:
            known = config[f"{noun}s"]
            if wildcards[noun] not in known:
                raise unknown(noun, wildcards[noun], known)
            seen[noun] = known[wildcards[noun]]
    if "model" in wildcards:
        model, seed = model_of(config, wildcards["model"])
        seen["model"] = config["models"][model]
        if seed is None:
            seed = seen["model"]["seed"]
        seen["seed"] = config["seed"] if seed is None else seed
    seen["train_queries"], seed = parse_variant(wildcards.get("variant", ""))
    if seed is not None:
        seen["seed"] = seed
    if "system" in seen:
        hidden = {"label", "recipe"}
        if "split" not in wildcards:
            hidden.update(getattr(kinds.load(SYSTEMS, seen["system"]["kind"]), "OF_RUNS", ()))
        seen["system"] = {key: value for key, value in seen["system"].items() if key not in hidden}
    if "recipe" in seen.get("dataset", {}):
        system = config["systems"][wildcards["system"]] if "system" in wildcards else None
        seen["recipe"] = recipe(config, seen["dataset"]["recipe"], system)
        by_size = seen["recipe"].pop("epochs_by_size", {})
        if seen["train_queries"] in by_size:
            seen["recipe"] |= {"epochs": by_size[seen["train_queries"]], "updates": None}
        ranked = sources.task(seen["dataset"]) is None
        if ranked and system is not None and not is_trained(config, wildcards["system"]):
            seen["recipe"] = merged(seen["recipe"], {"negatives": {"margin": None}})
        if ranked and "split" in wildcards:
            is_train = wildcards["split"] == seen["dataset"]["train_split"]
            purpose = "train" if is_train else "eval"
            seen["depth"] = (
                seen["recipe"]["depth"][purpose]
                if system is None
                else run_depth(config, wildcards["dataset"], wildcards["system"], purpose=purpose)
            )
    if "dataset" in seen:
        named = seen["dataset"].get("recipe") or config.get("recipe")
        seen["lengths"] = config["recipes"].get(named, {}).get("lengths")
        seen["metrics"] = metrics(config, wildcards["dataset"], wildcards.get("split"))
        seen["dataset"] = {"split": None, **sources.collected(seen["dataset"])}
    if "table" in seen:
        rows = table_rows(config, wildcards["dataset"], wildcards["table"])
        starts, comparisons = table_comparisons(config, wildcards["dataset"], wildcards["table"], rows)
        of_table, left_out = table_columns(config, wildcards["dataset"], wildcards["table"])
        seen["table"] = {
            "columns": [asdict(column) for column in of_table],
            "left_out": left_out,
            "published": table_entry(config, wildcards["dataset"], wildcards["table"])["published"],
            "notes": table_notes(config, wildcards["dataset"], wildcards["table"]),
            **{"rows": rows, "starts": starts, "comparisons": comparisons},
        }
    if "figure" in seen:
        seen["figure"] = figure_settings(config, wildcards["dataset"], wildcards["figure"])
    return seen


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
