# Needs: finished systems. Makes: a list of what can be asked, on standard output, and the file from which
# `make search` and `make serve` start the same program. Nothing is asked inside a job: Snakemake would hold
# this folder's lock while the page is served.

from condenser.pipeline.known import Known


rule ask:
    log:
        ".snakemake/ask.log",
    localrule: True
    conda:
        "../envs/ask.yaml"
    params:
        program=ROOT / "workflow_scripts" / "ask.py",
        known=lambda wildcards: Known(
            config=config,
            results=Path("results"),
            encoder_of=encoder_file,
            lengths_of=lengths_file,
            tokenizer_of=tokenizer_file,
            specs=SPECS,
        ).write(Path(".snakemake", "known.json")),
    shell:
        "python {params.program:q} --known {params.known:q} 2>&1 | tee {log:q}"
