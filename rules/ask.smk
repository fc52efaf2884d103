# Needs: finished systems. Makes: a list of what can be asked, on standard output, and the file from which
# `make search` and `make serve` start the same program; they run this rule where that file is out of date. Nothing
# is asked inside a job: Snakemake would hold this folder's lock while the page is served.

from condenser.pipeline.known import KnownWriter


rule ask:
    log:
        ".snakemake/ask.log",
    localrule: True
    conda:
        "../envs/ask.yaml"
    params:
        program=ROOT / "workflow_scripts" / "ask.py",
        known=lambda wildcards: KnownWriter(
            config=config,
            results=Path("results"),
            encoder_of=encoder_file,
            lengths_of=lengths_file,
            tokenizer_of=tokenizer_file,
            specs=SPECS,
        ).write(
            Path(".snakemake", "known.json"),
            # of make; without it they are unknown, and the next make writes the file again
            arguments=[os.environ.get("CONFIG", ""), os.environ.get("MAKE_ARGUMENTS")],
            files=read_for_known(),
        ),
    shell:
        "python {params.program:q} --known {params.known:q} 2>&1 | tee {log:q}"
