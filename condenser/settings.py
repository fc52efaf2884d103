"""Types of settings, shared by the configuration and the kinds that declare settings of their own."""

from __future__ import annotations

import copy
import functools
import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator

EACH = "each"  # the seed of a model that is pre-trained once for every seed of a table
AUTO = "auto"  # a length of texts that is chosen by the collection: `condenser.data.lengths`
LONGER_TEXTS = (  # what helps where a model has no text of a collection to learn from
    "name longer texts by the key documents of the data set, or leave out the rows that start from this model"
)
LARGEST = 2**63 - 1  # of NumPy's and torch's integers


def _as_written_shortest(epochs: float) -> float:
    """2 for 2.0: both are the same setting."""
    return int(epochs) if epochs == int(epochs) else epochs


def _number_or_bounds(value: Any) -> Any:
    """A number of updates, or its two bounds; one message, where a union would give one for each type."""
    bounds = {"least": value, "most": value}
    if isinstance(value, Mapping):
        bounds = {"least": None, "most": None, **value}
    given = [bound for bound in bounds.values() if bound is not None]
    is_number = all(type(bound) is int and 1 <= bound <= LARGEST for bound in given)
    if value is None or (len(bounds) == 2 and given and is_number and given == sorted(given)):
        return bounds if isinstance(value, Mapping) else value
    raise ValueError(
        "expected a whole number of at least 1, or bounds such as {least: 16, most: 64}, the least not above "
        f"the most, got {reprlib.repr(value)}"
    )


def _each_once(values: list[Any]) -> list[Any]:
    """A table would have two columns of one name, and a training would read negatives twice."""
    if repeated := [value for value in values if values.count(value) > 1]:
        raise ValueError(f"expected each once, got {repeated[0]} again")
    return values


def _home_folder_written_out(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~/") else path


def _seed_or_each(value: Any) -> Any:
    """One message, where a union of types would give one for each."""
    if value in (None, EACH) or (type(value) is int and 0 <= value <= LARGEST):
        return value
    raise ValueError(f"expected a whole number or each, got {reprlib.repr(value)}")


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
EachOnce = AfterValidator(_each_once)
Seeds = Annotated[list[Whole], Field(min_length=1), EachOnce]
Epochs = Annotated[  # 0.25: the first quarter of an epoch
    int | float, Field(gt=0, le=LARGEST), AfterValidator(_as_written_shortest)
]
Updates = Annotated[  # 18, or {least: 16, most: 64}
    int | dict[str, int | None] | None, PlainValidator(_number_or_bounds)
]
QUERY_FILE = re.compile(r"\.(jsonl|tsv)(\.gz)?$")  # of queries without judgements; the name says the form
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]  # part of a file's name
HomePath = Annotated[str, AfterValidator(_home_folder_written_out)]  # `~/` is the user's home folder
Names = Annotated[list[Name], EachOnce]
UNTRAINED = "untrained"  # the variant of a system that no training by seed reaches
DatasetName = Annotated[  # of a folder, so that it may have a dot where others have an ending
    str, Field(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$", max_length=100)
]


class Block(BaseModel):
    """A block of the configuration: strict types, and only declared keys."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # a type checker knows the keys

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, which lacks another key
                return super().__getattribute__(name)
            given = ", ".join(vars(self)) or "none"
            raise MissingKey(f"{type(self).__module__}: expected the key {name}, got {given}.")


class MissingKey(ValueError, AttributeError):
    """A block of a job lacks a key."""


BlockType = TypeVar("BlockType", bound=Block)


def partly(block: type[BlockType], values: Mapping[str, Any]) -> BlockType:
    """A block with some of its keys, which have been checked before. To ask for another one fails."""
    nested = _nested(block)
    made = copy.copy(_empty(block))
    made.__dict__.update(
        {name: _read(nested[name], value) if name in nested else value for name, value in values.items()}
    )
    return made


@functools.cache  # a dry run asks thousands of times, and pydantic would look up each default
def _empty(block: type[BlockType]) -> BlockType:
    made = block.model_construct()
    made.__dict__.clear()
    return made


@functools.cache
def _nested(block: type[Block]) -> dict[str, Any]:
    """The annotations of those keys that may hold a block."""
    annotations = {name: field.annotation for name, field in block.model_fields.items()}
    return {name: annotation for name, annotation in annotations.items() if _holds_block(annotation)}


def _holds_block(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return True
    return any(map(_holds_block, get_args(annotation)))


def _read(annotation: Any, value: Any) -> Any:
    """A value with its blocks as the annotation of its key has them."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return partly(annotation, value) if isinstance(value, Mapping) else value
    if origin is list and isinstance(value, list):
        return [_read(inner[0], one) for one in value]
    if origin is dict and isinstance(value, Mapping):
        return {key: _read(inner[1], one) for key, one in value.items()}
    if origin in (Union, UnionType, Annotated):
        return next((made for part in inner if (made := _read(part, value)) is not value), value)
    return value


class Settings(SimpleNamespace):
    """What one job sees of the configuration: blocks and values by name."""


def plain(value: Any) -> Any:
    """Settings as JSON has them."""
    if isinstance(value, Block | SimpleNamespace):
        return {name: plain(inner) for name, inner in vars(value).items()}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two blocks merged: `above` wins where both have a key, and nested blocks are merged alike."""
    result = dict(below)
    for key, value in above.items():
        is_block = isinstance(value, Mapping) and isinstance(below.get(key), Mapping)
        result[key] = merged(below[key], value) if is_block else value
    return result


def merged_training(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two blocks of a training merged; `above` replaces the whole length of the training that is below it.

    So `epochs` above also replace `updates` and `epochs_by_size` below, and a number of updates replaces
    `epochs`. Bounds of the updates leave the epochs that they bound.
    """
    replaced: set[str] = set()
    if above.get("epochs") is not None:
        replaced = {"updates", "epochs_by_size"}
    elif isinstance(above.get("updates"), int):
        replaced = {"epochs", "epochs_by_size"}
    return merged({key: value for key, value in below.items() if key not in replaced}, above)


class Optimiser(Block):
    """The keys of every training.

    It makes `epochs` over its items, but at least and at most as many updates as the bounds in `updates` say;
    or, whatever its items, just the number in `updates`, and `epochs` is null.
    """

    batch_size: Count  # items an update, of all processes together
    learning_rate: Positive
    weight_decay: NotNegative
    warmup_ratio: Share
    max_grad_norm: NotNegative  # 0: no clipping
    drop_last: bool = False  # leave out the last batch of an epoch where it is shorter
    epochs: Epochs | None = None
    updates: Updates = None

    @property
    def num_trainings(self) -> int:
        """Trainings, each on other batches, whose mean of weights is the model."""
        return 1

    @property
    def texts_per_item(self) -> int:
        """Passages that an item of a batch brings along."""
        return 1

    @property
    def adamw(self) -> tuple[float, bool]:
        """The epsilon of AdamW, and whether it corrects the bias of its first updates."""
        return 1e-8, True

    @model_validator(mode="after")
    def _has_one_length(self) -> Optimiser:
        if (self.epochs is None) != isinstance(self.updates, int):
            given = f"epochs {self.epochs} and updates {self.updates}".replace("None", "null")
            raise ValueError(
                f"expected either epochs or a number of updates, got {given}. Give one, and set the other "
                "to null"
            )
        return self


def _tokens_or_auto(value: Any) -> Any:
    """One message, where a union of types would give one for each."""
    if value in (None, AUTO) or (type(value) is int and 3 <= value <= LARGEST):
        return value
    raise ValueError(f"expected a whole number of at least 3, {AUTO} or null, got {reprlib.repr(value)}")


TokensOrAuto = Annotated[Any, PlainValidator(_tokens_or_auto)]  # int, "auto" or None


class Lengths(Block):
    """Tokens that are read of a text; `auto` is chosen by the texts (`condenser.data.lengths`).

    Where a recipe has null, the data set's number counts, and where that is null, too, `auto`.
    """

    query: TokensOrAuto = None
    passage: TokensOrAuto = None


class Texts(Block):
    """The keys of every data set, and what its source says of it: see `condenser.data.sources`."""

    NEEDS_NETWORK: ClassVar[bool] = False
    """Whether `collect` itself fetches texts."""

    TASK: ClassVar[str | None] = None
    """What its sentences are judged by; None has queries and passages."""

    LEAST_GRADES: ClassVar[dict[str, int]] = {}
    """By split, the least grade that its judges call relevant."""

    MORE_SPLITS: ClassVar[bool] = False
    """Whether it can make more evaluation sets than one."""

    OFFICIAL_ROWS: ClassVar[Mapping[str, Any]] = {}
    """The rows of the official files that it is made from."""

    AFTER_COLLECTING: ClassVar[tuple[str, ...]] = ()
    """Keys that `collect` does not use."""

    source: Name
    bad_rows: Literal["strict", "skip"] = "strict"

    # (texts without queries lack most of these keys, and a job has only those that it depends on)
    @property
    def learns_on(self) -> str | None:
        """The split of its train queries or sentences."""
        return vars(self).get("train_split")

    @property
    def further(self) -> dict[str, EvalSplit]:
        """The evaluation sets besides the main one."""
        return vars(self).get("other_eval_splits") or {}

    @property
    def eval_splits(self) -> list[str]:
        """The evaluation sets that it has, the main one first."""
        main = vars(self).get("eval_split")
        return [] if main is None else [main, *self.further]

    @property
    def is_measured(self) -> bool:
        """Whether it has judged queries to evaluate on."""
        return bool(self.eval_splits)

    @property
    def splits(self) -> list[str]:
        """The splits that it has: train, then evaluation."""
        return [*([] if self.learns_on is None else [self.learns_on]), *self.eval_splits]

    @property
    def own_recipe(self) -> str | None:
        """The recipe of its retrievers, or of its encoders of sentences, where it names one."""
        return vars(self).get("recipe")

    @property
    def own_measures(self) -> list[str] | None:
        """The measures that replace the configuration's."""
        return vars(self).get("measures")

    @property
    def own_lengths(self) -> Lengths:
        """The tokens that are read of its texts, where it has numbers."""
        return vars(self).get("lengths") or Lengths()

    @property
    def windows(self) -> Split | None:
        """How its documents become passages; None: they are passages."""
        return vars(self).get("split")

    @property
    def official_unjudged(self) -> str | None:
        """The name of its official queries without judgements."""
        return vars(self).get("unjudged")

    @property
    def longer_texts(self) -> str | None:
        """The data set that its models are pre-trained on, where that is another."""
        return vars(self).get("documents")

    def raw_files(self) -> list[str]:
        """The official files that it is made from, by their names in `condenser.data.official`."""
        return []

    def local_files(self) -> list[Path]:
        """The user's own files that it is made from."""
        return []

    def installed(self) -> list[str]:
        """The installed packages whose versions decide its texts."""
        return []

    def example_files(self, system: str) -> list[str]:
        """The official files that hold the negatives of a system."""
        return []

    def unjudged_files(self) -> list[str]:
        """The official files that hold queries without judgements, whose name is the key `unjudged`."""
        return []

    def written_paths(self) -> dict[str, str]:
        """The paths of the user's in its entry, by their keys."""
        return {"path": vars(self)["path"]} if vars(self).get("path") else {}


class EvalSplit(Block):
    """A further evaluation set of a data set; its keys replace those of the data set."""

    measures: Annotated[list[str], Field(min_length=1)] | None = None
    relevant_grade: Count | None = None


def refuse_one_split(train: str | None, evaluation: str | None) -> None:
    """Refuse to evaluate on what is trained on."""
    if train is not None and train == evaluation:
        raise ValueError(f"train_split and eval_split are both {train!r}: name two splits")


class Split(Block):
    """How long documents become passages: windows of so many `words`, each `stride` words after the other."""

    words: Count
    stride: Count

    @model_validator(mode="after")
    def _covers_every_word(self) -> Split:
        if self.stride > self.words:
            raise ValueError(
                f"stride: expected at most words ({self.words}), got {self.stride}: no window would have the "
                "words between two of them"
            )
        return self


class PartlyJudgedTexts(Texts):
    """A data set that may lack judged queries to train on, to evaluate on, or both: that split is null.

    `recipe` says how retrievers are fine-tuned on it; `lengths` are tokens that are read of its texts, unless
    the recipe has numbers; `documents` names a data set of longer texts that its models are pre-trained on;
    `measures` and `relevant_grade` replace those of the configuration's block `metrics`; `other_eval_splits`
    are evaluation sets besides the main one; `queries` names files of queries without judgements. `split`
    cuts documents into passages (`condenser.data.passages`).
    """

    recipe: Name | None = None  # the configuration's key `recipe`
    lengths: Lengths = Field(default_factory=Lengths)
    documents: DatasetName | None = None  # its own collection
    train_split: Name | None = "train"
    eval_split: Name | None = "dev"
    measures: list[str] | None = None
    relevant_grade: Count | None = None
    other_eval_splits: dict[Name, EvalSplit] | None = None
    queries: dict[Name, HomePath] | None = None
    split: Split | None = None

    @model_validator(mode="after")
    def _splits_differ(self) -> PartlyJudgedTexts:
        refuse_one_split(self.train_split, self.eval_split)
        for split in self.other_eval_splits or {}:
            if self.eval_split is None:
                raise ValueError("other_eval_splits: expected none without eval_split, the main one")
            if split in (self.train_split, self.eval_split):
                raise ValueError(f"other_eval_splits: {split!r} is a split already: name another")
        for name, file in (self.queries or {}).items():
            if name in (self.train_split, self.eval_split, *(self.other_eval_splits or ())):
                raise ValueError(f"queries: {name!r} is a split with judgements already: name another")
            if not QUERY_FILE.search(file):
                raise ValueError(
                    f"queries: expected a file whose name ends with .jsonl or .tsv (or with .gz behind it) "
                    f"for {name!r}, got {file!r}"
                )
        return self


class JudgedTexts(PartlyJudgedTexts):
    """A data set with judged queries to train and to evaluate on."""

    train_split: Name = "train"
    eval_split: Name = "dev"


class Sentences(Texts):
    """Pairs or triplets of sentences, to train on and to evaluate on."""

    recipe: Name | None = None  # one for sentences
    documents: DatasetName | None = None  # its own train sentences
    train_split: Name = "train"
    eval_split: Name | None = "test"
    measures: list[str] | None = None

    @model_validator(mode="after")
    def _splits_differ(self) -> Sentences:
        refuse_one_split(self.train_split, self.eval_split)
        return self


class Model(Block):
    """The keys of every model, and what its objective says of it: see `condenser.objectives`.

    `seed` replaces the configuration's for this model. With `each` the model is pre-trained once for every
    seed of a table, and so are those that start from it.
    """

    objective: Name
    corpus: DatasetName = "collection"
    seed: Annotated[int | str | None, PlainValidator(_seed_or_each)] = None

    @property
    def is_seeded(self) -> bool:
        """Whether it is pre-trained once for every seed of a table."""
        return self.seed == EACH

    @property
    def start(self) -> str | None:
        """The model that it starts from; None of a checkpoint."""
        return None

    @property
    def is_chosen(self) -> bool:
        """Whether it is a copy of the best of several candidates."""
        return False

    @property
    def is_of_system(self) -> bool:
        """Whether it is a checkpoint that a system of some data set is fine-tuned to."""
        return False

    @property
    def made_of(self) -> list[str]:
        """The systems that it is made of: its candidates, or the one whose encoder it is; none of most."""
        return []

    @property
    def longest_row(self) -> tuple[str, int] | None:
        """The key that bounds a text that it learns from, and its tokens without specials; None: no text."""
        return None

    def check(self, *, num_layers: int) -> None:
        """See that the settings fit a backbone of so many layers.

        Raises:
            ValueError: they do not.
        """

    def written_paths(self) -> dict[str, str]:
        """The paths of the user's in its entry, by their keys."""
        return {}


class Pretraining(Model, Optimiser):
    """The keys of every pre-trained model; `initial` is the model that the training starts from.

    The encoder that is written is a mean of weights: `initial_share` of those of `initial`, the rest of those
    that were trained.
    """

    initial: Name
    initial_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    rows_per_chunk: Count

    @property
    def start(self) -> str:
        return self.initial


class Figure(Block):
    """The keys of every figure, and what its kind says of it: see `condenser.evaluate.figures`."""

    PUBLISHED: ClassVar[Path | None] = None
    """A file of published numbers, which it shows too."""

    PANELS_OF: ClassVar[str] = ""
    """The kind of the systems in `panels`."""

    kind: Name

    def table_of(self, dataset: str) -> str | None:
        """The table that it shows of a data set; None: it names systems."""
        return None

    @property
    def shown_measures(self) -> list[str]:
        """Of the table's measures those that it shows, where that is not all."""
        return []

    @property
    def systems_of_panels(self) -> dict[str, list[str]]:
        """The systems whose runs or models it shows, by the titles of its panels."""
        return {}

    @property
    def systems_of_lines(self) -> dict[str, Mapping[str, float]]:
        """Of the table's systems those on a line, by its title, each with a number."""
        return {}

    def texts(self) -> list[tuple[str, str]]:
        """The texts of the user's that it shows, each with its key."""
        titles = [("panels", title) for title in self.systems_of_panels]
        return titles + [("lines", title) for title in self.systems_of_lines]


class FigureOfTable(Figure):
    """A figure of a `table`; `by_dataset` names another table for single data sets."""

    table: Name
    by_dataset: dict[DatasetName, Name] = Field(default_factory=dict)

    def table_of(self, dataset: str) -> str | None:
        return self.by_dataset.get(dataset, self.table)


class FigureOfMeasures(FigureOfTable):
    """Which of the table's `measures` to show."""

    measures: list[str] | None = None  # all of the table

    @property
    def shown_measures(self) -> list[str]:
        return self.measures or []


class PseudoLabels(Block):
    """Examples of queries without judgements, by the hits of a teacher.

    `queries` is a set of `extracted` or a name of `queries` of the data set. The teacher's own recipe says
    which of its hits are positives and which negatives (`condenser.blocks.Denoise`). Where it does not, the
    positive of an extracted query is the passage that it was made from, and the other hits are negatives.
    """

    teacher: Name
    queries: Name


class System(Block):
    """The keys of every system, and what its kind says of it; `label` is its name in tables.

    A kind overrides what its systems do otherwise: see `condenser.systems`.
    """

    TASKS: ClassVar[tuple[str | None, ...]] = (None,)
    """The tasks of the data sets that it is for (`condenser.data.sources`); None has queries and passages."""

    OF_RUNS: ClassVar[tuple[str, ...]] = ()
    """Keys that only its runs depend on. Jobs without a split, such as its training, do not see them."""

    READS_PAIRS: ClassVar[bool] = False
    """Whether its model reads a query and a passage in one row."""

    kind: Name
    label: str | None = None

    @property
    def ranks(self) -> bool:
        """Whether it ranks passages for queries; others are for sentences."""
        return None in self.TASKS

    def fits(self, dataset: Texts) -> bool:
        """Whether it is for what a data set has: queries, or sentences of one task."""
        return dataset.TASK in self.TASKS

    @property
    def start(self) -> str | None:
        """The model that it starts from, or the system whose weights it does."""
        return None

    @property
    def is_trained(self) -> bool:
        """Whether fine-tuning makes it; then it has `training`."""
        return False

    @property
    def learns_from_judgements(self) -> bool:
        """Whether judged train queries change its rankings."""
        return self.is_trained

    @property
    def own_recipe(self) -> dict[str, Any]:
        """The keys of the data set's recipe that it replaces."""
        return {}

    @property
    def miners(self) -> list[str]:
        """The systems whose negatives it learns from."""
        return []

    @property
    def taught_by(self) -> dict[str, Any]:
        """By key, blocks with a `teacher` and the `queries` for which it learns from the teacher's run."""
        return {}

    @property
    def also_trained_on(self) -> str | None:
        """The data set that it is trained on before its own."""
        return None

    @property
    def pseudo_labelled(self) -> PseudoLabels | None:
        """Whose hits are its examples of queries without judgements."""
        return None

    @property
    def reads(self) -> list[str]:
        """The systems whose runs it reads, besides miners'.

        A system has variants (train size and seed) if it is trained, or if one of those that it reads has
        variants; and of the seed alone if its start is pre-trained for each seed.
        """
        return [taught.teacher for taught in self.taught_by.values()]

    @property
    def reordered(self) -> list[str] | None:
        """Those whose hits it sorts anew, so that its runs are no deeper; None: it finds hits of its own."""
        return None

    @property
    def own_depth(self) -> int | None:
        """Hits a query that it ranks at most, where it reads those of others."""
        return None

    @property
    def ranks_hits_of(self) -> list[str]:
        """Those whose hits it puts in an order, in the order in which it reads their runs."""
        return []

    @property
    def expansions(self) -> dict[str, str]:
        """The entries of `expansions` that it reads, by its key for them."""
        return {}

    @property
    def kind_of_start(self) -> str:
        """The kind of the systems that it may start from."""
        return "biencoder"

    def check(self, systems: Mapping[str, System]) -> None:
        """See that its entry fits those of the other systems.

        Raises:
            ValueError: it does not.
        """

    def gives_probabilities(self, systems: Mapping[str, System]) -> bool:
        """Whether the sigmoid of a score is the probability that a passage is relevant, to denoise by."""
        return False

    def longest_row(self, recipe: Any) -> int:
        """Tokens of the longest row that its model reads, specials included."""
        return max(int(recipe.lengths.query), int(recipe.lengths.passage))

    def made_from_texts(self, variant: str) -> list[str]:
        """Results under `results/<dataset>/` that it makes of the collection before any query.

        A table makes these and the models of its rows where no query is judged.
        """
        return []

    def files_to_answer(self, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
        """What must be made before it answers a new query, by name, besides its model, tokenizer and lengths.

        Args:
            dataset, variant: folders of results.
            shards: of the collection.

        Raises:
            ValueError: its systems cannot answer.
        """
        return {}

    def training(self, files: Any, initial: Path, run: Any) -> Any:
        """Its fine-tuning.

        Args:
            files: `condenser.train.examples.TrainingFiles`.
            initial: the folder of the model that it starts from.
            run: `condenser.train.loop.Run`, whose settings are the recipe.

        Returns:
            A `condenser.train.loop.Trainable`.
        """
        raise NotImplementedError(f"systems of the kind {self.kind} are not trained")


class StartedSystem(System):
    """A system that starts from the model `initial`, or from a system that is trained as this one.

    `recipe` replaces keys of the data set's recipe. With `train: false` it is the model as it is.
    """

    initial: Name
    train: bool = True
    recipe: dict[str, Any] = Field(default_factory=dict)

    @property
    def start(self) -> str | None:
        return self.initial

    @property
    def is_trained(self) -> bool:
        return self.train

    @property
    def own_recipe(self) -> dict[str, Any]:
        return self.recipe


class FineTunedSystem(StartedSystem):
    """One that is fine-tuned on examples with the `negatives` of other systems."""

    negatives: Names = Field(default_factory=list)

    @property
    def miners(self) -> list[str]:
        return self.negatives
