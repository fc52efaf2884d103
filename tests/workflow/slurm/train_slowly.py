"""The real training loop on one weight, half a second a step; a checkpoint only when told to stop."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from condenser import program
from condenser.settings import Optimiser, partly
from condenser.train.distributed import joined
from condenser.train.loop import Batch, Run, Trainable, train

NUM_STEPS = 220


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)

    def backward(content: None, loss_scale: float) -> dict[str, float]:
        time.sleep(0.5)
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
        return {"loss": loss.item()}

    with joined("cpu", timeout_s=60) as processes:
        run = Run(
            partly(
                Optimiser,
                {
                    **{"learning_rate": 1e-3, "weight_decay": 0.0, "warmup_ratio": 0.0, "max_grad_norm": 0.0},
                    **{"batch_size": 1, "drop_last": False, "epochs": None, "updates": NUM_STEPS},
                },
            ),
            seed=42,
            precision="fp32",
            processes=processes,
            fingerprint="slow",
            work_folder=folder,
            checkpoint_every_s=10_000,
            checkpoints_kept=1,
            bad_loss_patience=0,
        )
        batches = lambda step: Batch(None, 0, 1, 1, dict, 1)  # noqa: E731
        train(Trainable("slow training", model, 1, batches, backward, save=print, counts={}), run)


if __name__ == "__main__":
    program.run(main)
