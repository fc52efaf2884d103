"""Whether a backbone has the layers and positions that models and systems need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condenser.blocks import Recipe
from condenser.config.messages import LONGEST_PATH, preview
from condenser.encoders import encoder_config
from condenser.files import read_json, refuse_link_out
from condenser.nouns import Config
from condenser.settings import AUTO, partly

EMBEDDED_LAYERS, EMBEDDED_POSITIONS = 6, 512  # MiniLM's config.json
_NUM_SPECIALS = 2


def check_rows_fit(config: Config) -> None:
    """Refuse a backbone of too few layers or positions for the models and systems that tables use."""
    for name in sorted(config.systems_of_tables):
        system = config.systems[name]
        if (initial := system.start_model) is None:
            continue
        try:
            shape = layers_and_positions(initial.origin)
        except ValueError:
            continue  # a folder that cannot be used: the jobs that need it say so, others may run
        if shape is None:
            continue
        num_layers, num_positions = shape
        rows: dict[str, int] = {}
        for key_of, dataset in config.datasets.items():
            if dataset.own_recipe and system.supports_task_of(dataset) and not dataset.TASK:
                lengths = vars(dataset.recipe_of(system).lengths)
                for text in ("passage", "query"):
                    length = lengths[text]
                    key = f"recipes.{dataset.own_recipe}.lengths.{text}"
                    if vars(dataset.own_lengths)[text] == length:
                        key = f"datasets.{key_of}.lengths.{text}"
                    if length != AUTO:  # `auto` never exceeds the backbone's positions
                        rows[key] = length
        for model in initial.chain[:-1]:
            try:
                model.check(num_layers=num_layers)
            except ValueError as error:
                raise ValueError(f"models.{model.key}.{error}") from None
            if model.longest_row is not None:
                key, tokens = model.longest_row
                rows[f"models.{model.key}.{key}"] = tokens + _NUM_SPECIALS
        longest = max(rows, key=lambda key: rows[key], default=None)
        if longest is not None:
            _refuse_long_row(longest, rows[longest], initial.origin, num_positions=num_positions)


def check_longest_row(config: Config, dataset: str, system: str) -> None:
    """See that the longest row of a system, as its kind says, fits the positions of its backbone.

    Jobs of such a system ask, and not `validated`: a backbone of fewer positions may serve all other systems.

    Raises:
        ValueError: it does not.
    """
    entry, texts = config.systems[system], config.datasets[dataset]
    backbone = entry.start_model.origin
    if shape := layers_and_positions(backbone):
        settings = texts.recipe_of(entry)
        if entry.ranks:
            # auto takes what is left, which must be a token between the specials
            lengths = {
                text: 3 if length == AUTO else length for text, length in vars(settings.lengths).items()
            }
            settings = partly(Recipe, {**vars(settings), "lengths": lengths})
        tokens = entry.longest_row(settings)
        key = f"recipes.{texts.recipe_name}, the longest row of systems.{system}"
        _refuse_long_row(key, tokens, backbone, num_positions=shape[1])


def _refuse_long_row(key: str, tokens: int, backbone: Any, *, num_positions: int) -> None:
    if tokens > num_positions:
        of_backbone = "max_positions" if backbone.source == "scratch" else "path"
        raise ValueError(
            f"models.{backbone.key}.{of_backbone}: expected at least {tokens} positions for {key} (with "
            f"specials), got {num_positions}. Shorten the texts, or take another backbone."
        )


def layers_and_positions(model: Any) -> tuple[int, int] | None:
    """The number of layers and of positions of a checkpoint; None of one on the hub, of a system or an LSTM.

    Raises:
        ValueError: its folder or file is missing, cannot be read, or is no encoder.
    """
    key = f"models.{model.key}"
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
