"""The flags that every training program takes, and what they and its spec say to `train`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from condenser.files import canonical_json, sha256_text

if TYPE_CHECKING:  # a program that is asked for --help need not wait for torch
    from condenser.train.loop import LoopSettings


def add_training_flags(parser: argparse.ArgumentParser) -> None:
    """Spec, outputs, and how often a checkpoint is written, which changes no result."""
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)


def loop_settings(args: argparse.Namespace) -> LoopSettings:
    """What every training passes on to `condenser.train.loop.train` as it is."""
    config = args.spec["config"]
    return {
        "learning_rate": config["learning_rate"],
        "weight_decay": config["weight_decay"],
        "warmup_ratio": config["warmup_ratio"],
        "max_grad_norm": config["max_grad_norm"],
        "fingerprint": sha256_text(canonical_json(args.spec)),
        "checkpoint_every_s": args.checkpoint_every_s,
        "checkpoints_kept": args.checkpoints_kept,
        "bad_loss_patience": args.bad_loss_patience,
    }
