"""How long the texts of a data set are: counted where they have been tokenised, else assumed."""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from condenser.data import sources
from condenser.data.archives import open_unpacked
from condenser.data.lengths import AUTO, NUM_SPECIALS, TokenCounts, counts_of, total
from condenser.data.passages import windows
from condenser.files import read_json
from condenser.pipeline.costs.jobs import Job
from condenser.pipeline.costs.tables import Row, Tables
from condenser.shards import counts_file

SAMPLE_ROWS = 2000
HEAD_BYTES = 4_000_000  # read of a user's collection


@dataclass(frozen=True)
class Texts:
    """The rows of a collection, of which a sample has lengths.

    Attributes:
        lengths: tokens of the sample's rows [row], with a title and its [SEP], without specials around them.
        count: rows of the whole collection.
        id_bytes: bytes of an id.
        sentence_tokens: mean of a sentence.
        title_tokens: mean of a title with its [SEP].
        assumption: what is not counted, in words.
        auto: the block `auto_lengths` of the configuration.
    """

    lengths: np.ndarray
    count: float
    id_bytes: float
    sentence_tokens: float
    title_tokens: float = 0.0
    assumption: str = ""
    auto: Any = None

    @property
    def num_tokens(self) -> float:
        """Tokens of the collection, without the special tokens around a row."""
        return self.count * float(self.lengths.mean())

    @property
    def bodies(self) -> np.ndarray:
        """Tokens of the sample's rows without their titles, at least one [row]."""
        return np.maximum(1, self.lengths - self.title_tokens)

    def cut(self, max_tokens: int | str, *, num_positions: int = 512) -> float:
        """Mean length of a row as a retriever reads it, special tokens included, at most `max_tokens`."""
        if max_tokens == AUTO:
            counts = TokenCounts()
            counts.add(np.rint(self.lengths).astype(int), num_words=0)
            max_tokens = counts.covering(
                self.auto.share, multiple=self.auto.multiple, num_positions=num_positions
            )
        return float(np.minimum(self.lengths + NUM_SPECIALS, int(max_tokens)).mean())


def counted_texts(prefixes: Sequence[str | Path], assumed: Texts) -> Texts:
    """The texts of all token shards of a collection; `assumed` says the rest."""
    rows = total(counts_of(read_json(counts_file(prefix))) for prefix in prefixes).rows
    lengths = np.array(sorted(rows))
    ends = np.cumsum([rows[length] for length in lengths.tolist()])
    places = even_places(int(ends[-1]), min(int(ends[-1]), SAMPLE_ROWS))
    sample = lengths[np.searchsorted(ends, places, side="right")] - NUM_SPECIALS
    return replace(assumed, lengths=sample, count=int(ends[-1]), assumption="")


def even_places(count: int, number: int) -> np.ndarray:
    """Places of `number` of `count` things, int64, at even distances."""
    return (2 * np.arange(number) + 1) * count // (2 * number)


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
    sizes = {"words": round(words * tokens_per_word), "stride": round(stride * tokens_per_word)}
    bodies = np.rint(documents.bodies).astype(int).tolist()
    passages = np.array([end - first for body in bodies for first, end in windows(body, **sizes)])
    count = documents.count * len(passages) / len(bodies)
    why = f"{count:,.0f} passages of {words} words, {tokens_per_word:g} tokens each"
    assumption = "; ".join(filter(None, [documents.assumption, why]))
    return replace(documents, lengths=passages + documents.title_tokens, count=count, assumption=assumption)


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
        count, why = sum(sampled(file)[1] for file in named), f"lines of {named[0].name} counted"
    for file in files:
        is_qrels = "qrels" in (file.parent.name, file.name[:5])
        if is_qrels and file.name.removesuffix(".gz").endswith(f"{split}.tsv"):
            name, why = "own/queries", f"queries of {file.name} counted"
            with open_unpacked(file) as stream:
                judged = {line.split(None, 1)[0] for line in stream if line.strip()}
            count = max(1, len(judged - {b"query-id"}))
    row = tables.row("collections", name)
    return assumed_texts(row, float(row["rows"]) if count is None else count, why=why)


def assumed_unjudged(tables: Tables, job: Job) -> Texts:
    """The queries that a job makes of a collection, or of a file, before they are counted."""
    if any(need.rule == "download" for need in job.needs):
        row = tables.row("collections", f"{job.config.dataset.source}/unjudged")
        return assumed_texts(row, float(row["rows"]), why="official queries without judgement")
    row = tables.row("collections", "own/queries")
    if hasattr(job.config, "query_set"):
        return assumed_texts(row, job.config.query_set.count, why="as many queries as asked for")
    return assumed_texts(row, 1000, why="1,000 own queries assumed")


def assumed_texts(row: Row, count: float, *, why: str) -> Texts:
    """`count` texts as a row of collections.tsv describes them.

    Their lengths without titles stand at even quantiles of a log-normal distribution.
    """
    mean, spread = float(row["tokens"]), np.sqrt(np.log1p(float(row["variation"]) ** 2))
    quantiles = (np.arange(SAMPLE_ROWS) + 0.5) / SAMPLE_ROWS
    shape = np.exp(spread * np.array(list(map(NormalDist().inv_cdf, quantiles))))
    lengths, title = np.maximum(1, np.rint(shape * mean / shape.mean())), float(row["title_tokens"])
    sizes = float(row["id_bytes"]), float(row["sentence_tokens"]), title
    return Texts(lengths + title, count, *sizes, f"{why}, {mean:g} tokens each")


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
    count = sum(text.count for text in texts)
    numbers = [max(1, round(SAMPLE_ROWS * text.count / count)) for text in texts]
    samples = [
        text.lengths[even_places(len(text.lengths), number)]
        for text, number in zip(texts, numbers, strict=True)
    ]
    names = "sentence_tokens", "title_tokens"
    means = {name: sum(getattr(text, name) * text.count for text in texts) / count for name in names}
    assumption = "; ".join(text.assumption for text in texts)
    return Texts(np.concatenate(samples), count, texts[0].id_bytes, **means, assumption=assumption)


def _own_file(path: Path, tables: Tables) -> Texts:
    """A user's collection, by its first lines."""
    per_token, (lines, count) = tables.assumption("bytes_per_token"), sampled(path)
    if not lines:
        raise ValueError(f"{path}:1: expected passages, got an empty file. Point datasets at the collection.")
    texts = [_title_and_text(line, is_json=".jsonl" in path.suffixes) for line in lines]
    titles, lengths = np.rint([[len(text.encode()) / per_token for text in pair] for pair in texts]).T
    titles += titles > 0  # its [SEP]
    own = tables.row("collections", "own")
    why = f"{path.name}: by its first {len(lines):,} lines, {per_token:g} bytes per token"
    sizes = float(own["id_bytes"]), float(own["sentence_tokens"]), float(titles.mean())
    return Texts(np.maximum(1, lengths) + titles, count, *sizes, why)


def sampled(path: Path) -> tuple[list[str], float]:
    """The first lines of a file, unpacked if it is gzip, and how many it has: by their share of its bytes.

    Raises:
        ValueError: a gzip file is damaged.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    num_bytes, is_whole = len(head), len(head) == size
    if head[:2] == b"\x1f\x8b":
        unpacker = zlib.decompressobj(wbits=31)
        try:
            head = unpacker.decompress(head)
        except zlib.error as error:
            raise ValueError(f"{path}: expected gzip, got a damaged file ({error}).") from None
        num_bytes -= len(unpacker.unused_data)
        is_whole = unpacker.eof and not unpacker.unused_data
    lines = head.decode(errors="replace").split("\n")
    if not is_whole or not lines[-1]:
        lines.pop()
    return lines, float(len(lines)) if is_whole else len(lines) * size / num_bytes


def _title_and_text(line: str, *, is_json: bool) -> tuple[str, str]:
    """Of a line of a user's collection. A line that `collect` will refuse counts as a text."""
    with contextlib.suppress(ValueError, AttributeError):
        if is_json:
            record = json.loads(line)
            return str(record.get("title") or ""), str(record.get("text", ""))
        _, *title, text = line.rstrip("\r\n").split("\t")
        return "".join(title), text
    return "", line
