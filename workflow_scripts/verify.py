"""Re-check every artefact of results/ against its manifest and the current configuration.

    snakemake --cores 1 verify

Reads: results/, and a JSON file of the current configuration. Writes: nothing; says on standard
output what is stale, damaged or of unknown origin, and ends with status 1 if anything is, or if there
is nothing to check.
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
    parser.add_argument("--config", type=Path, required=True, help="the validated configuration as JSON")
    parser.add_argument("--root", type=Path, required=True, help="the folder of the workflow")
    arguments = parser.parse_args(argv)

    from condenser.files import read_json
    from condenser.pipeline.specs import Specs
    from condenser.pipeline.verify import verify

    specs = Specs(read_json(arguments.config), root=arguments.root, digest_cache=None)
    checked, findings = verify(arguments.results, current=specs.spec)
    for finding in findings:
        print(finding)
    print(f"{checked} artefacts checked, {len(findings)} findings")
    if findings:
        sys.exit(1)


if __name__ == "__main__":
    program.run(main)
