"""Fine-tune a system on training examples.

    python workflow_scripts/train.py \\
        --spec '{"config": {"system": {...}, "recipe": {...}, "seed": 42, ...}, ...}' \\
        --initial results/msmarco/models/condenser \\
        --collection-tokens results/msmarco/tokens/backbone/collection.0-of-1.tokens.npy \\
        --query-tokens results/msmarco/tokens/backbone/queries.train \\
        --doc-ids results/msmarco/data/doc_ids.txt --queries results/msmarco/data/queries.train.jsonl \\
        --examples results/msmarco/systems/bm25/seed42/examples.jsonl \\
        --output results/msmarco/systems/condenser-round1/seed42/model \\
        --work-folder results/.work/train-0123 \\
        --manifest results/msmarco/systems/condenser-round1/seed42/model.manifest.json \\
        --checkpoint-every-s=300 --checkpoints-kept=2 --bad-loss-patience=0

The settings are the system's entry, the data set's recipe, `compute` and `seed`. Reads the model to start
from, the tokens and ids of the collection and of the train queries, and one file of examples for each system
whose negatives it learns from. Writes a Hugging Face folder with losses.jsonl, and the manifest. SIGTERM
saves a checkpoint; started again with the same spec and inputs, the training resumes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--initial", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--collection-tokens", type=Path, nargs="+", required=True, help="all shards")
    parser.add_argument("--query-tokens", type=Path, required=True, help="prefix")
    parser.add_argument("--doc-ids", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--examples", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True, help="the model's folder")
    parser.add_argument("--work-folder", type=Path, required=True, help="of this spec's checkpoints")
    parser.add_argument("--checkpoint-every-s", type=int, required=True)
    parser.add_argument("--checkpoints-kept", type=int, required=True)
    parser.add_argument("--bad-loss-patience", type=int, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]

    from condenser import kinds
    from condenser.data.tokens import prefix_of, shard_files
    from condenser.train.checkpoint import remove_checkpoints
    from condenser.train.machine import loop_settings, training_machine

    prefixes = [prefix_of(file) for file in args.collection_tokens]
    tokens = [file for prefix in [*prefixes, args.query_tokens] for file in shard_files(prefix)]
    inputs = [args.initial, *tokens, args.doc_ids, args.queries, *args.examples]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)
    work_folder = manifest.own_folder(args.work_folder)
    with training_machine(**config["compute"]) as machine:
        counts = kinds.load("systems", config["system"]["kind"]).train(
            args.examples,
            args.initial,
            args.output,
            recipe=config["recipe"],
            collection_tokens=prefixes,
            query_tokens=args.query_tokens,
            doc_ids=args.doc_ids,
            queries=args.queries,
            seed=config["seed"],
            precision=machine.precision,
            work_folder=work_folder,
            processes=machine.processes,
            **loop_settings(
                config["recipe"],
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
