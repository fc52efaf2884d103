"""Tokens and ids of a collection and of its queries, read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from condenser.data.records import read_doc_ids, read_queries
from condenser.data.tokens import TokenShards
from condenser.shards import prefix_of


class Texts(NamedTuple):
    """Passages and queries: their tokens, and an id for each row."""

    passages: TokenShards
    queries: TokenShards
    doc_ids: list[str]
    query_ids: list[str]


@dataclass(frozen=True)
class TextFiles:
    """The paths of a data set's token shards and ids.

    Attributes:
        collection_tokens: prefixes of all token shards of the collection, in order.
        query_tokens: prefixes of the queries' shards, in order.
        doc_ids: the ids of the collection's rows.
        queries: files with the ids of the queries, one for each of their shards.
    """

    collection_tokens: Sequence[Path]
    query_tokens: Sequence[Path]
    doc_ids: Path
    queries: Sequence[Path]

    @classmethod
    def of_inputs(cls, files: Any) -> TextFiles:
        """The files of a job, whose inputs `tokens` and `query_tokens` are the first file of each shard.

        A job may have several files of queries.
        """
        passages, shards, queries = (
            given if isinstance(given, list) else [given]
            for given in (files.tokens, files.query_tokens, files.queries)
        )
        return cls(list(map(prefix_of, passages)), list(map(prefix_of, shards)), files.doc_ids, queries)

    def read(self) -> Texts:
        """The tokens, mapped, and the ids; these are gigabytes at MS MARCO's size."""
        return Texts(
            TokenShards(self.collection_tokens),
            TokenShards(self.query_tokens),
            read_doc_ids(self.doc_ids),
            self._query_ids(),
        )

    def _query_ids(self) -> list[str]:
        queries = chain.from_iterable(map(read_queries, self.queries))
        return [query.query_id for query in queries]

    def batch_ids(
        self, query_rows: Int[np.ndarray, " query"], passage_rows: Int[np.ndarray, " passage"]
    ) -> dict[str, list[str]]:
        """The ids of a batch, in its order.

        They are read from the files again: a training keeps row numbers, not ids.
        """
        query_ids, passage_ids = self._query_ids(), read_doc_ids(self.doc_ids)
        return {
            "queries": [query_ids[row] for row in query_rows.tolist()],
            "passages": [passage_ids[row] for row in passage_rows.tolist()],
        }
