"""The checks between blocks: that each name stands for something, and for something that fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from condenser import shown, variants
from condenser.blocks import Recipe, SentenceRecipe, Table
from condenser.config.messages import LONGEST_PATH, check_name, checked_block, preview
from condenser.data import sources
from condenser.evaluate import columns, measures, published
from condenser.nouns import OWN, Config, FigureOfTable
from condenser.settings import EACH, UNTRAINED, merged_training, plain


def check_datasets(config: Config) -> None:
    for name, dataset in config.datasets.items():
        key = f"datasets.{name}"
        folder = dataset.written_paths().get("path")
        if folder is not None and not Path(folder).is_dir():
            path = preview(folder, longest=LONGEST_PATH)
            raise ValueError(
                f"{key}.path: expected a folder, found none at {path} (relative to where snakemake runs)."
            )
        if dataset.own_recipe is not None:
            check_name(f"{key}.recipe", dataset.own_recipe, config.recipes)
            _check_recipe_fits(f"{key}.recipe", dataset, config)
        if documents := dataset.longer_texts:
            check_name(f"{key}.documents", documents, config.datasets)
            if config.datasets[documents].longer_texts:
                raise ValueError(
                    f"{key}.documents: expected a data set that names no documents itself, got {documents}. "
                    "Name the data set whose texts the models are to be pre-trained on."
                )
        if dataset.further and not dataset.MORE_SPLITS:
            raise ValueError(
                f"{key}.other_eval_splits: expected none, the source {dataset.source} makes one "
                f"evaluation set, got {', '.join(dataset.other_eval_splits)}. Leave the key out."
            )
        if dataset.windows and any(dataset.example_files(system) for system in config.systems):
            raise ValueError(
                f"{key}.split: expected none with official negatives, which are whole texts. Set "
                f"{key}.{'triples' if 'triples' in vars(dataset) else 'hard_negatives'} to null: then a run "
                "gives the negatives."
            )
        taken = {*dataset.splits, *sources.unjudged_names(dataset)}
        if double := next((one for one in config.extracted if one in taken), None):
            raise ValueError(
                f"extracted.{double}: expected another name, {double} is that of queries of the data set "
                f"{name}. Rename it."
            )
        for number, split in enumerate(dataset.eval_splits):
            of_split = f"{key}.other_eval_splits.{split}" if number else key
            metrics = dataset.metrics(split)
            own = dataset.further[split].measures if number else dataset.own_measures
            _check_measures(f"{of_split}.measures", own or [], task=dataset.TASK)
            least = dataset.LEAST_GRADES.get(split, 1)
            if metrics.relevant_grade < least:
                raise ValueError(
                    f"{of_split}.relevant_grade: expected at least {least} for the evaluation set {split}, "
                    f"got {metrics.relevant_grade}. Lower grades are not relevant there."
                )
    for name, recipe in config.recipes.items():
        _check_recipe(f"recipes.{name}", recipe, config)
        if isinstance(recipe, Recipe) and recipe.negatives.denoise:
            raise ValueError(
                f"recipes.{name}.negatives.denoise: expected null, as most systems give no probabilities. "
                "Set it in systems.<name>.recipe.negatives of a cross-encoder with loss: pointwise."
            )


def _check_recipe_fits(key: str, dataset: Any, config: Config) -> None:
    """Refuse a recipe that is not for what a data set has, and triplets without a margin."""
    task, given = dataset.TASK, dataset.recipe
    wanted = Recipe if task is None else SentenceRecipe
    fitting = [
        name
        for name, recipe in config.recipes.items()
        if isinstance(recipe, wanted) and (task != "triplets" or vars(recipe)["margin"] is not None)
    ]
    if given not in fitting:
        what = {None: "retrievers", "triplets": "sentences with a margin"}.get(task, "sentences")
        raise ValueError(
            f"{key}: expected a recipe for {what} ({', '.join(fitting) or 'there is none'}), got {given}. "
            "A recipe for sentences has max_tokens."
        )


def _check_recipe(key: str, recipe: Recipe | SentenceRecipe, config: Config) -> None:
    if isinstance(recipe, SentenceRecipe):
        return
    if recipe.negatives.depth > recipe.depth.train:
        raise ValueError(
            f"{key}.negatives.depth: {recipe.negatives.depth} is deeper than the train runs that it "
            f"reads ({key}.depth.train {recipe.depth.train})."
        )
    for system in recipe.negatives.positive_in_run:
        check_name(f"{key}.negatives.positive_in_run", system, config.systems)


def check_models(config: Config) -> None:
    models = config.models
    for name, model in models.items():
        key = f"models.{name}"
        if re.search(r"-seed\d+$", name):
            raise ValueError(
                f"{key}: expected another name, {name} is that of a model which is pre-trained for each "
                "seed. Rename it."
            )
        if model.corpus != OWN:
            check_name(f"{key}.corpus", model.corpus, [OWN, *config.datasets])
        if model.start is not None:
            check_name(f"{key}.initial", model.initial, models)
            if models[model.initial].is_seeded and not model.is_seeded:
                raise ValueError(
                    f"{key}.seed: expected none, as it follows {model.initial}, which it starts from, "
                    f"got {model.seed}."
                )
        elif model.is_seeded:
            raise ValueError(
                f"{key}.seed: expected a whole number, got {EACH}. A checkpoint is one for all seeds."
            )
    for name in models:
        _refuse_cycles(f"models.{name}.initial", name, lambda one: filter(None, [models[one].start]))
    for name in models:
        if models[name].is_chosen:
            _check_candidates(f"models.{name}", name, config)
        *above, checkpoint = models[name].chain
        if checkpoint.source != "scratch":
            continue
        for model in above:
            if checkpoint.corpus == OWN != model.corpus:
                raise ValueError(
                    f"models.{checkpoint.key}.corpus: expected {model.corpus!r}, the corpus of {model.key}, "
                    f"got {OWN!r}: "
                    "a vocabulary is learnt from one corpus and serves a whole chain of models."
                )


def _check_candidates(key: str, name: str, config: Config) -> None:
    """Refuse candidates and a reference of which no model could be chosen."""
    model, systems = config.models[name], config.systems
    for number, candidate in enumerate(model.of):
        check_name(f"{key}.of", candidate, systems)
        system = systems[candidate]
        is_start = system.kind == "biencoder" and not system.train and system.initial == model.initial
        if system.kind != "biencoder" or (number == 0 and not is_start):
            wanted = "bi-encoders" if number else f"{model.initial} without fine-tuning as the first"
            raise ValueError(f"{key}.of: expected {wanted}, got {candidate}. Name another system.")
    for queries in model.queries:
        check_name(f"{key}.queries", queries, config.extracted)
    _check_measures(f"{key}.measure", [model.measure], task=None)
    if _measure(f"{key}.measure", model.measure).needs_answers:
        raise ValueError(f"{key}.measure: expected one that needs no answers, got {model.measure}.")
    for key_of, given, value in (("corpus", model.corpus, OWN), ("seed", model.seed, None)):
        if given != value:
            raise ValueError(
                f"{key}.{key_of}: expected none, a model is chosen for each data set, of candidates that "
                f"have seeds of their own, got {given}. Leave the key out."
            )


def _check_families(key: str, name: str, config: Config) -> None:
    """Refuse candidates with other tokens than the start, or that learnt the queries, and kin that vote."""
    model = config.models[name]
    start = model.root
    is_learnt = start.source == "scratch" and start.corpus == OWN
    for candidate in model.of:
        roots = config.systems[candidate].start_model.roots
        moved = list(takewhile(lambda one: one != start, roots))
        fault = ""
        if start not in roots:
            fault = f"which has {roots[0].key}"
        elif moved and is_learnt:
            fault = "whose vocabulary is of another data set"
        elif any(prompt is not None for one in moved for prompt in vars(one.prompts).values()):
            fault = "which has prompts of its own"
        elif any(_has_two_encoders(one, config) for one in moved):
            fault = "which has two encoders"
        if fault:
            raise ValueError(f"{key}.of: expected models of one checkpoint, got {candidate}, {fault}.")
    for system in sorted(config.systems_behind(model.of)):
        entry = config.systems[system]
        for learnt in entry.taught_by.values():
            if learnt.queries in [*model.queries, *model.unjudged]:
                raise ValueError(
                    f"{key}.of: expected candidates that do not learn from {learnt.queries}, which compares "
                    f"them, got {system}. Name other queries or candidates."
                )
    if not model.unjudged:
        return
    unjudged = [sources.unjudged_names(dataset) for dataset in config.datasets.values()]
    for queries in model.unjudged:
        check_name(f"{key}.unjudged", queries, dict.fromkeys(chain.from_iterable(unjudged)))
    kin = {family: one for one in model.of for family in config.systems[one].families}
    for voter in model.voters:
        check_name(f"{key}.voters", voter, [one for one, system in config.systems.items() if system.ranks])
        for family in sorted(config.systems[voter].families):
            if family in kin:
                raise ValueError(
                    f"{key}.voters: expected one system of each family, and none of a candidate's, got "
                    f"{voter}, which shares {family} with {kin[family]}. Leave it out, or fuse kin that vote."
                )
            kin[family] = voter


def check_expansions(config: Config) -> None:
    for name, expansion in config.expansions.items():
        if expansion.trained is None:
            continue
        key, initial = f"expansions.{name}.trained.initial", expansion.trained.initial
        check_name(key, initial, config.models)
        if any(model.made_of for model in config.models[initial].chain):
            raise ValueError(f"{key}: expected a model that no system is behind, got {initial}.")


def check_systems(config: Config) -> None:
    systems = config.systems
    for name, system in systems.items():
        key = f"systems.{name}"
        if system.start is not None:
            _check_start(f"{key}.initial", name, config)
        for other in system.needs:
            of_key = next(
                (k for k, value in vars(system).items() if value == other or other in _list(value)),
                next((f"{k}.teacher" for k in system.taught_by), ""),
            )
            check_name(f"{key}.{of_key}", other, systems)
        if taught := system.taught_by.get("distillation"):
            named = [(*one.splits, *sources.unjudged_names(one)) for one in config.datasets.values()]
            known = dict.fromkeys([*config.extracted, *chain.from_iterable(named)])
            check_name(f"{key}.distillation.queries", taught.queries, known)
        for of, expansion in system.expansions.items():
            check_name(f"{key}.{of}", expansion, config.expansions)
            if of == "expanded_queries" and config.expansions[expansion].trained:
                raise ValueError(
                    f"{key}.{of}: expected an expansion with files or generated, got {expansion}, of "
                    "passages."
                )
        if first_on := system.also_trained_on:
            check_name(f"{key}.first_on", first_on, config.datasets)
            if not system.supports_task_of(config.datasets[first_on]):
                raise ValueError(
                    f"{key}.first_on: expected a data set of sentences, got {first_on}. "
                    "Name one that has pairs or triplets."
                )
        if system.own_recipe:
            wanted: type[Recipe] | type[SentenceRecipe]
            wanted = Recipe if system.ranks else SentenceRecipe
            if "held_out" in system.own_recipe:
                raise ValueError(
                    f"{key}.recipe.held_out: expected no such key, as all systems of a data set leave out "
                    "the same queries. Set it in recipes."
                )
            for recipe in config.recipes.values():
                if not isinstance(recipe, wanted):
                    continue
                changed = merged_training(plain(recipe), system.own_recipe)
                checked = checked_block(wanted, changed, key=f"{key}.recipe")
                _check_recipe(f"{key}.recipe", checked, config)
                if isinstance(checked, Recipe) and checked.negatives.denoise:
                    _check_teacher(f"{key}.recipe.negatives.denoise", name, config)
    for name, system in systems.items():
        if labels := system.pseudo_labelled:
            _check_pseudo_labels(f"systems.{name}.pseudo_labels", labels, config)
        _refuse_cycles(f"systems.{name}", name, lambda one: systems[one].needs)
    for name, system in systems.items():
        own = system.own_recipe.get("negatives", {})
        is_teacher = "denoise" in own  # its files may be asked for by themselves
        if own and not is_teacher and not any(_draws_from(name, one) for one in systems.values()):
            raise ValueError(
                f"systems.{name}.recipe.negatives: expected a system whose negatives others learn from, got "
                f"{name}, from which none does. Set it for the systems that {name} names as negatives."
            )
    for name, model in config.models.items():
        if model.is_of_system:
            _check_encoder(f"models.{name}", name, config)
    for name, model in config.models.items():
        for other in sorted(config.systems_behind(model.made_of)):
            initial = systems[other].start_model
            if initial and model in initial.chain:
                key = f"models.{name}.{'system' if model.is_of_system else 'of'}"
                raise ValueError(
                    f"{key}: expected systems that do not start from {name} itself, got {other}."
                )
    for name, model in config.models.items():
        if model.is_chosen:
            _check_families(f"models.{name}", name, config)
    for name, system in systems.items():
        try:
            system.check(systems)
        except ValueError as error:
            raise ValueError(f"systems.{name}.{error}") from None


def _draws_from(name: str, system: Any) -> bool:
    """Whether a system learns from the negatives of the one of this name."""
    labels = system.pseudo_labelled
    return name in system.miners or (labels is not None and labels.teacher == name)


def _check_teacher(key: str, name: str, config: Config) -> None:
    """Refuse thresholds on scores that are no probabilities, and on negatives that no scores give."""
    system = config.systems[name]
    if not system.gives_probabilities(config.systems):
        raise ValueError(
            f"{key}: expected null, as the scores of {name} are no probabilities. Denoise by a cross-encoder "
            "with loss: pointwise."
        )
    for dataset, entry in config.datasets.items():
        if entry.example_files(name):
            raise ValueError(
                f"{key}: expected null, as official files of datasets.{dataset} give the negatives of {name}."
                " Denoise by another system."
            )


def _check_pseudo_labels(key: str, labels: Any, config: Config) -> None:
    """See that the queries are a set without judgements, and that the teacher gives probabilities.

    Queries that are made from passages have these as positives.
    """
    denoising = config.systems[labels.teacher].denoising
    says_positives = denoising is not None and denoising.positive_above is not None
    if labels.queries not in config.extracted and not says_positives:
        raise ValueError(
            f"{key}.teacher: expected a system whose recipe.negatives.denoise has positive_above, got "
            f"{labels.teacher}. Set it there: it says which hits are positives. Or name a set of extracted."
        )
    unjudged = [sources.unjudged_names(dataset) for dataset in config.datasets.values()]
    check_name(f"{key}.queries", labels.queries, dict.fromkeys([*chain(*unjudged), *config.extracted]))


def _check_start(key: str, name: str, config: Config) -> None:
    """Refuse a start that is neither a model nor a system of the right kind that is trained as this one."""
    system = config.systems[name]
    if (other := system.start) in config.models:
        return
    wanted = system.kind_of_start
    others = ((one, entry) for one, entry in config.systems.items() if one != name)
    trained = [one for one, entry in others if entry.kind == wanted and entry.is_trained]
    check_name(key, other, [*config.models, *(trained if system.ranks else [])])
    ours, theirs = (one.own_recipe.get("tied") for one in (system, config.systems[other]))
    if ours != theirs:
        raise ValueError(
            f"{key}: expected a system with as many encoders, got {other}: recipe.tied is {theirs} there and "
            f"{ours} here. Give both the same."
        )


def _check_encoder(key: str, name: str, config: Config) -> None:
    """Refuse a system, data set or variant of which no checkpoint could be taken."""
    model = config.models[name]
    check_name(f"{key}.dataset", model.dataset, config.datasets)
    check_name(f"{key}.system", model.system, config.systems)
    system, task = config.systems[model.system], config.datasets[model.dataset].TASK
    fault = None
    if not system.supports_task_of(config.datasets[model.dataset]):
        fault = f"which is not for {'queries' if task is None else 'sentences'}"
    elif not system.is_trained:
        fault = "which is not trained. Name a model as initial for a model as it is"
    elif system.kind == "crossencoder":
        fault = "which reads a query and a passage together. Name a bi-encoder"
    if fault:
        raise ValueError(
            f"{key}.system: expected a system that is trained to encode texts of {model.dataset}, "
            f"got {model.system}, {fault}."
        )
    asked = model.variant or f"seed{config.seed}"
    is_known = re.fullmatch(variants.VARIANT, asked) and asked != UNTRAINED
    if not is_known or system.ranking_variant(asked) != asked:
        raise ValueError(
            f"{key}.variant: expected one that {model.system} has, such as seed{config.seed}, "
            f"got {preview(asked)}. See docs/architecture.md."
        )
    if _has_two_encoders(model, config):
        _check_what_starts_from_two(name, f"Set systems.{model.system}.recipe.tied to true", config)


def _has_two_encoders(model: Any, config: Config) -> bool:
    """Whether the system that a checkpoint is made of has one for queries and one for passages."""
    system = config.systems[model.system]
    recipe = config.datasets[model.dataset].recipe_of(system)
    return system.kind == "biencoder" and not recipe.tied


def _check_what_starts_from_two(name: str, advice: str, config: Config) -> None:
    """Refuse what starts from a model with two encoders, and would read only one of them."""
    refused = {f"models.{one}": "" for one, model in config.models.items() if model.start == name}
    for one, system in config.systems.items():
        is_biencoder = system.kind == "biencoder"
        reads_both = is_biencoder and (not system.is_trained or system.own_recipe.get("tied") is False)
        if system.start == name and not reads_both:
            more = f", or systems.{one}.recipe.tied to false" if is_biencoder else ""
            refused[f"systems.{one}"] = more
    for key, more in refused.items():
        raise ValueError(
            f"{key}.initial: expected a model with one encoder, got {name}, which has two. {advice}{more}."
        )


def check_tables(config: Config) -> None:
    _check_measures("metrics.measures", config.metrics.measures, task=None)
    known = [
        measure
        for settings in config.datasets.values()
        for split in settings.eval_splits
        for measure in settings.metrics(split).measures
    ]
    known = list(dict.fromkeys([*config.metrics.measures, *known]))
    for name, table in config.tables.items():
        key = f"tables.{name}"
        _check_table(key, table, config, known=known, dataset=None)
        for dataset, entry in table.by_dataset.items():
            if "by_dataset" in entry:
                raise ValueError(f"{key}.by_dataset.{dataset}.by_dataset: unknown key.")
            of = f"{key}.by_dataset.{dataset}"
            given = {**vars(shown.of_dataset(table, entry)), "by_dataset": {}}
            whole = checked_block(Table, given, key=of)
            _check_table(of, whole, config, known=known, dataset=dataset)
            table.by_dataset[dataset] = {part: vars(whole)[part] for part in entry}


def _check_table(
    key: str, table: Table, config: Config, *, known: Sequence[str], dataset: str | None
) -> None:
    """`known`: the measures of all data sets; `dataset`: that of a table for one, which may be missing."""
    is_there = dataset is None or dataset in config.datasets
    task = config.datasets[dataset].TASK if dataset is not None and is_there else None
    for row in table.rows:
        check_name(f"{key}.rows", row, config.systems)
        if (
            dataset is not None
            and is_there
            and not config.systems[row].supports_task_of(config.datasets[dataset])
        ):
            what, kind = "queries" if task is None else "sentences", config.systems[row].kind
            raise ValueError(
                f"{key}.rows: expected systems for the {what} of {dataset}, got {row}, a {kind}. "
                "Take a system of another kind."
            )
    for name in table.measures:
        *above, measure = name.split("/")
        _check_measures(f"{key}.measures", [measure], task=task)
        if not above and is_there and not measures.parse(measure).needs_answers:
            listed, place = known, "metrics.measures, or to those of the data set"
            if dataset is not None:
                listed = config.datasets[dataset].metrics().measures
                place = config.datasets[dataset].measures_key()
            _check_listed(f"{key}.measures", measure, listed, place=place)
        if above:
            _check_column(f"{key}.measures", name, config, optional=table.optional)
    for name in table.published:
        check_name(f"{key}.published", name, published.names())
    for labelled in table.labels:
        check_name(f"{key}.labels", labelled, config.systems)
    for reference in table.compare_with or []:
        check_name(f"{key}.compare_with", reference, table.rows)


def _check_column(key: str, name: str, config: Config, *, optional: Sequence[str]) -> None:
    """Refuse a column that no data set's table could have."""
    refused: ValueError | None = None
    for dataset in config.datasets:
        try:
            columns.parse(name, dataset=dataset, datasets=config.datasets, optional=optional)
        except ValueError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise ValueError(f"{key}: {refused}")


def check_figures(config: Config) -> None:
    for name, figure in config.figures.items():
        key = f"figures.{name}"
        if isinstance(figure, FigureOfTable):
            check_name(f"{key}.table", figure.table, config.tables)
            for dataset, table in figure.by_dataset.items():
                check_name(f"{key}.by_dataset.{dataset}", table, config.tables)
        for measure in figure.shown_measures:
            of_table = config.tables[figure.table].measures
            _check_listed(f"{key}.measures", measure, of_table, place=f"tables.{figure.table}.measures")
        for title, systems in figure.systems_of_panels.items():
            fit = config.systems_of_kind(figure.PANELS_OF)
            for system in systems:
                check_name(f"{key}.panels.{title}", system, fit)
        for title, on_line in figure.systems_of_lines.items():
            for system in on_line:
                check_name(f"{key}.lines.{title}", system, config.tables[figure.table].rows)


def _check_listed(key: str, name: str, known: Sequence[str], *, place: str) -> None:
    """Refuse a measure that is none, or that is not in the list `known`, to which `place` adds one."""
    _measure(key, name.split("/")[-1])
    if name not in known:
        raise ValueError(
            f"{key}: expected one of {', '.join(known)}, got {name}, a measure that is not among them. "
            f"Add it to {place}."
        )


def _check_measures(key: str, names: Iterable[str], *, task: str | None) -> None:
    for name in names:
        of = _measure(key, name).task
        if of != task:
            raise ValueError(
                f"{key}: expected measures of {task or 'rankings'}, got {name}, which is one of "
                f"{of or 'rankings'}. See docs/extending.md."
            )


def _measure(key: str, name: str) -> measures.Measure:
    try:
        return measures.parse(name)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


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
