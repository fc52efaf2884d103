"""Pre-train a Condenser: the backbone, with a new head, on blocks of a collection's text.

    python workflow_scripts/pretrain_condenser.py --spec '{"config": {"skip_from": 3, ...}, ...}' \\
        --tokens results/msmarco/tokens/collection.0-of-2 results/msmarco/tokens/collection.1-of-2 \\
        --doc-ids results/msmarco/data/doc_ids.txt \\
        --backbone results/msmarco/models/backbone --output results/msmarco/models/condenser \\
        --work-folder results/.work/condenser-0123456789abcdef --checkpoint-every-s 300 \\
        --checkpoints-kept 2 --bad-loss-patience 0 --manifest results/msmarco/models/condenser.manifest.json

Reads the token shards (by prefix, in order), the ids of their rows and the backbone's folder. Writes a
Hugging Face folder with `mlm_head.safetensors`, `condenser_head.safetensors` and `losses.jsonl` (one
line a step), and the manifest. Settings: the config's block `condenser` but `corpus`, and `threads`,
`device`, `precision`.

Several processes: `torchrun --nproc-per-node 4 workflow_scripts/pretrain_condenser.py ...` with the
same flags; the result is that of one process but for the order of additions. Stopped by SIGTERM or
Ctrl-C, it saves a checkpoint; started again with the same spec and inputs, it goes on from there.

(Not named condenser.py: run as `python workflow_scripts/encode.py`, every program would then import
it in place of the package.)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--tokens", type=Path, nargs="+", required=True, help="prefixes of all shards")
    parser.add_argument("--doc-ids", type=Path, required=True, help="doc_ids.txt of these tokens' texts")
    parser.add_argument("--backbone", type=Path, required=True, help="folder of the stage backbone")
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser.data.tokens import shard_files
    from condenser.train.checkpoint import remove_checkpoints
    from condenser.train.machine import loop_settings, training_machine
    from condenser.train.pretrain import pretrain_condenser

    tokens = [file for prefix in args.tokens for file in shard_files(prefix)]
    manifest = program.Manifest(args.manifest, args.spec, inputs=[*tokens, args.doc_ids, args.backbone])
    work_folder = manifest.own_folder(args.work_folder)
    with training_machine(
        device=config["device"], precision=config["precision"], threads=config["threads"]
    ) as machine:
        counts = pretrain_condenser(
            args.tokens,
            args.backbone,
            args.output,
            doc_ids=args.doc_ids,
            skip_from=config["skip_from"],
            num_head_layers=config["num_head_layers"],
            late_mlm_weight=config["late_mlm_weight"],
            max_tokens=config["max_tokens"],
            short_probability=config["short_probability"],
            mask_probability=config["mask_probability"],
            batch_size=config["batch_size"],
            rows_per_chunk=config["rows_per_chunk"],
            epochs=config["epochs"],
            seed=args.spec["seed"],
            precision=machine.precision,
            work_folder=work_folder,
            processes=machine.processes,
            **loop_settings(
                config,
                fingerprint=manifest.fingerprint,
                checkpoint_every_s=args.checkpoint_every_s,
                checkpoints_kept=args.checkpoints_kept,
                bad_loss_patience=args.bad_loss_patience,
            ),
        )
        if machine.processes.is_first:
            manifest.write(outputs=[args.output], counts=counts, device=machine.device_name)
            remove_checkpoints(work_folder)


if __name__ == "__main__":
    program.run(main)
