"""The examples that a system is fine-tuned on, as rows of token shards, and what is drawn from them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from condenser.blocks import Validation
from condenser.data.batches import negative_window, positive_index
from condenser.data.randomness import uniforms
from condenser.data.records import read_examples
from condenser.data.subsets import read_subset
from condenser.data.text_files import TextFiles
from condenser.data.tokens import TokenShards
from condenser.files import count_lines


@dataclass(frozen=True)
class ExampleRows:
    """Training examples as row numbers of queries and passages, a few bytes each.

    The positives of example i are `positives[positive_starts[i] : positive_starts[i + 1]]`, and so
    are its negatives.
    """

    queries: Int[np.ndarray, " example"]
    positives: Int[np.ndarray, " positive"]
    positive_starts: Int[np.ndarray, " example_and_end"]
    negatives: Int[np.ndarray, " negative"]
    negative_starts: Int[np.ndarray, " example_and_end"]

    def __len__(self) -> int:
        return len(self.queries)


class ExampleFile(NamedTuple):
    """A file of examples, the rows of its queries by id, and which of these queries are wanted."""

    path: Path
    query_rows: Mapping[str, int]
    is_wanted: Callable[[str], bool]


def read_example_rows(files: Sequence[ExampleFile], *, doc_rows: Mapping[str, int]) -> ExampleRows:
    """The examples of several files, one file after the other."""
    queries = array("i")
    rows = {kind: array("i") for kind in ("positive", "negative")}
    starts = {kind: array("q", [0]) for kind in rows}
    for file in files:
        for example in read_examples(file.path):
            if not file.is_wanted(example.query_id):
                continue
            queries.append(file.query_rows[example.query_id])
            for kind, doc_ids in (
                ("positive", example.positive_doc_ids),
                ("negative", example.negative_doc_ids),
            ):
                rows[kind].extend(doc_rows[doc_id] for doc_id in doc_ids)
                starts[kind].append(len(rows[kind]))
    lists = (queries, rows["positive"], starts["positive"], rows["negative"], starts["negative"])
    return ExampleRows(*(np.array(numbers, dtype=f"i{numbers.itemsize}") for numbers in lists))


@dataclass(frozen=True)
class TrainingFiles:
    """What a system is fine-tuned on.

    Attributes:
        examples: one file for each system that negatives come from; every line is an item.
        texts: the collection and the queries.
        held_out: the ids of the train queries that are not trained on, if any.
        validation: how the model is compared with its start on these; None: it is not.
        has_pseudo_labels: whether the last file of examples is of the last file of queries. Their ids may be
            those of train queries, too: a made query has the id of its passage.
        teacher_run: the run that a distillation learns from instead of examples.
    """

    examples: Sequence[Path]
    texts: TextFiles
    held_out: Path | None = None
    validation: Validation | None = None
    has_pseudo_labels: bool = False
    teacher_run: Path | None = None

    def read(self) -> tuple[TokenShards, TokenShards, ExampleRows, ExampleRows]:
        """Tokens of the passages and of the queries; as rows of both, the examples and those held out.

        Raises:
            ValueError: there is no example to train on.
        """
        texts = self.texts.read()
        # nothing holds the ids after this function
        num_made = count_lines(self.texts.queries[-1]) if self.has_pseudo_labels else 0
        num_judged = len(texts.query_ids) - num_made
        judged_rows = _first_rows(texts.query_ids[:num_judged], start=0)
        made_rows = _first_rows(texts.query_ids[num_judged:], start=num_judged)
        doc_rows = {doc_id: row for row, doc_id in enumerate(texts.doc_ids)}
        held_out = read_subset(self.held_out) if self.held_out else frozenset()
        judged, made = self.examples, []
        if self.has_pseudo_labels:
            *judged, labels = self.examples
            made = [ExampleFile(labels, made_rows, lambda query_id: True)]
        train = [ExampleFile(file, judged_rows, lambda query_id: query_id not in held_out) for file in judged]
        kept = [ExampleFile(file, judged_rows, held_out.__contains__) for file in judged]
        examples, of_held_out = (
            read_example_rows(files, doc_rows=doc_rows) for files in ([*train, *made], kept)
        )
        if not len(examples):
            raise ValueError(
                f"{', '.join(map(str, self.examples))}: expected examples to train on, got none. Their "
                "manifests count what was left out. A teacher that is not better than its candidates gives "
                "no pseudo-labels."
            )
        return texts.passages, texts.queries, examples, of_held_out


def _first_rows(query_ids: Sequence[str], *, start: int) -> dict[str, int]:
    """The row of each id, of which the first has the row `start`; later queries of an id have no example."""
    rows: dict[str, int] = {}
    for row, query_id in enumerate(query_ids, start=start):
        rows.setdefault(query_id, row)
    return rows


def count_examples(examples: ExampleRows, held_out: ExampleRows, passages_per_query: int) -> dict[str, int]:
    """What the examples hold, for the manifest of a training."""
    return {
        "examples": len(examples),
        "examples_held_out": len(held_out),
        "positives": len(examples.positives),
        "negatives": len(examples.negatives),
        "examples_with_fewer_negatives_than_a_batch_takes": int(
            (np.diff(examples.negative_starts) < passages_per_query - 1).sum()
        ),
    }


def draw_passages(
    examples: ExampleRows,
    items: Int[np.ndarray, " query"],
    *,
    passages_per_query: int,
    seed: int,
    epoch: int,
    num_passages: int,
) -> Int[np.ndarray, " passage"]:
    """Collection rows of these examples' passages in one epoch: of each a positive, then its negatives.

    The negatives of an example without any are drawn from the whole collection, of `num_passages`.
    Source: coCondenser, §3.4, and Tevatron's draws (`condenser.data.batches`).
    """
    drawn, size = [], passages_per_query - 1
    for item in items.tolist():
        positives = examples.positives[examples.positive_starts[item] : examples.positive_starts[item + 1]]
        negatives = examples.negatives[examples.negative_starts[item] : examples.negative_starts[item + 1]]
        positive = positive_index(item, len(positives), seed=seed, epoch=epoch)
        if len(negatives):
            window = negative_window(len(negatives), size, seed=seed, item=item, epoch=epoch)
            of_item = negatives[window]
        else:
            draws = uniforms(seed, "random negatives", epoch, np.array([item]), columns=size)[0]
            of_item = (draws * (num_passages - len(positives))).astype(np.int64)
            for row in np.sort(positives):
                of_item += of_item >= row
        drawn += [positives[positive : positive + 1], of_item]
    return np.concatenate(drawn).astype(np.int64)
