"""The nouns of a configuration: data sets, models, systems and figures, as classes with methods and defaults.

They refer to each other by name. Once the configuration is read, each knows its own name and the others, and
says what a name stands for: the chain of a model, the systems behind a system, the recipe of a data set. A
job sees entries alone, which know no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, model_validator

from condenser import kinds
from condenser.blocks import Denoise, Metrics, Recipe, Written
from condenser.settings import (
    AUTO,
    EACH,
    UNTRAINED,
    Block,
    Count,
    DatasetName,
    HomePath,
    Lengths,
    Name,
    Names,
    Optimiser,
    merged_training,
    partly,
    plain,
    seed_or_each,
)
from condenser.variants import CROSSFIT, SEED, parse_variant

OWN = "collection"
"""The corpus of a model that is trained on the texts of the data set it is used for: `Model.corpus_for`."""

QUERY_FILE = re.compile(r"\.(jsonl|tsv)(\.gz)?$")  # of queries without judgements; the name says the form


class Noun(Block):
    """An entry of the configuration. In the workflow it knows its key there, and the other entries."""

    _key: str = ""
    _others: Config | None = None

    def join(self, key: str, others: Config) -> None:
        """Make it the entry `key` of a configuration."""
        self._key, self._others = key, others

    @property
    def key(self) -> str:
        """Its name in the configuration."""
        return self._key

    @property
    def others(self) -> Config:
        """The configuration that it is an entry of."""
        assert self._others is not None, "an entry alone, as a job has it, knows no others"
        return self._others


class Texts(Noun):
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
    # stop at a row that cannot be used, or leave it out and count it
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
    def longer_texts(self) -> str | None:
        """The data set that its models are pre-trained on, where that is another."""
        return vars(self).get("documents")

    @property
    def recipe_name(self) -> str:
        """The recipe of its retrievers, its own or the configuration's."""
        return self.own_recipe or self.others.recipe

    def recipe_of(self, system: System | None = None) -> Any:
        """Its recipe, with the values of a system for the keys that it replaces.

        Its `lengths` are complete: where it has null, the data set's number stands, or else `auto`.
        """
        given = self.others.recipes[self.recipe_name]
        changes = system.own_recipe if system else {}
        made = partly(type(given), merged_training(plain(given), changes)) if changes else copy(given)
        for length, missing in (("epochs", None), ("updates", None), ("epochs_by_size", {})):
            vars(made).setdefault(length, missing)
        if isinstance(made, Recipe):
            own = vars(self.own_lengths)
            lengths = {key: value or own[key] or AUTO for key, value in vars(made.lengths).items()}
            made.lengths = partly(Lengths, lengths)
        return made

    def metrics(self, split: str | None = None) -> Metrics:
        """The measures of an evaluation set, and the least grade that counts as relevant.

        The set's, else the data set's, else the configuration's. `split` is None for the main one.
        """
        found = dict(vars(self.others.metrics))
        for block in (self, self.further.get(split or "")):
            own = vars(block) if block else {}
            found |= {key: own[key] for key in found if own.get(key) is not None}
        return partly(Metrics, found)

    def measures_key(self, split: str | None = None) -> str:
        """The key that holds the measures of an evaluation set (`metrics`)."""
        further = self.further.get(split or "")
        if further is not None and further.measures is not None:
            return f"datasets.{self.key}.other_eval_splits.{split}.measures"
        return "metrics.measures" if self.own_measures is None else f"datasets.{self.key}.measures"

    def leaves_out(self, variant: str) -> bool:
        """Whether no training of a variant sees the held-out queries."""
        recipe = self.others.recipes[self.recipe_name]
        return recipe.held_out is not None and (recipe.validation is not None or variant.startswith(CROSSFIT))

    def may_hold_out(self, variant: str) -> bool:
        """Whether a variant has enough train queries to hold some out; of all of them nobody knows yet."""
        held_out, (size, _) = self.others.recipes[self.recipe_name].held_out, parse_variant(variant)
        return held_out is not None and (size is None or int(held_out.share * size) >= held_out.least)

    def crossfit_variant(self, variant: str) -> str:
        """The variant of the same seed and train size whose trainings leave out the held-out queries."""
        return variant if self.leaves_out(variant) else f"{CROSSFIT}{variant}"

    @property
    def checkpoints(self) -> list[str]:
        """The checkpoints whose tokenizers read its passages for the systems of all tables."""
        systems = [self.others.systems[name] for name in sorted(self.others.systems_of_tables)]
        models = [one.start_model for one in systems if one.ranks and one.supports_task_of(self)]
        return list(dict.fromkeys(model.root.key for model in models if model is not None))

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

    measures: Annotated[list[str], Field(min_length=1)] | None = None  # replace those of the data set
    relevant_grade: Count | None = None  # replaces that of the data set


def refuse_one_split(train: str | None, evaluation: str | None) -> None:
    """Refuse to evaluate on what is trained on."""
    if train is not None and train == evaluation:
        raise ValueError(f"train_split and eval_split are both {train!r}: name two splits")


class Split(Block):
    """How long documents become passages: windows of so many `words`, each `stride` words after the other."""

    words: Count  # of a passage
    stride: Count  # words from the beginning of a passage to that of the next one
    # headings: also at headings of Markdown and between paragraphs, of which short ones stand together
    by: Literal["words", "headings"] = "words"

    @model_validator(mode="after")
    def _covers_every_word(self) -> Split:
        if self.stride > self.words:
            raise ValueError(
                f"stride: expected at most words ({self.words}), got {self.stride}: no window would have the "
                "words between two of them"
            )
        return self


class PartlyJudgedTexts(Texts):
    """A data set that may lack judged queries to train on, to evaluate on, or both: that split is null."""

    recipe: Name | None = None  # the configuration's key `recipe`
    lengths: Lengths = Field(default_factory=Lengths)  # tokens that are read, special ones included
    documents: DatasetName | None = None  # its own collection
    train_split: Name | None = "train"  # the queries that are learnt from; null: none
    eval_split: Name | None = "dev"  # the queries that are measured on; null: none
    measures: list[str] | None = None  # replace `metrics.measures`
    relevant_grade: Count | None = None  # replaces `metrics.relevant_grade`
    other_eval_splits: dict[Name, EvalSplit] | None = None  # further sets of queries to measure on, by name
    queries: dict[Name, HomePath] | None = None  # files of queries without judgements, by name
    split: Split | None = None  # how documents become passages; null: they are passages
    keep_trained: bool = False  # models of these texts are kept when the texts change, until asked otherwise

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

    train_split: Name = "train"  # the queries that are learnt from
    eval_split: Name = "dev"  # the queries that are measured on


class Sentences(Texts):
    """Pairs or triplets of sentences, to train on and to evaluate on."""

    recipe: Name | None = None  # one for sentences
    documents: DatasetName | None = None  # its own train sentences
    train_split: Name = "train"  # the sentences that are learnt from
    eval_split: Name | None = "test"  # the sentences that are measured on; null: none
    measures: list[str] | None = None  # replace `metrics.measures`

    @model_validator(mode="after")
    def _splits_differ(self) -> Sentences:
        refuse_one_split(self.train_split, self.eval_split)
        return self


class Model(Noun):
    """The keys of every model, and what its objective says of it: see `condenser.objectives`."""

    objective: Name
    # the data set that it is trained on; `collection`: the one that it is used for
    corpus: DatasetName = "collection"
    # a whole number; `each`: pre-trained once for every seed of a table; null: the configuration's
    seed: Annotated[int | str | None, PlainValidator(seed_or_each)] = None

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
    def chain(self) -> list[Model]:
        """The model and those that it starts from, the checkpoint last."""
        models: list[Model] = [self]
        while (start := models[-1].start) is not None:
            models.append(self.others.models[start])
        return models

    @property
    def root(self) -> Model:
        """The checkpoint at the end of its chain; its tokenizer is also the model's."""
        return self.chain[-1]

    @property
    def roots(self) -> list[Model]:
        """The checkpoint at the end of its chain, then those behind the systems that they are made of."""
        models = [self.root]
        while models[-1].is_of_system:
            models.append(self.others.systems[models[-1].made_of[0]].start_model.root)
        return models

    @property
    def origin(self) -> Model:
        """The last of `roots`, at the very beginning of the model; layers and positions are its."""
        return self.roots[-1]

    def corpus_for(self, dataset: str) -> str:
        """The data set in whose results it lies when it is used for `dataset`: its corpus.

        The corpus `collection` is the data set that `dataset` names as its `documents`, else `dataset`
        itself. A model that is chosen lies with the data set that it is chosen for.
        """
        if self.corpus != OWN:
            return self.corpus
        return dataset if self.is_chosen else self.others.datasets[dataset].longer_texts or dataset

    def folder(self, seed: int | None) -> str:
        """The name under which it lies when it is used with a seed: `condenser-seed1`, or its own.

        Raises:
            LookupError: it is pre-trained for each seed, and `seed` is None.
        """
        if not self.is_seeded:
            return self.key
        if seed is None:
            usual = self.others.seed
            raise LookupError(
                f"expected a seed for {self.key}, which is pre-trained for each seed. "
                f"Ask for another, such as {self.key}-seed{usual} or the variant seed{usual}."
            )
        return f"{self.key}-seed{seed}"

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
    """The keys of every pre-trained model.

    The encoder that is written is a mean of weights: `initial_share` of those of `initial`, the rest of those
    that were trained.
    """

    initial: Name  # the model that the training starts from
    initial_share: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    rows_per_chunk: Count  # texts computed at a time

    @property
    def start(self) -> str:
        return self.initial


class Figure(Noun):
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
    """A figure of a table."""

    table: Name  # the table that is drawn
    by_dataset: dict[DatasetName, Name] = Field(default_factory=dict)  # another table for single data sets

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

    teacher: Name  # the cross-encoder that judges
    queries: Name  # a set of queries without judgements


class System(Noun):
    """The keys of every system, and what its kind says of it.

    A kind overrides what its systems do otherwise: see `condenser.systems`.
    """

    TASKS: ClassVar[tuple[str | None, ...]] = (None,)
    """The tasks of the data sets that it is for (`condenser.data.sources`); None has queries and passages."""

    OF_RUNS: ClassVar[tuple[str, ...]] = ()
    """Keys that only its runs depend on. Jobs without a split, such as its training, do not see them."""

    READS_PAIRS: ClassVar[bool] = False
    """Whether its model reads a query and a passage in one row."""

    kind: Name
    label: str | None = None  # its name in tables; null: its key

    @property
    def ranks(self) -> bool:
        """Whether it ranks passages for queries; others are for sentences."""
        return None in self.TASKS

    def supports_task_of(self, dataset: Texts) -> bool:
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
    def states_from(self) -> System | None:
        """The bi-encoder whose indexing keeps the token states that it reads; None: it reads none."""
        return None

    @property
    def keeps_states(self) -> bool:
        """Whether its indexing keeps token states, because another system reads them."""
        return any(system.states_from is self for system in self.others.systems.values())

    @property
    def expansions(self) -> dict[str, str]:
        """The entries of `expansions` that it reads, by its key for them."""
        return {}

    @property
    def start_system(self) -> System | None:
        """The system whose weights it starts from; None where it starts from a model, or has none.

        `initial` names a model; a system only where no model has that name.
        """
        return None if self.start in self.others.models else self.others.systems.get(self.start or "")

    @property
    def start_model(self) -> Model | None:
        """The model that it starts from, itself or through other systems; None where it has none."""
        system: System = self
        for _ in self.others.systems:  # so that a circle ends, before it is refused
            if (below := system.start_system) is None:
                break
            system = below
        return self.others.models.get(system.start or "")

    @property
    def needs(self) -> list[str]:
        """The systems whose runs or examples it reads, and the one whose weights it starts from."""
        start = [] if self.start is None or self.start in self.others.models else [self.start]
        return list(dict.fromkeys([*self.miners, *self.reads, *start]))

    @property
    def _needed(self) -> list[System]:
        return [self.others.systems[name] for name in self.needs]

    @property
    def learns(self) -> bool:
        """Whether it learns from judged queries itself: its model, or weights of its parts or terms."""
        return self.learns_from_judgements or self.learns_terms

    @property
    def learns_terms(self) -> bool:
        """Whether it indexes weights of terms that are learnt from train queries."""
        name = self.expansions.get("expanded_passages")
        return name is not None and self.others.expansions[name].trained is not None

    @property
    def has_sizes(self) -> bool:
        """Whether the train size matters to it: it learns from judgements, or reads from what does."""
        return self.learns or any(system.has_sizes for system in self._needed)

    @property
    def has_seeds(self) -> bool:
        """Whether the seed matters: it, its model or a system that it reads from is trained by it."""
        model = self.start_model
        by_itself = self.is_trained or self.learns_terms or (model is not None and model.is_seeded)
        return by_itself or any(system.has_seeds for system in self._needed)

    @property
    def families(self) -> set[str]:
        """What it owes its ranking to: the checkpoints of it, its parts and teachers; or else its kind.

        Systems with one in common err alike. Those that give negatives do not count: their hits are avoided.
        """
        model = self.start_model
        parts = {*self.reads, *(() if self.start_system is None else (self.start,))}
        found = set() if model is None else {model.origin.key}
        for one in model.chain if model else []:
            parts.update(one.made_of)
        return found.union(*(self.others.systems[part].families for part in parts)) or {self.kind}

    def variant(self, *, num_queries: int | str, seed: int) -> str:
        """Its variant: `seed42`, `n1000-seed1`, or `untrained`; `num_queries` train queries, or "all"."""
        return self.ranking_variant(f"seed{seed}" if num_queries == "all" else f"n{num_queries}-seed{seed}")

    def ranking_variant(self, reader: str) -> str:
        """The variant of its runs that other results of the variant `reader` read."""
        if self.has_sizes:
            return reader
        return reader[reader.index("seed") :] if self.has_seeds else UNTRAINED

    def ranks_held_out(self, variant: str) -> bool:
        """Whether it ranks the held-out queries of a variant alone, where no others are asked for.

        That is what learns from the others, or sorts the hits of other systems anew, which costs much for
        each query. Any other ranks all train queries once, for all variants.
        """
        if self.is_trained:
            return self.ranking_variant(variant) == variant
        return self.reordered is not None

    def run_depth(self, dataset: str, *, purpose: str) -> int:
        """The most hits per query in its runs; `purpose` is "train" or "eval" (`depth` of a recipe).

        A system that sorts the hits of others anew has no more than they have.
        """
        depths: list[int] = [vars(self.others.datasets[dataset].recipe_of(self).depth)[purpose]]
        for part in self.reordered or ():
            depths.append(self.others.systems[part].run_depth(dataset, purpose=purpose))
        return min(depths if self.own_depth is None else [*depths, self.own_depth])

    @property
    def denoising(self) -> Denoise | None:
        """The thresholds on its scores, which its own recipe has: it denoises its negatives by them."""
        given = self.own_recipe.get("negatives", {}).get("denoise")
        return None if given is None else partly(Denoise, given)

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
    """A system that starts from a model, or from a system that is trained as this one."""

    initial: Name  # the model, or the trained system, that it starts from
    train: bool = True  # false: the model as it is
    recipe: dict[str, Any] = Field(default_factory=dict)  # replaces keys of the data set's recipe

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

    # the systems whose hits are the negatives that it is fine-tuned on
    negatives: Names = Field(default_factory=list)

    @property
    def miners(self) -> list[str]:
        return self.negatives


class Config(Written):
    """The configuration, each entry of a data set, model, system and figure by the class of its kind."""

    recipes: dict[Name, Any]  # Recipe or SentenceRecipe
    datasets: dict[DatasetName, Any]
    models: dict[Name, Any]
    systems: dict[Name, Any]
    figures: dict[Name, Any]

    def model_of(self, name: str) -> tuple[Model, int | None]:
        """The model that a name of `Model.folder` stands for, and its seed (None: it does not depend on one).

        Raises:
            LookupError: there is no such model, or it is pre-trained for each seed and the name has none.
        """
        match = re.fullmatch(rf"(.+){SEED}", name)
        if match and match[1] in self.models and self.models[match[1]].is_seeded:
            return self.models[match[1]], int(match[2])
        if name not in self.models:
            raise kinds.unknown("model", name, [model.folder(self.seed) for model in self.models.values()])
        return self.models[self.models[name].folder(None)], None

    @property
    def checkpoints(self) -> list[str]:
        """The models that exist already, or are new: what trainings start from."""
        return [name for name, model in self.models.items() if model.objective == "checkpoint"]

    @property
    def token_shards(self) -> list[str]:
        """The shards of every collection: `0-of-2`, `1-of-2`."""
        return [f"{index}-of-{self.shards}" for index in range(self.shards)]

    def systems_of_kind(self, kind: str) -> list[str]:
        """The systems of one kind."""
        return [name for name, system in self.systems.items() if system.kind == kind]

    @property
    def systems_of_tables(self) -> set[str]:
        """The systems in the rows of all tables, and those behind them."""
        blocks = [
            block for table in self.tables.values() for block in (vars(table), *table.by_dataset.values())
        ]
        return self.systems_behind(row for block in blocks for row in block.get("rows", []))

    def systems_behind(self, systems: Iterable[str]) -> set[str]:
        """Some systems, those that they read from, and those that their models are made of."""
        found: set[str] = set()
        waiting = list(systems)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                system = self.systems[name]
                waiting.extend(system.needs)
                for model in system.start_model.chain if system.start_model else []:
                    waiting.extend(model.made_of)
        return found
