"""Small encoders of every architecture, made by transformers, and tokenizers of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from condenser.model.encoder import Encoder
from condenser.model.folder import load_backbone

WORDS = 300
_SHAPE = {
    "hidden_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "vocab_size": WORDS,
    "max_position_embeddings": 80,
    "initializer_range": 0.2,
}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": _SHAPE | _NO_DROPOUT,
    "roberta": _SHAPE | _NO_DROPOUT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    "xlm-roberta": _SHAPE | _NO_DROPOUT | {"type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
    "electra": _SHAPE | _NO_DROPOUT | {"embedding_size": 16},
    "distilbert": {
        **{"dim": 24, "n_layers": 4, "n_heads": 3, "hidden_dim": 20, "vocab_size": WORDS},
        **{"max_position_embeddings": 80, "initializer_range": 0.2, "dropout": 0.0, "attention_dropout": 0.0},
    },
    "mpnet": _SHAPE | _NO_DROPOUT,
    "modernbert": {**_SHAPE, "local_attention": 16, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}
    | {"bos_token_id": 2, "eos_token_id": 3},
}
"""Settings of a small one of each; ModernBERT's windows are shorter than some texts."""


def their_config(kind: str) -> Any:
    attention = "eager" if kind == "mpnet" else "sdpa"  # MPNet has no other; the other ones' eager rounds
    return transformers.CONFIG_MAPPING[kind](**ARCHITECTURES[kind], attn_implementation=attention)


def their_model(kind: str, head: str | None = None) -> Any:
    """transformers' model, random and far from linear; with `head`, such as MaskedLM."""
    torch.manual_seed(0)
    maker = transformers.AutoModelForMaskedLM if head == "MaskedLM" else transformers.AutoModel
    model = maker.from_config(their_config(kind))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def write_folder(kind: str, folder: Path, *, head: str | None = None, texts: list[str] | None = None) -> Any:
    """A checkpoint as transformers writes it, with a tokenizer of its kind; gives the model."""
    model = their_model(kind, head)
    model.save_pretrained(folder)
    tokenizer_of(kind, texts or TEXTS).save_pretrained(folder)
    return model


def small_encoder(kind: str, folder: Path) -> tuple[Any, Encoder]:
    """transformers' encoder and ours with the same weights, in float64."""
    theirs = their_model(kind)
    theirs.save_pretrained(folder)
    ours = load_backbone(folder, dropout=None).double().eval()
    weights = {ours.config.our_name(name): value for name, value in theirs.state_dict().items()}
    ours.load_state_dict({name: weights[name] for name in ours.state_dict()})
    return theirs.double().eval(), ours


TEXTS = [
    "The cat sat on the mat. It didn't move, did it? No!",
    "A café in Zürich: 12 dogs, 7 cats and one un-named bird (blue).",
    "Whole words are masked; pieces of words are not. Words continue words.",
    'She said: "Never."\n\nThen she left, and nobody spoke of it again for years and years.',
] * 3


def tokenizer_of(kind: str, texts: list[str]) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer of the kind that an architecture has, trained on texts."""
    if kind in ("bert", "electra", "distilbert", "mpnet"):
        return _wordpiece(texts, specials=_MPNET if kind == "mpnet" else _BERT)
    if kind == "xlm-roberta":
        return _sentencepiece(texts)
    return _bytes(texts, specials=_ROBERTA if kind == "roberta" else _BERT)


_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ROBERTA = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
_MPNET = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "[UNK]", "mask": "<mask>"}


def _wordpiece(texts: list[str], *, specials: dict[str, str]) -> transformers.PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=WORDS, special_tokens=[*specials.values()], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _finished(tokenizer, specials, separators=1 if specials is _BERT else 2)


def _bytes(texts: list[str], *, specials: dict[str, str]) -> transformers.PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS,
        special_tokens=[*specials.values()],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _finished(tokenizer, specials, separators=1 if specials is _BERT else 2)


def _sentencepiece(texts: list[str]) -> transformers.PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=WORDS, special_tokens=[*_ROBERTA.values()], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _finished(tokenizer, _ROBERTA, separators=2)


def _finished(
    tokenizer: Tokenizer, specials: dict[str, str], *, separators: int
) -> transformers.PreTrainedTokenizerFast:
    cls, sep = specials["cls"], specials["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {' '.join([sep] * separators)} $B:{2 - separators} {sep}:{2 - separators}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (cls, sep)],
    )
    names = {f"{kind}_token": name for kind, name in specials.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=78, **names)
