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
        job=SPECS.job("metrics", settings=["metrics"], packages=["numpy"], modules=measure_modules),
    shell:
        RUN


rule table:
    input:
        unpack(rows_of_table),
        unpack(noted_of_table),
        counts=counts_of_table,
        published=published_figures,
        after=tests_of_table,
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
        job=SPECS.job(
            "table",
            settings=["table", "significance", "notes"],
            packages=["numpy", "pandas", "scipy"],
            modules=lambda settings: list(
                dict.fromkeys(
                    measures.parse(column["measure"]).module.__name__ for column in settings.table.columns
                )
            ),
            options=lambda wildcards, threads, resources: {
                **searching(),
                "is_tested": bool(tests_of_table(wildcards)),
            },
        ),
    shell:
        RUN


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
        job=SPECS.job(
            "compare",
            settings=["table.rows", "table.comparisons", "table.columns", "significance"],
            packages=["numpy", "pandas", "scipy"],
        ),
    shell:
        RUN
