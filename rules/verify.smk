# Needs: results/ and its manifests. Makes: a report on standard output, and status 1 on any finding,
# or where there is nothing to check. The variable DATASET names the one data set to check, AGAINST a crate of
# another run to compare with. Writes nothing in results/, which may be others' and read-only.

from condenser.pipeline.verify import write_current


rule verify:
    log:
        ".snakemake/verify.log",
    localrule: True
    conda:
        "../envs/verify.yaml"
    params:
        program=program("verify"),
        current=lambda wildcards: write_current(
            Path("results"),
            Path(".snakemake", "current.json"),
            datasets=config["datasets"],
            spec_of=SPECS.spec,
            manifest_of=manifest_of,
        ),
        # a file that the run does not depend on, so it is no input
        options=lambda wildcards: environment.flags(
            {
                name.lower(): os.environ[name]
                for name in ("DATASET", "AGAINST")
                if os.environ.get(name)
            }
        ),
    shell:
        "{params.program} --results results --current {params.current:q} {params.options}"
        " 2>&1 | tee {log:q}"
