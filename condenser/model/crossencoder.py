"""The cross-encoder: query and passage are one text, and their relevance is a score read off its [CLS]."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn

from condenser.files import atomic_folder, read_json, write_json
from condenser.model.backbone_folder import copy_tokenizer, empty_backbone, load_backbone
from condenser.model.bert import Bert
from condenser.model.bert_checkpoint import read_checkpoint
from condenser.model.bert_config import write_bert_config
from condenser.model.dropout import dropout
from condenser.model.products import linear
from condenser.model.rows import Rows
from condenser.model.weights import WEIGHTS_FILE, fill, initialise, undrawn, write_weights

_HEAD = "classifier."


class CrossEncoder(nn.Module):
    """BERT over `[CLS] query [SEP] passage [SEP]`; the score is a linear layer on the pooler's [CLS].

    The modules have the names and the arithmetic of transformers' `BertForSequenceClassification` with one
    label, so that a saved folder loads there and as `CrossEncoder` of sentence-transformers.
    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT", as luyug/Reranker has it.
    """

    def __init__(self, bert: Bert, *, seed: int) -> None:
        """
        Args:
            bert: its pooler is trained, unlike that of a bi-encoder.
            seed: draws the weights of the linear layer, which no pre-trained model has.

        Raises:
            ValueError: the model does not tell two token types apart.
        """
        super().__init__()
        config = bert.config
        if config.type_vocab_size < 2:
            raise ValueError(
                f"type_vocab_size: expected at least 2, for query and passage, got {config.type_vocab_size}. "
                "Start the cross-encoder from another BERT."
            )
        self.bert = bert
        self.classifier = undrawn(lambda: nn.Linear(config.hidden_size, 1))
        initialise(self.classifier, standard_deviation=config.initializer_range, seed=seed)
        bert.pooler.requires_grad_(True)
        self.recompute_layers = False  # see Layer.at_all

    def forward(self, rows: Rows) -> Float[Tensor, "row 1"]:
        """The score of each row, a pair packed by `condenser.data.batches.pack_pairs`."""
        _, states = self.bert.before_last_layer(rows, recompute=self.recompute_layers)
        (first,) = self.bert.layers[-1](states, rows, [rows.first])
        probability = self.bert.config.hidden_dropout_prob if self.training else 0.0
        return linear(dropout(self.bert.pooler(first), probability), self.classifier)

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write a Hugging Face folder, with what `tokenizer_folder` has on tokens, complete or not at all."""
        with atomic_folder(folder) as partial:
            write_bert_config(
                self.bert.config,
                partial,
                architecture="BertForSequenceClassification",
                id2label={"0": "LABEL_0"},
                label2id={"LABEL_0": 0},
                # sentence-transformers gives scores as they are; without this it gives their sigmoids
                sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"},
            )
            write_weights(partial / WEIGHTS_FILE, self, settings=None)
            copy_tokenizer(tokenizer_folder, partial)
            # a tokenizer without a model's class gives no token types unless it is told to
            told = partial / "tokenizer_config.json"
            names = ["input_ids", "token_type_ids", "attention_mask"]
            write_json(told, {**(read_json(told) if told.is_file() else {}), "model_input_names": names})

    @classmethod
    def start(cls, folder: str | Path, *, seed: int) -> CrossEncoder:
        """A cross-encoder with the weights of a pre-trained model and a new linear layer."""
        return cls(load_backbone(folder, dropout=None), seed=seed)

    @classmethod
    def load(cls, folder: str | Path) -> CrossEncoder:
        """Read a folder that `save` wrote.

        Raises:
            ValueError: the folder holds no BERT, or one without the linear layer.
        """
        config, tensors, _ = read_checkpoint(folder)
        path = Path(folder) / WEIGHTS_FILE
        head = {name.removeprefix(_HEAD): tensors.pop(name) for name in [*tensors] if name.startswith(_HEAD)}
        if not head:
            raise ValueError(f"{path}: expected a cross-encoder, got a BERT without its layer for scores.")
        model = cls(empty_backbone(config), seed=0)
        fill(model.bert, tensors, origin=path)
        fill(model.classifier, head, origin=path)
        return model
