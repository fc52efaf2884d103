# Needs: results/ and its manifests. Makes: a report on standard output, and status 1 on any finding,
# or where there is nothing to check. The variable DATASET names the one data set to check, AGAINST the
# record of another run to compare with. Writes nothing in results/, which may be others' and read-only.

from condenser.pipeline.verify import write_current


rule verify:
    log:
        ".snakemake/verify.log",
    localrule: True
    conda:
        "../envs/verify.yaml"
    params:
        # AGAINST is a file that the run does not depend on, so it is no input
        job=lambda wildcards: SPECS.command(
            "verify",
            options={
                "results": "results",
                "current": write_current(
                    Path("results"),
                    Path(".snakemake", "current.json"),
                    datasets=config.datasets,
                    spec_of=SPECS.spec,
                    manifest_of=manifest_of,
                ),
                "dataset": os.environ.get("DATASET") or None,
                "against": os.environ.get("AGAINST") or None,
            },
        ),
    shell:
        RUN
