"""What can be asked, and what is refused in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from small_results import record

from condenser.files import write_json
from condenser.live.known import Known, NotReady
from condenser.live.systems import MAX_CHARACTERS, LiveSystem, check


def entry(**changed: Any) -> dict[str, Any]:
    folder = "results/mine/systems/learnt/{variant}/embeddings"
    return {
        "kind": "biencoder",
        "label": "A learnt one",
        "variant": "seed42",
        "pattern": r"(n[1-9]\d*-)?seed\d+",
        "settings": {},
        "files": {"embeddings": [f"{folder}/collection.{number}-of-3.npy" for number in range(3)]},
        "variants": {"seed42": {"model": "model.safetensors", "reasons": []}},
        **changed,
    }


def known(folder: Path, *, arguments: str = "", overlays: str = "", **systems: dict[str, Any]) -> Known:
    texts = {name: str(folder / name) for name in ("collection", "doc_ids")}
    systems = {"learnt": entry(), **systems}
    dataset = {**texts, "opens_with": [], "is_split": False, "systems": systems}
    write_json(folder / "known.json", {"datasets": {"mine": dataset}})
    return Known.read(folder / "known.json", overlays=overlays, make_arguments=arguments)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("mines", "learnt"), r"expected a data set of .* \(mine\), got 'mines'. Did you mean mine\?"),
        (("mine", "learned"), r"expected a system of .* \(learnt\), got 'learned'. Did you mean learnt\?"),
        (("mine", "learnt", "seed42/../.."), "expected a variant such as seed42, got 'seed42/../..'"),
        (("mine", "learnt", "untrained"), "expected a variant such as seed42, got 'untrained'"),
    ],
)
def test_an_unknown_name_is_said_with_the_nearest(tmp_path: Path, names: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        known(tmp_path).asked(*names)


def test_a_data_set_without_its_overlay_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"got 'texts'. If an overlay names it, give that too: CONFIG=mine.yaml"
    ):
        known(tmp_path).asked("texts", "learnt")


def test_a_variant_that_was_not_made_comes_with_the_command_that_makes_it(tmp_path: Path) -> None:
    arguments = "--configfile 'my own.yaml'"
    with pytest.raises(NotReady, match="is not trained and indexed yet") as error:
        known(tmp_path, overlays="a.yaml b.yaml", arguments=arguments).asked("mine", "learnt", "n10-seed1")
    assert error.value.command == (
        "make results/mine/systems/learnt/n10-seed1/embeddings/collection.{0..2}-of-3.npy "
        """CONFIG='a.yaml b.yaml' SNAKEMAKE_ARGS='--configfile '"'"'my own.yaml'"'"''"""
    )


def test_a_kind_without_a_searcher_is_refused_without_a_command(tmp_path: Path) -> None:
    why = "systems of the kind crossencoder cannot be asked yet."
    pairs = entry(kind="crossencoder", files={}, variants={"seed42": {"error": why}})
    with pytest.raises(NotReady, match="cannot be asked yet") as error:
        LiveSystem(known(tmp_path, pairs=pairs).asked("mine", "pairs"))
    assert error.value.command == "" and str(error.value) == f"mine, pairs, seed42: {why}"


@pytest.mark.parametrize(
    ("query", "depth", "said"),
    [
        ("", 10, "query: expected words, got none"),
        (" \n\t", 10, "query: expected words, got none"),
        ("x" * (MAX_CHARACTERS + 1), 10, "at most 1,000 characters, got 1,001"),
        ("half \ud83d of one", 10, "expected Unicode text"),
        ("x", 0, "depth: expected 1 to 100, got 0"),
        ("x", 101, "depth: expected 1 to 100, got 101"),
    ],
)
def test_a_query_that_cannot_be_answered_is_refused(query: str, depth: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(query, depth)


def test_the_longest_query_is_taken() -> None:
    check("x" * MAX_CHARACTERS, 100)


def test_what_was_made_again_since_is_no_longer_out_of_date(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.touch()
    of_variant = {"model": str(weights), "reasons": ["recipe.epochs: 1 -> 2 (train)"]}
    others = known(tmp_path, other=entry(variants={"seed42": of_variant}))
    assert others.asked("mine", "other").reasons == of_variant["reasons"]
    after = (tmp_path / "known.json").stat().st_mtime_ns + 10**9
    os.utime(weights, ns=(after, after))
    assert others.asked("mine", "other").reasons == []


@pytest.mark.parametrize("name", ["index/segment", "embeddings.npy", "data/collection", "data/doc_ids"])
def test_a_flipped_bit_is_seen_when_a_system_is_opened(tmp_path: Path, name: str) -> None:
    names = ("index/segment", "embeddings.npy", "data/collection", "data/doc_ids")
    for file in (tmp_path / each for each in names):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"bytes")
    record(tmp_path / "index.manifest.json", "bm25_index", outputs=[tmp_path / names[0]])
    record(tmp_path / "embeddings.manifest.json", "encode", outputs=[tmp_path / names[1]])
    record(tmp_path / "data.manifest.json", "collect", outputs=[tmp_path / each for each in names[2:]])
    files = {"index": [str(tmp_path / "index")], "embeddings": [str(tmp_path / "embeddings.npy")]}
    asked = known(tmp_path / "data", both=entry(files=files, variants={"seed42": {"reasons": []}}))
    (tmp_path / name).write_bytes(b"bytec")
    with pytest.raises(NotReady, match=f"{name}: it was changed after its rule wrote it"):
        LiveSystem(asked.asked("mine", "both"))
