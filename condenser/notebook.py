"""What a notebook does without a workflow: ask a finished system, encode texts, read texts for a training."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float32

from condenser.files import sha256_file
from condenser.live.known import DIGESTS, Known, NotReady
from condenser.live.systems import Hit, OpenSystems
from condenser.pipeline.remembered import remembered_by

if TYPE_CHECKING:
    from condenser.data.tokens import Tokenizer, TokenShards
    from condenser.model.text_vector import Role
    from condenser.train.masked_texts import MaskedRows

log = logging.getLogger(__name__)

KNOWN_FILE = Path(".snakemake", "known.json")


class Search:
    """A finished system of a data set, which opens with its first query.

    Attributes:
        name: data set, system and variant.
        models: the folder of each model that it encodes or scores with, by the name of its system.
        notes: sentences on what the reader must know of the last answer.
        milliseconds: of each step of the last answer; `open` where the system was opened for it.
    """

    def __init__(self, folder: Path, *, system: str | None, variant: str | None) -> None:
        root, dataset = folder.absolute().parent.parent, folder.absolute().name
        file = root / KNOWN_FILE
        command = f"make -C {root} search DATASET={dataset}"
        if not file.is_file():
            raise NotReady(f"{file}: no such file. It lists what can be asked.", command)
        known = Known.read(file, root=root)
        self._asked = known.asked(dataset, system, variant) if system else known.usual(dataset)
        self._systems = OpenSystems(remembered_by(file.with_name(DIGESTS), sha256_file))
        self.name, self.notes, self.milliseconds = self._asked.name, list[str](), dict[str, float]()
        answers = (self._asked, *self._asked.parts)
        self.models = {one.system: one.files["model"][0].parent for one in answers if "model" in one.files}

    def __call__(self, query: str, depth: int = 10) -> list[Hit]:
        """The best passages for a query, at most `depth`, as `make search` finds them.

        Raises:
            NotReady: a file of the system is missing or damaged; the message has the command that makes it.
            ValueError: the query is empty or longer than 1,000 characters, or depth is not 1 to 100.
        """
        with _callers_settings():
            answer = self._systems.answer(self._asked, query, depth)
        self.notes, self.milliseconds = answer.notes, answer.milliseconds
        return answer.hits

    def __repr__(self) -> str:
        return f"<search of {self.name}>"


def search(folder: str | Path, *, system: str | None = None, variant: str | None = None) -> Search:
    """Open a finished system of a data set, which answers queries: `search("results/mine")("a query")`.

    Args:
        folder: of the data set's results, such as `results/mine`.
        system: else `hybrid`, or the first one that is ready.
        variant: else that of the configuration's seed and all train queries.

    Raises:
        NotReady: what is asked for is not made yet; the message has the command that makes it.
        ValueError: there is no such data set or system.
    """
    return Search(Path(folder), system=system, variant=variant)


def encode(
    folder: str | Path,
    texts: Sequence[str | tuple[str, str]],
    *,
    role: Role = "passage",
    max_tokens: int | None = None,
    batch_tokens: int = 16384,
    device: str = "cpu",
    precision: str = "auto",
) -> Float32[np.ndarray, "text dim"]:
    """The vectors of texts by a retriever; their inner products are similarities.

    Args:
        folder: of the model, such as `search.models["backbone-zeroshot"]`, or any encoder of Hugging Face.
        texts: each a text, or its title and its text. Before one without a title stands no separator
            (`encode.separator: titled`, the default).
        role: whether they are queries or passages; a model may have two encoders, or a prompt for each.
        max_tokens: that a text is cut to, special ones included; else the most that the model reads. How
            many texts are cut is logged. Tables cut to the recipe's `lengths`.
        batch_tokens: computed at once; more take more memory.
        device: cpu or cuda.
        precision: of products; auto, fp32, bf16 or fp16, as `compute.precision` of the configuration.

    Raises:
        ValueError: the folder holds no encoder, or a number of a vector is not finite.
    """
    from condenser.model.devices import Compute, choose_device, choose_precision
    from condenser.model.retriever import Retriever, query_encoder_folder
    from condenser.retrieve.inference import TextReader, outputs_of

    pairs = _pairs(texts)
    encoder = query_encoder_folder(Path(folder)) if role == "query" else Path(folder)
    retriever = Retriever.load(encoder).eval()
    most = max_tokens or retriever.backbone.config.num_positions
    tokenizer, shards, prompt = _tokens(encoder, pairs, prompt=retriever.vector.prompt(role), max_tokens=most)
    compute = Compute(place := choose_device(device), choose_precision(precision, place))
    reader = TextReader(shards, tokenizer, most, batch_tokens, prompt)
    return outputs_of(
        *(reader.batches(np.arange(len(texts))), compute, retriever.to(compute.device)),
        shape=(len(texts), retriever.dim),
        what=f"{encoder}: expected finite vectors",
        name_of_row=lambda row: f"text {row}",
    )


def read(
    folder: str | Path,
    texts: Sequence[str | tuple[str, str]],
    *,
    max_tokens: int = 128,
    mask_probability: float = 0.0,
    seed: int = 0,
    epoch: int = 0,
) -> MaskedRows:
    """Texts as a model takes them in a training loop of one's own: `model(read.rows, read.masked)`.

    Args:
        folder: of the model, whose tokenizer reads.
        texts: each a text, or its title and its text.
        max_tokens: that a text is cut to, special ones included; how many are cut is logged.
        mask_probability: of a token, in whole words; 0 masks none.
        seed, epoch: of the masks, which differ in each epoch.

    Returns:
        `rows` (what a `Retriever` or `Condenser.represent` takes), `masked` (the places that were masked)
        and `labels` (the tokens that stood there).
    """
    import torch

    from condenser.data.batches import pack_texts, row_windows
    from condenser.data.masking import mask_tokens
    from condenser.model.rows import Rows
    from condenser.train.masked_texts import MaskedRows

    tokenizer, shards, _ = _tokens(Path(folder), _pairs(texts), prompt="", max_tokens=max_tokens)
    places = np.arange(len(texts))
    ids, lengths = pack_texts(shards, *row_windows(shards, places, max_tokens=max_tokens), tokenizer)
    positions = labels = np.zeros(0, np.int64)
    if mask_probability > 0:
        batch = mask_tokens(
            ids,
            is_continuation=tokenizer.is_continuation,
            random_ids=tokenizer.random_ids,
            mask_id=tokenizer.mask_id,
            probability=mask_probability,
            max_predictions=max_tokens,
            positions=places,
            seed=seed,
            epoch=epoch,
        )
        ids, positions, labels = batch.input_ids, batch.masked_positions, batch.labels
    rows = Rows.of(ids, lengths)
    return MaskedRows(rows, rows.chosen(*np.divmod(positions, ids.shape[1])), torch.from_numpy(labels))


def _pairs(texts: Sequence[str | tuple[str, str]]) -> list[tuple[str, str]]:
    """Title, which may be empty, and text of each."""
    if isinstance(texts, str) or len(texts) == 0:
        raise ValueError(f"texts: expected a list of one or more texts, got {texts!r:.80}.")
    return [("", text) if isinstance(text, str) else text for text in texts]


def _tokens(
    folder: Path, pairs: Sequence[tuple[str, str]], *, prompt: str, max_tokens: int
) -> tuple[Tokenizer, TokenShards, np.ndarray]:
    """The tokenizer of a model, the tokens of texts, and those of the prompt before them."""
    from condenser.data.tokens import Tokenizer, TokenShards

    tokenizer = Tokenizer(folder)
    space = tokenizer.leading_space(prompt)
    shards = TokenShards.of_texts(pairs, tokenizer, split=True, leading_space=space)
    ids = tokenizer.encode_prompt(prompt, max_tokens=max_tokens)
    if num_cut := int((np.diff(shards.row_starts) + len(ids) + 2 > max_tokens).sum()):
        log.warning("%d of %d texts are cut to %d tokens", num_cut, len(pairs), max_tokens)
    return tokenizer, shards, ids


@contextmanager
def _callers_settings() -> Iterator[None]:
    """Leave PyTorch's settings of the whole process as they were: a live system sets its own."""
    import torch

    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]
