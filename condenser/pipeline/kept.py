"""Models that are kept although the texts have changed: the data set says `keep_trained`.

A model is kept while all else that it depends on is what it was made with: `Specs.apart_from_texts` has
no contents of the texts. A kept job has no inputs, and the spec with which it ran; so what is made with its
model tells that model from one that is trained again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from condenser.manifest import Record, record_of, sound_record
from condenser.pipeline.specs import Job, Specs, key_of

RULES = ("checkpoint", "pretrain", "best_of", "train")
"""The rules that make models."""


@dataclass
class KeptModels:
    """The models that are not made again, of one look at all results.

    Attributes:
        specs: of the whole workflow.
        keeps: whether a data set keeps its models.
        is_asked: whether a rule was asked to run in any case.
        learnt_of: the file that says from which passages a model has learnt.
        records: the manifest of each model that was looked for, by job; None of one that is not kept.
    """

    specs: Specs
    keeps: Callable[[str], bool]
    is_asked: Callable[[str], bool]
    learnt_of: Callable[[str, dict[str, str]], str]
    records: dict[str, Record | None] = field(default_factory=dict)
    _looks_below: bool = False

    def __post_init__(self) -> None:
        inputs = self.specs.inputs

        def real_inputs(rule: str, wildcards: dict[str, str]) -> Any:
            before, self._looks_below = self._looks_below, True  # while it lasts no model is kept
            try:
                return inputs(rule, wildcards)
            finally:
                self._looks_below = before

        self._apart = self.specs.apart_from_texts(real_inputs, self.keeps)
        self.specs.kept, self.specs.keeping = self.spec, self.options

    def record(self, rule: str, wildcards: dict[str, str]) -> Record | None:
        """The manifest of a model that is kept; None of another job, or one that must run."""
        if self._looks_below or not self._may_keep(rule, wildcards):
            return None
        key = key_of(rule, wildcards)
        if key not in self.records:
            record = sound_record(Path(self.specs.manifest(rule, wildcards)))
            is_kept = (
                record is not None
                and not self.is_asked(rule)
                and all(file.is_file() for file in record.outputs)
                and record.whole.get("kept_by") == self.identity(rule, wildcards)
                and all(self.record(*job) for job in self._models_below(rule, wildcards))
            )
            self.records[key] = record if is_kept else None
        return self.records[key]

    def spec(self, rule: str, wildcards: dict[str, str]) -> dict[str, Any] | None:
        """The spec with which a kept model was made; None of any other job."""
        record = self.record(rule, wildcards)
        return record.spec if record else None

    def identity(self, rule: str, wildcards: dict[str, str]) -> str:
        """A digest of all that a model depends on but the texts."""
        return self._apart.hash(rule, wildcards)

    def options(self, rule: str, wildcards: dict[str, str]) -> dict[str, Any]:
        """The options of a job that makes a model to be kept; none of others."""
        if not self._may_keep(rule, wildcards):
            return {}
        return {"kept_by": self.identity(rule, wildcards), "learnt": self.learnt_of(rule, wildcards)}

    def trained(self) -> list[Job]:
        """The trainings among the kept models that were looked for."""
        specs = (record.spec for record in self.records.values() if record)
        return [(spec["rule"], spec["wildcards"]) for spec in specs if spec["rule"] in ("pretrain", "train")]

    def has_other_texts(self, rule: str, wildcards: dict[str, str]) -> bool:
        """Whether what a kept model has learnt from has other bytes today."""
        record = self.record(rule, wildcards)
        assert record is not None
        makers = {file: record_of(file) for file in record.made_from}
        return any(maker and maker.outputs[file] != record.made_from[file] for file, maker in makers.items())

    def _models_below(self, rule: str, wildcards: dict[str, str]) -> list[Job]:
        """The models of such data sets that a model is made with."""
        return [job for job in self._apart.jobs_behind(rule, wildcards)[:-1] if self._may_keep(*job)]

    def _may_keep(self, rule: str, wildcards: dict[str, str]) -> bool:
        return rule in RULES and self.keeps(wildcards["dataset"])
