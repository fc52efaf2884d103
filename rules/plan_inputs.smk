# What a plan is made from: the jobs behind a table, and what their finished results count.

from condenser import objectives, systems
from condenser.pipeline.costs import jobs as planned

COSTS = ROOT / "condenser" / "pipeline" / "costs" / "tables"


def jobs_of_table(wildcards):
    """All jobs behind a table."""
    return SPECS.jobs_behind(
        "table", {"dataset": wildcards.dataset, "table": wildcards.table}
    )


def settings_of_jobs(wildcards):
    """A file of the table's jobs with their settings."""
    file = Path(WORK, "plan", wildcards.dataset, f"jobs_of_{wildcards.table}.json")
    try:
        planned.write_jobs(
            file,
            jobs_of_table(wildcards),
            config_of=lambda stage, of: SPECS.spec(stage, of)["config"],
            needs_of=lambda stage, of: filter(
                None, map(owner_of, inputs_of(stage, of))
            ),
        )
    except (LookupError, ValueError) as error:
        sys.exit(f"error: plan: {error}")
    return str(file)


def finished_jobs(wildcards):
    """A file of what the finished results of these jobs count; of this machine, how long they took, too."""

    def benchmark_of(stage, of):
        if wildcards.on:
            return None
        return rule_of(stage, of).expand_benchmark(of)

    return planned.write_finished(
        Path(WORK, "plan", wildcards.dataset),
        [
            planned.finished(
                Path(manifest_of(stage, of)),
                benchmark_of(stage, of),
                spec=SPECS.spec(stage, of),
            )
            for stage, of in jobs_of_table(wildcards)
        ],
    )
