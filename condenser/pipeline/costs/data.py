"""What the jobs of a table work on: counted where it has been made, else assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from condenser.data.canonical import count_judged
from condenser.encoders import read_encoder_config
from condenser.experiment import parse_variant
from condenser.manifest import SUFFIX
from condenser.pipeline.costs.arithmetic import Shape
from condenser.pipeline.costs.jobs import Job
from condenser.pipeline.costs.tables import Device, Tables
from condenser.pipeline.costs.texts import (
    Texts,
    assumed_passages,
    assumed_queries,
    assumed_unjudged,
    counted_texts,
)

_LINE_BYTES = 34  # of a line of a run, besides its two ids: Q0, rank, score, name


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
        self._tokens = [job for job in jobs if job.rule in ("tokens", "query_tokens") and job.manifest]
        self._found = cache(self._find)

    def passages(self, job: Job) -> Texts:
        """The passages of a job's data set."""
        return self._texts(job.wildcards["dataset"], None)

    def texts(self, job: Job) -> Texts:
        """What a job works on: the passages, of which it may have a shard, else the queries of its split."""
        return self.passages(job) if "shard" in job.wildcards else self.queries(job)

    def queries(self, job: Job, split: str | None = None) -> Texts:
        """The judged queries of a job's split, else of its train split, and of these its variant's."""
        dataset = job.wildcards["dataset"]
        train = getattr(self._collects[dataset].config.dataset, "train_split", None)
        split = split or job.wildcards.get("split", train)
        texts, (number, _) = self._texts(dataset, split), parse_variant(job.wildcards.get("variant", ""))
        if number is not None and split == train:
            texts = replace(texts, count=min(number, texts.count))
        return texts

    def num_examples(self, job: Job) -> float:
        """Examples with negatives that a job of rule `examples` makes, or that a training reads."""
        if job.rule != "examples":
            return sum(self.num_examples(need) for need in job.needs if need.rule == "examples")
        if job.counts:
            return job.counts["examples"]
        system, share = job.wildcards["system"], 1.0  # negatives are drawn whether a positive is found or not
        if any(need.rule == "download" for need in job.needs):
            share = self.tables.assumption("positive_found_files")
        elif system in job.config.recipe.negatives.positive_in_run:
            share = self.tables.assumption("positive_found_run")
        self.assumptions.append(f"{share:.0%} of the train queries give an example of {system}")
        return share * self.queries(job).count

    def run(self, job: Job) -> dict[str, float]:
        """Lines (`hits`) and bytes of the run that a job makes or reads."""
        maker = (
            job
            if hasattr(job.config, "depth")
            else next(need for need in job.needs if hasattr(need.config, "depth"))
        )
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
        shape = checkpoint_shape(model.config.model, self.tables)
        shape = replace(shape, on_cpu=self.device.kind == "cpu")
        return replace(shape, num_head_layers=head) if job.rule == "pretrain" else shape

    def graph_memory(self, settings: Any, shape: Shape) -> float:
        """Bytes of graphs that a training with `gradient_cache` keeps (`condenser.train.pretrain`)."""
        if settings.gradient_cache != "auto":
            return math.inf if settings.gradient_cache == "never" else 1.0
        if self.device.kind == "cpu":
            return settings.memory_gb * 1e9
        return 0.8 * (self.device.memory_bytes - 16 * shape.num_weights)

    def text_bytes(self, texts: Texts) -> float:
        """Bytes of texts, without their ids."""
        return texts.num_tokens * self.tables.assumption("bytes_per_token")

    def _texts(self, dataset: str, split: str | None) -> Texts:
        """The passages of a data set, or the queries of a split; notes what they rest on."""
        texts = self._found(dataset, split)
        self.assumptions += filter(None, [texts.assumption])
        return texts

    def _find(self, dataset: str, split: str | None) -> Texts:
        collect, tables = self._collects[dataset], self.tables
        settings = collect.config.dataset
        unjudged = self._unjudged.get((dataset, split)) if split else None
        if unjudged:
            assumed = assumed_unjudged(tables, unjudged.config)
        elif split:
            assumed = assumed_queries(settings, split, tables)
        else:
            assumed = assumed_passages(settings, tables)
        wanted = {"dataset": dataset, "split": split}.items()
        made = [job for job in self._tokens if wanted <= {"split": None, **job.wildcards}.items()]
        made = [job for job in made if job.wildcards["model"] == made[0].wildcards["model"]]
        if made and len(made) == round(1 / made[0].share):
            prefixes = [str(job.manifest).removesuffix(SUFFIX) for job in made]
            return counted_texts(prefixes, id_bytes=assumed.id_bytes)
        counts = (unjudged or collect).counts
        if counts:
            count = count_judged(counts)[split] if split else counts["passages"]
            return replace(assumed, count=count, assumption="rows counted, lengths as assumed")
        return assumed


def checkpoint_shape(model: Any, tables: Tables) -> Shape:
    """The dimensions of a model of objective `checkpoint`."""
    names = ["num_layers", "hidden_size", "intermediate_size", "num_heads", "vocab_size", "max_positions"]
    if model.source == "scratch":
        shape = Shape(*(getattr(model, name) or 512 for name in names))  # only max_positions may be null
    elif model.source == "folder":
        names = ["num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"]
        settings = read_encoder_config(model.path)
        shape = Shape(*(getattr(settings, name) for name in [*names, "vocab_size", "num_positions"]))
    else:
        shape = tables.shape(model.id or model.source)
    return replace(shape, pooling=getattr(model, "pooling", None) or shape.pooling)


def _models_above(job: Job) -> list[Job]:
    """The jobs that make the models which a job starts from: among its inputs, else among theirs."""
    rules = ("train", "distil", "pretrain", "best_of", "checkpoint")
    made = [need for need in job.needs if need.rule in rules]
    return made or [model for need in job.needs for model in _models_above(need)]
