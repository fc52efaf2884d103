"""The vector of a text, a property of the model: what is put before the text, which states of the last layer
make the vector, and its length.

It lies in a model's folder in the files of sentence-transformers (`modules.json`), so that the folder loads
there as it is used here, and a folder from there is used here as it was trained.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from condenser.encoders import CONFIG_FILE, read_encoder_config
from condenser.files import read_json, write_json
from condenser.model.encoder import EncoderLayer
from condenser.model.projection import PROJECTION_FOLDER, Projection, read_projection
from condenser.model.rows import Chosen, Rows

MODULES_FILE = "modules.json"
POOLING_FILE = "1_Pooling/config.json"
SIMILARITY_FILE = "config_sentence_transformers.json"
VECTOR_FILES = (MODULES_FILE, POOLING_FILE, SIMILARITY_FILE)
LENGTH_FILE = "sentence_bert_config.json"

_ASSUMED = "assumed"  # key of SIMILARITY_FILE, which sentence-transformers does not read
_SENTENCES = {
    "pooling": f"The folder has no {MODULES_FILE}: [CLS] is assumed to be the vector of a text, as in the "
    "papers. Set pooling of the model if it was trained otherwise.",
    "passage_prompt": "The folder's prompt named {} is put before passages; encode_document of "
    "sentence-transformers reads one named document alone.",
    "other_prompts": "These prompts of the folder are left out: {}. Set prompts of the model to put one "
    "before queries or passages.",
    "default_prompt": "The folder's default_prompt_name {}, for texts that are neither query nor passage, is "
    "left out.",
    "scaled": "The folder's similarity is the cosine, without a Normalize module: vectors are scaled to "
    "length 1, which ranks alike.",
    "cosine": "The folder names no similarity: the cosine is assumed, as in sentence-transformers. "
    "Set normalised: false of the model if it was trained with inner products.",
    "inner_product": "The folder names no similarity: the inner product is assumed, as in the papers. "
    "Set normalised: true of the model if it was trained with cosines.",
    "weights": "These weights above the folder's encoder are left out: {}. A cross-encoder that starts here "
    "draws a new layer for scores.",
}
"""What is assumed, by the code that a folder keeps: a folder of others can write no sentence of its own."""
_SHOWN_NAMES, _LONGEST_NAME = 4, 40  # of a folder, in a sentence

Note = list[str]
"""A code of `_SENTENCES`, and the names of the folder that go into the sentence."""
_PASSAGE_NAMES = ("document", "passage", "corpus")  # as sentence-transformers looks for a passage's prompt

Pooling = Literal["cls", "mean", "max", "last", "weighted"]
"""Which states make a vector: the first token's, the last one's, or all with equal or growing weights."""

_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_weightedmean_tokens": "weighted",
}
"""Keys of sentence-transformers up to version 5."""
_NAMES: dict[str, Pooling] = {"lasttoken": "last", "weightedmean": "weighted"}
"""Names of version 6, where they are not ours."""

_PLAIN_TEXTS: dict[str, Any] = {
    "transformer_task": "feature-extraction",
    "processing_kwargs": {},
    "query_expansion": None,
    "config_args": {},
    "config_kwargs": {},
    "tokenizer_args": {},
    "processor_kwargs": {},
}
"""Settings of LENGTH_FILE with which a text becomes states here. Another value would give other vectors."""

_NO_LENGTH = 10**9  # transformers writes a larger number where there is no limit

Role = Literal["query", "passage"]
"""What a text is in retrieval."""


@dataclass(frozen=True)
class TextVector:
    """How the last layer's states make the vector of a text.

    Attributes:
        pooling: "cls", the first token's state (the papers); "last", the last one's; or over all tokens,
            specials included, their "mean", "max", or mean "weighted" by places 1, 2, ...
        normalised: whether the vector has length 1, so that an inner product is a cosine.
        query_prompt, passage_prompt: what is put before each query and passage (e5's "query: "). They count
            among the tokens that a text is cut to.
    """

    pooling: Pooling = "cls"
    normalised: bool = False
    query_prompt: str = ""
    passage_prompt: str = ""

    def prompt(self, role: Role) -> str:
        """What is put before a query or a passage."""
        return self.query_prompt if role == "query" else self.passage_prompt

    @property
    def scale(self) -> float:
        """What similarities are multiplied by in a loss unless a setting says otherwise.

        1 for inner products (the papers). Cosines lie within 1 of each other: 20, as sentence-transformers.
        """
        return 20.0 if self.normalised else 1.0

    def pooled(
        self,
        last: EncoderLayer,
        states: Float[Tensor, "token dim"],
        rows: Rows,
        wanted: Sequence[Chosen | None] = (),
    ) -> tuple[Float[Tensor, "row dim"], list[Float[Tensor, "_ dim"]]]:
        """The vectors before they are normalised, and the last layer's states at some tokens (None: at all).

        `states` are the inputs of the last layer. With "cls" and "last" it is computed at these tokens and
        the wanted ones, else at all tokens. The dropout of the vectors does not depend on `wanted`.
        """
        if self.pooling in ("cls", "last"):
            token = rows.first if self.pooling == "cls" else rows.last()
            vectors, *others = last(states, rows, [token, *wanted])
            return vectors, others
        (late,) = last(states, rows, [None])
        others = [late if chosen is None else late.index_select(0, chosen.tokens) for chosen in wanted]
        return _pooled_tokens(_precise(late), rows, self.pooling), others

    def projected_and_scaled(
        self, vectors: Float[Tensor, "row dim"], projection: Projection | None
    ) -> Float[Tensor, "row out"]:
        """The vectors as they are compared: projected, and of length 1, if the model says so."""
        if projection is None and not self.normalised:
            return vectors
        with torch.autocast(vectors.device.type, enabled=False):
            vectors = _precise(vectors)
            vectors = vectors if projection is None else projection(vectors)
            return functional.normalize(vectors, dim=-1) if self.normalised else vectors


def _pooled_tokens(
    states: Float[Tensor, "token dim"], rows: Rows, pooling: Pooling
) -> Float[Tensor, "row dim"]:
    """The mean, weighted mean or maximum of each row's tokens."""
    pooled = []
    for tokens, shown in zip(rows.layout.by_group(states), rows.layout.shown, strict=True):
        is_token = None if shown is None else shown[:, 0, 0, :, None]
        if pooling == "max":
            hidden = tokens if is_token is None else tokens.masked_fill(~is_token, -torch.inf)
            pooled.append(hidden.amax(dim=1))
        elif pooling == "weighted":
            weights = torch.arange(1, tokens.shape[1] + 1, device=tokens.device, dtype=tokens.dtype)[:, None]
            weights = weights.expand(len(tokens), -1, 1) if is_token is None else weights * is_token
            pooled.append((tokens * weights).sum(dim=1) / weights.sum(dim=1))
        elif is_token is None:
            pooled.append(tokens.mean(dim=1))
        else:
            pooled.append((tokens * is_token).sum(dim=1) / is_token.sum(dim=1))
    return torch.cat(pooled)


def _precise(values: Tensor) -> Tensor:
    """In float32 at least: a mean of many, and a length, would be rounded in 16 bits."""
    return values if values.dtype == torch.float64 else values.float()


def read_text_vector(folder: str | Path) -> TextVector:
    """The vector of a model's folder (`read_and_assume`)."""
    return read_and_assume(folder)[0]


def read_and_assume(
    folder: str | Path,
    *,
    pooling: Pooling | None = None,
    normalised: bool | None = None,
    query_prompt: str | None = None,
    passage_prompt: str | None = None,
) -> tuple[TextVector, list[Note]]:
    """The vector of a model's folder, and a note on each thing that its files do not say plainly.

    An argument that is not None takes the place of what the folder says. The folder is read by the rules of
    sentence-transformers 6, but for three:

    - Without `modules.json` the vector is the papers' (the first token, as it is).
    - Vectors are normalised where the similarity is cosine: the ranking is the same.
    - A prompt named `passage` or `corpus` is put before passages: `encode_document` means to, but in 6.2 it
      takes the empty one of the name `document`.

    Raises:
        ValueError: the folder says something that cannot be computed here, such as another module.
    """
    folder = Path(folder)
    asked = pooling, normalised
    takes_folder_settings = {pooling, normalised, query_prompt, passage_prompt} == {None}
    assumed = assumed_notes(folder) if takes_folder_settings else []
    settings = _read_settings(folder / SIMILARITY_FILE)
    prompts, of_prompts = _prompts(folder, settings, query=query_prompt, passage=passage_prompt)
    assumed += of_prompts
    names, places = ([], []) if None not in (pooling, normalised) else _modules(folder)
    if pooling is None and places:
        pooling = _pooling(places[1] / "config.json", has_prompts=any(prompts))
    elif pooling is None:
        pooling = "cls"
        assumed.append(["pooling"])
    if None in asked and settings.get("truncate_dim") is not None:
        raise ValueError(
            f"{folder / SIMILARITY_FILE}: expected truncate_dim null, got {settings['truncate_dim']!r:.40}: "
            "vectors are not cut here. Set pooling and normalised of the model in the config to take them "
            "whole."
        )
    if normalised is None:
        normalised, of_similarity = _is_cosine(folder, settings, names)
        assumed += of_similarity
    return TextVector(pooling, normalised, *prompts), assumed


def assumptions(folder: str | Path) -> list[str]:
    """A sentence on each thing that was assumed of the vector when the checkpoint of a model was made."""
    return list(map(in_words, assumed_notes(folder)))


def assumed_notes(folder: str | Path) -> list[Note]:
    """The notes that a folder keeps, at most one of each code; what is no note is left out."""
    kept = _read_settings(Path(folder) / SIMILARITY_FILE).get(_ASSUMED)
    notes = [
        note for note in (kept if isinstance(kept, list) else [])
        if isinstance(note, list) and note and all(isinstance(name, str) for name in note)
    ]  # fmt: skip
    return list({note[0]: note for note in notes if note[0] in _SENTENCES}.values())


def in_words(note: Note) -> str:
    """A note as a sentence; of the names at most four, quoted, short, and no markup."""
    code, *names = note
    shown = [repr(re.sub(r"[^\w .:-]", "?", name[:_LONGEST_NAME])) for name in names[:_SHOWN_NAMES]]
    more = [f"{len(names) - _SHOWN_NAMES} more"] if len(names) > _SHOWN_NAMES else []
    return _SENTENCES[code].format(", ".join([*shown, *more]))


def _read_settings(path: Path) -> Mapping[str, Any]:
    """The settings of a JSON file; none where there is no file."""
    settings = read_json(path) if path.is_file() else {}
    if not isinstance(settings, Mapping):
        raise ValueError(f"{path}: expected settings by name, got {settings!r:.80}. Fetch the model again.")
    return settings


def _prompts(
    folder: Path, settings: Mapping[str, Any], *, query: str | None, passage: str | None
) -> tuple[tuple[str, str], list[Note]]:
    """The prompts of queries and passages, and notes on them."""
    path, prompts = folder / SIMILARITY_FILE, settings.get("prompts") or {}
    if not isinstance(prompts, Mapping) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ValueError(f"{path}: expected texts by name as prompts, got {prompts!r:.80}. Correct the file.")
    used = next((name for name in _PASSAGE_NAMES if prompts.get(name)), "document")
    assumed = []
    if passage is None and used != "document":
        assumed.append(["passage_prompt", used])
    kept = ("", None, prompts.get("query"), prompts.get(used))
    others = sorted(name for name in prompts if prompts[name] not in kept)
    if others and None in (query, passage):
        assumed.append(["other_prompts", *others])
    if (default := settings.get("default_prompt_name")) not in (None, "document", used):
        assumed.append(["default_prompt", str(default)])
    query = prompts.get("query") or "" if query is None else query
    return (query, prompts.get(used) or "" if passage is None else passage), assumed


def transformer_folder(folder: Path) -> Path:
    """Where a folder of sentence-transformers has its transformer: in itself, or in one inside (2020)."""
    is_here = (folder / CONFIG_FILE).is_file() or not (folder / MODULES_FILE).is_file()
    return folder if is_here else _modules(folder)[1][0]


@dataclass(frozen=True)
class TextSettings:
    """What sentence-transformers does to a text before the tokenizer, and behind it.

    Attributes:
        is_lowered: whether the text is turned into lower case.
        max_tokens: what it is cut to, with specials; None if the folder does not say.
    """

    is_lowered: bool
    max_tokens: int | None


def text_settings(folder: Path) -> TextSettings:
    """The settings of a folder of sentence-transformers that are the transformer's.

    From version 6 on the tokenizer knows what texts are cut to.

    Raises:
        ValueError: the file does not hold them, or asks for states that are not computed here.
    """
    settings = _read_settings(folder / LENGTH_FILE)
    for name, plain in _PLAIN_TEXTS.items():
        if settings.get(name, plain) not in (None, plain):
            raise ValueError(
                f"{folder / LENGTH_FILE}: expected {name} {plain}, got {settings[name]!r:.60}, which is not "
                "done here. Choose another model, or change that file in a copy of the folder."
            )
    is_lowered, longest = settings.get("do_lower_case") or False, settings.get("max_seq_length")
    if longest is None and (folder / MODULES_FILE).is_file():
        longest = _read_settings(folder / "tokenizer_config.json").get("model_max_length")
        longest = longest if isinstance(longest, int) and longest < _NO_LENGTH else None
    if not isinstance(is_lowered, bool) or not isinstance(longest, int | None):
        raise ValueError(
            f"{folder / LENGTH_FILE}: expected a number as max_seq_length, true or false as do_lower_case, "
            f"got {longest!r:.40} and {is_lowered!r:.40}. Fetch the model again."
        )
    return TextSettings(is_lowered, longest)


def folder_projection(folder: Path) -> Projection | None:
    """The Dense module of a folder, None where it has none.

    Raises:
        ValueError: it cannot be computed here (`read_projection`).
    """
    names, places = _modules(folder)
    return read_projection(places[names.index("Dense")]) if "Dense" in names else None


def vector_length(folder: Path) -> int:
    """The dimension of a model folder's vectors."""
    projection = folder_projection(folder)
    return read_encoder_config(folder).hidden_size if projection is None else projection.settings.out_features


def _modules(folder: Path) -> tuple[list[str], list[Path]]:
    """The modules of a folder, and their folders; none without `modules.json`."""
    path = folder / MODULES_FILE
    if not path.is_file():
        return [], []
    modules = read_json(path)
    try:
        steps = [(entry["type"].rsplit(".", 1)[-1], Path(entry["path"])) for entry in modules]
    except (TypeError, KeyError, AttributeError):
        raise ValueError(
            f"{path}: expected a list of modules with type and path, got {modules!r:.80}."
        ) from None
    for _, place in steps:
        if place.is_absolute() or ".." in place.parts:
            raise ValueError(
                f"{path}: expected paths inside the model's folder, got {str(place)!r:.80}. "
                "Set pooling and normalised of the model in the config to take its weights."
            )
    names = [name for name, _ in steps]
    is_known = names[2:] in ([], ["Dense"], ["Normalize"], ["Dense", "Normalize"])
    if names[:2] != ["Transformer", "Pooling"] or not is_known:
        raise ValueError(
            f"{path}: expected the modules Transformer, Pooling and at most Dense and Normalize, got "
            f"{', '.join(map(_plain, names))}. Set pooling and normalised of the model in the config to take "
            "its weights."
        )
    return names, [folder / place for _, place in steps]


def _plain(name: str) -> str:
    """A name from somebody else's file, in a form that a terminal can show."""
    return ascii(name)[1:-1][:80]


def _is_cosine(folder: Path, settings: Mapping[str, Any], modules: Sequence[str]) -> tuple[bool, list[Note]]:
    """Whether texts are compared by their cosine, and notes on that."""
    if "Normalize" in modules:
        return True, []
    similarity = settings.get("similarity_fn_name")
    if similarity == "dot":
        return False, []
    if similarity == "cosine":
        return True, [["scaled"]]
    if similarity is not None:
        raise ValueError(
            f"{folder / SIMILARITY_FILE}: expected the similarity cosine or dot, got {similarity!r:.80}. "
            "Set normalised of the model in the config to compare by one of these."
        )
    return (True, [["cosine"]]) if modules else (False, [["inner_product"]])


def _pooling(path: Path, *, has_prompts: bool) -> Pooling:
    settings: Any = read_json(path) if path.is_file() else None
    if not isinstance(settings, Mapping):
        raise ValueError(f"{path}: expected the settings of the pooling, got none. Fetch the model again.")
    if has_prompts and settings.get("include_prompt") is False:
        raise ValueError(
            f"{path}: expected a pooling over prompt and text, got include_prompt false. Set prompts of the "
            'model in the config to {query: "", passage: ""}, or its pooling to pool over both.'
        )
    chosen = (key for key, value in settings.items() if key.startswith("pooling_mode_") and value)
    modes = [_MODES.get(key, key) for key in chosen]
    if isinstance(settings.get("pooling_mode"), str):
        modes = [_NAMES.get(settings["pooling_mode"], settings["pooling_mode"])]
    for pooling in _MODES.values():
        if modes == [pooling]:
            return pooling
    raise ValueError(
        f"{path}: expected one pooling of {', '.join(_MODES.values())}, got "
        f"{', '.join(map(_plain, modes)) or 'none'}. "
        "Set pooling and normalised of the model in the config to use its weights in another way."
    )


def write_text_vector(
    vector: TextVector,
    folder: str | Path,
    *,
    dim: int,
    projection: Projection | None = None,
    assumed: Sequence[Note] = (),
) -> None:
    """Write the files from which sentence-transformers and `read_text_vector` know the vector.

    With a prompt for passages, sentence-transformers' `encode` puts it before a text unless it is told
    otherwise: as without prompts, what it is given without a word is a passage.

    Args:
        dim: of the states.
        assumed: what `assumed_notes` gives.
    """
    names = ["Transformer", "Pooling"]
    names += [] if projection is None else ["Dense"]
    names += ["Normalize"] if vector.normalised else []
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{name}" if index else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for index, name in enumerate(names)
    ]
    told = {key: mode for key, mode in _MODES.items() if mode in ("cls", "mean", vector.pooling)}
    pooling = {key: mode == vector.pooling for key, mode in told.items()}
    (Path(folder) / POOLING_FILE).parent.mkdir(exist_ok=True)
    write_json(Path(folder) / MODULES_FILE, modules)
    write_json(Path(folder) / POOLING_FILE, {"word_embedding_dimension": dim, **pooling})
    if projection is not None:
        projection.save(Path(folder) / PROJECTION_FOLDER)
    settings: dict[str, Any] = {"similarity_fn_name": "cosine" if vector.normalised else "dot"}
    if vector.query_prompt or vector.passage_prompt:
        settings["prompts"] = {"query": vector.query_prompt, "document": vector.passage_prompt}
    if vector.passage_prompt:
        settings["default_prompt_name"] = "document"
    if assumed:
        settings[_ASSUMED] = list(assumed)
    write_json(Path(folder) / SIMILARITY_FILE, settings)
