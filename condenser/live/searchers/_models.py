"""What all systems with a model need: the texts that it reads, their lengths, and the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32, Int64

from condenser.blocks import Lengths
from condenser.live.searchers import QUERY_ID
from condenser.settings import partly

if TYPE_CHECKING:
    from condenser.data.records import ScoredDoc
    from condenser.data.text_files import Texts
    from condenser.live.texts import Texts as Collection
    from condenser.model.devices import Compute


class PairModel:
    """The model of a system that scores a query with passages, and the texts of the collection.

    Attributes:
        scorer: the open model.
    """

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        settings: Mapping[str, Any],
        texts: Collection,
        open_model: Callable[..., Any],
        *,
        in_one_row: bool,
        **options: Any,
    ) -> None:
        """`open_model` opens the model, with the options that are its alone."""
        from condenser.model.text_vector import Role, read_text_vector

        roles: tuple[Role, ...] = ("query", "passage")
        (weights,), (tokenizer,) = files["model"], files["tokenizer"]
        self.scorer = open_model(
            model_folder=weights.parent,
            lengths=vars(cut_lengths(files, settings, in_one_row=in_one_row)),
            batch_tokens=settings["encode"]["batch_tokens"],
            compute=on_cpu(settings),
            **options,
        )
        self._tokenizer, self._separator = self.scorer.tokenizer, settings["encode"]["separator"]
        vector = read_text_vector(tokenizer.parent)  # a cross-encoder has no prompts, its tokens follow them
        self._spaces = {role: self._tokenizer.leading_space(vector.prompt(role)) for role in roles}
        self._collection, self._depth = texts, settings["depth"]

    def rows(self, hits: Iterable[ScoredDoc]) -> Int64[np.ndarray, " passage"]:
        """The rows of the passages of some hits, in order, each once."""
        found = {self._collection.doc_ids.row_of(hit.text_id.encode()) for hit in hits}
        return np.array(sorted(found), dtype=np.int64)

    def texts(self, query: str, rows: Iterable[int]) -> Texts:
        """The tokens and ids of the query, and of the passages in these rows of the collection.

        They are what the workflow makes of a split and a collection.
        """
        from condenser.data.text_files import Texts
        from condenser.data.tokens import TokenShards

        passages = [self._collection.passage(int(row)) for row in rows]
        return Texts(
            TokenShards.of_texts(
                [(passage.title, passage.text) for passage in passages],
                self._tokenizer,
                split=True,
                leading_separator=self._separator == "always",
                leading_space=self._spaces["passage"],
            ),
            TokenShards.of_texts(
                [("", query)], self._tokenizer, split=False, leading_space=self._spaces["query"]
            ),
            [passage.doc_id for passage in passages],
            [QUERY_ID],
        )

    def ranked(
        self,
        rows: Int64[np.ndarray, " passage"],
        places: Int64[np.ndarray, " pair"],
        scores: Float32[np.ndarray, " pair"],
    ) -> Iterable[ScoredDoc]:
        """The best of the passages in the rows at these places."""
        from condenser.retrieve.documents import ranked_pairs

        ids = [self._collection.doc_ids[row].decode() for row in rows.tolist()]
        return ranked_pairs(
            *([QUERY_ID], ids, np.zeros_like(places), places, scores),
            depth=self._depth,
            is_split=self._collection.is_split,
        )


def cut_lengths(
    files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], *, in_one_row: bool = False
) -> Lengths:
    """The tokens that a query and a passage are cut to."""
    from condenser.data.lengths import resolve_lengths

    given = partly(Lengths, settings["recipe"]["lengths"])
    return resolve_lengths(given, next(iter(files.get("lengths", [])), None), in_one_row=in_one_row)


def on_cpu(settings: Mapping[str, Any]) -> Compute:
    """The CPU, so that no GPU is held, with the threads and the precision of the jobs."""
    from condenser.model.devices import set_up

    compute = settings["compute"]
    precision = "auto" if compute["precision"] == "fp16" else compute["precision"]  # no CPU has fp16
    return set_up(device="cpu", precision=precision, threads=compute["threads"])
