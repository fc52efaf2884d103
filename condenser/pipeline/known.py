"""Writes what can be asked (`condenser.live.known`): the systems of a configuration, and what they have made.

The rule `ask` writes it; the program `ask` reads no configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condenser import kinds, variants
from condenser.files import write_json
from condenser.live.known import Known, KnownDataset, KnownSystem, KnownVariant
from condenser.live.searchers import FOLDER, ORIGIN
from condenser.nouns import Config, System
from condenser.pipeline.freshness import Freshness
from condenser.pipeline.remembered import note_origin
from condenser.pipeline.specs import Specs
from condenser.settings import AUTO, UNTRAINED, plain
from condenser.shown import table_rows

SETTINGS = ("system", "recipe", "encode", "compute")


@dataclass(frozen=True, kw_only=True)
class KnownWriter:
    """Looks at what the configuration of today can answer with.

    Attributes:
        results: the folder of all results.
        encoder_of: the weights of the encoder of a data set's system and variant.
        lengths_of: how long the texts of a data set are, by the tokenizer of a model.
        tokenizer_of: the tokenizer by which a model reads a data set, in the folder of its checkpoint.
        consulted: the files on which it depends, whether they are there or not.
    """

    config: Config
    results: Path
    encoder_of: Callable[[str, str, str], str]
    lengths_of: Callable[[str, str], str]
    tokenizer_of: Callable[[str, str], str]
    specs: Specs
    freshness: Freshness = field(default_factory=Freshness)
    consulted: set[str] = field(default_factory=set)

    def write(self, file: Path, *, arguments: Any, files: Iterable[str]) -> str:
        """Write what can be asked, by data set and system; gives the file.

        Beside it stands what it was written from, so that the program `ask` knows when it is out of date:
        `arguments` of make, `files` of configuration and code, and what was consulted.
        """
        of_datasets = {
            name: self._dataset(name)
            for name, entry in self.config.datasets.items()
            if entry.TASK is None  # sentences have no passages
        }
        write_json(file, plain(Known(datasets=of_datasets)))
        note_origin(file.with_suffix(ORIGIN), arguments, {*files, *self.consulted})
        return str(file)

    def _dataset(self, dataset: str) -> KnownDataset:
        data, entry = self.results / dataset / "data", self.config.datasets[dataset]
        ranking = (system for system in self.config.systems if self.config.systems[system].ranks)
        return KnownDataset(
            opens_with=self._opens_with(dataset),
            collection=str(data / "collection.jsonl"),
            doc_ids=str(data / "doc_ids.txt"),
            is_split=bool(entry.windows),
            judged_in=vars(entry)["path"] if entry.source == "beir" else None,
            relevant_grade=entry.metrics().relevant_grade,
            systems={system: self._system(dataset, system) for system in ranking},
        )

    def _opens_with(self, dataset: str) -> list[list[str]]:
        """System and variant of each row of the first table that is made, the last row with a model first."""
        config = self.config
        self.consulted.add(str(self.results / dataset))
        made = (table for table in config.tables if (self.results / dataset / f"{table}.tsv").is_file())
        if (table := next(made, None)) is None:
            return []
        rows = table_rows(config, dataset, table)[::-1]
        rows.sort(key=lambda row: config.systems[row["system"]].start is None)
        return [[row["system"], variant] for row in rows for variant in row["variants"]]

    def _system(self, dataset: str, system: str) -> KnownSystem:
        config, entry = self.config, self.config.systems[system]
        recipe = config.datasets[dataset].recipe_of(entry)
        settings = {**vars(config), "system": entry, "recipe": recipe}
        known = KnownSystem(
            kind=entry.kind,
            label=entry.label or system,
            variant=entry.variant(num_queries="all", seed=config.seed),
            pattern=_variants_of(entry),
            settings={
                **{name: plain(settings[name]) for name in SETTINGS},
                "depth": entry.run_depth(dataset, purpose="eval"),
            },
            files={},
            variants={},
        )
        try:
            if entry.kind not in kinds.names(FOLDER):
                raise ValueError(f"systems of the kind {entry.kind} cannot be asked yet.")
            known.files = self._files(dataset, system, recipe)
        except ValueError as error:
            known.variants = {known.variant: KnownVariant(error=str(error))}
            return known
        folder = self.results / dataset / "systems" / system
        self.consulted.add(str(folder))
        made = [place.name for place in sorted(folder.glob("*")) if re.fullmatch(known.pattern, place.name)]
        for variant in dict.fromkeys([known.variant, *made]):
            needed = [file for files in known.files_of(variant).values() for file in files]
            known.variants[variant] = self._variant(dataset, system, variant, needed)
        return known

    def _files(self, dataset: str, system: str, recipe: Any) -> dict[str, list[str]]:
        """What a system needs to answer, by name; `{variant}` stands for the variant.

        Raises:
            ValueError: it cannot answer.
        """
        config, entry = self.config, self.config.systems[system]
        has_variants = _variants_of(entry) != UNTRAINED
        variant = "{variant}" if has_variants else UNTRAINED
        folder = self.results / dataset
        files = entry.files_to_answer(
            str(folder), str(folder / "systems" / system / variant), config.token_shards
        )
        initial = entry.start_model
        if initial is not None and AUTO in vars(recipe.lengths).values():
            files["lengths"] = [self.lengths_of(dataset, initial.key)]
        if entry.ranks_hits_of and initial is not None:
            files["tokenizer"] = [self.tokenizer_of(dataset, initial.key)]
        return files

    def _variant(self, dataset: str, system: str, variant: str, files: list[str]) -> KnownVariant:
        """The model and the parts of a variant, and why it is out of date, or the error that it has."""
        systems, known = self.config.systems, KnownVariant()
        known.parts = [
            [part, systems[part].ranking_variant(variant)] for part in systems[system].ranks_hits_of
        ]
        try:
            if systems[system].start is not None:
                known.model = self.encoder_of(dataset, system, variant)
                files.append(known.model)
            is_made = all(self._is_there(Path(file)) for file in files)
            known.reasons = self._reasons(files) if is_made else []
        except (LookupError, ValueError, OSError, SystemExit) as error:  # the last is said by a rule
            known.error = str(error).removeprefix("error: ")
        return known

    def _reasons(self, files: list[str]) -> list[str]:
        """Why files that are all there are out of date."""
        specs = self.specs
        makers = (specs.owner(file) for file in files)
        behind = (job for maker in makers if maker for job in specs.jobs_behind(*maker))
        of_manifests = {specs.manifest(*job): job for job in behind}
        for manifest in of_manifests.keys() - self.consulted:
            inputs = specs.inputs(*of_manifests[manifest])
            self.consulted.update([manifest, *(file for file in inputs if specs.owner(file) is None)])
        return [
            f"{change} ({job[0]})"
            for manifest, job in of_manifests.items()
            for change in self.freshness.changes(Path(manifest), [], specs.spec(*job))
        ]

    def _is_there(self, file: Path) -> bool:
        self.consulted.add(str(file))
        return file.exists()


def _variants_of(system: System) -> str:
    """The variants that a system can have, as a regular expression."""
    if system.has_sizes:
        return variants.TRAINED
    return r"seed\d+" if system.has_seeds else UNTRAINED
