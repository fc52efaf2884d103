"""Late interaction against transformers' own model, one text at a time, and sentence-transformers' MaxSim."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import scores_by_query
from sentence_transformers.multi_vector_encoder import maxsim_pairwise
from small_trainings import PASSAGE_LENGTH, QUERY_LENGTH, Files, prepare, sharpen
from transformers import AutoModel, AutoTokenizer

from condenser.data.records import Passage, ScoredDoc, read_run, write_run
from condenser.data.token_choice import TokenChoice, punctuation_ids
from condenser.data.tokens import Tokenizer, write_token_shard
from condenser.files import read_json, write_json
from condenser.model.devices import set_up
from condenser.model.retriever import Retriever
from condenser.model.text_vector import SIMILARITY_FILE
from condenser.retrieve import late as module
from condenser.retrieve.late import LateModel, maxsim, rank_by_maxsim

HITS, DEPTH = 5, 7
PROMPT = "the signal: "


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    files = prepare(tmp_path_factory.mktemp("late"), dropout=0.1)
    sharpen(files.backbone)
    path = files.backbone / SIMILARITY_FILE
    write_json(path, read_json(path) | {"prompts": {"query": PROMPT, "document": ""}})
    return files


@pytest.fixture(scope="module")
def candidates(files: Files) -> list[Path]:
    """Hits of two systems, some of them the same; the second lacks the second query, both the fifth."""
    runs = []
    for number, step in enumerate((7, 11)):
        hits = []
        for place, query in enumerate(files.queries):
            of_query = 0 if place == 4 or (place, number) == (1, 1) else HITS + 2
            rows = [(13 * place + step * rank) % 60 for rank in range(of_query)]
            hits += [
                ScoredDoc(query.query_id, files.passages[row].doc_id, -float(rank))
                for rank, row in enumerate(rows)
            ]
        runs.append(files.root / f"candidates{number}.trec")
        write_run(runs[-1], hits, system="first")
    return runs


def compute(precision: str = "fp32") -> Any:
    return set_up(device="cpu", precision=precision, threads=1)


def rank(files: Files, folder: Path, runs: Sequence[Path], **changes: Any) -> dict[str, int]:
    settings = {
        **{"subset": None, "hits": HITS, "depth": 2 * HITS, "special_tokens": True, "punctuation": True},
        **{"match": "all", "first_states": None, "is_trained": False, "is_projected": False},
        **{"lengths": {"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH}},
        **{"batch_tokens": 256, "block_rows": 20, "compute": compute()},
        **{"work_folder": folder / "work", "system": "second", "texts": files.texts},
        "model_folder": files.backbone,
    } | changes
    folder.mkdir(exist_ok=True)
    model = LateModel(**{field.name: settings.pop(field.name) for field in fields(LateModel)})
    return rank_by_maxsim(model, runs, folder / "run.trec", settings.pop("texts"), **settings)


def ranked(files: Files, folder: Path, runs: Sequence[Path], **changes: Any) -> dict[str, dict[str, float]]:
    """The scores of each query's hits, in the order of the run."""
    counts = rank(files, folder, runs, **changes)
    found = scores_by_query(folder / "run.trec")
    assert counts["queries"] == len(found) and counts["hits"] == sum(map(len, found.values()))
    return found


@pytest.fixture(scope="module")
def whole(files: Files, candidates: list[Path]) -> Path:
    """The run of all candidates."""
    rank(files, files.root / "whole", candidates)
    return files.root / "whole" / "run.trec"


class Plain:
    """Token states by transformers, one text at a time, and MaxSim by two loops."""

    def __init__(self, files: Files, *, special_tokens: bool, punctuation: bool) -> None:
        self.model = AutoModel.from_pretrained(files.backbone).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(files.backbone)
        self.special_tokens, self.punctuation = special_tokens, punctuation

    def states(self, text: str, *, length: int, is_query: bool) -> tuple[np.ndarray, list[int]]:
        """The states that count, and the ids of their tokens."""
        ids = self.tokenizer(text, truncation=True, max_length=length)["input_ids"]
        with torch.inference_mode():
            states = self.model(torch.tensor([ids])).last_hidden_state[0].numpy()
        states = (states / np.linalg.norm(states, axis=1, keepdims=True)).astype(np.float16)
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        num_around = len(self.tokenizer(PROMPT)["input_ids"]) - 1 if is_query else 1
        kept = []
        for place, token in enumerate(tokens):
            is_special = place < num_around or token == "[SEP]"
            is_sign = not is_query and token in set(string.punctuation)
            if (self.special_tokens or not is_special) and (self.punctuation or not is_sign):
                kept.append(place)
        return states[kept].astype(np.float64), [ids[place] for place in kept]

    def passage_states(self, passage: Passage) -> tuple[np.ndarray, list[int]]:
        text = f"{passage.title} [SEP] {passage.text}" if passage.title else passage.text
        return self.states(text, length=PASSAGE_LENGTH, is_query=False)

    def score(self, query: str, passage: Passage, *, match: str = "all", first_states: int = 0) -> float:
        first, asked = self.states(PROMPT + query, length=QUERY_LENGTH, is_query=True)
        second, words = self.passage_states(passage)
        if match == "first":
            return max(float(first[0] @ other) for other in second[:first_states])
        total = 0.0
        for one, word in zip(first, asked, strict=True):
            met = [
                float(one @ other)
                for other, theirs in zip(second, words, strict=True)
                if match == "all" or word == theirs
            ]
            total += max(met, default=0.0)
        return total


@pytest.mark.parametrize(("special_tokens", "punctuation"), [(True, False), (False, True)])
def test_scores_are_those_of_transformers_one_pair_at_a_time(
    files: Files, tmp_path: Path, candidates: list[Path], special_tokens: bool, punctuation: bool
) -> None:
    tokens = {"special_tokens": special_tokens, "punctuation": punctuation}
    counts = rank(files, tmp_path, candidates, **tokens)
    found = scores_by_query(tmp_path / "run.trec")
    plain, passages = Plain(files, **tokens), {passage.doc_id: passage for passage in files.passages}
    wanted: dict[str, dict[str, None]] = {}
    for run in candidates:
        for query_id, hits in scores_by_query(run).items():
            wanted.setdefault(query_id, {}).update(dict.fromkeys(list(hits)[:HITS]))
    assert len(found) == 19 and files.queries[4].query_id not in found
    once = {doc_id: passages[doc_id] for hits in wanted.values() for doc_id in hits}
    assert (counts["queries"], counts["passages"]) == (19, len(once))
    assert counts["pairs"] == counts["hits"] == sum(map(len, wanted.values())) > len(once)
    assert counts["tokens"] == sum(len(plain.passage_states(passage)[1]) for passage in once.values())
    for query in files.queries[:9]:
        hits = found.get(query.query_id, {})
        assert hits.keys() == wanted.get(query.query_id, {}).keys()
        expected = [plain.score(query.text, passages[doc_id]) for doc_id in hits]
        assert list(hits.values()) == pytest.approx(expected, abs=2e-3)  # of up to 12 cosines in 16 bits
        assert list(hits.values()) == sorted(hits.values(), reverse=True)


@pytest.mark.parametrize(
    ("match", "first_states", "special_tokens"),
    [("exact", None, True), ("exact", None, False), ("first", 3, True)],
)
def test_other_matches_are_slow_loops_over_the_pairs_that_meet(
    files: Files,
    tmp_path: Path,
    candidates: list[Path],
    match: str,
    first_states: int | None,
    special_tokens: bool,
) -> None:
    keys = {"match": match, "first_states": first_states, "special_tokens": special_tokens}
    found = ranked(files, tmp_path, candidates, **keys)
    plain = Plain(files, special_tokens=special_tokens, punctuation=True)
    passages = {passage.doc_id: passage for passage in files.passages}
    for query in files.queries[:9]:
        hits = found.get(query.query_id, {})
        expected = [
            plain.score(query.text, passages[doc_id], match=match, first_states=first_states or 0)
            for doc_id in hits
        ]
        assert list(hits.values()) == pytest.approx(expected, abs=2e-3)
    if match == "exact" and not special_tokens:  # most words of a query are in no passage: theirs add 0
        assert 0.0 in {score for hits in found.values() for score in hits.values()}


def test_a_token_that_meets_none_adds_nothing_also_among_negative_cosines() -> None:
    meets = torch.tensor([[True, False], [False, False]])
    queries, passage = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[-0.6, 0.8], [1.0, 0.0]])
    assert maxsim(queries, torch.tensor([2]), passage, meets=meets).tolist() == pytest.approx([-0.6])


def test_of_the_same_states_scores_are_those_of_sentence_transformers(files: Files, tmp_path: Path) -> None:
    model = LateModel(
        **{"model_folder": files.backbone, "special_tokens": True, "punctuation": True, "match": "all"},
        **{"first_states": None, "is_trained": False, "is_projected": False, "batch_tokens": 128},
        **{"lengths": {"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH}, "compute": compute()},
    )
    asked, found = model.encoders(files.texts.read())
    (query,), passages = asked.states(np.array([6])), found.states(np.array([59, 3, 27, 3, 10]))
    assert {one.dtype for one in passages} == {np.dtype(np.float16)}
    assert np.linalg.norm(passages[0].astype(np.float64), axis=1) == pytest.approx(1, abs=1e-3)
    words = [torch.from_numpy(one).float() for one in (query, *passages)]
    ours = [float(maxsim(words[0], torch.tensor([len(query)]), passage)) for passage in words[1:]]
    theirs = maxsim_pairwise([words[0]] * 5, words[1:])
    assert ours == pytest.approx(theirs.tolist(), rel=1e-6) and len(set(ours)) == 4
    # of several queries end to end: here passages ask
    counts = torch.tensor(list(map(len, passages)))
    several = maxsim(torch.cat(words[1:]), counts, words[0])
    expected = maxsim_pairwise(words[1:], [words[0]] * 5)
    assert several.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_the_best_of_the_union_are_kept(
    files: Files, tmp_path: Path, candidates: list[Path], whole: Path
) -> None:
    all_hits = scores_by_query(whole)
    best = ranked(files, tmp_path, candidates, depth=DEPTH)
    assert best == {query_id: dict(list(hits.items())[:DEPTH]) for query_id, hits in all_hits.items()}
    assert max(map(len, all_hits.values())) > DEPTH


@pytest.mark.parametrize("changes", [{"batch_tokens": 8}, {"batch_tokens": 4096}, {"block_rows": 1000}])
def test_batches_and_blocks_change_no_score_beyond_rounding(
    files: Files, tmp_path: Path, candidates: list[Path], whole: Path, changes: dict[str, int]
) -> None:
    expected, found = scores_by_query(whole), ranked(files, tmp_path, candidates, **changes)
    assert found.keys() == expected.keys()
    for query_id, hits in expected.items():
        assert found[query_id] == pytest.approx(hits, abs=2e-3)


def test_the_number_of_shards_changes_no_byte(
    files: Files, tmp_path: Path, candidates: list[Path], whole: Path
) -> None:
    texts = [(passage.title, passage.text) for passage in files.passages]
    write_token_shard(texts, tmp_path / "one", Tokenizer(files.backbone), batch_size=16, split=True)
    rank(files, tmp_path, candidates, texts=replace(files.texts, collection_tokens=[tmp_path / "one"]))
    assert (tmp_path / "run.trec").read_bytes() == whole.read_bytes()


def test_an_interrupted_job_resumes_after_its_saved_blocks(
    files: Files, tmp_path: Path, candidates: list[Path], noted: Callable[..., list[str]]
) -> None:
    """Killed while it scores; what is done is not done again, and a damaged block is computed again."""
    settings = {"block_rows": 10}
    counts = rank(files, tmp_path / "whole", candidates, **settings)
    num_blocks = math.ceil(counts["pairs"] / (10 * round(counts["pairs"] / counts["passages"])))
    done = noted(module.BlockFile, "append", lambda *_: "block", breaks_at=2)
    with pytest.raises(KeyboardInterrupt):
        rank(files, tmp_path, candidates, **settings)
    assert not (tmp_path / "run.trec").exists() and len(done) == 2  # the second one is not saved
    assert rank(files, tmp_path, candidates, **settings) == counts
    assert (tmp_path / "run.trec").read_bytes() == (tmp_path / "whole" / "run.trec").read_bytes()
    assert len(done) == num_blocks + 1 > 4
    scores = tmp_path / "work" / "scores.npy"
    content = scores.read_bytes()
    scores.write_bytes(content[:128] + b"\0\0\0\0" + content[132:])  # behind the header
    rank(files, tmp_path, candidates, **settings)
    assert (tmp_path / "run.trec").read_bytes() == (tmp_path / "whole" / "run.trec").read_bytes()


def test_no_more_passages_than_a_block_are_encoded_at_once(
    files: Files, tmp_path: Path, candidates: list[Path], noted: Callable[..., list[int]]
) -> None:
    sizes = noted(module.TokenEncoder, "states", lambda encoder, rows: len(rows))
    counts = rank(files, tmp_path, candidates, block_rows=7)
    assert max(sizes) == 7
    # a passage at the end of a block is encoded for the next one too
    assert counts["queries"] + counts["passages"] <= sum(sizes) < counts["queries"] + counts["passages"] + 10


def test_of_a_subset_only_its_queries_are_ranked(
    files: Files, tmp_path: Path, candidates: list[Path]
) -> None:
    wanted = {files.queries[number].query_id for number in (3, 4, 8)}
    found = ranked(files, tmp_path, candidates, subset=wanted)
    assert list(found) == [files.queries[3].query_id, files.queries[8].query_id]
    assert ranked(files, tmp_path / "none", candidates, subset={"q of another"}) == {}


def test_of_a_document_the_best_of_the_passages_that_were_found_counts(files: Files, tmp_path: Path) -> None:
    """Two candidates found two passages of a document."""
    query = files.queries[0].query_id
    names = {row: f"{'xyz'[row // 20]}#{row}" for row in range(60)}
    (tmp_path / "doc_ids.txt").write_text("".join(f"{name}\n" for name in names.values()))
    split = replace(files.texts, doc_ids=tmp_path / "doc_ids.txt")
    runs = [tmp_path / "first.trec", tmp_path / "second.trec"]
    for run, rows in zip(runs, ([1, 41], [9, 45, 22]), strict=True):
        hits = [ScoredDoc(query, names[row][0], -float(place), names[row]) for place, row in enumerate(rows)]
        write_run(run, hits, system="first")
    found = {}
    for name, is_split in (("whole", True), ("parts", False)):
        rank(files, tmp_path / name, runs, texts=split, subset={query}, is_split=is_split)
        found[name] = list(read_run(tmp_path / name / "run.trec"))
    best = {}
    for hit in found["parts"]:
        best.setdefault(hit.doc_id[0], (hit.doc_id, hit.score))
    assert len(found["parts"]) == 5 and best.keys() == {"x", "y", "z"}
    assert {hit.doc_id: (hit.passage_id, hit.score) for hit in found["whole"]} == best


def test_a_text_of_which_no_token_would_count_keeps_all_its_tokens() -> None:
    choice = TokenChoice(False, np.array([5, 6]), sep_id=3)
    ids = np.array([[2, 5, 6, 3, 0], [2, 3, 0, 0, 0], [2, 7, 3, 5, 3]])
    counted = choice.counted(ids, np.array([4, 2, 5]), first=1)
    assert counted.astype(int).tolist() == [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]


def test_punctuation_is_the_signs_that_the_vocabulary_has(files: Files) -> None:
    vocabulary = AutoTokenizer.from_pretrained(files.backbone).get_vocab()
    expected = {vocabulary[sign] for sign in string.punctuation if sign in vocabulary}
    assert set(punctuation_ids(Tokenizer(files.backbone)).tolist()) == expected and expected


def test_a_state_that_is_no_number_names_its_text(
    files: Files, tmp_path: Path, candidates: list[Path]
) -> None:
    broken = Retriever.load(files.backbone, dropout=None)
    with torch.no_grad():
        broken.backbone.layers[-1].output.LayerNorm.bias.fill_(math.nan)
    broken.save(tmp_path / "broken", files.backbone)
    with pytest.raises(ValueError, match="expected finite token states, got NaN or infinity for query "):
        rank(files, tmp_path, candidates, model_folder=tmp_path / "broken")
