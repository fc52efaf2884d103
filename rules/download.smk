# Needs: the network, or a mirror folder. Makes: official files, checked, under results/downloads/.


rule download:
    output:
        file="results/downloads/{file}",
        manifest="results/downloads/{file}.manifest.json",
    log:
        "results/downloads/logs/{file}.log",
    wildcard_constraints:
        file=r"(?!.*\.manifest\.json).+",
    retries: 1
    localrule: True
    conda:
        "../envs/data.yaml"
    params:
        spec=spec("download"),
    shell:
        "python $PROGRAMS/download.py --spec {params.spec:q} --output {output.file:q}"
        " $MIRROR_FLAG $DOWNLOAD_FLAGS"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
