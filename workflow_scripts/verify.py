"""Check every file of results/ against its manifest and the current configuration.

    snakemake --cores 1 verify
Reads results/ and the specs of the current configuration. Writes nothing. Says on standard output what is
stale, damaged or of unknown origin, and exits with status 1 if anything is, or if there is nothing to check.
Of a data set that the configuration lacks it checks the bytes alone, against the manifests.
Compared with AGAINST, the record of a table of another run (rules/record.smk), it also names the first job of
the pipeline whose results differ here, or which the record lacks, and exits with status 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from condenser.job import Job, run_job


def main(job: Job) -> None:
    from condenser.files import read_json
    from condenser.pipeline.record import compare, read_record
    from condenser.pipeline.verify import others_of, results_digest, verify
    from condenser.program import printable

    options = job.options
    results, dataset, against = Path(options.results), options.dataset, options.against
    record = None if against is None else read_record(Path(against))
    current = read_json(Path(options.current))
    checked, findings = verify(results, current=current, dataset=dataset)
    for finding in findings:
        print(finding)
    print(f"{checked} artefacts checked, {len(findings)} findings")
    if others := others_of(current, dataset=dataset):
        print(printable(f"not of this configuration, so checked by their bytes alone: {', '.join(others)}"))
    of = f"the results of {dataset}" if dataset else "all results"
    print(f"digest of {of}: {results_digest(results, dataset=dataset)}")
    if any(finding.kind == "stale" for finding in findings):
        print("stale by this configuration: give verify every --configfile that the results were made with")
    num_compared, difference = (0, None) if record is None else compare(record)
    if difference:
        print(printable(f"{against}: the first job with other results is {difference}"))
    elif record is not None:
        print(
            f"{against}: {num_compared} of {len(record['jobs'])} jobs compared, all with the same "
            f"results; digest {record['digest']}"
        )
    if findings or difference:
        sys.exit(1)


if __name__ == "__main__":
    run_job(main)
