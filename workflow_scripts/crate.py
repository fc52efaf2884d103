"""Pack the manifests behind a table as a Provenance Run Crate.

    python workflow_scripts/crate.py --spec '{"wildcards": {"dataset": "msmarco", "table": "table2"}, ...}' \\
        --table results/msmarco/table2.tsv --manifests results/msmarco/data.manifest.json ... \\
        --workflow Snakefile --output results/msmarco/table2.crate.zip \\
        --manifest results/msmarco/table2.crate.zip.manifest.json

Reads the table, the manifests of all jobs behind it, what is needed first, and the Snakefile. Writes a ZIP
file, which says what was run when, from what, with what digests, and has one digest of the whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument(
        "--manifests", type=Path, nargs="+", required=True, help="of the table's jobs, in order"
    )
    parser.add_argument("--workflow", type=Path, required=True, help="the Snakefile")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(argv)

    from condenser.pipeline.provenance import read_runs, write_crate

    inputs = [args.table, args.workflow, *args.manifests]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)
    runs, names = read_runs(args.manifests), args.spec["wildcards"]
    digest = write_crate(
        args.output,
        runs,
        table=args.table,
        workflow=args.workflow,
        title=f"{names['table']} of {names['dataset']}",
    )
    print(f"{args.output}: {len(runs)} jobs, digest of the run {digest}")
    manifest.write(outputs=[args.output], counts={"jobs": len(runs), "digest": digest})


if __name__ == "__main__":
    program.run(main)
