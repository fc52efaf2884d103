"""The tokenizer's files of a backbone folder: tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import logging
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

from tokenizers import Tokenizer, normalizers
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import PreTrainedTokenizerFast

from condenser.encoders import EncoderConfig
from condenser.files import read_json, write_json
from condenser.model.folder import TOKENIZER_FILES, VOCABULARY_FILES
from condenser.model.vocabulary import MAX_WORD_CHARACTERS

log = logging.getLogger(__name__)

_TOKENS = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "bos_token", "eos_token")
_KNOWN_SETTINGS = {
    *_TOKENS,
    *("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder"),
    *("do_lower_case", "do_basic_tokenize", "strip_accents", "tokenize_chinese_chars", "never_split"),
    *("tokenizer_class", "backend", "clean_up_tokenization_spaces", "split_special_tokens"),
    *("model_max_length", "model_input_names", "padding_side", "truncation_side"),
    *("add_prefix_space", "trim_offsets", "errors", "add_bos_token", "add_eos_token", "legacy"),
}
"""Settings of an encoder's tokenizer. With others, such as `vocab`, transformers reads any file there is."""

_PLAIN = {"truncation_side": "right", "split_special_tokens": False}
"""Settings with which texts become tokens here. Another value would give other vectors, so it is refused."""

_DROPPED_SETTINGS = (
    *("max_length", "truncation_strategy", "stride", "pad_to_multiple_of", "pad_token_type_id"),
    *("is_local", "local_files_only", "name_or_path"),
)


def normalise_tokenizer(
    origin: str | Path, folder: str | Path, *, config: EncoderConfig, is_lowered: bool = False
) -> None:
    """Write the tokenizer of the checkpoint `origin` without the truncation and padding it may have.

    With `is_lowered` it also turns a text into lower case, as sentence-transformers does before it.

    Raises:
        ValueError: there is no readable tokenizer, a token's id is beyond the embeddings, or texts are cut or
            split as they are not here.
    """
    from transformers import CONFIG_MAPPING, AutoTokenizer

    if not any((Path(origin) / name).is_file() for name in VOCABULARY_FILES):
        raise ValueError(f"{origin}: expected one of {', '.join(VOCABULARY_FILES)}, got none.")
    try:
        # without `config` it reads config.json, with settings that `read_encoder_config` leaves out
        theirs = CONFIG_MAPPING[config.model_type](**config.model_dump(by_alias=True))
        with tempfile.TemporaryDirectory(prefix="condenser-tokenizer-") as copy:
            _copy_harmless(Path(origin), Path(copy))
            tokenizer = AutoTokenizer.from_pretrained(
                copy, config=theirs, trust_remote_code=False, use_fast=True
            )
    except _Refused:
        raise
    except Exception as error:  # each of its parsers raises another kind
        raise ValueError(
            f"{origin}: expected a tokenizer, got a damaged one ({_one_line(error)}). Fetch the model again."
        ) from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ValueError(
            f"{origin}: expected a tokenizer of the library tokenizers, got {type(tokenizer).__name__}."
        )
    if is_lowered:
        before = [normalizers.Lowercase(), tokenizer.backend_tokenizer.normalizer]
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence([part for part in before if part])
    tokenizer.backend_tokenizer.no_truncation()  # MiniLM's file cuts at 128 without a warning
    tokenizer.backend_tokenizer.no_padding()
    for name in _DROPPED_SETTINGS:
        tokenizer.init_kwargs.pop(name, None)
    tokenizer.model_max_length = config.num_positions
    _refuse_other_tokens(tokenizer, Path(origin), vocab_size=config.vocab_size)
    if tokenizer.padding_side != "right":
        log.info("%s: not used: padding_side left, as a text's vector is that without padding", origin)
        tokenizer.padding_side = "right"
    save_tokenizer(tokenizer, folder)


def _refuse_other_tokens(tokenizer: PreTrainedTokenizerFast, origin: Path, *, vocab_size: int) -> None:
    """See that a tokenizer gives the ids of embeddings, and cuts and splits texts as it is done here."""
    for name, plain in _PLAIN.items():
        if (value := getattr(tokenizer, name)) != plain:
            told = origin / "tokenizer_config.json"
            file = told if told.is_file() and name in read_json(told) else origin / "tokenizer.json"
            raise ValueError(
                f"{file}: expected {name} {plain}, got {value!r:.40}, which is not done here. "
                "Choose another model, or change that file in a copy of the folder."
            )
    file = next(origin / name for name in VOCABULARY_FILES if (origin / name).is_file())
    words = sorted((number, word) for word, number in tokenizer.get_vocab().items())
    for number, word in words[-1:]:
        if number >= vocab_size:
            raise ValueError(
                f"{file}: expected ids below {vocab_size}, the number of word embeddings, got {number} "
                f"for {word!a:.60}. Fetch the model again, or give that token a free id."
            )
    for (number, word), (following, other) in pairwise(words):
        if number == following:  # a special token that is missing gets the number of all tokens as its id
            raise ValueError(
                f"{file}: expected one token for each id, got {word!a:.60} and {other!a:.60} for {number}. "
                "Fetch the model again, or add the special token that the file lacks."
            )
    try:  # a letter of Lepcha, which hardly any vocabulary has
        whole, inside = (tokenizer.encode("A \u1c00", add_special_tokens=each) for each in (True, False))
    except Exception as error:  # of its own kind: [UNK] is missing
        raise ValueError(
            f"{origin}: expected a tokenizer that reads any character, got an error ({_one_line(error)}). "
            "Choose another model."
        ) from error
    if whole != [tokenizer.cls_token_id, *inside, tokenizer.sep_token_id]:
        raise ValueError(
            f"{origin}: expected a tokenizer that puts one token before a text (cls_token) and one behind it "
            f"(sep_token), got ids {whole} for a text of {inside}. Choose another model."
        )


class _Refused(ValueError):
    """A file of a tokenizer that is not read."""


def _copy_harmless(origin: Path, folder: Path) -> None:
    """Copy a tokenizer's files, of its settings those of `_KNOWN_SETTINGS`.

    Raises:
        ValueError: the settings are no JSON object.
    """
    for name in dict.fromkeys([*TOKENIZER_FILES, *VOCABULARY_FILES, "added_tokens.json"]):
        file = origin / name
        if not file.is_file():
            continue
        if name in ("tokenizer_config.json", "special_tokens_map.json"):
            settings = read_json(file)
            if not isinstance(settings, dict):
                raise _Refused(
                    f"{file}: expected a JSON object, got {settings!r:.60}. Fetch the model again."
                )
            if unknown := sorted(settings.keys() - _KNOWN_SETTINGS - {*_DROPPED_SETTINGS}):
                log.info("%s: not used: %s", file, ", ".join(map(ascii, unknown)))
            write_json(folder / name, {key: settings[key] for key in settings if key in _KNOWN_SETTINGS})
        else:
            shutil.copyfile(file, folder / name)


def wordpiece_tokenizer(words: list[str], *, max_length: int) -> PreTrainedTokenizerFast:
    """BERT's uncased tokenizer over these words."""
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARACTERS))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder(prefix="##")
    tokenizer.post_processor = BertProcessing(("[SEP]", numbers["[SEP]"]), ("[CLS]", numbers["[CLS]"]))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Write the tokenizer's files, which transformers 4 can also read.

    transformers 5 names the class of a tokenizer without a model TokenizersBackend. It still knows
    the name of version 4, PreTrainedTokenizerFast, and version 4 knows no other.
    """
    tokenizer.save_pretrained(str(folder))
    path = Path(folder) / "tokenizer_config.json"
    settings = read_json(path)
    if settings["tokenizer_class"] == "TokenizersBackend":
        write_json(path, {**settings, "tokenizer_class": "PreTrainedTokenizerFast"})


def _one_line(error: Exception) -> str:
    """An error of another library, short enough for a message of ours."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
