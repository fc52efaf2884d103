# Needs: a bi-encoder with its vectors of the collection; where queries are judged, its metrics. Makes: a folder
# that sentence-transformers, transformers, Pyserini and ONNX Runtime read (docs/systems.md), once the first of them
# has ranked with it as this workflow does.


rule export:
    input:
        unpack(evaluation_files),
        model=encoder_of,
        embeddings=[
            f"results/{{dataset}}/systems/{{system}}/{{variant}}/embeddings/collection.{shard}.npy"
            for shard in SHARDS
        ],
        collection=data("collection.jsonl"),
        doc_ids=data("doc_ids.txt"),
        counts=data("counts.json"),
        lengths=lambda wildcards: lengths_file(wildcards.dataset, initial_of(wildcards)),
        template=os.path.relpath(ROOT / "condenser" / "export" / "card.md.j2"),
    output:
        card="results/{dataset}/systems/{system}/{variant}/export/model/README.md",
        index="results/{dataset}/systems/{system}/{variant}/export/pyserini/index",
        agreement="results/{dataset}/systems/{system}/{variant}/export/agreement.json",
        manifest="results/{dataset}/systems/{system}/{variant}/export.manifest.json",
    log:
        "results/{dataset}/logs/export.{system}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/export.{system}.{variant}.tsv"
    wildcard_constraints:
        system=names(BIENCODERS),
    conda:
        "../envs/export.yaml"
    threads: THREADS
    resources:
        mem_mb=growing(16000),
        runtime=growing(480),
    params:
        job=SPECS.job(
            "export",
            settings=[
                "dataset.split",
                "system",
                "recipe.lengths",
                *("encode.batch_tokens", "encode.block_rows", "encode.separator"),
                "compute.threads",
                "significance.confidence",
                "notes",
            ],
            packages=[*TORCH, "faiss-cpu", "onnx", "onnxruntime", "onnxscript", "sentence-transformers"],
        ),
    shell:
        RUN
