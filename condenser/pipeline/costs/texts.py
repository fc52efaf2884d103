"""How long texts are: samples of collections, counted or assumed.

A sample has the attributes of `condenser.data.tokens.TokenShards`: the functions of `condenser.data` that
trainings use make blocks and spans of it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from condenser.data import sources
from condenser.data.archives import count_unpacked_lines, open_unpacked
from condenser.data.lengths import AUTO, NUM_SPECIALS, TokenCounts
from condenser.data.passages import windows
from condenser.data.tokens import load_counts
from condenser.pipeline.costs.arithmetic import even_places
from condenser.pipeline.costs.tables import Row, Tables
from condenser.shards import shard_files

SAMPLE_ROWS = 2000


@dataclass
class Texts:
    """A sample of a collection's rows.

    Attributes:
        sentences: of each row, the tokens of its title with [SEP] (0: none), then of each sentence.
        count: rows of the whole collection.
        id_bytes: bytes of an id.
        assumption: what is not counted, in words.
    """

    sentences: Sequence[Sequence[int]]
    count: float
    id_bytes: float
    assumption: str = ""

    def __post_init__(self) -> None:
        self.num_rows = len(self.sentences)
        self.title_lengths = np.array([row[0] for row in self.sentences])
        self.first_sentence = np.cumsum([0, *map(len, self.sentences)])
        self.sentence_starts = np.cumsum([0, *(length for row in self.sentences for length in row)])
        self.row_starts = self.sentence_starts[self.first_sentence]

    def read(self, starts: np.ndarray, lengths: np.ndarray, *, width: int, fill: int) -> np.ndarray:
        """Token 0 throughout: a sample has no tokens."""
        return np.zeros((len(starts), width), dtype=np.int64)

    @property
    def weight(self) -> float:
        """Rows of the collection that one of the sample stands for."""
        return self.count / self.num_rows

    @property
    def num_tokens(self) -> float:
        """Tokens of the collection, without the special tokens around a row."""
        return self.weight * float(self.row_starts[-1])

    def cut(self, max_tokens: int | str, *, num_positions: int = 512) -> np.ndarray:
        """Lengths of the sample's rows as a retriever reads them, special tokens included.

        With `auto` they are cut where 95 % of the sample's rows end, at most at the backbone's positions.
        """
        if max_tokens == AUTO:
            counts = TokenCounts()
            counts.add(np.diff(self.row_starts), num_words=0)
            max_tokens = counts.covering(num_positions=num_positions)
        return np.minimum(np.diff(self.row_starts) + NUM_SPECIALS, int(max_tokens))


def counted_texts(prefixes: Sequence[str | Path], *, id_bytes: float) -> Texts:
    """Evenly spaced rows of all token shards of a collection."""
    lengths, nums = (
        np.concatenate([load_counts(shard_files(prefix)[part]) for prefix in prefixes]) for part in (1, 2)
    )
    ends = np.cumsum(nums, dtype=np.int64)
    places = even_places(len(nums), min(len(nums), SAMPLE_ROWS))
    rows = [lengths[ends[row] - nums[row] : ends[row]].tolist() for row in places]
    return Texts(rows, len(nums), id_bytes)


def assumed_passages(settings: Any, tables: Tables) -> Texts:
    """The passages of a data set, by its entry in the configuration.

    Raises:
        ValueError: collections.tsv does not have its source, or a part of it.
    """
    documents = _assumed_documents(settings, tables)
    if split := getattr(settings, "split", None):
        return split_texts(documents, **vars(split), tokens_per_word=tables.assumption("tokens_per_word"))
    return documents


def split_texts(documents: Texts, *, words: int, stride: int, tokens_per_word: float) -> Texts:
    """The passages of documents (`condenser.data.passages`), whose words are taken to be of equal length."""
    rows = []
    for title, *sentences in documents.sentences:
        bounds = np.cumsum([0, *sentences])
        of_document = windows(
            int(bounds[-1]), words=round(words * tokens_per_word), stride=round(stride * tokens_per_word)
        )
        for first, end in of_document:
            inside = np.diff(bounds.clip(first, end))
            rows.append([title, *inside[inside > 0].tolist()])
    count = documents.count * len(rows) / documents.num_rows
    why = f"{count:,.0f} passages of {words} words, {tokens_per_word:g} tokens each"
    chosen = [rows[place] for place in even_places(len(rows), min(len(rows), SAMPLE_ROWS))]
    return Texts(chosen, count, documents.id_bytes, "; ".join(filter(None, [documents.assumption, why])))


def _assumed_documents(settings: Any, tables: Tables) -> Texts:
    """The texts of a data set before they are split."""
    if expected := getattr(sources.load(settings), "expected", None):
        return _mixed(expected(settings, None), tables)
    if (files := sources.local_files(settings)) and not sources.task(settings):
        return _own_file(files[0], tables)
    row = tables.row("collections", settings.source)
    row = row | ({"title_tokens": "0"} if getattr(settings, "titles", None) == "none" else {})
    return assumed_texts(row, float(row["rows"]), why="official collection")


def assumed_queries(settings: Any, split: str, tables: Tables) -> Texts:
    """The judged queries of one split of a data set, or its items: of these a text is one of their sentences.

    Raises:
        ValueError: collections.tsv does not have the split.
    """
    if expected := getattr(sources.load(settings), "expected", None):
        return _mixed(expected(settings, split), tables)
    name = "/".join(filter(None, (settings.source, getattr(settings, "name", None), split)))
    why, count = f"official split {split}", None
    files = sources.local_files(settings)
    if sources.task(settings) and files:
        named = [file for file in files if split in file.name] or files
        count, why = sum(map(count_unpacked_lines, named)), f"lines of {named[0].name} counted"
    for file in files:
        if "qrels" in (file.parent.name, file.name[:5]) and file.name.removesuffix(".gz").endswith(
            f"{split}.tsv"
        ):
            name, why = "own/queries", f"queries of {file.name} counted"
            with open_unpacked(file) as stream:
                judged = {line.split(None, 1)[0] for line in stream if line.strip()}
            count = max(1, len(judged - {b"query-id"}))
    row = tables.row("collections", name)
    return assumed_texts(row, float(row["rows"]) if count is None else count, why=why)


def assumed_unjudged(tables: Tables, settings: Any) -> Texts:
    """The queries that a job makes of a collection, or of a user's own file, before they are counted."""
    row = tables.row("collections", "own/queries")
    if hasattr(settings, "query_set"):
        return assumed_texts(row, settings.query_set.count, why="as many queries as asked for")
    return assumed_texts(row, 1000, why="1,000 own queries assumed")


def assumed_texts(row: Row, count: float, *, why: str) -> Texts:
    """`count` texts as a row of collections.tsv describes them.

    Their lengths without titles stand at even quantiles of a log-normal distribution.
    """
    mean, spread = float(row["tokens"]), np.sqrt(np.log1p(float(row["variation"]) ** 2))
    quantiles = (np.arange(SAMPLE_ROWS) + 0.5) / SAMPLE_ROWS
    shape = np.exp(spread * np.array(list(map(NormalDist().inv_cdf, quantiles))))
    lengths = np.maximum(1, np.rint(shape * mean / shape.mean()))
    titles = np.full(SAMPLE_ROWS, float(row["title_tokens"]))
    return _in_sentences(lengths, titles, row, count, f"{why}, {mean:g} tokens each")


def _in_sentences(lengths: np.ndarray, titles: np.ndarray, row: Row, count: float, assumption: str) -> Texts:
    """Texts of these lengths, with sentences that vary evenly between 0.4 and 1.6 of the row's mean."""
    random, mean, texts = np.random.default_rng(0), float(row["sentence_tokens"]), []
    for left, title in zip(lengths.astype(int).tolist(), titles.astype(int).tolist(), strict=True):
        text = [title]
        while left:
            text.append(min(left, max(1, round(mean * random.uniform(0.4, 1.6)))))
            left -= text[-1]
        texts.append(text)
    return Texts(texts, count, float(row["id_bytes"]), assumption)


def _mixed(parts: Sequence[sources.Expected], tables: Tables) -> Texts:
    """The texts that a source expects; each part has its share of the sample."""
    texts: list[Texts] = []
    for part in parts:
        row = tables.row("collections", part.like)
        count = min(float(row["rows"] or np.inf), part.count or np.inf) / part.joined
        if part.joined > 1:
            row = row | {"tokens": str(part.joined * float(row["tokens"])), "title_tokens": "0"}
        why = part.basis or f"{part.like}: {count * part.joined:,.0f} texts"
        texts.append(assumed_texts(row, count, why=why))
    count, rows = sum(one.count for one in texts), []
    for one in texts:
        places = even_places(one.num_rows, max(1, round(SAMPLE_ROWS * one.count / count)))
        rows += [one.sentences[place] for place in places]
    return Texts(rows, count, texts[0].id_bytes, "; ".join(one.assumption for one in texts))


def _own_file(path: Path, tables: Tables) -> Texts:
    """A user's collection: its lines are counted, and evenly spaced ones give the lengths."""
    count, per_token = count_unpacked_lines(path), tables.assumption("bytes_per_token")
    with open_unpacked(path) as file:
        lines = (
            line.decode(errors="replace") for line in islice(file, 0, None, max(1, count // SAMPLE_ROWS))
        )
        texts = [_title_and_text(line, is_json=".jsonl" in path.suffixes) for line in lines]
    if not texts:
        raise ValueError(f"{path}:1: expected passages, got an empty file. Point datasets at the collection.")
    titles, lengths = np.rint([[len(text.encode()) / per_token for text in pair] for pair in texts]).T
    why = f"{path.name}: lines counted, {per_token:g} bytes per token"
    own, count = tables.row("collections", "own"), max(count, len(texts))
    return _in_sentences(np.maximum(1, lengths), titles + (titles > 0), own, count, why)


def _title_and_text(line: str, *, is_json: bool) -> tuple[str, str]:
    """Of a line of a user's collection. A line that `collect` will refuse counts as a text."""
    with contextlib.suppress(ValueError, AttributeError):
        if is_json:
            record = json.loads(line)
            return str(record.get("title") or ""), str(record.get("text", ""))
        _, *title, text = line.rstrip("\r\n").split("\t")
        return "".join(title), text
    return "", line
