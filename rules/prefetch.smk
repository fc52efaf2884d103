# Needs: the network, or a mirror folder. Makes: all that the configured data sets and the backbone
# take from outside, so that the rest can run on nodes without a network.


def prefetch_inputs(wildcards):
    """Official files; texts that the hub's client streams; the backbone where it comes from the hub."""
    files = []
    for dataset, entry in config["datasets"].items():
        files += [f"results/downloads/{name}" for name in sources.raw_files(entry)]
        if entry["source"] == "hub_text":
            files.append(f"results/{dataset}/data/collection.jsonl")
        if config["backbone"]["source"] == "hub" and "train_split" in entry:
            files.append(f"{model_folder(dataset, 'backbone')}/model.safetensors")
    return files


rule prefetch:
    input:
        prefetch_inputs,
    localrule: True
