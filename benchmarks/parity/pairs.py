"""Pairs of computations on the same tiny weights and inputs: ours and the authors'.

    .venv-parity/bin/python benchmarks/parity/pairs.py --work build/parity --clones ../authors \\
        --old .venv-parity/transformers-4.2.0

A check gives pairs: our results by name, and a function for theirs. Where our code draws random numbers in
another way, our draws take the place of theirs; each such place says so. Everything is float64 on one thread,
without dropout. parity.py runs this in two environments, in which the inputs are the same. Without clones,
our results are written to `ours.pt` in the work folder; with them, `theirs.pt` (for each check and clone the
results, or what the clone lacks), `versions.pt`, and for frozen.py `inputs.pt`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import runpy
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import datasets
import numpy as np
import torch
import transformers
import yaml
from authors import PASSAGES_PER_QUERY, Authors, Framework, NotThere
from tiny import (
    ALONE,
    COMMON,
    HEAD,
    MAX_TOKENS,
    OPTIMISER,
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    ROOT,
    SEED,
    SHAPE,
    Tiny,
    as_tensors,
    named_as_theirs,
    padded_ids,
    prepare,
    take_gradients,
    whole_batch,
    write_tokens,
)
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.utils.data import SequentialSampler
from transformers import BertTokenizer

import jobs  # isort: skip  (tiny.py puts the folder of benchmarks on the path)

from condenser.data import batches, records
from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.masking import MaskedBatch, mask_tokens
from condenser.data.negatives import make_examples
from condenser.data.randomness import uniforms
from condenser.data.records import Passage
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.data.triples import make_triple_examples
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.devices import set_up
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.settings import Optimiser, partly
from condenser.train import loop
from condenser.train.chunks import Chunk
from condenser.train.gradient_cache import batch_backward
from condenser.train.loop import linear_factor, num_warmup_steps
from condenser.train.masked_texts import MaskedRows
from condenser.train.memory import StepMemory
from condenser.train.pretrain import _backward, condenser_losses

Batch = dict[str, Tensor]
Results = dict[str, Any]
FRAMEWORKS = "dense", "tevatron"
NUM_STEPS = 10  # of the optimiser
MASK_PROBABILITY, NUM_MASKINGS = COMMON["mask_probability"], 40
NUM_EPOCHS, DEPTH, SAMPLE, NUM_ASKED, NUM_LISTED = 7, 50, 30, 12, 200  # of negatives; queries, passages


class Pair(NamedTuple):
    """Our results of a check, and a function for theirs: of luyug/Condenser, or of each framework."""

    name: str
    ours: Results
    theirs: Callable[[Any], Results]
    frameworks: Sequence[str] = ()


# ---- pre-training: luyug/Condenser and luyug/GradCache -------------------------------------------


def split_labels(batch: Batch) -> tuple[Batch, Tensor]:
    inputs = dict(batch)
    return inputs, inputs.pop("labels")


def condenser(tiny: Tiny) -> Iterator[Pair]:
    """Losses and gradients of a batch of blocks, ours in chunks of similar length."""
    training = tiny.objective("condenser")
    texts = tiny.batch(training, 0, size=16, chunk=5)
    batch = tiny.inputs["condenser"] = whole_batch(texts)
    figures = _backward(training, ALONE, precision="fp32")(texts, 1.0)
    losses = {name: figures[name] for name in ("loss", "head_mlm", "late_mlm")}
    losses["loss of two parts"] = figures["loss"]

    def theirs(authors: Authors) -> Results:
        model = authors.condenser("CondenserForPretraining")
        loss = model(*split_labels(batch))
        loss.backward()
        found = take_gradients(model.named_parameters())
        with torch.no_grad():
            parts = [model(*split_labels({k: v.chunk(2)[n] for k, v in batch.items()})) for n in (0, 1)]
            model.model_args.late_mlm = False
            head = model(*split_labels(batch))
        late = {"late_mlm": loss.detach() - head, "loss of two parts": sum(parts) / 2}
        return {"loss": loss, "head_mlm": head, **late, **found}

    yield Pair("condenser", losses | take_gradients(named_as_theirs(training.model)), theirs)


def cocondenser(tiny: Tiny) -> Iterator[Pair]:
    """Losses and gradients of spans: with all graphs, with the gradient cache, in two processes there."""
    texts = tiny.batch(tiny.objective("cocondenser"), 0, size=8, chunk=6)
    batch = tiny.inputs["cocondenser"] = whole_batch(texts)

    def step(**changes: Any) -> tuple[Condenser, Mapping[str, Any], Batch]:
        training = tiny.objective("cocondenser", **changes)
        figures = _backward(training, ALONE, precision="fp32")(texts, 1.0)
        return training.model, figures, take_gradients(named_as_theirs(training.model))

    _, figures, gradients = step()
    contrastive, mlm = figures["contrastive"], figures["head_mlm"] + figures["late_mlm"]
    losses = {"loss": figures["loss"], "contrastive": contrastive, "mlm": mlm}

    def theirs(authors: Authors) -> Results:
        model, loss, contrastive = cocondenser_with_loss(authors, batch)
        loss.backward()
        losses = {"loss": loss, "contrastive": contrastive, "mlm": loss - contrastive}
        return losses | take_gradients(model.named_parameters())

    yield Pair("cocondenser", losses | gradients, theirs)

    def half_in_each(authors: Authors) -> Results:
        spawn(_one_of_two, args=(authors, batch), nprocs=2)
        return dict(torch.load(authors.work / "two_processes.pt"))

    _, figures, gradients = step(mlm_weight=0.0)
    yield Pair(
        "two_processes", {"contrastive": figures["contrastive"], "mlm": mlm, **gradients}, half_in_each
    )

    model, figures, gradients = step(gradient_cache="always", mlm_weight=2.0)
    ours = {"loss": figures["loss"], "mlm weight": 1.0, **gradients}
    yield Pair("cache_one_chunk", ours, partial(cached_step, batch=batch, chunk_size=16))
    parts = batch_backward(
        list(their_chunks(batch, size=6)),
        lambda chunk: model.represent(chunk.inputs.rows),
        span_contrastive_loss,
        num_rows=texts.num_rows, width=SHAPE["hidden_size"],
        encode_with_losses=partial(weighed_as_theirs, model, num_documents=8), loss_names=["mlm"],
        keep_graphs=False, memory=StepMemory(model, keeps_graphs=False), processes=ALONE, scale=1.0,
    )  # fmt: skip
    ours = {"loss": sum(parts.values()), "mlm weight": 1.0, **take_gradients(named_as_theirs(model))}
    yield Pair("cache_three_chunks", ours, partial(cached_step, batch=batch, chunk_size=6))


def cocondenser_with_loss(authors: Authors, batch: Batch) -> tuple[Any, Tensor, Tensor]:
    """Their coCondenser, its loss of a batch, and the contrastive part of that."""
    num_documents = len(batch["labels"]) // 2
    model = authors.condenser("CoCondenserForPretraining", per_device_train_batch_size=num_documents)
    inputs, labels = split_labels(batch)
    states = model.lm(**inputs, output_hidden_states=True).hidden_states[-1][:, 0]
    if distributed.is_initialized():
        model.train_args.local_rank = distributed.get_rank()
        states = model.gather_tensors(states.contiguous())[0]
    return model, model(inputs, labels), model.compute_contrastive_loss(states)


def _one_of_two(rank: int, authors: Authors, batch: Batch) -> None:
    """Half of the documents in each of two processes; gradients are averaged, as by their DDP."""
    torch.set_num_threads(1)
    meeting = f"file://{authors.work.resolve()}/meeting"
    distributed.init_process_group("gloo", meeting, rank=rank, world_size=2)
    half = {name: value.chunk(2)[rank] for name, value in batch.items()}
    model, loss, contrastive = cocondenser_with_loss(authors, half)
    contrastive.backward()
    found = take_gradients(model.named_parameters())
    mlm = (loss - contrastive).detach()
    for value in (*found.values(), mlm):
        distributed.all_reduce(value)
        value /= 2
    if rank == 0:  # the loss is multiplied by the processes because gradients are averaged
        found |= {"contrastive": contrastive.detach() / 2, "mlm": mlm}
        torch.save(found, authors.work / "two_processes.pt")
    distributed.destroy_process_group()


def cached_step(authors: Authors, *, batch: Batch, chunk_size: int) -> Results:
    """A step of their trainer with the gradient cache."""
    authors.module("grad_cache.grad_cache", "GradCache/src")

    class Pretrainer(authors.module("trainer").CoCondenserPretrainer):  # attributes of 4.2.0's Trainer
        scaler, use_amp, use_apex, deepspeed = None, False, False, None

    model, plain, contrastive = cocondenser_with_loss(authors, batch)
    arguments = authors.training_arguments(
        authors.module("arguments").CoCondenserPreTrainingArguments, cache_chunk_size=chunk_size,
        per_device_train_batch_size=len(batch["labels"]) // 2,
    )  # fmt: skip
    trainer = Pretrainer(model=model, args=arguments)
    arguments.local_rank = -1
    loss = trainer.training_step(model, dict(batch))
    weight = (loss - contrastive) / (plain - contrastive)
    return {"loss": loss, "mlm weight": weight, **take_gradients(model.named_parameters())}


def their_chunks(batch: Batch, *, size: int) -> Iterator[Chunk[Any]]:
    """The rows of a batch in its order, `size` at a time; our own chunks are of similar length."""
    for number, rows in enumerate(torch.arange(len(batch["labels"])).split(size)):
        ids, is_token, labels = (part[rows].numpy() for part in batch.values())
        texts, masked = Rows.of(ids, is_token.sum(1)), np.nonzero(labels >= 0)
        inputs = MaskedRows(texts, texts.chosen(*masked), torch.from_numpy(labels[masked]))
        yield Chunk("spans", rows, inputs, number)


def weighed_as_theirs(
    model: Condenser, chunk: Chunk[MaskedRows], *, num_documents: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Vectors and losses of a chunk: its mean over masked tokens times its rows over the documents."""
    vectors, losses = condenser_losses(model, chunk.inputs)
    weight = len(vectors) / num_documents / len(chunk.inputs.labels)
    return vectors, {"mlm": weight * (losses["head_mlm"] + losses["late_mlm"])}


# ---- masks and blocks: luyug/Condenser -----------------------------------------------------------


def mask(
    tokenizer: Tokenizer, ids: np.ndarray, items: np.ndarray, epoch: int
) -> tuple[MaskedBatch, np.ndarray]:
    """Our masked batch, and where it is masked [text, token]."""
    batch = mask_tokens(
        ids, is_continuation=tokenizer.is_continuation, random_ids=tokenizer.random_ids,
        mask_id=tokenizer.mask_id, probability=MASK_PROBABILITY, max_predictions=ids.shape[1],
        positions=items, seed=SEED, epoch=epoch,
    )  # fmt: skip
    is_masked = np.zeros(ids.size, dtype=bool)
    is_masked[batch.masked_positions] = True
    return batch, is_masked.reshape(ids.shape)


def collator(authors: Authors) -> Any:
    """Their collator; `mask_tokens` is the name that 4.2.0 gave to `torch_mask_tokens`."""
    random.seed(1)
    torch.manual_seed(1)
    collate = authors.module("data").CondenserCollator(
        tokenizer=BertTokenizer(str(authors.model / "vocab.txt")), mlm_probability=MASK_PROBABILITY,
        max_seq_length=MAX_TOKENS + 2,
    )  # fmt: skip
    collate.mask_tokens = collate.torch_mask_tokens
    return collate


def masking(tiny: Tiny) -> Iterator[Pair]:
    """Which tokens are masked when words come in the same order, and shares over many draws."""
    tokenizer, shards = tiny.tokenizer, tiny.shards
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.1, seed=SEED)
    items = np.flatnonzero(blocks.lengths <= MAX_TOKENS)
    ids, lengths = batches.pack_texts(shards, blocks.starts[items], blocks.lengths[items], tokenizer)
    order = uniforms(SEED, "mask order", 0, items, columns=ids.shape[1])
    special = set(range(SHAPE["vocab_size"])) - {tokenizer.mask_id, *tokenizer.random_ids.tolist()}

    def figures(is_masked: np.ndarray, pairs: Iterable[tuple[Any, Any]]) -> Results:
        """Of `is_masked` [text, token] counts, and of new and original ids of masked tokens shares.

        Shares: of all tokens; of [MASK], another token and the same; of special tokens among the others.
        """
        new, old = (np.concatenate([np.asarray(ids) for ids in each]) for each in zip(*pairs, strict=True))
        is_mask, is_same = new == tokenizer.mask_id, new == old
        actions = np.array([is_mask.sum(), (~is_mask & ~is_same).sum(), is_same.sum()])
        return {
            "positions": is_masked.astype(np.int64),
            "counts": is_masked.sum(axis=1),
            "share of tokens": len(new) / float(NUM_MASKINGS * (lengths - 2).sum()),
            "shares of actions": actions / actions.sum(),
            "specials among random tokens": float(np.isin(new, list(special)).sum() / actions[1]),
        }

    def theirs(authors: Authors) -> Results:
        collate, is_masked = collator(authors), np.zeros_like(ids)
        texts = [
            {"text": of_row[1 : length - 1].tolist()} for of_row, length in zip(ids, lengths, strict=True)
        ]
        collated = [collate(texts) for _ in range(NUM_MASKINGS)]
        chosen = [(batch, batch["labels"] >= 0) for batch in collated]
        for row, text in enumerate(texts):
            tokens = collate.tokenizer.convert_ids_to_tokens(text["text"])

            def in_our_order(words: list[list[int]], ranks: np.ndarray = order[row, 1:]) -> None:
                words.sort(key=lambda word: ranks[word[0]])

            with mock.patch.object(random, "shuffle", in_our_order):
                is_masked[row, 1 : len(tokens) + 1] = collate._whole_word_mask(tokens)
        return figures(is_masked, [(batch["input_ids"][at], batch["labels"][at]) for batch, at in chosen])

    masked = (mask(tokenizer, ids, items, epoch)[0] for epoch in range(NUM_MASKINGS))
    pairs = ((batch.input_ids.ravel()[batch.masked_positions], batch.labels) for batch in masked)
    yield Pair("masking", figures(mask(tokenizer, ids, items, 0)[1], pairs), theirs)


def long_blocks(tiny: Tiny) -> Iterator[Pair]:
    """Blocks of one over-long sentence: words of which only some pieces are masked."""
    tokenizer = tiny.tokenizer
    texts = [" ".join(tiny.passages[row].text.replace(".", "").split()[:60]) for row in range(40)]
    shards = write_tokens(tiny.work, "long", [Passage("", "", text) for text in texts], tokenizer)
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.0, seed=SEED)
    items = np.flatnonzero(blocks.lengths > MAX_TOKENS)

    def broken_words(ids: np.ndarray, is_masked: np.ndarray) -> Results:
        """Continuations of which either they or the piece before them is masked, and not both.

        The first piece of a window, behind [CLS], begins a word on both sides.
        """
        inside = tokenizer.is_continuation[ids[:, 2:]]
        return {"words masked in part": float((inside & (is_masked[:, 2:] != is_masked[:, 1:-1])).sum())}

    def theirs(authors: Authors) -> Results:
        whole = [read_ids(shards, blocks.starts[item], blocks.lengths[item]) for item in items]
        batch = collator(authors)([{"text": ids} for ids in whole])
        ids, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
        return broken_words(np.where(labels >= 0, labels, ids), labels >= 0)

    starts, lengths = block_windows(blocks, items, max_tokens=MAX_TOKENS, seed=SEED, epoch=0)
    ids, _ = batches.pack_texts(shards, starts, lengths, tokenizer)
    yield Pair("long_blocks", broken_words(ids, mask(tokenizer, ids, items, 0)[1]), theirs)


def read_ids(shards: TokenShards, start: int, length: int) -> list[int]:
    ids: list[int] = shards.read(np.array([start]), np.array([length]), width=length, fill=0)[0].tolist()
    return ids


class Draws:
    """Our sentences in place of NLTK's; our draws: for each block a number, and the place of its target."""

    def __init__(self, sentences: list[Any], draws: list[Any]) -> None:
        self._sentences, self._draws = sentences, draws

    def split(self, line: str) -> Any:
        self._waiting = iter(self._draws[int(line)])
        return self._sentences[int(line)]

    def random(self) -> float:
        number, self._place = next(self._waiting, (1.0, 0.0))
        return float(number)

    def randint(self, low: int, high: int) -> int:
        return low + int(self._place * (high - low + 1))


def blocks(tiny: Tiny) -> Iterator[Pair]:
    """Blocks of sentences: one target length, and with one short target in ten (or half), drawn by us."""
    shards, ours, draws = tiny.shards, Results(), {}
    firsts = pairwise(shards.first_sentence.tolist())
    bounds = [shards.sentence_starts[first + 1 : end + 1].tolist() for first, end in firsts]
    sentences = [[read_ids(shards, a, b - a) for a, b in pairwise(of_row)] for of_row in bounds]
    for probability in (0.0, 0.1, 0.5):
        packed = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=probability, seed=SEED)
        rows = np.searchsorted(shards.row_starts, packed.starts, side="right") - 1
        ours[f"rows {probability}"], ours[f"lengths {probability}"] = rows, packed.lengths
        first_ids = shards.read(packed.starts, np.ones_like(packed.starts), width=1, fill=0)[:, 0]
        ours[f"first ids {probability}"] = first_ids
        # sentence 0 of a row is its title: a block opens at one of the others
        opening = np.searchsorted(shards.sentence_starts, packed.starts, side="right") - 1
        drawn = uniforms(SEED, "block targets", 0, opening, columns=2)
        draws[probability] = Draws(sentences, [drawn[rows == row].tolist() for row in range(len(sentences))])

    def theirs(authors: Authors) -> Results:
        script = authors.clone_file("Condenser/helper/create_train.py")
        results, source = Results(), authors.work / "blocks.txt"
        source.write_text("".join(f"{row}\n" for row in range(len(sentences))))
        row_of = np.repeat(np.arange(len(sentences)), [sum(map(len, row)) for row in sentences])
        arguments = [str(script), "--file", str(source), "--save_to", str(authors.work)]
        arguments += ["--tokenizer_name", "none", "--max_len", str(MAX_TOKENS + 2), "--short_sentence_prob"]
        # sentences are token ids: tokenizers are compared elsewhere
        tokenizer = mock.Mock(side_effect=lambda sentence, **_: {"input_ids": sentence})
        tokenizer.num_special_tokens_to_add.return_value = 2
        pool = mock.MagicMock()  # one process: our draws must meet the rows that they belong to
        pool().__enter__().imap_unordered = lambda function, lines, chunksize: map(function, lines)
        for probability, drawn in draws.items():
            nltk = SimpleNamespace(download=lambda *_, **__: None, sent_tokenize=drawn.split)
            with (
                mock.patch.object(sys, "argv", [*arguments, str(probability)]),
                mock.patch.dict(sys.modules, {"nltk": nltk}),
                mock.patch("multiprocessing.Pool", pool),
                mock.patch.object(transformers.AutoTokenizer, "from_pretrained", return_value=tokenizer),
                mock.patch.multiple(random, random=drawn.random, randint=drawn.randint),
            ):
                runpy.run_path(str(script), run_name="__main__")
            lines = (authors.work / "blocks.txt.json").read_text().splitlines()
            found = [json.loads(line)["text"] for line in lines]
            flat = [token for row in sentences for sentence in row for token in sentence]
            assert [token for block in found for token in block] == flat, "every sentence is in one block"
            results[f"rows {probability}"] = row_of[np.cumsum([0, *map(len, found)])[:-1]]
            results[f"lengths {probability}"] = np.array([len(block) for block in found])
            results[f"first ids {probability}"] = np.array([block[0] for block in found])
        return results

    yield Pair("blocks", ours, theirs)


# ---- fine-tuning and encoding: luyug/Dense and texttron/tevatron ---------------------------------


def finetuning(tiny: Tiny) -> Iterator[Pair]:
    """Draws of positives and negatives in each epoch; loss and gradients of one batch."""
    texts = [" ".join(tiny.passages[item].text.split()[3:20]) for item in range(8)]
    positives = [list(range(item, item + 1 + item % 3)) for item in range(8)]
    negatives = [[(7 * item + 5 * k) % 90 + 20 for k in range(2 + item)] for item in range(8)]
    draws = [uniforms(SEED, "negatives", 0, np.array([item]), columns=2 + item)[0] for item in range(8)]

    def drawn(epoch: int, item: int) -> list[int]:
        positive = batches.positive_index(item, len(positives[item]), seed=SEED, epoch=epoch)
        draw = {"seed": SEED, "item": item, "epoch": epoch}
        window = batches.negative_window(len(negatives[item]), PASSAGES_PER_QUERY - 1, **draw)
        return [positives[item][positive], *(negatives[item][index] for index in window)]

    rows = [np.concatenate([drawn(epoch, item) for item in range(8)]) for epoch in range(NUM_EPOCHS)]
    queries = tiny.group("queries", [Passage("", "", text) for text in texts], QUERY_LENGTH, False)
    passages = tiny.group("passages", tiny.passages, PASSAGE_LENGTH, True)
    ours: Results = {
        "query ids": padded_ids(queries, np.arange(8)),
        "passage ids": torch.stack([padded_ids(passages, of_epoch) for of_epoch in rows]),
    }
    vectors = tiny.retriever()
    vectors.model.train()
    chunks = [
        chunk
        for group, of_group in ((queries, np.arange(8)), (passages, rows[1]))
        for chunk in group.chunks(of_group, step=0, numbers=range)[0]
    ]
    for name in ("plain", "cache"):
        losses = batch_backward(
            chunks, lambda chunk: vectors.encode(chunk.group, chunk.inputs), in_batch_loss,
            num_rows={"queries": 8, "passages": len(rows[1])}, width=vectors.dim,
            memory=StepMemory(vectors.model, keeps_graphs=name == "plain"), processes=ALONE, scale=1.0,
        )  # fmt: skip
        ours[f"{name}: loss"] = losses["batch"]
        ours |= take_gradients(vectors.encoders["queries"].backbone.named_parameters(), f"{name}: grad/")

    class Shuffler:  # their seed of an item is item + seed
        def __init__(self, number: int) -> None:
            self.order = np.argsort(draws[number - SEED])

        def shuffle(self, values: list[Any]) -> None:
            values[:] = [values[index] for index in self.order]

    def theirs(framework: Framework) -> Results:
        trainer = SimpleNamespace(args=SimpleNamespace(seed=SEED), state=SimpleNamespace(epoch=0))
        dataset = framework.train_set(titled(tiny.passages), texts, positives, negatives, trainer)
        data, found = framework.module("data"), []
        collate = data.QPCollator(framework.tokenizer, max_q_len=QUERY_LENGTH, max_p_len=PASSAGE_LENGTH)
        with mock.patch.object(data, "random", SimpleNamespace(Random=Shuffler, choices=random.choices)):
            for trainer.state.epoch in range(NUM_EPOCHS):
                found.append(collate([dataset[item] for item in range(len(dataset))]))
        passage_ids = torch.stack([passages["input_ids"] for _, passages in found])
        results = {"query ids": found[0][0]["input_ids"], "passage ids": passage_ids}

        model, (queries, passages) = framework.model(len(dataset)), found[1]
        loss = model(query=queries, passage=passages).loss
        loss.backward()
        results |= {"plain: loss": loss, **take_gradients(model.lm_q.named_parameters(), "plain: grad/")}

        framework.authors.module("grad_cache.grad_cache", "GradCache/src")

        class Trainer(framework.module("trainer").GCTrainer):
            scaler = None  # an attribute of 4.2.0's Trainer

        arguments = framework.training_arguments(gc_q_chunk_size=3, gc_p_chunk_size=7)
        cached = Trainer(model=model, args=arguments)
        cached.args.local_rank = -1
        loss = cached.training_step(model, (dict(queries), dict(passages)))
        gradients = take_gradients(model.lm_q.named_parameters(), "cache: grad/")
        return results | {"cache: loss": loss, **gradients}

    def steps(framework: Framework) -> Results:
        trainer = framework.named("trainer", "DenseTrainer", "TevatronTrainer")(
            model=nn.Linear(1, 1), args=framework.training_arguments(per_device_train_batch_size=3),
            train_dataset=[0] * 8, data_collator=list,
        )  # fmt: skip
        return {"steps of an epoch": float(len(trainer.get_train_dataloader()))}

    yield Pair("finetuning", ours, theirs, FRAMEWORKS)
    num_steps = float(batches.num_steps(8, batch_size=3, epochs=1))
    yield Pair("batches", {"steps of an epoch": num_steps}, steps, FRAMEWORKS)


def titled(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in passages]


def encodings(tiny: Tiny) -> Iterator[Pair]:
    """Vectors of passages with and without a title: in float64, and by `encode_texts`."""
    model = tiny.retriever().encoders["passages"].eval()
    has_title = torch.tensor([bool(passage.title) for passage in tiny.passages])
    ours: Results = {}
    for name, separator in (("always", True), ("titled", False)):
        passages = tiny.group(name, tiny.passages, PASSAGE_LENGTH, separator)
        vectors = torch.empty(len(has_title), model.dim, dtype=torch.float64)
        with torch.no_grad():
            for chunk in passages.chunks(np.arange(len(has_title)), step=0, numbers=range)[0]:
                vectors[chunk.rows] = model(chunk.inputs.rows)
        ours |= {f"titled, {name}": vectors[has_title], f"untitled, {name}": vectors[~has_title]}
    model.float().save(tiny.work / "encoder", tiny.backbone)
    ours["all, float32"] = jobs.encode(
        tiny.work / "encoder", tiny.work / "tokens" / "always",
        set_up(device="cpu", precision="fp32", threads=1),
        max_tokens=PASSAGE_LENGTH, batch_tokens=512, block_rows=32,
    )  # fmt: skip

    def theirs(framework: Framework) -> Results:
        batch, model = framework.encoded(titled(tiny.passages)), framework.model(1).eval()
        with torch.no_grad():
            vectors, single = model(passage=batch).p_reps, model.float()(passage=batch).p_reps
        parts = {"titled": vectors[has_title], "untitled": vectors[~has_title]}
        both = {f"{part}, {name}": parts[part] for name in ("always", "titled") for part in parts}
        return both | {"all, float32": single}

    yield Pair("encodings", ours, theirs, FRAMEWORKS)


def csv(tiny: Tiny) -> Iterator[Pair]:
    """The same passages encoded, and as training rows, which their preprocessor reads as CSV."""
    quoted = ['the function "returns" a graph', '"maximum clique" of a graph', "a set of nodes"]
    passages = [Passage("", "", text) for text in quoted]
    ids = padded_ids(tiny.group("quoted", passages, PASSAGE_LENGTH, True), np.arange(3))

    def parts(encoding: Tensor, training: Tensor) -> Results:
        others = {"training, quotes": training[1:2], "training, others": training[[0, 2]]}
        return {"encoding": encoding, **others}

    def theirs(framework: Framework) -> Results:
        dataset = framework.train_set(titled(passages), ["graph"], [[0, 1, 2]], [[0]])
        items = [dataset.create_one_example(ids) for ids in dataset.train_data[0]["positives"]]
        padding = {"padding": "max_length", "max_length": PASSAGE_LENGTH, "return_tensors": "pt"}
        training = framework.tokenizer.pad(items, **padding)["input_ids"]
        return parts(framework.encoded(titled(passages))["input_ids"], training)

    yield Pair("csv", parts(ids, ids), theirs, FRAMEWORKS)


# ---- negatives: luyug/Dense and texttron/tevatron ------------------------------------------------


def listed(doc_ids: Mapping[str, Iterable[str]]) -> np.ndarray:
    """Whether a query lists a passage [query, passage]."""
    flags = np.zeros((NUM_ASKED, NUM_LISTED), dtype=np.int64)
    for query_id, ids in doc_ids.items():
        flags[int(query_id), [int(doc_id) for doc_id in ids]] = 1
    return flags


def negatives(tiny: Tiny) -> Iterator[Pair]:
    """Candidates for hard negatives of a run, and negatives of triples."""
    draw, folder = np.random.default_rng(SEED), tiny.work / "mining"
    folder.mkdir()
    ranked = {str(q): draw.permutation(NUM_LISTED)[:60].astype(str).tolist() for q in range(NUM_ASKED)}
    judged = {q: [hits[k] for k in range(int(q) % 4 + 1)] + ["900"] for q, hits in ranked.items()}
    queries, qrels = folder / "queries.jsonl", folder / "qrels.tsv"
    records.write_queries(queries, [records.Query(q, f"query {q}") for q in ranked])
    records.write_qrels(
        qrels, [records.Qrel(q, doc_id, 1) for q, doc_ids in judged.items() for doc_id in doc_ids]
    )

    def examples() -> dict[str, Sequence[str]]:
        found = records.read_examples(folder / "examples.jsonl")
        return {example.query_id: example.negative_doc_ids for example in found}

    def candidates(length: int, *, sample: int) -> np.ndarray:
        hits = (
            records.ScoredDoc(q, doc_id, 100.0 - rank)
            for q, doc_ids in ranked.items()
            for rank, doc_id in enumerate(doc_ids[:length])
        )
        records.write_run(folder / "run.trec", hits, system="parity")
        make_examples(
            folder / "run.trec", queries, qrels, folder / "examples.jsonl", depth=DEPTH, sample=sample,
            relevant_grade=1, positive_in_run=False, margin=None, wanted=None, seed=SEED,
        )  # fmt: skip
        return listed(examples())

    def mined(framework: Framework) -> Results:
        """Their candidates: the shuffle before the sample leaves the set of them as it is."""
        load_ranking = framework.script_function("build_train_hn.py", "load_ranking")
        hits = ((q, doc_id, rank) for q, doc_ids in ranked.items() for rank, doc_id in enumerate(doc_ids))
        file = tiny.work / f"{framework.name}.ranking.txt"
        file.write_text("".join(f"{q}\t{doc_id}\t{100 - rank}\n" for q, doc_id, rank in hits))
        # theirs keeps the first that are not positive, whatever the depth of the search was
        deep, sampled = (
            listed({query: ids for query, _, ids in load_ranking(file, judged, sample, DEPTH)})
            for sample in (DEPTH, SAMPLE)
        )
        counts = {"candidates, cut": deep.sum(axis=1), "sampled": sampled.sum(axis=1)}
        return {"candidates, deep": deep, **counts}

    ours = {
        "candidates, deep": candidates(60, sample=DEPTH),
        "candidates, cut": candidates(DEPTH, sample=DEPTH).sum(axis=1),
        "sampled": candidates(60, sample=SAMPLE).sum(axis=1),
    }
    yield Pair("mining", ours, mined, FRAMEWORKS)

    triples = [(q, doc_id) for q, hits in ranked.items() for doc_id in hits[4:20]]
    triples += [(q, judged[q][-1]) for q in ranked]  # judged positive
    triples += [(q, ranked[q][5]) for q in ranked]  # named twice
    triples.sort()
    with gzip.open(folder / "triples.tsv.gz", "wt", newline="") as file:
        file.writelines(f"{q}\t{judged[q][0]}\t{negative}\r\n" for q, negative in triples)
    make_triple_examples(
        folder / "triples.tsv.gz", queries, qrels, folder / "examples.jsonl", sample=SAMPLE, wanted=None,
        relevant_grade=1, seed=SEED, official_rows=len(triples),
    )  # fmt: skip

    def figures(chosen: Mapping[str, Sequence[str]]) -> Results:
        """The negatives, and how many are judged positive or named again."""
        return {
            "negatives": listed({query: set(ids) - set(judged[query]) for query, ids in chosen.items()}),
            "judged positive": np.array([sum(d in judged[q] for d in chosen[q]) for q in ranked]),
            "listed again": np.array([len(chosen[q]) - len(set(chosen[q])) for q in ranked]),
        }

    def of_triples(framework: Framework) -> Results:
        """Negatives of a query's triples. get_data.sh joins them with commas, one line a query."""
        of_query = defaultdict[str, list[str]](list)
        for query, negative in triples:
            of_query[query].append(negative)
        names = {"qrel": judged, "args": SimpleNamespace(n_sample=SAMPLE)}
        read_line = framework.script_function("build_train.py", "read_line", **names)
        rows = (read_line(f"{query}\t{','.join(doc_ids)}\n") for query, doc_ids in of_query.items())
        return figures({query: ids for query, _, ids in rows})

    yield Pair("triples", figures(examples()), of_triples, FRAMEWORKS)


# ---- the optimiser -------------------------------------------------------------------------------


def optimiser(tiny: Tiny) -> Iterator[Pair]:
    """Ten updates of a Condenser: by our loop, by their Trainer, and by the AdamW of transformers 4.2.0."""
    training = tiny.objective("condenser")
    texts = [tiny.batch(training, step, size=6, chunk=6) for step in range(NUM_STEPS)]
    steps = tiny.inputs["steps"] = [whole_batch(each) for each in texts]

    def movement(
        before: Batch, named: Iterable[tuple[str, nn.Parameter]], decaying: Mapping[str, Any]
    ) -> Results:
        """How far weights moved, and whether they are in the group of those that decay."""
        weights, decayed = dict(named), {id(weight) for weight in decaying["params"]}
        moved = {f"moved/{name}": weight - before[name] for name, weight in weights.items()}
        return moved | {f"decays/{name}": float(id(weight) in decayed) for name, weight in weights.items()}

    def updates(weight_decay: float) -> tuple[Results, Results]:
        """The losses, norms and rates of each update; and what moved."""
        training, done = tiny.objective("condenser"), list[loop.StepRecord]()
        before = as_tensors(dict(named_as_theirs(training.model)))
        lengths = {"batch_size": 6, "drop_last": False, "epochs": None, "updates": NUM_STEPS}
        folder = tiny.work / f"loop, {weight_decay}"
        folder.mkdir()
        run = loop.Run(
            settings=partly(Optimiser, {**OPTIMISER, **lengths, "weight_decay": weight_decay}), seed=SEED,
            precision="fp32", processes=ALONE, fingerprint="parity", work_folder=folder,
            checkpoint_every_s=3600, checkpoints_kept=1, bad_loss_patience=0, on_step=done.append,
        )  # fmt: skip
        batch = partial(loop.Batch, epoch=0, num_items=6, num_tokens=0, ids=dict, num_in_epoch=6)
        works = (lambda step: batch(texts[step])), _backward(training, ALONE, precision="fp32")
        loop.train(loop.Trainable("parity", training.model, 6, *works, save=print, counts={}), run)
        figures = [[record.losses["loss"], record.grad_norm, record.learning_rate] for record in done]
        columns = torch.tensor(figures, dtype=torch.float64).T
        decaying = loop.weight_groups(training.model, weight_decay=1.0)[0]
        series = dict(zip(("losses", "norms", "rates"), columns, strict=True))
        return series, movement(before, named_as_theirs(training.model), decaying)

    def by_trainer(authors: Authors) -> Results:
        """Their Trainer on transformers 4.57, whose AdamW is PyTorch's."""
        model = authors.condenser("CondenserForPretraining")
        before = as_tensors(dict(model.named_parameters()))
        seen: dict[str, list[float]] = {"losses": [], "rates": []}

        class Trainer(authors.module("trainer").CondenserPreTrainer):
            def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:  # 4.57 passes more
                loss = super().compute_loss(model, inputs)
                seen["losses"].append(loss.item())
                seen["rates"].append(self.optimizer.param_groups[0]["lr"])
                return loss

            def _get_train_sampler(self, *_: Any) -> Any:  # our order of batches
                return SequentialSampler(self.train_dataset)

        arguments = authors.training_arguments(
            authors.module("arguments").CondenserPreTrainingArguments, per_device_train_batch_size=1,
            num_train_epochs=1, **OPTIMISER,
        )  # fmt: skip
        arguments.set_logging("steps", steps=1)  # of gradient norms; losses are rounded there
        data = {"train_dataset": steps, "data_collator": lambda rows: dict(rows[0])}
        trainer = Trainer(model=model, args=arguments, **data)
        trainer.train()
        seen["norms"] = [entry["grad_norm"] for entry in trainer.state.log_history[:NUM_STEPS]]
        series = {name: torch.tensor(values, dtype=torch.float64) for name, values in seen.items()}
        return series | movement(before, model.named_parameters(), trainer.optimizer.param_groups[0])

    def by_old_adamw(authors: Authors, *, mend_epsilon: bool) -> Results:
        """The AdamW that the authors' runs had, grouped by 4.2.0's Trainer's rule.

        With `mend_epsilon`, epsilon is made smaller by the bias correction before each step, and weight
        decay is off: what is then left must be PyTorch's AdamW.
        """
        old, model = authors.old_optimisation(), authors.condenser("CondenserForPretraining")
        before = as_tensors(dict(model.named_parameters()))
        rates = 0.0 if mend_epsilon else OPTIMISER["weight_decay"], 0.0
        groups: list[dict[str, Any]] = [{"params": [], "weight_decay": rate} for rate in rates]
        for name, weight in model.named_parameters():
            is_spared = any(part in name for part in ("bias", "LayerNorm.weight"))  # trainer.py of 4.2.0
            groups[is_spared]["params"].append(weight)
        adamw = old.AdamW(groups, lr=OPTIMISER["learning_rate"], betas=(0.9, 0.999), eps=1e-8)
        num_warmup = NUM_STEPS * OPTIMISER["warmup_ratio"]
        schedule = old.get_linear_schedule_with_warmup(adamw, num_warmup, NUM_STEPS)
        for step, batch in enumerate(steps):
            model.zero_grad()
            model(*split_labels(batch)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), OPTIMISER["max_grad_norm"])
            if mend_epsilon:
                for group in adamw.param_groups:
                    group["eps"] = 1e-8 * (1 - 0.999 ** (step + 1)) ** 0.5
            adamw.step()
            schedule.step()
        return movement(before, model.named_parameters(), adamw.param_groups[0])

    series, ours = updates(OPTIMISER["weight_decay"])
    yield Pair("trainer", series | ours, by_trainer)
    yield Pair("adamw", ours, partial(by_old_adamw, mend_epsilon=False))
    yield Pair("adamw_epsilon", updates(0.0)[1], partial(by_old_adamw, mend_epsilon=True))


def schedules(tiny: Tiny) -> Iterator[Pair]:
    """Factors of the learning rate, and the warm-up of fine-tuning."""

    def factors(factor: Callable[[int], float], num_steps: int) -> Results:
        return {"factors": torch.tensor([factor(step) for step in range(num_steps)], dtype=torch.float64)}

    def theirs(authors: Authors, *, num_steps: int) -> Results:
        """By 4.2.0, with the warm-up steps that their pre-trainer asks for."""
        old, kind = authors.old_optimisation(), authors.module("trainer").CondenserPreTrainer
        stand_in = kind.__new__(kind)
        stand_in.args = SimpleNamespace(warmup_ratio=OPTIMISER["warmup_ratio"], warmup_steps=0)
        with mock.patch.object(transformers.Trainer, "create_optimizer_and_scheduler"):
            stand_in.create_optimizer_and_scheduler(num_steps)
        sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        warmup_steps = stand_in.args.warmup_steps
        schedule = old.get_linear_schedule_with_warmup(sgd, warmup_steps, num_steps)
        return factors(schedule.lr_lambdas[0], num_steps)

    for steps in (30, 25):
        warm = num_warmup_steps(steps, warmup_ratio=OPTIMISER["warmup_ratio"])
        ours = factors(partial(linear_factor, num_steps=steps, num_warmup_steps=warm), steps)
        yield Pair(f"schedule_{steps}", ours, partial(theirs, num_steps=steps))

    def warmup(authors: Authors) -> Results:
        """The ratio that reaches the schedule of fine-tuning: 4.2.0 must read it, or Dense itself."""
        authors.old_optimisation()
        files = [authors.old / "transformers" / name for name in ("trainer.py", "training_args.py")]
        files.append(authors.clone_file("Dense/src/dense/trainer.py"))
        is_read = any("warmup_ratio" in file.read_text() for file in files)
        ratio = authors.module("dense.arguments", "Dense/src").DenseTrainingArguments.warmup_ratio
        return {"warm-up of fine-tuning": ratio if is_read else 0.0}

    paper = yaml.safe_load((ROOT / "configs" / "paper.yaml").read_text())
    ratio = float(paper["recipes"]["marco"]["warmup_ratio"])
    yield Pair("warmup", {"warm-up of fine-tuning": ratio}, warmup)


CHECKS = (
    condenser, cocondenser, masking, long_blocks, blocks, finetuning, encodings, csv, negatives, optimiser,
    schedules,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="for files and results")
    parser.add_argument("--clones", type=Path, help="of the authors' code; without, our side is computed")
    parser.add_argument("--old", type=Path, help="transformers 4.2.0, unpacked")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    datasets.config.HF_DATASETS_CACHE = args.work / "cache"
    datasets.disable_progress_bars()
    tiny = prepare(args.work / ("theirs" if args.clones else "ours"))
    pairs = (pair for check in CHECKS for pair in check(tiny))
    results: dict[str, Any]
    if args.clones is None:
        results = {"ours": {pair.name: as_tensors(pair.ours) for pair in pairs}}
    else:
        encoder = tiny.retriever().encoders["queries"].backbone.named_parameters()
        named = named_as_theirs(tiny.objective("condenser").model), encoder
        weights = [as_tensors(dict(each)) for each in named]
        authors = Authors(tiny.work, args.clones.resolve(), args.old, tiny.backbone, *weights)
        theirs = {pair.name: theirs_by_clone(pair, authors) for pair in pairs}
        tiny.inputs.update(weights=weights[0], head=HEAD, optimiser=OPTIMISER)
        versions = {"Python": platform.python_version(), "torch": str(torch.__version__)}
        versions["transformers"] = transformers.__version__
        for clone in ("Condenser", "GradCache", "Dense", "tevatron"):
            log = ["git", "-C", str(authors.clones / clone), "log", "-1", "--format=%H (%cs)"]
            done = subprocess.run(log, capture_output=True, text=True, check=False)
            versions[clone] = done.stdout.strip() or "no git clone"
        results = {"theirs": theirs, "inputs": tiny.inputs, "versions": versions}
    for name, content in results.items():
        torch.save(content, args.work / f"{name}.pt")


def theirs_by_clone(pair: Pair, authors: Authors) -> dict[str, Batch | str]:
    """The authors' results, or what a clone lacks."""
    sides: dict[str, Any] = {name: Framework(authors, name) for name in pair.frameworks}
    found: dict[str, Batch | str] = {}
    for name, side in (sides or {"Condenser": authors}).items():
        try:
            found[name] = as_tensors(pair.theirs(side))
        except NotThere as lack:
            found[name] = str(lack)
    return found


if __name__ == "__main__":
    main()
