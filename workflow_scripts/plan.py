"""Work out what each stage on the way to table 2 takes, without running any.

    python workflow_scripts/plan.py --spec "$(cat plan.spec.json)" --device H200 \\
        --tables condenser/pipeline/costs/tables --counted results/msmarco/data/manifest.json \\
        --output results/msmarco/plan.H200.tsv --manifest results/msmarco/plan.H200.tsv.manifest.json

The spec's config is the whole validated configuration. Reads the tables of devices, backbones,
collections, rates and assumptions; the manifests given as counted, and the token shards beside
them; for a collection of the user's own that has not been made, its lines. With --device measure
the rates are those of this machine, measured first (some seconds). Writes the plan as TSV and the
manifest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=json.loads, required=True, help="the job's spec, as JSON")
    parser.add_argument("--device", required=True, help="a name in devices.tsv, or measure")
    parser.add_argument("--tables", type=Path, required=True, help="folder of the tables")
    parser.add_argument("--counted", type=Path, nargs="*", default=[], help="manifests with counts")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--manifest", type=Path, required=True)
    arguments = parser.parse_args(argv)
    config = arguments.spec["config"]

    from condenser.pipeline.costs.plan import make_plan, write_plan
    from condenser.pipeline.costs.tables import read_tables

    manifest = Manifest(
        arguments.manifest,
        arguments.spec,
        inputs=[*sorted(arguments.tables.glob("*.tsv")), *arguments.counted],
    )
    tables = read_tables(arguments.tables)
    if arguments.device == "measure":
        from condenser.model.devices import choose_device, choose_precision, claim_visible_gpus
        from condenser.model.dropout import dropout
        from condenser.pipeline.costs.measure import measure_device

        compute = config["compute"]
        if compute["device"] != "cpu":
            claim_visible_gpus(count=1)
        place = choose_device(compute["device"])
        device = measure_device(
            place,
            precision=choose_precision(compute["precision"], place),
            threads=compute["threads"],
            clock=time.perf_counter,
            dropout=dropout,
        )
    else:
        device = tables.device(arguments.device)
    rows = make_plan(
        config, arguments.spec["wildcards"]["dataset"], arguments.counted, tables=tables, device=device
    )
    write_plan(rows, arguments.output)
    manifest.write(
        outputs=[arguments.output],
        counts={"stages": len(rows) - 1, "jobs": rows[-1].jobs, "device": asdict(device)},
        device=device.name,
    )


if __name__ == "__main__":
    program.run(main)
