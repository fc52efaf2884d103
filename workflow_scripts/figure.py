"""Draw a figure, and write the numbers that it shows.

    python workflow_scripts/figure.py \\
        --spec '{"config": {"figure": {"kind": "train_size", ...}, ...}, ...}' \\
        --files results/msmarco/low_data.tsv results/msmarco/data/counts.json \\
        --table results/msmarco/train_size.tsv --picture results/msmarco/train_size.svg \\
        --manifest results/msmarco/train_size.manifest.json

Reads what the figure's kind (`condenser/evaluate/figures/`) says, in the order of its rows. Writes the
numbers as TSV, the picture as SVG, and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import SUFFIX, Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--files", type=Path, nargs="+", required=True, help="what the figure is drawn from")
    parser.add_argument("--table", type=Path, required=True, help="the numbers")
    parser.add_argument("--picture", type=Path, required=True)
    args = parser.parse_args(argv)
    config = args.spec["config"]
    # Manifests are records of runs: a job that is run again takes another time, and makes no figure stale.
    inputs = [file for file in args.files if not file.name.endswith(SUFFIX)]
    manifest = Manifest(args.manifest, args.spec, inputs=inputs)

    from condenser.evaluate import figures
    from condenser.evaluate.figures._drawing import svg
    from condenser.evaluate.tables import write_table
    from condenser.files import atomic_write

    settings = config["figure"]
    kind = figures.load(settings)
    table = kind.table(settings, args.files, significance=config["significance"])
    write_table(args.table, table)
    with atomic_write(args.picture) as file:
        file.write(svg(lambda: kind.picture(table, settings)))
    print(f"{args.picture}: drawn from {len(table)} rows, which are in {args.table}")
    manifest.write(outputs=[args.table, args.picture], counts={"rows": len(table)})


if __name__ == "__main__":
    program.run(main)
