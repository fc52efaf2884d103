"""Figures: numbers from small inputs worked by hand, and pictures that are the same bytes for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from condenser.evaluate import figures
from condenser.evaluate.comparisons import Measured, make_comparisons
from condenser.evaluate.figures import costs
from condenser.evaluate.figures._drawing import legend, panels, svg
from condenser.evaluate.significance import Cell, Comparison
from condenser.evaluate.tables import write_table
from condenser.files import read_json, write_json
from condenser.manifest import Manifest, sealed
from condenser.settings import Settings

SIGNIFICANCE = {"confidence": 0.95, "power": 0.8, "permutations": 1000, "seed": 42}


def row(method: str, *variants: str, is_trained: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "system": method, "method": method, "backbone": "a BERT", "variants": list(variants),
        "train_queries": "all", "is_trained": is_trained, "has_sizes": is_trained, **more,
    }  # fmt: skip


def settings_of(kind: str, rows: Sequence[Mapping[str, Any]], **keys: Any) -> dict[str, Any]:
    return {"kind": kind, "rows": rows, "collection": "tiny (beir)", "train_split": "train", **keys}


def table_of(settings: Mapping[str, Any], files: Sequence[Path]) -> pd.DataFrame:
    read = Settings(**settings)
    return figures.load(read).table(read, files, significance=SIGNIFICANCE)


def picture_of(settings: Mapping[str, Any], table: pd.DataFrame) -> bytes:
    read = Settings(**settings)
    return svg(lambda: figures.load(read).picture(table, read))


def written_in(picture: bytes) -> set[str]:
    """The texts of a picture, which matplotlib names in comments beside their outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    tree = ElementTree.fromstring(picture, parser=parser)
    return {str(node.text).strip() for node in tree.iter() if node.tag is ElementTree.Comment}


# ---- what each is drawn from


def attention(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Two layers, three passages, one pre-trained encoder and two seeds of a fine-tuned one."""
    rows = [
        row("BERT", "untrained", is_trained=False, panel="A panel"),
        row("BERT, tuned", "seed1", "seed2", panel="A panel"),
    ]
    files = []
    for number, shift in enumerate((0.0, 1.0, 2.0)):
        files.append(folder / f"{number}.json")
        of_passages = {f"d{i}": [i + shift, 3.0 + shift] for i in range(3)}
        content = {"per_passage": of_passages, "uniform": 4.25, "pooling": "mean", "normalised": True}
        write_json(files[-1], content)
    return settings_of("attention_entropy", rows, panels={}, passages=3, seed=1, seeds=[1, 2]), files


def low_data(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """A table of three train sizes, as `condenser.evaluate.tables` writes it."""
    of_row = {"batch_size": 8, "origin": "measured", "collection": "tiny", "seeds": "1,2", "MRR@10_sd": 0.01}
    sizes = [("BM25", "all", 0.2), ("BERT", "10", 0.1), ("BERT", "100", 0.25), ("BERT", "all", 0.3)]
    lines = [
        {
            **{"method": method, "train_queries": size, **of_row, "R@10": value + 0.5, "MRR@10": value},
            **{"MRR@10_low": value - 0.02, "MRR@10_high": value + 0.03},
            **{"R@10_low": value + 0.4, "R@10_high": value + 0.6},
        }
        for method, size, value in sizes
    ]
    columns = ["method", "batch_size", "MRR@10", "R@10", "origin", "collection", "seeds", "train_queries"]
    columns += ["MRR@10_sd", "MRR@10_low", "MRR@10_high", "R@10_low", "R@10_high"]
    file, counts = folder / "low_data.tsv", folder / "counts.json"
    pd.DataFrame(lines, columns=columns).to_csv(file, sep="\t", index=False)
    write_json(counts, {"queries": {"train": 150, "dev": 60}})
    rows = [row("BM25", "untrained", is_trained=False), row("BERT", "n10-seed1", "n10-seed2")]
    return settings_of("train_size", rows, table="low_data", measures=None), [file, counts]


def losses(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Two seeds of one training, of 5 and of 4 updates in two epochs, and a third epoch that is left out."""
    curves = {
        "seed1": [(0, 4.0), (0, 2.0), (0, 3.0), (1, 1.0), (1, 0.5), (2, 9.0)],
        "seed2": [(0, 2.0), (0, 2.0), (1, 1.0), (1, 1.0), (2, 9.0)],
    }
    files = []
    for name, updates in curves.items():
        files.append(folder / f"{name}.jsonl")
        entries = [{"epoch": epoch, "loss": loss, "outcome": "updated"} for epoch, loss in updates]
        entries.insert(1, {"epoch": 0, "loss": None, "outcome": "skipped"})
        files[-1].write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    settings = {"table": "table2", "epochs": 2, "updates": 2, "log_axis": False}
    return settings_of("loss_curve", [row("BERT", *curves)], **settings), files


def manifest(folder: Path, name: str, rule: str, wildcards: dict[str, str], **changes: Any) -> Path:
    """A real manifest of a result of one file of weights, or of a text, with times of our choice."""
    result = folder / (f"{name}.safetensors" if rule in ("pretrain", "train") else f"{name}.txt")
    if result.suffix == ".safetensors":
        save_file({"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float32)}, result)
    else:
        result.write_text("a result")
    path = folder / f"{name}.manifest.json"
    Manifest(path, {"rule": rule, "wildcards": wildcards}, inputs=[]).write(outputs=[result], counts={})
    record = {key: value for key, value in read_json(path).items() if key != "sha256"}
    write_json(path, sealed({**record, **changes}))
    return path


def jobs(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Two pre-trainings of one model on 4 GPUs, and an encoding on a processor."""
    used = {"processor_s": 1800.0, "peak_memory_mb": 500, "processes": 4, "peak_gpu_memory_mb": 900}
    files = [
        manifest(folder, f"m{seed}", "pretrain", {"dataset": "tiny", "model": f"m-seed{seed}"},
                 **{**used, "device": "cuda bf16", "wall_time_s": 3600.0, "peak_memory_mb": 400 + seed})
        for seed in (1, 2)
    ]  # fmt: skip
    wildcards = {"dataset": "tiny", "system": "s", "variant": "seed1", "shard": "0-of-1"}
    encoded = {"processor_s": 36.0, "peak_memory_mb": 300, "processes": 1, "wall_time_s": 20.0}
    files.append(manifest(folder, "e", "encode", wildcards, device="cpu", **encoded))
    return settings_of("costs", [], table="table2"), [*files, costs.Settings.PUBLISHED]


def compared_rows(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Two rows against BERT, in two measures."""
    rows = [row("BERT", "seed1"), row("ours", "seed1", "seed2"), row("theirs", "seed1")]

    def compared(verdict: str, middle: float, low: float) -> Comparison:
        return Comparison(middle, low, 2 * middle - low, 0.01, 0.02, verdict, 0.005, False)

    found = {
        measure: Measured(
            [Cell(mean, 0.0, 1.0) for mean in (0.3, 0.3 + step, 0.1)],
            {(1, 0): compared("better", step, step / 2), (2, 0): other},
            60,
        )
        for measure, step, other in (
            ("MRR@10", 0.1, compared("worse", -0.2, -0.3)),
            ("R@10", 0.2, compared("no difference shown", -0.2, -0.5)),
        )
    }
    write_table(folder / "table2.tests.tsv", make_comparisons(rows, found))
    return settings_of("differences", [], table="table2", measures=None), [folder / "table2.tests.tsv"]


def by_tokens(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """The same table; BERT stands at 3,000 tokens, BM25 at 10."""
    settings, files = low_data(folder)
    lines = {"masked words": {"BERT": 3000.0}, "none": {"BM25": 10.0}}
    return {**settings, "kind": "curve", "x": "tokens", "lines": lines, "measures": ["R@10"]}, files


DRAWN = {  # by kind, the numbers that it is drawn from here, and texts of its picture
    "attention_entropy": (attention, {
        "Entropy of [CLS] attention, tiny (beir), 3 passages", "layer", "entropy (nats)", "pre-trained",
        "fine-tuned", "uniform attention", "text vector: mean, normalised; not [CLS]",
    }),
    "train_size": (low_data, {
        "Quality by train size, tiny", "train queries (log scale)", "MRR@10", "R@10", "BERT", "BM25", "10",
        "100", "150", "(all)",
    }),
    "curve": (by_tokens, {
        "Quality by tokens, tiny", "tokens (log scale)", "R@10, 10 train queries", "R@10", "masked words",
        "3,000", "10",
    }),
    "loss_curve": (losses, {
        "Training loss of the first updates, tiny (beir)", "updates", "loss (mean of 2 updates)",
        "all train queries", "BERT",
    }),
    "differences": (compared_rows, {
        "Differences in table2, tiny (beir)", "difference, 95 % interval", "ours", "theirs", "against BERT",
        "MRR@10", "R@10", "better", "worse", "no difference shown",
    }),
    "costs": (jobs, {
        "What table2 took, tiny (beir)", "minutes, one job after the other", "pretrain m", "encode s",
        "120.0 (2 jobs)", "peak memory of one job", "0.9", "0.3",
    }),
}  # fmt: skip


# ---- the numbers


def test_attention_is_shown_by_layer_as_the_mean_over_passages_and_seeds(tmp_path: Path) -> None:
    table = table_of(*attention(tmp_path))
    shown = table[["panel", "stage", "layer", "entropy_nats", "sd", "seeds"]].astype(object)
    spread = math.sqrt(0.5)  # of 1 and 2, and of 4 and 5
    assert shown.where(shown.notna(), None).values.tolist() == [
        ["A panel", "pre-trained", 1, 1.0, None, None],
        ["A panel", "pre-trained", 2, 3.0, None, None],
        ["A panel", "fine-tuned", 1, 2.5, pytest.approx(spread), "1,2"],
        ["A panel", "fine-tuned", 2, 4.5, pytest.approx(spread), "1,2"],
    ]
    first, second = table.iloc[0], table.iloc[1]
    assert 0 <= first["low"] < 1.0 < first["high"] <= 2
    assert (second["low"], second["high"]) == (3.0, 3.0)  # every passage has the same
    assert set(table["uniform_nats"]) == {4.25} and set(table["vector"]) == {"mean, normalised"}


def test_quality_is_shown_by_train_size_as_in_the_table(tmp_path: Path) -> None:
    settings, files = low_data(tmp_path)
    table = table_of(settings, files)
    of_mrr = table[table["measure"] == "MRR@10"]
    assert of_mrr["method"].tolist() == ["BM25", "BERT", "BERT", "BERT"]
    assert of_mrr["train_queries"].tolist() == ["", "10", "100", "all"]
    assert of_mrr["queries"].dropna().tolist() == [10, 100, 150]  # all of the train split
    assert of_mrr["value"].tolist() == [0.2, 0.1, 0.25, 0.3]
    assert of_mrr["drop"].isna().tolist() == [True, False, False, False]  # BM25 has no sizes
    assert of_mrr["drop"].dropna().tolist() == pytest.approx([2 / 3, 1 / 6, 0])
    assert of_mrr["sd"].tolist() == [0.01] * 4
    assert (of_mrr["value"] - of_mrr["low"]).tolist() == pytest.approx([0.02] * 4)
    assert (of_mrr["high"] - of_mrr["value"]).tolist() == pytest.approx([0.03] * 4)
    assert table["measure"].tolist() == ["MRR@10"] * 4 + ["R@10"] * 4
    assert table[table["measure"] == "R@10"]["sd"].isna().all()
    rewrite(files[0], "BERT\t8\t0.3\t", "BERT\t8\t0.0\t")
    of_none = table_of(settings, files)
    assert of_none[of_none["measure"] == "MRR@10"]["drop"].isna().all()  # of nothing there is no share
    only = table_of({**settings, "measures": ["R@10"]}, files)
    assert set(only["measure"]) == {"R@10"} and len(only) == 4


def test_a_curve_has_a_tables_cells_at_the_numbers_that_are_given(tmp_path: Path) -> None:
    settings, files = by_tokens(tmp_path)
    assert (
        table_of({**settings, "measures": None}, files)["measure"].tolist() == ["MRR@10"] * 4 + ["R@10"] * 4
    )
    table = table_of(settings, files)
    shown = table[["line", "train_queries", "x", "value", "low", "high"]].values.tolist()
    assert shown == [
        ["masked words", "10", 3000.0, 0.6, *map(pytest.approx, (0.5, 0.7))],
        ["masked words", "100", 3000.0, 0.75, *map(pytest.approx, (0.65, 0.85))],
        ["masked words", "all", 3000.0, 0.8, *map(pytest.approx, (0.7, 0.9))],
        ["none", "all", 10.0, 0.7, *map(pytest.approx, (0.6, 0.8))],
    ]
    written = pd.read_csv(files[0], sep="\t", dtype=str, keep_default_na=False)
    written.loc[0, ["R@10_low", "R@10_high"]] = ""  # all queries have the same value
    written.to_csv(files[0], sep="\t", index=False)
    *_, alike = table_of(settings, files)[["value", "low", "high"]].values.tolist()
    assert alike[0] == 0.7 and math.isnan(alike[1]) and math.isnan(alike[2])


def rewrite(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def keep_the_header(file: Path) -> None:
    file.write_text(file.read_text().partition("\n")[0] + "\n")


def publish(file: Path) -> None:
    rewrite(file, "measured", "published")


@pytest.mark.parametrize(
    ("kind", "changes", "edit", "message"),
    [
        ("train_size", {}, keep_the_header, r"low_data\.tsv: expected measured rows, got none"),
        ("train_size", {"measures": ["R@5"]}, None, r"low_data\.tsv: expected the measure R@5, got MRR@10"),
        ("train_size", {"train_split": "dl19"}, None, "expected the number of queries of dl19, got none"),
        ("curve", {"measures": ["R@5"]}, None, r"low_data\.tsv: expected the measure R@5, got MRR@10"),
        ("curve", {}, publish, r"low_data\.tsv: expected a measured row of BERT, got none"),
        ("curve", {"lines": {"a line": {"T5": 1.0}}}, None, "expected a measured row of T5, got none"),
        ("differences", {}, keep_the_header, r"expected comparisons, got none\. Give the table compare_with"),
        ("differences", {"measures": ["R@5"]}, None, r"expected one of its measures, MRR@10, R@10, got R@5"),
        ("loss_curve", {"epochs": 0}, None, r"seed1\.jsonl: expected updates of a training, got none"),
        ("costs", {}, lambda file: rewrite(file, "3600", "7200"), "it was changed after its rule wrote it"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_file(
    tmp_path: Path, kind: str, changes: dict[str, Any], edit: Any, message: str
) -> None:
    settings, files = DRAWN[kind][0](tmp_path)
    if edit is not None:
        edit(files[0])
    with pytest.raises(ValueError, match=message):
        table_of(settings | changes, files)


def test_differences_are_those_of_the_tests_by_measure(tmp_path: Path) -> None:
    settings, files = compared_rows(tmp_path)
    table = table_of(settings, files)
    shown = ["measure", "row", "compared_with", "difference", "difference_low", "difference_high", "verdict"]
    assert table[shown].astype(object).where(table[shown].notna(), None).values.tolist() == [
        ["MRR@10", "ours", "BERT", 0.1, 0.05, 0.15, "better"],
        ["MRR@10", "theirs", "BERT", -0.2, -0.3, -0.1, "worse"],
        ["R@10", "ours", "BERT", 0.2, 0.1, 0.3, "better"],
        ["R@10", "theirs", "BERT", -0.2, -0.5, pytest.approx(0.1), "no difference shown"],
    ]
    assert set(table["confidence"]) == {0.95} and set(table["row_seeds"]) == {"1,2", "1"}
    assert set(table_of({**settings, "measures": ["R@10"]}, files)["measure"]) == {"R@10"}


def test_a_loss_is_the_mean_of_some_updates_and_of_the_seeds(tmp_path: Path) -> None:
    table = table_of(*losses(tmp_path))
    # seed1: (4 + 2) / 2, (3 + 1) / 2, 0.5; seed2: (2 + 2) / 2, (1 + 1) / 2
    assert table["loss"].tolist() == [2.5, 1.5, 0.5]
    assert table["sd"].tolist() == pytest.approx([math.sqrt(0.5), math.sqrt(0.5), math.nan], nan_ok=True)
    assert table["updates"].tolist() == [2, 4, 5]
    assert table["trainings"].tolist() == [2, 2, 1]
    assert set(table["seeds"]) == {"1,2"}


def test_costs_are_sums_over_the_jobs_of_a_rule_and_published_ones_say_so(tmp_path: Path) -> None:
    table = table_of(*jobs(tmp_path))
    pretrained, encoded = table.iloc[0], table.iloc[1]
    assert (pretrained["rule"], pretrained["name"], pretrained["jobs"]) == ("pretrain", "m", 2)
    assert pretrained["parameters"] == 2 * 3 + 4
    assert float(pretrained["seconds"]) == 7200
    assert float(pretrained["gpu_hours"]) == 8.0  # 2 jobs of an hour on 4 GPUs
    assert float(pretrained["processor_hours"]) == 4.0  # 2 jobs of 4 processes of half an hour
    assert (pretrained["peak_memory_mb"], pretrained["peak_gpu_memory_mb"]) == (402, 900)
    assert (encoded["name"], encoded["jobs"], encoded["device"]) == ("s", 1, "cpu")
    assert float(encoded["processor_hours"]) == 0.01
    assert pd.isna(encoded["gpu_hours"]) and pd.isna(encoded["parameters"])
    assert table["origin"].tolist() == ["measured"] * 2 + ["published"] * 3
    authors = table[table["origin"] == "published"]
    assert authors[["rule", "name", "gpu_hours"]].values.tolist() == [
        ["pretrain", "Condenser", "672"],
        ["pretrain", "coCondenser", "192-288"],
        ["train", "Condenser", ""],
    ]
    assert authors["parameters"].dropna().tolist() == [120_000_000, 100_000_000]  # with the head, without
    assert 7 * 24 * 4 == 672 and (2 * 24 * 4, 3 * 24 * 4) == (192, 288)


# ---- the pictures


@pytest.mark.parametrize("kind", DRAWN)
def test_a_picture_says_what_it_shows_in_the_same_bytes_in_any_style_and_without_a_date(
    kind: str, tmp_path: Path
) -> None:
    numbers, texts = DRAWN[kind]
    settings, files = numbers(tmp_path)
    table = table_of(settings, files)
    first = picture_of(settings, table)
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "svg.fonttype": "none"}):
        assert picture_of(settings, table) == first
    assert b"<dc:date>" not in first
    assert texts <= written_in(first)


@pytest.mark.parametrize("names", [["a", "b"], [5 * "a label of many words " + str(n) for n in range(9)]])
def test_a_picture_has_room_for_all_names_and_its_panel(names: Sequence[str]) -> None:
    picture, (axis,) = panels(["MRR@10"], title="Quality", x="queries", y="mean", share_y=False)
    height = picture.get_figheight()
    for name in names:
        axis.plot([0, 1], label=name)
    legend(picture, [axis])
    picture.draw_without_rendering()
    whole, shown = picture.bbox.extents, picture.legends[0].get_window_extent().extents
    assert (shown[:2] >= whole[:2]).all() and (shown[2:] <= whole[2:]).all()
    assert (picture.get_figheight() > height) == (len(names) > 2)
    assert axis.get_window_extent().height > picture.dpi  # an inch


def test_a_loss_may_have_a_logarithmic_axis(tmp_path: Path) -> None:
    settings, files = losses(tmp_path)
    drawn = picture_of({**settings, "log_axis": True}, table_of(settings, files))
    assert "loss (mean of 2 updates, log scale)" in written_in(drawn)
