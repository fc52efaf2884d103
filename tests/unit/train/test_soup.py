"""A soup: the mean of weights of several trainings, each from the same start and on batches of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from small_trainings import Files, contents, losses, prepare, train

from condenser.train.loop import StepRecord


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("soup"), dropout=0.1)


@pytest.mark.parametrize("kind", ["untied", pytest.param("crossencoder", marks=pytest.mark.ci)])
def test_a_soup_is_the_mean_of_trainings_on_one_batch_after_another(
    files: Files, tmp_path: Path, kind: str
) -> None:
    counts = train(kind, files, tmp_path / "soup", soup=3, epochs=0.4)
    parts = [tmp_path / str(number) for number in range(3)]
    for number, part in enumerate(parts):
        train(kind, files, part, first_step=2 * number, epochs=0.4)
    for file in (tmp_path / "soup").rglob("*.safetensors"):
        soup = load_file(file)
        of_parts = [load_file(part / file.relative_to(tmp_path / "soup")) for part in parts]
        for name, weight in soup.items():
            expected = np.mean([of_part[name] for of_part in of_parts], axis=0, dtype=np.float64)
            np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-7)
        assert any((of_parts[0][name] != of_parts[1][name]).any() for name in soup)
    assert losses(tmp_path / "soup") == [line for part in parts for line in losses(part)]
    assert counts["steps"] == 6 and counts["items_seen"] == 4 * 5 + 2
    assert [line["step"] for line in losses(tmp_path / "soup")] == list(range(6))
    assert [line["epoch"] for line in losses(tmp_path / "soup")] == [0, 0, 0, 0, 0, 1]


@pytest.mark.ci
@pytest.mark.parametrize("at", [0, 3, 5])  # of each of three trainings
def test_a_soup_that_died_and_was_resumed_has_the_same_bytes(files: Files, tmp_path: Path, at: int) -> None:
    def die(record: StepRecord) -> None:
        if record.step == at:
            raise RuntimeError("the power went")

    train("retriever", files, tmp_path / "whole", soup=3, epochs=0.4)
    with pytest.raises(RuntimeError, match="the power went"):
        train("retriever", files, tmp_path / "cut", soup=3, epochs=0.4, on_step=die)
    train("retriever", files, tmp_path / "cut", soup=3, epochs=0.4)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
