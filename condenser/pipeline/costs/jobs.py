"""What each job costs, from the sizes of the data and the configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from condenser.data.official import official_file
from condenser.pipeline.costs import arithmetic, texts
from condenser.pipeline.costs.arithmetic import Chunk, Shape
from condenser.pipeline.costs.sizes import (
    Counted,
    Size,
    backbone_shape,
    collection_size,
    python_bytes,
    query_size,
)
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.stages import STAGES, Job, example_systems, system_parts

_HIT_BYTES = 8 + 4  # a row number and a score; condenser.retrieve.search
_TOKEN_BYTES = 2
_COUNT_BYTES = 2  # of a row's sentences, of a sentence's tokens


@dataclass(frozen=True)
class Cost:
    """What one job takes.

    `work` is amounts by unit, each done at a rate of its own (rates.tsv): `flops` of the device and
    `host_flops` of the processor beside it, `graph_bytes` (what a model's elementwise operations read
    and write), `update_bytes` (what updates of the weights do), `layers` (passes through one layer,
    however short), `jobs` (starting one), or things like `hits`.
    """

    tokens: float
    flops: float
    bytes_on_disk: float
    memory_bytes: float
    work: dict[str, float]
    assumptions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Training:
    """One epoch's items in batches, one of which is computed as `chunks`."""

    chunks: list[Chunk]
    items: float
    batch_size: int
    epochs: float

    @property
    def num_steps(self) -> float:
        return math.ceil(self.epochs * math.ceil(self.items / self.batch_size) - 1e-9)

    @property
    def num_batches(self) -> float:
        """Full batches in all epochs; the shorter last one of an epoch counts as a part."""
        return self.epochs * self.items / min(self.batch_size, max(self.items, 1))


class Jobs:
    """The costs of the jobs of one configuration on one device."""

    def __init__(self, config: dict[str, Any], *, tables: Tables, counted: Counted, device: Device) -> None:
        """
        Args:
            config: from `condenser.config.validated`.
            counted: what jobs that have already run say.
            device: what its memory is decides on the gradient cache where that is `auto`.
        """
        self._config, self._tables, self._counted, self._device = config, tables, counted, device
        self._sizes: dict[tuple[str, ...], Size] = {}
        self._costs: dict[str, Callable[[dict[str, str]], Cost]] = {
            "download": self._download,
            "collect": self._collect,
            "backbone": self._backbone,
            "tokens": self._tokens,
            "query_tokens": self._query_tokens,
            "pretrain_condenser": self._condenser,
            "pretrain_cocondenser": self._cocondenser,
            "bm25_index": self._bm25_index,
            "bm25_run": self._bm25_run,
            "examples": self._examples,
            "triple_examples": self._triple_examples,
            "retriever": self._retriever,
            "encode": self._encode,
            "encode_queries": self._encode_queries,
            "search": self._search,
            "merge": self._merge,
            "metrics": self._metrics,
            "table2": self._table2,
        }

    def cost(self, job: Job) -> Cost:
        """The cost of one job.

        Raises:
            ValueError: nobody has said what a job of this stage costs.
        """
        stage, wildcards = job
        if stage not in self._costs:
            raise ValueError(f"stage {stage}: expected one out of {', '.join(self._costs)}. Add it to costs.")
        return self._costs[stage](wildcards)

    @cached_property
    def shape(self) -> Shape:
        return backbone_shape(self._config, self._tables)

    def collection(self, dataset: str) -> Size:
        """The passages of a data set."""
        key = (dataset,)
        if key not in self._sizes:
            self._sizes[key] = collection_size(
                self._config,
                dataset,
                self._counted,
                self._tables,
                num_shards=self._config["tokens"]["shards"],
            )
        return self._sizes[key]

    def queries(self, dataset: str, split: str) -> Size:
        """The queries of one split."""
        key = (dataset, split)
        if key not in self._sizes:
            self._sizes[key] = query_size(
                self._config,
                dataset,
                split,
                self._counted,
                self._tables,
                num_passages=self.collection(dataset).num_rows,
            )
        return self._sizes[key]

    def num_examples(self, dataset: str, system: str) -> tuple[float, str]:
        """Training examples with negatives of one system, and what that assumes."""
        job = ("triple_examples", dataset) if system == "triples" else ("examples", dataset, system)
        counts = self._counted.counts(*job)
        if counts is not None:
            return counts["examples"], ""
        queries = self.queries(dataset, self._config["datasets"][dataset]["train_split"])
        share = 1.0  # mined negatives are drawn for every query, its positive found or not
        if system == "triples" or (system == "bm25" and self._config["negatives"]["positive_in_run"]):
            share = self._tables.assumption(f"positive_found_{system}")
        part = "every train query gives" if share == 1 else f"{share:g} of the train queries give"
        return share * queries.num_rows, f"{part} an example of {system}"

    # -- data ---------------------------------------------------------------------------------

    def _download(self, wildcards: dict[str, str]) -> Cost:
        size = official_file(wildcards["file"]).num_bytes
        return Cost(0, 0, size, 0, {"bytes": size})

    def _collect(self, wildcards: dict[str, str]) -> Cost:
        dataset = wildcards["dataset"]
        settings, size = self._config["datasets"][dataset], self.collection(dataset)
        written = size.text_bytes + size.num_rows * (2 * size.id_bytes + 36)  # JSON around it, doc_ids.txt
        rows, assumptions = size.num_rows, [size.assumption]
        for split in [settings[key] for key in ("train_split", "eval_split") if key in settings]:
            queries = self.queries(dataset, split)
            written += queries.text_bytes + queries.num_rows * (3 * queries.id_bytes + 36)
            rows += queries.num_rows
            assumptions.append(queries.assumption)
        work = {"jobs": 1.0, "rows": rows}
        if settings["source"] == "pydoc":
            work["source_bytes"] = sum(map(python_bytes, settings["packages"]))
        return Cost(0, 0, written, self._process(), work, assumptions)

    def _backbone(self, wildcards: dict[str, str]) -> Cost:
        weights = arithmetic.condenser_weights(self.shape, num_head_layers=0)
        return Cost(0, 0, 4 * weights, self._process() + 8 * weights, {"jobs": 1})

    def _tokens(self, wildcards: dict[str, str]) -> Cost:
        size, num_shards = self.collection(wildcards["dataset"]), self._config["tokens"]["shards"]
        return self._token_cost(size, 1 / num_shards)

    def _query_tokens(self, wildcards: dict[str, str]) -> Cost:
        return self._token_cost(self.queries(wildcards["dataset"], wildcards["split"]), 1.0)

    def _token_cost(self, size: Size, share: float) -> Cost:
        tokens = size.texts.num_tokens
        numbers = size.texts.num_sentences + 2 * size.num_rows  # titles are sentences
        written = _TOKEN_BYTES * tokens + _COUNT_BYTES * numbers
        memory = self._process() + 4 * numbers * share
        work = {"jobs": 1, "tokens": tokens * share}
        return Cost(tokens * share, 0, written * share, memory, work, [size.assumption])

    # -- training -----------------------------------------------------------------------------

    def _condenser(self, wildcards: dict[str, str]) -> Cost:
        settings, size = self._config["condenser"], self.collection(wildcards["dataset"])
        rows = texts.blocks(
            size.texts, max_tokens=settings["max_tokens"], short_probability=settings["short_probability"]
        )
        batch = texts.even_batch(rows, num_rows=min(settings["batch_size"], max(1, round(rows.num_rows))))
        chunks = texts.length_chunks(
            batch, rows_per_chunk=settings["rows_per_chunk"], mask_probability=settings["mask_probability"]
        )
        training = _Training(chunks, rows.num_rows, settings["batch_size"], settings["epochs"])
        forward = self._condenser_flops(chunks)
        cost = self._training_cost(
            training,
            flops=arithmetic.TRAINING_PASSES * forward,
            first_passes=0,
            tokens=rows.num_tokens * settings["epochs"],
            num_weights=arithmetic.condenser_weights(self.shape, num_head_layers=settings["num_head_layers"]),
            graph=max(self._condenser_numbers([chunk]) for chunk in chunks),
            numbers=self._condenser_numbers(chunks),
            num_layers=self.shape.num_layers + settings["num_head_layers"],
        )
        return _with(cost, [size.assumption])

    def _cocondenser(self, wildcards: dict[str, str]) -> Cost:
        settings, head = self._config["cocondenser"], self._config["condenser"]["num_head_layers"]
        size = self.collection(wildcards["dataset"])
        rows = texts.spans(
            size.texts,
            min_tokens=settings["min_span_tokens"],
            span_tokens=settings["span_tokens"],
            short_probability=settings["short_probability"],
        )
        documents = rows.num_rows / 2
        if documents < 2:
            raise ValueError(
                f"cocondenser.min_span_tokens: expected at least 2 documents with room for two spans of "
                f"{settings['min_span_tokens']} tokens, got none. Lower it, or take longer texts."
            )
        num_spans = 2 * min(settings["batch_size"], round(documents))
        batch = texts.even_batch(rows, num_rows=num_spans)
        chunks = texts.length_chunks(
            batch, rows_per_chunk=settings["rows_per_chunk"], mask_probability=settings["mask_probability"]
        )
        training = _Training(chunks, documents, settings["batch_size"], settings["epochs"])
        num_weights = arithmetic.condenser_weights(self.shape, num_head_layers=head)
        whole = self._condenser_numbers(chunks)
        fits = 4 * whole <= self._memory_for_graphs(num_weights)
        is_cached = settings["gradient_cache"] == "always" or (
            settings["gradient_cache"] == "auto" and not fits
        )
        first = sum(arithmetic.encoder_flops(self.shape, chunk) for chunk in chunks) if is_cached else 0.0
        similarities = 2 * num_spans * num_spans * self.shape.dim
        cost = self._training_cost(
            training,
            flops=arithmetic.TRAINING_PASSES * (self._condenser_flops(chunks) + similarities) + first,
            first_passes=self.shape.num_layers if is_cached else 0,
            tokens=rows.num_tokens * settings["epochs"],
            num_weights=num_weights,
            graph=max(self._condenser_numbers([chunk]) for chunk in chunks) if is_cached else whole,
            numbers=whole,
            num_layers=self.shape.num_layers + head,
        )
        left_out = 1 - documents / size.num_rows
        words = f"{'with' if is_cached else 'without'} the gradient cache; {left_out:.0%} of rows too short"
        return _with(cost, [size.assumption, words])

    def _retriever(self, wildcards: dict[str, str]) -> Cost:
        settings, lengths, dataset = self._config["finetune"], self._config["lengths"], wildcards["dataset"]
        number = system_parts(wildcards["system"])[1]
        passages = texts.passages(self.collection(dataset).texts, max_tokens=lengths["passage"])
        asked = self.queries(dataset, self._config["datasets"][dataset]["train_split"])
        queries = texts.passages(asked.texts, max_tokens=lengths["query"])
        systems = example_systems(self._config, dataset, wildcards["system"])
        found = [self.num_examples(dataset, system) for system in systems]
        examples = sum(count for count, _ in found)
        batch_size, a_query = settings["batch_size"], settings["passages_per_query"]
        chunks = [
            chunk
            for rows, count in ((queries, batch_size), (passages, batch_size * a_query))
            for chunk in texts.length_chunks(
                texts.even_batch(rows, num_rows=count),
                rows_per_chunk=settings["rows_per_chunk"],
                mask_probability=0.0,
            )
        ]
        training = _Training(chunks, examples, batch_size, settings["epochs"][number - 1])
        numbers = arithmetic.graph_numbers(
            self.shape, chunks, num_layers=self.shape.num_layers, num_mlm_heads=0
        )
        mean = queries.num_tokens / queries.num_rows + a_query * passages.num_tokens / passages.num_rows
        scores = 2 * batch_size * batch_size * a_query * self.shape.dim
        forward = sum(arithmetic.encoder_flops(self.shape, chunk) for chunk in chunks) + scores
        cost = self._training_cost(
            training,
            flops=arithmetic.TRAINING_PASSES * forward,
            first_passes=0,
            tokens=examples * training.epochs * mean,
            num_weights=arithmetic.backbone_weights(self.shape),
            graph=numbers,
            numbers=numbers,
            num_layers=self.shape.num_layers,
        )
        sizes = [self.collection(dataset).assumption, asked.assumption]
        return _with(cost, [*sizes, *(assumption for _, assumption in found)])

    def _training_cost(
        self,
        training: _Training,
        *,
        flops: float,
        first_passes: int,
        tokens: float,
        num_weights: int,
        graph: float,
        numbers: float,
        num_layers: int,
    ) -> Cost:
        """The cost of a training whose every step takes `flops`; `graph` is of what is held at once.

        A pass without a graph costs a third of the two with one, in layers as in numbers.
        """
        batches, steps = training.num_batches, training.num_steps
        first_share = first_passes / (3 * num_layers)
        work = {
            "jobs": 1.0,
            "flops": batches * flops,
            "graph_bytes": batches * 4 * numbers * (1 + first_share),
            "update_bytes": steps * arithmetic.update_bytes(num_weights),
            "layers": batches * len(training.chunks) * num_layers * (1 + first_share),
        }
        written = 4 * num_weights + steps * self._tables.assumption("log_line_bytes")
        memory = self._process() + 16 * num_weights + 4 * graph
        return Cost(tokens, batches * flops, written, memory, work)

    def _condenser_flops(self, chunks: list[Chunk]) -> float:
        settings = self._config["condenser"]
        return sum(
            arithmetic.condenser_flops(
                self.shape,
                chunk,
                num_head_layers=settings["num_head_layers"],
                use_late_mlm=settings["late_mlm_weight"] > 0,
            )
            for chunk in chunks
        )

    def _condenser_numbers(self, chunks: list[Chunk]) -> float:
        num_layers = self.shape.num_layers + self._config["condenser"]["num_head_layers"]
        return arithmetic.graph_numbers(self.shape, chunks, num_layers=num_layers, num_mlm_heads=2)

    def _memory_for_graphs(self, num_weights: int) -> float:
        """As condenser.train.pretrain decides it, on a GPU that is otherwise empty."""
        if self._device.kind == "cpu":
            return self._config["cocondenser"]["memory_gb"] * 1e9
        return 0.8 * (self._device.memory_bytes - 16 * num_weights)

    # -- retrieval ----------------------------------------------------------------------------

    def _bm25_index(self, wildcards: dict[str, str]) -> Cost:
        size = self.collection(wildcards["dataset"])
        written = size.text_bytes * self._tables.assumption("index_share")
        work = {"jobs": 1, "rows": size.num_rows}
        return Cost(0, 0, written, self._java(), work, [size.assumption])

    def _bm25_run(self, wildcards: dict[str, str]) -> Cost:
        dataset, split = wildcards["dataset"], wildcards["split"]
        hits, run_bytes = self._run(dataset, "bm25", split)
        queries = self.queries(dataset, split)
        pairs = queries.num_rows * self.collection(dataset).num_rows
        work = {"jobs": 1, "hits": hits, "pairs": pairs}
        sizes = [self.collection(dataset).assumption, queries.assumption]
        return Cost(0, 0, run_bytes, self._java(), work, sizes)

    def _examples(self, wildcards: dict[str, str]) -> Cost:
        dataset, system = wildcards["dataset"], wildcards["system"]
        split = self._config["datasets"][dataset]["train_split"]
        hits, _ = self._run(dataset, system, split)
        count, assumption = self.num_examples(dataset, system)
        sizes = [self.queries(dataset, split).assumption, assumption]
        return Cost(
            0, 0, self._examples_bytes(dataset, count), self._process(), {"jobs": 1, "hits": hits}, sizes
        )

    def _triple_examples(self, wildcards: dict[str, str]) -> Cost:
        dataset = wildcards["dataset"]
        split = self._config["datasets"][dataset]["train_split"]
        count, assumption = self.num_examples(dataset, "triples")
        work = {"jobs": 1, "rows": self._tables.assumption("num_triples")}
        sizes = [self.queries(dataset, split).assumption, assumption]
        return Cost(0, 0, self._examples_bytes(dataset, count), self._process(), work, sizes)

    def _examples_bytes(self, dataset: str, count: float) -> float:
        a_document = self.collection(dataset).id_bytes + 4
        return count * (60 + a_document * (1 + self._config["negatives"]["sample"]))

    def _encode(self, wildcards: dict[str, str]) -> Cost:
        size = self.collection(wildcards["dataset"])
        rows = texts.passages(size.texts, max_tokens=self._config["lengths"]["passage"])
        return self._encode_cost(rows, 1 / self._config["encode"]["shards"], size.assumption)

    def _encode_queries(self, wildcards: dict[str, str]) -> Cost:
        size = self.queries(wildcards["dataset"], wildcards["split"])
        rows = texts.passages(size.texts, max_tokens=self._config["lengths"]["query"])
        return self._encode_cost(rows, 1.0, size.assumption)

    def _encode_cost(self, rows: texts.Lengths, share: float, assumption: str) -> Cost:
        settings, shape = self._config["encode"], self.shape
        block = texts.even_batch(rows, num_rows=min(settings["block_rows"], max(1, round(rows.num_rows))))
        chunks = texts.token_chunks(block, batch_tokens=settings["batch_tokens"])
        blocks = rows.num_rows * share / len(block)
        flops = blocks * sum(arithmetic.encoder_flops(shape, chunk) for chunk in chunks)
        numbers = arithmetic.graph_numbers(shape, chunks, num_layers=shape.num_layers, num_mlm_heads=0)
        weights = arithmetic.backbone_weights(shape)
        # one layer at a time: its inputs, its scores, the feed-forward
        held = max(
            arithmetic.graph_numbers(shape, [chunk], num_layers=1, num_mlm_heads=0) for chunk in chunks
        )
        work = {
            "jobs": 1.0,
            "flops": flops,
            "graph_bytes": blocks * 4 * numbers / 3,
            "layers": blocks * len(chunks) * shape.num_layers / 3,
        }
        written = 4 * rows.num_rows * share * shape.dim
        memory = self._process() + 4 * weights + 4 * held
        return Cost(rows.num_tokens * share, flops, written, memory, work, [assumption])

    def _search(self, wildcards: dict[str, str]) -> Cost:
        dataset, num_shards = wildcards["dataset"], self._config["encode"]["shards"]
        size, asked = self.collection(dataset), self.queries(dataset, wildcards["split"])
        rows = size.num_rows / num_shards
        pairs, depth = rows * asked.num_rows, min(self._depth("search", dataset, wildcards["split"]), rows)
        flops = 2 * pairs * self.shape.dim
        # FAISS searches on the processor, in float32, whatever else the machine has
        at_once = min(self._tables.assumption("search_queries"), asked.num_rows)
        memory = (
            self._process()
            + 2 * min(self._tables.assumption("search_read_bytes"), 4 * rows * self.shape.dim)
            + at_once * (4 * self.shape.dim + 4 * depth * _HIT_BYTES)
        )
        work = {"jobs": 1, "host_flops": flops, "pairs": pairs, "hits": asked.num_rows * depth}
        written = asked.num_rows * depth * _HIT_BYTES
        return Cost(0, flops, written, memory, work, [size.assumption, asked.assumption])

    def _merge(self, wildcards: dict[str, str]) -> Cost:
        dataset, split = wildcards["dataset"], wildcards["split"]
        hits, run_bytes = self._run(dataset, wildcards["system"], split)
        read = hits * self._config["encode"]["shards"]
        work = {"jobs": 1, "hits": hits, "read_hits": read}
        return Cost(0, 0, run_bytes, self._process(), work, [self.queries(dataset, split).assumption])

    def _metrics(self, wildcards: dict[str, str]) -> Cost:
        dataset, split, system = wildcards["dataset"], wildcards["split"], wildcards["system"]
        hits, _ = self._run(dataset, system, split)
        size = self.queries(dataset, split)
        return Cost(0, 0, 1000, self._process() + 100 * hits, {"jobs": 1, "hits": hits}, [size.assumption])

    def _table2(self, wildcards: dict[str, str]) -> Cost:
        return Cost(0, 0, 3000, self._process(), {"jobs": 1})

    def _run(self, dataset: str, system: str, split: str) -> tuple[float, float]:
        """Lines of a run, and its bytes."""
        queries, collection = self.queries(dataset, split), self.collection(dataset)
        depth = self._depth("bm25" if system == "bm25" else "search", dataset, split)
        hits = queries.num_rows * min(depth, collection.num_rows)
        return hits, hits * (queries.id_bytes + collection.id_bytes + 34)  # Q0, rank, score, name of the run

    def _depth(self, block: str, dataset: str, split: str) -> int:
        is_train = split == self._config["datasets"][dataset]["train_split"]
        return self._config[block]["depth"]["train" if is_train else "eval"]

    def _process(self) -> float:
        return self._tables.assumption("process_bytes")

    def _java(self) -> float:
        return self._tables.assumption("java_bytes") + self._process()


def closure(config: dict[str, Any], job: Job) -> list[Job]:
    """A job and all that it needs, each once, what is needed first."""
    found: dict[tuple[str, ...], Job] = {}
    seen: set[tuple[str, ...]] = set()

    def visit(one: Job) -> None:
        stage, wildcards = one
        key = (stage, *(f"{name}={value}" for name, value in sorted(wildcards.items())))
        if key not in seen:
            seen.add(key)
            for parent in STAGES[stage].parents(config, wildcards):
                visit(parent)
            found[key] = one

    visit(job)
    return list(found.values())


def _with(cost: Cost, assumptions: list[str]) -> Cost:
    return Cost(cost.tokens, cost.flops, cost.bytes_on_disk, cost.memory_bytes, cost.work, assumptions)
