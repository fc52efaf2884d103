"""An encoder of sentences, fine-tuned with sentence-transformers on scored or classified pairs, or triplets.

Source: Reimers and Gurevych 2019 (Sentence-BERT); Condenser, §4.2 and Tables 1 and 2.
"""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from condenser.nouns import StartedSystem
from condenser.settings import DatasetName


class Settings(StartedSystem):
    """With `first_on` it is trained on that data set first, with the seed of the configuration."""

    TASKS = ("similarity", "triplets", "inference", "neighbours")

    first_on: DatasetName | None = None  # the data set that it is trained on first

    @model_validator(mode="after")
    def _trained_twice_or_not_at_all(self) -> Settings:
        if self.first_on and not self.train:
            raise ValueError("first_on: expected none with train: false")
        return self

    @property
    def also_trained_on(self) -> str | None:
        return self.first_on

    def longest_row(self, recipe: Any) -> int:
        """A sentence, with its special tokens."""
        return int(recipe.max_tokens)
