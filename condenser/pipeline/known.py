"""What can be asked: the systems of a configuration, what they have made, and whether that is up to date.

The workflow writes it to a file (rule `ask`), and the program `ask` answers queries with it
(`condenser.live.systems`). The program reads no configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from condenser import experiment, kinds
from condenser.blocks import Config
from condenser.data import sources
from condenser.experiment.tables import table_rows
from condenser.files import write_json
from condenser.live.searchers import FOLDER
from condenser.pipeline.freshness import Freshness
from condenser.pipeline.specs import Specs
from condenser.settings import AUTO, plain

SETTINGS = ("system", "recipe", "encode", "compute")


def write_known(
    config: Config,
    results: Path,
    file: Path,
    *,
    encoder_of: Callable[[str, str, str], str],
    lengths_of: Callable[[str, str], str],
    tokenizer_of: Callable[[str, str], str],
    specs: Specs,
) -> str:
    """Write what can be asked, by data set and system; gives the file.

    Args:
        results: the folder of all results.
        encoder_of: the weights of the encoder of a data set's system and variant.
        lengths_of: how long the texts of a data set are, by the tokenizer of a model.
        tokenizer_of: the tokenizer by which a model reads a data set, in the folder of its checkpoint.
    """
    freshness = Freshness()

    def reasons(needed: list[str]) -> list[str]:
        """Why files that are all there are out of date."""
        makers = (specs.owner(file) for file in needed)
        behind = (job for maker in makers if maker for job in specs.jobs_behind(*maker))
        return [
            f"{change} ({job[0]})"
            for manifest, job in {specs.manifest(*job): job for job in behind}.items()
            for change in freshness.changes(Path(manifest), [], specs.spec(*job))
        ]

    def described(dataset: str, system: str) -> dict[str, Any]:
        entry = config.systems[system]
        folder = results / dataset / "systems" / system
        usual = experiment.variant(config, system, num_queries="all", seed=config.seed)
        recipe = experiment.recipe_name(config, dataset)
        settings = {**vars(config), "system": entry, "recipe": experiment.recipe(config, recipe, entry)}
        found: dict[str, Any] = {
            "kind": entry.kind,
            "label": entry.label or system,
            "variant": usual,
            "pattern": _variants_of(config, system),
            "settings": {name: plain(settings[name]) for name in SETTINGS}
            | {"depth": experiment.run_depth(config, dataset, system, purpose="eval")},
            "files": {},
        }
        if entry.kind not in kinds.names(FOLDER):
            error = f"systems of the kind {entry.kind} cannot be asked yet."
            return {**found, "variants": {usual: {"error": error}}}
        searchers, has_variants = kinds.load(FOLDER, entry.kind), experiment.has_seeds(config, system)
        parts = searchers.parts(entry) if hasattr(searchers, "parts") else []
        if hasattr(searchers, "needs"):
            try:
                found["files"] = searchers.needs(
                    entry,
                    dataset=str(results / dataset),
                    variant=str(folder / ("{variant}" if has_variants else experiment.UNTRAINED)),
                    shards=experiment.token_shards(config),
                )
            except ValueError as error:
                return {**found, "variants": {usual: {"error": str(error)}}}
        lengths = getattr(settings["recipe"], "lengths", None)
        initial = experiment.initial_model(config, system)
        if lengths is not None and AUTO in vars(lengths).values() and initial is not None:
            found["files"]["lengths"] = [lengths_of(dataset, initial)]
        if parts and initial is not None:
            found["files"]["tokenizer"] = [tokenizer_of(dataset, initial)]
        made = [path.name for path in sorted(folder.glob("*")) if re.fullmatch(found["pattern"], path.name)]
        found["variants"] = {}
        for variant in dict.fromkeys([usual, *made]):
            files = [file.format(variant=variant) for files in found["files"].values() for file in files]
            of_variant: dict[str, Any] = {}
            if parts:
                of_variant["parts"] = [
                    [part, experiment.ranking_variant(config, part, variant)] for part in parts
                ]
            try:
                if hasattr(entry, "initial"):
                    of_variant["model"] = encoder_of(dataset, system, variant)
                    files.append(of_variant["model"])
                is_made = all(Path(file).exists() for file in files)
                of_variant["reasons"] = reasons(files) if is_made else []
            except (LookupError, ValueError, OSError, SystemExit) as error:  # the last is said by a rule
                of_variant["error"] = str(error).removeprefix("error: ")
            found["variants"][variant] = of_variant
        return found

    def opens_with(dataset: str) -> list[list[str]]:
        """System and variant of each row of the first table that is made, the last row with a model first."""
        made = (table for table in config.tables if (results / dataset / f"{table}.tsv").is_file())
        if (table := next(made, None)) is None:
            return []
        rows = table_rows(config, dataset, table)[::-1]
        rows.sort(key=lambda row: not hasattr(config.systems[row["system"]], "initial"))
        return [[row["system"], variant] for row in rows for variant in row["variants"]]

    known = {
        dataset: {
            "opens_with": opens_with(dataset),
            "collection": str(results / dataset / "data" / "collection.jsonl"),
            "doc_ids": str(results / dataset / "data" / "doc_ids.txt"),
            "is_split": bool(getattr(entry, "split", None)),
            "systems": {
                system: described(dataset, system)
                for system in config.systems
                if experiment.ranks(config, system)
            },
        }
        for dataset, entry in config.datasets.items()
        if sources.task(entry) is None  # sentences have no passages
    }
    write_json(file, known)
    return str(file)


def _variants_of(config: Config, system: str) -> str:
    """The variants that a system can have, as a regular expression."""
    if experiment.has_sizes(config, system):
        return experiment.TRAINED
    return r"seed\d+" if experiment.has_seeds(config, system) else experiment.UNTRAINED
