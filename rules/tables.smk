# Needs: runs and judgements. Makes: the metrics of each system, and tables of them.

from condenser.evaluate import measures, published


def texts_with_answers(wildcards):
    """The passages and the queries, where a measure looks for answers in texts."""
    names = experiment.metrics(config, wildcards.dataset)["measures"]
    if not any(measures.parse(name).needs_answers for name in names):
        return []
    return [
        data(file)(wildcards) for file in ("collection.jsonl", "queries.{split}.jsonl")
    ]


rule metrics:
    input:
        run=SYSTEM + "run.{split}.trec",
        qrels=data("qrels.{split}.tsv"),
        texts=texts_with_answers,
    output:
        metrics=SYSTEM + "metrics.{split}.json",
        manifest=SYSTEM + "metrics.{split}.json.manifest.json",
    log:
        "results/{dataset}/logs/metrics.{system}.{variant}.{split}.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        spec=spec(
            "metrics",
            settings=["metrics"],
            packages=["numpy"],
            modules=lambda settings: sorted(
                measures.parse(name).module.__name__
                for name in settings["metrics"]["measures"]
            ),
        ),
        texts=lambda wildcards, input: (
            f"--texts {' '.join(map(shlex.quote, input.texts))}"
            if input.get("texts")
            else ""
        ),
    shell:
        "python {PROGRAMS:q}/metrics.py --spec {params.spec:q} --run {input.run:q}"
        " --qrels {input.qrels:q} {params.texts} --output {output.metrics:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


def metrics_of_table(wildcards):
    """The metrics of each row of a table and each of its variants, in order."""
    split = split_of(wildcards.dataset, "eval_split")
    known = experiment.metrics(config, wildcards.dataset)["measures"]
    for name in config["tables"][wildcards.table]["measures"]:
        if name not in known:
            sys.exit(
                f"error: results/{wildcards.dataset}/{wildcards.table}.tsv: expected measures of the data set "
                f"({', '.join(known)}), got {name}. Add it to datasets.{wildcards.dataset}.measures."
            )
    return [
        system_file(wildcards.dataset, row["system"], variant, f"metrics.{split}.json")
        for row in experiment.table_rows(config, wildcards.dataset, wildcards.table)
        for variant in row["variants"]
    ]


def published_figures(wildcards):
    name = config["tables"][wildcards.table]["published"]
    return [] if name is None else str(published.file(name))


rule table:
    input:
        metrics=metrics_of_table,
        counts=data("counts.json"),
        published=published_figures,
    output:
        table="results/{dataset}/{table}.tsv",
        manifest="results/{dataset}/{table}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/table.{table}.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        spec=spec(
            "table",
            settings=["table", "dataset.source", "recipe.depth.eval"],
            packages=["pandas"],
            modules=lambda settings: [
                *(measures.parse(name).module.__name__ for name in settings["table"]["measures"])
            ],
        ),
        published=lambda wildcards, input: (
            f"--published {shlex.quote(str(input.published))}"
            if input.get("published")
            else ""
        ),
    shell:
        "python {PROGRAMS:q}/table.py --spec {params.spec:q} --metrics {input.metrics:q}"
        " --counts {input.counts:q} {params.published} --output {output.table:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"
