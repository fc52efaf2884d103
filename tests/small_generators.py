"""Small generators of random weights, made by transformers: a T5, a BART and two BERTs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from architectures import TEXTS, WORDS, tokenizer_of

_BERT: dict[str, Any] = {
    **{"vocab_size": WORDS, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"intermediate_size": 20, "max_position_embeddings": 60, "initializer_range": 0.4},
}
KINDS = ("t5", "bart", "bert2bert")


def write_generator(kind: str, folder: Path, *, texts: list[str] | None = None) -> Any:
    """A folder as save_pretrained writes it; gives the model, which ends texts at various lengths."""
    torch.manual_seed(4)
    tokenizer = tokenizer_of("bert" if kind == "bert2bert" else "xlm-roberta", texts or TEXTS)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.sep_token_id}
    starts = {
        "t5": tokenizer.pad_token_id,
        "bart": tokenizer.sep_token_id,
        "bert2bert": tokenizer.cls_token_id,
    }
    ids["decoder_start_token_id"] = starts[kind]  # BART begins a text with the token that ends it
    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=WORDS, d_model=24, d_kv=8, d_ff=20, num_layers=2, num_heads=3, **ids
        )
        model = transformers.T5ForConditionalGeneration(config)
    elif kind == "bart":
        sizes = {
            f"{half}_{name}": value
            for half in ("encoder", "decoder")
            for name, value in (("layers", 2), ("attention_heads", 3), ("ffn_dim", 20))
        }
        config = transformers.BartConfig(
            vocab_size=WORDS, d_model=24, max_position_embeddings=60, init_std=0.4, **sizes, **ids
        )
        model = transformers.BartForConditionalGeneration(config)
    else:
        decoder = transformers.BertConfig(**_BERT, is_decoder=True, add_cross_attention=True)
        config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
            transformers.BertConfig(**_BERT), decoder, **ids
        )
        model = transformers.EncoderDecoderModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    for name, value in ids.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()
