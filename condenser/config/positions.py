"""Whether a backbone has the layers and positions that models and systems need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser import experiment
from condenser.blocks import Config, Recipe
from condenser.config.messages import LONGEST_PATH, preview
from condenser.encoders import encoder_config
from condenser.files import read_json, refuse_link_out
from condenser.settings import AUTO, partly

EMBEDDED_LAYERS, EMBEDDED_POSITIONS = 6, 512  # MiniLM's config.json
_NUM_SPECIALS = 2


def check_rows_fit(config: Config) -> None:
    """Refuse a backbone of too few layers or positions for the models and systems that tables use."""
    for name in sorted(experiment.systems_of_tables(config)):
        system = config.systems[name]
        if (initial := experiment.initial_model(config, name)) is None:
            continue
        chain = experiment.chain(config, initial)
        backbone = experiment.origin(config, initial)
        root = config.models[backbone]
        try:
            shape = layers_and_positions(root, f"models.{backbone}")
        except ValueError:
            continue  # a folder that cannot be used: the jobs that need it say so, others may run
        if shape is None:
            continue
        num_layers, num_positions = shape
        rows: dict[str, int] = {}
        for of, dataset in config.datasets.items():
            if dataset.own_recipe and system.fits(dataset) and not dataset.TASK:
                lengths = vars(experiment.recipe(config, of, system).lengths)
                for text in ("passage", "query"):
                    length = lengths[text]
                    key = f"recipes.{dataset.own_recipe}.lengths.{text}"
                    if vars(dataset.own_lengths)[text] == length:
                        key = f"datasets.{of}.lengths.{text}"
                    if length != AUTO:  # `auto` never exceeds the backbone's positions
                        rows[key] = length
        for model in chain[:-1]:
            settings = config.models[model]
            try:
                settings.check(num_layers=num_layers)
            except ValueError as error:
                raise ValueError(f"models.{model}.{error}") from None
            if settings.longest_row is not None:
                key, tokens = settings.longest_row
                rows[f"models.{model}.{key}"] = tokens + _NUM_SPECIALS
        longest = max(rows, key=lambda key: rows[key], default=None)
        if longest is None:
            continue
        _refuse_long_row(longest, rows[longest], backbone, root, num_positions=num_positions)


def check_longest_row(config: Config, dataset: str, system: str) -> None:
    """See that the longest row of a system, as its kind says, fits the positions of its backbone.

    Jobs of such a system ask, and not `validated`: a backbone of fewer positions may serve all other systems.

    Raises:
        ValueError: it does not.
    """
    entry, recipe = config.systems[system], experiment.recipe_name(config, dataset)
    initial = experiment.initial_model(config, system)
    assert initial is not None
    backbone = experiment.origin(config, initial)
    root = config.models[backbone]
    if shape := layers_and_positions(root, f"models.{backbone}"):
        settings = experiment.recipe(config, dataset, entry)
        if entry.ranks:
            # auto takes what is left, which must be a token between the specials
            lengths = {
                text: 3 if length == AUTO else length for text, length in vars(settings.lengths).items()
            }
            settings = partly(Recipe, {**vars(settings), "lengths": lengths})
        tokens = entry.longest_row(settings)
        key = f"recipes.{recipe}, the longest row of systems.{system}"
        _refuse_long_row(key, tokens, backbone, root, num_positions=shape[1])


def _refuse_long_row(key: str, tokens: int, backbone: str, root: Any, *, num_positions: int) -> None:
    if tokens > num_positions:
        of_backbone = "max_positions" if root.source == "scratch" else "path"
        raise ValueError(
            f"models.{backbone}.{of_backbone}: expected at least {tokens} positions for {key} (with "
            f"specials), got {num_positions}. Shorten the texts, or take another backbone."
        )


def layers_and_positions(model: Any, key: str) -> tuple[int, int] | None:
    """The number of layers and of positions of a checkpoint; None of one on the hub, of a system or an LSTM.

    Raises:
        ValueError: its folder or file is missing, cannot be read, or is no encoder.
    """
    if model.source == "embedded":
        return EMBEDDED_LAYERS, EMBEDDED_POSITIONS
    if model.source == "scratch":
        return model.num_layers, model.max_positions or 512
    if model.source == "lstm" and not Path(model.path).is_file():
        path = preview(model.path, longest=LONGEST_PATH)
        raise ValueError(
            f"{key}.path: expected a file of word vectors such as GloVe's, found none at {path} "
            "(relative to where snakemake runs). Correct the path."
        )
    if model.source in ("hub", "system", "lstm"):
        return None
    file = Path(model.path, "config.json")
    try:
        is_there = file.is_file()
        if is_there:
            refuse_link_out(file, file.parent)
        settings = read_json(file) if is_there else {}
    except OSError as error:
        path = preview(str(file), longest=LONGEST_PATH)
        raise ValueError(
            f"{key}.path: expected to read {path}, got: {error.strerror}. Correct the path or the rights."
        ) from error
    except ValueError as error:
        raise ValueError(f"{key}.path: {error}") from error
    if not is_there:
        path = preview(model.path, longest=LONGEST_PATH)
        raise ValueError(
            f"{key}.path: expected a Hugging Face folder with config.json, found none at {path} "
            "(relative to where snakemake runs). Correct the path."
        )
    try:
        config = encoder_config(settings if isinstance(settings, dict) else {}, origin=file)
    except ValueError as error:
        raise ValueError(f"{key}.path: {error}") from error
    return config.num_hidden_layers, config.num_positions
