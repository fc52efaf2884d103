"""What docs/scaling.md says of another device: the same training but for the rounding of its sums."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_trainings import losses, prepare, sharpen, train

from condenser.train.distributed import alone

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="compares a GPU with the CPU: PyTorch finds no GPU")
@pytest.mark.parametrize("kind", ["condenser", "cocondenser", "retriever", "untied"])
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
