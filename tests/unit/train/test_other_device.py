"""What docs/gpu.md says of another device: the same training but for the rounding of its sums."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_trainings import Files, compute_twice, contents, losses, prepare, sharpen, train

from condenser.model.devices import make_deterministic
from condenser.train.distributed import alone

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)

pytestmark = [
    pytest.mark.weekly,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="trains on a GPU: PyTorch finds none"),
]


@pytest.fixture(autouse=True)
def kernels_are_deterministic() -> None:
    make_deterministic(threads=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return prepare(tmp_path_factory.mktemp("gpu"), dropout=0.1)


@pytest.mark.parametrize(
    "kind", ["condenser", "cocondenser", "retriever", "untied", "late", "distilled", "crossencoder"]
)
def test_a_gpu_has_the_losses_of_the_cpu_to_a_thousandth(tmp_path: Path, kind: str) -> None:
    files = prepare(tmp_path, dropout=0.0)  # devices draw dropout differently from one seed
    sharpen(files.backbone)
    logs = []
    for device in (CPU, GPU):
        output = tmp_path / f"on {device.type}"
        train(kind, files, output, processes=alone(device))
        logs.append(losses(output))
    assert len(logs[0]) == len(logs[1]) > 3
    for ours, theirs in zip(*logs, strict=True):
        assert [ours[name] for name in ("step", "epoch")] == [theirs[name] for name in ("step", "epoch")]
        for name in {"loss", "head_mlm", "late_mlm", "contrastive"} & ours.keys():
            assert theirs[name] == pytest.approx(ours[name], rel=1e-3), (ours["step"], name)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["cocondenser", "retriever", "untied", "late", "crossencoder"])
def test_on_a_gpu_the_gradient_cache_gives_the_same_bytes(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, precision: str
) -> None:
    for cache in ("never", "always"):
        if cache == "always":
            compute_twice(monkeypatch)
        changes = {"gradient_cache": cache} if kind == "cocondenser" else {}
        train(kind, files, tmp_path / cache, processes=alone(GPU), precision=precision, **changes)
    assert contents(tmp_path / "never") == contents(tmp_path / "always")


@pytest.mark.parametrize("kind", ["condenser", "retriever"])
def test_on_a_gpu_a_training_repeats_to_the_byte(files: Files, tmp_path: Path, kind: str) -> None:
    for name in ("first", "second"):
        train(kind, files, tmp_path / name, processes=alone(GPU), precision="bf16")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
