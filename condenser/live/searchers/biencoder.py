"""A bi-encoder: the query's vector by its model, then exhaustive search over the embeddings of the workflow.

The same search as the rule `search` does (`condenser.retrieve.search`). A query is encoded alone, not in a
batch of others, so scores may differ from those of a run in their last digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from condenser.commands import age_of_model
from condenser.files import load_npy, sha256_file
from condenser.live.searchers import Found, sound_manifest
from condenser.live.searchers._models import cut_lengths, on_cpu
from condenser.live.texts import Lines
from condenser.manifest import SUFFIX


class Searcher:
    """A query encoder in memory, and mapped embeddings. It computes on the CPU, so that no GPU is held."""

    def __init__(
        self, files: Mapping[str, Sequence[Path]], settings: Mapping[str, Any], *, doc_ids: Lines
    ) -> None:
        (weights,) = files["model"]
        _refuse_another_models(files["embeddings"], weights.parent, doc_ids.path)
        self._notes = _notes_on_age(files["embeddings"])

        from condenser.data.tokens import Tokenizer
        from condenser.model.retriever import Retriever, query_encoder_folder

        self._folder = encoder = query_encoder_folder(weights.parent)
        self._threads, self._block_rows = settings["compute"]["threads"], settings["encode"]["block_rows"]
        self._max_tokens = int(cut_lengths(files, settings).query)
        self._compute = on_cpu(settings)
        self._tokenizer = Tokenizer(encoder)
        self._retriever = Retriever.load(encoder, dropout=None).eval()
        prompt = self._retriever.vector.query_prompt
        self._prompt = self._tokenizer.encode_prompt(prompt, max_tokens=self._max_tokens)
        self._space = self._tokenizer.leading_space(prompt)
        self._shards = [load_npy(file) for file in files["embeddings"]]

    def search(self, query: str, depth: int) -> Found:
        """The `depth` best passages: score descending, row ascending."""
        from condenser.retrieve.exact import top_of_shards

        began = perf_counter()
        vector, notes = self._encoded(query)
        encoded = perf_counter()
        rows, scores = top_of_shards(
            self._shards, vector, depth=depth, block_rows=self._block_rows, threads=self._threads
        )
        took = {"encode": (encoded - began) * 1000, "search": (perf_counter() - encoded) * 1000}
        return Found(
            list(zip(rows[0].tolist(), scores[0].tolist(), strict=True)), took, [*notes, *self._notes]
        )

    def _encoded(self, query: str) -> tuple[np.ndarray, list[str]]:
        """The vector of a query, float32 [1, dim], and notes for the user."""
        from condenser.data.tokens import TokenShards
        from condenser.retrieve.inference import TextReader, outputs_of

        (ids,) = self._tokenizer.encode([self._space + query])
        shards = TokenShards.of_texts([("", query)], self._tokenizer, split=False, leading_space=self._space)
        reader = TextReader(shards, self._tokenizer, self._max_tokens, self._max_tokens, self._prompt)
        vector = outputs_of(
            *(reader.batches(np.zeros(1, np.int64)), self._compute, self._retriever),
            shape=(1, self._retriever.dim),
            what=f"{self._folder}: expected a finite embedding",
            name_of_row=lambda _: "the query",
        )
        room = self._max_tokens - reader.num_around
        notes = [f"The query was cut to its first {room} of {len(ids)} tokens."] if len(ids) > room else []
        if (ids == self._tokenizer.unk_id).all():  # also of no token
            notes.append("The model knows no word of the query: its hits mean nothing.")
        return vector, notes


def _refuse_another_models(shards: Sequence[Path], model: Path, doc_ids: Path) -> None:
    """See by their manifests that embeddings were made by this model, from this collection."""
    from condenser.shards import QUERY_FOLDER

    of_ids, outputs = sha256_file(doc_ids), sound_manifest(Path(f"{model}{SUFFIX}")).outputs
    # a model that is chosen among others has a table and a picture beside its folder
    digests = {file: digest for file, digest in outputs.items() if file.is_relative_to(model)}
    for shard in shards:
        inputs = sound_manifest(shard.with_suffix(SUFFIX)).inputs
        for file, digest in digests.items():
            if QUERY_FOLDER not in file.relative_to(model).parts[:-1] and inputs.get(file) != digest:
                raise ValueError(
                    f"{shard}: expected the embeddings of the model in {model}, got those of another model "
                    f"({file.name} has other bytes)."
                )
        if inputs.get(doc_ids) != of_ids:
            raise ValueError(f"{shard}: expected the embeddings of {doc_ids}, got those of other ids.")


def _notes_on_age(shards: Sequence[Path]) -> list[str]:
    """A sentence where the model was kept while the texts changed."""
    counts = [sound_manifest(shard.with_suffix(SUFFIX)).counts for shard in shards]
    newer = sum(of_shard.get("rows_newer", 0) for of_shard in counts)
    return [f"Its model: {age_of_model(sum(one['rows'] for one in counts), newer)}"] if newer else []
