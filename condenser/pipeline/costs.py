"""What jobs cost: the sizes of their texts times seconds that were measured, here or on a named machine.

`rates/seconds.tsv` has seconds for a unit of work, `rates/sizes.tsv` the official sizes of collections. Where
jobs have run in this folder, the seconds are scaled by what these took (`Forecast`). A unit is a job itself
(its start), a row, token, hit, byte or pair of query and passage; or a token that passes a million weights:
`passed` forwards alone, `trained` there and back, while a `launch` is a pass of a layer through a chunk.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from condenser.data.batches import num_items_of, num_steps
from condenser.data.canonical import count_judged
from condenser.data.official import official_file
from condenser.encoders import read_encoder_config
from condenser.evaluate import published
from condenser.files import atomic_write, canonical_json, sha256_text, write_json
from condenser.job import settings_of
from condenser.manifest import sound_record
from condenser.papers.generator_files import generator_bytes
from condenser.pipeline.record import TOLD_APART
from condenser.pipeline.specs import Job as Name
from condenser.pipeline.specs import Specs, key_of
from condenser.settings import Settings
from condenser.variants import parse_variant, whole_split

MACHINES = ("Xeon", "H200")  # of seconds.tsv: a processor, a GPU
COLUMNS = ("rule", "jobs", "seconds", "bytes_on_disk", "basis", "machine", "sizes")

_RATES = Path(__file__).parent / "rates"
_TOKEN_BYTES = 4.4  # of English text in WordPiece
_INDEX_SHARE = 0.32  # bytes of Lucene's index to a byte of text, measured on the embedded collection
_WORDS = 30_522  # of BERT's vocabulary
_HIT_BYTES = 60  # of a line of a run
_HEAD_BYTES = 4_000_000  # read of a user's file
_LITTLE_S = 10.0  # jobs that take no longer say little of how fast a machine is

Work = dict[str, float]  # by unit


@dataclass
class Job:
    """A job with its settings, and the jobs that make its inputs.

    `counts` and `seconds` are those of a run with the same settings, whatever its code was, if there was one.
    """

    rule: str
    wildcards: dict[str, str]
    config: Settings
    needs: list[Job]
    counts: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def key(self) -> str:
        return key_of(self.rule, self.wildcards)

    @property
    def share(self) -> float:
        """The part of a collection that it works on: its shard."""
        return 1 / int(self.wildcards.get("shard", "0-of-1").split("-")[-1])

    def name(self, dataset: str) -> str:
        """The rule, and what tells its jobs apart but for their shard; `dataset` goes without saying."""
        told = [self.wildcards[name] for name in TOLD_APART if self.wildcards.get(name, dataset) != dataset]
        return " ".join([self.rule, *told])


def jobs_of(names: Iterable[Name], specs: Specs, *, is_timed: bool = True) -> list[Job]:
    """Jobs as the plan sees them; those that make the inputs of one must stand before it.

    Args:
        is_timed: with the seconds that they took here.
    """
    jobs: dict[str, Job] = {}
    for name in names:
        spec, record = specs.spec(*name), sound_record(Path(specs.manifest(*name)))
        job = Job(*name, settings_of(spec["config"]), [jobs[key_of(*need)] for need in specs.needs(*name)])
        if record is not None and record.spec.get("config") == spec["config"]:
            job.counts = record.counts
            job.seconds = _seconds_of(specs.benchmark(*name)) if is_timed else None
        jobs[job.key] = job
    return list(jobs.values())


def _seconds_of(benchmark: str | None) -> float | None:
    """What a job took by its benchmark; None where it has none, or half of one, of a run that was killed."""
    if not benchmark or not Path(benchmark).is_file():
        return None
    with Path(benchmark).open() as file:
        row = next(csv.DictReader(file, delimiter="\t"), {})
    try:
        return float(row["s"])
    except (LookupError, TypeError, ValueError):
        return None


# ---- sizes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """How many texts there are, their mean length in tokens without specials, and where that is from."""

    count: float
    tokens: float
    basis: str = ""

    def length(self, most: int | str) -> float:
        """The mean length as a model reads them, specials included, at most so many tokens or `auto`."""
        return min(self.tokens + 2, 512 if isinstance(most, str) else most)


class Sizes:
    """The texts and the models of some jobs; `assumed` lists what was not counted, until it is cleared."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.assumed: list[str] = []
        self._official = {row["collection"]: row for row in published.read(_RATES / "sizes.tsv")}
        self._collects = {job.wildcards["dataset"]: job for job in jobs if job.rule == "collect"}
        self._of_texts = [job for job in jobs if job.rule in ("tokens", "query_tokens") and job.counts]
        self._of_queries = [job for job in jobs if job.rule in ("queries", "extracted")]

    def passages(self, job: Job) -> Rows:
        """The passages of a job's data set."""
        return self._noted(self._rows(job.wildcards["dataset"], None))

    def queries(self, job: Job) -> Rows:
        """The queries of a job's split, else of its train split; of these as many as its variant has."""
        dataset, variant = job.wildcards["dataset"], job.wildcards.get("variant", "")
        train = (self._collects[dataset].config.dataset.splits or [""])[0]
        split = job.wildcards.get("split", train)
        rows, (number, _) = self._rows(dataset, whole_split(split)), parse_variant(variant)
        if number is not None and whole_split(split) == train:
            rows = replace(rows, count=min(number, rows.count))
        if split != whole_split(split):
            rows = replace(rows, count=rows.count * 0.1)  # as the default holds out
        return self._noted(rows)

    def texts(self, job: Job) -> Rows:
        """What a job reads: its shard of the passages, else queries."""
        if "shard" not in job.wildcards:
            return self.queries(job)
        passages = self.passages(job)
        return replace(passages, count=passages.count * job.share)

    def hits(self, job: Job) -> float:
        """Lines of the run that a job makes."""
        return self.queries(job).count * min(job.config.depth, self.passages(job).count)

    def hits_read(self, job: Job) -> float:
        """Lines of all runs that a job reads; where it makes a run, no deeper than that is."""
        runs = [need for need in job.needs if "depth" in vars(need.config)]
        is_run = "depth" in vars(job.config)
        return len(runs) * self.hits(job) if is_run else sum(map(self.hits, runs))

    def examples(self, job: Job) -> float:
        """Examples of a fine-tuning."""
        made = [need for need in job.needs if need.rule in ("examples", "pseudo_labels")]
        counted = [need.counts.get("examples", self.queries(need).count) for need in made]
        return float(sum(counted)) or self.queries(job).count

    def model(self, job: Job) -> tuple[float, int]:
        """Millions of weights in the layers of the model that a job starts from, and its vectors' length."""
        start = job
        while start.rule != "checkpoint":
            start = _models_above(start)[0]
        model = start.config.model
        if model.source == "system":
            return self.model(_models_above(start)[0])
        if model.source == "lstm":
            return 8 * model.hidden_size * (300 + model.hidden_size) / 1e6, model.hidden_size
        if model.source == "scratch":
            return _layer_weights(model.num_layers, model.hidden_size, model.intermediate_size)
        if model.source == "folder":
            read = read_encoder_config(model.path)
            return _layer_weights(read.num_hidden_layers, read.hidden_size, read.intermediate_size)
        if model.source == "embedded":
            return _layer_weights(6, 384, 1536)
        is_large = "large" in model.id
        self.assumed.append(f"{model.id} as large as BERT-{'large' if is_large else 'base'}")
        return _layer_weights(24, 1024, 4096) if is_large else _layer_weights(12, 768, 3072)

    def _noted(self, rows: Rows) -> Rows:
        if rows.basis:
            self.assumed.append(rows.basis)
        return rows

    def _rows(self, dataset: str, split: str | None) -> Rows:
        """The passages of a data set, or the queries of a split."""
        collect, wanted = self._collects[dataset], {"dataset": dataset, "split": split}.items()
        made = [job for job in self._of_texts if wanted <= {"split": None, **job.wildcards}.items()]
        made = [job for job in made if job.wildcards["model"] == made[0].wildcards["model"]]
        if made and len(made) == round(1 / made[0].share):
            count = sum(job.counts["rows"] for job in made)
            return Rows(count, sum(job.counts["tokens"] for job in made) / max(count, 1))
        own = [job for job in self._of_queries if wanted <= job.wildcards.items()]
        expected = self._expected_queries(collect, split, own) if split else self._expected_passages(collect)
        if counts := (own[0] if own else collect).counts:
            count = count_judged(counts)[split] if split else counts["passages"]
            return Rows(count, expected.tokens, "lengths of texts")
        return expected

    def _expected_passages(self, collect: Job) -> Rows:
        """Before they have been counted."""
        settings = vars(collect.config.dataset)
        files = collect.config.dataset.local_files()
        if parts := settings.get("parts"):
            texts = [self._row(" ".join([part.id, part.config or ""]).strip(), "own") for part in parts]
            counts = [
                min(text.count, part.max_rows or math.inf) / part.rows_per_passage
                for text, part in zip(texts, parts, strict=True)
            ]
            tokens = sum(
                count * part.rows_per_passage * text.tokens
                for count, part, text in zip(counts, parts, texts, strict=True)
            )
            rows = Rows(sum(counts), tokens / sum(counts), "; ".join(text.basis for text in texts))
        elif files:
            rows = _of_file(files[0])
        else:
            rows = self._row(settings["source"], "own")
        if split := settings.get("split"):
            windows = max(1.0, rows.tokens / (1.3 * split.stride))
            rows = Rows(rows.count * windows, rows.tokens / windows, rows.basis)
        return rows

    def _expected_queries(self, collect: Job, split: str, own: Sequence[Job]) -> Rows:
        settings = collect.config.dataset
        if own:
            kept = vars(own[0].config).get("query_set")
            return replace(
                self._row(f"{settings.source}/unjudged", "own/queries"),
                **({"count": kept.count} if kept else {}),
            )
        named = [settings.source, vars(settings).get("name"), split]
        rows = self._row("/".join(filter(None, named)), f"{settings.source}/queries", "own/queries")
        for file in settings.local_files():
            if "qrels" in (file.parent.name, file.name[:5]) and split in file.name:
                rows = Rows(_of_file(file).count, rows.tokens, f"lines of {file.name}")
        of_split = "eval_queries" if split == settings.eval_split else "train_queries"
        return replace(rows, count=vars(settings).get(of_split, rows.count))

    def _row(self, *names: str) -> Rows:
        """The first of these rows of sizes.tsv that there is."""
        row = next(self._official[name] for name in names if name in self._official)
        return Rows(float(row["rows"]), float(row["tokens"]), f"{row['collection']} by sizes.tsv")


def _of_file(file: Path) -> Rows:
    """The texts of a user's file, by its first lines and its size."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    read = len(head)
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(wbits=31).decompress(head)
        except zlib.error as error:
            raise ValueError(f"{file}: expected gzip, got a damaged file ({error}).") from None
    lines = max(1, head.count(b"\n"))
    whole = file.stat().st_size / max(read, 1)
    return Rows(lines * whole, len(head) / lines / _TOKEN_BYTES, f"{file.name} by its first lines")


def _layer_weights(num_layers: int, dim: int, wide: int) -> tuple[float, int]:
    return num_layers * (4 * dim * dim + 2 * dim * wide) / 1e6, dim


def _models_above(job: Job) -> list[Job]:
    """The jobs that make the models which a job starts from: among its inputs, else among theirs."""
    rules = ("train", "pretrain", "best_of", "checkpoint")
    made = [need for need in job.needs if need.rule in rules]
    return made or [model for need in job.needs for model in _models_above(need)]


# ---- work ------------------------------------------------------------------------------------------


def work_of(job: Job, sizes: Sizes) -> tuple[Work, float]:
    """The units of a job's work, and the bytes that it leaves on the disk."""
    if job.rule in _WORK:
        return _WORK[job.rule](job, sizes)
    ranks_candidates = {"depth", "encode"} <= vars(job.config).keys()
    return _candidates(job, sizes) if ranks_candidates else ({}, 0.0)


def _download(job: Job, sizes: Sizes) -> tuple[Work, float]:
    size = float(official_file(job.wildcards["file"]).num_bytes or 0)
    return {"network_byte": size}, size


def _collect(job: Job, sizes: Sizes) -> tuple[Work, float]:
    texts = [sizes.passages(job)]
    for split in job.config.dataset.splits:
        texts.append(sizes.queries(replace(job, wildcards={**job.wildcards, "split": split})))
    rows, tokens = sum(text.count for text in texts), sum(text.count * text.tokens for text in texts)
    return {"row": rows}, tokens * _TOKEN_BYTES + 50 * rows


def _made_queries(job: Job, sizes: Sizes) -> tuple[Work, float]:
    texts = sizes.passages(job) if job.rule == "extracted" else sizes.queries(job)
    return {"row": texts.count}, 0.0


def _tokens(job: Job, sizes: Sizes) -> tuple[Work, float]:
    texts = sizes.texts(job)
    return {"token": texts.count * texts.tokens}, 2 * texts.count * texts.tokens


def _bm25_index(job: Job, sizes: Sizes) -> tuple[Work, float]:
    passages = sizes.passages(job)
    return {"row": passages.count}, _INDEX_SHARE * passages.count * passages.tokens * _TOKEN_BYTES


def _bm25_run(job: Job, sizes: Sizes) -> tuple[Work, float]:
    hits, pairs = sizes.hits(job), sizes.queries(job).count * sizes.passages(job).count
    return {"hit": hits, "pair": pairs}, hits * _HIT_BYTES


def _model(job: Job, sizes: Sizes) -> tuple[Work, float]:
    weights, dim = sizes.model(job)
    tokens, passes = (0.0, 0.0) if job.rule == "checkpoint" else training(job, sizes)
    num_layers = 1e6 * weights / (12 * dim * dim)
    work = {"trained": weights * tokens, "launch": num_layers * passes}
    return work, 4e6 * weights + 4 * _WORDS * dim


def _encode(job: Job, sizes: Sizes) -> tuple[Work, float]:
    texts, (weights, dim) = sizes.texts(job), sizes.model(job)
    lengths = vars(job.config.recipe).get("lengths")
    of_passages = "shard" in job.wildcards
    most = (lengths.passage if of_passages else lengths.query) if lengths else job.config.recipe.max_tokens
    tokens = texts.count * texts.length(most)
    return {"passed": weights * tokens}, 4 * texts.count * dim + _bytes_of_states(job, tokens * (dim + 8))


def _bytes_of_states(job: Job, needed: float) -> float:
    """What the token states of an encoding take: as many bytes as they need (`record_of_token`), or none."""
    return needed if needed <= 1e9 * vars(job.config).get("states_gb", 0.0) * job.share else 0.0


def _search(job: Job, sizes: Sizes) -> tuple[Work, float]:
    queries, rows = sizes.queries(job).count, sizes.passages(job).count * job.share
    hits = queries * min(job.config.depth, rows)
    return {"pair": queries * rows * sizes.model(job)[1] / 384, "hit": hits}, 12 * hits


def _candidates(job: Job, sizes: Sizes) -> tuple[Work, float]:
    """A passage is encoded once unless its states are kept; with a cross-encoder once with each query."""
    lengths, read, passages = job.config.recipe.lengths, sizes.hits_read(job), sizes.passages(job)
    tokens = passages.length(lengths.passage) * min(read, passages.count)
    if job.rule == "rerank":
        pair = sizes.queries(job).length(lengths.query) + passages.length(lengths.passage)
        tokens = read * pair
    shards = [need for need in job.needs if need.rule == "encode"]
    whole, dim = passages.count * passages.length(lengths.passage), sizes.model(job)[1]
    if any(_bytes_of_states(shard, whole * shard.share * (dim + 8)) for shard in shards):
        tokens = 0.0
    return {"passed": sizes.model(job)[0] * tokens, "hit": read}, sizes.hits(job) * _HIT_BYTES


def _generate(job: Job, sizes: Sizes) -> tuple[Work, float]:
    kind, _, split = job.wildcards["texts"].partition(".")
    of_split = replace(job, wildcards={**job.wildcards, "split": split})
    texts = sizes.passages(job) if kind == "passages" else sizes.queries(of_split)
    settings = job.config.generated
    made = texts.count * settings.samples * settings.max_tokens
    tokens = texts.count * texts.length(settings.max_input_tokens) + made
    return {"generated": tokens * generator_bytes(Path(settings.model)) / 4e6}, made * _TOKEN_BYTES


def _runs(job: Job, sizes: Sizes) -> tuple[Work, float]:
    """Of what reads runs, or official files in their place."""
    files = [need.wildcards["file"] for need in job.needs if need.rule == "download"]
    if read := float(sum(official_file(name).num_bytes or 0 for name in files)):
        return {"byte": read}, 0.0
    is_run = job.rule in ("merge", "fusion")
    hits = sizes.hits(job) if job.rule == "merge" else sizes.hits_read(job)
    return {"hit": hits}, sizes.hits(job) * _HIT_BYTES if is_run else 0.0


_WORK: dict[str, Callable[[Job, Sizes], tuple[Work, float]]] = {
    "download": _download,
    "collect": _collect,
    "bm25_index": _bm25_index,
    "bm25_run": _bm25_run,
    "search": _search,
    "generate": _generate,
    **dict.fromkeys(("queries", "extracted"), _made_queries),
    **dict.fromkeys(("tokens", "query_tokens"), _tokens),
    **dict.fromkeys(("checkpoint", "pretrain", "train", "train_sentences", "term_weights"), _model),
    **dict.fromkeys(("encode", "encode_queries", "similarities"), _encode),
    **dict.fromkeys(("merge", "metrics", "examples", "pseudo_labels"), _runs),
    **dict.fromkeys(("fusion", "fusion_weights", "best_of"), _runs),
}  # the others take only their start


def training(job: Job, sizes: Sizes) -> tuple[float, float]:
    """Tokens that a training reads, as often as it does, and passes of a layer through a chunk of rows."""
    texts = sizes.passages(job)
    if job.rule == "pretrain":
        return _pretraining(job.config.model, texts)
    if job.rule == "train":
        recipe = job.config.recipe
        passages = recipe.passages_per_query, texts.length(recipe.lengths.passage)
        rows = [(1, sizes.queries(job).length(recipe.lengths.query)), passages]
        return _training(recipe, sizes.examples(job), rows)
    queries = sizes.queries(job)
    if job.rule == "train_sentences":  # of two or three sentences
        recipe = job.config.recipe
        return _training(recipe, queries.count, [(2.5, queries.length(recipe.max_tokens))])
    # DeepCT trains on a passage a query, then weighs all, a third of the work of training on them
    settings = job.config.term_weights
    length = texts.length(settings.max_tokens)
    tokens, passes = _training(settings, queries.count, [(1, length)])
    return tokens + texts.count * length / 3, passes


def _pretraining(settings: Any, texts: Rows) -> tuple[float, float]:
    asked = vars(settings)
    if spans := asked.get("span_tokens"):
        span = min(sum(spans) / 2, texts.tokens / 2) + 2
        return _training(settings, texts.count, [(2, span)])
    if sentence := asked.get("max_sentence_tokens"):
        rows = [(1, min(sentence, 24) + 2.0), (1, texts.length(settings.max_tokens + 2))]
        return _training(settings, texts.count, rows)
    if block := asked.get("max_tokens"):
        blocks = math.ceil(texts.tokens / block)
        return _training(settings, texts.count * blocks, [(1, texts.tokens / blocks + 2)])
    return 0.0, 0.0  # a choice among models trains none


def _training(settings: Any, count: float, rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of so many items, each with rows: their number of a kind, and their mean length."""
    items, asked = max(1, round(count)), vars(settings)
    cut = {"batch_size": min(settings.batch_size, items), "drop_last": settings.drop_last}
    steps, soup = (
        num_steps(items, epochs=settings.epochs, updates=settings.updates, **cut),
        asked.get("soup", 1),
    )
    tokens = num_items_of(items, num_steps=steps, **cut) * sum(number * length for number, length in rows)
    chunk = asked.get("rows_per_chunk", math.inf)
    chunks = sum(max(1, math.ceil(settings.batch_size * number / chunk)) for number, _ in rows)
    return soup * tokens, soup * 3.0 * steps * chunks


# ---- seconds ---------------------------------------------------------------------------------------


class Rates:
    """Seconds for a unit of each rule's work on a machine of seconds.tsv."""

    def __init__(self, machine: str) -> None:
        self.machine = machine
        rows = published.read(_RATES / "seconds.tsv")
        self._seconds = {
            (row["rule"], row["unit"]): float(row["seconds"])
            for of_machine in ("any", machine)  # the later one wins
            for row in rows
            if row["machine"] == of_machine
        }

    def seconds(self, rule: str, work: Work) -> float | None:
        """Of a job; None where nobody has measured a unit of its work."""
        parts = {}
        for unit, amount in {"job": 1.0, **work}.items():
            rate = self._seconds.get((rule, unit), self._seconds.get(("*", unit)))
            if amount and rate is None and unit != "launch":  # which costs a processor nothing
                return None
            parts[unit] = amount * (rate or 0.0)
        # a GPU computes while its kernels are launched: the slower counts
        parts["trained"] = max(parts.get("trained", 0.0), parts.pop("launch", 0.0))
        return sum(parts.values())


def machine_here(device: str) -> str:
    """The machine of seconds.tsv that stands for this one; `device` is auto, cpu or cuda."""
    has_gpu = device != "cpu" and any(Path("/dev").glob("nvidia[0-9]*"))
    return MACHINES[has_gpu]


class Forecast:
    """Seconds of jobs: what they took with the same settings, else the rates, scaled by what has run here.

    >>> forecast = Forecast()
    >>> for job, rule, seconds in [("a", "encode", 10.0), ("b", "encode", 30.0), ("c", "train", 5.0)]:
    ...     forecast.plan(job, rule, seconds)
    >>> forecast.took("a", 20.0)
    >>> forecast.seconds("b"), forecast.seconds("c"), forecast.seconds("a")
    (52.5, 7.5, 20.0)
    """

    def __init__(self) -> None:
        self._planned: dict[str, tuple[str, float]] = {}
        self._took: dict[str, float] = {}
        self._sums: dict[str, list[float]] = defaultdict(
            lambda: [0.0, 0.0]
        )  # by rule, "" of all: took, planned

    def plan(self, job: str, rule: str, seconds: float) -> None:
        """Note what the rates say of a job."""
        self._planned[job] = rule, seconds

    def took(self, job: str, seconds: float) -> None:
        """Note what a job has taken."""
        self._took[job] = seconds
        rule, planned = self._planned.get(job, ("", 0.0))
        for name in {rule, ""} if planned else ():
            self._sums[name][0] += seconds
            self._sums[name][1] += planned

    def seconds(self, job: str) -> float | None:
        """What a job takes; None where nothing says so."""
        if job in self._took or job not in self._planned:
            return self._took.get(job)
        rule, planned = self._planned[job]
        (took, of), (took_all, of_all) = self._sums[rule], self._sums[""]
        ratio = (took_all + _LITTLE_S) / (of_all + _LITTLE_S)
        return planned * (took + _LITTLE_S * ratio) / (of + _LITTLE_S)

    def basis(self, job: str) -> str:
        """What its seconds rest on: `measured`, `scaled` by jobs that ran here, `rates`, or `unknown`."""
        if job in self._took:
            return "measured"
        return "unknown" if job not in self._planned else "scaled" if self._sums[""][1] else "rates"

    def rests_on(self, machine: str) -> str:
        """Whether jobs that ran here say how long others take, in words."""
        return "by what ran here" if self._sums[""][1] else f"on a machine such as {machine}"


def forecast_of(jobs: Sequence[Job], machine: str) -> tuple[Forecast, dict[str, float], dict[str, str]]:
    """What is known of the time of jobs, and by job the bytes that it writes and what its sizes rest on."""
    forecast, sizes, rates = Forecast(), Sizes(jobs), Rates(machine)
    num_bytes, bases = {}, {}
    for job in jobs:
        sizes.assumed.clear()
        try:
            work, num_bytes[job.key] = work_of(job, sizes)
        except (ValueError, LookupError, OSError) as error:  # of a user's file: the job itself will say so
            work, num_bytes[job.key] = {"unknown": 1.0}, 0.0
            sizes.assumed.append(str(error))
        seconds = rates.seconds(job.rule, work)
        bases[job.key] = "; ".join(dict.fromkeys(sizes.assumed))
        if seconds is not None and math.isfinite(seconds):
            forecast.plan(job.key, job.rule, seconds)
        if job.seconds is not None:
            forecast.took(job.key, job.seconds)
    return forecast, num_bytes, bases


def plan_of(
    jobs: Sequence[Job], dataset: str, machine: str, *, others: Sequence[Job] = ()
) -> list[dict[str, Any]]:
    """The rows of a plan: of jobs that differ in their shard only, in order, and of all.

    Args:
        others: further jobs, whose times say how fast this machine is.
    """
    forecast, num_bytes, bases = forecast_of([*others, *jobs], machine)
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.name(dataset)].append(job)
    rows: list[dict[str, Any]] = []
    for name, group in groups.items():
        seconds = [forecast.seconds(job.key) for job in group]
        assumed = dict.fromkeys(bases[job.key] for job in group if bases[job.key])
        rows.append(
            {
                "rule": name,
                "jobs": len(group),
                "seconds": None if None in seconds else sum(filter(None, seconds)),
                "bytes_on_disk": sum(num_bytes[job.key] for job in group),
                "basis": " and ".join(dict.fromkeys(forecast.basis(job.key) for job in group)),
                "machine": machine,
                "sizes": "; ".join(assumed) or "counted",
            }
        )
    unknown = [row["rule"] for row in rows if row["seconds"] is None]
    total = {
        "rule": "total",
        **{key: sum(row[key] or 0 for row in rows) for key in ("jobs", "seconds", "bytes_on_disk")},
        "basis": f"without {', '.join(unknown)}" if unknown else "all",
        "machine": machine,
        "sizes": "",
    }
    return [*rows, total]


def write_rows(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write the rows of a plan to a file whose name follows from its content; gives the file."""
    # a folder for each: Snakemake looks into a folder once, and would miss what is written there later
    file = folder / sha256_text(canonical_json(rows))[:16] / "rows.json"
    write_json(file, rows)
    return str(file)


def rendered(rows: Sequence[Mapping[str, Any]]) -> str:
    """The time and the size of all; the columns `basis` and `sizes` say what they rest on."""
    total = rows[-1]
    text = f"{in_words(total['seconds'])}, one job after the other; {size_in_words(total['bytes_on_disk'])}."
    if total["basis"] != "all":
        text += f"\nThe total is {total['basis']}, whose time nobody has measured."
    return f"{total['machine']}: {text}"


def write_plan(rows: Sequence[Mapping[str, Any]], output: str | Path) -> None:
    """Write the rows as TSV."""
    lines = [COLUMNS, *([_cell(row[name]) for name in COLUMNS] for row in rows)]
    with atomic_write(output) as file:
        file.write("".join("\t".join(line) + "\n" for line in lines).encode())


def in_words(seconds: float) -> str:
    """Seconds to three digits.

    >>> in_words(42), in_words(630), in_words(135_360)
    ('42 s', '10.5 min', '37.6 h')
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:,.0f} h" if seconds >= 3.6e6 else f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def size_in_words(num_bytes: float) -> str:
    """Bytes to two digits.

    >>> size_in_words(5_140_000), size_in_words(3.2e11)
    ('5.1 MB', '320 GB')
    """
    unit, size = ("GB", 1e9) if num_bytes >= 1e9 else ("MB", 1e6)
    return f"{float(f'{num_bytes / size:.2g}'):g} {unit}"


def _cell(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
