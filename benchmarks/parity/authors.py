"""The authors' side: modules imported from their clones as they are, and their models with our weights.

What transformers 4.57 lacks of 4.2.0 is added from outside.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
from tiny import HEAD, PASSAGE_LENGTH, QUERY_LENGTH
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertTokenizer, TrainingArguments

PASSAGES_PER_QUERY = 3


@dataclass(frozen=True)
class Authors:
    """The clones, and the models with our weights.

    Attributes:
        work: a folder for files of the checks.
        clones: a folder with the clones.
        model: the folder of the backbone, for its settings and its tokenizer.
        condenser_weights, encoder_weights: under their names.
    """

    work: Path
    clones: Path
    model: Path
    condenser_weights: Mapping[str, Tensor]
    encoder_weights: Mapping[str, Tensor]

    def module(self, name: str, folder: str = "Condenser") -> types.ModuleType:
        """A module of a clone; `folder` is what their users put on the path."""
        path = str(self.clones / folder)
        if path not in sys.path:
            sys.path.insert(0, path)
        return importlib.import_module(name)

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
        """The model with our weights, in float64."""
        loaded = model.double().load_state_dict(weights, strict=False)
        tied = {f"lm.cls.predictions.decoder.{name}" for name in ("weight", "bias")}
        missing = set(loaded.missing_keys) - {name for name, _ in model.named_buffers()} - tied
        assert not loaded.unexpected_keys and not missing, loaded
        return model.train()

    def condenser(self, kind: str, **train: Any) -> Any:
        skip_from, num_head_layers = HEAD["skip_from"], HEAD["num_head_layers"]
        asked = SimpleNamespace(n_head_layers=num_head_layers, skip_from=skip_from, late_mlm=True)
        train_args = SimpleNamespace(local_rank=-1, **train)
        config = BertConfig.from_pretrained(self.model, attn_implementation="eager")
        model = getattr(self.module("modeling"), kind).from_config(config, asked, None, train_args)
        for layer in model.c_head:  # their code reads layer_out[0]: of a tensor, the batch's first item
            layer.register_forward_hook(lambda _, __, out: (out,) if isinstance(out, Tensor) else out)
        return self.load(model, self.condenser_weights)

    def training_arguments(self, kind: type = TrainingArguments, **changes: Any) -> Any:
        """Arguments of a process alone on a CPU; local_rank -1 is how 4.2.0 says it."""
        arguments = kind(
            output_dir=str(self.work / "trainer"), report_to=[], use_cpu=True, save_strategy="no",
            logging_strategy="no", disable_tqdm=True, remove_unused_columns=False, **changes,
        )  # fmt: skip
        arguments.local_rank = -1
        return arguments


class Dense:
    """luyug/Dense, which fine-tunes and encodes."""

    def __init__(self, authors: Authors) -> None:
        self.authors = authors
        self.data_args = SimpleNamespace(
            q_max_len=QUERY_LENGTH, p_max_len=PASSAGE_LENGTH, train_n_passages=PASSAGES_PER_QUERY,
            positive_passage_no_shuffle=False, negative_passage_no_shuffle=False,
        )  # fmt: skip
        # it encodes lists of ids, which only the tokenizers in Python can
        self.tokenizer = BertTokenizer(
            str(authors.model / "vocab.txt"), tokenizer_file=str(authors.model / "tokenizer.json")
        )

    def module(self, name: str) -> types.ModuleType:
        return self.authors.module(f"dense.{name}", "Dense/src")

    def processor(self, kind: str, **settings: Any) -> Any:
        module = self.module("processor.processors")
        return getattr(module, f"Simple{kind}Processor")(tokenizer=self.tokenizer, **settings)

    def model(self, num_queries: int) -> Any:
        config = BertConfig.from_pretrained(self.authors.model, attn_implementation="eager")
        encoder = self.authors.load(BertModel(config), self.authors.encoder_weights)
        train_args = SimpleNamespace(negatives_x_device=False, per_device_train_batch_size=num_queries)
        arguments = {"data_args": self.data_args, "train_args": train_args}
        return self.module("modeling").DenseModel(encoder, encoder, **arguments).train()

    def train_set(self, passages: Any, queries: Any, positives: Any, negatives: Any, trainer: Any) -> Any:
        """Its training set from a collection and queries, by its preprocessor."""
        folder = self.authors.work / "dense"
        folder.mkdir()
        lines = [f"{q}\t{text}\n" for q, text in enumerate(queries)]
        for name, rows in (("corpus", lines_of(passages)), ("queries", lines)):
            (folder / f"{name}.tsv").write_text("".join(rows))
        files = {"query_file": str(folder / "queries.tsv"), "collection_file": str(folder / "corpus.tsv")}
        process, asked = self.processor("Train", **files).process_one, zip(positives, negatives, strict=True)
        rows = [json.loads(process((str(q), *of_query))) for q, of_query in enumerate(asked)]
        dataset = datasets.Dataset.from_list(rows)
        return self.module("data").TrainDataset(self.data_args, dataset, self.tokenizer, trainer)

    def encoded(self, passages: Any) -> Any:
        """Passages as its preprocessor and its encoding set give them."""
        process, data = self.processor("Collection").process_line, self.module("data")
        rows = datasets.Dataset.from_list([json.loads(process(line)) for line in lines_of(passages)])
        dataset = data.EncodeDataset(rows, self.tokenizer, max_len=PASSAGE_LENGTH)
        collate = data.EncodeCollator(self.tokenizer, max_length=PASSAGE_LENGTH, padding="max_length")
        return collate([dataset[row] for row in range(len(dataset))])[1]


def lines_of(passages: Sequence[Sequence[str]]) -> list[str]:
    return [f"{row}\t{title}\t{text}\n" for row, (title, text) in enumerate(passages)]
