"""Texts of the configuration that become cells, titles and names of files."""

from __future__ import annotations

from collections.abc import Iterator

from condenser.config.messages import LONGEST_PATH, preview
from condenser.nouns import Config

_LONGEST_LABEL = 200


def check_texts(config: Config) -> None:
    """Refuse labels that a table or a figure would not show as text, and paths that Snakemake would fill in.

    Raises:
        ValueError: there is one; one line with its key.
    """
    for key, label in _labels(config):
        if not (label.isprintable() and 0 < len(label) <= _LONGEST_LABEL) or "$" in label:
            raise ValueError(
                f"{key}: expected 1 to {_LONGEST_LABEL} characters without $, tab, line end or control "
                f"characters, got {preview(label)}."
            )
    for key, path in _paths(config):
        if not path.isprintable() or set(path) & set("{}"):
            raise ValueError(
                f"{key}: expected a path without {{, }} and control characters, because Snakemake fills in "
                f"what stands in braces, got {preview(path, longest=LONGEST_PATH)}. "
                "Rename it, or give a link to it."
            )


def _labels(config: Config) -> Iterator[tuple[str, str]]:
    for name, system in config.systems.items():
        if system.label is not None:
            yield f"systems.{name}.label", system.label
    for name, table in config.tables.items():
        of_datasets = (own.get("labels", {}) for own in table.by_dataset.values())
        for labels in (table.labels, *of_datasets):
            for system, label in labels.items():
                yield f"tables.{name}.labels.{system}", label
    for name, figure in config.figures.items():
        for key, text in figure.texts():
            yield f"figures.{name}.{key}", text


def _paths(config: Config) -> Iterator[tuple[str, str]]:
    for noun, entries in (("datasets", config.datasets), ("models", config.models)):
        for name, entry in entries.items():
            for key, path in entry.written_paths().items():
                yield f"{noun}.{name}.{key}", path
    for name, expansion in config.expansions.items():
        for texts, path in (expansion.files or {}).items():
            yield f"expansions.{name}.files.{texts}", path
        if expansion.generated:
            yield f"expansions.{name}.generated.model", expansion.generated.model
    if config.downloads.mirror is not None:
        yield "downloads.mirror", config.downloads.mirror
