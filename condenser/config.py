"""The configuration, validated before anything runs.

One model a block of config.yaml. Nothing here reads a file but the `config.json` of a backbone that
is a folder; every wrong key, type, range, missing folder or impossible combination gives one line
that names the key, what is allowed and what came.
"""

from __future__ import annotations

import difflib
import math
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from condenser.files import read_json

_MOST = 2**63 - 1  # what NumPy and torch take as a whole number


def _as_written_shortest(epochs: float) -> float:
    """2 for 2.0, which is no other setting."""
    return int(epochs) if epochs == int(epochs) else epochs


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=1, le=_MOST)]
Epochs = Annotated[  # 0.25: the first quarter of an epoch
    int | float, Field(gt=0, le=_MOST), AfterValidator(_as_written_shortest)
]
Whole = Annotated[int, Field(ge=0, le=_MOST)]
_TAKEN_NAMES = ("downloads", "logs")  # folders of results/ that are no data set's
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]  # part of a file's name
MsmarcoSplit = Literal["train", "dev", "dl19"]

EMBEDDED_LAYERS, EMBEDDED_POSITIONS = 6, 512  # MiniLM's config.json
_PADDED_TO = 8  # as condenser.data.batches pads rows
_NUM_SPECIALS = 2
_LONGEST_PREVIEW, _LONGEST_PATH = 80, 400  # characters of a value in a message
_DL19_GRADE = 2  # TREC DL 2019: binary measures count a passage from this grade on


class Block(BaseModel):
    """A block of the configuration: strict types, no key that is not declared."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16", "fp16"]


class Safety(Block):
    checkpoint_every_s: Whole
    checkpoints_kept: Count
    bad_loss_patience: Whole


class Downloads(Block):
    mirror: str | None
    retries: Whole
    timeout_s: Positive


class Dataset(Block):
    """What every source shares; the two splits name the train and the evaluation queries."""

    bad_rows: Literal["strict", "skip"] = "strict"
    train_split: Name = "train"
    eval_split: Name = "dev"

    @model_validator(mode="after")
    def _splits_differ(self) -> Dataset:
        if self.train_split == self.eval_split:
            raise ValueError(f"train_split and eval_split are both {self.train_split!r}: name two splits")
        return self


class PydocDataset(Dataset):
    source: Literal["pydoc"]


class Pydoc(Block):
    """The settings of every data set made of docstrings.

    A block of its own, so that an overlay that gives such a data set another source leaves no key
    of this one behind.
    """

    packages: Annotated[list[str], Field(min_length=1)]
    query_words: Annotated[list[Count], Field(min_length=2, max_length=2)]
    passage_words: Annotated[list[Count], Field(min_length=2, max_length=2)]
    eval_queries: Count
    train_queries: Count
    held_out: Literal["none", "train"]


class MsmarcoDataset(Dataset):
    source: Literal["msmarco"]
    train_split: MsmarcoSplit = "train"
    eval_split: MsmarcoSplit = "dev"
    titles: Literal["rocketqa", "none"] = "rocketqa"
    triples: bool = False


class BeirDataset(Dataset):
    source: Literal["beir"]
    path: str


class TsvDataset(Dataset):
    source: Literal["tsv"]
    path: str


class HubTextPart(Block):
    """One collection of texts on the hub (or a folder in its layout)."""

    id: str
    config: str | None = None
    split: str = "train"
    column: str = "text"
    revision: str | None = None
    rows_per_passage: Count = 1
    min_words: Count = 1
    max_rows: Count | None = None


class HubTextDataset(Block):
    """Texts without queries, for the first stage of pre-training."""

    source: Literal["hub_text"]
    parts: Annotated[list[HubTextPart], Field(min_length=1)]
    bad_rows: Literal["strict", "skip"] = "skip"


class EmbeddedBackbone(Block):
    source: Literal["embedded"]


class HubBackbone(Block):
    source: Literal["hub"]
    id: str
    revision: str = "main"


class FolderBackbone(Block):
    source: Literal["folder"]
    path: str


class ScratchBackbone(Block):
    source: Literal["scratch"]
    vocab_size: Annotated[int, Field(ge=64, le=_MOST)]
    hidden_size: Count
    num_layers: Annotated[int, Field(ge=2, le=_MOST)]
    num_heads: Count
    intermediate_size: Count
    max_positions: Count = 512

    @model_validator(mode="after")
    def _heads_divide(self) -> ScratchBackbone:
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is no multiple of num_heads {self.num_heads}")
        return self


class Tokens(Block):
    shards: Count


class Lengths(Block):
    query: Annotated[int, Field(ge=3, le=512)]
    passage: Annotated[int, Field(ge=3, le=512)]


class Optimiser(Block):
    """What every training shares."""

    learning_rate: Positive
    weight_decay: NotNegative
    warmup_ratio: Share
    max_grad_norm: NotNegative  # 0: gradients are left as they are


class Condenser(Optimiser):
    corpus: str
    skip_from: Whole
    num_head_layers: Count
    late_mlm_weight: NotNegative
    max_tokens: Annotated[int, Field(ge=1, le=510)]
    short_probability: Share
    mask_probability: Share
    batch_size: Count
    rows_per_chunk: Count
    epochs: Epochs


class CoCondenser(Optimiser):
    corpus: str
    min_span_tokens: Count
    span_tokens: Annotated[list[Count], Field(min_length=2, max_length=2)]
    short_probability: Share
    mask_probability: Share
    mlm_weight: NotNegative
    contrastive_weight: NotNegative
    batch_size: Annotated[int, Field(ge=2, le=_MOST)]
    rows_per_chunk: Count
    gradient_cache: Literal["auto", "always", "never"]
    memory_gb: Positive
    epochs: Epochs

    @model_validator(mode="after")
    def _spans_fit(self) -> CoCondenser:
        shortest, longest = self.span_tokens
        if not self.min_span_tokens <= shortest <= longest <= 510:
            raise ValueError(
                "expected min_span_tokens <= span_tokens[0] <= span_tokens[1] <= 510, "
                f"got {self.min_span_tokens}, {shortest}, {longest}"
            )
        return self


class Depth(Block):
    """Hits a query, by what the run is for."""

    train: Count
    eval: Count


class Bm25(Block):
    k1: NotNegative
    b: Share
    depth: Depth


class Negatives(Block):
    depth: Count
    sample: Count
    positive_in_run: bool


class Finetune(Optimiser):
    batch_size: Count
    passages_per_query: Annotated[int, Field(ge=2, le=_MOST)]
    rows_per_chunk: Count
    epochs: Annotated[list[Epochs], Field(min_length=1)]


class Encode(Block):
    batch_tokens: Annotated[int, Field(ge=512, le=_MOST)]
    block_rows: Annotated[int, Field(ge=1, le=16384)]  # a search holds 4,096 times as many scores
    shards: Count


class Search(Block):
    depth: Depth


class Metrics(Block):
    relevant_grade: Count


class Tables(Block):
    pretrained: Annotated[list[Literal["backbone", "condenser", "cocondenser"]], Field(min_length=1)]
    rounds: Count


AnyDataset = Annotated[
    PydocDataset | MsmarcoDataset | BeirDataset | TsvDataset | HubTextDataset, Field(discriminator="source")
]
AnyBackbone = Annotated[
    EmbeddedBackbone | HubBackbone | FolderBackbone | ScratchBackbone, Field(discriminator="source")
]


class Config(Block):
    """The whole of config.yaml with its overlays."""

    seed: Whole
    compute: Compute
    safety: Safety
    downloads: Downloads
    datasets: dict[Name, AnyDataset]
    pydoc: Pydoc
    backbone: AnyBackbone
    tokens: Tokens
    lengths: Lengths
    condenser: Condenser
    cocondenser: CoCondenser
    bm25: Bm25
    negatives: Negatives
    finetune: Finetune
    encode: Encode
    search: Search
    metrics: Metrics
    tables: Tables


def validated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as plain values, with the defaults of data set entries filled in.

    Raises:
        ValueError: something is wrong; one line, `key: what is allowed, what came`.
    """
    try:
        checked = Config.model_validate(dict(config))
    except ValidationError as error:
        raise ValueError(_first_line(error)) from None
    _check_together(checked)
    return with_source_settings(checked.model_dump())


def with_source_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the block `pydoc` put into each data set it speaks of."""
    datasets = {
        name: {**dataset, **config["pydoc"]} if dataset["source"] == "pydoc" else dataset
        for name, dataset in config["datasets"].items()
    }
    return {**config, "datasets": datasets}


def _check_vocabulary(config: Config) -> None:
    """A vocabulary made from one corpus must be that of all models of a chain, and of the tokens."""
    if config.backbone.source != "scratch":
        return
    known = ("collection", config.condenser.corpus)
    if config.cocondenser.corpus not in known:
        raise ValueError(
            f"cocondenser.corpus: expected {_listed(dict.fromkeys(known))} with a backbone from scratch, "
            f"whose vocabulary is that of condenser.corpus, got {_preview(config.cocondenser.corpus)}."
        )


def _check_together(config: Config) -> None:
    """Refuse combinations of keys that cannot work, and paths that are not there."""
    for stage in ("condenser", "cocondenser"):
        corpus = getattr(config, stage).corpus
        if corpus != "collection" and corpus not in config.datasets:
            raise ValueError(
                f"{stage}.corpus: expected 'collection' or one of {_listed(config.datasets)}, "
                f"got {_preview(corpus)}."
            )
    _check_vocabulary(config)
    if config.tables.rounds > len(config.finetune.epochs):
        raise ValueError(
            f"tables.rounds: {config.tables.rounds} rounds, but finetune.epochs names "
            f"{len(config.finetune.epochs)}. Give one number of epochs a round."
        )
    shallowest = min(config.search.depth.train, config.bm25.depth.train)
    if config.negatives.depth > shallowest:
        raise ValueError(
            f"negatives.depth: {config.negatives.depth} is deeper than the train runs it reads "
            f"(search.depth.train {config.search.depth.train}, bm25.depth.train {config.bm25.depth.train})."
        )
    if config.bm25.depth.eval != config.search.depth.eval:
        raise ValueError(
            f"bm25.depth.eval: expected search.depth.eval's {config.search.depth.eval}, "
            f"got {config.bm25.depth.eval}. The rows of a table are compared at one depth."
        )
    _check_backbone(config)
    for name, dataset in config.datasets.items():
        if name in _TAKEN_NAMES:
            raise ValueError(
                f"datasets.{name}: expected another name, results/{name}/ has a use of its own. Rename it."
            )
        if isinstance(dataset, BeirDataset | TsvDataset) and not _found(Path(dataset.path).is_dir):
            path = _preview(dataset.path, longest=_LONGEST_PATH)
            raise ValueError(
                f"datasets.{name}.path: expected a folder, found none at {path} "
                "(relative to where snakemake runs)."
            )
        is_dl19 = isinstance(dataset, MsmarcoDataset) and dataset.eval_split == "dl19"
        if is_dl19 and config.metrics.relevant_grade < _DL19_GRADE:
            raise ValueError(
                f"metrics.relevant_grade: expected at least {_DL19_GRADE} for datasets.{name}.eval_split "
                f"dl19, got {config.metrics.relevant_grade}. TREC DL 2019 counts lower ones as not relevant."
            )
    for key in ("query_words", "passage_words"):
        shortest, longest = getattr(config.pydoc, key)
        if shortest > longest:
            raise ValueError(f"pydoc.{key}: expected [least, most], got [{shortest}, {longest}].")
    if config.downloads.mirror is not None and not _found(Path(config.downloads.mirror).is_dir):
        path = _preview(config.downloads.mirror, longest=_LONGEST_PATH)
        raise ValueError(f"downloads.mirror: expected a folder, found none at {path}.")


def _check_backbone(config: Config) -> None:
    """Refuse a backbone that has too few layers or positions, where both are known before it is made."""
    shape = _layers_and_positions(config.backbone)
    if shape is None:
        return
    num_layers, max_positions = shape
    lengths = {"lengths.passage": config.lengths.passage, "lengths.query": config.lengths.query}
    if {"condenser", "cocondenser"} & set(config.tables.pretrained):
        if config.condenser.skip_from >= num_layers:
            raise ValueError(
                f"condenser.skip_from: expected at most {num_layers - 1} (the backbone's layers less one), "
                f"got {config.condenser.skip_from}."
            )
        lengths["condenser.max_tokens"] = config.condenser.max_tokens + _NUM_SPECIALS
    if "cocondenser" in config.tables.pretrained:
        lengths["cocondenser.span_tokens"] = config.cocondenser.span_tokens[1] + _NUM_SPECIALS
    longest = max(lengths, key=lambda name: lengths[name])
    width = -(-lengths[longest] // _PADDED_TO) * _PADDED_TO
    if width > max_positions:
        key = "backbone.max_positions" if isinstance(config.backbone, ScratchBackbone) else "backbone.path"
        raise ValueError(
            f"{key}: expected at least {width} positions for {longest} (a row of {lengths[longest]} tokens "
            f"with its specials, padded to a multiple of {_PADDED_TO}), got {max_positions}. "
            "Shorten the texts, or take another backbone."
        )


def _layers_and_positions(backbone: Any) -> tuple[int, int] | None:
    """The number of layers and of positions of a backbone; None of one that is still on the hub."""
    if isinstance(backbone, EmbeddedBackbone):
        return EMBEDDED_LAYERS, EMBEDDED_POSITIONS
    if isinstance(backbone, ScratchBackbone):
        return backbone.num_layers, backbone.max_positions
    if isinstance(backbone, HubBackbone):
        return None
    file = Path(backbone.path, "config.json")
    if not _found(file.is_file):
        raise ValueError(
            "backbone.path: expected a Hugging Face folder with config.json, "
            f"found none at {_preview(backbone.path, longest=_LONGEST_PATH)}."
        )
    try:
        settings = read_json(file)
    except ValueError as error:
        raise ValueError(f"backbone.path: {error}") from error
    settings = settings if isinstance(settings, dict) else {}
    layers, positions = settings.get("num_hidden_layers"), settings.get("max_position_embeddings")
    if not (isinstance(layers, int) and isinstance(positions, int)):
        raise ValueError(
            f"backbone.path: {file}: expected whole numbers num_hidden_layers and max_position_embeddings, "
            f"got {_preview(layers)} and {_preview(positions)}. Is it a BERT?"
        )
    return layers, positions


def _found(is_there: Callable[[], bool]) -> bool:
    """What a path's `is_dir` or `is_file` says; no where the system takes no such name."""
    try:
        return is_there()
    except OSError:
        return False


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)


def _first_line(error: ValidationError) -> str:
    """The first error as one line that says the key, what is allowed and what came."""
    details = error.errors()
    first = next((one for one in details if one["type"] == "extra_forbidden"), details[0])
    key = _key_of(first["loc"])
    came = first.get("input")
    kind, context = first["type"], first.get("ctx", {})
    more = f" ({len(details) - 1} more)" if len(details) > 1 else ""
    if kind == "extra_forbidden":
        known = _keys_beside(first["loc"])
        close = difflib.get_close_matches(str(first["loc"][-1])[:_LONGEST_PREVIEW], known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(known)}."
        return f"{key}: unknown key.{hint}{more}"
    if kind == "missing":
        return f"{key}: missing.{more}"
    if kind == "union_tag_invalid":
        return f"{key}.source: expected {context['expected_tags']}, got {_preview(came['source'])}.{more}"
    if kind == "union_tag_not_found":
        return f"{key}.source: missing. It says where the {key.split('.')[0]} entry comes from.{more}"
    is_short_text = isinstance(came, str) and len(came) <= _LONGEST_PREVIEW
    if is_short_text and kind in ("float_type", "int_type"):
        try:
            float(came)
        except ValueError:
            pass
        else:
            return f"{key}: expected a number, got the text {came!r}. {_how_to_write(came)}{more}"
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = expected[:1].lower() + expected[1:]
    if kind == "value_error":
        return f"{key}: {expected}.{more}"
    return f"{key}: expected {expected}, got {_preview(came)}.{more}"


class _Preview(reprlib.Repr):
    """Cuts long texts, lists and mappings, and what nests deeper than six."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = longest

    def repr_int(self, x: int, level: int) -> str:
        """Python writes no number of more than 4,300 digits."""
        if x.bit_length() > 256:
            return f"a whole number of about {math.log10(abs(x)):,.0f} digits"
        return super().repr_int(x, level)


def _preview(value: Any, *, longest: int = _LONGEST_PREVIEW) -> str:
    """A value as Python writes it, cut to one short line however long or deep it is."""
    text = _Preview(longest).repr(value)
    return text if len(text) <= longest else text[:longest] + "..."


def _how_to_write(text: str) -> str:
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent:
        return f"Write {text} without quotes."
    mantissa += "" if "." in mantissa else ".0"
    exponent = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"YAML reads an exponent as a number only with a dot and a sign: write {mantissa}e{exponent}."


_TAGS = {"pydoc", "msmarco", "beir", "tsv", "hub_text", "embedded", "hub", "folder", "scratch"}


def _key_of(location: tuple[int | str, ...]) -> str:
    """`('datasets', 'mine', 'beir', 'path')` -> `datasets.mine.path`: the tag is not part of the key."""
    parts: list[str] = []
    for index, part in enumerate(location):
        is_tag = part in _TAGS and (
            (index == 2 and location[0] == "datasets") or (index == 1 and location[0] == "backbone")
        )
        if isinstance(part, int):
            above = parts.pop() if parts else "config"
            parts.append(f"{above}[{_preview(part)}]")
        elif not is_tag and part != "[key]":
            is_short = part.isprintable() and len(part) <= _LONGEST_PREVIEW
            parts.append(part if is_short else _preview(part))
    return ".".join(parts) or "config"


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    """The keys declared where the unknown one stands."""
    models: dict[str, type[BaseModel]] = {
        "compute": Compute, "safety": Safety, "downloads": Downloads, "tokens": Tokens, "lengths": Lengths,
        "condenser": Condenser, "cocondenser": CoCondenser, "bm25": Bm25, "negatives": Negatives,
        "finetune": Finetune, "encode": Encode, "search": Search, "depth": Depth,
        "metrics": Metrics, "tables": Tables,
        "pydoc": Pydoc, "msmarco": MsmarcoDataset, "beir": BeirDataset, "tsv": TsvDataset,
        "hub_text": HubTextDataset, "parts": HubTextPart, "embedded": EmbeddedBackbone, "hub": HubBackbone,
        "folder": FolderBackbone, "scratch": ScratchBackbone,
    }  # fmt: skip
    for index in range(len(location) - 2, -1, -1):
        part = location[index]
        is_dataset_name = index == 1 and location[0] == "datasets"
        if isinstance(part, str) and part in models and not is_dataset_name:
            return list(models[part].model_fields)
    return list(Config.model_fields)
