"""How results are compared with the authors' (`make parity`)."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

OUR_SIDE = """
import sys; sys.path.insert(0, "benchmarks/parity")
from pathlib import Path
import parity, pairs, tiny
given = tiny.prepare(Path(sys.argv[1]))
for check in pairs.CHECKS:
    for pair in check(given):
        results = tiny.as_tensors(pair.ours)
        assert results and all(value.isfinite().all() for value in results.values()), pair.name
        print(pair.name)
"""


@pytest.fixture(scope="module")
def parity(root: Path) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks" / "parity"))
        return importlib.import_module("parity")


@pytest.mark.ci
def test_our_side_of_every_pair_is_computed(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OUR_SIDE, str(tmp_path / "work")]
    said = subprocess.run(command, check=True, cwd=root, stdout=subprocess.PIPE, text=True).stdout
    assert {"condenser", "cache", "finetuning", "trainer"} <= set(said.splitlines())


LOSS = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("ours", "difference", "is_allowed"),
    [
        (LOSS + 1e-13, 1e-13, True),  # rounding
        (LOSS + 3e-11, 3e-11, False),  # 1e-11 of 3
        (LOSS * float("nan"), math.inf, False),
        (LOSS[:2], math.inf, False),
    ],
)
def test_a_difference_is_allowed_if_it_is_rounding(
    parity: ModuleType, ours: Tensor, difference: float, is_allowed: bool
) -> None:
    sides = {"grad/a": LOSS, "loss": ours}, {"grad/a": LOSS, "loss": LOSS}
    (first, *_, first_allowed), (kind, found, _, allowed) = parity.gaps(*sides, 1e-12)
    assert (first, first_allowed, kind, allowed) == ("grad", True, "loss", is_allowed)
    assert found == pytest.approx(difference, rel=1e-3)


def test_whole_numbers_must_be_equal(parity: ModuleType) -> None:
    ids = torch.tensor([10**6, 5])
    (*_, is_allowed), *_ = parity.gaps({"ids": ids + torch.tensor([1, 0])}, {"ids": ids}, 1e-2)
    assert not is_allowed


def test_results_that_only_one_side_has_are_refused(parity: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"expected the same results of both sides, got head of one alone"):
        list(parity.gaps({"loss": LOSS}, {"loss": LOSS, "head": LOSS}, 1e-12))
