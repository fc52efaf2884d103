# Needs: results/ and its manifests. Makes: a report on standard output, and status 1 on any finding,
# or where there is nothing to check.


rule verify:
    log:
        "results/logs/verify.log",
    localrule: True
    conda:
        "../envs/verify.yaml"
    params:
        config=lambda wildcards: json.dumps(config, sort_keys=True),
    shell:
        "python $PROGRAMS/verify.py --results results --config <(printf %s {params.config:q})"
        " --root $(dirname $PROGRAMS) 2>&1 | tee {log:q}"
