"""Check every file of results/ against its manifest and the current configuration.

    snakemake --cores 1 verify

Reads results/ and the specs of the current configuration. Writes nothing. Says on standard output what is
stale, damaged or of unknown origin, and exits with status 1 if anything is, or if there is nothing to check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from condenser import program


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="the folder of all results")
    parser.add_argument(
        "--current", type=Path, required=True, help="what changed by manifest, from the rule verify"
    )
    arguments = parser.parse_args(argv)

    from condenser.files import read_json
    from condenser.pipeline.verify import verify

    checked, findings = verify(arguments.results, current=read_json(arguments.current))
    for finding in findings:
        print(finding)
    print(f"{checked} artefacts checked, {len(findings)} findings")
    if any(finding.kind == "stale" for finding in findings):
        print("stale by this configuration: give verify every --configfile that the results were made with")
    if findings:
        sys.exit(1)


if __name__ == "__main__":
    program.run(main)
