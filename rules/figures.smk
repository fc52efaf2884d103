# Needs: what figures show, of models, systems and tables. Makes: figures, each a picture and its numbers.


# Needs: an encoder and all token shards. Makes: the entropy of its [CLS] attention, passage by passage.
rule attention_entropy:
    input:
        model=encoder_of,
        tokens=tokens_of_system,
        doc_ids=data("doc_ids.txt"),
        lengths=lengths_if_auto("passage"),
    output:
        entropies="results/{dataset}/systems/{system}/{variant}/attention_entropy.{passages}-seed{draw}.json",
        manifest="results/{dataset}/systems/{system}/{variant}/attention_entropy.{passages}-seed{draw}.json.manifest.json",
    log:
        "results/{dataset}/logs/attention_entropy.{system}.{variant}.{passages}-seed{draw}.log",
    benchmark:
        "results/{dataset}/benchmarks/attention_entropy.{system}.{variant}.{passages}-seed{draw}.tsv"
    wildcard_constraints:
        system=names(BIENCODERS),
        passages=r"[1-9]\d*",
        draw=r"\d+",
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        job=SPECS.job(
            "attention_entropy",
            settings=["recipe.lengths.passage", "encode.batch_tokens", "compute.threads", "compute.device"],
            packages=TORCH,
        ),
    shell:
        RUN


rule figure:
    input:
        files=files_of_figure,
        published=published_beside_figure,
    output:
        table="results/{dataset}/{figure}.tsv",
        picture=report(
            "results/{dataset}/{figure}.svg",
            caption="../docs/captions/figure.rst",
            category="Figures",
            subcategory="{dataset}",
            labels={"figure": "{figure}"},
        ),
        manifest="results/{dataset}/{figure}.manifest.json",
    log:
        "results/{dataset}/logs/figure.{figure}.log",
    conda:
        "../envs/figures.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        job=SPECS.job(
            "figure",
            settings=["figure", "significance"],
            packages=["matplotlib", "numpy", "pandas", "scipy"],
            modules=lambda settings: [kinds.module_name(figures.FOLDER, settings.figure.kind)],
        ),
    shell:
        RUN
