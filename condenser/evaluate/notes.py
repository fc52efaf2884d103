"""Notes that a reader of a table needs: the lines below it, also in its `.notes.txt`.

Each function gives the lines of one kind of note from files that the table declares as inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from condenser.data.canonical import describe_left_out
from condenser.data.lengths import TextLengths
from condenser.evaluate.columns import Column
from condenser.evaluate.comparisons import Measured, holm_note
from condenser.evaluate.measures import parse
from condenser.files import atomic_write, read_json


def notes_of_table(
    *,
    dataset: str,
    columns: Sequence[Column],
    counts: Mapping[str, Mapping[str, Any]],
    noted: Mapping[str, Sequence[Mapping[str, Any]]],
    lengths: Mapping[tuple[str, str], TextLengths],
    losses: Sequence[Path],
    validations: Sequence[Path],
    by_column: Mapping[str, Measured],
    unknown_words: float,
) -> list[str]:
    """All lines of a table.

    Args:
        dataset: of the table; lines on another one begin with its name.
        counts: `counts.json` of the data sets that its columns are measured on.
        noted: from `condenser.experiment.tables.table_notes`.
        lengths: by data set and checkpoint, of the `texts` in `noted`.
        losses: of the `trainings` in `noted`, in order.
        validations: of the trainings in `compared`, in order.
        by_column: from `condenser.evaluate.comparisons.measure_columns`.
        unknown_words: a larger share of words that the vocabulary does not have is noted.
    """
    of_place = {name: "" if name == dataset else f"{name}: " for name in counts}
    lines = [
        f"{of_place[name]}{line}" for name, of_set in counts.items() if (line := describe_left_out(of_set))
    ]
    lines += [
        f"{of_place[name]}{count:,} {split} queries are texts of the collection (same id, same text): no "
        "ranking has a query's own text."
        for name, of_set in counts.items()
        for split, count in of_set.get("queries_in_collection", {}).items()
    ]
    several = len(noted["texts"]) > len({entry["dataset"] for entry in noted["texts"]})
    for entry in noted["texts"]:
        whose = f"{', '.join(entry['systems'])}: " if several else ""
        texts = lengths[entry["dataset"], entry["model"]]
        cuts = texts.cuts(entry["lengths"], splits=entry["splits"], in_one_row=entry["in_one_row"])
        lines += [f"{of_place[entry['dataset']]}{whose}{line}" for line, _ in cuts]
    assumed = [f"{model}: {line}" for (_, model), texts in lengths.items() for line in texts.assumed]
    lines += list(dict.fromkeys(assumed))  # the same model may read several data sets
    for (name, model), texts in lengths.items():
        splits = [split for entry in noted["texts"] if entry["dataset"] == name for split in entry["splits"]]
        unknown = unknown_lines(texts, model, splits=dict.fromkeys(splits), above=unknown_words)
        lines += [f"{of_place[name]}{line}" for line in unknown]
    ranked = {name: of_set.get("documents", of_set["passages"]) for name, of_set in counts.items()}
    lines += trivial_lines(columns, ranked)
    lines += update_lines(noted["trainings"], losses)
    lines += kept_lines(noted["compared"], validations)
    compared = [comparison for column in by_column.values() for comparison in column.comparisons.values()]
    lines += holm_note((comparison.verdict, comparison.low, comparison.high) for comparison in compared)
    return lines


def unknown_lines(texts: TextLengths, model: str, *, splits: Iterable[str], above: float) -> list[str]:
    """Texts of which the vocabulary lacks a larger share of the words than `above`."""
    read = {"passages": texts.passages} | {f"{split} queries": texts.queries[split] for split in splits}
    return [
        f"{100 * counts.unknown_share:.1f} % of the words of the {name} are unknown to the vocabulary of "
        f"{model}, which reads [UNK] in place of each."
        for name, counts in read.items()
        if counts.unknown_share > above
    ]


def trivial_lines(columns: Sequence[Column], num_ranked: Mapping[str, int]) -> list[str]:
    """The columns in which every ranking of all passages, or documents, has the same value."""
    lines = []
    for column in columns:
        rows = num_ranked[column.dataset]
        if parse(column.measure).is_trivial(num_passages=rows, run_depth=column.depth or 0):
            lines.append(
                f"{column.name} is the same for every ranking: its depth covers all {rows:,} ranked texts."
            )
    return lines


def update_lines(trainings: Sequence[Mapping[str, Any]], losses: Sequence[Path]) -> list[str]:
    """The updates of each model and system, and the epochs that they are, from the logs of the trainings."""
    made: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for training, file in zip(trainings, losses, strict=True):
        made.setdefault((_name_of(training), training.get("soup", 1)), []).append(_updates(file))
    lines = []
    for (name, soup), of_seeds in made.items():
        updates, epochs = (sorted(set(values)) for values in zip(*of_seeds, strict=True))
        line = f"{name}: {_range(updates)} updates, {_range(epochs)} epochs".replace(" 1 epochs", " 1 epoch")
        lines.append(f"{line}, in {soup} trainings whose weights are averaged." if soup > 1 else f"{line}.")
    return lines


def kept_lines(trainings: Sequence[Mapping[str, Any]], validations: Sequence[Path]) -> list[str]:
    """The trainings whose model is not better than its start on the held-out train queries."""
    lines = []
    for training, file in zip(trainings, validations, strict=True):
        compared = read_json(file)
        if compared["queries"] and compared["trained"] <= compared["start"]:
            whose = {"start": "the start's weights are", "mean": "a mean with the start's weights is"}
            kept = whose.get(compared["kept"], "its own weights are")
            lines.append(
                f"{training['system']}, {training['variant']}, is not better than its start on "
                f"{compared['queries']:,} held-out train queries (MRR@10 {compared['trained']:.3f}, start "
                f"{compared['start']:.3f}; {compared['won']:,} won, {compared['lost']:,} lost): {kept} kept."
            )
    return lines


def _name_of(training: Mapping[str, Any]) -> str:
    """A model, or a system and its train size; seeds count as one."""
    if "model" in training:
        return str(training["model"])
    size, is_sized, _ = training["variant"].partition("-seed")
    return (
        f"{training['system']} ({size.removeprefix('n')} train queries)" if is_sized else training["system"]
    )


def _updates(losses: Path) -> tuple[int, float]:
    """The updates in a log, those that were skipped not counted, and the epochs that it goes through."""
    updates, epochs = 0, 0.0
    with losses.open("rb") as file:
        for record in map(json.loads, file):
            updates += record["outcome"] == "updated"
            epochs += record["items"] / record["items_of_epoch"]
    return updates, epochs


def _range(values: Sequence[float]) -> str:
    """One number, or the least and the largest.

    >>> _range([18]), _range([0.25]), _range([1200, 1250])
    ('18', '0.25', '1,200 to 1,250')
    """
    shown = [f"{value:,}" if isinstance(value, int) else f"{value:.2g}" for value in (values[0], values[-1])]
    return " to ".join(dict.fromkeys(shown))


def write_notes(path: Path, notes: Iterable[str]) -> None:
    """Write a note a line; an empty file where there is none."""
    with atomic_write(path) as file:
        file.write("".join(f"{note}\n" for note in notes).encode())
