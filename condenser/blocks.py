"""The blocks of config.yaml and their keys.

Those of a data set, a model, a system and a figure are in the module of its kind.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from functools import partial
from types import UnionType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, model_validator

from condenser.settings import (
    LARGEST,
    Block,
    Count,
    DatasetName,
    EachOnce,
    Epochs,
    HomePath,
    Lengths,
    Name,
    Names,
    NotNegative,
    Optimiser,
    Positive,
    Seeds,
    Share,
    Whole,
)

Similarity = Annotated[float, Field(ge=0.3, le=1.0)]  # below it unrelated texts match, and slowly


class Compute(Block):
    threads: Count
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16", "fp16"]


class Safety(Block):
    checkpoint_every_s: Whole  # seconds between the checkpoints of a training
    checkpoints_kept: Count  # of a training that goes on
    bad_loss_patience: Whole


class Downloads(Block):
    mirror: HomePath | None
    retries: Whole  # of a download that failed
    timeout_s: Positive  # seconds without an answer, after which it has failed


class AutoLengths(Block):
    """The length `auto`: the least multiple that leaves this share of the texts whole."""

    share: Annotated[float, Field(gt=0.0, le=1.0)]
    multiple: Count


class Depth(Block):
    """Hits a query, by what the run is for."""

    train: Count  # hits of a train query, which negatives are drawn from
    eval: Count  # hits of a query that is measured


class Denoise(Block):
    """Thresholds on the probability of relevance that a cross-encoder gives a hit without a judgement.

    Below `negative_below` it is a negative, above `positive_above` a further positive (null: of no query),
    between them neither.
    """

    negative_below: Share  # a hit of a lower probability is a negative
    positive_above: Share | None  # a hit of a higher one is a further positive; null: none is

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Denoise:
        if self.positive_above is not None and self.negative_below > self.positive_above:
            raise ValueError(
                f"negative_below: expected at most positive_above ({self.positive_above:g}), got "
                f"{self.negative_below:g}"
            )
        return self


class Negatives(Block):
    depth: Count
    sample: Count
    positive_in_run: list[Name]
    margin: NotNegative | None = None
    without_answers: bool = False
    denoise: Denoise | None = None


class FineTuning(Optimiser):
    """What the training of a retriever reads of its recipe."""

    tied: bool
    lengths: Lengths = Field(default_factory=Lengths)  # null: those of the data set
    passages_per_query: Count  # 1: a positive alone, and those of the other queries in the batch
    rows_per_chunk: Count
    scale: Positive | None = None  # of similarities in the loss; `TextVector.scale` by default
    soup: Count = 1  # trainings, each on other batches, whose mean of weights is the model

    @property
    def num_trainings(self) -> int:
        return self.soup

    @property
    def texts_per_item(self) -> int:
        return self.passages_per_query


class HeldOut(Block):
    """Train queries that no training sees: a share of them, at most `most`, and none below `least`."""

    share: Annotated[float, Field(gt=0.0, lt=1.0)]  # of the train queries
    least: Count  # with fewer none are held out
    most: Count  # of them

    @model_validator(mode="after")
    def _bounds_in_order(self) -> HeldOut:
        if self.least > self.most:
            raise ValueError(f"least: expected at most most ({self.most}), got {self.least}")
        return self


class Validation(Block):
    """How a trained bi-encoder is compared with its start on the held-out queries, and what is kept.

    A query ranks its positives and `negatives` of each of its files of examples, together with those of all
    other held-out queries. With `keep: better` a trained model that is not better than its start is replaced
    by the mean with `initial_share` of the start's weights, or by the start where the mean is worse by more
    than `standard_errors`.
    """

    negatives: Count  # of each file of examples, which a held-out query ranks
    # replace a trained model that is not better than its start, or keep it
    keep: Literal["better", "trained"]
    # of the weights of the start, in the mean that replaces it
    initial_share: Annotated[float, Field(gt=0.0, lt=1.0)]
    standard_errors: NotNegative  # by so many worse, the start replaces the mean


class SizedEpochs(Block):
    """The train sizes that `epochs_by_size` names have epochs of their own, without bounds of updates."""

    # epochs of single train sizes, without bounds of updates
    epochs_by_size: dict[Count, Epochs] = Field(default_factory=dict)


class Recipe(FineTuning, SizedEpochs):
    """How retrievers are fine-tuned and searched on a kind of data."""

    negatives: Negatives
    depth: Depth
    held_out: HeldOut | None = None
    validation: Validation | None = None  # None: what was trained is kept, and not compared

    @model_validator(mode="after")
    def _compares_on_held_out_queries(self) -> Recipe:
        if self.validation and not self.held_out:
            raise ValueError("validation: expected null without held_out, whose queries it compares on")
        return self


class SentenceRecipe(Optimiser, SizedEpochs):
    """How encoders of sentences are fine-tuned on pairs or triplets, and what their vectors are compared by.

    Of several `similarities` a measure takes the one that is best for it.
    """

    max_tokens: Annotated[int, Field(ge=3, le=512)]  # of a sentence, special ones included
    margin: Positive | None = None  # of triplets
    products: bool = False  # of pairs with a class: whether these are told by u * v, too
    bias_correction: bool = True  # of AdamW
    epsilon: Positive = 1.0e-8  # of AdamW
    similarities: (  # cosine for pairs, euclidean for triplets
        Annotated[list[Literal["cosine", "manhattan", "euclidean", "dot"]], Field(min_length=1)] | None
    ) = None

    @property
    def adamw(self) -> tuple[float, bool]:
        return self.epsilon, self.bias_correction


def _two_in_order(value: Any, *, least: float, most: float, number: type | UnionType) -> Any:
    """One message, where two types would give one for each number."""
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(one, number) and not isinstance(one, bool) for one in value)
        and least <= value[0] <= value[1] <= most
    ):
        return value
    raise ValueError(f"expected two numbers in order, from {least} to {most}, got {reprlib.repr(value)}")


Bounds = Annotated[list[int], PlainValidator(partial(_two_in_order, least=1, most=LARGEST, number=int))]
Part = Annotated[list[float], PlainValidator(partial(_two_in_order, least=0, most=1, number=int | float))]


class Extracted(Block):
    """A set of queries that is made from a collection: see condenser/data/extracted.py.

    A passage gives the first of `views` that it has; of the collection only the part between the two shares
    `passages` serves. `seed` is the configuration's by default.
    """

    # what a query is made of, the first that a passage has
    views: Annotated[list[Literal["titles", "sentences", "keywords"]], Field(min_length=1)]
    passages: Part  # between which shares of the collection passages serve
    count: Count  # queries at most
    seed: Whole | None = None  # null: the configuration's


class Extraction(Block):
    """Words of a sentence that may be a query, and keywords of a passage: the least and the most."""

    words: Bounds
    keywords: Bounds


class TermWeights(Optimiser):
    """A model that learns the weights of terms from train queries: see condenser/papers/term_training.py.

    An item is a passage that is relevant to a train query.
    """

    initial: Name  # the model that it starts from
    max_tokens: Annotated[int, Field(ge=3, le=512)]  # of a passage
    rows_per_chunk: Count  # passages computed at a time


class Generated(Block):
    """Texts that a sequence-to-sequence model generates from each text: see condenser/papers/generate.py.

    `model` is a folder that transformers' AutoModelForSeq2SeqLM loads. With `top_k` null the one text is that
    of greedy decoding.
    """

    model: HomePath  # a folder that transformers' AutoModelForSeq2SeqLM loads
    prefix: str = ""  # stands before each text
    samples: Count  # generated texts of each text
    top_k: Count | None = None  # tokens that each next one is drawn from
    max_tokens: Annotated[int, Field(ge=2, le=LARGEST)]  # of a generated text
    max_input_tokens: Annotated[int, Field(ge=3, le=LARGEST)]  # of a text that it reads
    rows_per_chunk: Count  # texts that are generated at a time

    @model_validator(mode="after")
    def _samples_differ(self) -> Generated:
        if self.top_k is None and self.samples > 1:
            raise ValueError(
                f"samples: expected 1 without top_k, as greedy decoding gives one text, got {self.samples}"
            )
        return self


class Expansion(Block):
    """Words that are indexed behind passages or asked behind queries: see condenser/data/expansions.py.

    `files` has a file for the passages of a data set, `msmarco`, or for a set of its queries, `nq/test`. With
    `weights` the terms of a line stand in place of the text, each round(weights * its weight) times. In place
    of files, `trained` makes one for the passages of any data set, and `generated` for passages and queries.
    """

    # a file for the passages of a data set (`msmarco`) or for a set of its queries (`nq/test`)
    files: Annotated[dict[str, HomePath], Field(min_length=1)] | None = None
    by: Literal["row", "id"] | None = None  # the lines of a file are in row order, or have ids
    field: str = "contents"  # of JSON lines; Anserini's name
    weights: Positive | None = None  # a term stands as often as this times its weight says
    trained: TermWeights | None = None  # weights of terms are learnt from train queries
    generated: Generated | None = None  # texts are generated by a sequence-to-sequence model

    @model_validator(mode="after")
    def _has_one_origin(self) -> Expansion:
        num_origins = sum(origin is not None for origin in (self.files, self.trained, self.generated))
        if num_origins != 1 or (self.files is None) != (self.by is None):
            raise ValueError("expected files and by, or else trained, or else generated")
        if self.trained and self.weights is None:
            raise ValueError("weights: expected a number beside trained, got none")
        if self.generated and self.weights is not None:
            raise ValueError(f"weights: expected none beside generated, got {self.weights:g}")
        if not self.files:
            if self.field != (default := type(self).model_fields["field"].default):
                raise ValueError(f"field: expected {default} without files, got {self.field}")
            self.by = "row"
        return self


class Encode(Block):
    batch_tokens: Annotated[int, Field(ge=512, le=LARGEST)]
    block_rows: Annotated[int, Field(ge=1, le=16384)]  # a search holds 4,096 times as many scores
    separator: Literal["titled", "always"]
    states_gb: Annotated[float, Field(ge=0.0)]


class Metrics(Block):
    measures: Annotated[list[str], Field(min_length=1)]
    relevant_grade: Count


class Significance(Block):
    """How sure a table is: see docs/reading.md."""

    confidence: Annotated[float, Field(ge=0.5, lt=1.0)]
    power: Annotated[float, Field(ge=0.5, lt=1.0)]
    permutations: Annotated[int, Field(ge=1000, le=10_000_000)]
    seed: Whole
    pair_seeds: bool


class Report(Block):
    """What the report of a data set holds of single queries: see condenser/report/queries.py."""

    queries: Count
    characters: Count
    megabytes: Positive


class Notes(Block):
    """Thresholds of the notes under a table."""

    unknown_words: Share


class Audit(Block):
    """What an audit looks at, and where its findings begin: see docs/data.md."""

    least_words: Whole
    near_queries: Similarity
    near_queries_judged_alike: Similarity


def _list_of_names(value: Any) -> Any:
    """One name is a list of one, null an empty list."""
    return [] if value is None else [value] if isinstance(value, str) else value


class Table(Block):
    """Rows are systems; each comes once for every train size, as the mean over the seeds.

    `measures` are columns (`condenser.evaluate.columns`); those of the data sets and evaluation sets in
    `optional` are left out where the configuration lacks these. `labels` are names of systems in this table,
    where a paper has another than elsewhere. `by_dataset` replaces keys for single data sets.
    """

    rows: Annotated[Names, Field(min_length=1)]  # systems
    measures: Annotated[list[str], Field(min_length=1), EachOnce]
    # data sets and evaluation sets whose columns may be missing
    optional: Annotated[list[Name], Field(default_factory=list)]
    published: Annotated[  # of several files the first with a figure
        list[str], BeforeValidator(_list_of_names), Field(default_factory=list)
    ]
    # a row for each size
    train_queries: Annotated[
        list[Count | Literal["all"]], Field(min_length=1, default_factory=lambda: ["all"]), EachOnce
    ]
    seeds: Seeds | None = None  # the configuration's seed
    labels: Annotated[dict[Name, str], Field(default_factory=dict)]  # names of systems in this table
    # the untouched starts of its rows, else its first row
    compare_with: Annotated[list[Name], Field(min_length=1)] | None = None
    # replaces keys for single data sets
    by_dataset: Annotated[dict[DatasetName, dict[str, Any]], Field(default_factory=dict)]


class Written(Block):
    """The whole of config.yaml with its overlays, before the entries are checked by their kinds."""

    seed: Whole
    compute: Compute
    safety: Safety
    downloads: Downloads
    datasets: dict[DatasetName, dict[str, Any]]
    sources: dict[Name, dict[str, Any]]
    recipe: Name
    recipes: dict[Name, dict[str, Any]]
    models: dict[Name, dict[str, Any]]
    objectives: dict[Name, dict[str, Any]]
    systems: dict[Name, dict[str, Any]]
    shards: Count
    auto_lengths: AutoLengths
    encode: Encode
    metrics: Metrics
    significance: Significance
    notes: Notes
    audit: Audit
    report: Report
    extraction: Extraction
    extracted: dict[Name, Extracted] = Field(default_factory=dict)
    expansions: dict[Name, Expansion] = Field(default_factory=dict)
    tables: dict[Name, Table]
    figures: dict[Name, dict[str, Any]] = Field(default_factory=dict)


def recipe_class(recipe: Mapping[str, Any]) -> type[Recipe] | type[SentenceRecipe]:
    """That of a recipe for sentences, which alone has `max_tokens`, or for retrievers."""
    return SentenceRecipe if "max_tokens" in recipe else Recipe
