"""Write the report of a data set from the results that exist.

    make report DATASET=msmarco

Reads what the workflow found of the data set (`--state`: its manifests, and what the configuration of today
says of them) and the results themselves. Makes none of them. Writes one HTML file, which needs no network,
and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--state", type=Path, required=True, help="what there is, from the rule report")
    parser.add_argument("--output", type=Path, required=True, help="the page")
    args = parser.parse_args(argv)

    from condenser.files import atomic_write
    from condenser.report.collect import Report
    from condenser.report.page import page
    from condenser.report.queries import Limits
    from condenser.report.state import read_state

    report = Report(args.spec["wildcards"]["dataset"], *read_state(args.state))
    manifest = Manifest(args.manifest, args.spec, inputs=report.files())
    text, counts = page(report, Limits(**args.spec["config"]["report"]))
    with atomic_write(args.output) as file:
        file.write(text.encode())
    manifest.write(outputs=[args.output], counts=counts)
    print(
        f"{args.output}: {counts['bytes'] / 1e6:.1f} MB, {counts['results']} results "
        f"({counts['out_of_date']} out of date), {counts['queries']} queries"
    )


if __name__ == "__main__":
    program.run(main)
