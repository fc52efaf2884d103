"""A fine-tuning step of 8 queries, 8 passages each: a plain loop and sentence-transformers' trainer."""

from __future__ import annotations

import logging
import random
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from measuring import Form, lines, load_config, seconds_of
from plain import PlainRetriever, PlainStep, check_retriever, padded_texts
from stepping import seconds_of_updates
from steps import run_updates, settings_of

from condenser.data.records import (
    TrainExample,
    read_passages,
    read_qrels,
    read_queries,
    write_examples,
    write_queries,
)
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.model.retriever import Retriever
from condenser.shards import shard_files
from condenser.train.loop import Machine, StepRecord, training_machine

QUERIES = PASSAGES = 8
WIDTHS = {"queries": 32, "passages": 128}
LEFT_OUT = 1  # first steps of each turn
CAREFUL = "a careful loop, in four groups of length"
THEIRS = "sentence-transformers' trainer"


def measure(form: Form) -> list[dict[str, Any]]:
    """Ours and the peers in turn, some steps each, three times."""
    settings, chunk = settings_of("train", load_config([])), form.size(32, 64)
    settings |= {"batch_size": QUERIES, "passages_per_query": PASSAGES, "rows_per_chunk": chunk}
    settings["negatives"] = {**settings["negatives"], "sample": PASSAGES - 1}
    texts, count = write_training(form), form.size(1, 10) + LEFT_OUT
    times: dict[str, list[float]] = {"ours": [], CAREFUL: [], THEIRS: []}
    tokens = list[int]()
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        place, precision = machine.processes.device, machine.precision
        model = Retriever.load(form.inputs / "model", dropout=None)
        peer = PlainStep(PlainRetriever(model), place, precision, QUERIES * PASSAGES // 4)
        for _ in range(3):
            of_peer: list[float] = []

            def peer_steps(record: StepRecord, of_peer: list[float] = of_peer) -> None:
                chunks = record.batch.content.chunks
                groups = ([c for c in chunks if c.group == group] for group in WIDTHS)
                padded = [
                    padded_texts(group, width=width, device=place)
                    for group, width in zip(groups, WIDTHS.values(), strict=True)
                ]
                if not tokens and not of_peer:
                    check_retriever(model, peer, chunks, WIDTHS)
                of_peer.append(seconds_of(partial(peer.finetuning, *padded), clock=form.clock))

            updates = run_updates(
                "train", form.work, settings, machine, count=count, seed=len(tokens),
                between=peer_steps, clock=form.clock,
            )[LEFT_OUT:]  # fmt: skip
            times["ours"] += seconds_of_updates(updates)
            times[CAREFUL] += of_peer[LEFT_OUT:]
            times[THEIRS] += _theirs(form, *texts, machine, count=count)[LEFT_OUT:]
            tokens.extend(update.tokens for update in updates)
    rates = {name: mean(tokens) / median(seconds) for name, seconds in times.items()}
    found = lines(
        f"fine-tuning step, {QUERIES} x {PASSAGES}", "tokens/s", rates.pop("ours"), rates,
        goals={CAREFUL: 1.6},
        note=f"the default's texts, {mean(tokens):.0f} tokens, {precision}",
    )  # fmt: skip
    found[-1]["note"] += "; MultipleNegativesRankingLoss, which tokenises the texts in each step"
    return found


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
    write_queries(folder / "queries.jsonl", queries)
    write_examples(folder / "examples.jsonl", examples)
    pairs, tokenizer = (("", query.text) for query in queries), Tokenizer(form.inputs / "model")
    write_token_shard(pairs, folder / "queries.train", tokenizer, batch_size=512, split=False)
    links = [("backbone", "model"), ("train.doc_ids.txt", "data/doc_ids.txt")]
    prefixes = "train.0-of-1", "tokens.0-of-1"
    links += zip(*map(shard_files, prefixes), strict=True)
    for link, target in links:
        (folder / link).symlink_to((form.inputs / target).absolute())
    names = [[*one.positive_doc_ids, *one.negative_doc_ids] for one in examples]
    return [query.text for query in queries], [[texts[name] for name in of_one] for of_one in names]


def _theirs(
    form: Form, queries: list[str], passages: list[list[str]], machine: Machine, *, count: int
) -> list[float]:
    """Seconds of steps of sentence-transformers' trainer; of the first, NaN."""
    from datasets import Dataset, disable_progress_bars
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers import TrainerCallback

    disable_progress_bars()
    device = machine.processes.device.type
    model = SentenceTransformer(str(form.inputs / "model"), device=device)
    model.max_seq_length = 128
    columns = {"query": queries} | {
        f"passage {n}": list(of) for n, of in enumerate(zip(*passages, strict=True))
    }
    ended = [float("nan")]

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if device == "cuda":
                torch.cuda.synchronize()
            ended.append(form.clock())

    trainer = SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(Path(form.work, "theirs")), per_device_train_batch_size=QUERIES, max_steps=count,
            bf16=machine.precision == "bf16", fp16=machine.precision == "fp16", use_cpu=device == "cpu",
            report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True,
            learning_rate=1e-6,
        ),
        train_dataset=Dataset.from_dict(columns),
        loss=MultipleNegativesRankingLoss(model, scale=20.0),
        callbacks=[Clock()],
    )  # fmt: skip
    logging.getLogger("transformers").setLevel(logging.ERROR)
    trainer.train()
    return [end - begin for begin, end in pairwise(ended)]
