"""What all systems with a model need: its files checked, the texts that it reads, and the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condenser.blocks import Lengths
from condenser.files import sha256_file
from condenser.live.searchers import OneQuery, sound_manifest
from condenser.live.texts import Texts
from condenser.manifest import OTHER_BYTES, SUFFIX
from condenser.settings import partly

if TYPE_CHECKING:
    from condenser.data.text_files import TextFiles
    from condenser.model.devices import Compute


class PairModel:
    """The model of a system that scores a query with passages, and the texts of the collection.

    Attributes:
        options: of its rule's function, from model to batches.
    """

    def __init__(
        self,
        files: Mapping[str, Sequence[Path]],
        settings: Mapping[str, Any],
        texts: Texts,
        *,
        in_one_row: bool,
    ) -> None:
        from condenser.data.tokens import Tokenizer
        from condenser.model.text_vector import Role, read_text_vector

        roles: tuple[Role, ...] = ("query", "passage")
        (weights,), (tokenizer,) = files["model"], files["tokenizer"]
        refuse_damaged(weights.parent)
        encode = settings["encode"]
        self._tokenizer, self._separator = Tokenizer(weights.parent), encode["separator"]
        vector = read_text_vector(tokenizer.parent)  # a cross-encoder has no prompts, its tokens follow them
        self._spaces = {role: self._tokenizer.leading_space(vector.prompt(role)) for role in roles}
        self._texts = texts
        self.options = {
            "model_folder": weights.parent,
            "subset": None,
            "depth": settings["depth"],
            "lengths": vars(cut_lengths(files, settings, in_one_row=in_one_row)),
            "batch_tokens": encode["batch_tokens"],
            "block_rows": encode["block_rows"],
            "compute": on_cpu(settings),
        }

    def write_texts(self, query: OneQuery, *, hits: int) -> TextFiles:
        """The tokens and ids of the query, and of the first `hits` passages of each run in row order.

        They are what the workflow makes of a split and a collection.
        """
        from condenser.data.records import read_run
        from condenser.data.text_files import TextFiles
        from condenser.data.tokens import tokenise_queries, write_token_shard

        text_ids = {hit.text_id for run in query.runs for hit in islice(read_run(run), hits)}
        rows = sorted(self._texts.doc_ids.row_of(text_id.encode()) for text_id in text_ids)
        passages = [self._texts.passage(row) for row in rows]
        ids, collection, tokens = (query.folder / name for name in ("doc_ids.txt", "collection", "query"))
        ids.write_text("".join(f"{passage.doc_id}\n" for passage in passages), encoding="utf-8")
        write_token_shard(
            ((passage.title, passage.text) for passage in passages),
            *(collection, self._tokenizer),
            batch_size=len(rows),
            split=True,
            leading_separator=self._separator == "always",
            leading_space=self._spaces["passage"],
        )
        space = self._spaces["query"]
        tokenise_queries(query.queries, tokens, self._tokenizer, leading_space=space, batch_size=1)
        return TextFiles([collection], [tokens], ids, [query.queries])


def refuse_damaged(model: Path) -> dict[Path, str]:
    """The digests of the files in a model's folder; sees that all outputs are those of its manifest."""
    record = sound_manifest(Path(f"{model}{SUFFIX}"))
    for file, digest in record.outputs.items():
        if not file.is_file() or sha256_file(file) != digest:
            raise ValueError(f"{file}: {OTHER_BYTES}, {record.spec['rule']}. Delete it.")
    # a model that is chosen among others has a table and a picture beside its folder
    return {file: digest for file, digest in record.outputs.items() if file.is_relative_to(model)}


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
