"""Our side of the check: tiny weights, inputs of every check, and what our code computes from them.

    python benchmarks/parity/ours.py --work build/parity

Reads tests/data/tiny. Writes in the work folder `inputs/`, all that the other side needs (weights with the
names of the authors' model, token ids, texts, our random draws), and `ours/<check>.safetensors`. Everything
is float64 on one thread, and dropout is off.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor, nn

from condenser import kinds
from condenser.data.batches import (
    length_chunks,
    negative_window,
    num_steps,
    pack_texts,
    positive_index,
    row_windows,
    step_items,
)
from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.masking import mask_tokens
from condenser.data.negatives import make_examples
from condenser.data.randomness import uniforms
from condenser.data.records import (
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    read_examples,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.data.triples import make_triple_examples
from condenser.files import read_json, write_json
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.backbone import new_backbone
from condenser.model.devices import set_up
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.retrieve.encode import encode_texts
from condenser.train import loop
from condenser.train.chunks import Chunk
from condenser.train.distributed import alone
from condenser.train.gradient_cache import contrastive_backward
from condenser.train.masked_texts import MaskedRows, MaskedTexts, masked_texts
from condenser.train.memory import StepMemory
from condenser.train.pretrain import Training, _backward, condenser_losses
from condenser.train.schedule import linear_factor, num_warmup_steps

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "data" / "tiny"
SEED = 42
SHAPE = {
    "hidden_size": 32,
    "num_layers": 4,
    "num_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 500,
    "max_positions": 64,
}
MAX_TOKENS = 30  # of a block, without specials
QUERY_LENGTH, PASSAGE_LENGTH = 12, 40
NUM_PASSAGES, PASSAGES_PER_QUERY, NUM_QUERIES, NUM_EPOCHS = 120, 3, 8, 7
NUM_OPTIMISER_STEPS = 10
OPTIMISER = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0}
CONDENSER: dict[str, Any] = {
    "skip_from": 2,
    "num_head_layers": 2,
    "late_mlm_weight": 1.0,
    "initial_share": 0.0,
    "max_tokens": MAX_TOKENS,
    "short_probability": 0.1,
    "mask_probability": 0.15,
    "batch_size": 16,
    "rows_per_chunk": 5,
}
COCONDENSER: dict[str, Any] = {
    "late_mlm_weight": 1.0,
    "initial_share": 0.0,
    "min_span_tokens": 4,
    "scale": None,
    "span_tokens": [10, 20],
    "short_probability": 0.1,
    "mask_probability": 0.15,
    "mlm_weight": 1.0,
    "contrastive_weight": 1.0,
    "batch_size": 8,
    "rows_per_chunk": 6,
    "gradient_cache": "never",
    "memory_gb": 1.0,
    "new_head": {"skip_from": 2, "num_head_layers": 2},
}


@dataclass(frozen=True)
class Setting:
    """What all checks share: the work folder, the backbone's folder, and the tokens of the collection."""

    work: Path
    backbone: Path
    passages: list[Passage]
    tokenizer: Tokenizer
    shards: TokenShards

    def give(self, name: str, **tensors: Tensor | np.ndarray) -> None:
        """Write inputs for the other side."""
        _save(self.work / "inputs" / f"{name}.safetensors", tensors)

    def give_json(self, name: str, value: Any) -> None:
        write_json(self.work / "inputs" / f"{name}.json", value)

    def keep(self, check: str, results: Mapping[str, Tensor | np.ndarray | float]) -> None:
        """Write our results of a check."""
        _save(self.work / "ours" / f"{check}.safetensors", results)


def _save(path: Path, values: Mapping[str, Tensor | np.ndarray | float]) -> None:
    tensors = {
        name: torch.tensor(value, dtype=torch.float64)
        if isinstance(value, float)
        else torch.as_tensor(value).detach().clone().contiguous()
        for name, value in values.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path)


def prepare(work: Path) -> Setting:
    """A new backbone, and the tokens of a small collection. Every third of its passages has a title."""
    corpus = [json.loads(line) for line in (TINY / "corpus.jsonl").read_text().splitlines()]
    texts = [row["text"] for row in corpus if '"' not in row["text"]][
        :NUM_PASSAGES
    ]  # the check `csv` has them
    passages = [
        Passage(str(row), " ".join(text.split()[:4]) if row % 3 == 0 else "", " ".join(text.split()))
        for row, text in enumerate(texts)
    ]
    backbone = work / "inputs" / "model"
    new_backbone(
        backbone,
        seed=SEED,
        shape=SHAPE,
        texts=texts,
    )
    config = read_json(backbone / "config.json")
    write_json(
        backbone / "config.json", config | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    vocabulary = read_json(backbone / "tokenizer.json")["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    (backbone / "vocab.txt").write_text("".join(f"{word}\n" for word in words))  # for tokenizers in Python
    tokenizer = Tokenizer(backbone)
    setting = Setting(work, backbone, passages, tokenizer, _shards(work, "collection", passages, tokenizer))
    setting.give_json(
        "settings",
        {
            "config": read_json(backbone / "config.json"),
            "skip_from": CONDENSER["skip_from"],
            "num_head_layers": CONDENSER["num_head_layers"],
            "max_tokens": MAX_TOKENS,
            "query_length": QUERY_LENGTH,
            "passage_length": PASSAGE_LENGTH,
            "passages_per_query": PASSAGES_PER_QUERY,
            "num_epochs": NUM_EPOCHS,
            "num_steps": NUM_OPTIMISER_STEPS,
            "seed": SEED,
            **OPTIMISER,
        },
    )
    return setting


def _shards(
    work: Path, name: str, passages: Sequence[Passage], tokenizer: Tokenizer, *, separator: bool = False
) -> TokenShards:
    prefix = work / "tokens" / name
    prefix.parent.mkdir(parents=True, exist_ok=True)
    texts = [(passage.title, passage.text) for passage in passages]
    write_token_shard(texts, prefix, tokenizer, batch_size=32, split=True, leading_separator=separator)
    return TokenShards([prefix])


def spread(model: nn.Module) -> None:
    """Make new weights in float64 larger and less regular, so that texts and words look different."""
    model.double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)).double()
            if weight.dim() == 2:
                weight *= 4
            else:
                weight += 0.1 * noise


def named_as_theirs(model: Condenser) -> Iterator[tuple[str, nn.Parameter]]:
    """The trained weights under the names of the authors' Condenser."""
    names = {"backbone": "lm.bert", "mlm_head": "lm.cls.predictions", "head": "c_head"}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            part, _, rest = name.partition(".")
            yield f"{names[part]}.{rest}", weight


def gradients(model: Condenser, *, prefix: str = "grad/") -> dict[str, Tensor]:
    """The gradients under the names of the authors' Condenser; removes them from the model."""
    found = {}
    for name, weight in named_as_theirs(model):
        if weight.grad is not None:
            found[f"{prefix}{name}"] = weight.grad.clone()
        weight.grad = None
    return found


def whole_batch(texts: MaskedTexts, *, width: int, pad_id: int) -> dict[str, Tensor]:
    """Our chunks put together as the authors feed a batch: in its order, padded to the limit."""
    (num_rows,) = texts.num_rows.values()
    ids = torch.full((num_rows, width), pad_id)
    is_token, labels = torch.zeros(num_rows, width, dtype=torch.int64), torch.full((num_rows, width), -100)
    for chunk in texts.chunks:
        own = chunk.inputs
        count = own.rows.layout.num_tokens
        at_tokens = (
            chunk.rows.repeat_interleave(torch.from_numpy(own.rows.lengths)),
            own.rows.columns[:count],
        )
        ids[at_tokens] = own.rows.ids[:count]
        is_token[at_tokens] = 1
        masked = own.masked.tokens[: len(own.labels)]
        labels[tuple(places[masked] for places in at_tokens)] = own.labels
    return {"input_ids": ids, "attention_mask": is_token, "labels": labels}


def objective(setting: Setting, name: str, settings: Mapping[str, Any]) -> Training:
    """The training of an objective, as the workflow makes it, with weights that are spread."""
    training: Training = kinds.load("objectives", name).training(
        setting.backbone, setting.shards, setting.tokenizer, settings, seed=SEED
    )
    spread(training.model)
    training.model.train()
    return training


def batch_of(setting: Setting, training: Training, step: int, *, size: int, chunk: int) -> MaskedTexts:
    """The masked batch of a step, as `condenser.train.pretrain.pretrain` makes it."""
    epoch, _, items = step_items(training.num_items, batch_size=size, step=step, seed=SEED, stream="parity")
    return masked_texts(
        setting.shards,
        training.texts(items, epoch),
        tokenizer=setting.tokenizer,
        mask_probability=training.mask_probability,
        rows_per_chunk=chunk,
        seed=SEED,
        epoch=epoch,
        step=step,
        processes=alone(torch.device("cpu")),
    )


def condenser(setting: Setting) -> None:
    """Losses and gradients of a batch of blocks, in chunks of similar length."""
    training = objective(setting, "condenser", CONDENSER)
    texts = batch_of(setting, training, 0, size=16, chunk=5)
    setting.give("weights", **dict(named_as_theirs(training.model)))
    setting.give("condenser", **whole_batch(texts, width=MAX_TOKENS + 2, pad_id=setting.tokenizer.pad_id))
    figures = _backward(training, alone(torch.device("cpu")), precision="fp32")(texts, 0, 1.0)
    named = {name: figures[name] for name in ("loss", "head_mlm", "late_mlm")}
    setting.keep(
        "condenser",
        {**named, "loss of two parts": figures["loss"], **gradients(training.model)},
    )


def cocondenser(setting: Setting) -> None:
    """Losses and gradients of spans: with all graphs kept, and with the gradient cache."""
    plain = objective(setting, "cocondenser", COCONDENSER)
    texts = batch_of(setting, plain, 0, size=8, chunk=6)
    setting.give("cocondenser", **whole_batch(texts, width=MAX_TOKENS + 2, pad_id=setting.tokenizer.pad_id))
    processes = alone(torch.device("cpu"))
    figures = _backward(plain, processes, precision="fp32")(texts, 0, 1.0)
    mlm = figures["head_mlm"] + figures["late_mlm"]
    setting.keep(
        "cocondenser",
        {
            "loss": figures["loss"],
            "contrastive": figures["contrastive"],
            "mlm": mlm,
            **gradients(plain.model),
        },
    )

    contrast = objective(setting, "cocondenser", COCONDENSER | {"mlm_weight": 0.0})
    figures = _backward(contrast, processes, precision="fp32")(texts, 0, 1.0)
    setting.keep(
        "two_processes",
        {"contrastive": figures["contrastive"], "mlm": mlm, **gradients(contrast.model)},
    )

    cached = objective(setting, "cocondenser", COCONDENSER | {"gradient_cache": "always", "mlm_weight": 2.0})
    figures = _backward(cached, processes, precision="fp32")(texts, 0, 1.0)
    setting.keep("cache_one_chunk", {"loss": figures["loss"], "mlm weight": 1.0, **gradients(cached.model)})

    model = cached.model
    losses = contrastive_backward(
        _their_chunks(texts, size=6),
        lambda chunk: model.represent(chunk.inputs.rows),
        span_contrastive_loss,
        num_rows=texts.num_rows,
        dim=SHAPE["hidden_size"],
        encode_with_losses=partial(_weighed_as_theirs, model, num_documents=8),
        loss_names=["mlm"],
        keep_graphs=False,
        memory=StepMemory(model, keeps_graphs=False),
        processes=processes,
        scale=1.0,
    )
    setting.keep("cache_three_chunks", {"loss": sum(losses.values()), "mlm weight": 1.0, **gradients(model)})


def _their_chunks(texts: MaskedTexts, *, size: int) -> list[Chunk[Any]]:
    """The rows of a batch in its order, `size` at a time; our own chunks are of similar length."""
    whole = whole_batch(texts, width=MAX_TOKENS + 2, pad_id=0)
    chunks = []
    for number, rows in enumerate(torch.arange(len(whole["labels"])).split(size)):
        ids, is_token, labels = (
            whole[name][rows].numpy() for name in ("input_ids", "attention_mask", "labels")
        )
        texts_of_chunk, masked = Rows.of(ids, is_token.sum(1)), np.nonzero(labels >= 0)
        inputs = MaskedRows(texts_of_chunk, texts_of_chunk.chosen(*masked), torch.from_numpy(labels[masked]))
        chunks.append(Chunk("spans", rows, inputs, number))
    return chunks


def _weighed_as_theirs(
    model: Condenser, chunk: Chunk[MaskedRows], *, num_documents: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Vectors and losses of a chunk: its mean over masked tokens times its rows over the documents."""
    vectors, losses = condenser_losses(model, chunk.inputs)
    weight = len(vectors) / num_documents / len(chunk.inputs.labels)
    return vectors, {"mlm": weight * (losses["head_mlm"] + losses["late_mlm"])}


def masking(setting: Setting) -> None:
    """Which tokens are masked when words come in the same order, and shares over many draws."""
    tokenizer, shards = setting.tokenizer, setting.shards
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.1, seed=SEED)
    items = np.flatnonzero(blocks.lengths <= MAX_TOKENS)
    starts, lengths = blocks.starts[items], blocks.lengths[items]
    ids, whole = pack_texts(shards, starts, lengths, tokenizer)

    def masked(epoch: int) -> Any:
        return mask_tokens(
            ids,
            is_continuation=tokenizer.is_continuation,
            random_ids=tokenizer.random_ids,
            mask_id=tokenizer.mask_id,
            probability=0.15,
            max_predictions=ids.shape[1],
            positions=items,
            seed=SEED,
            epoch=epoch,
        )

    is_masked = np.zeros(ids.size, dtype=np.int64)
    is_masked[masked(0).masked_positions] = 1
    is_masked = is_masked.reshape(ids.shape)
    actions, num_masked, specials = np.zeros(3), 0, 0
    draws = 40
    for epoch in range(draws):
        batch = masked(epoch)
        new = batch.input_ids.ravel()[batch.masked_positions]
        actions += [
            (new == tokenizer.mask_id).sum(),
            ((new != tokenizer.mask_id) & (new != batch.labels)).sum(),
            (new == batch.labels).sum(),
        ]
        num_masked += len(new)
        specials += int((~np.isin(new, np.append(tokenizer.random_ids, tokenizer.mask_id))).sum())
    setting.give(
        "masking",
        ids=ids,
        lengths=whole,
        order=uniforms(SEED, "mask order", 0, items, columns=ids.shape[1]),
        draws=torch.tensor(draws),
    )
    setting.keep(
        "masking",
        {
            "positions": is_masked,
            "counts": is_masked.sum(axis=1),
            "share of tokens": num_masked / (draws * (whole - 2).sum()),
            "shares of actions": actions / actions.sum(),
            "specials among random tokens": specials / actions[1],
        },
    )


def long_blocks(setting: Setting) -> None:
    """Blocks of one over-long sentence: words of which only some pieces are masked."""
    tokenizer = setting.tokenizer
    texts = [" ".join(setting.passages[row].text.replace(".", "").split()[:60]) for row in range(40)]
    passages = [Passage(str(row), "", text) for row, text in enumerate(texts)]
    shards = _shards(setting.work, "long", passages, tokenizer)
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.0, seed=SEED)
    items = np.flatnonzero(blocks.lengths > MAX_TOKENS)
    setting.give_json(
        "long_blocks",
        [
            shards.read(
                blocks.starts[[item]], blocks.lengths[[item]], width=int(blocks.lengths[item]), fill=0
            )[0].tolist()
            for item in items
        ],
    )
    starts, lengths = block_windows(blocks, items, max_tokens=MAX_TOKENS, seed=SEED, epoch=0)
    ids, _ = pack_texts(shards, starts, lengths, tokenizer)
    batch = mask_tokens(
        ids,
        is_continuation=tokenizer.is_continuation,
        random_ids=tokenizer.random_ids,
        mask_id=tokenizer.mask_id,
        probability=0.15,
        max_predictions=ids.shape[1],
        positions=items,
        seed=SEED,
        epoch=0,
    )
    is_masked = np.zeros(ids.size, dtype=bool)
    is_masked[batch.masked_positions] = True
    setting.give("long_blocks", is_continuation=tokenizer.is_continuation.astype(np.int64))
    broken = broken_words(ids, is_masked.reshape(ids.shape), tokenizer.is_continuation)
    setting.keep("long_blocks", {"words masked in part": float(broken)})


def broken_words(ids: np.ndarray, is_masked: np.ndarray, is_continuation: np.ndarray) -> int:
    """Continuations of which either they or the piece before them is masked, and not both.

    The first piece of a window, behind [CLS], begins a word on both sides.
    """
    inside = is_continuation[ids[:, 2:]]
    return int((inside & (is_masked[:, 2:] != is_masked[:, 1:-1])).sum())


def blocks(setting: Setting) -> None:
    """Blocks of sentences: one target length, and with one short target in ten (or half), drawn by us."""
    shards = setting.shards
    sentences = []
    for row in range(shards.num_rows):
        first, end = shards.first_sentence[row] + 1, shards.first_sentence[row + 1]
        bounds = shards.sentence_starts[first : end + 1]
        sentences.append(
            [
                shards.read(np.array([a]), np.array([b - a]), width=int(b - a), fill=0)[0].tolist()
                for a, b in pairwise(bounds.tolist())
            ]
        )
    results, drawn = {}, {}
    for probability in (0.0, 0.1, 0.5):
        packed = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=probability, seed=SEED)
        rows = np.searchsorted(shards.row_starts, packed.starts, side="right") - 1
        results[f"rows {probability}"] = rows
        results[f"lengths {probability}"] = packed.lengths
        results[f"first ids {probability}"] = shards.read(
            packed.starts, np.ones_like(packed.starts), width=1, fill=0
        )[:, 0]
        # sentence 0 of a row is its title: a block opens at one of the others
        opening = np.searchsorted(shards.sentence_starts, packed.starts, side="right") - 1
        draws = uniforms(SEED, "block targets", 0, opening, columns=2)
        drawn[str(probability)] = [draws[rows == row].tolist() for row in range(shards.num_rows)]
    setting.give_json("blocks", {"sentences": sentences, "draws": drawn})
    setting.keep("blocks", results)


def _rows_of_ids(shards: TokenShards, rows: np.ndarray, *, max_tokens: int, tokenizer: Tokenizer) -> Tensor:
    """`[CLS] text [SEP]` of some rows, padded to `max_tokens`."""
    starts, lengths = row_windows(shards, rows, max_tokens=max_tokens)
    ids, _ = pack_texts(shards, starts, lengths, tokenizer)
    padded = torch.full((len(rows), -(-max_tokens // 8) * 8), tokenizer.pad_id)
    padded[:, : ids.shape[1]] = torch.from_numpy(ids)
    return padded[:, :max_tokens]


def finetuning(setting: Setting) -> None:
    """Draws of positives and negatives in each epoch; loss and gradients of one batch."""
    tokenizer = setting.tokenizer
    passages = _shards(setting.work, "separated", setting.passages, tokenizer, separator=True)
    queries = [
        Passage(f"q{number}", "", " ".join(setting.passages[number].text.split()[3:20]))
        for number in range(NUM_QUERIES)
    ]
    query_shards = _shards(setting.work, "queries", queries, tokenizer)
    positives = [list(range(number, number + 1 + number % 3)) for number in range(NUM_QUERIES)]
    negatives = [[(7 * number + 5 * k) % 90 + 20 for k in range(2 + number)] for number in range(NUM_QUERIES)]
    orders = [
        np.argsort(uniforms(SEED, "negatives", 0, np.array([item]), columns=len(own))[0]).tolist()
        for item, own in enumerate(negatives)
    ]
    setting.give_json(
        "finetuning",
        {
            "queries": [query.text for query in queries],
            "passages": [[passage.title, passage.text] for passage in setting.passages],
            "positives": positives,
            "negatives": negatives,
            "orders": orders,
        },
    )
    drawn = []
    for epoch in range(NUM_EPOCHS):
        for item in range(NUM_QUERIES):
            positive = positive_index(item, len(positives[item]), seed=SEED, epoch=epoch)
            window = negative_window(
                len(negatives[item]), PASSAGES_PER_QUERY - 1, seed=SEED, item=item, epoch=epoch
            )
            drawn.append([positives[item][positive], *(negatives[item][index] for index in window)])
    rows = np.array(drawn).reshape(NUM_EPOCHS, NUM_QUERIES, PASSAGES_PER_QUERY)
    asked, given = np.arange(NUM_QUERIES), rows[1].ravel()
    results: dict[str, Any] = {
        "query ids": _rows_of_ids(query_shards, asked, max_tokens=QUERY_LENGTH, tokenizer=tokenizer),
        "passage ids": torch.stack(
            [
                _rows_of_ids(passages, epoch.ravel(), max_tokens=PASSAGE_LENGTH, tokenizer=tokenizer)
                for epoch in rows
            ]
        ),
    }

    model = Retriever.load(setting.backbone, dropout=None)
    spread(model)
    model.train()
    for name in ("plain", "cache"):
        chunks = [
            chunk
            for group, shards, texts, limit in (
                ("queries", query_shards, asked, QUERY_LENGTH),
                ("passages", passages, given, PASSAGE_LENGTH),
            )
            for chunk in _text_chunks(group, shards, texts, max_tokens=limit, tokenizer=tokenizer)
        ]
        losses = contrastive_backward(
            chunks,
            lambda chunk: model(chunk.inputs),
            in_batch_loss,
            num_rows={"queries": len(asked), "passages": len(given)},
            dim=SHAPE["hidden_size"],
            memory=StepMemory(model, keeps_graphs=name == "plain"),
            processes=alone(torch.device("cpu")),
            scale=1.0,
        )
        results[f"{name}: loss"] = losses["contrastive"]
        for weight_name, weight in model.named_parameters():
            if weight.grad is not None:
                results[f"{name}: grad/{weight_name.removeprefix('backbone.')}"] = weight.grad
                weight.grad = None
    setting.give("retriever", **dict(model.backbone.named_parameters()))
    for name in ("dense", "tevatron"):
        setting.keep(f"finetuning_{name}", results)
        steps = num_steps(NUM_QUERIES, batch_size=3, epochs=1)
        setting.keep(f"batches_{name}", {"steps of an epoch": float(steps)})


def _text_chunks(
    group: str, shards: TokenShards, rows: np.ndarray, *, max_tokens: int, tokenizer: Tokenizer
) -> Iterator[Chunk[Rows]]:
    """Chunks of similar length, as `condenser.train.finetune.train_retriever` makes them."""
    starts, lengths = row_windows(shards, rows, max_tokens=max_tokens)
    for number, places in enumerate(length_chunks(lengths, rows_per_chunk=5)):
        ids, whole = pack_texts(shards, starts[places], lengths[places], tokenizer)
        yield Chunk(group, torch.from_numpy(places), Rows.of(ids, whole), number)


def encodings(setting: Setting) -> None:
    """Vectors of passages with and without a title, and of queries: in float64, and by `encode_texts`."""
    tokenizer = setting.tokenizer
    model = Retriever.load(setting.backbone, dropout=None)
    spread(model)
    model.eval()
    titled = np.array([bool(passage.title) for passage in setting.passages])
    results: dict[str, Any] = {}
    for name, separator in (("always", True), ("titled", False)):
        shards = _shards(setting.work, f"encoded_{name}", setting.passages, tokenizer, separator=separator)
        vectors = torch.empty(len(titled), SHAPE["hidden_size"], dtype=torch.float64)
        with torch.no_grad():
            for chunk in _text_chunks(
                "passages", shards, np.arange(len(titled)), max_tokens=PASSAGE_LENGTH, tokenizer=tokenizer
            ):
                vectors[chunk.rows] = model(chunk.inputs)
        results[f"titled, {name}"] = vectors[titled]
        results[f"untitled, {name}"] = vectors[~titled]

    single = setting.work / "encoder"
    if not single.exists():
        model.float().save(single, setting.backbone)
    encode_texts(
        single,
        setting.work / "tokens" / "encoded_always",
        setting.work / "vectors.npy",
        rows=None,
        role="passage",
        max_tokens=PASSAGE_LENGTH,
        batch_tokens=512,
        block_rows=32,
        compute=set_up(device="cpu", precision="fp32", threads=1),
        work_folder=setting.work / "encoding",
        name_of_row=str,
    )
    results["all, float32"] = np.load(setting.work / "vectors.npy")
    for name in ("dense", "tevatron"):
        setting.keep(f"encodings_{name}", results)

    quoted = [
        Passage("0", "", 'the function "returns" a graph'),
        Passage("1", "", '"maximum clique" of a graph'),
        Passage("2", "", "a set of nodes"),
    ]
    shards = _shards(setting.work, "quoted", quoted, tokenizer, separator=True)
    ids = _rows_of_ids(shards, np.arange(3), max_tokens=PASSAGE_LENGTH, tokenizer=tokenizer)
    setting.give_json("csv", [[passage.title, passage.text] for passage in quoted])
    for name in ("dense", "tevatron"):
        setting.keep(
            f"csv_{name}", {"encoding": ids, "training, quotes": ids[1:2], "training, others": ids[[0, 2]]}
        )


def mining(setting: Setting) -> None:
    """Candidates for hard negatives of a run, and negatives of triples."""
    random = np.random.default_rng(SEED)
    folder = setting.work / "inputs" / "mining"
    folder.mkdir(parents=True, exist_ok=True)
    num_queries, deep, depth = 12, 60, 50
    write_queries(folder / "queries.jsonl", [Query(str(q), f"query {q}") for q in range(num_queries)])
    ranked = {str(q): random.permutation(200)[:deep].astype(str).tolist() for q in range(num_queries)}
    judged = {q: [hits[k] for k in range(int(q) % 4 + 1)] + ["900"] for q, hits in ranked.items()}
    write_qrels(
        folder / "qrels.tsv", [Qrel(q, doc_id, 1) for q, doc_ids in judged.items() for doc_id in doc_ids]
    )
    for name, length in (("deep", deep), ("cut", depth)):
        hits = [
            ScoredDoc(q, doc_id, 100.0 - rank)
            for q, doc_ids in ranked.items()
            for rank, doc_id in enumerate(doc_ids[:length])
        ]
        write_run(folder / f"{name}.trec", hits, system="parity")
    setting.give_json("mining", {"ranked": ranked, "judged": judged, "depth": depth})

    def candidates(run: str, *, sample: int) -> np.ndarray:
        output = setting.work / f"examples.{run}.{sample}.jsonl"
        make_examples(
            folder / f"{run}.trec",
            folder / "queries.jsonl",
            folder / "qrels.tsv",
            output,
            depth=depth,
            sample=sample,
            positive_in_run=False,
            margin=None,
            wanted=None,
            seed=SEED,
        )
        chosen = np.zeros((num_queries, 200), dtype=np.int64)
        for example in read_examples(output):
            chosen[int(example.query_id), [int(doc_id) for doc_id in example.negative_doc_ids]] = 1
        return chosen

    for name in ("dense", "tevatron"):
        setting.keep(
            f"mining_{name}",
            {
                "candidates, deep": candidates("deep", sample=depth),
                "candidates, cut": candidates("cut", sample=depth).sum(axis=1),
                "sampled": candidates("deep", sample=30).sum(axis=1),
            },
        )

    triples = [(q, judged[str(q)][0], doc_id) for q in range(num_queries) for doc_id in ranked[str(q)][4:20]]
    triples += [(q, judged[str(q)][0], judged[str(q)][-1]) for q in range(num_queries)]  # judged positive
    triples += [(q, judged[str(q)][0], ranked[str(q)][5]) for q in range(num_queries)]  # named twice
    archive = folder / "triples.tsv.gz"
    with gzip.open(archive, "wt", newline="") as file:
        file.writelines(f"{q}\t{positive}\t{negative}\r\n" for q, positive, negative in sorted(triples))
    output = setting.work / "examples.triples.jsonl"
    make_triple_examples(
        archive,
        folder / "queries.jsonl",
        folder / "qrels.tsv",
        output,
        sample=30,
        wanted=None,
        seed=SEED,
        official_rows=len(triples),
    )
    counts = np.zeros((num_queries, 2), dtype=np.int64)  # judged positive, named again
    listed = np.zeros((num_queries, 200), dtype=np.int64)
    for example in read_examples(output):
        doc_ids = example.negative_doc_ids
        row = int(example.query_id)
        counts[row] = sum(doc_id in judged[str(row)] for doc_id in doc_ids), len(doc_ids) - len(set(doc_ids))
        listed[row, [int(doc_id) for doc_id in doc_ids]] = 1
    setting.give_json("triples", [[str(value) for value in row] for row in sorted(triples)])
    for name in ("dense", "tevatron"):
        setting.keep(
            f"triples_{name}",
            {
                "negatives": listed,
                "judged positive": counts[:, 0],
                "listed again": counts[:, 1],
            },
        )


def optimiser(setting: Setting) -> None:
    """Ten updates of a Condenser by our loop, and the factors of the learning rate."""
    training = objective(setting, "condenser", CONDENSER)
    batches = [batch_of(setting, training, step, size=6, chunk=6) for step in range(NUM_OPTIMISER_STEPS)]
    for step, texts in enumerate(batches):
        setting.give(
            f"step{step}", **whole_batch(texts, width=MAX_TOKENS + 2, pad_id=setting.tokenizer.pad_id)
        )
    for name, weight_decay in (("decay", OPTIMISER["weight_decay"]), ("no decay", 0.0)):
        training = objective(setting, "condenser", CONDENSER)
        before = {key: weight.detach().clone() for key, weight in named_as_theirs(training.model)}
        decayed = {id(weight) for weight in loop.weight_groups(training.model, weight_decay=1.0)[0]["params"]}
        folder = setting.work / f"loop, {name}"
        folder.mkdir(parents=True)
        records: list[loop.StepRecord] = []
        run = loop.Run(
            settings=OPTIMISER | {"weight_decay": weight_decay},
            seed=SEED,
            precision="fp32",
            processes=alone(torch.device("cpu")),
            fingerprint="parity",
            work_folder=folder,
            checkpoint_every_s=3600,
            checkpoints_kept=1,
            bad_loss_patience=0,
            on_step=records.append,
        )
        loop.train(
            training.model,
            lambda step: loop.Batch(batches[step], 0, 6, 0, dict, 6),
            _backward(training, run.processes, precision="fp32"),
            run,
            num_steps=NUM_OPTIMISER_STEPS,
            title="parity",
        )
        moved = {
            f"moved/{key}": weight.detach() - before[key] for key, weight in named_as_theirs(training.model)
        }
        losses = torch.tensor([record.losses["loss"] for record in records], dtype=torch.float64)
        norms = torch.tensor([record.grad_norm for record in records], dtype=torch.float64)
        rates = torch.tensor([record.learning_rate for record in records], dtype=torch.float64)
        kept = {"losses": losses, "norms": norms, "rates": rates, **moved}
        if name == "decay":
            has_decay = {
                f"decays/{key}": float(id(weight) in decayed)
                for key, weight in named_as_theirs(training.model)
            }
            setting.keep("trainer", kept | has_decay)
            setting.keep("adamw", moved | has_decay)
        else:
            setting.keep("adamw_epsilon", moved)
    ratio = OPTIMISER["warmup_ratio"]
    for steps in (30, 25):
        warm = num_warmup_steps(steps, warmup_ratio=ratio)
        factors = [linear_factor(step, num_steps=steps, num_warmup_steps=warm) for step in range(steps)]
        setting.keep(f"schedule_{steps}", {"factors": torch.tensor(factors, dtype=torch.float64)})
    paper = yaml.safe_load((ROOT / "configs" / "paper.yaml").read_text())
    setting.keep("warmup", {"warm-up of fine-tuning": float(paper["recipes"]["marco"]["warmup_ratio"])})


CHECKS = (
    condenser,
    cocondenser,
    masking,
    long_blocks,
    blocks,
    finetuning,
    encodings,
    mining,
    optimiser,
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    setting = prepare(args.work)
    for check in CHECKS:
        check(setting)


if __name__ == "__main__":
    main()
