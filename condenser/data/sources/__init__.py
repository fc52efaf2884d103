"""Sources of texts; all give the same canonical files (`condenser.data.canonical`).

A source NAME is the module `condenser.data.sources.NAME`, found by its file name. It holds:

- `Settings`: a pydantic class of its keys, made from `JudgedTexts`, from `PartlyJudgedTexts` where a split
  may be null, or from `Texts` for texts without queries (`condenser.settings`);
- `collect(folder, raw, *, ..., **_) -> counts`: writes the canonical files into `folder`; `raw` maps
  each name of `raw_files` to its path; the settings that it uses are keyword-only arguments. A source that
  can make more splits than two has `other_eval_splits` among them, a list of names, empty by default.

It may hold:

- `raw_files(settings) -> list[str]`: the official files that it reads, by their names in
  `condenser.data.official`; they are downloaded first;
- `local_files(settings) -> list[Path]`: the user's own files that it reads;
- `packages(settings) -> list[str]`: installed packages whose versions decide the texts;
- `NEEDS_NETWORK`: `collect` itself fetches texts;
- `example_files(settings, system)` and `make_examples(raw, queries, qrels, output, *, relevant_grade,
  sample, wanted, seed)`: official files that hold the negatives of a system, and the training examples
  made from them;
- `unjudged_files(settings)` and `collect_unjudged(folder, raw, *, name, bad_rows) -> counts`: official files
  that hold queries without judgements, whose name is the key `unjudged` of the settings, and what makes of
  them the files that `condenser.data.unjudged` makes of a user's;
- `LEAST_GRADES`: by split, the least grade that its judges call relevant;
- `AFTER_COLLECTING`: keys of the settings that `collect` does not use;
- `TASK`: what sentences are judged by, where it gives pairs or triplets of sentences and no queries, with
  `Settings` made from `Sentences`: `similarity` (pairs with a score from 0 to 5), `triplets`, `inference`
  (pairs with a class), or `neighbours` (pairs that follow each other).

`settings` is the data set's entry in the configuration.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from condenser import kinds
from condenser.data.canonical import describe_left_out
from condenser.data.passages import split_collection
from condenser.files import write_json
from condenser.settings import partly

FOLDER = "data/sources"
log = logging.getLogger("condenser")
_NOT_COLLECTED = (
    *("recipe", "lengths", "documents", "measures", "relevant_grade", "other_eval_splits", "queries"),
)


def load(settings: Any) -> ModuleType:
    """The module of a data set's source."""
    return kinds.load(FOLDER, settings.source)


def raw_files(settings: Any) -> list[str]:
    """The names of the official files that a data set is made from."""
    return _named(settings, "raw_files")


def local_files(settings: Any) -> list[Path]:
    """The user's own files that a data set is made from."""
    return _named(settings, "local_files")


def example_files(settings: Any, system: str) -> list[str]:
    """The names of the official files that hold the negatives of a system; none for most."""
    return _named(settings, "example_files", system)


def packages(settings: Any) -> list[str]:
    """The installed packages whose versions decide a data set's texts."""
    return _named(settings, "packages")


def _named(settings: Any, function: str, *further: str) -> list[Any]:
    """What a function of the source gives; nothing where the source lacks it."""
    find = getattr(load(settings), function, None)
    return find(settings, *further) if find else []


def unjudged_files(settings: Any) -> list[str]:
    """The names of the official files that hold queries without judgements; none for most."""
    return _named(settings, "unjudged_files")


def splits(settings: Any) -> list[str]:
    """The splits that a data set has: train, then evaluation; none of texts without queries."""
    train = getattr(settings, "train_split", None)
    return [*([] if train is None else [train]), *eval_splits(settings)]


def eval_splits(settings: Any) -> list[str]:
    """The evaluation sets that a data set has, the main one first."""
    main = getattr(settings, "eval_split", None)
    return [] if main is None else [main, *(getattr(settings, "other_eval_splits", None) or ())]


def unjudged(settings: Any) -> dict[str, Path]:
    """The user's files of queries without judgements, by name."""
    named = getattr(settings, "queries", None) or {}
    return {name: plain_or_packed(Path(file).expanduser()) for name, file in named.items()}


def unjudged_names(settings: Any) -> list[str]:
    """The names of the sets of queries without judgements, the user's and the official one."""
    return [*unjudged(settings), *([settings.unjudged] if unjudged_files(settings) else [])]


def has_more_splits(settings: Any) -> bool:
    """Whether the source of a data set can make more evaluation sets than one."""
    return "other_eval_splits" in inspect.signature(load(settings).collect).parameters


def task(settings: Any) -> str | None:
    """What the sentences of a data set are judged by; None where it has queries, or texts alone."""
    return getattr(load(settings), "TASK", None)


def split_files(settings: Any) -> list[str]:
    """The canonical files of the splits of a data set."""
    names = ["items.{}.jsonl"] if task(settings) else ["queries.{}.jsonl", "qrels.{}.tsv"]
    return [name.format(split) for name in names for split in splits(settings)]


def settings_of_collect(settings: Any) -> Any:
    """The settings that decide the canonical files; of further evaluation sets, their names."""
    without = {*_NOT_COLLECTED, *getattr(load(settings), "AFTER_COLLECTING", ())}
    kept = {"split": None, **{key: value for key, value in vars(settings).items() if key not in without}}
    if further := getattr(settings, "other_eval_splits", None):
        kept["other_eval_splits"] = sorted(further)
    return partly(type(settings), kept)


def plain_or_packed(file: Path) -> Path:
    """A user's file, or the same with `.gz` behind its name where that one alone is there."""
    packed = file.with_name(f"{file.name}.gz")
    return packed if packed.is_file() and not file.exists() else file


def check_local_files(datasets: Mapping[str, Any]) -> None:
    """See that the user's own files of all data sets are there, before anything runs.

    Raises:
        ValueError: one is not; the message names the key and the file.
    """
    for name, settings in datasets.items():
        try:
            files = local_files(settings)
        except ValueError as error:
            raise ValueError(f"datasets.{name}: {error}") from error
        for file in files:
            if not file.is_file():
                raise ValueError(
                    f"datasets.{name}.path: expected the file {file}, found none. "
                    "Add it, or correct the path or the splits (null for a split that does not exist)."
                )
        for queries, file in unjudged(settings).items():
            if not file.is_file():
                raise ValueError(
                    f"datasets.{name}.queries.{queries}: expected a file of queries at {file}, found none "
                    "(relative to where snakemake runs). Add it, or correct the path."
                )


def collect(folder: Path, raw: Mapping[str, Path], settings: Any) -> dict[str, Any]:
    """Write the canonical files of a data set, and `counts.json`, into `folder`; gives the counts.

    Raises:
        ValueError: a setting or a raw file is missing, or the data do not fit; the message says where.
    """
    if missing := [name for name in raw_files(settings) if name not in raw]:
        raise ValueError(
            f"source {settings.source}: expected the files {', '.join(missing)}, got none. "
            "Download them first."
        )
    source = load(settings)
    needed = [
        name
        for name, parameter in inspect.signature(source.collect).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if absent := [name for name in needed if not hasattr(settings, name)]:
        raise ValueError(f"source {settings.source}: expected the setting {', '.join(absent)}, got none.")
    split = getattr(settings, "split", None)
    given = {key: value for key, value in vars(settings).items() if key not in ("source", "split")}
    counts = source.collect(folder, raw, **given)
    if split:
        counts = {**counts, **split_collection(folder, words=split.words, stride=split.stride)}
    write_json(folder / "counts.json", counts)
    if left_out := describe_left_out(counts):
        log.warning("%s", left_out)
    return counts
