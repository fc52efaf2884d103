"""Some results of the authors' code in a small file, for a test that needs neither their code nor a network.

The tensors of the file; the authors' Condenser names the weights:
- `weight/<name>`: float16, which holds them exactly.
- `<batch>/input_ids`, `<batch>/labels`: int16 [text, token]. An id of 0 is padding. A label is the true id of
  a masked token, else -100. `steps` has the texts of ten updates, six of each. `queries` and `passages` have
  no labels; the positive of query i is passage 3 i.
- `<check>/<figure>`: float64, what the check gave, such as its loss; of `steps` for each update.
- `<check>/gradients`: float64 [weight], each weight's gradient (of `steps`: its movement) times a fixed
  direction: the sum of entry k times cos(k). Weights are sorted by name; one without a gradient has 0.

The header's `origin` is JSON: the commits and versions that gave the numbers, and the settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tiny import HEAD, OPTIMISER, Tiny
from torch import Tensor

from condenser.files import read_json

SOURCES = {"Condenser": "luyug/Condenser", "GradCache": "luyug/GradCache", "Dense": "luyug/Dense"}
CHECKS = {  # by name in the file: the check, what names of results begin with, and the figures
    "condenser": ("condenser", "", ("loss", "head_mlm", "late_mlm")),
    "cocondenser": ("cocondenser", "", ("loss", "contrastive", "mlm")),
    "cocondenser cached": ("cache", "", ("loss",)),
    "contrast": ("two_processes", "", ("contrastive",)),
    "retriever": ("finetuning", "plain: ", ("loss",)),
    "retriever cached": ("finetuning", "cache: ", ("loss",)),
    "steps": ("trainer", "", ("losses", "norms", "rates")),
}


def in_one_direction(value: Tensor) -> Tensor:
    """The sum of entry k times cos(k): one number, which a change of any entry changes."""
    return (value.flatten() * torch.arange(value.numel()).double().cos()).sum()


def freeze(
    tiny: Tiny,
    weights: Mapping[str, Tensor],
    theirs: Mapping[str, Mapping[str, Tensor]],
    versions: Mapping[str, str],
    file: Path,
) -> None:
    """Write the file, from the weights, the batches and their results by check."""
    inputs = tiny.inputs
    assert all(torch.equal(value.half().double(), value) for value in weights.values()), "see tiny.py"
    frozen = {f"weight/{name}": value.half() for name, value in weights.items()}
    for part in ("input_ids", "labels"):
        frozen |= {f"{batch}/{part}": inputs[batch][part].short() for batch in ("condenser", "cocondenser")}
        frozen[f"steps/{part}"] = torch.cat([batch[part] for batch in inputs["steps"]]).short()
    retriever = theirs["finetuning"]
    epoch = retriever["passage ids"][1]  # the one whose loss the check computes
    frozen |= {"queries/input_ids": retriever["query ids"].short(), "passages/input_ids": epoch.short()}
    for name, (check, prefix, figures) in CHECKS.items():
        results = theirs[check]
        frozen |= {f"{name}/{figure}": results[prefix + figure] for figure in figures}
        kind = prefix + ("moved/" if check == "trainer" else "grad/")
        gradients = [
            results.get(kind + weight, results.get(kind + weight.removeprefix("lm.bert."), torch.zeros(1)))
            for weight in sorted(weights)
        ]
        frozen[f"{name}/gradients"] = torch.stack([in_one_direction(value) for value in gradients])
    origin: dict[str, Any] = {name: versions[name] for name in ("torch", "transformers")}
    origin |= {source: versions[clone] for clone, source in SOURCES.items()}
    origin |= {"config": read_json(tiny.backbone / "config.json"), "head": HEAD, "optimiser": OPTIMISER}
    save_file(frozen, file, metadata={"origin": json.dumps(origin)})  # one entry: several have no fixed order
