"""What the jobs of a table work on: counted where it has been made, else assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from condenser.data.batches import num_items_of, num_steps
from condenser.data.canonical import count_judged
from condenser.data.word_vectors import word_vector_length
from condenser.encoders import read_encoder_config
from condenser.experiment import CROSSFIT, parse_variant, whole_split
from condenser.manifest import SUFFIX
from condenser.pipeline.costs.jobs import Job
from condenser.pipeline.costs.shape import LstmShape, Shape
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.costs.texts import (
    Texts,
    assumed_passages,
    assumed_queries,
    assumed_unjudged,
    counted_texts,
)

Work = dict[str, Any]
_LINE_BYTES = 34  # of a line of a run, besides its two ids: Q0, rank, score, name
_LOG_LINE_BYTES = 230  # of an update


class Data:
    """The texts and models of the jobs of one table, and the device that computes them.

    `assumptions` lists, in words, what its answers have rested on since the list was cleared.
    """

    def __init__(self, jobs: Sequence[Job], tables: Tables, device: Device) -> None:
        self.tables, self.device = tables, device
        self.assumptions: list[str] = []
        self._collects = {job.wildcards["dataset"]: job for job in jobs if job.rule == "collect"}
        self._unjudged = {
            (job.wildcards["dataset"], job.wildcards["split"]): job
            for job in jobs
            if job.rule in ("queries", "extracted")
        }
        drawn = (job for job in jobs if job.rule == "held_out")
        self._held_out = {(job.wildcards["dataset"], job.wildcards["variant"]): job for job in drawn}
        self._tokens = [job for job in jobs if job.rule in ("tokens", "query_tokens") and job.manifest]
        self._auto = next((job.config.auto_lengths for job in jobs if job.rule == "lengths"), None)
        self._known_texts = cache(self._find_texts)

    def passages(self, job: Job) -> Texts:
        """The passages of a job's data set."""
        return self._texts(job.wildcards["dataset"], None)

    def texts(self, job: Job) -> Texts:
        """What a job works on: its shard of the passages, else the queries of its split."""
        if "shard" not in job.wildcards:
            return self.queries(job)
        passages = self.passages(job)
        return replace(passages, count=passages.count * job.share)

    def queries(self, job: Job, split: str | None = None) -> Texts:
        """The judged queries of a job's split, else of its train split, and of these its variant's."""
        dataset = job.wildcards["dataset"]
        train = getattr(self._collects[dataset].config.dataset, "train_split", None)
        asked = split or job.wildcards.get("split", train)
        split, variant = asked and whole_split(asked), job.wildcards.get("variant", "")
        texts, (number, _) = self._texts(dataset, split), parse_variant(variant)
        if number is not None and split == train:
            texts = replace(texts, count=min(number, texts.count))
        if asked != split:
            share = self._share_drawn(self._held_out[dataset, variant.removeprefix(CROSSFIT)])
            texts = replace(texts, count=texts.count * share)
        return texts

    def num_examples(self, job: Job) -> float:
        """Examples that a job of rule `examples` or `pseudo_labels` makes, or that a training reads."""
        if job.rule not in ("examples", "pseudo_labels"):
            made = {
                rule: sum(self.num_examples(need) for need in job.needs if need.rule == rule)
                for rule in ("examples", "pseudo_labels")
            }
            return made["examples"] * (1 - self.share_held_out(job)) + made["pseudo_labels"]
        if job.counts:
            return job.counts["examples"]
        if job.rule == "pseudo_labels":
            self.assumptions.append("each query without judgement gets a pseudo-label")
            return self.queries(job).count
        system, share = job.wildcards["system"], 1.0  # negatives are drawn whether a positive is found or not
        with_example = any(need.rule == "examples" for subset in job.needs for need in subset.needs)
        if with_example:  # the subset was drawn from these queries
            share = 1.0
        elif any(need.rule == "download" for need in job.needs):
            share = self.tables.assumption("positive_found_files")
        elif system in job.config.recipe.negatives.positive_in_run:
            share = self.tables.assumption("positive_found_run")
        self.assumptions.append(f"{share:.0%} of the train queries give an example of {system}")
        return share * self.queries(job).count

    def share_held_out(self, job: Job) -> float:
        """The share of the train queries that a training does not see."""
        drawn = next((need for need in job.needs if need.rule == "held_out"), None)
        return 0.0 if drawn is None else self._share_drawn(drawn)

    def _share_drawn(self, drawn: Job) -> float:
        """The share of the train queries that a job of rule `held_out` draws."""
        if drawn.counts:
            return drawn.counts["queries"] / drawn.counts["of"]
        rule, count = drawn.config.recipe.held_out, self.queries(drawn).count
        held_out = min(rule.share * count, rule.most)
        return held_out / count if held_out >= rule.least else 0.0

    def run(self, job: Job) -> dict[str, float]:
        """Lines (`hits`) and bytes of the run that a job makes or reads."""
        is_ranked = hasattr(job.config, "depth")
        maker = job if is_ranked else next(need for need in job.needs if hasattr(need.config, "depth"))
        queries, passages = self.queries(maker), self.passages(maker)
        hits = queries.count * min(maker.config.depth, passages.count)
        return {"hits": hits, "bytes_on_disk": hits * (queries.id_bytes + passages.id_bytes + _LINE_BYTES)}

    def shape(self, job: Job) -> Shape:
        """The model that a job starts from; it has a head only where a pre-training left one."""
        model, head = job, 0
        while model.rule != "checkpoint":
            model = _models_above(model)[0]
            settings = getattr(model.config, "model", None)
            with_head = getattr(settings, "new_head", None) or settings
            head = head or getattr(with_head, "num_head_layers", None) or 0
        while model.rule != "checkpoint" or model.config.model.source == "system":  # which has no head
            model = _models_above(model)[0]
        shape = checkpoint_shape(model.config.model, self.tables)
        return replace(shape, num_head_layers=head) if job.rule == "pretrain" else shape

    def training(
        self,
        settings: Any,
        shape: Shape,
        rows: Sequence[tuple[int, float]],
        *,
        num_items: float,
        num_logits: float = 0.0,
        keeps_batch: bool = True,
        num_encoders: int = 1,
    ) -> Work:
        """The work of a training of a model of this shape.

        Args:
            settings: `batch_size`, `rows_per_chunk`, `epochs`, `updates`, `drop_last`, `gradient_cache`.
            rows: of each kind of row, the number that an item has, and its mean length with specials.
            num_items: items of an epoch.
            num_logits: as in `Shape.token_flops`.
            keeps_batch: the graphs of a whole batch are in memory; else, or with a gradient cache, a chunk's.
            num_encoders: 2 where queries and passages have an encoder each.
        """
        whole_items, soup = max(1, round(num_items)), getattr(settings, "soup", 1)
        cut = {"batch_size": min(settings.batch_size, whole_items), "drop_last": settings.drop_last}
        steps = num_steps(whole_items, epochs=settings.epochs, updates=settings.updates, **cut)
        items_seen = num_items_of(whole_items, num_steps=steps, **cut)
        item_tokens = sum(count * length for count, length in rows)
        item_flops = sum(
            count * length * shape.token_flops(length, num_logits=num_logits) for count, length in rows
        )
        num_weights, longest = num_encoders * shape.num_weights, max(length for _, length in rows)
        logits = {"length": longest, "num_logits": num_logits}
        graphs = shape.graph_bytes(cut["batch_size"] * item_tokens, **logits)
        chunks = sum(math.ceil(cut["batch_size"] * count / settings.rows_per_chunk) for count, _ in rows)
        chunk = min(graphs, shape.graph_bytes(settings.rows_per_chunk * longest, **logits))
        cache = getattr(settings, "gradient_cache", "never") if keeps_batch else "never"
        is_cached = cache == "always" or (
            cache == "auto" and graphs > self._graph_memory(settings, num_weights)
        )
        passes = 3 * (shape.num_layers + shape.num_head_layers)
        if is_cached:  # a pass more of the encoder, without graphs
            passes += shape.num_layers
            encoder = replace(shape, num_head_layers=0)
            item_flops += sum(count * length * encoder.token_flops(length) for count, length in rows) / 3
        return {
            "tokens": soup * items_seen * item_tokens,
            # two products of the backward pass for each of the forward
            "flops": soup * 3 * items_seen * item_flops,
            "launches": soup * steps * passes * chunks,
            "bytes_on_disk": 4 * num_weights + soup * steps * _LOG_LINE_BYTES,
            # weights, gradients and two moments
            "memory_bytes": 16 * num_weights + (graphs if keeps_batch and not is_cached else chunk),
            "note": "with the gradient cache" if is_cached else "",
        }

    def inference(self, job: Job, shape: Shape, *, num_rows: float, length: float) -> Work:
        """The work of one forward pass of each of `num_rows` rows of this mean length."""
        tokens = num_rows * length
        held = min(tokens, job.config.encode.batch_tokens)
        return {
            "tokens": tokens,
            "flops": tokens * shape.token_flops(length),
            "memory_bytes": 4 * shape.num_weights + shape.graph_bytes(held, length=length) / shape.num_layers,
        }

    def _graph_memory(self, settings: Any, num_weights: int) -> float:
        """Bytes of graphs that a training keeps without the gradient cache (`condenser.train.memory`)."""
        if self.device.kind == "cpu":
            return settings.memory_gb * 1e9
        return 0.8 * (self.device.memory_bytes - 16 * num_weights)

    def text_bytes(self, texts: Texts) -> float:
        """Bytes of texts, without their ids."""
        return texts.num_tokens * self.tables.assumption("bytes_per_token")

    def _texts(self, dataset: str, split: str | None) -> Texts:
        """The passages of a data set, or the queries of a split; notes what they rest on."""
        texts = replace(self._known_texts(dataset, split), auto=self._auto)
        self.assumptions += filter(None, [texts.assumption])
        return texts

    def _find_texts(self, dataset: str, split: str | None) -> Texts:
        collect, tables = self._collects[dataset], self.tables
        settings = collect.config.dataset
        unjudged = self._unjudged.get((dataset, split)) if split else None
        if unjudged:
            assumed = assumed_unjudged(tables, unjudged)
        elif split:
            assumed = assumed_queries(settings, split, tables)
        else:
            assumed = assumed_passages(settings, tables)
        wanted = {"dataset": dataset, "split": split}.items()
        made = [job for job in self._tokens if wanted <= {"split": None, **job.wildcards}.items()]
        made = [job for job in made if job.wildcards["model"] == made[0].wildcards["model"]]
        if made and len(made) == round(1 / made[0].share):
            return counted_texts([str(job.manifest).removesuffix(SUFFIX) for job in made], assumed)
        counts = (unjudged or collect).counts
        if counts:
            count = count_judged(counts)[split] if split else counts["passages"]
            return replace(assumed, count=count, assumption="rows counted, lengths as assumed")
        return assumed


def checkpoint_shape(model: Any, tables: Tables) -> Shape:
    """The dimensions of a model of objective `checkpoint`."""
    names = ["num_layers", "hidden_size", "intermediate_size", "num_heads", "vocab_size", "max_positions"]
    if model.source == "scratch":
        return Shape(*(getattr(model, name) or 512 for name in names))  # only max_positions may be null
    if model.source == "lstm":
        sizes = 1, model.hidden_size, 0, 0, model.vocab_size, 0
        return LstmShape(*sizes, word_dim=word_vector_length(Path(model.path)))
    if model.source == "folder":
        names = ["num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"]
        settings = read_encoder_config(model.path)
        return Shape(*(getattr(settings, name) for name in [*names, "vocab_size", "num_positions"]))
    return tables.shape(model.id or model.source)


def _models_above(job: Job) -> list[Job]:
    """The jobs that make the models which a job starts from: among its inputs, else among theirs."""
    rules = ("train", "pretrain", "best_of", "checkpoint")
    made = [need for need in job.needs if need.rule in rules]
    return made or [model for need in job.needs for model in _models_above(need)]
