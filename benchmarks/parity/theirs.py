"""The authors' side of the check: their code, imported from their clones, on the inputs that ours.py wrote.

    .venv-parity/bin/python benchmarks/parity/theirs.py --work build/parity --authors ../authors \\
        --old .venv-parity/transformers-4.2.0

Runs in an environment of its own (requirements.txt beside this file) and imports nothing of ours. Writes
`theirs/<check>.safetensors`, `theirs/status.json` (for each check null, or what a clone lacks) and
`theirs/versions.json`.

Their modules run as they are. What transformers 4.57 lacks of 4.2.0 is added from outside, and where our code
draws random numbers in another way, our draws take the place of theirs; each such place says so.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import platform
import random
import runpy
import subprocess
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import datasets
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.utils.data import SequentialSampler
from transformers import BertConfig, BertModel, BertTokenizer, BertTokenizerFast, TrainingArguments

FRAMEWORKS = {"dense": "Dense/src", "tevatron": "tevatron/src"}


class NotThere(Exception):
    """A clone lacks what a check needs."""


class Side:
    """The inputs, the clones, and the models with our weights."""

    def __init__(self, work: Path, authors: Path, old: Path) -> None:
        self.work, self.authors, self.old = work, authors, old
        self.settings = self.json("settings")
        self.model_folder = work / "inputs" / "model"

    def json(self, name: str) -> Any:
        return json.loads((self.work / "inputs" / f"{name}.json").read_text())

    def tensors(self, name: str) -> dict[str, Tensor]:
        return load_file(self.work / "inputs" / f"{name}.safetensors")

    def keep(self, check: str, results: dict[str, Any]) -> None:
        tensors = {
            name: torch.tensor(value, dtype=torch.float64)
            if isinstance(value, float)
            else torch.as_tensor(value).detach().clone().contiguous()
            for name, value in results.items()
        }
        save_file(tensors, self.work / "theirs" / f"{check}.safetensors")

    def clone_file(self, name: str) -> Path:
        path = self.authors / name
        if not path.is_file():
            raise NotThere(f"{name} is not in the clone")
        return path

    def module(self, name: str, folder: str) -> types.ModuleType:
        """A module of a clone; `folder` is what their users put on the path."""
        path = str(self.authors / folder)
        if path not in sys.path:
            sys.path.insert(0, path)
        self.clone_file(f"{folder}/{name.replace('.', '/')}.py")
        return importlib.import_module(name)

    def function(self, file: str, name: str, **names: Any) -> Callable[..., Any]:
        """One function of a script that cannot be imported, because it runs at once."""
        tree = ast.parse(self.clone_file(file).read_text())
        found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        if not found:
            raise NotThere(f"{file} has no {name}")
        scope = {"random": random, **names}
        exec(compile(ast.Module(found, []), file, "exec"), scope)
        return scope[name]  # type: ignore[no-any-return]

    def config(self) -> BertConfig:
        return BertConfig(**self.settings["config"], attn_implementation="eager")

    def training_arguments(self, kind: type = TrainingArguments, **changes: Any) -> Any:
        """Arguments of a process alone on a CPU; local_rank -1 is how 4.2.0 says it."""
        arguments = kind(
            output_dir=str(self.work / "trainer"), report_to=[], use_cpu=True, save_strategy="no",
            logging_strategy="no", disable_tqdm=True, remove_unused_columns=False, **changes,
        )  # fmt: skip
        arguments.local_rank = -1
        return arguments

    def condenser(self, kind: str, **train: Any) -> nn.Module:
        """Their model with our weights, in float64."""
        modeling = self.module("modeling", "Condenser")
        model_args = SimpleNamespace(
            n_head_layers=self.settings["num_head_layers"],
            skip_from=self.settings["skip_from"],
            late_mlm=True,
        )
        train_args = SimpleNamespace(local_rank=-1, **train)
        model = getattr(modeling, kind).from_config(self.config(), model_args, None, train_args).double()
        loaded = model.load_state_dict(self.tensors("weights"), strict=False)
        buffers = {name for name, _ in model.named_buffers()}
        tied = {"lm.cls.predictions.decoder.weight", "lm.cls.predictions.decoder.bias"}
        assert not loaded.unexpected_keys and not set(loaded.missing_keys) - buffers - tied, loaded
        for (
            layer
        ) in model.c_head:  # their code reads layer_out[0]: the batch's first item if it were a tensor
            layer.register_forward_hook(lambda _, __, out: (out,) if isinstance(out, Tensor) else out)
        return model.train()

    def retriever(self) -> BertModel:
        """The encoder with our weights, in float64."""
        model = BertModel(self.config()).double()
        loaded = model.load_state_dict(self.tensors("retriever"), strict=False)
        assert not loaded.unexpected_keys and not loaded.missing_keys, loaded
        return model


def gradients(model: nn.Module, *, prefix: str = "grad/") -> dict[str, Tensor]:
    """All gradients by name; removes them."""
    found = {
        f"{prefix}{name}": weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    model.zero_grad()
    return found  # type: ignore[return-value]


def split_labels(batch: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
    inputs = dict(batch)
    return inputs, inputs.pop("labels")


# ---- luyug/Condenser and luyug/GradCache ---------------------------------------------------------


def condenser(side: Side) -> None:
    model = side.condenser("CondenserForPretraining")
    batch = side.tensors("condenser")
    loss = model(*split_labels(batch))
    loss.backward()
    found = gradients(model)
    with torch.no_grad():
        parts = [model(*split_labels({k: v.chunk(2)[n] for k, v in batch.items()})) for n in (0, 1)]
        model.model_args.late_mlm = False
        head = model(*split_labels(batch))
    side.keep(
        "condenser",
        {
            "loss": loss,
            "head_mlm": head,
            "late_mlm": loss.detach() - head,
            "loss of two parts": sum(parts) / 2,
            **found,
        },
    )


def cocondenser(side: Side) -> None:
    batch = side.tensors("cocondenser")
    num_documents = len(batch["labels"]) // 2
    model = side.condenser("CoCondenserForPretraining", per_device_train_batch_size=num_documents)
    inputs, labels = split_labels(batch)
    loss = model(inputs, labels)
    loss.backward()
    with torch.no_grad():
        states = model.lm(**inputs, output_hidden_states=True).hidden_states[-1][:, 0]
        contrastive = model.compute_contrastive_loss(states)
    mlm = loss.detach() - contrastive
    side.keep("cocondenser", {"loss": loss, "contrastive": contrastive, "mlm": mlm, **gradients(model)})


def cache(side: Side, check: str, chunk_size: int) -> None:
    side.clone_file("GradCache/src/grad_cache/grad_cache.py")
    side.module("grad_cache.context_managers", "GradCache/src")
    trainer_module = side.module("trainer", "Condenser")
    arguments_module = side.module("arguments", "Condenser")
    batch = side.tensors("cocondenser")
    num_documents = len(batch["labels"]) // 2
    model = side.condenser("CoCondenserForPretraining", per_device_train_batch_size=num_documents)
    with torch.no_grad():
        inputs, labels = split_labels(batch)
        states = model.lm(**inputs, output_hidden_states=True).hidden_states[-1][:, 0]
        contrastive = model.compute_contrastive_loss(states)
        mlm = model(inputs, labels) - contrastive

    class Pretrainer(trainer_module.CoCondenserPretrainer):  # attributes of 4.2.0's Trainer
        scaler, use_amp, use_apex, deepspeed = None, False, False, None

    arguments = side.training_arguments(
        arguments_module.CoCondenserPreTrainingArguments,
        cache_chunk_size=chunk_size,
        per_device_train_batch_size=num_documents,
    )
    trainer = Pretrainer(model=model, args=arguments)
    arguments.local_rank = -1
    model.zero_grad()
    loss = trainer.training_step(model, dict(batch))
    weight = (loss - contrastive) / mlm
    side.keep(check, {"loss": loss, "mlm weight": weight, **gradients(model)})


def two_processes(side: Side) -> None:
    """Half of the documents in each of two processes; gradients are averaged, as by their DDP."""
    side.clone_file("Condenser/modeling.py")
    meeting = (side.work / "theirs" / "meeting").resolve()  # its URL needs a whole path
    meeting.unlink(missing_ok=True)
    spawn(_one_of_two, args=(side.work, side.authors, side.old, meeting), nprocs=2)


def _one_of_two(rank: int, work: Path, authors: Path, old: Path, meeting: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    side = Side(work, authors, old)
    batch = {name: value.chunk(2)[rank] for name, value in side.tensors("cocondenser").items()}
    inputs, labels = split_labels(batch)
    model = side.condenser("CoCondenserForPretraining", per_device_train_batch_size=len(labels) // 2)
    model.train_args.local_rank = rank
    states = model.lm(**inputs, output_hidden_states=True).hidden_states[-1][:, 0]
    contrastive = model.compute_contrastive_loss(model.gather_tensors(states.contiguous())[0])
    contrastive.backward()
    found = gradients(model)
    with torch.no_grad():
        mlm = model(inputs, labels) - contrastive
    for value in (*found.values(), mlm):
        distributed.all_reduce(value)
        value /= 2
    if rank == 0:  # the loss is multiplied by the processes because gradients are averaged
        side.keep("two_processes", {"contrastive": contrastive / 2, "mlm": mlm, **found})
    distributed.destroy_process_group()


def collator(side: Side) -> Any:
    """Their collator; `mask_tokens` is the name that 4.2.0 gave to `torch_mask_tokens`."""
    module = side.module("data", "Condenser")
    found = module.CondenserCollator(
        tokenizer=BertTokenizer(str(side.model_folder / "vocab.txt")),
        mlm_probability=0.15,
        max_seq_length=side.settings["max_tokens"] + 2,
    )
    found.mask_tokens = found.torch_mask_tokens
    return found


def masking(side: Side) -> None:
    given = side.tensors("masking")
    collate = collator(side)
    ids, lengths = given["ids"].numpy(), given["lengths"].numpy()
    is_masked = np.zeros(ids.shape, dtype=np.int64)
    for row, length in enumerate(lengths):
        tokens = collate.tokenizer.convert_ids_to_tokens(ids[row, 1 : length - 1].tolist())
        ranks = given["order"][row].numpy()

        def in_our_order(words: list[list[int]], ranks: np.ndarray = ranks) -> None:
            words.sort(key=lambda word: ranks[word[0] + 1])  # + 1: [CLS]

        with mock.patch.object(random, "shuffle", in_our_order):
            is_masked[row, 1 : length - 1] = collate._whole_word_mask(tokens)

    random.seed(1)
    torch.manual_seed(1)
    actions, num_masked, specials = np.zeros(3), 0, 0
    special_ids = set(collate.tokenizer.all_special_ids)
    mask_id = collate.tokenizer.mask_token_id
    texts = [{"text": ids[row, 1 : length - 1].tolist()} for row, length in enumerate(lengths)]
    draws = int(given["draws"])
    for _ in range(draws):
        batch = collate(texts)
        chosen = batch["labels"] >= 0
        new, old = batch["input_ids"][chosen], batch["labels"][chosen]
        num_masked += len(new)
        actions += [
            int((new == mask_id).sum()),
            int(((new != mask_id) & (new != old)).sum()),
            int((new == old).sum()),
        ]
        specials += sum(token in special_ids - {mask_id} for token in new.tolist())
    side.keep(
        "masking",
        {
            "positions": is_masked,
            "counts": is_masked.sum(axis=1),
            "share of tokens": num_masked / (draws * int((lengths - 2).sum())),
            "shares of actions": actions / actions.sum(),
            "specials among random tokens": specials / actions[1],
        },
    )


def long_blocks(side: Side) -> None:
    texts = [{"text": ids} for ids in side.json("long_blocks")]
    is_continuation = side.tensors("long_blocks")["is_continuation"].bool().numpy()
    random.seed(1)
    torch.manual_seed(1)
    batch = collator(side)(texts)
    is_masked = (batch["labels"] >= 0).numpy()
    original = np.where(is_masked, batch["labels"].numpy(), batch["input_ids"].numpy())
    broken = is_continuation[original[:, 2:]] & (is_masked[:, 2:] != is_masked[:, 1:-1])
    side.keep("long_blocks", {"words masked in part": float(broken.sum())})


def blocks(side: Side) -> None:
    script = side.clone_file("Condenser/helper/create_train.py")
    given = side.json("blocks")
    sentences = given["sentences"]
    results: dict[str, Any] = {}
    source = side.work / "theirs" / "blocks.txt"
    source.write_text("".join(f"{row}\n" for row in range(len(sentences))))
    for probability, draws in given["draws"].items():
        drawn = _Draws()

        class Serial:  # of multiprocessing.Pool: our draws must meet the rows that they belong to
            def __enter__(self) -> Serial:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def imap_unordered(
                self, function: Any, lines: Any, chunksize: int, drawn: _Draws = drawn, draws: Any = draws
            ) -> Iterator[Any]:
                for line in lines:
                    drawn.waiting = iter(draws[int(line)])
                    yield function(line)

        nltk = types.ModuleType("nltk")  # its sentences need a download; ours are given to both sides
        nltk.download = lambda *_, **__: None  # type: ignore[attr-defined]
        nltk.sent_tokenize = lambda line: sentences[int(line)]  # type: ignore[attr-defined]
        arguments = [
            *(str(script), "--file", str(source), "--save_to", str(source.parent)),
            *("--tokenizer_name", "none", "--max_len", str(side.settings["max_tokens"] + 2)),
            *("--short_sentence_prob", probability),
        ]
        with (
            mock.patch.object(sys, "argv", arguments),
            mock.patch.dict(sys.modules, {"nltk": nltk}),
            mock.patch("multiprocessing.Pool", Serial),
            mock.patch.object(transformers.AutoTokenizer, "from_pretrained", return_value=_Ids()),
            mock.patch.object(random, "random", drawn.random),
            mock.patch.object(random, "randint", drawn.randint),
        ):
            runpy.run_path(str(script), run_name="__main__")
        lines = (side.work / "theirs" / "blocks.txt.json").read_text().splitlines()
        found = [json.loads(line)["text"] for line in lines]
        flat = [token for row in sentences for sentence in row for token in sentence]
        assert [token for block in found for token in block] == flat, "every sentence is in one block"
        row_of = np.repeat(np.arange(len(sentences)), [sum(map(len, row)) for row in sentences])
        starts = np.cumsum([0, *map(len, found)])[:-1]
        results[f"rows {probability}"] = row_of[starts]
        results[f"lengths {probability}"] = np.array([len(block) for block in found])
        results[f"first ids {probability}"] = np.array([block[0] for block in found])
    side.keep("blocks", results)


class _Draws:
    """Our draws in place of theirs: a number for each block, then the place of a short target."""

    waiting: Iterator[Sequence[float]] = iter(())
    pair: Sequence[float] = (1.0, 0.0)

    def random(self) -> float:
        self.pair = next(self.waiting, (1.0, 0.0))
        return self.pair[0]

    def randint(self, low: int, high: int) -> int:
        return low + int(self.pair[1] * (high - low + 1))


class _Ids:
    """In place of the tokenizer, for sentences that are token ids: tokenizers are compared elsewhere."""

    def __call__(self, sentence: list[int], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": sentence}

    def num_special_tokens_to_add(self, pair: bool) -> int:
        return 2


# ---- luyug/Dense and texttron/tevatron -----------------------------------------------------------


def framework_arguments(side: Side, name: str) -> Any:
    return SimpleNamespace(
        q_max_len=side.settings["query_length"],
        p_max_len=side.settings["passage_length"],
        train_n_passages=side.settings["passages_per_query"],
        positive_passage_no_shuffle=False,
        negative_passage_no_shuffle=False,
    )


def preprocessor(side: Side, name: str) -> types.ModuleType:
    file = {"dense": "dense.processor.processors", "tevatron": "tevatron.preprocessor.preprocessor_tsv"}[name]
    return side.module(file, FRAMEWORKS[name])


def tokenizer(side: Side, name: str) -> Any:
    """Dense encodes lists of ids, which only the tokenizers in Python can."""
    if name == "dense":
        return BertTokenizer(str(side.model_folder / "vocab.txt"))
    return BertTokenizerFast(tokenizer_file=str(side.model_folder / "tokenizer.json"))


def train_rows(side: Side, name: str, passages: Sequence[Sequence[str]], given: dict[str, Any]) -> list[Any]:
    """Training rows from a collection and queries, by their preprocessor."""
    folder = side.work / "theirs" / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{row}\t{title}\t{text}\n" for row, (title, text) in enumerate(passages)]
    (folder / "corpus.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in enumerate(given["queries"])))
    module = preprocessor(side, name)
    kind = getattr(module, "SimpleTrainProcessor", None) or module.SimpleTrainPreProcessor
    processor = kind(
        query_file=str(folder / "queries.tsv"),
        collection_file=str(folder / "corpus.tsv"),
        tokenizer=tokenizer(side, name),
    )
    asked = zip(given["positives"], given["negatives"], strict=True)
    return [
        json.loads(processor.process_one((str(q), positives, negatives)))
        for q, (positives, negatives) in enumerate(asked)
    ]


@contextmanager
def our_shuffles(module: types.ModuleType, orders: Sequence[Sequence[int]], seed: int) -> Iterator[None]:
    """Their training set shuffles an item's negatives with a generator of its own: give it our order."""

    class Shuffler:
        def __init__(self, number: int) -> None:
            self.order = orders[number - seed]  # their seed of an item is item + seed

        def shuffle(self, values: list[Any]) -> None:
            values[:] = [values[index] for index in self.order]

    with mock.patch.object(module, "random", SimpleNamespace(Random=Shuffler, choices=random.choices)):
        yield


def finetuning(side: Side, name: str) -> None:
    given = side.json("finetuning")
    rows = train_rows(side, name, given["passages"], given)
    data = side.module(f"{name}.data", FRAMEWORKS[name])
    seed = side.settings["seed"]
    state = SimpleNamespace(epoch=0)
    stand_in = SimpleNamespace(state=state, args=SimpleNamespace(seed=seed))
    arguments, own = framework_arguments(side, name), tokenizer(side, name)
    dataset = data.TrainDataset(arguments, datasets.Dataset.from_list(rows), own, stand_in)
    collate = data.QPCollator(own, max_q_len=arguments.q_max_len, max_p_len=arguments.p_max_len)
    batches = []
    with our_shuffles(data, given["orders"], seed):
        for epoch in range(side.settings["num_epochs"]):
            state.epoch = epoch
            batches.append(collate([dataset[item] for item in range(len(dataset))]))
    results = {
        "query ids": batches[0][0]["input_ids"],
        "passage ids": torch.stack([passages["input_ids"] for _, passages in batches]),
    }

    model = dense_model(side, name, arguments, batch_size=len(rows))
    queries, passages = batches[1]
    loss = model(query=queries, passage=passages).loss
    loss.backward()
    results |= {"plain: loss": loss, **gradients_of_encoder(model, "plain: grad/")}

    side.clone_file("GradCache/src/grad_cache/grad_cache.py")
    side.module("grad_cache.context_managers", "GradCache/src")
    trainers = side.module(f"{name}.trainer", FRAMEWORKS[name])
    framework = side.module(f"{name}.arguments", FRAMEWORKS[name])
    kind = getattr(framework, "DenseTrainingArguments", None) or framework.TevatronTrainingArguments

    class Trainer(trainers.GCTrainer):
        scaler = None  # an attribute of 4.2.0's Trainer

    trainer = Trainer(model=model, args=side.training_arguments(kind, gc_q_chunk_size=3, gc_p_chunk_size=7))
    trainer.args.local_rank = -1
    model.zero_grad()
    loss = trainer.training_step(model, (dict(queries), dict(passages)))
    results |= {"cache: loss": loss, **gradients_of_encoder(model, "cache: grad/")}
    side.keep(f"finetuning_{name}", results)


def dense_model(side: Side, name: str, arguments: Any, *, batch_size: int) -> Any:
    encoder = side.retriever()
    if name == "dense":
        module = side.module("dense.modeling", FRAMEWORKS[name])
        train_args = SimpleNamespace(negatives_x_device=False, per_device_train_batch_size=batch_size)
        model = module.DenseModel(encoder, encoder, data_args=arguments, train_args=train_args)
    else:
        module = side.module("tevatron.modeling.dense", FRAMEWORKS[name])
        model = module.DenseModel(encoder, encoder)
    return model.train()


def gradients_of_encoder(model: nn.Module, prefix: str) -> dict[str, Tensor]:
    found = gradients(model, prefix="")
    return {prefix + name.removeprefix("lm_q."): value for name, value in found.items()}


def batches(side: Side, name: str) -> None:
    """Steps of an epoch of 8 queries in batches of 3."""
    trainers = side.module(f"{name}.trainer", FRAMEWORKS[name])
    framework = side.module(f"{name}.arguments", FRAMEWORKS[name])
    kind = getattr(framework, "DenseTrainingArguments", None) or framework.TevatronTrainingArguments
    trainer_kind = getattr(trainers, "DenseTrainer", None) or trainers.TevatronTrainer
    trainer = trainer_kind(
        model=nn.Linear(1, 1),
        args=side.training_arguments(kind, per_device_train_batch_size=3),
        train_dataset=[0] * 8,
        data_collator=list,
    )
    side.keep(f"batches_{name}", {"steps of an epoch": float(len(trainer.get_train_dataloader()))})


def encoded(side: Side, name: str, lines: Sequence[str]) -> tuple[Any, list[Any]]:
    """Passages `id title text`, tab-separated, as their preprocessor and their encoding set give them."""
    module = preprocessor(side, name)
    kind = getattr(module, "SimpleCollectionProcessor", None) or module.SimpleCollectionPreProcessor
    own = tokenizer(side, name)
    rows = [json.loads(kind(tokenizer=own).process_line(line)) for line in lines]
    data = side.module(f"{name}.data", FRAMEWORKS[name])
    limit = side.settings["passage_length"]
    dataset = data.EncodeDataset(datasets.Dataset.from_list(rows), own, max_len=limit)
    collate = data.EncodeCollator(own, max_length=limit, padding="max_length")
    _, batch = collate([dataset[row] for row in range(len(dataset))])
    return batch, rows


def encodings(side: Side, name: str) -> None:
    passages = side.json("finetuning")["passages"]
    lines = [f"{row}\t{title}\t{text}\n" for row, (title, text) in enumerate(passages)]
    batch, _ = encoded(side, name, lines)
    model = dense_model(side, name, framework_arguments(side, name), batch_size=1).eval()
    titled = torch.tensor([bool(title) for title, _ in passages])
    with torch.no_grad():
        vectors = model(passage=batch).p_reps
        single = model.float()(passage=batch).p_reps
    results = {"all, float32": single}
    for separator in ("always", "titled"):
        results |= {f"titled, {separator}": vectors[titled], f"untitled, {separator}": vectors[~titled]}
    side.keep(f"encodings_{name}", results)


def csv(side: Side, name: str) -> None:
    """The same passages encoded, and as training rows, which their preprocessor reads as CSV."""
    passages = side.json("csv")
    lines = [f"{row}\t{title}\t{text}\n" for row, (title, text) in enumerate(passages)]
    batch, _ = encoded(side, name, lines)
    given = {"queries": ["graph"], "positives": [[0, 1, 2]], "negatives": [[0]]}
    (row,) = train_rows(side, name, passages, given)
    data = side.module(f"{name}.data", FRAMEWORKS[name])
    own = tokenizer(side, name)
    dataset = data.TrainDataset(framework_arguments(side, name), datasets.Dataset.from_list([row]), own)
    items = [dataset.create_one_example(ids) for ids in row["positives"]]
    limit = side.settings["passage_length"]
    training = own.pad(items, padding="max_length", max_length=limit, return_tensors="pt")["input_ids"]
    side.keep(
        f"csv_{name}",
        {
            "encoding": batch["input_ids"],
            "training, quotes": training[1:2],
            "training, others": training[[0, 2]],
        },
    )


SCRIPTS = {
    "dense": "Dense/examples/msmarco-passage-ranking",
    "tevatron": "tevatron/examples/coCondenser-marco",
}


def mining(side: Side, name: str) -> None:
    """Their candidates: the shuffle before the sample leaves the set of them as it is."""
    given = side.json("mining")
    load_ranking = side.function(f"{SCRIPTS[name]}/build_train_hn.py", "load_ranking")
    file = side.work / "theirs" / f"{name}.ranking.txt"

    def candidates(length: int, n_sample: int) -> np.ndarray:
        rows = [
            f"{q}\t{doc_id}\t{100 - rank}\n"
            for q, doc_ids in given["ranked"].items()
            for rank, doc_id in enumerate(doc_ids[:length])
        ]
        file.write_text("".join(rows))
        chosen = np.zeros((len(given["ranked"]), 200), dtype=np.int64)
        for query, _, negatives in load_ranking(file, given["judged"], n_sample, given["depth"]):
            chosen[int(query), [int(doc_id) for doc_id in negatives]] = 1
        return chosen

    depth = given["depth"]
    longest = max(map(len, given["ranked"].values()))
    side.keep(
        f"mining_{name}",
        {
            "candidates, deep": candidates(longest, depth),
            # theirs keeps the first `depth` that are not positive, whatever the depth of the search was
            "candidates, cut": candidates(longest, depth).sum(axis=1),
            "sampled": candidates(longest, 30).sum(axis=1),
        },
    )


def triples(side: Side, name: str) -> None:
    """Negatives of a query's triples. get_data.sh joins them with commas, one line a query."""
    judged = side.json("mining")["judged"]
    of_query: dict[str, list[str]] = defaultdict(list)
    for query, _, negative in side.json("triples"):
        of_query[query].append(negative)
    read_line = side.function(
        f"{SCRIPTS[name]}/build_train.py", "read_line", qrel=judged, args=SimpleNamespace(n_sample=30)
    )
    counts = np.zeros((len(of_query), 2), dtype=np.int64)
    listed = np.zeros((len(of_query), 200), dtype=np.int64)
    for query, doc_ids in of_query.items():
        _, positives, negatives = read_line(f"{query}\t{','.join(doc_ids)}\n")
        row = int(query)
        counts[row] = sum(d in positives for d in negatives), len(negatives) - len(set(negatives))
        listed[row, [int(d) for d in negatives if d not in positives]] = 1
    side.keep(
        f"triples_{name}",
        {"negatives": listed, "judged positive": counts[:, 0], "listed again": counts[:, 1]},
    )


# ---- the optimiser -------------------------------------------------------------------------------


def trainer(side: Side) -> None:
    """Ten updates by their Trainer on transformers 4.57, whose AdamW is PyTorch's."""
    model = side.condenser("CondenserForPretraining")
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    trainer_module = side.module("trainer", "Condenser")
    arguments_module = side.module("arguments", "Condenser")
    steps = [side.tensors(f"step{step}") for step in range(side.settings["num_steps"])]
    seen: dict[str, list[float]] = {"losses": [], "norms": [], "rates": []}

    class Trainer(trainer_module.CondenserPreTrainer):
        def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:  # 4.57 passes more
            loss = super().compute_loss(model, inputs)
            seen["losses"].append(loss.item())
            seen["rates"].append(self.optimizer.param_groups[0]["lr"])
            return loss

        def _get_train_sampler(self, *_: Any) -> Any:  # our order of batches
            return SequentialSampler(self.train_dataset)

    arguments = side.training_arguments(
        arguments_module.CondenserPreTrainingArguments,
        per_device_train_batch_size=1,
        num_train_epochs=1,
        **{
            key: side.settings[key]
            for key in ("learning_rate", "weight_decay", "warmup_ratio", "max_grad_norm")
        },
    )
    one = Trainer(model=model, args=arguments, train_dataset=steps, data_collator=lambda rows: dict(rows[0]))
    clip = one.accelerator.clip_grad_norm_

    def clip_and_note(*args: Any, **kwargs: Any) -> Any:
        norm = clip(*args, **kwargs)
        seen["norms"].append(float(norm))
        return norm

    one.accelerator.clip_grad_norm_ = clip_and_note
    one.train()
    decayed = {id(weight) for weight in one.optimizer.param_groups[0]["params"]}
    results: dict[str, Any] = {
        name: torch.tensor(values, dtype=torch.float64) for name, values in seen.items()
    }
    for name, weight in model.named_parameters():
        results[f"moved/{name}"] = weight.detach() - before[name]
        results[f"decays/{name}"] = float(id(weight) in decayed)
    side.keep("trainer", results)


def old_optimisation(side: Side) -> types.ModuleType:
    """transformers 4.2.0's module `optimization`, without the rest of it: that does not import any more."""
    folder = side.old / "transformers"
    if not (folder / "optimization.py").is_file():
        raise NotThere("transformers 4.2.0 is not installed")
    if "transformers_4_2_0" not in sys.modules:
        package = types.ModuleType("transformers_4_2_0")
        package.__path__ = [str(folder)]
        package.__version__ = "4.2.0"  # type: ignore[attr-defined]
        sys.modules["transformers_4_2_0"] = package
    return importlib.import_module("transformers_4_2_0.optimization")


def adamw(side: Side, check: str, *, mend_epsilon: bool) -> None:
    """Ten updates by the AdamW that the authors' runs had, grouped by 4.2.0's Trainer's rule.

    With `mend_epsilon`, epsilon is made smaller by the bias correction before each step, and weight decay
    is off: what is then left must be PyTorch's AdamW.
    """
    old = old_optimisation(side)
    model = side.condenser("CondenserForPretraining")
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    spared = ("bias", "LayerNorm.weight")  # trainer.py of 4.2.0
    decays = {name: not any(part in name for part in spared) for name in before}
    named = dict(model.named_parameters())
    decay = 0.0 if mend_epsilon else side.settings["weight_decay"]
    groups = [
        {"params": [named[name] for name in named if decays[name]], "weight_decay": decay},
        {"params": [named[name] for name in named if not decays[name]], "weight_decay": 0.0},
    ]
    optimiser = old.AdamW(groups, lr=side.settings["learning_rate"], betas=(0.9, 0.999), eps=1e-8)
    num_steps = side.settings["num_steps"]
    schedule = old.get_linear_schedule_with_warmup(
        optimiser, num_steps * side.settings["warmup_ratio"], num_steps
    )
    for step in range(num_steps):
        model.zero_grad()
        model(*split_labels(side.tensors(f"step{step}"))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), side.settings["max_grad_norm"])
        if mend_epsilon:
            for group in optimiser.param_groups:
                group["eps"] = 1e-8 * (1 - 0.999 ** (step + 1)) ** 0.5
        optimiser.step()
        schedule.step()
    results: dict[str, Any] = {
        f"moved/{name}": weight.detach() - before[name] for name, weight in model.named_parameters()
    }
    if not mend_epsilon:
        results |= {f"decays/{name}": float(value) for name, value in decays.items()}
    side.keep(check, results)


def schedules(side: Side, num_steps: int) -> None:
    """Factors of the learning rate by 4.2.0, with the warm-up steps that their pre-trainer asks for."""
    old = old_optimisation(side)
    module = side.module("trainer", "Condenser")
    asked = SimpleNamespace(warmup_ratio=side.settings["warmup_ratio"], warmup_steps=0)
    stand_in = module.CondenserPreTrainer.__new__(module.CondenserPreTrainer)
    stand_in.args = asked
    with mock.patch.object(transformers.Trainer, "create_optimizer_and_scheduler"):
        stand_in.create_optimizer_and_scheduler(num_steps)
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = old.get_linear_schedule_with_warmup(optimiser, asked.warmup_steps, num_steps)
    factors = []
    for _ in range(num_steps):
        factors.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    side.keep(f"schedule_{num_steps}", {"factors": torch.tensor(factors, dtype=torch.float64)})


def warmup(side: Side) -> None:
    """The warm-up ratio that reaches the schedule of fine-tuning: 4.2.0 must read it, or Dense itself."""
    old_optimisation(side)
    texts = [(side.old / "transformers" / name).read_text() for name in ("trainer.py", "training_args.py")]
    texts.append(side.clone_file("Dense/src/dense/trainer.py").read_text())
    is_read = any("warmup_ratio" in text for text in texts)
    ratio = side.module("dense.arguments", FRAMEWORKS["dense"]).DenseTrainingArguments.warmup_ratio
    side.keep("warmup", {"warm-up of fine-tuning": ratio if is_read else 0.0})


CHECKS: dict[str, Callable[[Side], None]] = {
    "condenser": condenser,
    "cocondenser": cocondenser,
    "cache_one_chunk": lambda side: cache(side, "cache_one_chunk", 16),
    "cache_three_chunks": lambda side: cache(side, "cache_three_chunks", 6),
    "two_processes": two_processes,
    "masking": masking,
    "long_blocks": long_blocks,
    "blocks": blocks,
    **{
        f"{check.__name__}_{name}": lambda side, check=check, name=name: check(side, name)
        for check in (finetuning, batches, encodings, csv, mining, triples)
        for name in FRAMEWORKS
    },
    "trainer": trainer,
    "adamw": lambda side: adamw(side, "adamw", mend_epsilon=False),
    "adamw_epsilon": lambda side: adamw(side, "adamw_epsilon", mend_epsilon=True),
    "schedule_30": lambda side: schedules(side, 30),
    "schedule_25": lambda side: schedules(side, 25),
    "warmup": warmup,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="where ours.py wrote")
    parser.add_argument("--authors", type=Path, required=True, help="the clones")
    parser.add_argument("--old", type=Path, required=True, help="transformers 4.2.0, unpacked")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    os.environ["HF_DATASETS_CACHE"] = str(args.work / "theirs" / "cache")
    datasets.config.HF_DATASETS_CACHE = args.work / "theirs" / "cache"
    datasets.disable_progress_bars()
    side = Side(args.work, args.authors.resolve(), args.old)
    (args.work / "theirs").mkdir(exist_ok=True)
    status: dict[str, str | None] = {}
    for name, check in CHECKS.items():
        try:
            check(side)
            status[name] = None
        except NotThere as lack:
            status[name] = str(lack)
    versions = {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    for clone in ("Condenser", "GradCache", "Dense", "tevatron"):
        told = subprocess.run(
            ["git", "-C", str(side.authors / clone), "log", "-1", "--format=%h (%cs)"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        versions[clone] = told.stdout.strip() or "no git clone"
    (args.work / "theirs" / "versions.json").write_text(json.dumps(versions))
    (args.work / "theirs" / "status.json").write_text(json.dumps(status))


if __name__ == "__main__":
    main()
