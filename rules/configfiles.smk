# The configuration files as they are written; what they mean together is checked in rules/common.smk.
# `make` and the command `snakemake` of .venv check them before Snakemake reads them; this is for other callers.

import sys
from pathlib import Path

from condenser.pipeline import command_line
from condenser.program import printable

# PATH cannot hold a colon; a file whose path has braces would be a pattern.
if signs := [sign for sign in ":{}" if sign in str(workflow.basedir)]:
    sys.exit(
        f"error: {workflow.basedir}: expected a folder without {' '.join(signs)} in its path. Clone elsewhere."
    )

try:
    if Path(sys.argv[0]).parent.name == "snakemake":  # python -m snakemake
        command_line.overlays_of(sys.argv[1:])
    for file in dict.fromkeys(map(Path, workflow.configfiles)):
        command_line.check_overlay(file)
except ValueError as error:
    sys.exit(printable(f"error: {error}"))
