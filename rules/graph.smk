# The graph, read off the rules, and the specs of its jobs.

import functools
import os
from pathlib import Path

from condenser.commands import make_command
from condenser.pipeline import costs, kept, specs
from condenser.report.state import write_state


def rule_of(rule_name, wildcards):
    """The rule that runs a job."""
    return workflow.get_rule(SPECS.name_of(rule_name, wildcards))


def inputs_of(rule_name, wildcards):
    """The input files of a job."""
    files, *_ = rule_of(rule_name, wildcards).expand_input(wildcards)
    return specs.files_read(files)


def manifest_of(rule_name, wildcards):
    """Where a job writes its manifest."""
    return str(rule_of(rule_name, wildcards).output.manifest.apply_wildcards(wildcards))


def benchmark_of(rule_name, wildcards):
    """Where Snakemake writes what a job took; None where its rule has no benchmark."""
    file = rule_of(rule_name, wildcards).expand_benchmark(wildcards)
    return str(file) if file else None


@functools.cache
def owner_of(file):
    """The job that makes a file: its rule and wildcards; None of the user's own files."""
    for name in SPECS.rules:
        maker = workflow.get_rule(name)
        if maker.is_producer(file):
            return SPECS.job_of(name, maker.get_wildcards(file))


SPECS = specs.Specs(
    config,
    root=ROOT,
    work=Path(WORK),
    inputs=inputs_of,
    owner=owner_of,
    manifest=manifest_of,
    benchmark=benchmark_of,
)


def is_asked(rule_name):
    """Whether Snakemake was asked to run a rule in any case, or runs here nothing but jobs of it."""
    asked = workflow.dag_settings
    return asked is not None and (
        asked.forceall or rule_name in {*(asked.forcerun or ()), *(asked.allowed_rules or ())}
    )


KEPT = kept.KeptModels(
    SPECS,
    keeps=lambda dataset: vars(config.datasets[dataset]).get("keep_trained", False),
    is_asked=is_asked,
    learnt_of=learnt_of,
)


def unless_kept(rule_name, **inputs):
    """What a rule that makes a model reads, to be unpacked; nothing where the model is kept."""

    def of(wildcards):
        names = dict(wildcards.items())
        if KEPT.record(rule_name, names):
            return {}
        return {
            name: given(wildcards) if callable(given) else given.format(**names)
            for name, given in inputs.items()
        }

    return of


MACHINE = costs.machine_here(config.compute.device)  # of the plan's rates
RUN = "{params.job} 2>&1 | tee {log:q}"  # the shell line of every rule


def growing(first):
    """A resource of which a job asks for `first`, and for as much again at each further attempt."""
    return lambda wildcards, attempt: first * attempt


def overlay_files():
    """The configuration files that the workflow was started with."""
    return [os.path.relpath(file) for file in workflow.config_settings.configfiles]


def searching():
    """What a command that searches is written with: the configuration files, and the systems that it can name."""
    systems = config.systems.items()
    searchable = [name for name, system in systems if system.kind in kinds.names(SEARCHERS)]
    return {"overlays": overlay_files(), "searchable": searchable}


def could_be_made(dataset):
    """Each table and figure of the configuration for a data set, its command, or why it cannot be made."""
    overlays = " ".join(overlay_files())
    found = []
    for noun, ending in (("table", "tsv"), ("table", "tests.tsv"), ("figure", "svg")):
        for name in vars(config)[f"{noun}s"]:
            target = f"results/{dataset}/{name}.{ending}"
            try:
                reason = SPECS.jobs_behind(*owner_of(target)) and None
            except (LookupError, ValueError, SystemExit) as error:
                reason = str(error).removeprefix("error: ")
            command = make_command(target, overlays=overlays)
            found.append({"target": target, "command": command, "reason": reason})
    return found


def java_options(wildcards, threads, resources):
    """The threads and the memory that Java may use."""
    return {"threads": threads, "heap_mb": resources.mem_mb // 2}


@functools.lru_cache(1)
def counted_jobs(wildcards):
    """The file of a plan's rows, by what is finished today; other tables say how fast this machine is."""
    names = SPECS.jobs_behind("table", {"dataset": wildcards.dataset, "table": wildcards.table})
    on = wildcards.on.removeprefix(".")
    others = [] if on else SPECS.jobs_behind_all(filter(None, map(owner_of, made_tables())))
    others = [name for name in others if name not in names]
    rows = costs.plan_of(
        costs.jobs_of(names, SPECS, is_timed=not on),
        wildcards.dataset,
        on or MACHINE,
        others=costs.jobs_of(others, SPECS),
    )
    return costs.write_rows(Path(WORK, "plan", wildcards.dataset), rows)


def made_tables():
    """The tables of other data sets that have been made."""
    return [
        str(file)
        for file in Path("results").glob("*/*.tsv")
        if file.with_name(f"{file.name}.manifest.json").is_file()
    ]


@functools.lru_cache(1)
def state_of(dataset):
    """The file on what had been made of a data set at the last look."""
    return write_state(
        Path(WORK, "report"),
        Path("results"),
        dataset,
        spec_of=SPECS.spec,
        manifest_of=manifest_of,
        could_be_made=could_be_made(dataset),
    )


def look_at_results(dataset):
    """The file on what has been made of a data set so far."""
    state_of.cache_clear()  # Snakemake asks again once a report's inputs have been made
    return state_of(dataset)


def asked_besides_reports():
    """The results that Snakemake was asked for, without reports."""
    targets = workflow.dag_settings.targets if workflow.dag_settings else ()
    files = [
        os.path.relpath(file)
        for target in targets
        for file in (workflow.get_rule(target).input if workflow.is_rule(target) else [target])
        if isinstance(file, str)
    ]
    return sorted(file for file in files if (job := owner_of(file)) and job[0] != "report")
