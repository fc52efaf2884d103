# Shared by all rules: the validated configuration, the specs, and where things stand.

import os
import sys

from condenser.config import validated
from condenser.data import sources
from condenser.pipeline import reasons, specs, stages

# The programs run with the interpreter that runs Snakemake, and find the package from any folder.
os.environ["PATH"] = os.pathsep.join(
    [os.path.dirname(sys.executable), os.environ["PATH"]]
)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(workflow.basedir), *filter(None, [os.environ.get("PYTHONPATH")])]
)

try:
    config = validated(config)
except ValueError as error:
    sys.exit(f"error: config: {error}")

PROGRAMS = os.path.join(workflow.basedir, "workflow_scripts")
WORK = "results/.work"
SPECS = specs.Specs(
    config, root=Path(workflow.basedir), digest_cache=Path(WORK, "digests.json")
)
# What changes no result is no param: rules name it in their shell lines.
SAFETY = config["safety"]
DOWNLOADS = config["downloads"]
MIRROR = DOWNLOADS["mirror"] or ""
THREADS = config["compute"]["threads"]

reasons.explain(logger, SPECS.spec)


wildcard_constraints:
    dataset="|".join(map(re.escape, config["datasets"])),
    split="[A-Za-z0-9_-]+",
    shard=r"\d+-of-\d+",
    system=r"bm25|(backbone|condenser|cocondenser)-round[1-9]\d*",


def spec(stage):
    """The param of a rule: the canonical spec of its job."""

    def of(wildcards):
        try:
            return SPECS.text(stage, dict(wildcards.items()))
        except ValueError as error:
            sys.exit(f"error: {error}")

    return of


def work(stage):
    """The folder in which a long job keeps what it has done so far, keyed by its spec."""
    return (
        lambda wildcards: f"{WORK}/{stage}-{SPECS.hash(stage, dict(wildcards.items()))[:16]}"
    )


def data(name):
    """A canonical file of the job's data set."""
    return f"results/{{dataset}}/data/{name}"


def split_of(dataset, which):
    return config["datasets"][dataset][f"{which}_split"]


def token_parts(prefix):
    """The three files of one token shard."""
    return multiext(
        prefix, ".tokens.npy", ".sentence_lengths.npy", ".num_sentences.npy"
    )


def token_prefixes(dataset):
    """The shard prefixes of a data set's collection, in row order."""
    return [
        f"results/{dataset}/tokens/collection.{shard}"
        for shard in stages.shards(config, "tokens")
    ]


def token_files(wildcards):
    return [f"{prefix}.tokens.npy" for prefix in token_prefixes(wildcards.dataset)]


def model_folder(dataset, pretrained):
    """Where the pre-trained model used for a data set stands."""
    return f"results/{stages.home(config, dataset, pretrained)}/models/{pretrained}"


def weights(pretrained):
    """Input function: the weights of a pre-trained model."""
    return (
        lambda wildcards: f"{model_folder(wildcards.dataset, pretrained)}/model.safetensors"
    )


def run_file(dataset, system, split):
    return f"results/{dataset}/runs/{system}.{split}.trec"
