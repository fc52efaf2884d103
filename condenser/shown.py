"""What tables and figures of a validated configuration show: rows, columns and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from condenser import kinds
from condenser.blocks import Table
from condenser.evaluate import columns
from condenser.files import canonical_json
from condenser.nouns import Config, Model, System
from condenser.settings import Settings, partly, plain
from condenser.variants import parse_variant

_COUNTED = (
    *("examples", "pseudo_labels", "held_out", "train", "pretrain", "fusion_weights"),
    *("encode", "word_similarities", "checkpoint"),
)


def table_entry(config: Config, dataset: str, table: str) -> Table:
    """The block of a table, with the keys that `by_dataset` replaces for a data set."""
    entry = config.tables[table]
    return of_dataset(entry, entry.by_dataset.get(dataset, {}))


def of_dataset(table: Table, own: Mapping[str, Any]) -> Table:
    """A table with keys of its own for a data set; other rows are not compared with the common ones."""
    return partly(Table, {**vars(table), **({"compare_with": None} if "rows" in own else {}), **own})


def untrained_tables(config: Config, dataset: str) -> list[str]:
    """The tables whose systems all fit a data set and learn from no train query."""
    entry = config.datasets[dataset]
    return [
        name
        for name in config.tables
        if all(
            config.systems[row].supports_task_of(entry) and not config.systems[row].has_sizes
            for row in table_entry(config, dataset, name).rows
        )
    ]


def table_columns(config: Config, dataset: str, table: str) -> tuple[list[columns.Column], list[str]]:
    """The columns of a table, and the names of those that are left out.

    Left out are columns of data sets and evaluation sets that the configuration lacks where the table names
    these as optional; where the own data set has no judged queries, those of all other places.

    Raises:
        ValueError: a column names no data set, evaluation set or measure that there is, or none is left.
    """
    entry, found, left_out = table_entry(config, dataset, table), [], []
    for name in entry.measures:
        parsed = columns.parse(name, dataset=dataset, datasets=config.datasets, optional=entry.optional)
        if parsed is None or (not config.datasets[dataset].is_measured and parsed[0] != dataset):
            left_out.append(name)
            continue
        of, split, measure = parsed
        settings, depth = config.datasets[of], None
        if split is not None:
            known = settings.metrics(split).measures
            if measure not in known:
                raise ValueError(
                    f"expected measures of the data set ({', '.join(known)}), got {measure}. "
                    f"Add it to {settings.measures_key(split)}."
                )
            rows = [config.systems[row] for row in entry.rows if settings.TASK is None]
            depth = min((row.run_depth(of, purpose="eval") for row in rows), default=0)
        train_split = settings.learns_on
        found.append(columns.Column(name, of, split, measure, settings.source, train_split, depth))
    if all("/" in column.name for column in found):
        raise ValueError(
            "expected a measure of the data set itself, such as MRR@10, "
            f"got {', '.join(entry.measures)}. Name one."
        )
    return found, left_out


def table_rows(config: Config, dataset: str, table: str) -> list[dict[str, Any]]:
    """The rows of a table: system, train size, and the variants whose mean it shows."""
    entry = table_entry(config, dataset, table)
    return [
        {
            "system": system,
            "train_queries": num_queries,
            "variants": _variants(entry, config.systems[system], num_queries=num_queries),
            **_shown(config, dataset, system, label=entry.labels.get(system)),
        }
        for system in entry.rows
        for num_queries in (entry.train_queries if config.systems[system].has_sizes else ["all"])
    ]


def _variants(entry: Any, system: System, *, num_queries: int | str = "all") -> list[str]:
    """The variants of a system by the seeds of a table or figure, each once."""
    seeds = entry.seeds or [system.others.seed]
    return list(dict.fromkeys(system.variant(num_queries=num_queries, seed=seed) for seed in seeds))


def table_notes(config: Config, dataset: str, table: str) -> dict[str, list[dict[str, Any]]]:
    """What the notes under a table are about: texts that its models read, and trainings behind its rows.

    `texts` has a data set of the table's columns, the checkpoint whose tokenizer a system uses, the `lengths`
    of its recipe, whether a query and a passage share a row; then the evaluation splits of the columns, and
    the systems of which all that is the same. `trainings` has a model and its seed, or a system, its variant
    and, if above 1, its `soup`; `compared` those of rankers that learn from judgements.
    """
    places, _ = table_columns(config, dataset, table)
    texts: dict[str, dict[str, Any]] = {}
    trainings: dict[str, dict[str, Any]] = {}
    for row in table_rows(config, dataset, table):
        system = config.systems[row["system"]]
        if (initial := system.start_model) is None:
            continue
        for of, split in columns.places(places):
            if not (system.ranks and system.supports_task_of(config.datasets[of])):
                continue
            settings = config.datasets[of].recipe_of(system)
            about = {
                **{"dataset": of, "model": initial.root.key, "lengths": plain(settings.lengths)},
                "in_one_row": system.READS_PAIRS,
            }
            entry = texts.setdefault(canonical_json(about), {**about, "splits": [], "systems": []})
            for key, value in (("splits", split), ("systems", row["method"])):
                if value is not None and value not in entry[key]:
                    entry[key].append(value)
        for name in row["variants"]:
            _, seed = parse_variant(name)
            made: list[dict[str, Any]] = [
                {"model": model.key, "seed": seed if model.is_seeded else None}
                for model in reversed(initial.chain[:-1])
                if not model.is_chosen
            ]
            rounds = [system]
            while (other := rounds[-1].start_system) is not None:
                rounds.append(other)
            for one in reversed(rounds):
                if one.is_trained:
                    size = config.datasets[dataset].recipe_of(one).num_trainings
                    soup = {"soup": size} if size > 1 else {}
                    made.append({"system": one.key, "variant": one.ranking_variant(name), **soup})
            trainings |= {canonical_json(one): one for one in made}
    made = list(trainings.values())
    learners = {name for name, system in config.systems.items() if system.ranks and system.learns}
    compared = [one for one in made if one.get("system") in learners]
    return {"texts": list(texts.values()), "trainings": made, "compared": compared}


def is_counted(rule: str, wildcards: Mapping[str, str], places: Iterable[tuple[str, str | None]]) -> bool:
    """Whether the notes of a table tell counts of a job behind it; of queries only those at its `places`."""
    is_run = "system" in wildcards and "split" in wildcards and "shard" not in wildcards
    return rule in _COUNTED or (is_run and (wildcards["dataset"], wildcards["split"]) in places)


def figure_settings(config: Config, dataset: str, figure: str) -> Settings:
    """A figure's entry with the `rows` that it shows, of its table or of the systems of its panels.

    A row has what `table_rows` gives but batch size and depth, which no figure shows; and it says if it
    `is_trained`, and if it `has_sizes`. A kind that reads manifests or tests has no rows.
    """
    named = config.figures[figure]
    entry = Settings(**vars(named))
    if (table := named.table_of(dataset)) is not None:
        entry.table = table
        del entry.by_dataset
    kind = kinds.load("evaluate/figures", entry.kind)
    if named.systems_of_panels:
        rows = [
            {
                "panel": title,
                "system": system,
                "variants": _variants(entry, config.systems[system]),
                **_shown(config, dataset, system),
            }
            for title, systems in named.systems_of_panels.items()
            for system in systems
        ]
    else:
        rows = table_rows(config, dataset, entry.table) if kind.READS in ("variants", "table") else []
    for row in rows:
        system = config.systems[row["system"]]
        row |= {"is_trained": system.is_trained, "has_sizes": system.has_sizes}
        del row["batch_size"]
    source = config.datasets[dataset].source
    entry.rows = [row for row in rows if kind.READS != "variants" or kind.file_of(entry, row) is not None]
    entry.collection = dataset if dataset == source else f"{dataset} ({source})"
    entry.train_split = config.datasets[dataset].learns_on
    return entry


def untouched_start(config: Config, system: str, systems: Iterable[str]) -> str | None:
    """The one of `systems` that ranks with the untouched checkpoint from which a system's models start.

    A system that scores the hits of others, as MaxSim does, is no start. None if there is none, and for a
    system that is such a start itself or has no model.
    """

    def untouched(one: System) -> Model | None:
        model = one.start_model
        return model if model and not (one.needs or one.is_trained) and model.start is None else None

    one = config.systems[system]
    if one.start_model is None or untouched(one):
        return None
    begins_with = one.start_model.root
    return next((name for name in systems if untouched(config.systems[name]) is begins_with), None)


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
    references = entry.compare_with or [one for one in of_system if one in start_of.values()]
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


def _shown(config: Config, dataset: str, system: str, *, label: str | None = None) -> dict[str, Any]:
    """What a table says of a system besides its measures; `label` is its name there, if it is another."""
    from condenser.objectives.checkpoint import display_name

    entry = config.systems[system]
    shown: dict[str, Any] = {"method": label or entry.label or system, "batch_size": None, "backbone": None}
    if (initial := entry.start_model) is not None:
        shown["backbone"] = display_name(initial.root)
    if config.datasets[dataset].is_measured and entry.is_trained:
        settings = config.datasets[dataset].recipe_of(entry)
        shown["batch_size"] = settings.batch_size * settings.texts_per_item
    return shown
