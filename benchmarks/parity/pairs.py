"""Pairs of computations on the same tiny weights and inputs: ours and the authors'.

A check gives pairs: our results by name, and a function for theirs. Where our code draws random numbers in
another way, our draws take the place of theirs; each such place says so. Everything is float64 on one thread,
without dropout.
"""

from __future__ import annotations

import json
import random
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
import transformers
from authors import PASSAGES_PER_QUERY, Authors, Dense
from tiny import (
    ALONE,
    COMMON,
    MAX_TOKENS,
    OPTIMISER,
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    SEED,
    Tiny,
    as_tensors,
    named_as_theirs,
    padded_ids,
    take_gradients,
    whole_batch,
)
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.utils.data import SequentialSampler
from transformers import BertTokenizer

from condenser.data import batches
from condenser.data.blocks import pack_blocks
from condenser.data.masking import mask_tokens
from condenser.data.randomness import uniforms
from condenser.data.records import Passage
from condenser.data.tokens import TokenShards
from condenser.loss.contrastive import in_batch_loss
from condenser.settings import Optimiser, partly
from condenser.train import loop
from condenser.train.gradient_cache import batch_backward
from condenser.train.memory import StepMemory
from condenser.train.pretrain import _backward

Batch = dict[str, Tensor]
Results = dict[str, Any]
NUM_STEPS = 10  # of the optimiser
NUM_EPOCHS = 7  # of negatives


class Pair(NamedTuple):
    """Our results of a check, and a function for theirs.

    `allowed` is the largest difference of floats, relative to the largest of theirs; whole numbers are equal.
    """

    name: str
    ours: Results
    theirs: Callable[[Authors], Results]
    allowed: float = 1e-12


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

    def theirs(authors: Authors) -> Results:
        model = authors.condenser("CondenserForPretraining")
        loss = model(*split_labels(batch))
        loss.backward()
        found = take_gradients(model.named_parameters())
        with torch.no_grad():
            model.model_args.late_mlm = False
            head = model(*split_labels(batch))
        return {"loss": loss, "head_mlm": head, "late_mlm": loss.detach() - head, **found}

    yield Pair("condenser", losses | take_gradients(named_as_theirs(training.model)), theirs)


def cocondenser(tiny: Tiny) -> Iterator[Pair]:
    """Losses and gradients of spans: with all graphs, with the gradient cache, in two processes there."""
    texts = tiny.batch(tiny.objective("cocondenser"), 0, size=8, chunk=6)
    batch = tiny.inputs["cocondenser"] = whole_batch(texts)

    def step(*names: str, **changes: Any) -> Results:
        """Losses of these names, and all gradients."""
        training = tiny.objective("cocondenser", **changes)
        figures = dict(_backward(training, ALONE, precision="fp32")(texts, 1.0))
        figures["mlm"] = figures.get("head_mlm", 0.0) + figures.get("late_mlm", 0.0)
        losses = {name: figures[name] for name in names}
        return losses | take_gradients(named_as_theirs(training.model))

    def theirs(authors: Authors) -> Results:
        model, loss, contrastive = cocondenser_with_loss(authors, batch)
        loss.backward()
        losses = {"loss": loss, "contrastive": contrastive, "mlm": loss - contrastive}
        return losses | take_gradients(model.named_parameters())

    yield Pair("cocondenser", step("loss", "contrastive", "mlm"), theirs)

    def half_in_each(authors: Authors) -> Results:
        spawn(_one_of_two, args=(authors, batch), nprocs=2)
        return dict(torch.load(authors.work / "two_processes.pt"))

    yield Pair("two_processes", step("contrastive", mlm_weight=0.0), half_in_each)

    # with the cache in one chunk, theirs weighs the MLM losses 2
    ours = step("loss", gradient_cache="always", mlm_weight=2.0)
    yield Pair("cache", ours, partial(cached_step, batch=batch))


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
    model, _, contrastive = cocondenser_with_loss(authors, half)
    contrastive.backward()
    found = take_gradients(model.named_parameters())
    for value in found.values():
        distributed.all_reduce(value)
        value /= 2
    if rank == 0:  # the loss is multiplied by the processes because gradients are averaged
        found["contrastive"] = contrastive.detach() / 2
        torch.save(found, authors.work / "two_processes.pt")
    distributed.destroy_process_group()


def cached_step(authors: Authors, *, batch: Batch) -> Results:
    """A step of their trainer with the gradient cache in one chunk."""
    authors.module("grad_cache.grad_cache", "GradCache/src")

    class Pretrainer(authors.module("trainer").CoCondenserPretrainer):  # attributes of 4.2.0's Trainer
        scaler, use_amp, use_apex, deepspeed = None, False, False, None

    model, _, _ = cocondenser_with_loss(authors, batch)
    arguments = authors.training_arguments(
        authors.module("arguments").CoCondenserPreTrainingArguments, cache_chunk_size=len(batch["labels"]),
        per_device_train_batch_size=len(batch["labels"]) // 2,
    )  # fmt: skip
    trainer = Pretrainer(model=model, args=arguments)
    arguments.local_rank = -1
    loss = trainer.training_step(model, dict(batch))
    return {"loss": loss, **take_gradients(model.named_parameters())}


# ---- masks and blocks: luyug/Condenser -----------------------------------------------------------


def masking(tiny: Tiny) -> Iterator[Pair]:
    """Which tokens are masked [text, token] when words come in the same order."""
    tokenizer, shards = tiny.tokenizer, tiny.shards
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.1, seed=SEED)
    items = np.flatnonzero(blocks.lengths <= MAX_TOKENS)
    ids, lengths = batches.pack_texts(shards, blocks.starts[items], blocks.lengths[items], tokenizer)
    order = uniforms(SEED, "mask order", 0, items, columns=ids.shape[1])
    masked = mask_tokens(
        ids, is_continuation=tokenizer.is_continuation, random_ids=tokenizer.random_ids,
        mask_id=tokenizer.mask_id, probability=COMMON["mask_probability"], max_predictions=ids.shape[1],
        positions=items, seed=SEED, epoch=0,
    )  # fmt: skip
    ours = np.zeros(ids.size, dtype=np.int64)
    ours[masked.masked_positions] = 1

    def theirs(authors: Authors) -> Results:
        collate = authors.module("data").CondenserCollator(
            tokenizer=BertTokenizer(str(authors.model / "vocab.txt")), max_seq_length=MAX_TOKENS + 2,
            mlm_probability=COMMON["mask_probability"],
        )  # fmt: skip
        is_masked = np.zeros_like(ids)
        for row, length in enumerate(lengths):
            tokens = collate.tokenizer.convert_ids_to_tokens(ids[row, 1 : length - 1].tolist())

            def in_our_order(words: list[list[int]], ranks: np.ndarray = order[row, 1:]) -> None:
                words.sort(key=lambda word: ranks[word[0]])

            with mock.patch.object(random, "shuffle", in_our_order):
                is_masked[row, 1 : len(tokens) + 1] = collate._whole_word_mask(tokens)
        return {"positions": is_masked}

    yield Pair("masking", {"positions": ours.reshape(ids.shape)}, theirs)


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
        script = authors.clones / "Condenser" / "helper" / "create_train.py"
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


# ---- fine-tuning and encoding: luyug/Dense ------------------------------------------------------


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

    def theirs(authors: Authors) -> Results:
        dense = Dense(authors)
        trainer = SimpleNamespace(args=SimpleNamespace(seed=SEED), state=SimpleNamespace(epoch=0))
        dataset = dense.train_set(titled(tiny.passages), texts, positives, negatives, trainer)
        data, found = dense.module("data"), []
        collate = data.QPCollator(dense.tokenizer, max_q_len=QUERY_LENGTH, max_p_len=PASSAGE_LENGTH)
        with mock.patch.object(data, "random", SimpleNamespace(Random=Shuffler, choices=random.choices)):
            for trainer.state.epoch in range(NUM_EPOCHS):
                found.append(collate([dataset[item] for item in range(len(dataset))]))
        passage_ids = torch.stack([passages["input_ids"] for _, passages in found])
        results = {"query ids": found[0][0]["input_ids"], "passage ids": passage_ids}

        model, (queries, passages) = dense.model(len(dataset)), found[1]
        loss = model(query=queries, passage=passages).loss
        loss.backward()
        results |= {"plain: loss": loss, **take_gradients(model.lm_q.named_parameters(), "plain: grad/")}

        authors.module("grad_cache.grad_cache", "GradCache/src")

        class Trainer(dense.module("trainer").GCTrainer):
            scaler = None  # an attribute of 4.2.0's Trainer

        kind = dense.module("arguments").DenseTrainingArguments
        arguments = authors.training_arguments(kind, gc_q_chunk_size=3, gc_p_chunk_size=7)
        cached = Trainer(model=model, args=arguments)
        cached.args.local_rank = -1
        loss = cached.training_step(model, (dict(queries), dict(passages)))
        gradients = take_gradients(model.lm_q.named_parameters(), "cache: grad/")
        return results | {"cache: loss": loss, **gradients}

    yield Pair("finetuning", ours, theirs)


def titled(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(passage.title, passage.text) for passage in passages]


def encodings(tiny: Tiny) -> Iterator[Pair]:
    """Vectors of passages, some with a title."""
    model = tiny.retriever().encoders["passages"].eval()
    passages = tiny.group("always", tiny.passages, PASSAGE_LENGTH, True)
    vectors = torch.empty(len(tiny.passages), model.dim, dtype=torch.float64)
    with torch.no_grad():
        for chunk in passages.chunks(np.arange(len(vectors)), step=0, numbers=range)[0]:
            vectors[chunk.rows] = model(chunk.inputs.rows)

    def theirs(authors: Authors) -> Results:
        dense = Dense(authors)
        with torch.no_grad():
            return {"vectors": dense.model(1).eval()(passage=dense.encoded(titled(tiny.passages))).p_reps}

    yield Pair("encodings", {"vectors": vectors}, theirs)


# ---- the optimiser -------------------------------------------------------------------------------


def optimiser(tiny: Tiny) -> Iterator[Pair]:
    """Ten updates of a Condenser by our loop, and by their Trainer with PyTorch's AdamW."""
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

    before = as_tensors(dict(named_as_theirs(training.model)))
    done = list[loop.StepRecord]()
    lengths = {"batch_size": 6, "drop_last": False, "epochs": None, "updates": NUM_STEPS}
    (tiny.work / "loop").mkdir()
    run = loop.Run(
        settings=partly(Optimiser, {**OPTIMISER, **lengths}), seed=SEED, precision="fp32", processes=ALONE,
        fingerprint="parity", work_folder=tiny.work / "loop", checkpoint_every_s=3600, checkpoints_kept=1,
        bad_loss_patience=0, on_step=done.append,
    )  # fmt: skip
    batch = partial(loop.Batch, epoch=0, num_items=6, num_tokens=0, ids=dict, num_in_epoch=6)
    works = (lambda step: batch(texts[step])), _backward(training, ALONE, precision="fp32")
    loop.train(loop.Trainable("parity", training.model, 6, *works, save=print, counts={}), run)
    figures = [[record.losses["loss"], record.grad_norm, record.learning_rate] for record in done]
    columns = torch.tensor(figures, dtype=torch.float64).T
    ours: Results = dict(zip(("losses", "norms", "rates"), columns, strict=True))
    ours |= movement(
        before, named_as_theirs(training.model), loop.weight_groups(training.model, weight_decay=1.0)[0]
    )

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

    # of an update, which divides by the size of the gradient, rounding is larger
    yield Pair("trainer", ours, by_trainer, allowed=1e-9)


CHECKS = condenser, cocondenser, masking, blocks, finetuning, encodings, optimiser
