"""What can be asked, in a file of JSON: the workflow writes it, the program `ask` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from condenser import kinds
from condenser.commands import make_command, search_command
from condenser.settings import Block

DIGESTS = "asked.digests.json"
"""The file beside what can be asked that has the digests of the files that were opened."""

USUAL = "hybrid"
"""The system that is asked where none is named."""


class NotReady(ValueError):
    """A system that has no answer yet.

    Attributes:
        command: what makes it; empty where nothing does.
    """

    def __init__(self, reason: str, command: str) -> None:
        super().__init__(f"{reason} Make it: {command}" if command else reason)
        self.reason, self.command = reason, command


@dataclass(frozen=True)
class Asked:
    """One variant of a system of a data set, as the workflow knows it (`condenser.pipeline.known`).

    Attributes:
        files: what it needs, by name.
        reasons: why its results are out of date, by the configuration and code of today.
        error: why it cannot be asked; None if it can, once its files are made.
        is_split: whether the collection holds passages of documents.
        parts: the systems whose hits it ranks.
    """

    dataset: str
    system: str
    variant: str
    kind: str
    label: str
    collection: Path
    doc_ids: Path
    files: dict[str, list[Path]]
    settings: Mapping[str, Any]
    reasons: list[str]
    error: str | None
    command: str
    is_split: bool = False
    parts: tuple[Asked, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.system}, {self.variant}"

    def needed(self) -> list[Path]:
        """The files that it answers with, of its parts too."""
        own = [*(file for files in self.files.values() for file in files), self.collection, self.doc_ids]
        return list(dict.fromkeys([*own, *(file for part in self.parts for file in part.needed())]))

    def missing(self) -> list[Path]:
        """Those of them that are not there."""
        return [file for file in self.needed() if not file.exists()]

    def state(self) -> str | None:
        """Why there is no answer, in a sentence; None if there is one."""
        if self.error:
            return f"{self.name}: {self.error}"
        if missing := self.missing():
            return f"{self.name}: is not trained and indexed yet ({missing[0]} is missing)."
        return None


class KnownVariant(Block):
    """A variant of a system: its encoder's weights, its parts with their variants, and why it is out of date.

    `error` says why it cannot be asked.
    """

    model: str | None = None
    parts: list[list[str]] = Field(default_factory=list)
    reasons: list[str] = Field(default_factory=list)
    error: str | None = None


class KnownSystem(Block):
    """A system: `variant` is the usual one, `pattern` a regular expression of all that it can have.

    `files` are what it needs, by name; `{variant}` stands for the variant.
    """

    kind: str
    label: str
    variant: str
    pattern: str
    settings: dict[str, Any]
    files: dict[str, list[str]]
    variants: dict[str, KnownVariant]

    def files_of(self, variant: str) -> dict[str, list[str]]:
        """The files of a variant, by name."""
        return {name: [file.format(variant=variant) for file in files] for name, files in self.files.items()}


class KnownDataset(Block):
    """A data set: `opens_with` are systems and variants of which the page shows the first that is ready.

    `is_split`: whether the collection holds passages of documents. `judged_in` is the folder of its texts, to
    which a person's judgements are written; null of a source without one. A grade is relevant from
    `relevant_grade` on.
    """

    opens_with: list[list[str]]
    judged_in: str | None = None
    relevant_grade: int = 1
    collection: str
    doc_ids: str
    is_split: bool
    systems: dict[str, KnownSystem]


class Known(Block):
    """What can be asked: data sets, their systems, and what is made of them.

    The workflow writes it (`condenser.pipeline.known`), and the program `ask` reads it.
    """

    datasets: dict[str, KnownDataset]
    _written_ns: int = 0
    _given: dict[str, str] = {}  # noqa: RUF012 (pydantic copies it)
    _root: Path = Path()

    @classmethod
    def read(
        cls, file: Path, *, overlays: str = "", make_arguments: str = "", root: Path | None = None
    ) -> Known:
        """What the workflow wrote to a file.

        Args:
            overlays: CONFIG of make, for the commands that are shown.
            make_arguments: its SNAKEMAKE_ARGS.
            root: the folder of the workflow; None is the current one.
        """
        known = cls.model_validate_json(file.read_bytes())
        known._written_ns = file.stat().st_mtime_ns
        known._given = {"overlays": overlays, "arguments": make_arguments}
        known._root = root or Path()
        return known

    def systems(self, dataset: str) -> dict[str, list[str]]:
        """The systems of a data set with their variants, the usual one first."""
        return {
            name: list(dict.fromkeys([system.variant, *system.variants]))
            for name, system in self.dataset(dataset).systems.items()
        }

    def usual(self, dataset: str) -> Asked:
        """The system that is asked where none is named: `USUAL`, or else the first one that is ready.

        Raises:
            NotReady: none is ready.
        """
        listed = [(name, variant) for name, found in self.systems(dataset).items() for variant in found]
        first = [names for names in listed if names[0] == USUAL]
        opens_with = self.dataset(dataset).opens_with
        asked = [self.asked(dataset, *names) for names in (*first, *opens_with, *listed)]
        if ready := next((one for one in asked if one.state() is None), None):
            return ready
        raise NotReady(f"{dataset}: no system can be asked yet.", asked[0].command if asked else "")

    def usual_dataset(self) -> str:
        """The data set that is asked where none is named: the only one with a system that is ready.

        Raises:
            ValueError: there are several, or none.
        """
        ready = [
            name
            for name, systems in ((name, self.systems(name)) for name in self.datasets)
            if any(
                self.asked(name, one, variant).state() is None for one in systems for variant in systems[one]
            )
        ]
        if len(ready) != 1:
            raise ValueError(f"dataset: expected one of {', '.join(ready or self.datasets)}, got none.")
        return ready[0]

    def table_of_judged(self, dataset: str) -> str:
        """The command that makes a table of the rankings without training, by the judged queries."""
        return make_command(f"results/{dataset}/plain.tsv", **self._given)

    def question(self, asked: Asked) -> str:
        """The command of make that asks a system."""
        is_usual = asked.variant == self.datasets[asked.dataset].systems[asked.system].variant
        variant = "" if is_usual else asked.variant
        return search_command(asked.dataset, asked.system, variant, **self._given)

    def dataset(self, name: str) -> KnownDataset:
        """A data set.

        Raises:
            ValueError: the configuration has none of this name.
        """
        overlay = "If an overlay names it, give that too: CONFIG=mine.yaml."
        return self.datasets[_named("data set", name, self.datasets, otherwise=overlay)]

    def asked(self, dataset: str, system: str, variant: str | None = None) -> Asked:
        """One variant of a system; None is the one of the configuration's seed and all train queries.

        Raises:
            ValueError: the configuration has no such data set or system, or no such variant was made.
        """
        systems = self.dataset(dataset).systems
        entry = systems[_named("system", system, systems)]
        variant = variant or entry.variant
        if variant not in entry.variants:
            known = ", ".join(self.systems(dataset)[system])
            if not re.fullmatch(entry.pattern, variant):
                raise ValueError(f"{system}: expected a variant such as {known}, got {variant!r:.80}.")
            command = self._command(dataset, system, variant)
            raise NotReady(f"{dataset}, {system}, {variant}: is not trained and indexed yet.", command)
        return self._asked(dataset, system, variant)

    def _asked(self, dataset: str, system: str, variant: str) -> Asked:
        texts = self.datasets[dataset]
        entry = texts.systems[system]
        missing = KnownVariant(error="is not made yet.")  # as a part's may be
        of_variant = entry.variants.get(variant, missing)
        parts = [self._asked(dataset, *part) for part in of_variant.parts]
        files = {
            name: [self._root / file for file in files] for name, files in entry.files_of(variant).items()
        }
        if of_variant.model:
            files["model"] = [self._root / of_variant.model]
        needed = (file for files in files.values() for file in files)
        is_newer = any(file.exists() and file.stat().st_mtime_ns > self._written_ns for file in needed)
        reasons = [] if is_newer else of_variant.reasons  # it was made again since
        return Asked(
            dataset,
            system,
            variant,
            entry.kind,
            entry.label,
            self._root / texts.collection,
            self._root / texts.doc_ids,
            files,
            entry.settings,
            list(dict.fromkeys([*reasons, *(reason for part in parts for reason in part.reasons)])),
            of_variant.error or next((f"{part.system}: {part.error}" for part in parts if part.error), None),
            self._command(dataset, system, variant),
            texts.is_split,
            tuple(parts),
        )

    def _command(self, dataset: str, system: str, variant: str) -> str:
        """The command that makes the files of a variant and of its parts."""
        targets = list(dict.fromkeys(self._targets(dataset, system, variant)))
        return make_command(" ".join(targets), **self._given) if targets else ""

    def _targets(self, dataset: str, system: str, variant: str) -> list[str]:
        entry = self.datasets[dataset].systems[system]
        of_variant = entry.variants.get(variant, KnownVariant())
        files = [file for files in entry.files_of(variant).values() for file in files]
        targets = [_braced(files)] if files else []
        for part in of_variant.parts:
            targets += self._targets(dataset, *part)
        if of_variant.parts and of_variant.model:
            targets.append(of_variant.model)
        return targets


def _named(noun: str, name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """The name, which must be a known one."""
    known = list(known)
    if name not in known:
        raise ValueError(
            f"expected a {noun} of the configuration ({', '.join(known)}), got {name!r:.80}. "
            f"{kinds.suggest_name(name, known, otherwise=otherwise)}".rstrip()
        )
    return name


def _braced(targets: list[str]) -> str:
    """Files that differ in the number of their shard alone, as one word of a shell.

    >>> _braced(["a/collection.0-of-2.npy", "a/collection.1-of-2.npy"])
    'a/collection.{0..1}-of-2.npy'
    """
    last = len(targets) - 1
    first = targets[0].partition(".0-of-")
    if last and targets == [f"{first[0]}.{number}-of-{first[2]}" for number in range(last + 1)]:
        return f"{first[0]}.{{0..{last}}}-of-{first[2]}"
    return " ".join(targets)
