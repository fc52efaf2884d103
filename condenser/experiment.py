"""What the names in a validated configuration refer to: chains of models, places, variants, settings of jobs.

Data sets, models, systems and tables refer to each other by name. The rules resolve the names with these
functions; `job_settings` gives the settings of one job.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from condenser import kinds
from condenser.data import sources
from condenser.evaluate import columns
from condenser.systems import FOLDER as SYSTEMS
from condenser.systems import UNTRAINED

OWN = "collection"
"""The corpus of a model that is trained on the texts of the data set it is used for: see `home`."""

EACH = "each"
"""The seed of a model that is pre-trained once for every seed of a table."""

VARIANT = rf"(n[1-9]\d*-)?seed\d+|{UNTRAINED}"
"""Train size and seed of a result, for example `seed42` or `n1000-seed1`, as a regular expression."""

SEED = r"-seed(0|[1-9]\d*)"
"""The end of the name of a model that is pre-trained for each seed, for example `condenser-seed1`."""

Config = Mapping[str, Any]


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two blocks merged: `above` wins where both have a key, and nested blocks are merged alike."""
    result = dict(below)
    for key, value in above.items():
        is_block = isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
        result[key] = merged(below[key], value) if is_block else value
    return result


def chain(config: Config, model: str) -> list[str]:
    """A model and the models that it starts from, the checkpoint last."""
    names = [model]
    while "initial" in config["models"][names[-1]]:
        names.append(config["models"][names[-1]]["initial"])
    return names


def root(config: Config, model: str) -> str:
    """The checkpoint at the end of a model's chain; its tokenizer is also the model's."""
    return chain(config, model)[-1]


def home(config: Config, model: str, dataset: str) -> str:
    """The data set in whose results a model lies when it is used for `dataset`: the model's corpus.

    The corpus `collection` is the data set that `dataset` names as its `documents`, else `dataset` itself.
    """
    corpus = config["models"][model]["corpus"]
    if corpus != OWN:
        return corpus
    return config["datasets"][dataset].get("documents") or dataset


def is_seeded(config: Config, model: str) -> bool:
    """Whether a model is pre-trained once for every seed of a table."""
    return config["models"][model]["seed"] == EACH


def model_name(config: Config, model: str, seed: int | None) -> str:
    """The name under which a model lies when it is used with a seed: `condenser-seed1`, or its own.

    Raises:
        LookupError: the model is pre-trained for each seed, and `seed` is None.
    """
    if not is_seeded(config, model):
        return model
    if seed is None:
        raise LookupError(
            f"expected a seed for {model}, which is pre-trained for each seed. "
            f"Ask for another, such as {model}-seed{config['seed']} or the variant seed{config['seed']}."
        )
    return f"{model}-seed{seed}"


def model_of(config: Config, name: str) -> tuple[str, int | None]:
    """The model that a name of `model_name` stands for, and its seed (None: it does not depend on one).

    Raises:
        LookupError: the configuration has no such model, or it is pre-trained for each seed and the name
            has none.
    """
    match = re.fullmatch(rf"(.+){SEED}", name)
    if match and match[1] in config["models"] and is_seeded(config, match[1]):
        return match[1], int(match[2])
    if name not in config["models"]:
        known = [model_name(config, model, config["seed"]) for model in config["models"]]
        raise _unknown("model", name, known)
    return model_name(config, name, None), None


def is_trained(config: Config, system: str) -> bool:
    """Whether a system is fine-tuned."""
    entry = config["systems"][system]
    return kinds.load(SYSTEMS, entry["kind"]).is_trained(entry)


def fits(config: Config, system: str, dataset: str) -> bool:
    """Whether a system is for what a data set has: queries, or sentences of one task."""
    tasks = getattr(kinds.load(SYSTEMS, config["systems"][system]["kind"]), "TASKS", (None,))
    return sources.task(config["datasets"][dataset]) in tasks


def ranks(config: Config, system: str) -> bool:
    """Whether a system ranks passages for queries; others are for sentences."""
    return not hasattr(kinds.load(SYSTEMS, config["systems"][system]["kind"]), "TASKS")


def systems_of(config: Config, system: str) -> list[str]:
    """The systems whose runs or examples a system reads."""
    entry = config["systems"][system]
    named = getattr(kinds.load(SYSTEMS, entry["kind"]), "systems_of", None)
    return named(entry) if named else entry.get("negatives", [])


def has_sizes(config: Config, system: str) -> bool:
    """Whether the train size matters to a system: it is fine-tuned, or reads from a system that is."""
    return is_trained(config, system) or any(has_sizes(config, one) for one in systems_of(config, system))


def has_seeds(config: Config, system: str) -> bool:
    """Whether the seed matters to a system: it, its model or a system that it reads from is trained by it."""
    initial = config["systems"][system].get("initial")
    return (
        has_sizes(config, system)
        or (initial is not None and is_seeded(config, initial))
        or any(has_seeds(config, one) for one in systems_of(config, system))
    )


def run_depth(config: Config, dataset: str, system: str, *, purpose: str) -> int:
    """Hits a query, at most, in the runs of a system; `purpose` is "train" or "eval" (`depth` of a recipe).

    A system that sorts the hits of others anew has no more than they have.
    """
    entry = config["systems"][system]
    depths: list[int] = [recipe(config, config["datasets"][dataset]["recipe"], entry)["depth"][purpose]]
    if reorders := getattr(kinds.load(SYSTEMS, entry["kind"]), "reorders", None):
        depths += [run_depth(config, dataset, one, purpose=purpose) for one in reorders(entry)]
        depths.append(entry.get("depth", depths[0]))
    return min(depths)


def systems_of_kind(config: Config, kind: str) -> list[str]:
    """The systems of one kind."""
    return [name for name, system in config["systems"].items() if system["kind"] == kind]


def systems_of_tables(config: Config) -> set[str]:
    """The systems in the rows of all tables, and those that they read from."""
    found: set[str] = set()
    waiting = [
        row
        for table in config["tables"].values()
        for entry in (table, *table.get("by_dataset", {}).values())
        for row in entry.get("rows", [])
    ]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(systems_of(config, name))
    return found


def variant(config: Config, system: str, *, num_queries: int | str, seed: int) -> str:
    """The variant of a system: `seed42`, `n1000-seed1`, or `untrained`.

    `num_queries` is the number of train queries, or "all".
    """
    asked = f"seed{seed}" if num_queries == "all" else f"n{num_queries}-seed{seed}"
    return ranking_variant(config, system, asked)


def ranking_variant(config: Config, system: str, asked: str) -> str:
    """The variant of a system's runs that other results of the variant `asked` read."""
    if has_sizes(config, system):
        return asked
    return asked[asked.index("seed") :] if has_seeds(config, system) else UNTRAINED


def parse_variant(name: str) -> tuple[int | None, int | None]:
    """Train queries (None: all) and seed (None: untrained) of a variant.

    >>> parse_variant("n1000-seed1"), parse_variant("seed42"), parse_variant("untrained")
    ((1000, 1), (None, 42), (None, None))
    """
    match = re.fullmatch(r"(?:n(\d+)-)?seed(\d+)", name)
    if match is None:
        return None, None
    return int(match[1]) if match[1] else None, int(match[2])


def recipe(config: Config, name: str, system: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A recipe, with the values of a system for the keys that it replaces; its `epochs` are of every size."""
    own = (system or {}).get("recipe") or {}
    return merged(config["recipes"][name] | ({"epochs_by_size": {}} if "epochs" in own else {}), own)


def metrics(config: Config, dataset: str, split: str | None = None) -> dict[str, Any]:
    """The measures of an evaluation set, and the least grade that counts as relevant.

    Its own, else those of its data set, else the configuration's. `split` is None for the main one.
    """
    entry = config["datasets"][dataset]
    further = (entry.get("other_eval_splits") or {}).get(split) or {}
    found = dict(config["metrics"])
    for block in (entry, further):
        found |= {key: block[key] for key in found if block.get(key) is not None}
    return found


def is_measured(config: Config, dataset: str) -> bool:
    """Whether a data set has judged queries to evaluate on."""
    return config["datasets"][dataset].get("eval_split") is not None


def made_from_texts(config: Config, system: str) -> list[str]:
    """What a system makes of a collection before any query comes, below the results of the data set."""
    entry = config["systems"][system]
    made = getattr(kinds.load(SYSTEMS, entry["kind"]), "made_from_texts", None)
    return made(entry) if made else []


def table_entry(config: Config, dataset: str, table: str) -> dict[str, Any]:
    """The block of a table, with the keys that `by_dataset` replaces for a data set."""
    entry = config["tables"][table]
    return of_dataset(entry, entry.get("by_dataset", {}).get(dataset, {}))


def of_dataset(table: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A table with keys of its own for a data set; other rows are not compared with the common ones."""
    return {**table, **({"compare_with": None} if "rows" in own else {}), **own}


def table_columns(config: Config, dataset: str, table: str) -> tuple[list[columns.Column], list[str]]:
    """The columns of a table, and the names of those that are left out.

    Left out are columns of data sets and evaluation sets that the configuration lacks where the table names
    these as optional; where the own data set has no judged queries, those of all other places.

    Raises:
        ValueError: a column names no data set, evaluation set or measure that there is, or none is left.
    """
    entry, found, left_out = table_entry(config, dataset, table), [], []
    for name in entry["measures"]:
        parsed = columns.parse(
            name, own=dataset, datasets=config["datasets"], optional=entry.get("optional", ())
        )
        if parsed is None or (not is_measured(config, dataset) and parsed[0] != dataset):
            left_out.append(name)
            continue
        of, split, measure = parsed
        settings, depth = config["datasets"][of], None
        if split is not None:
            known = metrics(config, of, split)["measures"]
            if measure not in known:
                further = "" if split == settings["eval_split"] else f".other_eval_splits.{split}"
                raise ValueError(
                    f"expected measures of the data set ({', '.join(known)}), got {measure}. "
                    f"Add it to datasets.{of}{further}.measures."
                )
            ranked = sources.task(settings) is None
            depths = [run_depth(config, of, system, purpose="eval") for system in entry["rows"] if ranked]
            depth = min(depths, default=0)
        train_split = settings.get("train_split")
        found.append(columns.Column(name, of, split, measure, settings["source"], train_split, depth))
    if all("/" in column.name for column in found):
        raise ValueError(
            "expected a measure of the data set itself, such as MRR@10, "
            f"got {', '.join(entry['measures'])}. Name one."
        )
    return found, left_out


def table_rows(config: Config, dataset: str, table: str) -> list[dict[str, Any]]:
    """The rows of a table: system, train size, and the variants whose mean it shows."""
    entry = table_entry(config, dataset, table)
    return [
        {
            "system": system,
            "train_queries": num_queries,
            "variants": _variants(config, entry, system, num_queries=num_queries),
            **_shown(config, dataset, system),
        }
        for system in entry["rows"]
        for num_queries in (entry["train_queries"] if has_sizes(config, system) else ["all"])
    ]


def _variants(
    config: Config, entry: Mapping[str, Any], system: str, *, num_queries: int | str = "all"
) -> list[str]:
    """The variants of a system by the seeds of a table or figure, each once."""
    seeds = entry["seeds"] or [config["seed"]]
    return list(dict.fromkeys(variant(config, system, num_queries=num_queries, seed=seed) for seed in seeds))


_SAID_OF_ROWS = {"is_trained": is_trained, "has_sizes": has_sizes}


def figure_settings(config: Config, dataset: str, figure: str) -> dict[str, Any]:
    """A figure's entry with the `rows` that it shows, of its table or of the systems of its panels.

    A row has what `table_rows` gives but batch size and depth, which no figure shows; and it says if it
    `is_trained`, and if it `has_sizes`. A kind that reads manifests or tests has no rows.
    """
    entry = dict(config["figures"][figure])
    if "table" in entry:
        entry["table"] = entry.pop("by_dataset").get(dataset, entry["table"])
    kind = kinds.load("evaluate/figures", entry["kind"])
    if "panels" in entry:
        rows = [
            {
                "panel": title,
                "system": system,
                "variants": _variants(config, entry, system),
                **_shown(config, dataset, system),
            }
            for title, systems in entry["panels"].items()
            for system in systems
        ]
    else:
        rows = table_rows(config, dataset, entry["table"]) if kind.READS in ("variants", "table") else []
    for row in rows:
        row |= {key: of(config, row["system"]) for key, of in _SAID_OF_ROWS.items()}
        del row["batch_size"]
    source = config["datasets"][dataset]["source"]
    return {
        **entry,
        "rows": [row for row in rows if kind.READS != "variants" or kind.file_of(entry, row) is not None],
        "collection": dataset if dataset == source else f"{dataset} ({source})",
        "train_split": config["datasets"][dataset].get("train_split"),
    }


def untouched_start(config: Config, system: str, systems: Iterable[str]) -> str | None:
    """Of `systems`, the one that ranks with the very checkpoint that a system's chain of models begins with.

    None if there is none, and for a system that is such a start itself or has no model.
    """

    def is_start(one: str) -> bool:
        entry = config["systems"][one]
        is_untrained = "initial" in entry and not is_trained(config, one)
        return is_untrained and root(config, entry["initial"]) == entry["initial"]

    if "initial" not in config["systems"][system] or is_start(system):
        return None
    begins_with = root(config, config["systems"][system]["initial"])
    starts = [one for one in systems if is_start(one) and config["systems"][one]["initial"] == begins_with]
    return next(iter(starts), None)


def table_comparisons(
    config: Config, dataset: str, table: str, rows: Sequence[Mapping[str, Any]]
) -> tuple[list[int | None], list[list[int]]]:
    """Which rows of a table are compared, by their numbers in `table_rows`, counted from 0.

    Gives for each row that of its untouched start, if the table has it; and all pairs that are compared, the
    reference second. References are the rows of `compare_with` of the table, else the untouched starts, else
    the first row. Each row is also compared with its start. A reference with a row for each train size is
    compared with the rows of the same size; a system is not compared with itself at another size.
    """
    entry = table_entry(config, dataset, table)
    of_system: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        of_system.setdefault(row["system"], []).append(number)
    start_of = {system: untouched_start(config, system, of_system) for system in of_system}
    row_of_start = [
        None if (start := start_of[row["system"]]) is None else of_system[start][0] for row in rows
    ]
    references = entry.get("compare_with") or [one for one in of_system if one in start_of.values()]
    pairs: list[list[int]] = []
    for number, row in enumerate(rows):
        compared = [
            one
            for reference in references
            if reference != row["system"]
            for one in _of_size(rows, of_system[reference], row)
        ]
        for one in [*compared, row_of_start[number]] if references else [0]:
            is_turned = [one, number] in pairs or (one is not None and row_of_start[one] == number)
            if one not in (None, number) and not is_turned and [number, one] not in pairs:
                pairs.append([number, one])
    return row_of_start, pairs


def _of_size(rows: Sequence[Mapping[str, Any]], numbers: Sequence[int], row: Mapping[str, Any]) -> list[int]:
    """Of the rows of one system, those of a row's train size; all if there are none."""
    return [one for one in numbers if rows[one]["train_queries"] == row["train_queries"]] or [*numbers]


def _shown(config: Config, dataset: str, system: str) -> dict[str, Any]:
    """What a table says of a system besides its measures."""
    from condenser.objectives.checkpoint import display_name

    entry = config["systems"][system]
    shown: dict[str, Any] = {"method": entry["label"] or system, "batch_size": None, "backbone": None}
    if "initial" in entry:
        shown["backbone"] = display_name(config["models"][root(config, entry["initial"])])
    if is_measured(config, dataset) and is_trained(config, system):
        settings = recipe(config, config["datasets"][dataset]["recipe"], entry)
        shown["batch_size"] = settings["batch_size"] * settings.get("passages_per_query", 1)
    return shown


def job_settings(config: Config, wildcards: Mapping[str, str]) -> dict[str, Any]:
    """The configuration as one job sees it.

    Besides the blocks of the configuration: `dataset`, `recipe`, `model`, `system`, `table` and `figure` of
    the job's wildcards, its `seed` and `train_queries` (None: all), and `depth`, the number of hits per query
    in runs of its split.

    Raises:
        LookupError: the configuration has no such data set, model, system, table or figure.
    """
    seen: dict[str, Any] = dict(config)
    for noun in ("dataset", "system", "table", "figure"):
        if noun in wildcards:
            known = config[f"{noun}s"]
            if wildcards[noun] not in known:
                raise _unknown(noun, wildcards[noun], known)
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
            seen["recipe"]["epochs"] = by_size[seen["train_queries"]]
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
        seen["metrics"] = metrics(config, wildcards["dataset"], wildcards.get("split"))
        seen["dataset"] = sources.collected(seen["dataset"])
    if "table" in seen:
        rows = table_rows(config, wildcards["dataset"], wildcards["table"])
        starts, comparisons = table_comparisons(config, wildcards["dataset"], wildcards["table"], rows)
        of_table, left_out = table_columns(config, wildcards["dataset"], wildcards["table"])
        seen["table"] = {
            "columns": [asdict(column) for column in of_table],
            "left_out": left_out,
            "published": table_entry(config, wildcards["dataset"], wildcards["table"])["published"],
            **{"rows": rows, "starts": starts, "comparisons": comparisons},
        }
    if "figure" in seen:
        seen["figure"] = figure_settings(config, wildcards["dataset"], wildcards["figure"])
    return seen


def _unknown(noun: str, name: str, known: Iterable[str]) -> LookupError:
    """The error of a name that the configuration lacks, with the nearest that it has."""
    known = list(known)
    hint = kinds.meant(name, known, otherwise=f"Add it under {noun}s, or ask for another.")
    return LookupError(
        f"expected a {noun} of the configuration ({', '.join(known)}), got {name[:100]}. {hint}"
    )


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


def token_shards(config: Config) -> list[str]:
    """The shards of every collection: `0-of-2`, `1-of-2`."""
    return [f"{index}-of-{config['shards']}" for index in range(config["shards"])]


def checkpoints(config: Config) -> list[str]:
    """The models that exist already, or are new: what trainings start from."""
    return [name for name, model in config["models"].items() if model["objective"] == "checkpoint"]
