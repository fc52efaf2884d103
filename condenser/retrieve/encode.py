"""Embeddings of passages and queries, in shards; the number of shards does not change an embedding.

The whole collection is divided into blocks of `block_rows` rows, and a shard consists of whole blocks.
Each block is sorted by length and divided into batches separately, so that a row has the same batch, the
same padding and the same matrix shapes in every shard.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Int64

from condenser.data.batches import pack_texts, row_windows
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.files import atomic_write, full_disk_named
from condenser.model.devices import autocast, choose_device, choose_precision, make_deterministic
from condenser.model.layers import padding_mask
from condenser.model.retriever import Retriever
from condenser.progress import Progress

log = logging.getLogger(__name__)


def encode_texts(
    encoder_folder: Path,
    token_prefix: Path,
    output: Path,
    *,
    rows: Sequence[int] | None,
    max_tokens: int,
    batch_tokens: int,
    block_rows: int,
    threads: int,
    device: str,
    precision: str,
    work_folder: Path,
    name_of_row: Callable[[int], str],
) -> tuple[dict[str, int], str]:
    """Write the embeddings of a token shard's rows, float32 [row, dim]; returns counts and the device.

    A text is cut to `max_tokens` tokens with [CLS] and [SEP]; a forward pass has at most `batch_tokens`
    tokens with padding. Counts: `rows`, `tokens` (with special tokens), `rows_cut` (longer than
    `max_tokens`).

    An interrupted encoding resumes after the last finished block in `work_folder`. The caller chooses a
    folder that belongs to these inputs alone, and removes it.

    Args:
        rows: which rows of the shard; None for all.
        name_of_row: names a row of the shard in an error.

    Raises:
        ValueError: an embedding contains NaN or infinity.
    """
    make_deterministic(threads=threads)
    shards = TokenShards([token_prefix], whole=False)
    tokenizer = Tokenizer(encoder_folder)
    place = choose_device(device)
    kind = choose_precision(precision, place)
    retriever = Retriever.load(encoder_folder, dropout=None).to(place).eval()
    dim = retriever.backbone.config.hidden_size
    wanted = np.arange(shards.num_rows) if rows is None else np.array(rows, dtype=np.int64)
    with (
        full_disk_named(work_folder),
        _BlockFile(work_folder, num_rows=len(wanted), rows_of_block=block_rows, dim=dim) as blocks,
        Progress(
            f"encode {output.stem}", total=len(wanted), unit="rows", start=blocks.num_rows_done
        ) as progress,
    ):
        for start in range(blocks.num_rows_done, len(wanted), block_rows):
            of_block = wanted[start : start + block_rows]
            starts, lengths = row_windows(shards, of_block, max_tokens=max_tokens)
            embeddings = torch.empty(len(of_block), dim, device=place)
            for batch in token_batches(lengths + 2, batch_tokens=batch_tokens):
                ids, whole = pack_texts(
                    shards,
                    starts[batch],
                    lengths[batch],
                    cls_id=tokenizer.cls_id,
                    sep_id=tokenizer.sep_id,
                    pad_id=tokenizer.pad_id,
                )
                vectors = _encode_batch(retriever, ids, whole, place, autocast(place, kind))
                embeddings[torch.from_numpy(batch).to(place)] = vectors
            block = embeddings.cpu().numpy()
            wrong = np.flatnonzero(~np.isfinite(block).all(axis=1))
            if len(wrong):
                raise ValueError(
                    f"{encoder_folder}: expected finite embeddings, got NaN or infinity for "
                    f"{name_of_row(int(of_block[wrong[0]]))} and {len(wrong) - 1} more of its block. "
                    f"Precision is {kind}: set compute.precision to fp32, or train again."
                )
            blocks.append(block)
            progress.advance(len(of_block))
        blocks.write_to(output)
    lengths = shards.row_starts[wanted + 1] - shards.row_starts[wanted]
    counts = {
        "rows": len(wanted),
        "tokens": int(np.minimum(lengths + 2, max_tokens).sum()),
        "rows_cut": int((lengths + 2 > max_tokens).sum()),
    }
    return counts, f"{place.type} {kind}"


def token_batches(
    lengths: Int64[np.ndarray, " row"], *, batch_tokens: int
) -> Iterator[Int64[np.ndarray, " batch"]]:
    """Indices of rows of similar length, longest first, in batches of at most `batch_tokens` padded tokens.

    A longer row is a batch of its own. Rows of equal length keep their order.

    >>> [batch.tolist() for batch in token_batches(np.array([5, 30, 16, 7]), batch_tokens=32)]
    [[1], [2, 3], [0]]
    """
    order = np.argsort(-lengths, kind="stable")
    begin = 0
    while begin < len(order):
        width = -(-int(lengths[order[begin]]) // 8) * 8
        size = max(1, batch_tokens // width)
        yield order[begin : begin + size]
        begin += size


@torch.inference_mode()
def _encode_batch(
    retriever: Retriever,
    ids: np.ndarray,
    lengths: np.ndarray,
    device: torch.device,
    precision: AbstractContextManager[object],
) -> torch.Tensor:
    mask = padding_mask(torch.from_numpy(lengths), width=ids.shape[1])
    with precision:
        vectors = retriever(torch.from_numpy(ids).to(device), None if mask is None else mask.to(device))
    return vectors.float()


class _BlockFile:
    """The embeddings of finished blocks in one file, and the SHA-256 of each block in another.

    A killed process may have written part of a block: a block is finished if its SHA-256 is there and
    correct, and so are those of all earlier blocks.
    """

    def __init__(self, folder: Path, *, num_rows: int, rows_of_block: int, dim: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._digests_path = folder / "embeddings.float32", folder / "embeddings.sha256"
        self._num_rows, self._rows_of_block, self._dim = num_rows, rows_of_block, dim
        self._count = 0

    def __enter__(self) -> _BlockFile:
        with ExitStack() as stack:
            self._data = stack.enter_context(self._path.open("a+b"))
            self._digests = stack.enter_context(self._digests_path.open("a+b"))
            self._keep_whole_blocks()
            self._files = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def num_rows_done(self) -> int:
        return min(self._count * self._rows_of_block, self._num_rows)  # the last block may be shorter

    def _keep_whole_blocks(self) -> None:
        """Count the finished blocks, and cut both files after them."""
        block_bytes = self._rows_of_block * self._dim * 4
        self._data.seek(0)
        self._digests.seek(0)
        told = self._digests.read().splitlines(keepends=True)
        while self.num_rows_done < self._num_rows and self._count < len(told):
            if told[self._count] != _digest_line(self._data.read(block_bytes)):
                log.warning(
                    "%s: block %d is damaged or incomplete; resuming from it", self._path, self._count + 1
                )
                break
            self._count += 1
        self._data.truncate(self.num_rows_done * self._dim * 4)
        self._digests.truncate(sum(map(len, told[: self._count])))

    def append(self, block: Float32[np.ndarray, "row dim"]) -> None:
        content = block.tobytes()
        for file, part in ((self._data, content), (self._digests, _digest_line(content))):
            file.write(part)
            file.flush()
        self._count += 1

    def write_to(self, output: Path) -> None:
        """Write all blocks as an NPY file; they also stay in the work folder."""
        shape = (self._num_rows, self._dim)
        assert self._path.stat().st_size == 4 * self._num_rows * self._dim, "every row is encoded once"
        with atomic_write(output) as file, self._path.open("rb") as data:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": shape}
            )
            shutil.copyfileobj(data, file, 1 << 20)


def _digest_line(block: bytes) -> bytes:
    return hashlib.sha256(block).hexdigest().encode() + b"\n"
