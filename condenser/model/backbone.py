"""Prepare the backbone folder that every training starts from.

A backbone folder is a plain Hugging Face folder (`condenser.model.folder`), with the masked
language model's head in a file beside its weights.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from condenser.encoders import BertConfig, EncoderConfig
from condenser.files import atomic_folder, sha256_file
from condenser.model.encoder import Encoder
from condenser.model.folder import backbone_of, empty_backbone, read_checkpoint, write_model
from condenser.model.mlm_head import MLM_HEAD_FILE, MaskedLanguageHead
from condenser.model.projection import Projection
from condenser.model.text_vector import (
    Note,
    Pooling,
    TextVector,
    folder_projection,
    in_words,
    read_and_assume,
    text_settings,
    transformer_folder,
    write_text_vector,
)
from condenser.model.tokenizer_files import normalise_tokenizer, save_tokenizer, wordpiece_tokenizer
from condenser.model.vocabulary import learn_wordpieces
from condenser.model.weights import (
    fill,
    initialise,
    read_float32_weights,
    refuse_other_shapes,
    weight_files,
    write_weights,
)

log = logging.getLogger(__name__)

_PAPERS = TextVector()


def backbone_from(
    origin: Path,
    folder: str | Path,
    *,
    seed: int,
    pooling: Pooling | None = None,
    normalised: bool | None = None,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> dict[str, Any]:
    """Write the backbone folder of a checkpoint; gives the counts for its manifest.

    Args:
        seed: draws the weights of the pooler and of the masked language model's head, if they are missing.
        pooling, normalised, query_prompt, passage_prompt: the vector of a text; None for what the checkpoint
            says (`read_and_assume`). What is assumed or left out is logged, and
            kept in the folder (`assumptions`).

    Returns:
        Parameters, layers, hidden size, vocabulary size; "from checkpoint" or "new" for the pooler and for
        the masked language model's head; the vector of a text; the digest of the checkpoint's weights.

    Raises:
        ValueError: the checkpoint is incomplete, no encoder of `ARCHITECTURES`, or asks to run code.
    """
    vector, assumed = read_and_assume(
        origin,
        pooling=pooling,
        normalised=normalised,
        query_prompt=query_prompt,
        passage_prompt=passage_prompt,
    )
    projection = folder_projection(origin) if None in (pooling, normalised) else None
    origin = transformer_folder(origin)
    texts = text_settings(origin)
    config, tensors, head_tensors, left_out = read_checkpoint(origin)
    assumed += [["weights", *left_out]] if left_out else []
    weights = weight_files(origin)
    head_file = weights[0]
    if (origin / MLM_HEAD_FILE).is_file():  # a folder of ours
        head_file = origin / MLM_HEAD_FILE
        head_tensors = read_float32_weights(head_file)
    has_pooler = any(name.startswith("pooler.") for name in tensors)

    def without_new_parts() -> Encoder:
        encoder = backbone_of(config)
        encoder.pooler = encoder.pooler if has_pooler else None
        return encoder

    refuse_other_shapes(without_new_parts, tensors, origin=weights[0])
    _refuse_nan(tensors, path=weights[0])
    _refuse_nan(head_tensors, path=head_file)
    model = empty_backbone(config)
    if model.pooler is not None and not has_pooler:
        initialise(model.pooler, standard_deviation=config.initializer_range, seed=seed)
        tensors.update({f"pooler.{name}": value for name, value in model.pooler.state_dict().items()})
    fill(model, tensors, origin=weights[0])
    mlm_head = _new_head(config, seed=seed)
    if head_tensors:
        fill(mlm_head, head_tensors, origin=head_file)

    with atomic_folder(folder) as partial:
        normalise_tokenizer(origin, partial, config=config, is_lowered=texts.is_lowered)
        _write(model, mlm_head, vector, partial, projection=projection, assumed=assumed)
    for note in assumed:
        log.warning("%s", in_words(note))
    counts = _counts(model, vector, has_pooler=has_pooler, has_head=bool(head_tensors))
    if texts.max_tokens is not None:
        counts["max_seq_length"] = texts.max_tokens
        log.info(
            "the folder's limit of %d tokens is not used: texts are cut to the recipe's lengths",
            texts.max_tokens,
        )
    return {**counts, "source_sha256": " ".join(map(sha256_file, weights))}


def new_backbone(
    folder: str | Path,
    *,
    shape: Mapping[str, int],
    texts: Iterable[str],
    seed: int,
    vector: TextVector = _PAPERS,
) -> dict[str, Any]:
    """Write the folder of a new BERT with random weights and a WordPiece vocabulary learnt from `texts`.

    Args:
        shape: hidden_size, num_layers, num_heads, intermediate_size, vocab_size, max_positions.

    Returns:
        The counts of `backbone_from` without a digest, and the words that were too long to learn from.
    """
    words, num_too_long = learn_wordpieces(texts, vocab_size=shape["vocab_size"])
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=shape["hidden_size"],
        num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_heads"],
        intermediate_size=shape["intermediate_size"],
        max_position_embeddings=shape["max_positions"],
    )
    model = empty_backbone(config)
    initialise(model, standard_deviation=config.initializer_range, seed=seed)
    with atomic_folder(folder) as partial:
        save_tokenizer(wordpiece_tokenizer(words, max_length=config.max_position_embeddings), partial)
        _write(model, _new_head(config, seed=seed), vector, partial)
    counts = _counts(model, vector, has_pooler=False, has_head=False)
    return {**counts, "words_too_long_to_learn": num_too_long}


def _new_head(config: EncoderConfig, *, seed: int) -> MaskedLanguageHead:
    head = MaskedLanguageHead(config)
    initialise(head, standard_deviation=config.initializer_range, seed=seed)
    return head


def _write(
    model: Encoder,
    mlm_head: MaskedLanguageHead,
    vector: TextVector,
    folder: Path,
    *,
    projection: Projection | None = None,
    assumed: Sequence[Note] = (),
) -> None:
    write_model(model, folder)
    dim = model.config.hidden_size
    write_text_vector(vector, folder, dim=dim, projection=projection, assumed=assumed)
    write_weights(folder / MLM_HEAD_FILE, mlm_head, settings=None)


def _refuse_nan(tensors: Mapping[str, Tensor], *, path: Path) -> None:
    for name, value in tensors.items():
        if not torch.isfinite(value).all():
            raise ValueError(
                f"{path}: expected finite weights, got NaN or infinity in {name}. "
                "Fetch or train the model again."
            )


def _counts(model: Encoder, vector: TextVector, *, has_pooler: bool, has_head: bool) -> dict[str, Any]:
    config = model.config
    pooler, mlm_head = ("from checkpoint" if found else "new" for found in (has_pooler, has_head))
    log.info(
        "backbone: %d layers of %d, %d words; pooler %s, masked language model's head %s; pooling %s%s",
        *(config.num_hidden_layers, config.hidden_size, config.vocab_size, pooler, mlm_head),
        *(vector.pooling, ", normalised" if vector.normalised else ""),
    )
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "pooler": pooler,
        "mlm_head": mlm_head,
        "pooling": vector.pooling,
        "normalised": vector.normalised,
    }
