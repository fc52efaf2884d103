"""The cross-encoder: query and passage are one text, and their relevance is a score read off its [CLS]."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn

from condenser.encoders import EncoderConfig, write_encoder_config
from condenser.files import atomic_folder, read_json, write_json
from condenser.model.bert import Pooler
from condenser.model.encoder import ACTIVATIONS, Encoder
from condenser.model.folder import copy_tokenizer, empty_backbone, load_backbone, read_checkpoint, read_scorer
from condenser.model.operations import dropout, linear
from condenser.model.rows import Rows
from condenser.model.weights import WEIGHTS_FILE, fill, initialise, make_unfilled, write_weights

_ENCODER, _SCORER = "encoder.", "scorer."


class CrossEncoder(nn.Module):
    """An encoder over `[CLS] query [SEP] passage [SEP]`; the score is made of its [CLS] by two linear layers.

    A saved folder has the names of transformers' class for sequence classification with one label, so that it
    loads there and as `CrossEncoder` of sentence-transformers. Of BERT, RoBERTa, XLM-R and MPNet the first of
    the two layers begins as the pooler, which BERT's next-sentence objective has trained.
    Source: Nogueira and Cho 2019, "Passage Re-ranking with BERT", as luyug/Reranker has it.
    """

    def __init__(self, encoder: Encoder, *, seed: int) -> None:
        """
        Args:
            encoder: it gives up its pooler.
            seed: draws the weights that no pre-trained model has.
        """
        super().__init__()
        config = encoder.config
        pooler, encoder.pooler = encoder.pooler, None
        self.encoder, self.scorer = encoder, make_unfilled(lambda: Scorer(config))
        new: nn.Module = self.scorer
        if isinstance(pooler, Pooler):
            fill(self.scorer.dense, pooler.dense.state_dict(), origin="pooler")
            new = self.scorer.out
        initialise(new, standard_deviation=config.initializer_range, seed=seed)
        self.recompute_layers = False  # see EncoderLayer.at_all

    def forward(self, rows: Rows) -> Float[Tensor, "row 1"]:
        """The score of each row, a pair packed by `condenser.data.batches.pack_pairs`."""
        _, states = self.encoder.before_last_layer(rows, recompute=self.recompute_layers)
        (first,) = self.encoder.layers[-1](states, rows, [rows.first])
        scores: Tensor = self.scorer(first)
        return scores

    def save(self, folder: str | Path, tokenizer_folder: str | Path) -> None:
        """Write a Hugging Face folder, with what `tokenizer_folder` has on tokens, complete or not at all."""
        config = self.encoder.config
        with atomic_folder(folder) as partial:
            write_encoder_config(
                config,
                partial,
                architecture=config.scorer_class,
                id2label={"0": "LABEL_0"},
                label2id={"LABEL_0": 0},
                # sentence-transformers gives scores as they are; without this it gives their sigmoids
                sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"},
            )
            write_weights(partial / WEIGHTS_FILE, self, settings=None, rename=self.their_name)
            copy_tokenizer(tokenizer_folder, partial)
            # a tokenizer without a model's class gives no token types unless it is told to
            told = partial / "tokenizer_config.json"
            types = ["token_type_ids"] if config.layout.has_segments else []
            names = ["input_ids", *types, "attention_mask"]
            write_json(told, {**(read_json(told) if told.is_file() else {}), "model_input_names": names})

    def their_name(self, name: str) -> str:
        """The name of a weight in transformers' class."""
        config = self.encoder.config
        if name.startswith(_ENCODER):
            return config.prefix + config.their_name(name.removeprefix(_ENCODER))
        part, _, rest = name.removeprefix(_SCORER).partition(".")
        return f"{config.scorer[part]}.{rest}"

    @classmethod
    def start(cls, folder: str | Path, *, seed: int) -> CrossEncoder:
        """A cross-encoder with the weights of a pre-trained model and a new linear layer."""
        return cls(load_backbone(folder, dropout=None), seed=seed)

    @classmethod
    def load(cls, folder: str | Path) -> CrossEncoder:
        """Read a folder that `save` wrote."""
        config, tensors, *_ = read_checkpoint(folder)
        path = Path(folder) / WEIGHTS_FILE
        model = cls(empty_backbone(config), seed=0)
        encoder = {name: value for name, value in tensors.items() if not name.startswith("pooler.")}
        fill(model.encoder, encoder, origin=path)
        fill(model.scorer, read_scorer(folder, config), origin=path)
        return model


class Scorer(nn.Module):
    """What makes a score of [CLS]: linear layer, activation, linear layer; with ModernBERT's norm between."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        dim, layout = config.hidden_size, config.layout
        self.dense = nn.Linear(dim, dim, bias=layout.head_bias)
        if "norm" in config.scorer:
            self.norm = nn.LayerNorm(dim, eps=config.layer_norm_eps, bias=layout.layer_norm_bias)
        self.out = nn.Linear(dim, 1)
        self._activation, self._dropouts = (
            ACTIVATIONS[config.layout.scorer_act],
            config.layout.scorer_dropouts,
        )

    def forward(self, first: Float[Tensor, "row dim"]) -> Float[Tensor, "row 1"]:
        """The score of each row, of its [CLS]."""
        before, between = self._dropouts if self.training else (0.0, 0.0)
        states = self._activation(linear(dropout(first, before) if before else first, self.dense))
        states = self.norm(states) if hasattr(self, "norm") else states
        return linear(dropout(states, between), self.out)
