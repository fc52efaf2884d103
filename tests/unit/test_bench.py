"""The arithmetic of `make bench`, and that each of its measurements runs.

The peers' losses and gradients are compared with ours by the measurements of steps themselves.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers

from condenser.data import sources
from condenser.data.sources import beir
from condenser.data.tokens import Tokenizer
from condenser.model.backbone import backbone_from
from condenser.model.backbone_sources import embedded_folder
from condenser.settings import partly


@pytest.fixture(scope="module")
def bench(root: Path) -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        yield SimpleNamespace(
            **{name: importlib.import_module(name) for name in ("measuring", "bench", "jobs")}
        )


def test_a_ratio_above_one_says_that_ours_is_better(bench: SimpleNamespace) -> None:
    faster = bench.measuring.line("a", "tokens/s", 30.0, better="more", peer=10.0, least_ratio=3.0)
    smaller = bench.measuring.line("b", "GB", 0.5, better="less", peer=2.0, most=0.4)
    assert (faster["ratio"], faster["reached"]) == (3.0, "yes")
    assert (smaller["ratio"], smaller["goal"], smaller["reached"]) == (4.0, "at most 0.4", "no")


def test_works_take_turns(bench: SimpleNamespace) -> None:
    now, order = [0.0], []

    def work(name: str, seconds: float) -> None:
        order.append(name)
        now[0] += seconds

    medians = bench.measuring.in_turn(
        {"ours": lambda: work("ours", 1.0), "theirs": lambda: work("theirs", len(order))},
        repeats=3,
        clock=lambda: now[0],
    )
    assert order == ["ours", "theirs"] * 3
    assert medians == {"ours": 1.0, "theirs": 3.0}  # of 1, 3 and 5


def test_every_measurement_has_its_place_in_the_table(bench: SimpleNamespace, root: Path) -> None:
    files = {file.stem for file in (root / "benchmarks" / "measurements").glob("*.py")}
    assert files == set(bench.bench.ORDER)


@pytest.fixture(scope="module")
def tiny_inputs(root: Path, bench: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What measurements share, as `write_inputs` writes it, of the tiny collection and a small encoder."""
    folder = tmp_path_factory.mktemp("bench")
    base, data = folder / "base", folder / "data"
    size = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.BertModel(transformers.BertConfig(**size)).save_pretrained(base)
    transformers.AutoTokenizer.from_pretrained(embedded_folder()).save_pretrained(base)
    for name, pooling, normalised in (("model", "mean", True), ("cls", "cls", False)):
        backbone_from(base, folder / name, seed=0, pooling=pooling, normalised=normalised)
    data.mkdir()
    source = {"source": "beir", "path": str(root / "tests/data/tiny"), "train_split": "train"}
    sources.collect(data, {}, partly(beir.Settings, {**source, "eval_split": "dev", "bad_rows": "strict"}))
    files = data / "collection.jsonl", data / "doc_ids.txt", folder / "tokens.0-of-1"
    bench.jobs.tokenise(*files, Tokenizer(folder / "model"))
    return folder


@pytest.mark.weekly
@pytest.mark.parametrize(
    "name",
    ["condenser_step", "cocondenser_step", "finetuning_step", "encoding", "searching", "nothing_to_do"],
)
def test_a_measurement_gives_its_rows_at_a_tiny_size(
    bench: SimpleNamespace, tiny_inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bench.measuring.Form, "size", lambda form, short, long: max(2, short // 64))
    module = importlib.import_module(f"measurements.{name}")
    for constant in {"SPANS", "MOST_SPANS", "QUERIES", "PASSAGES"} & vars(module).keys():
        monkeypatch.setattr(module, constant, 2 if constant in ("QUERIES", "PASSAGES") else 8)
    for user in (module, importlib.import_module("stepping")):
        if hasattr(user, "ROWS_PER_CHUNK"):
            monkeypatch.setattr(user, "ROWS_PER_CHUNK", {False: (8,)})
    if hasattr(module, "in_turn"):
        once = partial(bench.measuring.in_turn, repeats=1)
        monkeypatch.setattr(module, "in_turn", lambda works, *, repeats, clock: once(works, clock=clock))
    if hasattr(module, "_peak_mb"):  # of a process of its own, which has no tiny sizes
        monkeypatch.setattr(module, "_peak_mb", lambda form, num_spans: 100.0)
    if hasattr(module, "step_settings"):
        monkeypatch.setattr(module, "step_settings", partial(module.step_settings, batch_size=8))
    monkeypatch.chdir(tmp_path)
    inputs = Path(os.path.relpath(tiny_inputs))  # as `make bench` has them
    form = bench.measuring.Form(inputs, Path(), threads=1, long=False, device="cpu", cpu_time=False)
    rows = module.measure(form)
    assert rows and all(row["ours"] >= 0 and tuple(row) == bench.measuring.COLUMNS for row in rows)
