"""How much there is of each data set: counted where it has been made, else known or assumed."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from condenser.data import sources
from condenser.files import read_json
from condenser.pipeline.costs.arithmetic import Shape
from condenser.pipeline.costs.tables import Tables
from condenser.pipeline.costs.texts import Texts, assumed_texts, counted_texts

_HEAD_LINES = 2000
_READ_BYTES = 1 << 22


@dataclass(frozen=True)
class Size:
    """Texts, and their bytes with and without ids; `assumption` is empty where all is counted."""

    texts: Texts
    text_bytes: float
    id_bytes: float
    assumption: str

    @property
    def num_rows(self) -> float:
        return self.texts.num_rows


@dataclass(frozen=True)
class Counted:
    """What stages that have run say: the manifests that the current configuration would make again.

    By (stage, data set, and what else names the job): `("tokens", "msmarco", "0-of-2")`.
    """

    manifests: Mapping[tuple[str, ...], Path]

    def counts(self, *job: str) -> dict[str, Any] | None:
        """The counts of a job's manifest; None where there is none."""
        path = self.manifests.get(job)
        return None if path is None else read_json(path)["counts"]

    def prefixes(self, stage: str, dataset: str) -> dict[str, Path]:
        """The token shards of a data set that have been made, by shard or split."""
        return {
            job[2]: path.with_name(path.name.removesuffix(".manifest.json"))
            for job, path in self.manifests.items()
            if job[:2] == (stage, dataset)
        }


def read_counted(manifests: Sequence[str | Path]) -> Counted:
    """Read which jobs the manifests are of."""
    jobs = {}
    for path in map(Path, manifests):
        spec = read_json(path)["spec"]
        wildcards = spec["wildcards"]
        rest = [wildcards[name] for name in ("shard", "split", "system") if name in wildcards]
        jobs[(spec["stage"], wildcards["dataset"], *rest)] = path
    return Counted(jobs)


def collection_size(
    config: Mapping[str, Any], dataset: str, counted: Counted, tables: Tables, *, num_shards: int
) -> Size:
    """The passages of a data set.

    Raises:
        ValueError: a part of it is not known to collections.tsv.
    """
    settings = config["datasets"][dataset]
    size = _assumed_collection(settings, tables)
    counts = counted.counts("collect", dataset)
    if counts is not None:
        size = _rescaled(size, counts["passages"], "passages counted, lengths as assumed")
    shards = counted.prefixes("tokens", dataset)
    if len(shards) == num_shards:
        ordered = sorted(shards, key=lambda shard: int(shard.split("-")[0]))
        size = replace(size, texts=counted_texts([shards[shard] for shard in ordered]), assumption="")
        text_bytes = size.texts.num_tokens * tables.assumption("bytes_per_token")
        size = replace(size, text_bytes=text_bytes)
    return size


def query_size(
    config: Mapping[str, Any],
    dataset: str,
    split: str,
    counted: Counted,
    tables: Tables,
    *,
    num_passages: float,
) -> Size:
    """The queries of one split of a data set."""
    settings = config["datasets"][dataset]
    size = _assumed_queries(settings, split, tables, num_passages=num_passages)
    counts = counted.counts("collect", dataset)
    if counts is not None:
        size = _rescaled(size, counts["queries"][split], f"queries of {split} counted, lengths as assumed")
    shards = counted.prefixes("query_tokens", dataset)
    if split in shards:
        size = replace(size, texts=counted_texts([shards[split]]), assumption="")
    return size


def backbone_shape(config: Mapping[str, Any], tables: Tables) -> Shape:
    """The dimensions of the backbone that the configuration names.

    Raises:
        ValueError: a hub id that backbones.tsv does not know.
    """
    backbone = config["backbone"]
    if backbone["source"] == "scratch":
        return Shape(
            backbone["num_layers"],
            backbone["hidden_size"],
            backbone["intermediate_size"],
            backbone["num_heads"],
            backbone["vocab_size"],
            backbone["max_positions"],
        )
    if backbone["source"] == "folder":
        settings = read_json(Path(backbone["path"]) / "config.json")
        return Shape(
            settings["num_hidden_layers"],
            settings["hidden_size"],
            settings["intermediate_size"],
            settings["num_attention_heads"],
            settings["vocab_size"],
            settings["max_position_embeddings"],
        )
    return tables.shape("embedded" if backbone["source"] == "embedded" else backbone["id"])


def _rescaled(size: Size, num_rows: float, assumption: str) -> Size:
    factor = num_rows / size.num_rows
    texts = replace(size.texts, weights=[weight * factor for weight in size.texts.weights])
    return replace(size, texts=texts, text_bytes=size.text_bytes * factor, assumption=assumption)


def _size(tables: Tables, name: str, *, num_rows: float, tokens: float, with_titles: bool, why: str) -> Size:
    row = tables.collections[name]
    texts = assumed_texts(
        num_rows,
        mean_tokens=tokens,
        variation=float(row["variation"]),
        sentence_tokens=float(row["sentence_tokens"]),
        title_tokens=float(row["title_tokens"]) if with_titles else 0,
    )
    text_bytes = texts.num_tokens * tables.assumption("bytes_per_token")
    return Size(texts, text_bytes, float(row["id_bytes"]), why)


def _assumed_collection(settings: Mapping[str, Any], tables: Tables) -> Size:
    source = settings["source"]
    if source == "msmarco":
        row = tables.collections["msmarco"]
        return _size(
            tables,
            "msmarco",
            num_rows=float(row["rows"]),
            tokens=float(row["tokens"]),
            with_titles=settings["titles"] != "none",
            why=f"official collection; {row['tokens']} tokens a passage",
        )
    if source == "pydoc":
        rate, row = tables.assumption("pydoc_passages_per_mb"), tables.collections["pydoc"]
        megabytes = sum(map(python_bytes, settings["packages"])) / 1e6
        return _size(
            tables,
            "pydoc",
            num_rows=max(2.0, rate * megabytes),
            tokens=float(row["tokens"]),
            with_titles=False,
            why=f"{rate:g} passages a MB of source, {row['tokens']} tokens each",
        )
    if source == "hub_text":
        return _joined([_assumed_part(part, tables) for part in settings["parts"]])
    return _own_collection(settings, tables)


def _assumed_part(part: Mapping[str, Any], tables: Tables) -> Size:
    name = " ".join(filter(None, [part["id"], part.get("config")]))
    if name not in tables.collections:
        known = ", ".join(key for key in tables.collections if "/" in key)
        raise ValueError(
            f"parts: expected one out of {known}, got {name!r}. Add a row with its size to collections.tsv."
        )
    row = tables.collections[name]
    joined_rows = part.get("rows_per_passage") or 1
    rows = min(float(row["rows"]), part.get("max_rows") or float("inf"))
    return _size(
        tables,
        name,
        num_rows=rows / joined_rows,
        tokens=float(row["tokens"]) * joined_rows,
        with_titles=joined_rows == 1,
        why=f"{name}: {rows:,.0f} texts of {row['tokens']} tokens",
    )


def _joined(sizes: Sequence[Size]) -> Size:
    return Size(
        Texts(
            [title for size in sizes for title in size.texts.titles],
            [row for size in sizes for row in size.texts.sentences],
            [weight for size in sizes for weight in size.texts.weights],
        ),
        sum(size.text_bytes for size in sizes),
        max(size.id_bytes for size in sizes),
        "; ".join(size.assumption for size in sizes),
    )


def _own_collection(settings: Mapping[str, Any], tables: Tables) -> Size:
    """A user's collection: its lines are counted, its lengths those of the first lines."""
    path = sources.local_files(settings)[0]
    with path.open("rb") as file:
        head = [line for line in islice(file, _HEAD_LINES) if line.strip()]
    if not head:
        raise ValueError(f"{path}:1: expected passages, got an empty file. Point datasets at the collection.")
    texts = [_text_of(line, is_json=path.suffix == ".jsonl") for line in head]
    per_token = tables.assumption("bytes_per_token")
    size = _size(
        tables,
        "own",
        num_rows=_num_lines(path),
        tokens=max(1.0, sum(len(text) for _, text in texts) / len(texts) / per_token),
        with_titles=False,
        why=f"lines of {path.name} counted; {per_token:g} bytes a token, lengths as of its first lines",
    )
    title_tokens = sum(len(title) for title, _ in texts) / len(texts) / per_token
    if title_tokens >= 0.5:
        titles = [1 + round(title_tokens)] * len(size.texts.titles)
        size = replace(size, texts=replace(size.texts, titles=titles))
    return size


def _text_of(line: bytes, *, is_json: bool) -> tuple[str, str]:
    """Title and text of a line; one that collect will refuse counts as it stands."""
    if is_json:
        try:
            record = json.loads(line)
            return str(record.get("title", "")), str(record.get("text", ""))
        except (ValueError, AttributeError):
            return "", line.decode(errors="replace")
    return "", line.rstrip(b"\n").rpartition(b"\t")[2].decode(errors="replace")


def _num_lines(path: Path) -> int:
    lines = 0
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            lines += piece.count(b"\n")
            last = piece[-1:]
    return lines + (last != b"\n")


def python_bytes(package: str) -> int:
    """Bytes of an installed package's Python files but its tests, by its installer's list.

    Raises:
        ValueError: the package is not installed.
    """
    try:
        files = importlib.metadata.distribution(package).files or []
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(f"packages: expected {package} to be installed, got none. Install it.") from None
    return sum(file.size or 0 for file in files if file.suffix == ".py" and "tests" not in file.parts)


def _assumed_queries(settings: Mapping[str, Any], split: str, tables: Tables, *, num_passages: float) -> Size:
    source = settings["source"]
    if source == "msmarco":
        name = f"msmarco/{split}"
        if name not in tables.collections:
            raise ValueError(f"split: expected train, dev or dl19 of MS MARCO, got {split!r}.")
        num_rows, why = float(tables.collections[name]["rows"]), f"official split {split}"
    elif source == "pydoc":
        name, is_eval = "pydoc/queries", split == settings["eval_split"]
        held_out = settings["eval_queries"] if settings["held_out"] == "train" else 0
        num_rows = settings["eval_queries"] if is_eval else max(1.0, settings["train_queries"] - held_out)
        why = "as many queries as configured"
    else:
        name = "own/queries"
        files = [file for file in sources.local_files(settings) if file.name.endswith(f"{split}.tsv")]
        qrels = next((file for file in files if "qrels" in str(file.relative_to(settings["path"]))), None)
        if qrels is not None and qrels.is_file():
            num_rows, why = float(_num_judged(qrels)), f"queries of {qrels.name} counted"
        else:
            num_rows = max(1.0, tables.assumption("queries_per_passage") * num_passages)
            why = f"{tables.assumption('queries_per_passage'):g} judged queries a passage"
    row = tables.collections[name]
    why += f", {row['tokens']} tokens each"
    return _size(tables, name, num_rows=num_rows, tokens=float(row["tokens"]), with_titles=False, why=why)


def _num_judged(qrels: Path) -> int:
    with qrels.open("rb") as file:
        return max(1, len({line.split(None, 1)[0] for line in file if line.strip()} - {b"query-id"}))
