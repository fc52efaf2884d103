"""A sequence-to-sequence model of transformers (T5, BART, two BERTs) that generates texts from texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import logging as transformers_logging

from condenser.model.devices import Compute

Noise = Callable[[int, int], Float[Tensor, "row choice"]]
"""Gumbel noise for a token (1: the first that is generated) and a number of choices."""

_KEPT = (
    *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    "forced_bos_token_id",
)
"""What counts of a folder's settings of generation; beams, lengths and penalties do not."""


class Generator:
    """A model and its tokenizer, on one device."""

    def __init__(self, model: Any, tokenizer: Any, compute: Compute, *, origin: Path) -> None:
        self._model, self._tokenizer, self._compute, self._origin = model, tokenizer, compute, origin
        generation = model.generation_config
        kept: dict[str, Any] = {name: getattr(generation, name, None) for name in _KEPT}
        kept = {name: getattr(model.config, name, None) if one is None else one for name, one in kept.items()}
        if kept["pad_token_id"] is None:
            kept["pad_token_id"] = tokenizer.pad_token_id
        for name, value in kept.items():
            if value is None and name in ("eos_token_id", "pad_token_id", "decoder_start_token_id"):
                raise ValueError(f"{origin}: expected {name} in its configuration, got none.")
        model.generation_config = GenerationConfig(**kept)
        self._kept = kept
        ends = kept["eos_token_id"]
        self._ends = torch.tensor(ends if isinstance(ends, list) else [ends])

    @classmethod
    def load(cls, folder: Path, compute: Compute) -> Generator:
        """The model of a folder, in float32 on the device.

        Raises:
            ValueError: the folder holds no such model, or lacks some of its weights.
        """
        transformers_logging.disable_progress_bar()
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        try:
            config = AutoConfig.from_pretrained(folder, **local)
            if not getattr(config, "is_encoder_decoder", False):
                raise ValueError(f"model_type {config.model_type} is no encoder with a decoder")
            tokenizer = AutoTokenizer.from_pretrained(folder, **local)
            model, loaded = AutoModelForSeq2SeqLM.from_pretrained(
                folder, **local, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
        except (ValueError, OSError, RuntimeError, KeyError) as error:
            said = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"{folder}: expected a sequence-to-sequence model of transformers, such as T5 or BART, with "
                f"weights as safetensors, got: {said}"
            ) from None
        lacking = sorted({*loaded["missing_keys"], *(name for name, *_ in loaded["mismatched_keys"])})
        if lacking:
            raise ValueError(
                f"{folder}: expected all weights of its config.json, got none, or of another shape, for "
                f"{lacking[0]} and {len(lacking) - 1} more. Write the model with save_pretrained."
            )
        return cls(model.to(compute.device).eval(), tokenizer, compute, origin=folder)

    def encode(self, texts: Sequence[str], *, max_tokens: int) -> tuple[list[list[int]], int]:
        """The token ids of texts, each cut to `max_tokens` with special tokens; and how many were cut."""
        ids = self._tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
        full = [text for text, of_text in zip(texts, ids, strict=True) if len(of_text) == max_tokens]
        longer = (
            self._tokenizer(full, truncation=True, max_length=max_tokens + 1)["input_ids"] if full else []
        )
        return ids, sum(len(of_text) > max_tokens for of_text in longer)

    def check_positions(self, *, max_input_tokens: int, max_tokens: int) -> None:
        """See that texts of these lengths fit the positions of encoder and decoder.

        Raises:
            ValueError: they do not.
        """
        model = self._model
        for key, half, needed in (
            ("max_input_tokens", model.get_encoder(), max_input_tokens),
            ("max_tokens", model.get_decoder(), max_tokens),
        ):
            positions = getattr(half.config, "max_position_embeddings", None)  # T5 has none
            if positions is not None and needed > positions:
                raise ValueError(
                    f"{self._origin}: expected positions for {key} ({needed}), got {positions}. Lower it."
                )

    def generate(
        self,
        ids: Sequence[Sequence[int]],
        *,
        samples: int,
        top_k: int | None,
        max_tokens: int,
        noise: Noise,
    ) -> tuple[list[list[str]], int]:
        """`samples` texts for each text, and how many of them end at `max_tokens` without an end token.

        A token is drawn from the `top_k` most probable ones; with None it is the most probable one.

        Args:
            noise: one row for each generated text, those of one text together.

        Raises:
            ValueError: a score is NaN.
        """
        device = self._compute.device
        tokens = [torch.tensor(of_text, dtype=torch.long) for of_text in ids]
        padded = pad_sequence(tokens, batch_first=True, padding_value=self._kept["pad_token_id"]).to(device)
        mask = pad_sequence(list(map(torch.ones_like, tokens)), batch_first=True).to(device)
        chosen = _Choice(top_k, noise)
        with torch.inference_mode(), self._compute.autocast():
            states = self._model.get_encoder()(input_ids=padded, attention_mask=mask).last_hidden_state
            generated = self._model.generate(
                encoder_outputs=BaseModelOutput(last_hidden_state=states.repeat_interleave(samples, dim=0)),
                attention_mask=mask.repeat_interleave(samples, dim=0),
                generation_config=GenerationConfig(
                    **self._kept, max_new_tokens=max_tokens, do_sample=False, num_beams=1, use_cache=True
                ),
                logits_processor=LogitsProcessorList([chosen]),
            )
        if not chosen.is_sound():
            raise ValueError(
                f"{self._origin}: expected finite scores of tokens, got NaN. Precision is "
                f"{self._compute.precision}: set compute.precision to fp32."
            )
        generated = generated.cpu()
        num_unfinished = int((~torch.isin(generated[:, 1:], self._ends).any(dim=1)).sum())
        texts = [
            one.strip() for one in self._tokenizer.batch_decode(generated.tolist(), skip_special_tokens=True)
        ]
        return [texts[start : start + samples] for start in range(0, len(texts), samples)], num_unfinished


class _Choice(LogitsProcessor):
    """Leaves one token of each row: the most probable one, or one drawn from the first `top_k`.

    The largest of logit + Gumbel noise is a draw from their softmax (Gumbel 1954; Maddison et al. 2014). So
    a draw depends only on the row's logits and noise, and not on the rows beside it.
    """

    def __init__(self, top_k: int | None, noise: Noise) -> None:
        self._top_k, self._noise = top_k, noise
        self._sound: list[Tensor] = []

    def __call__(
        self, input_ids: Int[Tensor, "row token"], scores: Float[Tensor, "row word"]
    ) -> Float[Tensor, "row word"]:
        """The scores of the next token of each row, -inf for all but one."""
        if self._top_k is None:
            self._sound.append(scores.amax(dim=1).isnan().any())
            return scores
        values, tokens = scores.topk(min(self._top_k, scores.shape[1]), dim=1)
        self._sound.append(values.isnan().any())
        noise = self._noise(input_ids.shape[1], values.shape[1]).to(values.device)
        token = tokens.gather(1, (values.double() + noise).argmax(dim=1, keepdim=True))
        words = torch.arange(scores.shape[1], device=scores.device)
        return torch.zeros_like(scores).masked_fill(words != token, float("-inf"))

    def is_sound(self) -> bool:
        """Whether no score was NaN."""
        return not bool(torch.stack(self._sound).any())
