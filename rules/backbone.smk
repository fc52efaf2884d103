# Needs: the network for a hub id, the collection for a scratch vocabulary, else nothing.
# Makes: the backbone as a Hugging Face folder, with an MLM head in a file of its own.


rule backbone:
    input:
        unpack(backbone_inputs),
    output:
        model="results/{dataset}/models/backbone/model.safetensors",
        config="results/{dataset}/models/backbone/config.json",
        tokenizer="results/{dataset}/models/backbone/tokenizer.json",
        mlm_head="results/{dataset}/models/backbone/mlm_head.safetensors",
        manifest="results/{dataset}/models/backbone.manifest.json",
    log:
        "results/{dataset}/logs/backbone.log",
    localrule: config["backbone"]["source"] == "hub"
    conda:
        "../envs/torch.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        spec=spec("backbone"),
        collection=lambda wildcards, input: (
            f"--collection {input.collection}" if "collection" in input.keys() else ""
        ),
    shell:
        "python $PROGRAMS/backbone.py --spec {params.spec:q} {params.collection}"
        " $MIRROR_FLAG --output $(dirname {output.model:q})"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
