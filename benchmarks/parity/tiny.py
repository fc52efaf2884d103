"""What both sides of a check are given: tiny weights, the tokens of a small collection, batches of ours.

Everything is float64 on one thread, and dropout is off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from condenser import kinds
from condenser.data import batches
from condenser.data.records import Passage
from condenser.data.tokens import Tokenizer, TokenShards, write_token_shard
from condenser.files import read_json, write_json
from condenser.model.backbone import new_backbone
from condenser.settings import partly
from condenser.train.distributed import alone
from condenser.train.masked_texts import MaskedTexts, masked_texts
from condenser.train.pretrain import Training
from condenser.train.vectors import Group, Vectors, one_vector

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from plain import padded_texts  # noqa: E402

SEED, CPU = 42, torch.device("cpu")
ALONE = alone(CPU)
MAX_TOKENS = 30  # of a block, without specials
QUERY_LENGTH, PASSAGE_LENGTH = 12, 40
SHAPE = {
    "hidden_size": 32, "num_layers": 4, "num_heads": 4, "intermediate_size": 48, "vocab_size": 500,
    "max_positions": 64,
}  # fmt: skip
HEAD = {"skip_from": 2, "num_head_layers": 2}
COMMON = {
    "late_mlm_weight": 1.0, "initial_share": 0.0, "short_probability": 0.1, "mask_probability": 0.15,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "condenser": COMMON | HEAD | {"max_tokens": MAX_TOKENS, "batch_size": 16, "rows_per_chunk": 5},
    "cocondenser": COMMON | {
        "min_span_tokens": 4, "scale": None, "span_tokens": [10, 20], "mlm_weight": 1.0,
        "contrastive_weight": 1.0, "batch_size": 8, "rows_per_chunk": 6, "gradient_cache": "never",
        "memory_gb": 1.0, "new_head": HEAD,
    },
}  # fmt: skip
OPTIMISER = {"learning_rate": 1e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0}


@dataclass(frozen=True)
class Tiny:
    """A new backbone and the tokens of a small collection.

    Attributes:
        work: a folder for files of the checks.
        backbone: a Hugging Face folder.
        inputs: the batches that frozen.py writes, by name.
    """

    work: Path
    backbone: Path
    passages: list[Passage]
    tokenizer: Tokenizer
    shards: TokenShards
    inputs: dict[str, Any] = field(default_factory=dict)

    def objective(self, name: str, **changes: Any) -> Training:
        """The training of an objective, as the workflow makes it, with weights that are spread."""
        kind = kinds.load("objectives", name)
        settings = partly(kind.Settings, SETTINGS[name] | changes)
        training: Training = kind.training(self.backbone, self.shards, self.tokenizer, settings, seed=SEED)
        spread(training.model)
        training.model.train()
        return training

    def batch(self, training: Training, step: int, *, size: int, chunk: int) -> MaskedTexts:
        """The masked batch of a step, as `condenser.train.pretrain.pretraining` makes it."""
        epoch, _, items = batches.step_items(
            training.num_items, batch_size=size, step=step, seed=SEED, stream="parity"
        )
        return masked_texts(
            self.shards, training.texts(items, epoch), tokenizer=self.tokenizer,
            mask_probability=training.mask_probability, rows_per_chunk=chunk, seed=SEED, epoch=epoch,
            step=step, processes=ALONE,
        )  # fmt: skip

    def retriever(self) -> Vectors:
        vectors = one_vector(self.backbone, tied=True)
        spread(vectors.model)
        return vectors

    def group(self, name: str, passages: Sequence[Passage], max_tokens: int, separator: bool) -> Group:
        """Texts of a fine-tuning, cut to `max_tokens`; their tokens are written under the name."""
        shards = write_tokens(self.work, name, passages, self.tokenizer, separator=separator)
        return Group(
            name=name, shards=shards, tokenizer=self.tokenizer, prompt=np.zeros(0, dtype=np.int64),
            max_tokens=max_tokens, counted=partial(self.retriever().counted, name), rows_per_chunk=5,
            seed=SEED, device=CPU,
        )  # fmt: skip


def prepare(work: Path) -> Tiny:
    """A new backbone, and the tokens of a small collection. Every third of its passages has a title."""
    corpus = map(json.loads, (ROOT / "tests" / "data" / "tiny" / "corpus.jsonl").read_text().splitlines())
    texts = [row["text"] for row in corpus if '"' not in row["text"]][:120]  # the check `csv` has quotes
    passages = [
        Passage(str(row), " ".join(text.split()[:4]) if row % 3 == 0 else "", " ".join(text.split()))
        for row, text in enumerate(texts)
    ]
    work.mkdir(parents=True)
    backbone = work / "model"
    new_backbone(backbone, seed=SEED, shape=SHAPE, texts=texts)
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    write_json(backbone / "config.json", read_json(backbone / "config.json") | no_dropout)
    vocabulary = read_json(backbone / "tokenizer.json")["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    (backbone / "vocab.txt").write_text("".join(f"{word}\n" for word in words))  # for tokenizers in Python
    tokenizer = Tokenizer(backbone)
    return Tiny(work, backbone, passages, tokenizer, write_tokens(work, "collection", passages, tokenizer))


def write_tokens(
    work: Path, name: str, passages: Sequence[Passage], tokenizer: Tokenizer, *, separator: bool = False
) -> TokenShards:
    prefix = work / "tokens" / name
    prefix.parent.mkdir(exist_ok=True)
    texts = [(passage.title, passage.text) for passage in passages]
    write_token_shard(texts, prefix, tokenizer, batch_size=32, split=True, leading_separator=separator)
    return TokenShards([prefix])


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


def named_as_theirs(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The trained weights under the names of the authors' Condenser."""
    names = {"backbone": "lm.bert", "mlm_head": "lm.cls.predictions", "head": "c_head"}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            part, _, rest = name.partition(".")
            yield f"{names[part]}.{rest}", weight


def whole_batch(texts: MaskedTexts) -> dict[str, Tensor]:
    """Our chunks put together as the authors feed a batch: in its order, padded to the limit."""
    padded = padded_texts(texts.chunks, width=MAX_TOKENS + 2, device=CPU)
    return dict(zip(("input_ids", "attention_mask", "labels"), padded, strict=True))


def padded_ids(group: Group, rows: np.ndarray) -> Tensor:
    """`[CLS] text [SEP]` of some rows, padded to the limit."""
    chunks, _, _ = group.chunks(rows, step=0, numbers=range)
    return padded_texts(chunks, width=group.max_tokens, device=CPU).ids


def as_tensors(values: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies, of numbers in float64."""
    return {
        name: torch.as_tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
        .detach()
        .clone()
        for name, value in values.items()
    }


def take_gradients(named: Iterable[tuple[str, nn.Parameter]], prefix: str = "grad/") -> dict[str, Tensor]:
    """The gradients by name; takes them from the weights."""
    found = {}
    for name, weight in named:
        if weight.grad is not None:
            found[prefix + name], weight.grad = weight.grad, None
    return found
