"""The arithmetic of `make bench`, and that the plain way that it compares with computes the same losses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from condenser.data.records import Passage, Qrel, Query, write_passages, write_qrels, write_queries
from condenser.data.tokens import Tokenizer
from condenser.encoders import BertConfig
from condenser.model.backbone import backbone_from
from condenser.model.backbone_sources import embedded_folder
from condenser.model.bert import Bert
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows
from condenser.shards import shard_files
from condenser.train.chunks import Chunk
from condenser.train.masked_texts import MaskedRows
from configs import sources

LENGTHS = [8, 6, 5]


@pytest.fixture
def bench(root: Path) -> Iterator[SimpleNamespace]:
    sys.path.insert(0, str(root / "benchmarks"))
    modules: dict[str, ModuleType] = {
        name: importlib.import_module(name) for name in ("measuring", "plain", "bench")
    }
    yield SimpleNamespace(**modules)
    sys.path.remove(str(root / "benchmarks"))


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
def tiny_inputs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What measurements share, as `write_inputs` writes it, of the tiny collection and a small encoder."""
    sys.path.insert(0, str(root / "benchmarks"))
    tokenise = importlib.import_module("jobs").tokenise
    sys.path.remove(str(root / "benchmarks"))
    folder = tmp_path_factory.mktemp("bench")
    base, data = folder / "base", folder / "data"
    size = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
    transformers.BertModel(transformers.BertConfig(**size)).save_pretrained(base)
    transformers.AutoTokenizer.from_pretrained(embedded_folder()).save_pretrained(base)
    for name, pooling, normalised in (("model", "mean", True), ("cls", "cls", False)):
        backbone_from(base, folder / name, seed=0, pooling=pooling, normalised=normalised)
    data.mkdir()
    source = {"source": "beir", "path": str(root / "tests/data/tiny"), "train_split": "train"}
    sources.collect(data, {}, {**source, "eval_split": "dev", "bad_rows": "strict"})
    files = data / "collection.jsonl", data / "doc_ids.txt", folder / "tokens.0-of-1"
    tokenise(*files, Tokenizer(folder / "model"))
    return folder


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", [*("condenser_step", "cocondenser_step", "finetuning_step", "masking", "tokenising", "encoding"),
             *("searching", "bm25", "metrics", "nothing_to_do")],
)  # fmt: skip
def test_a_measurement_gives_its_rows_at_a_tiny_size(
    bench: SimpleNamespace, tiny_inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bench.measuring.Form, "size", lambda form, short, long: max(2, short // 64))
    module = importlib.import_module(f"measurements.{name}")
    for constant in {"SPANS", "MOST_SPANS", "QUERIES", "PASSAGES"} & vars(module).keys():
        monkeypatch.setattr(module, constant, 2 if constant in ("QUERIES", "PASSAGES") else 8)
    for user in (module, importlib.import_module("stepping")):
        if hasattr(user, "product_rate"):  # of one large product
            monkeypatch.setattr(user, "product_rate", lambda *of_product: 1e9)
    if hasattr(module, "_peak_mb"):  # of a process of its own, which has no tiny sizes
        monkeypatch.setattr(module, "_peak_mb", lambda form, num_spans: 100.0)
    if hasattr(module, "step_settings"):
        monkeypatch.setattr(module, "step_settings", partial(module.step_settings, batch_size=8))
    form = bench.measuring.Form(tiny_inputs, tmp_path, threads=1, long=False, device="cpu", cpu_time=False)
    rows = module.measure(form)
    assert rows and all(row["ours"] >= 0 and tuple(row) == bench.measuring.COLUMNS for row in rows)


def test_a_fine_tuning_step_finds_its_inputs_in_a_folder_relative_to_this_one(
    bench: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inputs, work = Path("results/inputs"), Path("results/work")
    form = bench.measuring.Form(inputs, work, threads=1, long=False, device="cpu", cpu_time=False)
    (inputs / "data").mkdir(parents=True)
    work.mkdir()
    (inputs / "model").symlink_to(embedded_folder())
    write_passages(inputs / "data/collection.jsonl", [Passage(f"d{n}", "", "words") for n in range(9)])
    write_queries(inputs / "data/queries.train.jsonl", [Query("q", "words")])
    write_qrels(inputs / "data/qrels.train.tsv", [Qrel("q", "d0", 1)])
    (inputs / "data/doc_ids.txt").write_text("".join(f"d{n}\n" for n in range(9)))
    for file in shard_files(inputs / "tokens.0-of-1"):
        file.touch()
    importlib.import_module("measurements.finetuning_step").write_training(form)
    for file in (
        work / "backbone/config.json",
        work / "train.doc_ids.txt",
        *shard_files(work / "train.0-of-1"),
    ):
        assert file.exists()


@pytest.mark.parametrize("careful", [False, True])
def test_the_peers_have_the_losses_vectors_and_gradients_of_ours(
    bench: SimpleNamespace, careful: bool
) -> None:
    chunk, model = _chunk(), _condenser()
    bench.plain.check_condenser(model, bench.plain.PlainCondenser(model, careful=careful), chunk)
    other = _condenser(skip_from=2)
    other.load_state_dict(model.state_dict())
    with pytest.raises(AssertionError):
        bench.plain.check_condenser(model, bench.plain.PlainCondenser(other, careful=careful), chunk)


@pytest.mark.parametrize("rule", ["condenser", "cocondenser"])
def test_a_careful_loop_makes_the_step_of_the_authors_way(bench: SimpleNamespace, rule: str) -> None:
    model = _condenser()
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([[9], [4], [7], [9]])
    ids = torch.randint(5, 50, (4, 9), generator=generator)
    mask = (torch.arange(9) < lengths).long()
    labels = torch.where(torch.arange(9) == 2, ids, bench.plain.IGNORED)  # one in each row: equal weights
    texts, weights = bench.plain.PaddedTexts(ids * mask, mask, labels), []
    for careful in (False, True):
        peer = bench.plain.PlainStep(
            bench.plain.PlainCondenser(model, careful=careful),
            torch.device("cpu"),
            "fp32",
            2,
            careful=careful,
        )
        peer.optimiser = torch.optim.SGD(peer.model.parameters(), lr=1.0)
        peer.model.eval()  # no dropout, which each draws in its own order
        getattr(peer, rule)(texts)
        weights.append(peer.model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], rtol=1e-4, atol=1e-5)
        if name.endswith("layer.0.output.dense.weight"):
            assert not torch.equal(weight, model.backbone.state_dict()[name.removeprefix("bert.")])


def test_padded_texts_are_our_rows_in_the_batchs_order(bench: SimpleNamespace) -> None:
    chunk = _chunk()
    texts = bench.plain.padded_texts([chunk], width=12, device=torch.device("cpu"))
    for place, row in enumerate(chunk.rows.tolist()):
        ids = chunk.inputs.rows.ids[: sum(LENGTHS)].split(LENGTHS)[place]
        assert texts.mask[row].tolist() == [1] * len(ids) + [0] * (12 - len(ids))
        assert torch.equal(texts.ids[row, : len(ids)], ids)
    assert sorted(texts.labels[texts.labels >= 0].tolist()) == sorted(chunk.inputs.labels.tolist())


def _condenser(skip_from: int = 1) -> Condenser:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
    )
    return Condenser(
        Bert(config),
        MaskedLanguageHead(config),
        num_head_layers=2,
        skip_from=skip_from,
        use_late_mlm=True,
        seed=0,
    )


def _chunk() -> Chunk[MaskedRows]:
    """Three rows of 8, 6 and 5 tokens, not in the batch's order."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 50, (3, 8), generator=generator)
    rows = Rows.of(ids.numpy(), np.array(LENGTHS))
    masked = rows.chosen(np.array([0, 1, 1, 2]), np.array([2, 2, 3, 2]))
    inputs = MaskedRows(rows, masked, torch.tensor([7, 8, 9, 10]))
    return Chunk("blocks", torch.tensor([2, 0, 1]), inputs, seed=0)
