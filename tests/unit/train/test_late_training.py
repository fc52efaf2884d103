"""The training of late interaction, against transformers on one text at a time, and what it leaves."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import scores_by_query
from safetensors.torch import load_file
from small_trainings import (
    LATE,
    PASSAGE_LENGTH,
    QUERY_LENGTH,
    RETRIEVER,
    Files,
    first_batch,
    losses,
    prepare,
    sharpen,
    text_of,
    train,
)
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer

from condenser.data.records import ScoredDoc, write_run
from condenser.model.devices import set_up
from condenser.model.text_vector import folder_projection, read_text_vector
from condenser.retrieve.late import LateModel, rank_by_maxsim

GROUP, BATCH_SIZE, DIM = RETRIEVER["passages_per_query"], RETRIEVER["batch_size"], 8
EXACT: dict[str, Any] = {"match": "exact"}
FIRST: dict[str, Any] = {"match": "first", "first_states": 3}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("late"), dropout=0.0)
    sharpen(files.backbone)
    return files


class Plain:
    """The token states of a folder by transformers, projected by its Dense weights if it has such."""

    def __init__(
        self,
        folder: Path,
        *,
        special_tokens: bool = True,
        punctuation: bool = True,
        match: str = "all",
        first_states: int | None = None,
    ) -> None:
        self.model, self.tokenizer = (
            AutoModel.from_pretrained(folder).eval(),
            AutoTokenizer.from_pretrained(folder),
        )
        dense = folder / "2_Dense" / "model.safetensors"
        self.projection = load_file(dense)["linear.weight"] if dense.is_file() else None
        self.special_tokens, self.punctuation = special_tokens, punctuation
        self.match, self.first_states = match, first_states

    def states(self, text: str, *, is_query: bool) -> tuple[Tensor, list[int]]:
        """Those that count, and the ids of their tokens."""
        length = QUERY_LENGTH if is_query else PASSAGE_LENGTH
        ids = self.tokenizer(text, truncation=True, max_length=length)["input_ids"]
        with torch.inference_mode():
            states = self.model(torch.tensor([ids])).last_hidden_state[0]
        states = states if self.projection is None else states @ self.projection.T
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        left_out = set() if self.special_tokens else {"[CLS]", "[SEP]"}
        left_out |= set() if self.punctuation or is_query else set(string.punctuation)
        kept = [place for place, token in enumerate(tokens) if token not in left_out]
        if self.match == "first":
            kept = [place for place in kept if place < (1 if is_query else self.first_states)]
        kept_states = states[kept] if self.match != "all" else normalize(states[kept], dim=1)
        return kept_states, [ids[place] for place in kept]

    def score(self, query: str, passage: Any) -> Tensor:
        asked, words = self.states(query, is_query=True)
        found, theirs = self.states(text_of(passage), is_query=False)
        products = asked @ found.T
        if self.match != "exact":
            return products.max(dim=1).values.sum()
        best = [
            max(
                (product.item() for product, other in zip(of_word, theirs, strict=True) if other == word),
                default=0.0,
            )
            for of_word, word in zip(products, words, strict=True)
        ]
        return torch.tensor(sum(best))


@pytest.mark.parametrize(
    "tokens",
    [
        *({"special_tokens": False, "punctuation": False}, {"dim": DIM}, {"rows_per_chunk": 1}),
        *({**EXACT, "special_tokens": False, "punctuation": False}, {**EXACT, "dim": DIM}),
        *(FIRST, {**FIRST, "dim": DIM, "rows_per_chunk": 1}),
    ],
    ids=str,
)
def test_the_first_loss_is_that_of_transformers_states_without_padding(
    files: Files, tmp_path: Path, tokens: dict[str, Any]
) -> None:
    """In chunks of one text nothing is padded, and of several the padding is left out."""
    train("late", files, tmp_path / "out", updates=1, **tokens)
    examples, items, drawn = first_batch(files, stream="retriever")
    choice = {key: value for key, value in (LATE | tokens).items() if key in LATE and key != "dim"}
    plain = Plain(files.backbone, **choice)
    if "dim" in tokens:  # as drawn: a training of the smallest rate leaves it where it was
        train("late", files, tmp_path / "start", updates=1, learning_rate=1e-30, **tokens)
        plain = Plain(tmp_path / "start", **choice)
        assert plain.projection is not None and plain.projection.shape == (DIM, 32)
    scores = torch.stack(
        [
            torch.stack([plain.score(files.queries[row].text, files.passages[place]) for place in drawn])
            for row in examples.queries[items]
        ]
    )
    expected = -scores.log_softmax(dim=1)[range(BATCH_SIZE), range(0, len(drawn), GROUP)].mean()
    assert losses(tmp_path / "out")[0]["loss"] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("dim", "match"),
    [
        (DIM, {}),
        *(pytest.param(*case, marks=pytest.mark.ci) for case in ((None, {}), (DIM, EXACT), (None, FIRST))),
    ],
    ids=str,
)
def test_hits_are_scored_by_the_trained_states_and_their_projection(
    files: Files, tmp_path: Path, dim: int | None, match: dict[str, Any]
) -> None:
    train("late", files, tmp_path / "out", updates=4, dim=dim, **match)
    assert read_text_vector(tmp_path / "out") == read_text_vector(files.backbone)
    assert (folder_projection(tmp_path / "out") is not None) == (dim is not None)
    hits = [ScoredDoc(query.query_id, passage.doc_id, 1.0) for query in files.queries[:3]
            for passage in files.passages[:9]]  # fmt: skip
    write_run(tmp_path / "hits.trec", hits, system="first")
    ranked = {}
    for name, model in (("trained", tmp_path / "out"), ("start", files.backbone)):
        opened = LateModel(
            **({"match": "all", "first_states": None} | match),
            **{"model_folder": model, "special_tokens": True, "punctuation": True, "batch_tokens": 256},
            is_trained=name == "trained",
            is_projected=dim is not None and name == "trained",
            lengths={"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH},
            compute=set_up(device="cpu", precision="fp32", threads=1),
        )
        rank_by_maxsim(
            *(opened, [tmp_path / "hits.trec"], tmp_path / f"{name}.trec", files.texts),
            **{"subset": None, "hits": 9, "depth": 9, "block_rows": 20, "system": "late"},
            work_folder=tmp_path / f"{name}-work",
        )
        ranked[name] = scores_by_query(tmp_path / f"{name}.trec")
    plain = Plain(tmp_path / "out", **match)
    passages = {passage.doc_id: passage for passage in files.passages}
    for query in files.queries[:3]:
        found = ranked["trained"][query.query_id]
        expected = [plain.score(query.text, passages[doc_id]).item() for doc_id in found]
        assert list(found.values()) == pytest.approx(expected, rel=1e-3, abs=5e-3)  # of states in 16 bits
    assert [list(of) for of in ranked["trained"].values()] != [list(of) for of in ranked["start"].values()]
