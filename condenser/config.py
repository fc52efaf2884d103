"""The configuration, validated before anything runs.

Nothing here reads a file but the `config.json` of a model that is a folder. Every wrong key, type, range,
missing folder or impossible combination gives one line: the key, what is allowed, what came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from condenser import experiment, kinds
from condenser.data import sources
from condenser.evaluate import columns, figures, measures, published
from condenser.files import read_json
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.settings import (
    LARGEST,
    Block,
    Count,
    Epochs,
    Name,
    NotNegative,
    Optimiser,
    Positive,
    Seeds,
    Share,
    Whole,
)
from condenser.systems import FOLDER as SYSTEMS

EMBEDDED_LAYERS, EMBEDDED_POSITIONS = 6, 512  # MiniLM's config.json
Similarity = Annotated[float, Field(ge=0.3, le=1.0)]  # lower ones say nothing, and cost time
_TAKEN = {  # names that stand for other results
    "datasets": {"downloads", "logs"},  # folders of results/ that belong to no data set
    "tables": {"audit"},  # results/<dataset>/audit.tsv
    "figures": {"audit", "data"},  # whose manifest lies where a figure's would
}
_PADDED_TO = 8  # as condenser.data.batches pads rows
_NUM_SPECIALS = 2
_LONGEST_PREVIEW, _LONGEST_PATH = 80, 400  # characters of a value in a message


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16", "fp16"]


class Safety(Block):
    checkpoint_every_s: Whole
    checkpoints_kept: Count
    bad_loss_patience: Whole


class Downloads(Block):
    mirror: str | None
    retries: Whole
    timeout_s: Positive


class Lengths(Block):
    query: Annotated[int, Field(ge=3, le=512)]
    passage: Annotated[int, Field(ge=3, le=512)]


class Depth(Block):
    """Hits a query, by what the run is for."""

    train: Count
    eval: Count


class Negatives(Block):
    depth: Count
    sample: Count
    positive_in_run: list[Name]
    margin: NotNegative | None = None
    without_answers: bool = False


class FineTuning(Optimiser):
    """`epochs`, and others of the train sizes that `epochs_by_size` names."""

    batch_size: Count
    epochs: Epochs
    epochs_by_size: dict[Count, Epochs] = Field(default_factory=dict)


class Recipe(FineTuning):
    """How retrievers are fine-tuned and searched on a kind of data."""

    tied: bool
    lengths: Lengths
    negatives: Negatives
    depth: Depth
    passages_per_query: Annotated[int, Field(ge=2, le=LARGEST)]
    rows_per_chunk: Count
    scale: Positive | None = None  # of similarities in the loss; `TextVector.scale` by default


class SentenceRecipe(FineTuning):
    """How encoders of sentences are fine-tuned on pairs or triplets."""

    max_tokens: Annotated[int, Field(ge=3, le=512)]
    margin: Positive | None = None  # of triplets


class Encode(Block):
    batch_tokens: Annotated[int, Field(ge=512, le=LARGEST)]
    block_rows: Annotated[int, Field(ge=1, le=16384)]  # a search holds 4,096 times as many scores
    separator: Literal["titled", "always"]


class Metrics(Block):
    measures: Annotated[list[str], Field(min_length=1)]
    relevant_grade: Count


class Significance(Block):
    """How sure a table is: see docs/significance.md."""

    confidence: Annotated[float, Field(ge=0.5, lt=1.0)]
    power: Annotated[float, Field(ge=0.5, lt=1.0)]
    resamples: Annotated[int, Field(ge=1000, le=10_000_000)]
    permutations: Annotated[int, Field(ge=1000, le=10_000_000)]
    seed: Whole


class Report(Block):
    """What the report of a data set holds of single queries: see condenser/report/queries.py."""

    queries: Count
    characters: Count
    megabytes: Positive


class Audit(Block):
    """What an audit looks at, and where its findings begin: see docs/audit.md."""

    systems: list[Name]
    judges: list[Name]
    least_words: Whole
    near_passages: Similarity
    near_negatives: Similarity
    near_queries: Similarity
    near_queries_judged_alike: Similarity
    query_share: Share


def _list_of_names(value: Any) -> Any:
    """One name is a list of one, null an empty list."""
    return [] if value is None else [value] if isinstance(value, str) else value


class Table(Block):
    """Rows are systems; each comes once for every train size, as the mean over the seeds.

    `measures` are columns (`condenser.evaluate.columns`); those of the data sets and evaluation sets in
    `optional` are left out where the configuration lacks these. `by_dataset` replaces keys for single data
    sets.
    """

    rows: Annotated[list[Name], Field(min_length=1)]
    measures: Annotated[list[str], Field(min_length=1)]
    optional: Annotated[list[Name], Field(default_factory=list)]
    published: Annotated[  # of several files the first with a figure
        list[str], BeforeValidator(_list_of_names), Field(default_factory=list)
    ]
    train_queries: Annotated[
        list[Count | Literal["all"]], Field(min_length=1, default_factory=lambda: ["all"])
    ]
    seeds: Seeds | None = None  # the configuration's seed
    # the untouched starts of its rows, else its first row
    compare_with: Annotated[list[Name], Field(min_length=1)] | None = None
    by_dataset: Annotated[dict[Name, dict[str, Any]], Field(default_factory=dict)]


class Config(Block):
    """The whole of config.yaml with its overlays."""

    seed: Whole
    compute: Compute
    safety: Safety
    downloads: Downloads
    datasets: dict[Name, dict[str, Any]]
    sources: dict[Name, dict[str, Any]]
    recipe: Name
    recipes: dict[Name, dict[str, Any]]
    models: dict[Name, dict[str, Any]]
    objectives: dict[Name, dict[str, Any]]
    systems: dict[Name, dict[str, Any]]
    shards: Count
    encode: Encode
    metrics: Metrics
    significance: Significance
    audit: Audit
    report: Report
    tables: dict[Name, Table]
    figures: dict[Name, dict[str, Any]] = Field(default_factory=dict)


def validated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as plain values, each entry completed by what its kind gives to all.

    Raises:
        ValueError: something is wrong; one line, `key: what is allowed, what came`.
    """
    checked = _checked(Config, dict(config), key="").model_dump()
    for noun, taken in _TAKEN.items():
        taken = taken | set(checked["tables"]) if noun == "figures" else taken
        if name := next((name for name in checked[noun] if name in taken), None):
            raise ValueError(
                f"{noun}.{name}: expected another name, {name} is that of another result. Rename it."
            )
    checked["recipes"] = {
        name: _checked(_recipe_class(recipe), recipe, key=f"recipes.{name}").model_dump()
        for name, recipe in checked["recipes"].items()
    }
    for noun, tag, folder, defaults in (
        ("datasets", "source", sources.FOLDER, "sources"),
        ("models", "objective", OBJECTIVES, "objectives"),
        ("systems", "kind", SYSTEMS, ""),
        ("figures", "kind", figures.FOLDER, ""),
    ):
        of_kinds = checked[defaults] if defaults else {}
        _check_defaults(of_kinds, folder, defaults)
        checked[noun] = {
            name: _entry(f"{noun}.{name}", entry, tag=tag, folder=folder, defaults=of_kinds)
            for name, entry in checked[noun].items()
        }
    _check_name("recipe", checked["recipe"], checked["recipes"])
    for dataset in checked["datasets"].values():
        if "recipe" in dataset:
            dataset["recipe"] = dataset["recipe"] or checked["recipe"]
    _check_datasets(checked)
    _check_models(checked)
    _check_systems(checked)
    _check_tables(checked)
    _check_figures(checked)
    _check_audit(checked)
    _check_rows_fit(checked)
    mirror = checked["downloads"]["mirror"]
    if mirror is not None and not Path(mirror).is_dir():
        path = _preview(mirror, longest=_LONGEST_PATH)
        raise ValueError(f"downloads.mirror: expected a folder, found none at {path}.")
    return checked


def _recipe_class(recipe: Mapping[str, Any]) -> type[BaseModel]:
    """That of a recipe for sentences, which alone has `max_tokens`, or for retrievers."""
    return SentenceRecipe if "max_tokens" in recipe else Recipe


def _checked(model: type[BaseModel], values: Any, *, key: str) -> BaseModel:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ValueError(_first_line(error.errors(), model, key)) from None


def _entry(
    key: str, entry: Mapping[str, Any], *, tag: str, folder: str, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """A data set, model or system, checked by the class of its kind."""
    if tag not in entry:
        raise ValueError(f"{key}.{tag}: missing. It names the kind: {', '.join(kinds.names(folder))}.")
    kind = entry[tag]
    if not isinstance(kind, str) or kind not in kinds.names(folder):
        known = ", ".join(kinds.names(folder))
        raise ValueError(f"{key}.{tag}: expected one of {known}, got {_preview(kind)}.")
    values = experiment.merged(defaults.get(kind, {}), entry)
    return _checked(kinds.load(folder, kind).Settings, values, key=key).model_dump()


def _check_defaults(defaults: Mapping[str, Any], folder: str, block: str) -> None:
    """Refuse what no entry of a kind could have, also where there is no entry that would tell."""
    for kind, values in defaults.items():
        _check_name(f"{block}.{kind}", kind, kinds.names(folder))
        model = kinds.load(folder, kind).Settings
        try:
            model.model_validate(values)
        except ValidationError as error:
            if found := [one for one in error.errors() if one["type"] != "missing"]:
                raise ValueError(_first_line(found, model, f"{block}.{kind}")) from None


def _check_datasets(config: dict[str, Any]) -> None:
    for name, dataset in config["datasets"].items():
        key = f"datasets.{name}"
        if dataset.get("path") is not None and not Path(dataset["path"]).is_dir():
            path = _preview(dataset["path"], longest=_LONGEST_PATH)
            raise ValueError(
                f"{key}.path: expected a folder, found none at {path} (relative to where snakemake runs)."
            )
        if "recipe" in dataset:
            _check_name(f"{key}.recipe", dataset["recipe"], config["recipes"])
            _check_recipe_fits(f"{key}.recipe", dataset, config)
        if documents := dataset.get("documents"):
            _check_name(f"{key}.documents", documents, config["datasets"])
            if config["datasets"][documents].get("documents"):
                raise ValueError(
                    f"{key}.documents: expected a data set that names no documents itself, got {documents}. "
                    "Name the data set whose texts the models are to be pre-trained on."
                )
        if dataset.get("other_eval_splits") and not sources.has_more_splits(dataset):
            raise ValueError(
                f"{key}.other_eval_splits: expected none, the source {dataset['source']} makes one "
                f"evaluation set, got {', '.join(dataset['other_eval_splits'])}. Leave the key out."
            )
        for number, split in enumerate(sources.eval_splits(dataset)):
            of_split = f"{key}.other_eval_splits.{split}" if number else key
            metrics = experiment.metrics(config, name, split)
            block = dataset["other_eval_splits"][split] if number else dataset
            _check_measures(f"{of_split}.measures", block.get("measures") or [], task=sources.task(dataset))
            least = getattr(sources.load(dataset), "LEAST_GRADES", {}).get(split, 1)
            if metrics["relevant_grade"] < least:
                raise ValueError(
                    f"{of_split}.relevant_grade: expected at least {least} for the evaluation set {split}, "
                    f"got {metrics['relevant_grade']}. Lower grades are not relevant there."
                )
    for name, recipe in config["recipes"].items():
        _check_recipe(f"recipes.{name}", recipe, config)


def _check_recipe_fits(key: str, dataset: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuse a recipe that is not for what a data set has, and triplets without a margin."""
    task, given = sources.task(dataset), dataset["recipe"]
    wanted = Recipe if task is None else SentenceRecipe
    fitting = [
        name
        for name, recipe in config["recipes"].items()
        if _recipe_class(recipe) is wanted and (task != "triplets" or recipe["margin"] is not None)
    ]
    if given not in fitting:
        what = {None: "retrievers", "triplets": "sentences with a margin"}.get(task, "sentences")
        raise ValueError(
            f"{key}: expected a recipe for {what} ({', '.join(fitting) or 'there is none'}), got {given}. "
            "A recipe for sentences has max_tokens."
        )


def _check_recipe(key: str, recipe: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    if _recipe_class(recipe) is SentenceRecipe:
        return
    if recipe["negatives"]["depth"] > recipe["depth"]["train"]:
        raise ValueError(
            f"{key}.negatives.depth: {recipe['negatives']['depth']} is deeper than the train runs that it "
            f"reads ({key}.depth.train {recipe['depth']['train']})."
        )
    for system in recipe["negatives"]["positive_in_run"]:
        _check_name(f"{key}.negatives.positive_in_run", system, config["systems"])


def _check_models(config: dict[str, Any]) -> None:
    models = config["models"]
    for name, model in models.items():
        key = f"models.{name}"
        if re.search(r"-seed\d+$", name):
            raise ValueError(
                f"{key}: expected another name, {name} is that of a model which is pre-trained for each "
                "seed. Rename it."
            )
        if model["corpus"] != experiment.OWN:
            _check_name(f"{key}.corpus", model["corpus"], [experiment.OWN, *config["datasets"]])
        if "initial" in model:
            _check_name(f"{key}.initial", model["initial"], models)
            if experiment.is_seeded(config, model["initial"]) and not experiment.is_seeded(config, name):
                raise ValueError(
                    f"{key}.seed: expected {experiment.EACH}, because {model['initial']}, "
                    "which it starts from, has it."
                )
        elif experiment.is_seeded(config, name):
            raise ValueError(
                f"{key}.seed: expected a whole number, got {experiment.EACH}. "
                "A checkpoint is one for all seeds."
            )
        if "initial" not in model and model["source"] == "folder":
            _layers_and_positions(model, key)
    for name in models:
        _refuse_cycles(f"models.{name}.initial", name, lambda one: filter(None, [models[one].get("initial")]))
        *above, checkpoint = experiment.chain(config, name)
        if models[checkpoint]["source"] != "scratch":
            continue
        for model in above:
            learnt, used = models[checkpoint]["corpus"], models[model]["corpus"]
            if learnt == experiment.OWN != used:
                raise ValueError(
                    f"models.{checkpoint}.corpus: expected {used!r}, the corpus of {model}, got {learnt!r}: "
                    "a vocabulary is learnt from one corpus and serves a whole chain of models."
                )


def _check_systems(config: dict[str, Any]) -> None:
    systems = config["systems"]
    for name, system in systems.items():
        key = f"systems.{name}"
        if "initial" in system:
            _check_name(f"{key}.initial", system["initial"], config["models"])
        for other in experiment.systems_of(config, name):
            of_key = next((k for k, value in system.items() if value == other or other in _list(value)), "")
            _check_name(f"{key}.{of_key}", other, systems)
        if system.get("first_on"):
            _check_name(f"{key}.first_on", system["first_on"], config["datasets"])
            if not experiment.fits(config, name, system["first_on"]):
                raise ValueError(
                    f"{key}.first_on: expected a data set of sentences, got {system['first_on']}. "
                    "Name one that has pairs or triplets."
                )
        if system.get("recipe"):
            wanted = Recipe if experiment.ranks(config, name) else SentenceRecipe
            for recipe in config["recipes"].values():
                if _recipe_class(recipe) is not wanted:
                    continue
                changed = experiment.merged(recipe, system["recipe"])
                changed = _checked(wanted, changed, key=f"{key}.recipe").model_dump()
                _check_recipe(f"{key}.recipe", changed, config)
    for name in systems:
        _refuse_cycles(f"systems.{name}", name, lambda one: experiment.systems_of(config, one))
    for name, system in systems.items():
        if check := getattr(kinds.load(SYSTEMS, system["kind"]), "check", None):
            try:
                check(system, systems)
            except ValueError as error:
                raise ValueError(f"systems.{name}.{error}") from None


def _check_tables(config: dict[str, Any]) -> None:
    _check_measures("metrics.measures", config["metrics"]["measures"], task=None)
    known = [
        measure
        for dataset, settings in config["datasets"].items()
        for split in sources.eval_splits(settings)
        for measure in experiment.metrics(config, dataset, split)["measures"]
    ]
    known = list(dict.fromkeys([*config["metrics"]["measures"], *known]))
    for name, table in config["tables"].items():
        key = f"tables.{name}"
        _check_table(key, table, config, known=known, dataset=None)
        for dataset, entry in table["by_dataset"].items():
            if "by_dataset" in entry:
                raise ValueError(f"{key}.by_dataset.{dataset}.by_dataset: unknown key.")
            of = f"{key}.by_dataset.{dataset}"
            given = {**experiment.of_dataset(table, entry), "by_dataset": {}}
            whole = _checked(Table, given, key=of).model_dump()
            _check_table(of, whole, config, known=known, dataset=dataset)
            table["by_dataset"][dataset] = {part: whole[part] for part in entry}


def _check_table(
    key: str, table: Mapping[str, Any], config: dict[str, Any], *, known: Sequence[str], dataset: str | None
) -> None:
    """`known`: the measures of all data sets; `dataset`: that of a table for one, which may be missing."""
    is_there = dataset is None or dataset in config["datasets"]
    task = sources.task(config["datasets"][dataset]) if dataset is not None and is_there else None
    for row in table["rows"]:
        _check_name(f"{key}.rows", row, config["systems"])
        if dataset is not None and is_there and not experiment.fits(config, row, dataset):
            what, kind = "queries" if task is None else "sentences", config["systems"][row]["kind"]
            raise ValueError(
                f"{key}.rows: expected systems for the {what} of {dataset}, got {row}, a {kind}. "
                "Take a system of another kind."
            )
    for name in table["measures"]:
        *above, measure = name.split("/")
        if not above and is_there and not _measure(f"{key}.measures", measure).needs_answers:
            of_one = known if dataset is None else experiment.metrics(config, dataset)["measures"]
            _check_name(f"{key}.measures", measure, of_one)
        _check_measures(f"{key}.measures", [measure], task=task)
        if above:
            _check_column(f"{key}.measures", name, config, optional=table["optional"])
    for name in table["published"]:
        _check_name(f"{key}.published", name, published.names())
    for reference in table["compare_with"] or []:
        _check_name(f"{key}.compare_with", reference, table["rows"])


def _check_column(key: str, name: str, config: dict[str, Any], *, optional: Sequence[str]) -> None:
    """Refuse a column that no data set's table could have."""
    refused: ValueError | None = None
    for own in config["datasets"]:
        try:
            columns.parse(name, own=own, datasets=config["datasets"], optional=optional)
        except ValueError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise ValueError(f"{key}: {refused}")


def _check_figures(config: dict[str, Any]) -> None:
    for name, figure in config["figures"].items():
        key = f"figures.{name}"
        if "table" in figure:
            _check_name(f"{key}.table", figure["table"], config["tables"])
        for dataset, table in figure.get("by_dataset", {}).items():
            _check_name(f"{key}.by_dataset.{dataset}", table, config["tables"])
        for measure in figure.get("measures") or []:
            _check_name(f"{key}.measures", measure, config["tables"][figure["table"]]["measures"])
        for title, systems in figure.get("panels", {}).items():
            fit = experiment.systems_of_kind(config, figures.load(figure).PANELS_OF)
            for system in systems:
                _check_name(f"{key}.panels.{title}", system, fit)


def _check_audit(config: dict[str, Any]) -> None:
    rankers = [name for name in config["systems"] if experiment.ranks(config, name)]
    for key in ("systems", "judges"):
        for name in config["audit"][key]:
            _check_name(f"audit.{key}", name, rankers)


def _check_measures(key: str, names: Iterable[str], *, task: str | None) -> None:
    for name in names:
        of = _measure(key, name).task
        if of != task:
            raise ValueError(
                f"{key}: expected measures of {task or 'rankings'}, got {name}, which is one of "
                f"{of or 'rankings'}. See docs/kinds.md."
            )


def _measure(key: str, name: str) -> measures.Measure:
    try:
        return measures.parse(name)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _check_rows_fit(config: dict[str, Any]) -> None:
    """Refuse a backbone of too few layers or positions for the models and systems that tables use."""
    for name in sorted(experiment.systems_of_tables(config)):
        system = config["systems"][name]
        if "initial" not in system:
            continue
        chain = experiment.chain(config, system["initial"])
        root = config["models"][chain[-1]]
        shape = _layers_and_positions(root, f"models.{chain[-1]}")
        if shape is None:
            continue
        num_layers, num_positions = shape
        rows: dict[str, int] = {}
        for of, dataset in config["datasets"].items():
            if "recipe" in dataset and experiment.fits(config, name, of) and not sources.task(dataset):
                recipe = experiment.recipe(config, dataset["recipe"], system)
                rows[f"recipes.{dataset['recipe']}.lengths.passage"] = recipe["lengths"]["passage"]
                rows[f"recipes.{dataset['recipe']}.lengths.query"] = recipe["lengths"]["query"]
        for model in chain[:-1]:
            settings = config["models"][model]
            objective = kinds.load(OBJECTIVES, settings["objective"])
            if hasattr(objective, "check"):
                try:
                    objective.check(settings, num_layers=num_layers)
                except ValueError as error:
                    raise ValueError(f"models.{model}.{error}") from None
            key, tokens = objective.longest_row(settings)
            rows[f"models.{model}.{key}"] = tokens + _NUM_SPECIALS
        longest = max(rows, key=lambda key: rows[key], default=None)
        if longest is None:
            continue
        _refuse_long_row(longest, rows[longest], chain[-1], root, num_positions=num_positions)


def check_longest_row(config: Mapping[str, Any], dataset: str, system: str) -> None:
    """See that the longest row of a system, as its kind says, fits the positions of its backbone.

    Jobs of such a system ask, and not `validated`: a backbone of fewer positions may serve all other systems.

    Raises:
        ValueError: it does not.
    """
    entry, recipe = config["systems"][system], config["datasets"][dataset]["recipe"]
    backbone = experiment.root(config, entry["initial"])
    root = config["models"][backbone]
    if shape := _layers_and_positions(root, f"models.{backbone}"):
        longest_row = kinds.load(SYSTEMS, entry["kind"]).longest_row
        tokens = longest_row(experiment.recipe(config, recipe, entry))
        key = f"recipes.{recipe}, the longest row of systems.{system}"
        _refuse_long_row(key, tokens, backbone, root, num_positions=shape[1])


def _refuse_long_row(
    key: str, tokens: int, backbone: str, root: Mapping[str, Any], *, num_positions: int
) -> None:
    width = -(-tokens // _PADDED_TO) * _PADDED_TO
    if width > num_positions:
        of_backbone = "max_positions" if root["source"] == "scratch" else "path"
        raise ValueError(
            f"models.{backbone}.{of_backbone}: expected at least {width} positions for {key} (a row of "
            f"{tokens} tokens with its specials, padded to a multiple of {_PADDED_TO}), got "
            f"{num_positions}. Shorten the texts, or take another backbone."
        )


def _layers_and_positions(model: Mapping[str, Any], key: str) -> tuple[int, int] | None:
    """The number of layers and of positions of a checkpoint; None where it is still on the hub."""
    if model["source"] == "embedded":
        return EMBEDDED_LAYERS, EMBEDDED_POSITIONS
    if model["source"] == "scratch":
        return model["num_layers"], model["max_positions"] or 512
    if model["source"] == "hub":
        return None
    file = Path(model["path"], "config.json")
    if not file.is_file():
        raise ValueError(
            f"{key}.path: expected a Hugging Face folder with config.json, "
            f"found none at {_preview(model['path'], longest=_LONGEST_PATH)}."
        )
    try:
        settings = read_json(file)
    except ValueError as error:
        raise ValueError(f"{key}.path: {error}") from error
    settings = settings if isinstance(settings, dict) else {}
    layers, positions = settings.get("num_hidden_layers"), settings.get("max_position_embeddings")
    if not (isinstance(layers, int) and isinstance(positions, int)):
        raise ValueError(
            f"{key}.path: {file}: expected whole numbers num_hidden_layers and max_position_embeddings, "
            f"got {_preview(layers)} and {_preview(positions)}. Is it a BERT?"
        )
    return layers, positions


def _check_name(key: str, name: str, known: Iterable[str]) -> None:
    known = list(known)
    if name not in known:
        listed = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        said = f"{key}: expected one of {listed}, got {_preview(name)}. {kinds.meant(name, known)}"
        raise ValueError(said.rstrip())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _refuse_cycles(key: str, start: str, above: Callable[[str], Iterable[str]]) -> None:
    """Refuse a name that leads back to itself through the names that it starts or reads from."""

    def visit(path: list[str]) -> None:
        for one in above(path[-1]):
            if one in path:
                raise ValueError(f"{key}: expected a chain that ends, got {' -> '.join([*path, one])}.")
            visit([*path, one])

    visit([start])


def _first_line(errors: list[Any], model: type[BaseModel], key: str) -> str:
    """The first error as one line that says the key, what is allowed and what came."""
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    key, came, kind = _key_of(key, first["loc"]), first.get("input"), first["type"]
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    if kind == "extra_forbidden":
        known = _fields_at(model, first["loc"][:-1])
        hint = kinds.meant(str(first["loc"][-1]), known, otherwise=f"Known: {', '.join(known)}.")
        return f"{key}: unknown key. {hint}{more}"
    if kind == "missing":
        return f"{key}: missing.{more}"
    if isinstance(came, str) and len(came) <= _LONGEST_PREVIEW and kind in ("float_type", "int_type"):
        try:
            float(came)
        except ValueError:
            pass
        else:
            return f"{key}: expected a number, got the text {came!r}. {_how_to_write(came)}{more}"
    if kind == "too_short":
        return f"{key}: expected at least {first['ctx']['min_length']}, got {len(came)}.{more}"
    if kind in ("dict_type", "model_type"):
        return (
            f"{key}: expected a block of keys, got {_preview(came)}. Indent its keys, or leave it out.{more}"
        )
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = expected[:1].lower() + expected[1:]
    if kind == "value_error":
        return f"{key}: {expected}.{more}"
    return f"{key}: expected {expected}, got {_preview(came)}.{more}"


def _preview(value: Any, *, longest: int = _LONGEST_PREVIEW) -> str:
    """A value as Python writes it, cut to one short line."""
    text = repr(value)
    return text if len(text) <= longest else text[:longest] + "..."


def _how_to_write(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent:
        return f"Write {text} without quotes, in a file: within braces --config makes it a text."
    mantissa += "" if "." in mantissa else ".0"
    exponent = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"YAML reads an exponent as a number only with a dot and a sign: write {mantissa}e{exponent}."


def _key_of(key: str, location: tuple[int | str, ...]) -> str:
    """`("parts", 0, "id")` below `datasets.wiki` -> `datasets.wiki.parts[0].id`."""
    parts = [key] if key else []
    for part in location:
        if isinstance(part, int):
            above = parts.pop() if parts else "config"
            parts.append(f"{above}[{part}]")
        elif part != "[key]":
            parts.append(part if len(part) <= _LONGEST_PREVIEW else _preview(part))
    return ".".join(parts) or "config"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that are declared at a place below a model."""
    for part in location:
        field = model.model_fields.get(str(part))
        model = (_model_in(field.annotation) if field else None) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)
