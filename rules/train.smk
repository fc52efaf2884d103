# Fine-tuning, one rule for all kinds of systems: from a pre-trained model and the examples of the systems
# whose negatives it learns from, or the run of its teacher. A second round is this rule for another system of
# the configuration: it starts from the pre-trained model again and reads one more file of examples.


from condenser.blocks import FineTuning


rule train:
    input:
        unpack(
            unless_kept(
                "train",
                initial=initial_file,
                tokens=tokens_of_system,
                query_tokens=queries_to_learn_from("tokens"),
                doc_ids=data("doc_ids.txt"),
                queries=queries_to_learn_from("queries"),
                examples=examples_of,
                teacher_run=teacher_run,
                held_out=held_out_of_learner,
                lengths=lengths_if_auto("query", "passage"),
            )
        ),
    output:
        model="results/{dataset}/systems/{system}/{variant}/model/model.safetensors",
        losses="results/{dataset}/systems/{system}/{variant}/model/losses.jsonl",
        validation="results/{dataset}/systems/{system}/{variant}/model/validation.json",
        manifest="results/{dataset}/systems/{system}/{variant}/model.manifest.json",
    log:
        "results/{dataset}/logs/train.{system}.{variant}.log",
    benchmark:
        "results/{dataset}/benchmarks/train.{system}.{variant}.tsv"
    wildcard_constraints:
        system=names(TRAINED),
    priority: 1  # others wait for what it makes
    conda:
        "../envs/torch.yaml"
    threads: THREADS
    resources:
        gpu=GPUS,
        mem_mb=growing(16000),
        runtime=growing(1440),
    params:
        job=SPECS.job(
            "train",
            settings=[
                "system",
                *(f"recipe.{key}" for key in FineTuning.model_fields),
                "recipe.validation",
                "compute",
                "seed",
            ],
            packages=TORCH,
            modules=lambda settings: [kinds.module_name(SYSTEMS, settings.system.kind)],
            options=vars(config.safety),
            processes=True,
        ),
    shell:
        RUN
