"""The configuration refuses what is wrong, in one line that names the key."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from condenser.config import EMBEDDED_LAYERS, EMBEDDED_POSITIONS, MsmarcoDataset, validated
from condenser.data.sources import msmarco
from condenser.model.backbone import embedded_folder


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return yaml.safe_load((root / "config.yaml").read_text())


def changed(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    result = copy.deepcopy(config)
    *parents, leaf = key.split(".")
    block = result
    for parent in parents:
        block = block[parent]
    if value is ...:
        del block[leaf]
    else:
        block[leaf] = value
    return result


def test_the_embedded_default_is_valid_and_comes_back_unchanged(config: dict[str, Any]) -> None:
    assert {**validated(config), "datasets": {}} == {**config, "datasets": {}}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("condenser.lr", 1.0, "condenser.lr: unknown key."),
        ("condenser.learning_rates", 1.0, "Did you mean 'learning_rate'?"),
        ("condenser.learning_rate", "1e-4", "write 1.0e-4"),
        (
            "condenser.learning_rate",
            float("nan"),
            "condenser.learning_rate: expected a finite number, got nan",
        ),
        ("finetune.weight_decay", float("inf"), "finetune.weight_decay: expected a finite number, got inf"),
        ("condenser.learning_rate", print, "condenser.learning_rate: expected a valid number"),
        ("condenser.batch_size", 0, "condenser.batch_size: expected greater than or equal to 1, got 0"),
        ("condenser.batch_size", 1.5, "condenser.batch_size: expected"),
        ("condenser.batch_size", ..., "condenser.batch_size: missing"),
        ("seed", True, "seed: expected a valid integer"),
        ("compute.precision", "fp8", "'auto', 'fp32', 'bf16' or 'fp16'"),
        ("datasets.mine", {"source": "bier"}, "datasets.mine.source: expected 'pydoc'"),
        ("datasets.mine", {"path": "x"}, "datasets.mine.source: missing"),
        ("datasets.mine", {"source": "beir"}, "datasets.mine.path: missing"),
        ("datasets.mine", {"source": "beir", "path": "/no/such"}, "datasets.mine.path: expected a folder"),
        ("datasets.a b", {"source": "pydoc"}, "datasets.a b"),
        ("datasets.logs", {"source": "pydoc"}, "datasets.logs: expected another name, results/logs/ has"),
        ("encode.block_rows", 20000, "encode.block_rows: expected less than or equal to 16384, got 20000"),
        ("pydoc.pakages", [], "Did you mean 'packages'?"),
        ("pydoc.query_words", [30, 4], "pydoc.query_words: expected [least, most], got [30, 4]"),
        ("datasets.msmarco.eval_split", "train", "name two splits"),
        (
            "backbone",
            {"source": "folder", "path": "/no/such"},
            "backbone.path: expected a Hugging Face folder",
        ),
        ("condenser.corpus", "wiki", "condenser.corpus: expected 'collection' or one of 'msmarco'"),
        ("tables.rounds", 3, "Give one number of epochs a round"),
        ("negatives.depth", 2000, "deeper than the train runs it reads"),
        ("cocondenser.span_tokens", [128, 80], "min_span_tokens <= span_tokens[0] <= span_tokens[1]"),
        ("downloads.mirror", "/no/such", "downloads.mirror: expected a folder"),
        (
            "condenser.skip_from",
            6,
            "condenser.skip_from: expected at most 5 (the backbone's layers less one), got 6",
        ),
        ("bm25.depth.eval", 100, "bm25.depth.eval: expected search.depth.eval's 1000, got 100"),
        ("search.depth.eval", 100, "bm25.depth.eval: expected search.depth.eval's 100, got 1000"),
        (
            "datasets.msmarco",
            {"source": "msmarco", "eval_split": "test"},
            "datasets.msmarco.eval_split: expected 'train', 'dev' or 'dl19', got 'test'",
        ),
        (
            "datasets.msmarco",
            {"source": "msmarco", "train_split": "dl20"},
            "datasets.msmarco.train_split: expected 'train', 'dev' or 'dl19', got 'dl20'",
        ),
        (
            "datasets.msmarco",
            {"source": "msmarco", "eval_split": "dl19"},
            "metrics.relevant_grade: expected at least 2 for datasets.msmarco.eval_split dl19",
        ),
    ],
)
def test_what_is_wrong_gives_one_line_with_the_key(
    config: dict[str, Any], key: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        validated(changed(config, key, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


HUGE, LONG = 10**5000, "x" * 100_000


def nested(depth: int) -> list:
    result: list = []
    for _ in range(depth):
        result = [result]
    return result


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "seed",
            HUGE,
            "seed: expected less than or equal to 9223372036854775807, got a whole number of about 5,0",
        ),
        (
            "seed",
            -HUGE,
            "seed: expected greater than or equal to 0, got a whole number of about 5,000 digits.",
        ),
        ("condenser.epochs", HUGE, "condenser.epochs: expected less than or equal to"),
        ("cocondenser.batch_size", HUGE, "cocondenser.batch_size: expected less than or equal to"),
        (
            "cocondenser.span_tokens",
            [HUGE, HUGE],
            "cocondenser.span_tokens[0]: expected less than or equal to",
        ),
        ("condenser.learning_rate", HUGE, "condenser.learning_rate: expected a valid number, got a whole"),
        (
            "compute.device",
            [HUGE],
            "compute.device: expected 'auto', 'cpu' or 'cuda', got [a whole number of ab",
        ),
        ("seed", nested(100_000), "seed: expected a valid integer, got [[[[[[[...]]]]]]]."),
        ("seed", LONG, "seed: expected a valid integer, got 'xxx"),
        (
            "condenser.learning_rate",
            "1" * 100_000,
            "condenser.learning_rate: expected a valid number, got '111",
        ),
        ("condenser.corpus", LONG, "condenser.corpus: expected 'collection' or one of 'msmarco', got 'xxx"),
        ("downloads.mirror", LONG, "downloads.mirror: expected a folder, found none at 'xxx"),
        ("backbone", {"source": "folder", "path": LONG}, "backbone.path: expected a Hugging Face folder"),
        ("datasets.mine", {"source": LONG}, "datasets.mine.source: expected 'pydoc'"),
        (
            "datasets.mine",
            {"source": "beir", "path": LONG},
            "datasets.mine.path: expected a folder, found none",
        ),
        ("datasets." + LONG, {"source": "pydoc"}, "expected string should have at most 100 characters"),
        ("compute." + LONG, 1, "unknown key. Known: threads, device, precision."),
        ("compute.a\nb", 1, "compute.'a\\nb': unknown key. Known: threads, device, precision."),
    ],
    ids=lambda value: f"{value:.40}" if isinstance(value, str) else type(value).__name__,
)
def test_however_large_a_value_is_the_line_is_short(
    config: dict[str, Any], key: str, value: Any, message: str
) -> None:
    *parents, leaf = key.split(".")
    block = config  # changed() copies, and copying follows every level
    for parent in parents:
        block = block[parent]
    block[leaf] = value
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        validated(config)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("datasets: &a {x: *a}", "datasets.x.source: missing."),
        ("datasets: {x: &a {source: *a}}", "datasets.x.source: expected 'pydoc'"),
        ("datasets: {x: &a {source: hub_text, parts: [*a]}}", "datasets.x.parts[0].source: unknown key."),
        ("seed: &a [*a]", "seed: expected a valid integer, got [[[[[[[...]]]]]]]."),
        ("backbone: &a {source: folder, path: *a}", "backbone.path: expected a valid string, got {"),
        (
            "seed: 0x" + "f" * 5000,
            "seed: expected less than or equal to 9223372036854775807, got a whole number",
        ),
        ("5: 1", "config[5]: expected keys should be strings, got 5."),
    ],
)
def test_an_overlay_that_yaml_takes_is_refused_in_one_line(
    config: dict[str, Any], overlay: str, message: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        validated({**config, **yaml.safe_load(overlay)})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


SCRATCH = {
    "source": "scratch", "vocab_size": 600, "hidden_size": 32, "num_layers": 4, "num_heads": 2,
    "intermediate_size": 64, "max_positions": 136,
}  # fmt: skip


@pytest.mark.parametrize("block", ["condenser", "cocondenser", "finetune"])
def test_a_gradient_may_be_left_as_it_is(config: dict[str, Any], block: str) -> None:
    assert validated(changed(config, f"{block}.max_grad_norm", 0.0))[block]["max_grad_norm"] == 0.0
    with pytest.raises(ValueError, match=f"{block}.max_grad_norm: expected greater than or equal to 0"):
        validated(changed(config, f"{block}.max_grad_norm", -1.0))


def test_the_splits_of_msmarco_are_those_its_source_knows() -> None:
    for key in ("train_split", "eval_split"):
        assert get_args(MsmarcoDataset.model_fields[key].annotation) == tuple(msmarco.SPLITS)


def test_dl_2019_is_taken_with_its_own_least_grade(config: dict[str, Any]) -> None:
    entry = {"source": "msmarco", "eval_split": "dl19"}
    graded = changed(changed(config, "datasets.msmarco", entry), "metrics.relevant_grade", 2)
    assert validated(graded)["datasets"]["msmarco"]["eval_split"] == "dl19"


def backbone_folder(path: Path, **settings: Any) -> dict[str, Any]:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(settings))
    return {"source": "folder", "path": str(path)}


def test_the_head_starts_below_the_last_layer_of_any_backbone_that_is_known(
    config: dict[str, Any], tmp_path: Path
) -> None:
    for backbone in (SCRATCH, backbone_folder(tmp_path, num_hidden_layers=4, max_position_embeddings=512)):
        given = changed(config, "backbone", backbone)
        validated(given)
        with pytest.raises(ValueError, match=r"condenser.skip_from: expected at most 3 .*, got 4"):
            validated(changed(given, "condenser.skip_from", 4))


def test_the_longest_row_is_padded_and_must_fit_the_positions(config: dict[str, Any], tmp_path: Path) -> None:
    # the default's longest: a span of 128, with its two specials 130, padded 136
    for positions, fits in ((136, True), (135, False)):
        scratch = changed(config, "backbone", {**SCRATCH, "max_positions": positions})
        folder = backbone_folder(tmp_path, num_hidden_layers=4, max_position_embeddings=positions)
        for given, key in (
            (scratch, "backbone.max_positions"),
            (changed(config, "backbone", folder), "backbone.path"),
        ):
            if fits:
                validated(given)
                continue
            with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
                validated(given)
            assert str(caught.value) == (
                f"{key}: expected at least 136 positions for cocondenser.span_tokens (a row of 130 tokens "
                "with its specials, padded to a multiple of 8), got 135. "
                "Shorten the texts, or take another backbone."
            )
    without_spans = changed(config, "tables.pretrained", ["condenser"])
    validated(changed(without_spans, "backbone", {**SCRATCH, "max_positions": 128}))
    with pytest.raises(ValueError, match=r"at least 128 positions for lengths\.passage"):
        validated(changed(without_spans, "backbone", {**SCRATCH, "max_positions": 127}))


def test_an_untrained_backbone_is_held_to_its_texts_alone(config: dict[str, Any]) -> None:
    untrained = changed(config, "tables.pretrained", ["backbone"])
    small = {**SCRATCH, "num_layers": 2, "max_positions": 64}
    for key in ("lengths.passage", "lengths.query"):
        untrained = changed(untrained, key, 64)
    validated(changed(untrained, "backbone", small))
    with pytest.raises(ValueError, match=r"at least 64 positions for lengths\.passage .*, got 63"):
        validated(changed(untrained, "backbone", {**small, "max_positions": 63}))


def test_the_embedded_backbone_has_the_layers_and_positions_it_is_held_to() -> None:
    settings = json.loads((embedded_folder() / "config.json").read_text())
    assert settings["num_hidden_layers"] == EMBEDDED_LAYERS
    assert settings["max_position_embeddings"] == EMBEDDED_POSITIONS


def test_a_backbones_broken_config_is_named(config: dict[str, Any], tmp_path: Path) -> None:
    folder = backbone_folder(tmp_path)
    for text in ("{", "[]", '{"num_hidden_layers": "4"}', '{"num_hidden_layers": 4}'):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=r"^backbone.path: .*config.json.*expected") as caught:
            validated(changed(config, "backbone", folder))
        assert "\n" not in str(caught.value)


def test_a_users_own_data_set_needs_four_keys(config: dict[str, Any], tmp_path: Path) -> None:
    entry = {"source": "beir", "path": str(tmp_path), "train_split": "train", "eval_split": "dev"}
    filled = validated(changed(config, "datasets.mine", entry))["datasets"]["mine"]
    assert filled == {**entry, "bad_rows": "strict"}


NUMBER = re.compile(r"(?<![\w.-])\d+(\.\d+)?([eE][+-]?\d+)?(?![\w.])")
SOURCE = re.compile(r"\b(Cond|v1|coC|C|D|T|BERT|Pyserini|MS MARCO|TREC|ours|scaled)\b")


@pytest.mark.parametrize("name", ["config.yaml", "configs/paper.yaml"])
def test_every_number_has_a_source_or_says_that_it_is_ours(root: Path, name: str) -> None:
    numbers = 0
    for line in (root / name).read_text().splitlines():
        value, _, comment = line.partition("#")
        if NUMBER.search(value):
            assert SOURCE.search(comment), f"{name}: {line.strip()} names no source"
            numbers += 1
    assert numbers > 20


def test_a_vocabulary_from_one_corpus_serves_no_cocondenser_of_another(config: dict[str, Any]) -> None:
    config = changed(config, "backbone", SCRATCH)
    wiki = {"source": "hub_text", "parts": [{"id": "wiki"}]}
    config = changed(config, "datasets", {**config["datasets"], "wiki": wiki})
    with pytest.raises(ValueError, match=r"cocondenser.corpus: expected 'collection' with a backbone from"):
        validated(changed(config, "cocondenser.corpus", "wiki"))
    validated(changed(changed(config, "cocondenser.corpus", "wiki"), "condenser.corpus", "wiki"))


def test_whole_epochs_are_one_setting_however_they_are_written(config: dict[str, Any]) -> None:
    made = validated(changed(changed(config, "condenser.epochs", 2.0), "finetune.epochs", [1.0, 0.5]))
    assert repr(made["condenser"]["epochs"]) == "2" and repr(made["finetune"]["epochs"]) == "[1, 0.5]"
