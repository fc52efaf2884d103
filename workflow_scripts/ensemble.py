"""Average the scores that several systems give the same hits.

    python workflow_scripts/ensemble.py --spec '{"config": {"system": {"of": [...], ...}, ...}, ...}' \\
        --runs results/msmarco/systems/rerank-backbone/seed42/run.dev.trec \\
        results/msmarco/systems/rerank-condenser/seed42/run.dev.trec \\
        --output results/msmarco/systems/rerank-ensemble/seed42/run.dev.trec \\
        --manifest results/msmarco/systems/rerank-ensemble/seed42/run.dev.trec.manifest.json

Reads the runs, in the order of the system's `of`. Writes a TREC run and the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from condenser import program
from condenser.manifest import Manifest


def main(argv: Sequence[str] | None = None) -> None:
    parser = program.job_parser(__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--output", type=Path, required=True, help="the run")
    args = parser.parse_args(argv)

    from condenser.data.records import write_run
    from condenser.retrieve.ensemble import averaged_run

    manifest = Manifest(args.manifest, args.spec, inputs=args.runs)
    num_hits = write_run(args.output, averaged_run(args.runs), system=args.spec["wildcards"]["system"])
    manifest.write(outputs=[args.output], counts={"hits": num_hits})


if __name__ == "__main__":
    program.run(main)
