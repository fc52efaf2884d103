"""Every leaf of the configuration reruns the stages that use it and those below, and no other.

Two truths: for every leaf key, the set derived from what each stage declares and the graph; for
the main keys, a table written by hand.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.utils import update_config

from condenser.config import validated, with_source_settings
from condenser.files import canonical_json
from condenser.pipeline.specs import Specs
from condenser.pipeline.stages import STAGES, Job

TARGET: Job = ("table2", {"dataset": "msmarco"})

ABOVE_TRAINING = {"collect", "backbone", "tokens", "query_tokens", "bm25_index", "bm25_run"}
ALL = set(STAGES) - {"download", "triple_examples", "plan"}
AFTER_CONDENSER = {
    "pretrain_cocondenser",
    "retriever",
    "encode",
    "encode_queries",
    "search",
    "merge",
    "examples",
    "metrics",
    "table2",
}
AFTER_RETRIEVER = AFTER_CONDENSER - {"pretrain_cocondenser"}

MINE = {"source": "beir", "path": "mine", "train_split": "train", "eval_split": "dev", "bad_rows": "strict"}
SCRATCH = {"source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 2, "num_heads": 2,
           "intermediate_size": 64, "max_positions": 128}  # fmt: skip

# key -> (new value, stages of which at least one job reruns)
BY_HAND: dict[str, tuple[Any, set[str]]] = {
    "seed": (7, ALL - {"collect", "bm25_index", "bm25_run"}),
    "compute.threads": (1, ALL - ABOVE_TRAINING),
    "compute.precision": ("fp32", ALL - ABOVE_TRAINING),
    "safety.checkpoint_every_s": (1, set()),
    "safety.bad_loss_patience": (5, set()),
    "downloads.retries": (9, set()),
    "pydoc.eval_queries": (400, ALL - {"backbone"}),
    "pydoc.passage_words": ([20, 50], ALL - {"backbone"}),
    "condenser.learning_rate": (1.0e-3, {"pretrain_condenser"} | AFTER_CONDENSER),
    "condenser.epochs": (7, {"pretrain_condenser"} | AFTER_CONDENSER),
    "cocondenser.batch_size": (32, AFTER_CONDENSER),
    "cocondenser.span_tokens": ([64, 128], AFTER_CONDENSER),
    "bm25.k1": (0.9, AFTER_RETRIEVER | {"bm25_run"}),
    "negatives.sample": (20, AFTER_RETRIEVER),
    "finetune.epochs[0]": (7, AFTER_RETRIEVER),
    "finetune.epochs[1]": (7, AFTER_RETRIEVER - {"examples"}),
    "finetune.learning_rate": (7.0e-5, AFTER_RETRIEVER),
    "lengths.query": (24, AFTER_RETRIEVER),
    "encode.batch_tokens": (4096, AFTER_RETRIEVER),
    "search.depth.train": (300, AFTER_RETRIEVER),
    "search.depth.eval": (900, {"search", "merge", "metrics", "table2"}),
    "metrics.relevant_grade": (2, {"metrics", "table2"}),
    "tokens.shards": (3, ALL - {"collect", "backbone", "query_tokens", "bm25_index", "bm25_run"}),
    "tables.rounds": (1, {"table2"}),
    "tables.pretrained": (["condenser"], {"table2"}),
    "pydoc.packages": (["scipy"], ALL - {"backbone"}),
    "datasets.msmarco.train_split": ("other", ALL - {"backbone"}),
    "datasets.msmarco.eval_split": ("other", ALL - {"backbone"}),
    "datasets.msmarco": (MINE, ALL - {"backbone"}),  # another source
    "backbone": (SCRATCH, ALL - {"collect", "bm25_index", "bm25_run"}),
    # elsewhere with all that it needs; what starts from it here begins anew
    "condenser.corpus": ("mine", ALL - {"bm25_index", "bm25_run"}),
    "cocondenser.corpus": ("mine", {"collect", "tokens", "backbone", "pretrain_condenser"} | AFTER_CONDENSER),
}  # fmt: skip


@pytest.fixture(scope="module")
def config(root: Path) -> dict[str, Any]:
    return validated(yaml.safe_load((root / "config.yaml").read_text()))


def leaves(value: Any, key: str = "") -> list[str]:
    """All leaf keys; an entry of a list of numbers by round is a leaf of its own."""
    if isinstance(value, dict):
        return [
            leaf for name, part in value.items() for leaf in leaves(part, f"{key}.{name}" if key else name)
        ]
    if isinstance(value, list) and key == "finetune.epochs":
        return [f"{key}[{index}]" for index in range(len(value))]
    return [key]


def edited(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(config)
    *parents, leaf = key.split(".")
    block = result
    for parent in parents:
        block = block[parent]
    if leaf.endswith("]"):
        name, index = leaf[:-1].split("[")
        block[name][int(index)] = value
    else:
        block[leaf] = value
    return result


def value_of(config: dict[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.replace("[", ".[").split("."):
        value = value[int(part[1:-1])] if part.startswith("[") else value[part]
    return value


def another(value: Any) -> Any:
    """A different value of the same kind; specs need not be able to run."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 + 1
    if isinstance(value, list):
        return [*value[:-1], another(value[-1])] if not isinstance(value[-1], str) else value[:-1]
    return "another" if value is None else f"{value}-other"


def closure(specs: Specs, config: dict[str, Any], job: Job = TARGET) -> dict[str, Job]:
    """All jobs behind a target."""
    found: dict[str, Job] = {}
    waiting = [job]
    while waiting:
        stage, wildcards = waiting.pop()
        name = canonical_json([stage, wildcards])
        if name not in found:
            found[name] = (stage, wildcards)
            waiting.extend(STAGES[stage].parents(config, wildcards))
    return found


def hashes(root: Path, tmp_path: Path, config: dict[str, Any]) -> dict[str, str]:
    config = with_source_settings(config)
    specs = Specs(config, root=root, digest_cache=tmp_path / "digests.json")
    return {name: specs.hash(*job) for name, job in closure(specs, config).items()}


def rerun(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The jobs that must run to bring the target up to date."""
    return {name for name in after if before.get(name) != after[name]}


@pytest.mark.parametrize("key", sorted(BY_HAND))
def test_a_main_key_reruns_the_stages_written_down_by_hand(
    root: Path, tmp_path: Path, config: dict[str, Any], key: str
) -> None:
    value, expected = BY_HAND[key]
    if value == "mine":
        config = edited(config, "datasets.mine", MINE)
    changed = rerun(hashes(root, tmp_path, config), hashes(root, tmp_path, edited(config, key, value)))
    stages = {name.split('"')[1] for name in changed}
    assert stages == expected


def test_every_leaf_reruns_exactly_what_declares_it_and_what_is_below(
    root: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    before = hashes(root, tmp_path, config)
    copies = {f"datasets.msmarco.{key}" for key in config["pydoc"]}  # validation copies the block there
    checked = 0
    for key in leaves(config):
        if key in {"condenser.corpus", "cocondenser.corpus", "datasets.msmarco.source", "backbone.source"}:
            continue  # they choose another graph or another program: see BY_HAND
        if key == "pydoc.packages" or key.endswith("_split"):
            continue  # these too
        if key in copies:
            continue
        after_config = edited(config, key, another(value_of(config, key)))
        if key in {"tables.pretrained", "tables.rounds"}:
            after_config = edited(config, key, ["condenser"] if key.endswith("pretrained") else 1)
        after = hashes(root, tmp_path, after_config)
        after_config = with_source_settings(after_config)
        specs = Specs(after_config, root=root, digest_cache=tmp_path / "digests.json")
        graph = closure(specs, after_config)
        expected = {name for name in graph if uses(key, graph[name], after_config) or name not in before}
        grown = True
        while grown:
            below = {
                name
                for name, (stage, wildcards) in graph.items()
                if any(
                    canonical_json(list(job)) in expected
                    for job in STAGES[stage].parents(after_config, wildcards)
                )
            }
            grown = not below <= expected
            expected |= below
        assert rerun(before, after) == expected, key
        checked += 1
    assert checked > 60


def uses(key: str, job: Job, config: dict[str, Any]) -> bool:
    """Whether a stage declares the key, by the plain reading of its declaration."""
    stage, wildcards = job
    for declared in STAGES[stage].keys:
        declared = declared.replace("{dataset}", wildcards.get("dataset", ""))
        if "[round]" in declared:
            declared = declared.replace("[round]", f"[{int(wildcards['system'][-1]) - 1}]")
        if "[role]" in declared:
            role = "train" if wildcards["split"] == "train" else "eval"
            declared = declared.replace("[role]", f".{role}")
        if key.startswith("pydoc.") and declared.startswith("datasets.") and declared.endswith(".*"):
            return True
        if declared == key or (declared.endswith(".*") and key.startswith(declared[:-1])):
            return True
    return False


@pytest.mark.parametrize("reordered", [True, False])
def test_the_order_of_keys_changes_no_spec(
    root: Path, tmp_path: Path, config: dict[str, Any], reordered: bool
) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in sorted(value, reverse=reordered)}
        return value

    assert hashes(root, tmp_path, turned(config)) == hashes(root, tmp_path, config)


def test_another_data_set_in_the_config_reruns_nothing(
    root: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    assert hashes(root, tmp_path, edited(config, "datasets.mine", MINE)) == hashes(root, tmp_path, config)


def test_two_files_of_ones_own_with_one_name_both_count(
    root: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    parts = [tmp_path / "wiki", tmp_path / "books"]
    for part in parts:
        part.mkdir()
        (part / "train-00000-of-00001.parquet").write_bytes(b"one")
    texts = {"source": "hub_text", "parts": [{"id": str(part)} for part in parts]}
    config = edited(edited(config, "datasets.mine", texts), "condenser.corpus", "mine")

    def collect() -> dict[str, str]:
        specs = Specs(with_source_settings(config), root=root, digest_cache=tmp_path / "digests.json")
        return specs.spec("collect", {"dataset": "mine"})["contents"]

    before = collect()
    (parts[0] / "train-00000-of-00001.parquet").write_bytes(b"two")
    assert len(before) == 2
    assert [name for name, digest in collect().items() if before[name] != digest] == [
        "train-00000-of-00001.parquet"
    ]


def test_the_official_triples_rerun_nothing_above_the_trainings_on_them(root: Path, tmp_path: Path) -> None:
    paper = yaml.safe_load((root / "configs" / "paper.yaml").read_text())
    whole = yaml.safe_load((root / "config.yaml").read_text())
    update_config(whole, paper)
    with_triples = validated(whole)
    assert with_triples["datasets"]["msmarco"]["triples"]
    without = edited(with_triples, "datasets.msmarco.triples", False)
    changed = rerun(hashes(root, tmp_path, without), hashes(root, tmp_path, with_triples))
    assert {name.split('"')[1] for name in changed} == AFTER_RETRIEVER | {"download", "triple_examples"}
