"""Trainings of a tiny BERT on a tiny real collection, whole but quick."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import write_folder
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from condenser import kinds
from condenser.blocks import FineTuning, SentenceRecipe, TermWeights
from condenser.data.batches import step_items
from condenser.data.records import (
    Item,
    Passage,
    Qrel,
    Query,
    ScoredDoc,
    TrainExample,
    read_passages,
    read_queries,
    write_examples,
    write_items,
    write_passages,
    write_qrels,
    write_queries,
    write_run,
)
from condenser.data.text_files import TextFiles
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.files import read_json, write_json
from condenser.model.backbone import backbone_from, new_backbone
from condenser.papers.sentence_training import sentence_training
from condenser.papers.term_training import term_weights_training
from condenser.papers.term_weigher import TermWeigher
from condenser.papers.term_weights import weigh_terms
from condenser.settings import Optimiser, partly
from condenser.train import crossencoder, finetune
from condenser.train.distributed import Processes, alone
from condenser.train.examples import (
    ExampleFile,
    ExampleRows,
    TrainingFiles,
    draw_passages,
    read_example_rows,
)
from condenser.train.late import token_vectors
from condenser.train.loop import Run, Trainable, train_to_folder
from condenser.train.memory import StepMemory
from condenser.train.pretrain import pretraining

TINY = Path(__file__).parent / "data" / "tiny"
NUM_PASSAGES, NUM_QUERIES, QUERY_LENGTH, PASSAGE_LENGTH = 60, 20, 12, 40
SHAPE = {
    "hidden_size": 32,
    "num_layers": 3,
    "num_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 500,
    "max_positions": 64,
}
OPTIMISER = {"learning_rate": 2e-3, "weight_decay": 0.01, "warmup_ratio": 0.1, "max_grad_norm": 1.0}
SAFETY = {"checkpoint_every_s": 3600, "checkpoints_kept": 2, "bad_loss_patience": 0}
LENGTH: dict[str, Any] = {"epochs": 1, "updates": None}
PRETRAINING = {"initial_share": 0.0, "rows_per_chunk": 5, **LENGTH}
MASKS = {"short_probability": 0.1, "mask_probability": 0.15}
CONTRAST = {"scale": None, "batch_size": 8, "gradient_cache": "always", "memory_gb": 1.0}
MLM = {**PRETRAINING, **MASKS, "max_tokens": 30, "batch_size": 16}
CONDENSER = {**MLM, "skip_from": 1, "num_head_layers": 1, "late_mlm_weight": 1.0}
COCONDENSER = {
    **PRETRAINING,
    **MASKS,
    **CONTRAST,
    "late_mlm_weight": 1.0,
    "min_span_tokens": 4,
    "span_tokens": [10, 20],
    "mlm_weight": 1.0,
    "contrastive_weight": 1.0,
    "new_head": {"skip_from": 1, "num_head_layers": 1},
}
ICT = {
    **PRETRAINING,
    **CONTRAST,
    "max_sentence_tokens": 6,
    "max_tokens": 12,
    "remove_probability": 0.9,
}
OBJECTIVES = {"condenser": CONDENSER, "cocondenser": COCONDENSER, "mlm": MLM, "ict": ICT}
RETRIEVER = {
    "lengths": {"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH},
    "batch_size": 4,
    "passages_per_query": 3,
    "soup": 1,
    "rows_per_chunk": 5,
    "scale": None,
    **LENGTH,
}

KINDS = [*OBJECTIVES, "retriever", "untied", "late", "distilled", "crossencoder", "terms", "similarity"]
TERMS = {"max_tokens": PASSAGE_LENGTH, "rows_per_chunk": 3, "batch_size": 8, **LENGTH}
SENTENCES = {
    "max_tokens": 32,
    "batch_size": 4,
    "epochs": 2,
    "margin": 5.0,
    "products": False,
    "epsilon": 1e-8,
    "bias_correction": True,
    "updates": None,
}
SETTINGS = {**OBJECTIVES, "terms": TERMS}
TASKS = {"similarity": 2, "triplets": 3, "inference": 2}
"""Of sentence encoders, with the texts of an item."""

LATE = {
    **{"dim": None, "special_tokens": True, "punctuation": True},
    **{"match": "all", "first_states": None},
}


@dataclass(frozen=True)
class Files:
    """What the rules before training leave, in a folder of their layout."""

    root: Path

    @property
    def backbone(self) -> Path:
        return self.root / "backbone"

    @property
    def examples(self) -> Path:
        return self.root / "examples.jsonl"

    @property
    def tokens(self) -> list[Path]:
        return [self.root / "collection.0-of-2", self.root / "collection.1-of-2"]

    @property
    def doc_ids(self) -> Path:
        return self.root / "doc_ids.txt"

    @property
    def texts(self) -> TextFiles:
        return TextFiles(self.tokens, [self.root / "queries"], self.doc_ids, [self.root / "queries.jsonl"])

    @property
    def passages(self) -> list[Passage]:
        return list(read_passages(self.root / "collection.jsonl"))

    @property
    def queries(self) -> list[Query]:
        return list(read_queries(self.root / "queries.jsonl"))


def prepare(root: Path, *, dropout: float, kind: str | None = None) -> Files:
    """Backbone, collection, queries, examples and tokens under `root`; every third passage has a title.

    The backbone is a BERT of ours, or one of architecture `kind` as transformers writes it.
    """
    files = Files(root)
    corpus = [json.loads(line) for line in (TINY / "corpus.jsonl").read_text().splitlines()][:NUM_PASSAGES]
    passages = [
        Passage(row["_id"], " ".join(row["text"].split()[:3]) if number % 3 == 0 else "", row["text"])
        for number, row in enumerate(corpus)
    ]
    asked = [json.loads(line) for line in (TINY / "queries.jsonl").read_text().splitlines()][:NUM_QUERIES]
    # a query is some words of its positive, so that there is something to learn
    queries = [
        Query(row["_id"], " ".join(passages[number].text.split()[3:9])) for number, row in enumerate(asked)
    ]
    write_passages(root / "collection.jsonl", passages)
    files.doc_ids.write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    write_queries(root / "queries.jsonl", queries)
    write_examples(
        files.examples,
        [
            TrainExample(
                query.query_id,
                tuple(passages[row].doc_id for row in range(number, number + 1 + number % 2)),
                tuple(passages[(5 * number + k) % 40 + 20].doc_id for k in range(1 + number % 6)),
            )
            for number, query in enumerate(queries[:-2])
        ],
    )
    texts_only = [passage.text for passage in passages]
    if kind is None:
        new_backbone(files.backbone, seed=7, shape=SHAPE, texts=texts_only)
        config = read_json(files.backbone / "config.json")
        config |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        write_json(files.backbone / "config.json", config)
    else:
        write_folder(kind, root / "source", head="MaskedLM", texts=texts_only)
        backbone_from(root / "source", files.backbone, seed=7)
    tokenizer = Tokenizer(files.backbone)
    half = NUM_PASSAGES // 2
    for prefix, part in zip(files.tokens, (passages[:half], passages[half:]), strict=True):
        texts = [(passage.title, passage.text) for passage in part]
        write_token_shard(texts, prefix, tokenizer, batch_size=16, split=True)
    texts = [("", query.text) for query in queries]
    write_token_shard(texts, root / "queries", tokenizer, batch_size=16, split=False)
    return files


def sharpen(backbone: Path) -> None:
    """Make a new backbone's matrices six times larger: as drawn, all its texts look alike for long."""
    path = backbone / "model.safetensors"
    weights = load_file(path)
    larger = {name: 6 * value if value.dim() == 2 else value for name, value in weights.items()}
    save_file(larger, path, metadata={"format": "pt"})


def _teacher_run(files: Files) -> Path:
    """A teacher that ranks four passages of each query, its positive first."""
    hits = [
        ScoredDoc(
            query.query_id, files.passages[(number + 7 * place) % NUM_PASSAGES].doc_id, 9.0 / (1 + place)
        )
        for number, query in enumerate(files.queries)
        for place in range(4)
    ]
    run = files.root / "teacher.trec"
    write_run(run, hits, system="teacher")
    return run


def items_of(files: Files, task: str) -> list[Item]:
    """Ten pairs or triplets of the tiny texts' first words, with the labels of a task."""
    texts = [
        " ".join(passage.text.split()[: 4 + number % 9]) for number, passage in enumerate(files.passages)
    ]
    labels = {"similarity": lambda number: number % 11 / 2, "inference": lambda number: float(number % 3)}
    label, size = labels.get(task, lambda _: None), TASKS[task]
    return [Item(f"train-{row}", tuple(texts[3 * row : 3 * row + size]), label(row)) for row in range(10)]


def qrels_of(files: Files) -> Path:
    """Query i has passage i, and the next one too if i is odd; so some passages have two queries."""
    qrels = [
        Qrel(query.query_id, files.passages[row].doc_id, 1)
        for number, query in enumerate(files.queries)
        for row in range(number, number + 1 + number % 2)
    ]
    not_relevant = Qrel(files.queries[0].query_id, qrels[-1].doc_id, 0)
    write_qrels(files.root / "qrels.tsv", [*qrels, not_relevant])
    return files.root / "qrels.tsv"


def train(kind: str, files: Files, output: Path, **changes: Any) -> dict[str, int]:
    """Run a `training`; gives its counts."""
    trainable, run = training(kind, files, output, **changes)
    return train_to_folder(trainable, run, output)


def training(
    kind: str,
    files: Files,
    output: Path,
    *,
    initial: Path | None = None,
    processes: Processes | None = None,
    **changes: Any,
) -> tuple[Trainable[Any], Run[Any]]:
    """One of the trainings `KINDS`, or another task of sentence encoders.

    The work folder is beside `output`. `changes` replace settings of the tables above, or arguments.
    """
    torch.set_num_threads(1)
    initial = initial or files.backbone
    tokens = changes.pop("token_prefixes", files.tokens)
    others = {name: changes.pop(name) for name in TextFiles.__dataclass_fields__ if name in changes}
    texts = replace(files.texts, collection_tokens=tokens, **others)
    subset, held_out = changes.pop("subset", None), changes.pop("held_out", None)
    teacher_run = changes.pop("teacher_run", None)
    if kind == "distilled" and teacher_run is None:
        teacher_run = _teacher_run(files)
    examples = TrainingFiles(
        changes.pop("example_files", [files.examples]),
        texts,
        held_out,
        changes.pop("validation", None),
        teacher_run=teacher_run,
    )
    taught = {"temperature": 0.5, "initial_share": 0.2}
    taught = {key: changes.pop(key, value) for key, value in taught.items()} if kind == "distilled" else {}
    loss = changes.pop("loss", "localised")
    tokens_that_count = {key: changes.pop(key, value) for key, value in LATE.items()}
    if isinstance(changes.get("updates"), int):
        changes["epochs"] = None
    settings = SETTINGS.get(kind, SENTENCES if kind in TASKS else {**RETRIEVER, "tied": kind != "untied"})
    run = run_of(kind, output, OPTIMISER | settings, processes=processes, **changes)
    trainable: Trainable[Any]
    if kind in OBJECTIVES:
        objective = kinds.load("objectives", kind).training
        trainable = pretraining(objective, tokens, initial, run, title=kind, doc_ids=texts.doc_ids)
    elif kind == "distilled":
        trainable = finetune.distillation_training(examples, initial, run, with_own_passage=True, **taught)
    elif kind == "late":
        vectors = token_vectors(initial, **tokens_that_count, seed=run.seed)
        trainable = finetune.retriever_training(examples, initial, run, vectors=vectors)
    elif kind == "crossencoder":
        trainable = crossencoder.crossencoder_training(examples, initial, run, loss=loss)
    elif kind == "terms":
        given = {"relevant_grade": 1, "subset": subset, "held_out": held_out, "is_split": False}
        save = partial(write_term_weights, files, run.work_folder)
        trainable = term_weights_training(texts, qrels_of(files), initial, run, **given, save=save)
    elif kind in TASKS:
        items = output.with_name(f"{output.name}.items.jsonl")
        write_items(items, items_of(files, kind))
        trainable = sentence_training(items, subset, initial, run, task=kind)
    else:
        trainable = finetune.retriever_training(examples, initial, run)
    return trainable, run


def compute_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retrievers and cross-encoders compute each chunk twice from now on, as where memory is full."""
    for module in (finetune, crossencoder):
        monkeypatch.setattr(module, "StepMemory", lambda model, **_: StepMemory(model, keeps_graphs=False))


def text_of(passage: Passage) -> str:
    """What is read of a passage."""
    return f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text


def plain_vectors(folder: Path) -> Callable[[str, int], Tensor]:
    """The last layer's [CLS] of a text that is cut to some tokens, by transformers alone."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)

    def vector(text: str, max_tokens: int) -> Tensor:
        inputs = tokenizer(text, truncation=True, max_length=max_tokens, return_tensors="pt")
        with torch.inference_mode():
            return model(**inputs).last_hidden_state[0, 0]

    return vector


def first_batch(files: Files, *, stream: str) -> tuple[ExampleRows, np.ndarray, np.ndarray]:
    """All examples, and the items and the passages of the first step of a training with seed 42."""
    examples, size = example_rows(files), RETRIEVER["batch_size"]
    _, _, items = step_items(len(examples), batch_size=size, step=0, seed=42, stream=stream)
    passages = draw_passages(
        examples, items, passages_per_query=RETRIEVER["passages_per_query"], seed=42, epoch=0, num_passages=30
    )
    return examples, items, passages


def write_term_weights(files: Files, work_folder: Path, model: TermWeigher, folder: Path) -> None:
    """Write `weights.jsonl` to a folder."""
    weigh_terms(
        model, files.backbone, files.tokens, files.doc_ids, folder / "weights.jsonl",
        max_tokens=TERMS["max_tokens"], batch_tokens=512, block_rows=7,
        device=torch.device("cpu"), precision="fp32", work_folder=work_folder,
    )  # fmt: skip


def example_rows(files: Files) -> ExampleRows:
    """The examples of the files."""
    query_rows = {query.query_id: row for row, query in enumerate(files.queries)}
    doc_rows = {passage.doc_id: row for row, passage in enumerate(files.passages)}
    return read_example_rows([ExampleFile(files.examples, query_rows, lambda _: True)], doc_rows=doc_rows)


def settings_of(kind: str, settings: Mapping[str, Any]) -> Optimiser:
    """Settings as a training of this kind reads them: an objective, or else a recipe."""
    block: type[Optimiser] = FineTuning
    if kind in kinds.names("objectives"):
        block = kinds.load("objectives", kind).Settings
    elif kind == "terms":
        block = TermWeights
    elif "epsilon" in settings:
        block = SentenceRecipe
    return partly(block, {"epochs": None, "updates": None, "drop_last": False, **settings})


def run_of(
    kind: str,
    output: Path,
    settings: Mapping[str, Any],
    *,
    processes: Processes | None = None,
    **changes: Any,
) -> Run[Any]:
    """A run of one process with a work folder beside `output`; `changes` replace settings or fields."""
    own = {name: changes.pop(name) for name in Run.__dataclass_fields__ if name in changes}
    assert not changes.keys() - settings.keys(), changes
    return Run(
        **{
            "settings": settings_of(kind, {**settings, **changes}),
            "seed": 42,
            "precision": "fp32",
            "processes": processes or alone(torch.device("cpu")),
            "fingerprint": kind,
            "work_folder": output.with_name(f"{output.name}-work"),
            **SAFETY,
            **own,
        }
    )


def losses(output: Path) -> list[dict[str, Any]]:
    """The log beside a trained model."""
    return [json.loads(line) for line in (output / "losses.jsonl").read_text().splitlines()]


def contents(output: Path) -> dict[str, bytes]:
    """All files of a folder and of those in it."""
    files = sorted(file for file in output.rglob("*") if file.is_file())
    return {file.relative_to(output).as_posix(): file.read_bytes() for file in files}
