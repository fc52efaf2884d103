"""Sources of texts; all give the same canonical files (`condenser.data.canonical`).

A source NAME is the module `condenser.data.sources.NAME`, found by its file name. It holds:

- `Settings`: a pydantic class of its keys, made from `JudgedTexts`, from `PartlyJudgedTexts` where a split
  may be null, or from `Texts` for texts without queries (`condenser.settings`);
- `collect(folder, raw, settings) -> counts`: writes the canonical files into `folder`; `raw` maps each name
  of `raw_files` to its path. Of `settings` it sees the keys that decide these files (`settings_of_collect`).

The class of settings says which official and own files it reads, and what else is otherwise than by default
(`condenser.nouns.Texts`); for pairs or triplets of sentences it is made from `Sentences` and has a `TASK`:
`similarity` (pairs with a score from 0 to 5), `triplets`, `inference` (pairs with a class), or `neighbours`
(pairs that follow each other).

With `example_files` the module also holds `make_examples(raw, queries, qrels, output, *, relevant_grade,
sample, wanted, seed)`, which makes the training examples of these files; with `unjudged_files` also
`collect_unjudged(folder, raw, *, name, bad_rows) -> counts`, which makes of them what
`condenser.data.unjudged` makes of a user's file.

`settings` is the data set's entry in the configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from condenser import kinds
from condenser.data.canonical import describe_left_out
from condenser.data.passages import split_collection
from condenser.data.records import read_passages
from condenser.files import write_json
from condenser.settings import partly

FOLDER = "data/sources"
log = logging.getLogger("condenser")
_NOT_COLLECTED = (
    *("recipe", "lengths", "documents", "measures", "relevant_grade", "other_eval_splits", "queries"),
    "keep_trained",
)


def load(settings: Any) -> ModuleType:
    """The module of a data set's source."""
    return kinds.load(FOLDER, settings.source)


def unjudged(settings: Any) -> dict[str, Path]:
    """The user's files of queries without judgements, by name."""
    named = vars(settings).get("queries") or {}
    return {name: plain_or_packed(Path(file).expanduser()) for name, file in named.items()}


def unjudged_names(settings: Any) -> list[str]:
    """The names of the sets of queries without judgements, the user's and the official one."""
    return [*unjudged(settings), *([settings.unjudged] if settings.unjudged_files() else [])]


def split_files(settings: Any) -> list[str]:
    """The canonical files of the splits of a data set."""
    names = ["items.{}.jsonl"] if settings.TASK else ["queries.{}.jsonl", "qrels.{}.tsv"]
    return [name.format(split) for name in names for split in settings.splits]


def settings_of_collect(settings: Any) -> Any:
    """The settings that decide the canonical files; of further evaluation sets, their names."""
    without = {*_NOT_COLLECTED, *settings.AFTER_COLLECTING}
    kept = {"split": None, **{key: value for key, value in vars(settings).items() if key not in without}}
    if settings.further:
        kept["other_eval_splits"] = sorted(settings.further)
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
            files = settings.local_files()
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
    if missing := [name for name in settings.raw_files() if name not in raw]:
        raise ValueError(
            f"source {settings.source}: expected the files {', '.join(missing)}, got none. "
            "Download them first."
        )
    counts = load(settings).collect(folder, raw, settings)
    if split := settings.windows:
        counts = {**counts, **split_collection(folder, **vars(split))}
    write_json(folder / "counts.json", counts)
    if left_out := describe_left_out(counts):
        log.warning("%s", left_out)
    return counts


def count_new(settings: Any, collection: Path) -> tuple[int, int]:
    """How many passages of the user's own files a canonical collection lacks, and how many there are.

    Raises:
        ValueError: the files do not fit.
    """
    known = {(passage.title, passage.text) for passage in read_passages(collection)}
    with TemporaryDirectory() as folder:
        collect(Path(folder), {}, settings_of_collect(settings))
        passages = list(read_passages(Path(folder, collection.name)))
    new = sum((passage.title, passage.text) not in known for passage in passages)
    return new, len(passages)
