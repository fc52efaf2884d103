"""Generate texts from each passage, or from each query of a split, with a sequence-to-sequence model.

Reads the files of the model's folder, and the collection or the queries; writes one line of JSON for each
text, by row, and the manifest. Finished blocks are kept in the work folder until the file is complete: a job
that is started again resumes after the last one. Settings: `generated` (the key of an entry of `expansions`),
`compute`, `seed`.
"""

from __future__ import annotations

from typing import Any

from condenser.job import Job, run_job


def main(job: Job) -> dict[str, Any]:
    from condenser.data.records import read_passages, read_queries
    from condenser.files import count_lines
    from condenser.model.devices import set_up
    from condenser.papers.generate import generate_texts
    from condenser.papers.generator_files import passage_input

    compute = set_up(**vars(job.settings.compute))
    job.device = str(compute)
    file, unit = job.input.texts, job.wildcards["texts"].partition(".")[0]
    if unit == "passages":
        texts = ((one.doc_id, passage_input(one.title, one.text)) for one in read_passages(file))
    else:
        texts = ((one.query_id, one.text) for one in read_queries(file))
    settings = {name: value for name, value in vars(job.settings.generated).items() if name != "model"}
    return generate_texts(
        job.input.model[0].parent,
        texts,
        job.output.texts,
        total=count_lines(file),
        unit=unit,
        **settings,
        seed=job.settings.seed,
        compute=compute,
        work_folder=job.work_folder,
    )


if __name__ == "__main__":
    run_job(main)
