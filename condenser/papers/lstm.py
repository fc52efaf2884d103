"""A new LSTM over the vectors of words, in both directions: a sentence encoder before its training.

Its folder is that of sentence-transformers' modules WordEmbeddings, LSTM and Pooling. The vectors of words
are not trained. Source: Conneau et al. 2017 (InferSent), §3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import LSTM, Pooling, WordEmbeddings
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import PreTrainedTokenizerFast

from condenser.files import atomic_folder

_UNKNOWN, _BEGIN, _END = "<unk>", "<s>", "</s>"  # words of GloVe's files, with vectors there


def new_lstm(
    vectors: Mapping[str, np.ndarray], folder: str | Path, *, hidden_size: int, pooling: str, seed: int
) -> dict[str, Any]:
    """Write the folder of a new LSTM; gives its counts.

    A sentence is cut into words and punctuation as BERT's, in small letters where the file has no others,
    between a word for its begin and one for its end (InferSent). A word without a vector has that of `<unk>`,
    and where these words have none, zeros.

    Args:
        vectors: of words, float32 [dim].
        hidden_size: of each direction; the vector of a sentence is twice as long.
        pooling: max or mean, over the states of all words.
        seed: draws the weights, as PyTorch does.
    """
    zeros = np.zeros_like(next(iter(vectors.values())))
    rows = {**vectors, **{word: zeros for word in (_UNKNOWN, _BEGIN, _END) if word not in vectors}}
    words = WordEmbeddings(_tokenizer(list(rows)), np.stack(list(rows.values())))
    torch.manual_seed(seed)
    lstm = LSTM(len(zeros), hidden_size)
    encoder = SentenceTransformer(
        modules=[words, lstm, Pooling(lstm.get_embedding_dimension(), pooling)], device="cpu"
    )
    return {**_write(encoder, folder), "words": len(vectors)}


def copy_lstm(origin: Path, folder: str | Path) -> dict[str, Any]:
    """Copy the folder of an LSTM that was trained, without the log of the training; gives counts."""
    return _write(SentenceTransformer(str(origin), device="cpu", local_files_only=True), folder)


def is_lstm(folder: Path) -> bool:
    """Whether a model's folder holds an LSTM."""
    return (folder / WordEmbeddings.config_file_name).is_file()


def _write(encoder: SentenceTransformer, folder: str | Path) -> dict[str, Any]:
    with atomic_folder(folder) as partial:
        encoder.save(str(partial), create_model_card=False)
    return {"parameters": sum(weight.numel() for weight in encoder.parameters())}


def _tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token=_UNKNOWN))
    if all(word == word.lower() for word in words):
        tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing((_END, numbers[_END]), (_BEGIN, numbers[_BEGIN]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=_UNKNOWN, bos_token=_BEGIN, eos_token=_END
    )
