"""Our side of the check: tiny weights, inputs of every check, and what our code computes from them.

    python benchmarks/parity/ours.py --work build/parity

Reads tests/data/tiny. Writes in the work folder `model/`, `inputs.pt`, all else that the other side needs
(weights with the names of the authors' model, token ids, texts, our random draws), and `ours.pt`, results by
check and name. Everything is float64 on one thread, and dropout is off.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import both
import numpy as np
import torch
import yaml
from both import MAX_TOKENS, NUM_ASKED, NUM_STEPS, OPTIMISER, PASSAGE_LENGTH, QUERY_LENGTH, SEED
from torch import Tensor, nn

from condenser import kinds
from condenser.data import batches, records
from condenser.data.blocks import block_windows, pack_blocks
from condenser.data.masking import MaskedBatch, mask_tokens
from condenser.data.negatives import make_examples
from condenser.data.randomness import uniforms
from condenser.data.records import Passage
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.data.triples import make_triple_examples
from condenser.files import read_json, write_json
from condenser.loss.contrastive import in_batch_loss, span_contrastive_loss
from condenser.model.backbone import new_backbone
from condenser.model.devices import set_up
from condenser.model.pretraining import Condenser
from condenser.model.retriever import Retriever
from condenser.model.rows import Rows
from condenser.settings import Optimiser, partly
from condenser.train import loop
from condenser.train.chunks import Chunk
from condenser.train.distributed import alone
from condenser.train.gradient_cache import contrastive_backward
from condenser.train.loop import linear_factor, num_warmup_steps
from condenser.train.masked_texts import MaskedRows, MaskedTexts, masked_texts
from condenser.train.memory import StepMemory
from condenser.train.pretrain import Training, _backward, condenser_losses

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import jobs  # noqa: E402
from plain import padded_texts  # noqa: E402

SHAPE = {
    "hidden_size": 32, "num_layers": 4, "num_heads": 4, "intermediate_size": 48, "vocab_size": 500,
    "max_positions": 64,
}  # fmt: skip
HEAD = {"skip_from": both.SKIP_FROM, "num_head_layers": both.NUM_HEAD_LAYERS}
COMMON: dict[str, Any] = {
    "late_mlm_weight": 1.0, "initial_share": 0.0, "short_probability": 0.1,
    "mask_probability": both.MASK_PROBABILITY,
}  # fmt: skip
CONDENSER = COMMON | HEAD | {"max_tokens": MAX_TOKENS, "batch_size": 16, "rows_per_chunk": 5}
COCONDENSER = COMMON | {
    "min_span_tokens": 4, "scale": None, "span_tokens": [10, 20], "mlm_weight": 1.0,
    "contrastive_weight": 1.0, "batch_size": 8, "rows_per_chunk": 6, "gradient_cache": "never",
    "memory_gb": 1.0, "new_head": HEAD,
}  # fmt: skip
ALONE = alone(torch.device("cpu"))
Results = dict[str, dict[str, Any]]  # by check and name


@dataclass(frozen=True)
class Setting:
    """What all checks share: the backbone, the tokens of the collection, inputs of the other side."""

    work: Path
    backbone: Path
    passages: list[Passage]
    tokenizer: Tokenizer
    shards: TokenShards
    inputs: dict[str, Any] = field(default_factory=dict)


def prepare(work: Path) -> Setting:
    """A new backbone, and the tokens of a small collection. Every third of its passages has a title."""
    corpus = map(json.loads, (ROOT / "tests" / "data" / "tiny" / "corpus.jsonl").read_text().splitlines())
    texts = [row["text"] for row in corpus if '"' not in row["text"]][:120]  # the check `csv` has quotes
    passages = [
        Passage(str(row), " ".join(text.split()[:4]) if row % 3 == 0 else "", " ".join(text.split()))
        for row, text in enumerate(texts)
    ]
    backbone = work / "model"
    new_backbone(backbone, seed=SEED, shape=SHAPE, texts=texts)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    write_json(backbone / "config.json", read_json(backbone / "config.json") | no_dropout)
    vocabulary = read_json(backbone / "tokenizer.json")["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    (backbone / "vocab.txt").write_text("".join(f"{word}\n" for word in words))  # for tokenizers in Python
    tokenizer = Tokenizer(backbone)
    return Setting(work, backbone, passages, tokenizer, shards_of(work, "collection", passages, tokenizer))


def shards_of(
    work: Path,
    name: str,
    passages: Sequence[Passage],
    tokenizer: Tokenizer,
    *,
    separator: bool = False,
) -> TokenShards:
    prefix = work / "tokens" / name
    prefix.parent.mkdir(exist_ok=True)
    texts = [(passage.title, passage.text) for passage in passages]
    write_token_shard(texts, prefix, tokenizer, batch_size=32, split=True, leading_separator=separator)
    return TokenShards([prefix])


def read_ids(shards: TokenShards, start: int, length: int) -> list[int]:
    ids: list[int] = shards.read(np.array([start]), np.array([length]), width=length, fill=0)[0].tolist()
    return ids


def spread(model: nn.Module) -> None:
    """Make new weights in float64 larger and less regular, so that texts and words look different.

    They are numbers of float16, so that frozen.py can write them exactly in two bytes each.
    """
    model.double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number)).double()
            if weight.dim() == 2:
                weight *= 4
            else:
                weight += 0.1 * noise
            weight.copy_(weight.half())


# ---- pre-training --------------------------------------------------------------------------------


def named_as_theirs(model: Condenser) -> Iterator[tuple[str, nn.Parameter]]:
    """The trained weights under the names of the authors' Condenser."""
    names = {"backbone": "lm.bert", "mlm_head": "lm.cls.predictions", "head": "c_head"}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            part, _, rest = name.partition(".")
            yield f"{names[part]}.{rest}", weight


def gradients(model: Condenser) -> dict[str, Tensor]:
    return both.gradients(named_as_theirs(model))


def whole_batch(texts: MaskedTexts) -> dict[str, Tensor]:
    """Our chunks put together as the authors feed a batch: in its order, padded to the limit."""
    padded = padded_texts(texts.chunks, width=MAX_TOKENS + 2, device=torch.device("cpu"))
    return dict(zip(("input_ids", "attention_mask", "labels"), padded, strict=True))


def objective(setting: Setting, name: str, settings: Mapping[str, Any]) -> Training:
    """The training of an objective, as the workflow makes it, with weights that are spread."""
    kind = kinds.load("objectives", name)
    read = partly(kind.Settings, settings)
    training: Training = kind.training(setting.backbone, setting.shards, setting.tokenizer, read, seed=SEED)
    spread(training.model)
    training.model.train()
    return training


def batch_of(setting: Setting, training: Training, step: int, *, size: int, chunk: int) -> MaskedTexts:
    """The masked batch of a step, as `condenser.train.pretrain.pretraining` makes it."""
    epoch, _, items = batches.step_items(
        training.num_items, batch_size=size, step=step, seed=SEED, stream="parity"
    )
    return masked_texts(
        setting.shards, training.texts(items, epoch), tokenizer=setting.tokenizer,
        mask_probability=training.mask_probability, rows_per_chunk=chunk, seed=SEED, epoch=epoch, step=step,
        processes=ALONE,
    )  # fmt: skip


def condenser(setting: Setting) -> Results:
    """Losses and gradients of a batch of blocks, in chunks of similar length."""
    training = objective(setting, "condenser", CONDENSER)
    texts = batch_of(setting, training, 0, size=16, chunk=5)
    setting.inputs["weights"] = both.as_tensors(dict(named_as_theirs(training.model)))
    setting.inputs["condenser"] = whole_batch(texts)
    figures = _backward(training, ALONE, precision="fp32")(texts, 1.0)
    named = {name: figures[name] for name in ("loss", "head_mlm", "late_mlm")}
    return {"condenser": {**named, "loss of two parts": figures["loss"], **gradients(training.model)}}


def cocondenser(setting: Setting) -> Results:
    """Losses and gradients of spans: with all graphs kept, and with the gradient cache."""

    def step(changes: Mapping[str, Any]) -> tuple[Condenser, Mapping[str, Any], dict[str, Tensor]]:
        training = objective(setting, "cocondenser", COCONDENSER | changes)
        figures = _backward(training, ALONE, precision="fp32")(texts, 1.0)
        return training.model, figures, gradients(training.model)

    texts = batch_of(setting, objective(setting, "cocondenser", COCONDENSER), 0, size=8, chunk=6)
    setting.inputs["cocondenser"] = whole_batch(texts)
    _, figures, of_plain = step({})
    contrastive, mlm = figures["contrastive"], figures["head_mlm"] + figures["late_mlm"]
    plain = {"loss": figures["loss"], "contrastive": contrastive, "mlm": mlm, **of_plain}
    _, contrast, of_contrast = step({"mlm_weight": 0.0})
    model, cached, of_cached = step({"gradient_cache": "always", "mlm_weight": 2.0})
    losses = contrastive_backward(
        list(their_chunks(setting.inputs["cocondenser"], size=6)),
        lambda chunk: model.represent(chunk.inputs.rows),
        span_contrastive_loss,
        num_rows=texts.num_rows, dim=SHAPE["hidden_size"],
        encode_with_losses=partial(weighed_as_theirs, model, num_documents=8), loss_names=["mlm"],
        keep_graphs=False, memory=StepMemory(model, keeps_graphs=False), processes=ALONE, scale=1.0,
    )  # fmt: skip
    return {
        "cocondenser": plain,
        "two_processes": {"contrastive": contrast["contrastive"], "mlm": mlm, **of_contrast},
        "cache_one_chunk": {"loss": cached["loss"], "mlm weight": 1.0, **of_cached},
        "cache_three_chunks": {"loss": sum(losses.values()), "mlm weight": 1.0, **gradients(model)},
    }


def their_chunks(batch: Mapping[str, Tensor], *, size: int) -> Iterator[Chunk[Any]]:
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


def mask(
    tokenizer: Tokenizer, ids: np.ndarray, items: np.ndarray, epoch: int
) -> tuple[MaskedBatch, np.ndarray]:
    """A masked batch, and where it is masked [text, token]."""
    batch = mask_tokens(
        ids, is_continuation=tokenizer.is_continuation, random_ids=tokenizer.random_ids,
        mask_id=tokenizer.mask_id, probability=both.MASK_PROBABILITY, max_predictions=ids.shape[1],
        positions=items, seed=SEED, epoch=epoch,
    )  # fmt: skip
    is_masked = np.zeros(ids.size, dtype=bool)
    is_masked[batch.masked_positions] = True
    return batch, is_masked.reshape(ids.shape)


def masking(setting: Setting) -> Results:
    """Which tokens are masked when words come in the same order, and shares over many draws."""
    tokenizer, shards = setting.tokenizer, setting.shards
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.1, seed=SEED)
    items = np.flatnonzero(blocks.lengths <= MAX_TOKENS)
    ids, lengths = batches.pack_texts(shards, blocks.starts[items], blocks.lengths[items], tokenizer)
    order = uniforms(SEED, "mask order", 0, items, columns=ids.shape[1])
    setting.inputs["masking"] = both.as_tensors({"ids": ids, "lengths": lengths, "order": order})
    masked = (mask(tokenizer, ids, items, epoch)[0] for epoch in range(both.NUM_MASKINGS))
    pairs = ((batch.input_ids.ravel()[batch.masked_positions], batch.labels) for batch in masked)
    special = set(range(SHAPE["vocab_size"])) - set(tokenizer.random_ids.tolist())
    _, is_masked = mask(tokenizer, ids, items, 0)
    return {"masking": both.masking_figures(is_masked, pairs, lengths, tokenizer.mask_id, special)}


def long_blocks(setting: Setting) -> Results:
    """Blocks of one over-long sentence: words of which only some pieces are masked."""
    tokenizer = setting.tokenizer
    texts = [" ".join(setting.passages[row].text.replace(".", "").split()[:60]) for row in range(40)]
    shards = shards_of(setting.work, "long", [Passage("", "", text) for text in texts], tokenizer)
    blocks = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=0.0, seed=SEED)
    items = np.flatnonzero(blocks.lengths > MAX_TOKENS)
    is_continuation = tokenizer.is_continuation
    setting.inputs["long_blocks"] = {
        "blocks": [read_ids(shards, blocks.starts[item], blocks.lengths[item]) for item in items],
        "is_continuation": torch.from_numpy(is_continuation),
    }
    starts, lengths = block_windows(blocks, items, max_tokens=MAX_TOKENS, seed=SEED, epoch=0)
    ids, _ = batches.pack_texts(shards, starts, lengths, tokenizer)
    _, is_masked = mask(tokenizer, ids, items, 0)
    return {"long_blocks": {"words masked in part": both.broken_words(ids, is_masked, is_continuation)}}


def blocks(setting: Setting) -> Results:
    """Blocks of sentences: one target length, and with one short target in ten (or half), drawn by us."""
    shards = setting.shards
    firsts = pairwise(shards.first_sentence.tolist())
    bounds = [shards.sentence_starts[first + 1 : end + 1].tolist() for first, end in firsts]
    sentences = [[read_ids(shards, a, b - a) for a, b in pairwise(of_row)] for of_row in bounds]
    results, draws = {}, {}
    for probability in (0.0, 0.1, 0.5):
        packed = pack_blocks(shards, max_tokens=MAX_TOKENS, short_probability=probability, seed=SEED)
        rows = np.searchsorted(shards.row_starts, packed.starts, side="right") - 1
        results[f"rows {probability}"], results[f"lengths {probability}"] = rows, packed.lengths
        first_ids = shards.read(packed.starts, np.ones_like(packed.starts), width=1, fill=0)[:, 0]
        results[f"first ids {probability}"] = first_ids
        # sentence 0 of a row is its title: a block opens at one of the others
        opening = np.searchsorted(shards.sentence_starts, packed.starts, side="right") - 1
        drawn = uniforms(SEED, "block targets", 0, opening, columns=2)
        draws[probability] = [drawn[rows == row].tolist() for row in range(shards.num_rows)]
    setting.inputs["blocks"] = {"sentences": sentences, "draws": draws}
    return {"blocks": results}


# ---- fine-tuning and encoding --------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """The tokens of queries or passages, cut to `max_tokens`."""

    shards: TokenShards
    max_tokens: int
    tokenizer: Tokenizer

    def padded(self, rows: np.ndarray) -> Tensor:
        """`[CLS] text [SEP]` of some rows, padded to `max_tokens`."""
        windows = batches.row_windows(self.shards, rows, max_tokens=self.max_tokens)
        ids, _ = batches.pack_texts(self.shards, *windows, self.tokenizer)
        padded = torch.full((len(rows), max(self.max_tokens, ids.shape[1])), self.tokenizer.pad_id)
        padded[:, : ids.shape[1]] = torch.from_numpy(ids)
        return padded[:, : self.max_tokens]

    def chunks(self, group: str, rows: np.ndarray) -> Iterator[Chunk[Rows]]:
        """Chunks of similar length, as `condenser.train.finetune.retriever_training` makes them."""
        starts, lengths = batches.row_windows(self.shards, rows, max_tokens=self.max_tokens)
        for number, places in enumerate(batches.length_chunks(lengths, rows_per_chunk=5)):
            ids, whole = batches.pack_texts(self.shards, starts[places], lengths[places], self.tokenizer)
            yield Chunk(group, torch.from_numpy(places), Rows.of(ids, whole), number)


def passages_of(setting: Setting, name: str, passages: Sequence[Passage], *, separator: bool = True) -> Texts:
    shards = shards_of(setting.work, name, passages, setting.tokenizer, separator=separator)
    return Texts(shards, PASSAGE_LENGTH, setting.tokenizer)


def retriever(setting: Setting) -> Retriever:
    model = Retriever.load(setting.backbone, dropout=None)
    spread(model)
    return model


def finetuning(setting: Setting) -> Results:
    """Draws of positives and negatives in each epoch; loss and gradients of one batch."""
    tokenizer = setting.tokenizer
    texts = [" ".join(setting.passages[item].text.split()[3:20]) for item in range(8)]
    positives = [list(range(item, item + 1 + item % 3)) for item in range(8)]
    negatives = [[(7 * item + 5 * k) % 90 + 20 for k in range(2 + item)] for item in range(8)]
    draws = [uniforms(SEED, "negatives", 0, np.array([item]), columns=2 + item)[0] for item in range(8)]
    setting.inputs["finetuning"] = {
        "queries": texts, "passages": [[passage.title, passage.text] for passage in setting.passages],
        "positives": positives, "negatives": negatives,
        "orders": [np.argsort(of_item).tolist() for of_item in draws],
    }  # fmt: skip

    def drawn(epoch: int, item: int) -> list[int]:
        positive = batches.positive_index(item, len(positives[item]), seed=SEED, epoch=epoch)
        draw = {"seed": SEED, "item": item, "epoch": epoch}
        window = batches.negative_window(len(negatives[item]), both.PASSAGES_PER_QUERY - 1, **draw)
        return [positives[item][positive], *(negatives[item][index] for index in window)]

    rows = [np.concatenate([drawn(epoch, item) for item in range(8)]) for epoch in range(both.NUM_EPOCHS)]
    asked, titled = [Passage("", "", text) for text in texts], setting.passages
    queries = Texts(shards_of(setting.work, "queries", asked, tokenizer), QUERY_LENGTH, tokenizer)
    passages = passages_of(setting, "separated", titled)
    results: dict[str, Any] = {
        "query ids": queries.padded(np.arange(8)),
        "passage ids": torch.stack([passages.padded(of_epoch) for of_epoch in rows]),
    }
    model = retriever(setting).train()
    setting.inputs["retriever"] = both.as_tensors(dict(model.backbone.named_parameters()))
    for name in ("plain", "cache"):
        losses = contrastive_backward(
            [*queries.chunks("queries", np.arange(8)), *passages.chunks("passages", rows[1])],
            lambda chunk: model(chunk.inputs), in_batch_loss,
            num_rows={"queries": 8, "passages": len(rows[1])}, dim=SHAPE["hidden_size"],
            memory=StepMemory(model, keeps_graphs=name == "plain"), processes=ALONE, scale=1.0,
        )  # fmt: skip
        results[f"{name}: loss"] = losses["contrastive"]
        results |= both.gradients(model.backbone.named_parameters(), f"{name}: grad/")
    steps = float(batches.num_steps(8, batch_size=3, epochs=1))
    return {"finetuning": results, "batches": {"steps of an epoch": steps}}


def encodings(setting: Setting) -> Results:
    """Vectors of passages with and without a title: in float64, and by `encode_texts`."""
    model = retriever(setting).eval()
    titled = np.array([bool(passage.title) for passage in setting.passages])
    results: dict[str, Any] = {}
    for name, separator in (("always", True), ("titled", False)):
        passages = passages_of(setting, name, setting.passages, separator=separator)
        vectors = torch.empty(len(titled), SHAPE["hidden_size"], dtype=torch.float64)
        with torch.no_grad():
            for chunk in passages.chunks("passages", np.arange(len(titled))):
                vectors[chunk.rows] = model(chunk.inputs)
        results[f"titled, {name}"], results[f"untitled, {name}"] = vectors[titled], vectors[~titled]
    encoder, tokens = setting.work / "encoder", setting.work / "tokens" / "always"
    model.float().save(encoder, setting.backbone)
    compute = set_up(device="cpu", precision="fp32", threads=1)
    sizes = {"max_tokens": PASSAGE_LENGTH, "batch_tokens": 512, "block_rows": 32}
    results["all, float32"] = jobs.encode(encoder, tokens, compute, **sizes)
    quoted = ['the function "returns" a graph', '"maximum clique" of a graph', "a set of nodes"]
    texts = [Passage("", "", text) for text in quoted]
    ids = passages_of(setting, "quoted", texts).padded(np.arange(3))
    setting.inputs["csv"] = [["", text] for text in quoted]
    csv = {"encoding": ids, "training, quotes": ids[1:2], "training, others": ids[[0, 2]]}
    return {"encodings": results, "csv": csv}


# ---- negatives and the optimiser -----------------------------------------------------------------


def mining(setting: Setting) -> Results:
    """Candidates for hard negatives of a run, and negatives of triples."""
    random, folder = np.random.default_rng(SEED), setting.work / "mining"
    folder.mkdir()
    ranked = {str(q): random.permutation(both.NUM_LISTED)[:60].astype(str).tolist() for q in range(NUM_ASKED)}
    judged = {q: [hits[k] for k in range(int(q) % 4 + 1)] + ["900"] for q, hits in ranked.items()}
    queries, qrels = folder / "queries.jsonl", folder / "qrels.tsv"
    records.write_queries(queries, [records.Query(q, f"query {q}") for q in ranked])
    records.write_qrels(
        qrels, [records.Qrel(q, doc_id, 1) for q, doc_ids in judged.items() for doc_id in doc_ids]
    )

    def negatives() -> dict[str, Sequence[str]]:
        examples = records.read_examples(folder / "examples.jsonl")
        return {example.query_id: example.negative_doc_ids for example in examples}

    def candidates(length: int, *, sample: int) -> np.ndarray:
        hits = (
            records.ScoredDoc(q, doc_id, 100.0 - rank)
            for q, doc_ids in ranked.items()
            for rank, doc_id in enumerate(doc_ids[:length])
        )
        records.write_run(folder / "run.trec", hits, system="parity")
        make_examples(
            folder / "run.trec", queries, qrels, folder / "examples.jsonl", depth=both.DEPTH, sample=sample,
            relevant_grade=1, positive_in_run=False, margin=None, wanted=None, seed=SEED,
        )  # fmt: skip
        return both.listed(negatives())

    triples = [(q, doc_id) for q, hits in ranked.items() for doc_id in hits[4:20]]
    triples += [(q, judged[q][-1]) for q in ranked]  # judged positive
    triples += [(q, ranked[q][5]) for q in ranked]  # named twice
    triples.sort()
    with gzip.open(folder / "triples.tsv.gz", "wt", newline="") as file:
        file.writelines(f"{q}\t{judged[q][0]}\t{negative}\r\n" for q, negative in triples)
    setting.inputs.update(mining={"ranked": ranked, "judged": judged}, triples=triples)
    make_triple_examples(
        folder / "triples.tsv.gz", queries, qrels, folder / "examples.jsonl", sample=both.SAMPLE, wanted=None,
        relevant_grade=1, seed=SEED, official_rows=len(triples),
    )  # fmt: skip
    of_triples = both.triple_figures(negatives(), judged)
    deep = {"candidates, deep": candidates(60, sample=both.DEPTH)}
    deep["candidates, cut"] = candidates(both.DEPTH, sample=both.DEPTH).sum(axis=1)
    return {
        "mining": deep | {"sampled": candidates(60, sample=both.SAMPLE).sum(axis=1)},
        "triples": of_triples,
    }


def optimiser(setting: Setting) -> Results:
    """Ten updates of a Condenser by our loop, and the factors of the learning rate."""
    training = objective(setting, "condenser", CONDENSER)
    texts = [batch_of(setting, training, step, size=6, chunk=6) for step in range(NUM_STEPS)]
    setting.inputs["steps"] = [whole_batch(each) for each in texts]

    def updates(weight_decay: float) -> tuple[Condenser, dict[str, Any], list[loop.StepRecord]]:
        training, done = objective(setting, "condenser", CONDENSER), list[loop.StepRecord]()
        before = both.as_tensors(dict(named_as_theirs(training.model)))
        lengths = {"batch_size": 6, "drop_last": False, "epochs": None, "updates": NUM_STEPS}
        folder = setting.work / f"loop, {weight_decay}"
        folder.mkdir()
        run = loop.Run(
            settings=partly(Optimiser, {**OPTIMISER, **lengths, "weight_decay": weight_decay}), seed=SEED,
            precision="fp32", processes=ALONE, fingerprint="parity", work_folder=folder,
            checkpoint_every_s=3600, checkpoints_kept=1, bad_loss_patience=0, on_step=done.append,
        )  # fmt: skip
        batch = partial(loop.Batch, epoch=0, num_items=6, num_tokens=0, ids=dict, num_in_epoch=6)
        works = (lambda step: batch(texts[step])), _backward(training, ALONE, precision="fp32")
        loop.train(loop.Trainable("parity", training.model, 6, *works, save=print, counts={}), run)
        named = named_as_theirs(training.model)
        return training.model, {f"moved/{key}": weight - before[key] for key, weight in named}, done

    model, moved, done = updates(OPTIMISER["weight_decay"])
    decayed = {id(weight) for weight in loop.weight_groups(model, weight_decay=1.0)[0]["params"]}
    decays = {f"decays/{key}": float(id(weight) in decayed) for key, weight in named_as_theirs(model)}
    figures = [[record.losses["loss"], record.grad_norm, record.learning_rate] for record in done]
    columns = torch.tensor(figures, dtype=torch.float64).T
    series = dict(zip(("losses", "norms", "rates"), columns, strict=True))
    results: Results = {
        "trainer": {**series, **moved, **decays}, "adamw": moved | decays, "adamw_epsilon": updates(0.0)[1],
    }  # fmt: skip
    for steps in (30, 25):
        warm = num_warmup_steps(steps, warmup_ratio=OPTIMISER["warmup_ratio"])
        factors = [linear_factor(step, num_steps=steps, num_warmup_steps=warm) for step in range(steps)]
        results[f"schedule_{steps}"] = {"factors": torch.tensor(factors, dtype=torch.float64)}
    paper = yaml.safe_load((ROOT / "configs" / "paper.yaml").read_text())
    ratio = float(paper["recipes"]["marco"]["warmup_ratio"])
    return results | {"warmup": {"warm-up of fine-tuning": ratio}}


CHECKS = condenser, cocondenser, masking, long_blocks, blocks, finetuning, encodings, mining, optimiser


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    work = parser.parse_args(argv).work
    torch.set_num_threads(1)
    setting = prepare(work)
    results = {name: both.as_tensors(kept) for check in CHECKS for name, kept in check(setting).items()}
    torch.save(results, work / "ours.pt")
    torch.save(setting.inputs, work / "inputs.pt")


if __name__ == "__main__":
    main()
