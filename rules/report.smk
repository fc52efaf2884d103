# Needs: nothing. Makes: the report of a data set, one page of what has been made so far. What Snakemake is asked
# for together with it is made first.
#
# What it reads is no input: Snakemake would make it, and a report only shows what is there. The rule finds it
# and lists it in a file, the param `counted`; Snakemake makes the report again where that file is another
# (rules/snakemake.smk, as of a plan). The manifest names the results that are shown, so that `verify` calls a
# report stale when one of them has changed, and not when there is more to show.

PAGE = Path(os.path.relpath(ROOT / "condenser" / "report"))


rule report:
    input:
        page=[str(PAGE / f"{name}") for name in ("page.html.j2", "report.css", "report.js")],
        after=lambda wildcards: asked_besides_reports(),
    output:
        report=report(
            "results/{dataset}/report.html",
            caption="../docs/captions/report.rst",
            category="Reports",
            subcategory="{dataset}",
            labels={"report": "{dataset}"},
        ),
        manifest="results/{dataset}/report.html.manifest.json",
    log:
        "results/{dataset}/logs/report.log",
    conda:
        "../envs/report.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "report",
            settings=["report"],
            packages=["jinja2", "matplotlib", "numpy"],
            options=lambda wildcards, threads, resources: {
                **searching(),
                "counted": look_at_results(wildcards.dataset),
            },
        ),
        counted=lambda wildcards: state_of(wildcards.dataset),
    shell:
        RUN
