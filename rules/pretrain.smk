# Needs: token shards and the backbone. Makes: the Condenser, and from it the coCondenser,
# each a Hugging Face folder with its heads in files of their own.


rule pretrain_condenser:
    input:
        tokens=token_files,
        doc_ids=data("doc_ids.txt"),
        backbone=weights("backbone"),
        backbone_head=head("backbone", "mlm_head"),
    output:
        model="results/{dataset}/models/condenser/model.safetensors",
        config="results/{dataset}/models/condenser/config.json",
        head="results/{dataset}/models/condenser/condenser_head.safetensors",
        mlm_head="results/{dataset}/models/condenser/mlm_head.safetensors",
        losses="results/{dataset}/models/condenser/losses.jsonl",
        manifest="results/{dataset}/models/condenser.manifest.json",
    log:
        "results/{dataset}/logs/pretrain_condenser.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain_condenser.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(32000),
        runtime=growing(1440),
    params:
        spec=spec("pretrain_condenser"),
        work=work("pretrain_condenser"),
        prefixes=lambda wildcards: token_prefixes(wildcards.dataset),
    shell:
        "python $PROGRAMS/launch.py --processes {resources.gpu} $LAUNCH_FLAGS --"
        " $PROGRAMS/pretrain_condenser.py --spec {params.spec:q} --tokens {params.prefixes:q}"
        " --doc-ids {input.doc_ids:q}"
        " --backbone $(dirname {input.backbone:q}) --output $(dirname {output.model:q})"
        " --work-folder {params.work:q} --manifest {output.manifest:q}"
        " $SAFETY_FLAGS 2>&1 | tee {log:q}"


rule pretrain_cocondenser:
    input:
        tokens=token_files,
        doc_ids=data("doc_ids.txt"),
        initial=weights("condenser"),
        initial_head=head("condenser", "condenser_head"),
        initial_mlm_head=head("condenser", "mlm_head"),
    output:
        model="results/{dataset}/models/cocondenser/model.safetensors",
        config="results/{dataset}/models/cocondenser/config.json",
        head="results/{dataset}/models/cocondenser/condenser_head.safetensors",
        mlm_head="results/{dataset}/models/cocondenser/mlm_head.safetensors",
        losses="results/{dataset}/models/cocondenser/losses.jsonl",
        manifest="results/{dataset}/models/cocondenser.manifest.json",
    log:
        "results/{dataset}/logs/pretrain_cocondenser.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain_cocondenser.tsv"
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(32000),
        runtime=growing(1440),
    params:
        spec=spec("pretrain_cocondenser"),
        work=work("pretrain_cocondenser"),
        prefixes=lambda wildcards: token_prefixes(wildcards.dataset),
    shell:
        "python $PROGRAMS/launch.py --processes {resources.gpu} $LAUNCH_FLAGS --"
        " $PROGRAMS/pretrain_cocondenser.py --spec {params.spec:q} --tokens {params.prefixes:q}"
        " --doc-ids {input.doc_ids:q}"
        " --initial $(dirname {input.initial:q}) --output $(dirname {output.model:q})"
        " --work-folder {params.work:q} --manifest {output.manifest:q}"
        " $SAFETY_FLAGS 2>&1 | tee {log:q}"
