"""A fine-tuning step of 8 queries, 8 passages each: a plain loop and sentence-transformers' trainer."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import Form, Operators, line, load_config, seconds_of
from plain import PlainRetriever, PlainStep, padded_texts
from steps import settings_of, shape_of
from watched_stages import run_updates

from condenser.data.records import (
    Query,
    TrainExample,
    read_passages,
    read_qrels,
    read_queries,
    write_examples,
    write_queries,
)
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.model.retriever import Retriever
from condenser.train.loop import StepRecord
from condenser.train.machine import Machine, training_machine

QUERIES = PASSAGES = 8
LEFT_OUT = 1  # first steps of each turn


def measure(form: Form) -> list[dict[str, Any]]:
    """The three in turn, some steps each, three times."""
    settings = settings_of("train", load_config([]), "msmarco")
    settings = {
        **settings,
        "batch_size": QUERIES,
        "passages_per_query": PASSAGES,
        "rows_per_chunk": form.size(32, 64),
        "negatives": {**settings["negatives"], "sample": PASSAGES - 1},
    }
    queries, passages = write_training(form)
    times: dict[str, list[float]] = {"ours": [], "plain": [], "theirs": []}
    tokens, profile = list[int](), Operators()
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        plain = PlainStep(
            PlainRetriever(Retriever.load(form.inputs / "model", dropout=None)),
            device=machine.processes.device,
            precision=machine.precision,
            rows_per_chunk=QUERIES,
        )
        for turn in range(3):
            _ours_and_plain(form, settings, machine, plain, times, tokens, profile if turn == 2 else None)
            times["theirs"] += _theirs(form, queries, passages, machine, count=form.size(1, 10) + LEFT_OUT)
    ours, plain_s, theirs = (median(times[name]) for name in ("ours", "plain", "theirs"))
    mean = sum(tokens) / len(tokens)
    what = f"fine-tuning step, {QUERIES} x {PASSAGES}"
    return [
        line(
            what,
            "tokens/s",
            mean / ours,
            better="more",
            against="plain loop, padded to 32 and 128",
            peer=mean / plain_s,
            least_ratio=2.0,
            profile=profile.said,
            note=f"the default's texts, {mean:.0f} tokens, {machine.precision}",
        ),
        line(
            what,
            "tokens/s",
            mean / ours,
            better="more",
            against="sentence-transformers' trainer",
            peer=mean / theirs,
            least_ratio=1.5,
            profile=profile.said,
            note="MultipleNegativesRankingLoss on the same texts; it tokenises them in each step",
        ),
    ]


def write_training(form: Form) -> tuple[list[str], list[list[str]]]:
    """Write the default's train queries, each with its passage and random ones; gives their texts."""
    data, folder, draw = form.inputs / "data", form.work, random.Random(0)
    texts = {passage.doc_id: passage.text for passage in read_passages(data / "collection.jsonl")}
    relevant = {qrel.query_id: qrel.doc_id for qrel in read_qrels(data / "qrels.train.tsv")}
    queries = [query for query in read_queries(data / "queries.train.jsonl") if query.query_id in relevant]
    examples = []
    for query in queries:
        positive = relevant[query.query_id]
        others = [name for name in draw.sample(sorted(texts), PASSAGES) if name != positive][: PASSAGES - 1]
        examples.append(TrainExample(query.query_id, (positive,), tuple(others)))
    write_queries(folder / "queries.jsonl", (Query(query.query_id, query.text) for query in queries))
    write_examples(folder / "examples.jsonl", examples)
    write_token_shard(
        (("", query.text) for query in queries),
        folder / "queries.train",
        Tokenizer(form.inputs / "model"),
        batch_size=512,
        split=False,
    )
    for source, target in (
        ("model", "backbone"),
        ("data/doc_ids.txt", "train.doc_ids.txt"),
        *((f"tokens.0-of-1.{part}.npy", f"train.0-of-1.{part}.npy") for part in _PARTS),
    ):
        (folder / target).symlink_to((form.inputs / source).absolute())
    names = [[*one.positive_doc_ids, *one.negative_doc_ids] for one in examples]
    return [query.text for query in queries], [[texts[name] for name in of_one] for of_one in names]


_PARTS = ("tokens", "sentence_lengths", "num_sentences")


def _ours_and_plain(
    form: Form,
    settings: dict[str, Any],
    machine: Machine,
    plain: PlainStep,
    times: dict[str, list[float]],
    tokens: list[int],
    profile: Operators | None,
) -> None:
    plain_seconds: list[float] = []

    def plain_step(record: StepRecord) -> None:
        chunks = record.batch.content.chunks
        queries, passages = (
            padded_texts(
                [chunk for chunk in chunks if chunk.group == group], width=width, device=plain.device
            )
            for group, width in (("queries", 32), ("passages", 128))
        )
        plain_seconds.append(seconds_of(lambda: plain.finetuning(queries, passages), clock=form.clock))

    count = form.size(1, 10) + LEFT_OUT
    updates = run_updates(
        "train",
        form.work,
        settings,
        machine,
        count=count,
        seed=len(tokens),
        shape=shape_of(form.work, settings),
        between=plain_step,
        clock=form.clock,
        profile=profile,
    )[LEFT_OUT:]
    times["ours"] += [update.ended - update.began for update in updates]
    times["plain"] += plain_seconds[LEFT_OUT:]
    tokens += [update.tokens for update in updates]


def _theirs(
    form: Form, queries: list[str], passages: list[list[str]], machine: Machine, *, count: int
) -> list[float]:
    """Seconds of steps of sentence-transformers' trainer, without the first."""
    from datasets import Dataset, disable_progress_bars
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    disable_progress_bars()
    device = machine.processes.device.type
    model = SentenceTransformer(str(form.inputs / "model"), device=device)
    model.max_seq_length = 128
    columns = {"query": queries} | {
        f"passage {number}": [of_one[number] for of_one in passages] for number in range(PASSAGES)
    }
    ended: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if device == "cuda":
                torch.cuda.synchronize()
            ended.append(form.clock())

    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(Path(form.work, "theirs")),
            per_device_train_batch_size=QUERIES,
            max_steps=count,
            bf16=machine.precision == "bf16",
            fp16=machine.precision == "fp16",
            use_cpu=device == "cpu",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            learning_rate=1e-6,
        ),
        train_dataset=Dataset.from_dict(columns),
        loss=MultipleNegativesRankingLoss(model, scale=20.0),
        callbacks=[Clock()],
    )
    logging.getLogger("transformers").setLevel(logging.ERROR)
    trainer.train()
    return [end - begin for begin, end in zip(ended[LEFT_OUT - 1 :], ended[LEFT_OUT:], strict=False)]
