"""The authors' side of the check: their code, imported from their clones, on the inputs that ours.py wrote.

    .venv-parity/bin/python benchmarks/parity/theirs.py --work build/parity --authors ../authors \\
        --old .venv-parity/transformers-4.2.0

Runs in an environment of its own (requirements.txt beside this file) and imports nothing of ours. Writes
`theirs.pt` (for each check and clone the results, or what the clone lacks) and `versions.pt`.

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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import both
import datasets
import numpy as np
import torch
import transformers
from both import OPTIMISER, PASSAGE_LENGTH, QUERY_LENGTH, SEED, gradients
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.utils.data import SequentialSampler
from transformers import BertConfig, BertModel, BertTokenizer, BertTokenizerFast, TrainingArguments

Batch = dict[str, Tensor]
Results = dict[str, Any]


class NotThere(Exception):
    """A clone lacks what a check needs."""


class Side:
    """The inputs, the clones, and the models with our weights."""

    def __init__(self, work: Path, authors: Path, old: Path) -> None:
        self.work, self.authors, self.old = work, authors, old
        self.inputs: dict[str, Any] = torch.load(work / "inputs.pt")
        self.model = work / "model"

    def clone_file(self, name: str) -> Path:
        path = self.authors / name
        if not path.is_file():
            raise NotThere(f"{name} is not in the clone")
        return path

    def module(self, name: str, folder: str = "Condenser") -> types.ModuleType:
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

    def load(self, model: nn.Module, weights: str) -> nn.Module:
        """The model with our weights, in float64."""
        loaded = model.double().load_state_dict(self.inputs[weights], strict=False)
        tied = {f"lm.cls.predictions.decoder.{name}" for name in ("weight", "bias")}
        missing = set(loaded.missing_keys) - {name for name, _ in model.named_buffers()} - tied
        assert not loaded.unexpected_keys and not missing, loaded
        return model.train()

    def condenser(self, kind: str, **train: Any) -> Any:
        asked = SimpleNamespace(n_head_layers=both.NUM_HEAD_LAYERS, skip_from=both.SKIP_FROM, late_mlm=True)
        train_args = SimpleNamespace(local_rank=-1, **train)
        config = BertConfig.from_pretrained(self.model, attn_implementation="eager")
        model = getattr(self.module("modeling"), kind).from_config(config, asked, None, train_args)
        for layer in model.c_head:  # their code reads layer_out[0]: of a tensor, the batch's first item
            layer.register_forward_hook(lambda _, __, out: (out,) if isinstance(out, Tensor) else out)
        return self.load(model, "weights")

    def training_arguments(self, kind: type = TrainingArguments, **changes: Any) -> Any:
        """Arguments of a process alone on a CPU; local_rank -1 is how 4.2.0 says it."""
        arguments = kind(
            output_dir=str(self.work / "trainer"), report_to=[], use_cpu=True, save_strategy="no",
            logging_strategy="no", disable_tqdm=True, remove_unused_columns=False, **changes,
        )  # fmt: skip
        arguments.local_rank = -1
        return arguments


# ---- luyug/Condenser and luyug/GradCache ---------------------------------------------------------


def split_labels(batch: Batch) -> tuple[Batch, Tensor]:
    inputs = dict(batch)
    return inputs, inputs.pop("labels")


def condenser(side: Side) -> Results:
    model, batch = side.condenser("CondenserForPretraining"), side.inputs["condenser"]
    loss = model(*split_labels(batch))
    loss.backward()
    found = gradients(model.named_parameters())
    with torch.no_grad():
        parts = [model(*split_labels({k: v.chunk(2)[n] for k, v in batch.items()})) for n in (0, 1)]
        model.model_args.late_mlm = False
        head = model(*split_labels(batch))
    late = {"late_mlm": loss.detach() - head, "loss of two parts": sum(parts) / 2}
    return {"loss": loss, "head_mlm": head, **late, **found}


def cocondenser_with_loss(side: Side, batch: Batch) -> tuple[Any, Tensor, Tensor]:
    """Their coCondenser, its loss of a batch, and the contrastive part of that."""
    num_documents = len(batch["labels"]) // 2
    model = side.condenser("CoCondenserForPretraining", per_device_train_batch_size=num_documents)
    inputs, labels = split_labels(batch)
    states = model.lm(**inputs, output_hidden_states=True).hidden_states[-1][:, 0]
    if distributed.is_initialized():
        model.train_args.local_rank = distributed.get_rank()
        states = model.gather_tensors(states.contiguous())[0]
    return model, model(inputs, labels), model.compute_contrastive_loss(states)


def cocondenser(side: Side) -> Results:
    model, loss, contrastive = cocondenser_with_loss(side, side.inputs["cocondenser"])
    loss.backward()
    losses = {"loss": loss, "contrastive": contrastive, "mlm": loss - contrastive}
    return losses | gradients(model.named_parameters())


def cache(side: Side, chunk_size: int) -> Results:
    side.module("grad_cache.grad_cache", "GradCache/src")

    class Pretrainer(side.module("trainer").CoCondenserPretrainer):  # attributes of 4.2.0's Trainer
        scaler, use_amp, use_apex, deepspeed = None, False, False, None

    batch = side.inputs["cocondenser"]
    model, plain, contrastive = cocondenser_with_loss(side, batch)
    arguments = side.training_arguments(
        side.module("arguments").CoCondenserPreTrainingArguments, cache_chunk_size=chunk_size,
        per_device_train_batch_size=len(batch["labels"]) // 2,
    )  # fmt: skip
    trainer = Pretrainer(model=model, args=arguments)
    arguments.local_rank = -1
    loss = trainer.training_step(model, dict(batch))
    weight = (loss - contrastive) / (plain - contrastive)
    return {"loss": loss, "mlm weight": weight, **gradients(model.named_parameters())}


def two_processes(side: Side) -> Results:
    """Half of the documents in each of two processes; gradients are averaged, as by their DDP."""
    side.clone_file("Condenser/modeling.py")
    spawn(_one_of_two, args=(side.work.resolve(), side.authors, side.old), nprocs=2)
    return dict(torch.load(side.work / "two_processes.pt"))


def _one_of_two(rank: int, work: Path, authors: Path, old: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{work}/meeting", rank=rank, world_size=2)
    side = Side(work, authors, old)
    batch = {name: value.chunk(2)[rank] for name, value in side.inputs["cocondenser"].items()}
    model, loss, contrastive = cocondenser_with_loss(side, batch)
    contrastive.backward()
    found = gradients(model.named_parameters())
    mlm = (loss - contrastive).detach()
    for value in (*found.values(), mlm):
        distributed.all_reduce(value)
        value /= 2
    if rank == 0:  # the loss is multiplied by the processes because gradients are averaged
        found |= {"contrastive": contrastive.detach() / 2, "mlm": mlm}
        torch.save(found, work / "two_processes.pt")
    distributed.destroy_process_group()


def collator(side: Side) -> Any:
    """Their collator; `mask_tokens` is the name that 4.2.0 gave to `torch_mask_tokens`."""
    random.seed(1)
    torch.manual_seed(1)
    collate = side.module("data").CondenserCollator(
        tokenizer=BertTokenizer(str(side.model / "vocab.txt")), mlm_probability=both.MASK_PROBABILITY,
        max_seq_length=both.MAX_TOKENS + 2,
    )  # fmt: skip
    collate.mask_tokens = collate.torch_mask_tokens
    return collate


def masking(side: Side) -> Results:
    ids, lengths, order = (side.inputs["masking"][name].numpy() for name in ("ids", "lengths", "order"))
    collate = collator(side)
    texts = [{"text": of_row[1 : length - 1].tolist()} for of_row, length in zip(ids, lengths, strict=True)]

    def draw() -> tuple[Tensor, Tensor]:
        batch = collate(texts)
        chosen = batch["labels"] >= 0
        return batch["input_ids"][chosen], batch["labels"][chosen]

    batches = [draw() for _ in range(both.NUM_MASKINGS)]
    is_masked = np.zeros_like(ids)
    for row, text in enumerate(texts):
        tokens = collate.tokenizer.convert_ids_to_tokens(text["text"])

        def in_our_order(words: list[list[int]], ranks: np.ndarray = order[row, 1:]) -> None:
            words.sort(key=lambda word: ranks[word[0]])

        with mock.patch.object(random, "shuffle", in_our_order):
            is_masked[row, 1 : len(tokens) + 1] = collate._whole_word_mask(tokens)
    special = set(collate.tokenizer.all_special_ids)
    return both.masking_figures(is_masked, batches, lengths, collate.tokenizer.mask_token_id, special)


def long_blocks(side: Side) -> Results:
    given = side.inputs["long_blocks"]
    batch = collator(side)([{"text": ids} for ids in given["blocks"]])
    ids, labels = batch["input_ids"].numpy(), batch["labels"].numpy()
    original = np.where(labels >= 0, labels, ids)
    is_continuation = given["is_continuation"].numpy()
    return {"words masked in part": both.broken_words(original, labels >= 0, is_continuation)}


class Ids:
    """In place of the tokenizer, for sentences that are token ids: tokenizers are compared elsewhere."""

    def __call__(self, sentence: list[int], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": sentence}

    def num_special_tokens_to_add(self, pair: bool) -> int:
        return 2


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


def blocks(side: Side) -> Results:
    script, given = side.clone_file("Condenser/helper/create_train.py"), side.inputs["blocks"]
    sentences, results, source = given["sentences"], {}, side.work / "blocks.txt"
    source.write_text("".join(f"{row}\n" for row in range(len(sentences))))
    row_of = np.repeat(np.arange(len(sentences)), [sum(map(len, row)) for row in sentences])
    arguments = [str(script), "--file", str(source), "--save_to", str(side.work), "--tokenizer_name", "none"]
    arguments += ["--max_len", str(both.MAX_TOKENS + 2), "--short_sentence_prob"]
    pool = mock.MagicMock()  # one process: our draws must meet the rows that they belong to
    pool().__enter__().imap_unordered = lambda function, lines, chunksize: map(function, lines)
    for probability, of_rows in given["draws"].items():
        draws = Draws(sentences, of_rows)
        nltk = SimpleNamespace(download=lambda *_, **__: None, sent_tokenize=draws.split)
        with (
            mock.patch.object(sys, "argv", [*arguments, str(probability)]),
            mock.patch.dict(sys.modules, {"nltk": nltk}),
            mock.patch("multiprocessing.Pool", pool),
            mock.patch.object(transformers.AutoTokenizer, "from_pretrained", return_value=Ids()),
            mock.patch.multiple(random, random=draws.random, randint=draws.randint),
        ):
            runpy.run_path(str(script), run_name="__main__")
        lines = (side.work / "blocks.txt.json").read_text().splitlines()
        found = [json.loads(line)["text"] for line in lines]
        flat = [token for row in sentences for sentence in row for token in sentence]
        assert [token for block in found for token in block] == flat, "every sentence is in one block"
        results[f"rows {probability}"] = row_of[np.cumsum([0, *map(len, found)])[:-1]]
        results[f"lengths {probability}"] = np.array([len(block) for block in found])
        results[f"first ids {probability}"] = np.array([block[0] for block in found])
    return results


# ---- luyug/Dense and texttron/tevatron -----------------------------------------------------------


class Framework:
    """One of both clones, whose modules and classes have other names."""

    def __init__(self, side: Side, name: str) -> None:
        self.side, self.name, self._is_dense = side, name, name == "dense"
        self.data_args = SimpleNamespace(
            q_max_len=QUERY_LENGTH, p_max_len=PASSAGE_LENGTH, train_n_passages=both.PASSAGES_PER_QUERY,
            positive_passage_no_shuffle=False, negative_passage_no_shuffle=False,
        )  # fmt: skip
        # Dense encodes lists of ids, which only the tokenizers in Python can
        kind = BertTokenizer if self._is_dense else BertTokenizerFast
        self.tokenizer = kind(
            str(side.model / "vocab.txt"), tokenizer_file=str(side.model / "tokenizer.json")
        )

    def module(self, name: str) -> types.ModuleType:
        return self.side.module(f"{self.name}.{name}", "Dense/src" if self._is_dense else "tevatron/src")

    def named(self, module: str, *names: str) -> Any:
        """The class that has one of these names."""
        found = self.module(module)
        return next(getattr(found, name) for name in names if hasattr(found, name))

    def processor(self, kind: str, **settings: Any) -> Any:
        module = "processor.processors" if self._is_dense else "preprocessor.preprocessor_tsv"
        names = f"Simple{kind}Processor", f"Simple{kind}PreProcessor"
        return self.named(module, *names)(tokenizer=self.tokenizer, **settings)

    def model(self, num_queries: int) -> Any:
        config = BertConfig.from_pretrained(self.side.model, attn_implementation="eager")
        encoder = self.side.load(BertModel(config), "retriever")
        if not self._is_dense:
            return self.module("modeling.dense").DenseModel(encoder, encoder).train()
        train_args = SimpleNamespace(negatives_x_device=False, per_device_train_batch_size=num_queries)
        arguments = {"data_args": self.data_args, "train_args": train_args}
        return self.module("modeling").DenseModel(encoder, encoder, **arguments).train()

    def training_arguments(self, **changes: Any) -> Any:
        kind = self.named("arguments", "DenseTrainingArguments", "TevatronTrainingArguments")
        return self.side.training_arguments(kind, **changes)

    def train_set(self, passages: Any, queries: Any, positives: Any, negatives: Any, *trainer: Any) -> Any:
        """Their training set from a collection and queries, by their preprocessor."""
        folder = self.side.work / self.name
        folder.mkdir(exist_ok=True)
        lines = [f"{q}\t{text}\n" for q, text in enumerate(queries)]
        for name, rows in (("corpus", lines_of(passages)), ("queries", lines)):
            (folder / f"{name}.tsv").write_text("".join(rows))
        files = {"query_file": str(folder / "queries.tsv"), "collection_file": str(folder / "corpus.tsv")}
        process, asked = self.processor("Train", **files).process_one, zip(positives, negatives, strict=True)
        rows = [json.loads(process((str(q), *of_query))) for q, of_query in enumerate(asked)]
        kind = self.module("data").TrainDataset
        return kind(self.data_args, datasets.Dataset.from_list(rows), self.tokenizer, *trainer)

    def encoded(self, passages: Any) -> Any:
        """Passages as their preprocessor and their encoding set give them."""
        process, data = self.processor("Collection").process_line, self.module("data")
        rows = datasets.Dataset.from_list([json.loads(process(line)) for line in lines_of(passages)])
        dataset = data.EncodeDataset(rows, self.tokenizer, max_len=PASSAGE_LENGTH)
        collate = data.EncodeCollator(self.tokenizer, max_length=PASSAGE_LENGTH, padding="max_length")
        return collate([dataset[row] for row in range(len(dataset))])[1]


def lines_of(passages: Sequence[Sequence[str]]) -> list[str]:
    return [f"{row}\t{title}\t{text}\n" for row, (title, text) in enumerate(passages)]


def finetuning(side: Side, name: str) -> Results:
    framework, given = Framework(side, name), side.inputs["finetuning"]

    class Shuffler:  # their seed of an item is item + seed
        def __init__(self, number: int) -> None:
            self.order = given["orders"][number - SEED]

        def shuffle(self, values: list[Any]) -> None:
            values[:] = [values[index] for index in self.order]

    texts = [given[part] for part in ("passages", "queries", "positives", "negatives")]
    trainer = SimpleNamespace(args=SimpleNamespace(seed=SEED), state=SimpleNamespace(epoch=0))
    dataset, data = framework.train_set(*texts, trainer), framework.module("data")
    collate = data.QPCollator(framework.tokenizer, max_q_len=QUERY_LENGTH, max_p_len=PASSAGE_LENGTH)
    batches = []
    with mock.patch.object(data, "random", SimpleNamespace(Random=Shuffler, choices=random.choices)):
        for trainer.state.epoch in range(both.NUM_EPOCHS):
            batches.append(collate([dataset[item] for item in range(len(dataset))]))
    passage_ids = torch.stack([passages["input_ids"] for _, passages in batches])
    results = {"query ids": batches[0][0]["input_ids"], "passage ids": passage_ids}

    model, (queries, passages) = framework.model(len(dataset)), batches[1]
    loss = model(query=queries, passage=passages).loss
    loss.backward()
    results |= {"plain: loss": loss, **gradients(model.lm_q.named_parameters(), "plain: grad/")}

    side.module("grad_cache.grad_cache", "GradCache/src")

    class Trainer(framework.module("trainer").GCTrainer):
        scaler = None  # an attribute of 4.2.0's Trainer

    trainer = Trainer(model=model, args=framework.training_arguments(gc_q_chunk_size=3, gc_p_chunk_size=7))
    trainer.args.local_rank = -1
    loss = trainer.training_step(model, (dict(queries), dict(passages)))
    return results | {"cache: loss": loss, **gradients(model.lm_q.named_parameters(), "cache: grad/")}


def batches(side: Side, name: str) -> Results:
    """Steps of an epoch of 8 queries in batches of 3."""
    framework = Framework(side, name)
    trainer = framework.named("trainer", "DenseTrainer", "TevatronTrainer")(
        model=nn.Linear(1, 1), args=framework.training_arguments(per_device_train_batch_size=3),
        train_dataset=[0] * 8, data_collator=list,
    )  # fmt: skip
    return {"steps of an epoch": float(len(trainer.get_train_dataloader()))}


def encodings(side: Side, name: str) -> Results:
    framework, passages = Framework(side, name), side.inputs["finetuning"]["passages"]
    batch, model = framework.encoded(passages), framework.model(1).eval()
    titled = torch.tensor([bool(title) for title, _ in passages])
    with torch.no_grad():
        vectors, single = model(passage=batch).p_reps, model.float()(passage=batch).p_reps
    results = {"all, float32": single}
    for separator in ("always", "titled"):
        results |= {f"titled, {separator}": vectors[titled], f"untitled, {separator}": vectors[~titled]}
    return results


def csv(side: Side, name: str) -> Results:
    """The same passages encoded, and as training rows, which their preprocessor reads as CSV."""
    framework, passages = Framework(side, name), side.inputs["csv"]
    dataset = framework.train_set(passages, ["graph"], [[0, 1, 2]], [[0]])
    items = [dataset.create_one_example(ids) for ids in dataset.train_data[0]["positives"]]
    padding = {"padding": "max_length", "max_length": PASSAGE_LENGTH, "return_tensors": "pt"}
    training = framework.tokenizer.pad(items, **padding)["input_ids"]
    encoding = framework.encoded(passages)["input_ids"]
    return {"encoding": encoding, "training, quotes": training[1:2], "training, others": training[[0, 2]]}


def script(name: str, file: str) -> str:
    folder = (
        "Dense/examples/msmarco-passage-ranking" if name == "dense" else "tevatron/examples/coCondenser-marco"
    )
    return f"{folder}/{file}"


def mining(side: Side, name: str) -> Results:
    """Their candidates: the shuffle before the sample leaves the set of them as it is."""
    ranked, judged = (side.inputs["mining"][part] for part in ("ranked", "judged"))
    load_ranking = side.function(script(name, "build_train_hn.py"), "load_ranking")
    file = side.work / f"{name}.ranking.txt"
    hits = ((q, doc_id, rank) for q, doc_ids in ranked.items() for rank, doc_id in enumerate(doc_ids))
    file.write_text("".join(f"{q}\t{doc_id}\t{100 - rank}\n" for q, doc_id, rank in hits))

    def candidates(sample: int) -> np.ndarray:
        rows = load_ranking(file, judged, sample, both.DEPTH)
        return both.listed({query: negatives for query, _, negatives in rows})

    # theirs keeps the first that are not positive, whatever the depth of the search was
    deep, sampled = candidates(both.DEPTH), candidates(both.SAMPLE).sum(axis=1)
    return {"candidates, deep": deep, "candidates, cut": deep.sum(axis=1), "sampled": sampled}


def triples(side: Side, name: str) -> Results:
    """Negatives of a query's triples. get_data.sh joins them with commas, one line a query."""
    judged, of_query = side.inputs["mining"]["judged"], defaultdict[str, list[str]](list)
    for query, negative in side.inputs["triples"]:
        of_query[query].append(negative)
    names = {"qrel": judged, "args": SimpleNamespace(n_sample=both.SAMPLE)}
    read_line = side.function(script(name, "build_train.py"), "read_line", **names)
    rows = (read_line(f"{query}\t{','.join(doc_ids)}\n") for query, doc_ids in of_query.items())
    return both.triple_figures({query: negatives for query, _, negatives in rows}, judged)


# ---- the optimiser -------------------------------------------------------------------------------


def moved(before: dict[str, Tensor], model: nn.Module) -> Results:
    return {f"moved/{name}": weight - before[name] for name, weight in model.named_parameters()}


def trainer(side: Side) -> Results:
    """Ten updates by their Trainer on transformers 4.57, whose AdamW is PyTorch's."""
    model = side.condenser("CondenserForPretraining")
    before = both.as_tensors(dict(model.named_parameters()))
    seen: dict[str, list[float]] = {"losses": [], "norms": [], "rates": []}

    class Trainer(side.module("trainer").CondenserPreTrainer):
        def compute_loss(self, model: Any, inputs: Any, **_: Any) -> Any:  # 4.57 passes more
            loss = super().compute_loss(model, inputs)
            seen["losses"].append(loss.item())
            seen["rates"].append(self.optimizer.param_groups[0]["lr"])
            return loss

        def _get_train_sampler(self, *_: Any) -> Any:  # our order of batches
            return SequentialSampler(self.train_dataset)

    arguments = side.training_arguments(
        side.module("arguments").CondenserPreTrainingArguments, per_device_train_batch_size=1,
        num_train_epochs=1, **OPTIMISER,
    )  # fmt: skip
    one = Trainer(
        model=model,
        args=arguments,
        train_dataset=side.inputs["steps"],
        data_collator=lambda rows: dict(rows[0]),
    )
    clip = one.accelerator.clip_grad_norm_

    def clip_and_note(*args: Any, **kwargs: Any) -> Any:
        norm = clip(*args, **kwargs)
        seen["norms"].append(float(norm))
        return norm

    one.accelerator.clip_grad_norm_ = clip_and_note
    one.train()
    decayed = {id(weight) for weight in one.optimizer.param_groups[0]["params"]}
    series = {name: torch.tensor(values, dtype=torch.float64) for name, values in seen.items()}
    decays = {f"decays/{name}": float(id(weight) in decayed) for name, weight in model.named_parameters()}
    return {**series, **moved(before, model), **decays}


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


def adamw(side: Side, *, mend_epsilon: bool) -> Results:
    """Ten updates by the AdamW that the authors' runs had, grouped by 4.2.0's Trainer's rule.

    With `mend_epsilon`, epsilon is made smaller by the bias correction before each step, and weight decay
    is off: what is then left must be PyTorch's AdamW.
    """
    old, model = old_optimisation(side), side.condenser("CondenserForPretraining")
    named = dict(model.named_parameters())
    before = both.as_tensors(named)
    spared = ("bias", "LayerNorm.weight")  # trainer.py of 4.2.0
    decays = {name: not any(part in name for part in spared) for name in named}
    rates = {True: 0.0 if mend_epsilon else OPTIMISER["weight_decay"], False: 0.0}
    groups = [
        {"params": [named[name] for name in named if decays[name] is has_decay], "weight_decay": rate}
        for has_decay, rate in rates.items()
    ]
    optimiser = old.AdamW(groups, lr=OPTIMISER["learning_rate"], betas=(0.9, 0.999), eps=1e-8)
    num_warmup = both.NUM_STEPS * OPTIMISER["warmup_ratio"]
    schedule = old.get_linear_schedule_with_warmup(optimiser, num_warmup, both.NUM_STEPS)
    for step, batch in enumerate(side.inputs["steps"]):
        model.zero_grad()
        model(*split_labels(batch)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), OPTIMISER["max_grad_norm"])
        if mend_epsilon:
            for group in optimiser.param_groups:
                group["eps"] = 1e-8 * (1 - 0.999 ** (step + 1)) ** 0.5
        optimiser.step()
        schedule.step()
    flags = {} if mend_epsilon else {f"decays/{name}": float(value) for name, value in decays.items()}
    return moved(before, model) | flags


def schedule(side: Side, num_steps: int) -> Results:
    """Factors of the learning rate by 4.2.0, with the warm-up steps that their pre-trainer asks for."""
    old, kind = old_optimisation(side), side.module("trainer").CondenserPreTrainer
    stand_in = kind.__new__(kind)
    stand_in.args = SimpleNamespace(warmup_ratio=OPTIMISER["warmup_ratio"], warmup_steps=0)
    with mock.patch.object(transformers.Trainer, "create_optimizer_and_scheduler"):
        stand_in.create_optimizer_and_scheduler(num_steps)
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    factors = old.get_linear_schedule_with_warmup(optimiser, stand_in.args.warmup_steps, num_steps).lr_lambdas
    return {"factors": torch.tensor([factors[0](step) for step in range(num_steps)], dtype=torch.float64)}


def warmup(side: Side) -> Results:
    """The warm-up ratio that reaches the schedule of fine-tuning: 4.2.0 must read it, or Dense itself."""
    old_optimisation(side)
    texts = [(side.old / "transformers" / name).read_text() for name in ("trainer.py", "training_args.py")]
    texts.append(side.clone_file("Dense/src/dense/trainer.py").read_text())
    is_read = any("warmup_ratio" in text for text in texts)
    ratio = side.module("dense.arguments", "Dense/src").DenseTrainingArguments.warmup_ratio
    return {"warm-up of fine-tuning": ratio if is_read else 0.0}


CHECKS: dict[str, Callable[[Side], Results]] = {
    "condenser": condenser, "cocondenser": cocondenser, "cache_one_chunk": partial(cache, chunk_size=16),
    "cache_three_chunks": partial(cache, chunk_size=6), "two_processes": two_processes, "masking": masking,
    "long_blocks": long_blocks, "blocks": blocks, "trainer": trainer,
    "adamw": partial(adamw, mend_epsilon=False), "adamw_epsilon": partial(adamw, mend_epsilon=True),
    "schedule_30": partial(schedule, num_steps=30), "schedule_25": partial(schedule, num_steps=25),
    "warmup": warmup,
}  # fmt: skip
OF_FRAMEWORKS = finetuning, batches, encodings, csv, mining, triples


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where ours.py wrote")
    parser.add_argument("--authors", type=Path, required=True, help="the clones")
    parser.add_argument("--old", type=Path, required=True, help="transformers 4.2.0, unpacked")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    datasets.config.HF_DATASETS_CACHE = args.work / "cache"
    datasets.disable_progress_bars()
    side = Side(args.work, args.authors.resolve(), args.old)
    checks = [(name, "Condenser", check) for name, check in CHECKS.items()]
    for check in OF_FRAMEWORKS:
        checks += [(check.__name__, name, partial(check, name=name)) for name in ("dense", "tevatron")]
    results: dict[str, dict[str, Batch | str]] = defaultdict(dict)
    for name, clone, check in checks:
        try:
            results[name][clone] = both.as_tensors(check(side))
        except NotThere as lack:
            results[name][clone] = str(lack)
    torch.save(dict(results), args.work / "theirs.pt")
    versions = {"Python": platform.python_version(), "torch": str(torch.__version__)}
    versions["transformers"] = transformers.__version__
    for clone in ("Condenser", "GradCache", "Dense", "tevatron"):
        log = ["git", "-C", str(side.authors / clone), "log", "-1", "--format=%H (%cs)"]
        done = subprocess.run(log, capture_output=True, text=True, check=False)
        versions[clone] = done.stdout.strip() or "no git clone"
    torch.save(versions, args.work / "versions.pt")


if __name__ == "__main__":
    main()
