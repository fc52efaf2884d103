# Needs: the embedded packages, a folder of the user's, or downloaded official files.
# Makes: the canonical collection, queries and qrels, checked and counted.
#
# One rule a data set, because the splits it makes are the configuration's choice.


for name in config["datasets"]:

    rule:
        name:
            f"collect_{name}"
        input:
            collect_inputs(name),
        output:
            collect_outputs(name),
            manifest=f"results/{name}/data.manifest.json",
        log:
            f"results/{name}/logs/collect.log",
        benchmark:
            f"results/{name}/benchmarks/collect.tsv"
        conda:
            "../envs/data.yaml"
        resources:
            mem_mb=growing(8000),
            runtime=growing(480),
        params:
            spec=lambda wildcards, dataset=name: SPECS.text(
                "collect", {"dataset": dataset}
            ),
            folder=lambda wildcards, output: os.path.dirname(output[0]),
        shell:
            "python $PROGRAMS/collect.py --spec {params.spec:q} --raw {input:q}"
            " --output {params.folder:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
