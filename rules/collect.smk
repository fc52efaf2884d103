# Needs: the embedded packages, a folder of the user's, or downloaded official files.
# Makes: the canonical collection, queries and qrels, checked and counted.
#
# One rule a data set, because the splits it makes are the configuration's choice.


def collect_inputs(dataset):
    """The files a data set is made from: official downloads and the user's own."""
    entry = config["datasets"][dataset]
    downloads = [f"results/downloads/{name}" for name in sources.raw_files(entry)]
    return [*downloads, *map(str, sources.local_files(entry))]


def collect_outputs(dataset):
    entry = config["datasets"][dataset]
    splits = [entry[key] for key in ("train_split", "eval_split") if key in entry]
    names = ["collection.jsonl", "doc_ids.txt", "rejected.jsonl", "counts.json"]
    names += [f"queries.{split}.jsonl" for split in splits]
    names += [f"qrels.{split}.tsv" for split in splits]
    return [f"results/{dataset}/data/{name}" for name in names]


for name in config["datasets"]:

    rule:
        name:
            f"collect_{name}"
        input:
            collect_inputs(name),
        output:
            collect_outputs(name),
            manifest=f"results/{name}/data/manifest.json",
        log:
            f"results/{name}/logs/collect.log",
        benchmark:
            f"results/{name}/benchmarks/collect.tsv"
        conda:
            "../envs/data.yaml"
        params:
            spec=lambda wildcards, dataset=name: SPECS.text(
                "collect", {"dataset": dataset}
            ),
            folder=f"results/{name}/data",
        shell:
            "python {PROGRAMS}/collect.py --spec {params.spec:q} --raw {input:q}"
            " --output {params.folder:q} --manifest {output.manifest:q} 2>&1 | tee {log:q}"
