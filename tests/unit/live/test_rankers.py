"""Systems that rank others' hits answer one query as their rules rank a whole split."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError
from runs import hits_by_query
from small_results import record
from small_trainings import PASSAGE_LENGTH, QUERY_LENGTH, Files, prepare, sharpen, train

from condenser.data.judged import Judgements
from condenser.data.records import ScoredDoc, write_run
from condenser.data.tokens import Tokenizer, tokenise_queries, write_token_shard
from condenser.files import read_json, write_json
from condenser.live.agent import agents_server
from condenser.live.door import Door
from condenser.live.known import Asked, Known
from condenser.live.searchers.late import ENCODED_ANEW
from condenser.live.systems import LiveSystem, OpenSystems
from condenser.model.devices import set_up
from condenser.model.text_vector import read_text_vector, write_text_vector
from condenser.retrieve.encode import encode_texts
from condenser.retrieve.fusion import fused_run
from condenser.retrieve.late import LateModel, rank_by_maxsim
from condenser.retrieve.rerank import PairScorer, rerank
from condenser.retrieve.token_states import KeptStates, StatesFiles, states_files

DEPTH, HITS = 30, 12  # of dense's runs, and the hits that late and first score
LENGTHS = {"query": QUERY_LENGTH, "passage": PASSAGE_LENGTH}
ENCODE = {"batch_tokens": 256, "block_rows": 20}
SYSTEMS: dict[str, tuple[str, list[str], dict[str, Any]]] = {  # kind, parts, keys and depth
    "dense": ("biencoder", [], {"depth": DEPTH}),
    "other": ("biencoder", [], {"depth": 20}),
    "tokens": (
        "late", ["dense", "other"],
        {
            **{"depth": 15, "hits": HITS, "special_tokens": False, "punctuation": False},
            **{"match": "exact", "first_states": None, "train": False, "dim": None},
        },
    ),
    "first": ("crossencoder", ["dense"], {"depth": HITS}),
    "both": (
        "fusion", ["first", "tokens"],
        {"depth": 25, "method": "mean", "weights": "equal", "k": 60},
    ),
    "mixed": (
        "fusion", ["dense", "tokens", "first"],
        {"depth": 25, "method": "convex", "weights": [2, 1, 0.5], "k": 60},
    ),
    "learnt": ("fusion", ["dense", "first"], {"depth": 25, "method": "convex", "weights": "learnt", "k": 60}),
    "ranks": ("fusion", ["mixed", "other"], {"depth": 20, "method": "rrf", "weights": "equal", "k": 5}),
}  # fmt: skip


FUSIONS = [name for name, (kind, _, _) in SYSTEMS.items() if kind == "fusion"]


class Made:
    """Models and embeddings with their manifests, a list of what can be asked, and every system's run."""

    def __init__(self, root: Path, *, kind: str | None = None) -> None:
        """With the architecture `kind` the model has prompts, too, and no token states are kept."""
        self.keeps_states = kind is None
        self.files = files = prepare(root, dropout=0.1, kind=kind)
        sharpen(files.backbone) if kind is None else _put_prompts_before_texts(files)
        train("crossencoder", files, root / "pairs")
        compute = set_up(device="cpu", precision="fp32", threads=1)
        for name in ("backbone", "pairs"):
            made = [file for file in (root / name).rglob("*") if file.is_file()]
            made.append(root / f"{name}.svg")  # as beside a model that is chosen among others
            made[-1].touch()
            record(root / f"{name}.manifest.json", "train", outputs=made)
        weights = sorted(file for file in files.backbone.rglob("*") if file.is_file())
        for number, prefix in enumerate(files.tokens):
            shard = root / f"dense.{number}.npy"
            encode_texts(
                *(files.backbone, prefix, shard),
                **{"rows": None, "role": "passage", "max_tokens": PASSAGE_LENGTH, "name_of_row": str},
                **ENCODE, compute=compute, work_folder=root / f"encode{number}",
                states=self.states(number), states_gb=float(self.keeps_states),
            )  # fmt: skip
            made_of, outputs = [*weights, files.doc_ids], [shard, *self.states(number)]
            record(shard.with_suffix(".manifest.json"), "encode", outputs=outputs, inputs=made_of)
        entries = {name: self._entry(*entry) for name, entry in SYSTEMS.items()}
        texts = {"collection": str(root / "collection.jsonl"), "doc_ids": str(files.doc_ids)}
        write_json(
            root / "known.json",
            {"datasets": {"mine": {**texts, "opens_with": [], "is_split": False, "systems": entries}}},
        )
        self.known, self.opened = Known.read(root / "known.json"), OpenSystems()
        for name, (kind, _, _) in SYSTEMS.items():
            if kind == "biencoder":  # of which tests/workflow/test_ask.py sees to it
                live = LiveSystem(self.asked(name))
                hits = [(query, hit) for query in files.queries for hit in live.run(query.text, 1000).hits]
                run = (hit._replace(query_id=query.query_id) for query, hit in hits)
                write_run(root / f"{name}.trec", run, system=name)
            else:
                self.rank(name, root, subset=None)

    def states(self, number: int) -> StatesFiles:
        return states_files(self.files.root / f"dense.{number}.states.npy")

    def rank(self, name: str, folder: Path, *, subset: set[str] | None) -> None:
        """Write a system's run of the runs of its parts, which are in the folder too, as its rule does."""
        files, (kind, parts, keys) = self.files, SYSTEMS[name]
        run, of_parts = folder / f"{name}.trec", [folder / f"{part}.trec" for part in parts]
        if kind == "fusion":
            given = {"equal": None, "learnt": [0.7, 0.3]}
            weights = keys["weights"] if isinstance(keys["weights"], list) else given[keys["weights"]]
            fused = fused_run(
                of_parts, files.texts.queries[0], subset=subset, method=keys["method"],
                weights=weights, depth=keys["depth"], k=keys["k"],
            )  # fmt: skip
            write_run(run, fused, system=name)
            return
        compute = set_up(device="cpu", precision="fp32", threads=1)
        opened = {"lengths": LENGTHS, "batch_tokens": ENCODE["batch_tokens"], "compute": compute}
        options = {"subset": subset, "block_rows": ENCODE["block_rows"], "system": "one"}
        options |= {"depth": keys["depth"], "work_folder": folder / name}
        if kind == "late":
            names = ("special_tokens", "punctuation", "match", "first_states")
            opened |= {key: keys[key] for key in names} | {"is_trained": False, "is_projected": False}
            late = LateModel(model_folder=files.backbone, **opened)
            kept = KeptStates([self.states(number) for number in range(2)])
            rank_by_maxsim(late, of_parts, run, files.texts, hits=keys["hits"], kept=kept, **options)
        else:
            scorer = PairScorer(model_folder=files.root / "pairs", **opened)
            rerank(scorer, *of_parts, run, files.texts, **options)

    def _entry(self, kind: str, parts: list[str], keys: dict[str, Any]) -> dict[str, Any]:
        root = self.files.root
        model = {"crossencoder": "pairs", "biencoder": "backbone", "late": "backbone"}.get(kind)
        shards = [str(root / f"dense.{number}.npy") for number in range(2)]
        system = {**keys, "depth": keys.get("hits", keys["depth"])}
        files = {"embeddings": shards} if kind == "biencoder" else {}
        if kind == "late":
            files["states"] = [str(self.states(number).states) for number in range(2)]
        if kind in ("crossencoder", "late"):
            files["tokenizer"] = [str(self.files.backbone / "tokenizer.json")]
        if keys.get("weights") == "learnt":
            write_json(root / "weights.json", {"weights": [0.7, 0.3]})
            files["weights"] = [str(root / "weights.json")]
        settings = {
            **{"system": system, "recipe": {"lengths": LENGTHS}, "depth": keys["depth"]},
            "encode": {**ENCODE, "separator": "titled"},
            "compute": {"threads": 1, "device": "auto", "precision": "fp32"},
        }
        variant: dict[str, Any] = {"reasons": []}
        if model:
            variant["model"] = str(root / model / "model.safetensors")
        if parts:
            variant["parts"] = [[part, "untrained"] for part in parts]
        return {
            **{"kind": kind, "label": kind, "variant": "untrained", "pattern": "untrained"},
            **{"settings": settings, "files": files, "variants": {"untrained": variant}},
        }

    def asked(self, system: str) -> Asked:
        return self.known.asked("mine", system)

    def hits(self, system: str) -> dict[str, list[ScoredDoc]]:
        return hits_by_query(self.files.root / f"{system}.trec")


def _put_prompts_before_texts(files: Files) -> None:
    """Give the model prompts that end in a space, and make the tokens as the rules then make them."""
    vector = replace(read_text_vector(files.backbone), query_prompt="query: ", passage_prompt="passage: ")
    dim = read_json(files.backbone / "config.json")["hidden_size"]
    write_text_vector(vector, files.backbone, dim=dim)
    tokenizer, half = Tokenizer(files.backbone), len(files.passages) // 2
    for prefix, part in zip(files.tokens, (files.passages[:half], files.passages[half:]), strict=True):
        write_token_shard(
            ((passage.title, passage.text) for passage in part), prefix, tokenizer, batch_size=16, split=True,
            leading_space=tokenizer.leading_space(vector.passage_prompt),
        )  # fmt: skip
    tokenise_queries(
        files.texts.queries[0], files.texts.query_tokens[0], tokenizer, batch_size=16,
        leading_space=tokenizer.leading_space(vector.query_prompt),
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("rankers"))


@pytest.fixture(scope="module")
def made_of_bytes(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A RoBERTa, whose pieces tell of spaces."""
    return Made(tmp_path_factory.mktemp("bytes"), kind="roberta")


@pytest.mark.parametrize(
    ("system", "num_queries"), [("tokens", 5), ("first", 5), *((name, 2) for name in FUSIONS)]
)
def test_queries_of_the_split_get_the_ids_and_scores_of_the_run(
    made: Made, system: str, num_queries: int
) -> None:
    answers_are_those_of_the_run(made, system, num_queries)


@pytest.mark.parametrize("system", ["tokens", "first", "mixed"])
def test_an_answer_is_to_the_last_digit_what_the_rule_gives_for_the_query_alone(
    made: Made, tmp_path: Path, system: str
) -> None:
    query = made.files.queries[3]
    for name in ("dense", "other", "tokens", "first", "mixed"):
        if SYSTEMS[name][0] == "biencoder":
            hits = made.opened.run(made.asked(name), query.text, 1000).hits
            run = (hit._replace(query_id=query.query_id) for hit in hits)
            write_run(tmp_path / f"{name}.trec", run, system=name)
        else:
            made.rank(name, tmp_path, subset={query.query_id})
    expected = [(hit.doc_id, hit.score) for hit in hits_by_query(tmp_path / f"{system}.trec")[query.query_id]]
    answer = made.opened.answer(made.asked(system), query.text, 100)
    assert [(hit.doc_id, hit.score) for hit in answer.hits] == expected and len(expected) >= HITS


@pytest.mark.ci
@pytest.mark.parametrize("system", ["tokens", "first"])
def test_texts_behind_prompts_are_cut_into_bytes_as_for_the_run(made_of_bytes: Made, system: str) -> None:
    answers_are_those_of_the_run(made_of_bytes, system, 8)


def answers_are_those_of_the_run(made: Made, system: str, num_queries: int) -> None:
    """Models read the texts in other batches here: scores agree to 1e-4, ids where scores differ by more."""
    expected, passages = made.hits(system), {one.doc_id: one for one in made.files.passages}
    depth = SYSTEMS[system][2]["depth"]
    for query in made.files.queries[:num_queries]:
        answer = made.opened.answer(made.asked(system), query.text, depth)
        run = expected[query.query_id]
        assert len(answer.hits) == len(run) and len(run) > HITS - 1
        score_of = {hit.doc_id: hit.score for hit in run}
        for hit, in_run in zip(answer.hits, run, strict=True):
            assert hit.score == pytest.approx(in_run.score, abs=1e-4)
            assert score_of[hit.doc_id] == pytest.approx(hit.score, abs=1e-4)
            assert (hit.title, hit.text) == (passages[hit.doc_id].title, passages[hit.doc_id].text)


@pytest.mark.ci
def test_an_answer_says_where_passages_are_encoded_anew(made: Made, made_of_bytes: Made) -> None:
    query = made.files.queries[0].text
    assert ENCODED_ANEW not in made.opened.answer(made.asked("both"), query, 3).notes
    assert ENCODED_ANEW in made_of_bytes.opened.answer(made_of_bytes.asked("both"), query, 3).notes


@pytest.fixture
def door(made: Made, tmp_path: Path) -> Door:
    """To the systems, with a folder for judgements."""
    known = read_json(made.files.root / "known.json")
    known["datasets"]["mine"]["judged_in"] = str(tmp_path / "judged")
    write_json(tmp_path / "known.json", known)
    return Door(Known.read(tmp_path / "known.json"), made.opened)


def test_the_door_answers_as_the_system_and_gives_each_passage(made: Made, door: Door) -> None:
    query = made.files.queries[1].text
    found = door.search([("q", query), ("system", "mixed"), ("k", "5")])
    expected = made.opened.answer(made.asked("mixed"), query, 5).hits
    assert [(hit["doc_id"], hit["score"]) for hit in found["hits"]] == [
        (one.doc_id, one.score) for one in expected
    ]
    assert (found["dataset"], found["system"], found["variant"]) == ("mine", "mixed", "untrained")
    passages = {one.doc_id: one for one in made.files.passages}
    for hit in found["hits"]:
        passage = door.passage([("id", hit["doc_id"]), ("system", "mixed")])
        expected_passage = passages[hit["doc_id"]]
        assert (passage["title"], passage["text"]) == (expected_passage.title, expected_passage.text)
    with pytest.raises(ValueError, match="expected the id 'nothing', found none"):
        door.passage([("id", "nothing"), ("system", "mixed")])


def test_an_agent_searches_and_fetches(made: Made) -> None:
    query, asked = made.files.queries[2].text, made.asked("tokens")

    async def talk() -> None:
        async with Client(agents_server(asked, OpenSystems())) as agent:
            assert sorted(tool.name for tool in await agent.list_tools()) == ["fetch", "search"]
            found = (await agent.call_tool("search", {"query": query, "depth": 3})).structured_content
            expected = made.opened.answer(asked, query, 3).hits
            hits = [(hit["id"], hit["score"], hit["text"]) for hit in found["result"]]
            assert hits == [(hit.doc_id, hit.score, hit.text) for hit in expected]
            passage = (await agent.call_tool("fetch", {"id": hits[0][0]})).structured_content
            assert (passage["id"], passage["text"]) == (hits[0][0], hits[0][2])
            for tool, given, said in (
                ("search", {"query": " "}, "query: expected words, got none"),
                ("fetch", {"id": "nothing"}, "expected the id 'nothing', found none"),
            ):
                with pytest.raises(ToolError, match=said):
                    await agent.call_tool(tool, given)

    asyncio.run(talk())


def test_queries_are_judged_to_their_end(made: Made, door: Door, tmp_path: Path) -> None:
    """By a judge who likes what `first` has on top: it becomes the better one."""
    queries, systems = (
        [query.text for query in made.files.queries[:12]],
        ["first untrained", "other untrained"],
    )
    state = door.add_queries({"dataset": "mine", "queries": queries})
    asked = [("dataset", "mine"), *(("systems", name) for name in systems)]
    said = list[str]()
    for query in state["queries"]:
        pool = door.pool([*asked, ("id", query["id"])])
        assert pool["query"] == query["text"] and {one["grade"] for one in pool["texts"]} == {None}
        best = [hit.doc_id for hit in made.opened.answer(made.asked("first"), query["text"], 10).hits]
        other = [hit.doc_id for hit in made.opened.answer(made.asked("other"), query["text"], 10).hits]
        assert {one["doc_id"] for one in pool["texts"]} == {*best, *other}
        grades = {one["doc_id"]: int(one["doc_id"] == best[0]) for one in pool["texts"]}
        posted = {"dataset": "mine", "id": query["id"], "grades": grades, "systems": systems}
        said.append(door.grade(posted)["progress"]["said"])
    state = door.judging(asked)
    assert all(query["done"] for query in state["queries"]) and state["progress"]["left"] == 0
    assert said[3].endswith("What they show is said from 5 queries on.")
    assert "first is better than other by" in said[-1] and state["progress"]["is_enough"]
    judged = (tmp_path / "judged" / "qrels" / "judged.tsv").read_text().splitlines()
    assert judged[0] == "query-id\tcorpus-id\tscore" and sum(row.endswith("1") for row in judged) == 12


def test_a_pool_keeps_texts_that_no_ranking_has_any_more_or_that_are_gone(
    made: Made, door: Door, tmp_path: Path
) -> None:
    query, last = made.files.queries[0].text, made.hits("other")[made.files.queries[0].query_id][-1].doc_id
    door.add_queries({"dataset": "mine", "queries": [query]})
    Judgements(tmp_path / "judged").pool("j1", {"once": [last, "gone"]})
    pool = door.pool([("dataset", "mine"), ("id", "j1"), ("systems", "other untrained")])
    texts = {one["doc_id"]: one["text"] for one in pool["texts"]}
    (passage,) = (one for one in made.files.passages if one.doc_id == last)
    assert texts[last] == passage.text and len(texts) == 12
    assert texts["gone"] == "(This text is no longer in the collection.)"


def test_rankings_that_are_equal_are_not_called_better(made: Made, door: Door) -> None:
    queries, asked = (
        [query.text for query in made.files.queries[:6]],
        [("dataset", "mine"), ("systems", "dense untrained")],
    )
    for query in door.add_queries({"dataset": "mine", "queries": queries})["queries"]:
        pool = door.pool([*asked, ("systems", "other untrained"), ("id", query["id"])])
        grades = {one["doc_id"]: 1 for one in pool["texts"]}
        posted = {
            "dataset": "mine",
            "id": query["id"],
            "grades": grades,
            "systems": ["dense untrained", "other untrained"],
        }
        progress = door.grade(posted)["progress"]
    assert not progress["is_enough"] and "better" not in progress["said"]


def test_of_an_answer_less_deep_the_first_hits_stay(made: Made) -> None:
    deep, few = (made.opened.answer(made.asked("tokens"), made.files.queries[0].text, n) for n in (10, 3))
    assert few.hits == deep.hits[:3]


def test_parts_are_searched_once_for_a_query_and_their_times_are_shown(made: Made) -> None:
    opened, query = OpenSystems(), made.files.queries[0].text
    answer = opened.answer(made.asked("mixed"), query, 5)
    assert list(answer.milliseconds) == ["open", "dense", "tokens", "first", "fuse"]
    again = opened.answer(made.asked("ranks"), query, 5)  # reads more hits of `other` than `tokens` did
    assert again.milliseconds["mixed"] == 0.0 < again.milliseconds["other"]
    assert opened.answer(made.asked("ranks"), query, 5).milliseconds["other"] == 0.0
    other = opened.answer(made.asked("mixed"), made.files.queries[1].text, 5)
    assert "open" not in other.milliseconds and min(other.milliseconds.values()) > 0.0


def test_an_answer_is_no_deeper_than_the_run_and_says_so(made: Made) -> None:
    answer = LiveSystem(made.asked("first")).answer(made.files.queries[0].text, 50)
    assert len(answer.hits) == HITS and answer.notes == [f"This system ranks at most {HITS} passages."]


@pytest.mark.parametrize("query", ["سؤال عربي", "\u200d"])
def test_hits_of_a_query_of_which_nothing_can_be_read_mean_nothing(made: Made, query: str) -> None:
    note = "The model knows no word of the query: its hits mean nothing."
    for system in ("dense", "mixed"):
        assert made.opened.answer(made.asked(system), query, 3).notes == [note]
        known = f"{query} {made.files.queries[0].text}"
        assert note not in made.opened.answer(made.asked(system), known, 3).notes


def test_a_part_that_is_not_made_keeps_the_whole_from_answering(made: Made, tmp_path: Path) -> None:
    known = read_json(made.files.root / "known.json")
    lost = str(tmp_path / "lost.npy")
    known["datasets"]["mine"]["systems"]["other"]["files"]["embeddings"] = [lost]
    write_json(tmp_path / "known.json", known)
    asked = Known.read(tmp_path / "known.json").asked("mine", "ranks")
    assert asked.state() == f"mine, ranks, untrained: is not trained and indexed yet ({lost} is missing)."
    model = made.files.root / "pairs/model.safetensors"
    assert {lost, str(model)} <= set(asked.command.removeprefix("make ").split())


def test_a_part_made_of_another_model_is_refused(made: Made, tmp_path: Path) -> None:
    known = read_json(made.files.root / "known.json")
    odd = tmp_path / "odd.npy"
    odd.write_bytes((made.files.root / "dense.0.npy").read_bytes())
    record(odd.with_suffix(".manifest.json"), "encode", outputs=[odd], inputs=[made.files.doc_ids])
    known["datasets"]["mine"]["systems"]["dense"]["files"]["embeddings"][0] = str(odd)
    write_json(tmp_path / "known.json", known)
    with pytest.raises(ValueError, match="got those of another model"):
        OpenSystems().answer(Known.read(tmp_path / "known.json").asked("mine", "mixed"), "words", 5)
