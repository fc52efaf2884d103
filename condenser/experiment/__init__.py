"""What the names in a validated configuration refer to: chains of models, places, variants, recipes.

Data sets, models, systems and tables refer to each other by name. The rules resolve the names with these
functions. `tables` has what tables and figures show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from condenser import kinds
from condenser.blocks import Config, Denoise, Metrics, Recipe
from condenser.settings import AUTO, EACH, UNTRAINED, Lengths, merged_training, partly, plain

OWN = "collection"
"""The corpus of a model that is trained on the texts of the data set it is used for: see `home`."""

TRAINED = r"(n[1-9]\d*-)?seed\d+"
"""Train size and seed of a result, for example `seed42` or `n1000-seed1`, as a regular expression."""

CROSSFIT = "crossfit-"
"""Before a variant: the same trained without the held-out queries, which then show what to choose for it."""

FITTED = rf"({CROSSFIT})?{TRAINED}"
"""A variant that a training reaches, as a regular expression."""

VARIANT = rf"{FITTED}|{UNTRAINED}"
"""Those, or that no training by seed reaches it."""

HELD_OUT = ".held_out"
"""Behind the name of a train split: of its queries those that no training of the variant sees."""

SPLIT = rf"[A-Za-z0-9_-]+({re.escape(HELD_OUT)})?"
"""A split of a data set, or of its train split the held-out queries alone, as a regular expression."""

SEED = r"-seed(0|[1-9]\d*)"
"""The end of the name of a model that is pre-trained for each seed, for example `condenser-seed1`."""


def chain(config: Config, model: str) -> list[str]:
    """A model and the models that it starts from, the checkpoint last."""
    names = [model]
    while (start := config.models[names[-1]].start) is not None:
        names.append(start)
    return names


def root(config: Config, model: str) -> str:
    """The checkpoint at the end of a model's chain; its tokenizer is also the model's."""
    return chain(config, model)[-1]


def roots(config: Config, model: str) -> list[str]:
    """The checkpoint at the end of a model's chain, then those behind the systems that they are made of."""
    names = [root(config, model)]
    while config.models[names[-1]].is_of_system:
        initial = initial_model(config, config.models[names[-1]].system)
        assert initial is not None
        names.append(root(config, initial))
    return names


def origin(config: Config, model: str) -> str:
    """The last of `roots`, at the very beginning of a model; layers and positions are its."""
    return roots(config, model)[-1]


def starts_from(config: Config, system: str) -> str | None:
    """The system whose weights a system starts from; None where it starts from a model, or has none.

    `initial` names a model; a system only where no model has that name.
    """
    start: str | None = config.systems[system].start
    return None if start in config.models else start


def initial_model(config: Config, system: str) -> str | None:
    """The model that a system starts from, itself or through other systems; None where it has none."""
    for _ in config.systems:  # so that a circle ends, before it is refused
        other = starts_from(config, system)
        if other not in config.systems:
            break
        system = other
    start: str | None = config.systems[system].start
    return start if start in config.models else None


def home(config: Config, model: str, dataset: str) -> str:
    """The data set in whose results a model lies when it is used for `dataset`: the model's corpus.

    The corpus `collection` is the data set that `dataset` names as its `documents`, else `dataset` itself. A
    model that is chosen lies with the data set that it is chosen for.
    """
    corpus = config.models[model].corpus
    if corpus != OWN:
        return corpus
    if config.models[model].is_chosen:
        return dataset
    return config.datasets[dataset].longer_texts or dataset


def inherit_seeds(models: Mapping[str, Any]) -> None:
    """Let each model without a seed of its own be pre-trained for each seed if the one it starts from is."""
    for _ in models:  # a chain is at most so long
        for model in models.values():
            initial = models.get(model.start)
            if model.seed is None and initial is not None and initial.seed == EACH:
                model.seed = EACH


def model_name(config: Config, model: str, seed: int | None) -> str:
    """The name under which a model lies when it is used with a seed: `condenser-seed1`, or its own.

    Raises:
        LookupError: the model is pre-trained for each seed, and `seed` is None.
    """
    if not config.models[model].is_seeded:
        return model
    if seed is None:
        raise LookupError(
            f"expected a seed for {model}, which is pre-trained for each seed. "
            f"Ask for another, such as {model}-seed{config.seed} or the variant seed{config.seed}."
        )
    return f"{model}-seed{seed}"


def model_of(config: Config, name: str) -> tuple[str, int | None]:
    """The model that a name of `model_name` stands for, and its seed (None: it does not depend on one).

    Raises:
        LookupError: the configuration has no such model, or it is pre-trained for each seed and the name
            has none.
    """
    match = re.fullmatch(rf"(.+){SEED}", name)
    if match and match[1] in config.models and config.models[match[1]].is_seeded:
        return match[1], int(match[2])
    if name not in config.models:
        known = [model_name(config, model, config.seed) for model in config.models]
        raise unknown("model", name, known)
    return model_name(config, name, None), None


def learns(config: Config, system: str) -> bool:
    """Whether a system itself learns from judged queries: its model, or weights of its parts or terms."""
    return config.systems[system].learns_from_judgements or learns_terms(config, system)


def systems_of(config: Config, system: str) -> list[str]:
    """The systems whose runs or examples a system reads, and the one whose weights it starts from."""
    entry, start = config.systems[system], starts_from(config, system)
    return list(dict.fromkeys([*entry.miners, *entry.reads, *([] if start is None else [start])]))


def has_sizes(config: Config, system: str) -> bool:
    """Whether the train size matters to a system: it learns from judgements, or reads from such a system."""
    return learns(config, system) or any(has_sizes(config, other) for other in systems_of(config, system))


def learns_terms(config: Config, system: str) -> bool:
    """Whether a system indexes weights of terms that are learnt from train queries."""
    name = config.systems[system].expansions.get("expanded_passages")
    return name is not None and config.expansions[name].trained is not None


def has_seeds(config: Config, system: str) -> bool:
    """Whether the seed matters to a system: it, its model or a system that it reads from is trained by it."""
    initial = initial_model(config, system)
    return (
        config.systems[system].is_trained
        or learns_terms(config, system)
        or (initial is not None and config.models[initial].is_seeded)
        or any(has_seeds(config, one) for one in systems_of(config, system))
    )


def checkpoints_of(config: Config, dataset: str) -> list[str]:
    """The checkpoints whose tokenizers read the passages of a data set for the systems of all tables."""
    texts = config.datasets[dataset]
    initials = [
        initial_model(config, name)
        for name in sorted(systems_of_tables(config))
        if config.systems[name].ranks and config.systems[name].fits(texts)
    ]
    return list(dict.fromkeys(root(config, initial) for initial in initials if initial is not None))


def run_depth(config: Config, dataset: str, system: str, *, purpose: str) -> int:
    """Hits a query, at most, in the runs of a system; `purpose` is "train" or "eval" (`depth` of a recipe).

    A system that sorts the hits of others anew has no more than they have.
    """
    entry = config.systems[system]
    depths: list[int] = [vars(recipe(config, dataset, entry).depth)[purpose]]
    depths += [run_depth(config, dataset, one, purpose=purpose) for one in entry.reordered or ()]
    return min(depths if entry.own_depth is None else [*depths, entry.own_depth])


def systems_of_kind(config: Config, kind: str) -> list[str]:
    """The systems of one kind."""
    return [name for name, system in config.systems.items() if system.kind == kind]


def systems_of_tables(config: Config) -> set[str]:
    """The systems in the rows of all tables, and those behind them."""
    return systems_behind(
        config,
        [
            row
            for table in config.tables.values()
            for rows in (table.rows, *(entry.get("rows", []) for entry in table.by_dataset.values()))
            for row in rows
        ],
    )


def systems_behind(config: Config, systems: Iterable[str]) -> set[str]:
    """Some systems, those that they read from, and those that their models are made of."""
    found: set[str] = set()
    waiting = list(systems)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(systems_of(config, name))
            initial = initial_model(config, name)
            for model in chain(config, initial) if initial else []:
                waiting.extend(config.models[model].made_of)
    return found


def families(config: Config, system: str) -> set[str]:
    """What a system owes its ranking to: the checkpoints of it, its parts and teachers; or else its kind.

    Systems with one in common err alike. Those that give negatives do not count: their hits are avoided.
    """
    entry, initial = config.systems[system], initial_model(config, system)
    start = starts_from(config, system)
    parts = {*entry.reads, *([] if start is None else [start])}
    found: set[str] = set() if initial is None else {origin(config, initial)}
    for model in chain(config, initial) if initial else []:
        parts.update(config.models[model].made_of)
    return found.union(*(families(config, part) for part in parts)) or {entry.kind}


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


def ranks_held_out(config: Config, system: str, asked: str) -> bool:
    """Whether a system ranks the held-out queries of a variant alone, where no others are asked for.

    That is what learns from the others, or sorts the hits of other systems anew, which costs much for each
    query. Any other ranks all train queries once, for all variants.
    """
    if config.systems[system].is_trained:
        return ranking_variant(config, system, asked) == asked
    return config.systems[system].reordered is not None


def leaves_out(config: Config, dataset: str, variant: str) -> bool:
    """Whether no training of a variant sees the held-out queries."""
    recipe = config.recipes[recipe_name(config, dataset)]
    return recipe.held_out is not None and (recipe.validation is not None or variant.startswith(CROSSFIT))


def may_hold_out(config: Config, dataset: str, variant: str) -> bool:
    """Whether a variant has enough train queries to hold some out; of all train queries nobody knows yet."""
    held_out, (size, _) = config.recipes[recipe_name(config, dataset)].held_out, parse_variant(variant)
    return held_out is not None and (size is None or int(held_out.share * size) >= held_out.least)


def crossfit_variant(config: Config, dataset: str, variant: str) -> str:
    """The variant of the same seed and train size whose trainings leave out the held-out queries."""
    return variant if leaves_out(config, dataset, variant) else f"{CROSSFIT}{variant}"


def is_held_out(split: str) -> bool:
    """Whether a split has only the held-out train queries of a variant."""
    return split.endswith(HELD_OUT)


def whole_split(split: str) -> str:
    """The split of a data set that a split is, or has a part of.

    >>> whole_split("train.held_out"), whole_split("dev")
    ('train', 'dev')
    """
    return split.removesuffix(HELD_OUT)


def parse_variant(name: str) -> tuple[int | None, int | None]:
    """Train queries (None: all) and seed (None: untrained) of a variant.

    >>> parse_variant("n1000-seed1"), parse_variant("crossfit-seed42"), parse_variant("untrained")
    ((1000, 1), (None, 42), (None, None))
    """
    match = re.fullmatch(rf"(?:{CROSSFIT})?(?:n(\d+)-)?seed(\d+)", name)
    if match is None:
        return None, None
    return int(match[1]) if match[1] else None, int(match[2])


def recipe_name(config: Config, dataset: str) -> str:
    """The recipe of a data set; one of texts alone names none."""
    return config.datasets[dataset].own_recipe or config.recipe


def recipe(config: Config, dataset: str, system: Any = None) -> Any:
    """The recipe of a data set, with the values of a system for the keys that it replaces.

    Its `lengths` are complete: where it has null, the data set's number stands, or else `auto`.
    """
    given = config.recipes[recipe_name(config, dataset)]
    changes = system.own_recipe if system else {}
    made = partly(type(given), merged_training(plain(given), changes)) if changes else copy(given)
    for length, missing in (("epochs", None), ("updates", None), ("epochs_by_size", {})):
        vars(made).setdefault(length, missing)
    if isinstance(made, Recipe):
        of_dataset = vars(config.datasets[dataset].own_lengths)
        lengths = {key: value or of_dataset[key] or AUTO for key, value in vars(made.lengths).items()}
        made.lengths = partly(Lengths, lengths)
    return made


def denoising(config: Config, system: str) -> Denoise | None:
    """The thresholds on a system's scores, which its own recipe has: it denoises its negatives by them."""
    given = config.systems[system].own_recipe.get("negatives", {}).get("denoise")
    return None if given is None else partly(Denoise, given)


def labels_queries(config: Config, system: str) -> bool:
    """Whether a system's scores say which of its hits are positives, also of queries without judgements."""
    denoise = denoising(config, system)
    return denoise is not None and denoise.positive_above is not None


def metrics(config: Config, dataset: str, split: str | None = None) -> Metrics:
    """The measures of an evaluation set, and the least grade that counts as relevant.

    Its own, else those of its data set, else the configuration's. `split` is None for the main one.
    """
    entry = config.datasets[dataset]
    further = entry.further.get(split)
    found = dict(vars(config.metrics))
    for block in (entry, further):
        own = vars(block) if block else {}
        found |= {key: own[key] for key in found if own.get(key) is not None}
    return partly(Metrics, found)


def measures_key(config: Config, dataset: str, split: str | None = None) -> str:
    """The key that holds the measures of an evaluation set (`metrics`)."""
    entry = config.datasets[dataset]
    further = entry.further.get(split)
    if further is not None and further.measures is not None:
        return f"datasets.{dataset}.other_eval_splits.{split}.measures"
    return "metrics.measures" if entry.own_measures is None else f"datasets.{dataset}.measures"


def unknown(noun: str, name: str, known: Iterable[str]) -> LookupError:
    """The error of a name that the configuration lacks, with the nearest that it has."""
    known = list(known)
    hint = kinds.suggest_name(name, known, otherwise=f"Add it under {noun}s, or ask for another.")
    return LookupError(
        f"expected a {noun} of the configuration ({', '.join(known)}), got {name[:100]}. {hint}"
    )


def token_shards(config: Config) -> list[str]:
    """The shards of every collection: `0-of-2`, `1-of-2`."""
    return [f"{index}-of-{config.shards}" for index in range(config.shards)]


def checkpoints(config: Config) -> list[str]:
    """The models that exist already, or are new: what trainings start from."""
    return [name for name, model in config.models.items() if model.objective == "checkpoint"]
