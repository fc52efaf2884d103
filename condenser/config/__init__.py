"""The configuration, validated before anything runs.

Nothing here reads a file but the `config.json` of a model that is a folder. Every wrong key, type, range,
missing folder or impossible combination gives one line: the key, what is allowed, what came. The folder of a
model stops only the jobs that need it (`folder_files` of rules/inputs/models.smk).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from condenser import kinds
from condenser.blocks import Written, recipe_class
from condenser.config import references
from condenser.config.messages import LONGEST_PATH, check_name, checked_block, first_line, preview
from condenser.config.positions import check_rows_fit
from condenser.config.texts import check_texts
from condenser.data import sources
from condenser.evaluate import figures
from condenser.nouns import Config
from condenser.objectives import FOLDER as OBJECTIVES
from condenser.settings import EACH, merged_training, partly
from condenser.systems import FOLDER as SYSTEMS

_TAKEN = {  # names that stand for other results
    "datasets": {"downloads", "logs"},  # folders of results/ that belong to no data set
    "tables": {"audit"},  # results/<dataset>/audit.tsv
    "figures": {"audit", "data"},  # whose manifest lies where a figure's would
}


def validated(config: Mapping[str, Any]) -> Config:
    """The configuration, each entry completed by what its kind gives to all.

    Raises:
        ValueError: something is wrong; one line, `key: what is allowed, what came`.
    """
    written = checked_block(Written, dict(config), key="")
    checked = partly(Config, vars(written))
    for noun, taken in _TAKEN.items():
        taken = taken | set(checked.tables) if noun == "figures" else taken
        if name := next((name for name in vars(checked)[noun] if name in taken), None):
            raise ValueError(
                f"{noun}.{name}: expected another name, {name} is that of another result. Rename it."
            )
    checked.recipes = {
        name: checked_block(recipe_class(recipe), recipe, key=f"recipes.{name}")
        for name, recipe in checked.recipes.items()
    }
    for noun, tag, folder, defaults in (
        ("datasets", "source", sources.FOLDER, "sources"),
        ("models", "objective", OBJECTIVES, "objectives"),
        ("systems", "kind", SYSTEMS, ""),
        ("figures", "kind", figures.FOLDER, ""),
    ):
        of_kinds = vars(checked)[defaults] if defaults else {}
        _check_defaults(of_kinds, folder, defaults)
        entries = {
            name: _entry(f"{noun}.{name}", entry, tag=tag, folder=folder, defaults=of_kinds)
            for name, entry in vars(checked)[noun].items()
        }
        for name, entry in entries.items():
            entry.join(name, checked)
        setattr(checked, noun, entries)
    _inherit_seeds(checked)
    check_name("recipe", checked.recipe, checked.recipes)
    for dataset in checked.datasets.values():
        if "recipe" in type(dataset).model_fields:
            dataset.recipe = dataset.recipe or checked.recipe
    check_texts(checked)
    references.check_datasets(checked)
    references.check_models(checked)
    references.check_expansions(checked)
    references.check_systems(checked)
    references.check_tables(checked)
    references.check_figures(checked)
    check_rows_fit(checked)
    mirror = checked.downloads.mirror
    if mirror is not None and not Path(mirror).is_dir():
        path = preview(mirror, longest=LONGEST_PATH)
        raise ValueError(f"downloads.mirror: expected a folder, found none at {path}.")
    return checked


def _inherit_seeds(config: Config) -> None:
    """Let each model without a seed of its own be pre-trained for each seed if the one it starts from is."""
    for _ in config.models:  # a chain is at most so long
        for model in config.models.values():
            start = config.models.get(model.start)
            if model.seed is None and start is not None and start.is_seeded:
                model.seed = EACH


def _entry(key: str, entry: Mapping[str, Any], *, tag: str, folder: str, defaults: Mapping[str, Any]) -> Any:
    """A data set, model or system, checked by the class of its kind."""
    if tag not in entry:
        raise ValueError(f"{key}.{tag}: missing. It names the kind: {', '.join(kinds.names(folder))}.")
    kind = entry[tag]
    if not isinstance(kind, str) or kind not in kinds.names(folder):
        known = ", ".join(kinds.names(folder))
        raise ValueError(f"{key}.{tag}: expected one of {known}, got {preview(kind)}.")
    values = merged_training(defaults.get(kind, {}), entry)
    return checked_block(kinds.load(folder, kind).Settings, values, key=key)


def _check_defaults(defaults: Mapping[str, Any], folder: str, block: str) -> None:
    """Refuse what no entry of a kind could have, also where there is no entry that would tell."""
    for kind, values in defaults.items():
        check_name(f"{block}.{kind}", kind, kinds.names(folder))
        model = kinds.load(folder, kind).Settings
        try:
            model.model_validate(values)
        except ValidationError as error:
            if found := [one for one in error.errors() if one["type"] != "missing"]:
                raise ValueError(first_line(found, model, f"{block}.{kind}")) from None
