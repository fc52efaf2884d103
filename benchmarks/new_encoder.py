"""Make the folder of a small encoder with random weights, as transformers writes it, from texts of one's own.

    python benchmarks/new_encoder.py modernbert ../my/texts/corpus.jsonl.gz ../my/encoders/modernbert

Four layers of 256 numbers; the tokenizer (BPE of bytes, 16,384 tokens, lower case) is learnt from the texts.
For `source: folder` where no weights are at hand: see configs/findings/encoders.yaml.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import measuring
import torch
import transformers
from growth import read_corpus
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

KINDS = ("roberta", "modernbert")
SEED = 42
SPECIALS = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
SHAPE = {
    "vocab_size": 16384, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "intermediate_size": 1024, "max_position_embeddings": 130,
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("corpus", type=Path, help="JSON lines with `_id` and `text`, or such a .gz")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(argv)
    tokenizer = learn_tokenizer(given.corpus)
    numbers = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "cls", "sep")}
    numbers |= {"bos_token_id": numbers["cls_token_id"], "eos_token_id": numbers["sep_token_id"]}
    torch.manual_seed(SEED)
    config = transformers.CONFIG_MAPPING[given.kind](**SHAPE, **numbers)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)


def learn_tokenizer(corpus: Path) -> transformers.PreTrainedTokenizerFast:
    """A tokenizer of bytes, whose texts begin with <s> and end with </s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        read_corpus(corpus),
        trainers.BpeTrainer(
            vocab_size=SHAPE["vocab_size"],
            special_tokens=[*SPECIALS.values()],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    first, last = SPECIALS["cls"], SPECIALS["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} {last} $B {last}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (first, last)],
    )
    names = {f"{name}_token": token for name, token in SPECIALS.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=128, **names)


if __name__ == "__main__":
    measuring.run(main)
