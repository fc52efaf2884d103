# Needs: runs and judgements. Makes: the metrics of each system, tables of them, and how sure a table is.


rule metrics:
    input:
        run="results/{dataset}/systems/{system}/{variant}/run.{split}.trec",
        qrels=data("qrels.{split}.tsv"),
        texts=texts_with_answers,
    output:
        metrics="results/{dataset}/systems/{system}/{variant}/metrics.{split}.json",
        manifest="results/{dataset}/systems/{system}/{variant}/metrics.{split}.json.manifest.json",
    log:
        "results/{dataset}/logs/metrics.{system}.{variant}.{split}.log",
    wildcard_constraints:
        system=names(RANKERS),
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(8000),
        runtime=growing(60),
    params:
        program=program("metrics"),
        spec=spec(
            "metrics",
            settings=["metrics"],
            packages=["numpy"],
            modules=measure_modules,
        ),
        texts=given("texts"),
    shell:
        "{params.program} --spec {params.spec:q} --run {input.run:q}"
        " --qrels {input.qrels:q} {params.texts} --output {output.metrics:q}"
        " --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule table:
    input:
        unpack(rows_of_table),
        unpack(noted_of_table),
        counts=counts_of_table,
        published=published_figures,
    output:
        table=report(
            "results/{dataset}/{table}.tsv",
            caption="../docs/captions/table.rst",
            category="Tables",
            subcategory="{dataset}",
            labels={"table": "{table}", "what": "measures"},
        ),
        notes="results/{dataset}/{table}.tsv.notes.txt",
        manifest="results/{dataset}/{table}.tsv.manifest.json",
    log:
        "results/{dataset}/logs/table.{table}.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        program=program("table"),
        spec=spec(
            "table",
            settings=["table", "significance", "notes"],
            packages=["numpy", "pandas", "scipy"],
            modules=lambda settings: list(
                dict.fromkeys(
                    measures.parse(column["measure"]).module.__name__
                    for column in settings["table"]["columns"]
                )
            ),
        ),
        rows=given("metrics", "models", "lengths", "losses"),
        published=given("published"),
        overlays=f"--overlays {shlex.join(overlay_files())}" if overlay_files() else "",
    shell:
        "{params.program} --spec {params.spec:q} {params.rows} {params.overlays}"
        " --counts {input.counts:q} {params.published} --output {output.table:q}"
        " --notes {output.notes:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"


rule compare:
    input:
        metrics=metrics_to_compare,
    output:
        tests=report(
            "results/{dataset}/{table}.tests.tsv",
            caption="../docs/captions/tests.rst",
            category="Tables",
            subcategory="{dataset}",
            labels={"table": "{table}", "what": "tests"},
        ),
        manifest="results/{dataset}/{table}.tests.tsv.manifest.json",
    log:
        "results/{dataset}/logs/compare.{table}.log",
    conda:
        "../envs/search.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(30),
    params:
        program=program("compare"),
        spec=spec(
            "compare",
            settings=[
                "table.rows",
                "table.comparisons",
                "table.columns",
                "significance",
            ],
            packages=["numpy", "pandas", "scipy"],
        ),
    shell:
        "{params.program} --spec {params.spec:q} --metrics {input.metrics:q}"
        " --output {output.tests:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
