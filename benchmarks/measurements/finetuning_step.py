"""A fine-tuning step of 8 queries, 8 passages each: a plain loop and sentence-transformers' trainer."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import Form, Operators, line, load_config, seconds_of
from plain import PlainRetriever, PlainStep, check_retriever, padded_texts
from stepping import seconds_of_updates
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
WIDTHS = {"queries": 32, "passages": 128}
LEFT_OUT = 1  # first steps of each turn
THEIRS = "sentence-transformers' trainer"


def measure(form: Form) -> list[dict[str, Any]]:
    """Ours and the peers in turn, some steps each, three times."""
    settings = settings_of("train", load_config([]), "msmarco")
    settings = {
        **settings,
        "batch_size": QUERIES,
        "passages_per_query": PASSAGES,
        "rows_per_chunk": form.size(32, 64),
        "negatives": {**settings["negatives"], "sample": PASSAGES - 1},
    }
    queries, passages = write_training(form)
    times: dict[str, list[float]] = {}
    tokens, profile = list[int](), Operators()
    with training_machine(device=form.device, precision="auto", threads=form.threads) as machine:
        model = Retriever.load(form.inputs / "model", dropout=None)
        peers = {
            name: PlainStep(
                PlainRetriever(model),
                device=machine.processes.device,
                precision=machine.precision,
                rows_per_chunk=rows,
                careful=careful,
            )
            for name, rows, careful in (
                ("the authors' way, padded to 32 and 128", QUERIES * PASSAGES, False),
                ("a careful loop, in four groups of length", QUERIES * PASSAGES // 4, True),
            )
        }
        for turn in range(3):
            last = profile if turn == 2 else None
            _ours_and_peers(form, settings, machine, model, peers, times, tokens, last)
            theirs = _theirs(form, queries, passages, machine, count=form.size(1, 10) + LEFT_OUT)
            times.setdefault(THEIRS, []).extend(theirs)
    seconds = {name: median(each) for name, each in times.items()}
    mean, ours = sum(tokens) / len(tokens), seconds.pop("ours")
    *_, careful = peers
    notes = {THEIRS: "; MultipleNegativesRankingLoss, which tokenises the texts in each step"}
    return [
        line(
            f"fine-tuning step, {QUERIES} x {PASSAGES}",
            "tokens/s",
            mean / ours,
            better="more",
            against=name,
            peer=mean / each,
            least_ratio=1.6 if name == careful else None,
            profile=profile.said,
            note=f"the default's texts, {mean:.0f} tokens, {machine.precision}{notes.get(name, '')}",
        )
        for name, each in seconds.items()
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


def _ours_and_peers(
    form: Form,
    settings: dict[str, Any],
    machine: Machine,
    model: Retriever,
    peers: dict[str, PlainStep],
    times: dict[str, list[float]],
    tokens: list[int],
    profile: Operators | None,
) -> None:
    """Some steps of ours, each followed by one of each peer on the same batch."""
    of_peers: dict[str, list[float]] = {name: [] for name in peers}

    def peer_steps(record: StepRecord) -> None:
        chunks = record.batch.content.chunks
        texts = [
            padded_texts([chunk for chunk in chunks if chunk.group == group], width=width, device=place)
            for group, width in WIDTHS.items()
        ]
        for name, peer in peers.items():
            if not tokens and not of_peers[name]:
                check_retriever(model, peer, chunks, WIDTHS)
            took = seconds_of(lambda peer=peer: peer.finetuning(*texts), clock=form.clock)
            of_peers[name].append(took)

    place = machine.processes.device
    updates = run_updates(
        "train",
        form.work,
        settings,
        machine,
        count=form.size(1, 10) + LEFT_OUT,
        seed=len(tokens),
        shape=shape_of(form.work, settings),
        between=peer_steps,
        clock=form.clock,
        profile=profile,
    )[LEFT_OUT:]
    times.setdefault("ours", []).extend(seconds_of_updates(updates))
    for name, seconds in of_peers.items():
        times.setdefault(name, []).extend(seconds[LEFT_OUT:])
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
