"""Late interaction: MaxSim between the token states of a bi-encoder's model, over other systems' hits.

Source: Khattab and Zaharia 2020 (ColBERT), §3.2 and §3.3; here without [Q] and [D] markers or [MASK] tokens
behind a query, and with an encoder that is trained for it or not. The computations are
`condenser.retrieve.late` and `condenser.train.late`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from condenser.nouns import FineTunedSystem, System
from condenser.settings import Count, Names

if TYPE_CHECKING:
    from condenser.train.examples import TrainingFiles
    from condenser.train.loop import Run, Trainable


def _as_list(value: Any) -> Any:
    """One name alone is a list of one."""
    return [value] if isinstance(value, str) else value


class Settings(FineTunedSystem):
    """The model, and whose hits it scores: the first `depth` of every system in `candidates`.

    Its run has the best `depth` of these. A token counts if it is of the text; so do [CLS], [SEP] and the
    model's prompt with `special_tokens`, and signs of punctuation in passages with `punctuation`. `match`
    says which tokens meet: `all` (ColBERT), `exact`, equal ones (COIL), or `first`, the query's [CLS] and the
    first `first_states` of the passage (ME-BERT).

    With `train: true` the model is fine-tuned for this match on the examples of `negatives`, as a bi-encoder
    is; with `dim` a new projection of the states to so many numbers is trained too. Scores are of cosines;
    of inner products if the model is trained for `exact` or `first`, as in the papers. `recipe` replaces
    keys of the data set's recipe. Scoring reads its `lengths`, training has no use for `tied`.
    """

    OF_RUNS = ("candidates", "depth")

    # the systems whose hits are scored
    candidates: Annotated[Names, Field(min_length=1), BeforeValidator(_as_list)]
    depth: Count  # hits of each that are scored
    special_tokens: bool = True  # whether [CLS], [SEP] and the prompt count
    punctuation: bool = True  # whether signs of punctuation in passages count
    # tokens that meet: all (ColBERT), equal ones (COIL), or [CLS] and the first ones (ME-BERT)
    match: Literal["all", "exact", "first"] = "all"
    first_states: Count | None = None  # of a passage, for the match `first`
    train: bool = False  # fine-tune the model for this match
    dim: Count | None = None  # of a new projection of the states; null: none

    @model_validator(mode="after")
    def _first_states_are_counted(self) -> Settings:
        if (self.match == "first") != (self.first_states is not None):
            raise ValueError(
                f"first_states: expected a number with match: first alone, got {self.first_states}"
            )
        if self.match == "first" and not self.special_tokens:
            raise ValueError("special_tokens: expected true with match: first, whose first state is [CLS]")
        return self

    @model_validator(mode="after")
    def _learns_from_negatives_or_nothing(self) -> Settings:
        if self.train and not self.negatives:
            raise ValueError("negatives: expected the systems whose negatives it is trained on, got none")
        for key in ("negatives", "dim"):
            if (given := vars(self)[key]) and not self.train:
                raise ValueError(f"{key}: expected none without train: true, got {given}")
        return self

    @property
    def reads(self) -> list[str]:
        return list(self.candidates)

    @property
    def ranks_hits_of(self) -> list[str]:
        return list(self.candidates)

    @property
    def reordered(self) -> list[str]:
        """The system whose hits it scores; of several none, as their union may be deeper than each."""
        return list(self.candidates) if len(self.candidates) == 1 else []

    @property
    def own_depth(self) -> int:
        return self.depth

    @property
    def states_from(self) -> System | None:
        """The first candidate that is a bi-encoder with the same weights and as long passages."""
        for other in () if self.train else map(self.others.systems.get, self.candidates):
            if other is None or other.kind != "biencoder":
                continue
            is_same = other.key == self.initial or (other.start == self.initial and not other.is_trained)
            lengths = [system.own_recipe.get("lengths", {}).get("passage") for system in (self, other)]
            variants = [(system.has_sizes, system.has_seeds) for system in (self, other)]
            if is_same and lengths[0] == lengths[1] and variants[0] == variants[1]:
                return other
        return None

    def files_to_answer(self, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
        """The token states of the collection, where they are kept."""
        if (other := self.states_from) is None:
            return {}
        folder = f"{dataset}/systems/{other.key}/{Path(variant).name}/embeddings"
        return {"states": [f"{folder}/collection.{shard}.states.npy" for shard in shards]}

    def training(self, files: TrainingFiles, initial: Path, run: Run[Any]) -> Trainable[Any]:
        """Fine-tuning of the encoder of `initial` on examples: see `retriever_training`."""
        from condenser.train.finetune import retriever_training
        from condenser.train.late import token_vectors

        keys = {"dim", "special_tokens", "punctuation", "match", "first_states"}
        vectors = token_vectors(initial, **{key: vars(self)[key] for key in keys}, seed=run.seed)
        return retriever_training(files, initial, run, vectors=vectors)
