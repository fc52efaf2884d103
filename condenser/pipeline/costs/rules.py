"""What a job takes, by its rule: of the rules that are no kind of objective or system.

A rule has the function of its name, `(job, data) -> work`, as a kind has its `cost`. Work is a dict:

- `tokens`, `bytes_on_disk` and `memory_bytes` (besides the process itself) are columns of the plan;
- `flops` (in the device's precision), `fp32_flops` and anything else, such as `hits` or `pairs`, take time
  at the rates of rates.tsv;
- `launches`, passes of a layer through a chunk, take time on a GPU where they are slower than its `flops`;
- `note` is a remark for the plan's last column, and `lacks` says why the job will find no texts.
"""

from __future__ import annotations

from pathlib import Path

from condenser.data import sources
from condenser.data.generators import generator_bytes
from condenser.data.official import official_file
from condenser.pipeline.costs.data import Data, Work
from condenser.pipeline.costs.jobs import Job
from condenser.settings import Settings

_HIT_BYTES = 8 + 4  # a row number and a score; condenser.retrieve.search
_SENTENCES = {"similarity": 2, "triplets": 3, "inference": 2, "neighbours": 2}  # of an item, by task
_JSON_BYTES = 36  # of a line of JSON, besides text and ids


def download(job: Job, data: Data) -> Work | None:
    size = official_file(job.wildcards["file"]).num_bytes
    return None if size is None else {"bytes": size, "bytes_on_disk": size}


def collect(job: Job, data: Data) -> Work | None:
    settings = job.config.dataset
    texts = [data.passages(job), *(data.queries(job, split) for split in sources.splits(settings))]
    written = sum(data.text_bytes(rows) + rows.count * (2 * rows.id_bytes + _JSON_BYTES) for rows in texts)
    if task := sources.task(settings):  # an item has several sentences
        written += (_SENTENCES[task] - 1) * sum(map(data.text_bytes, texts[1:]))
    return {"rows": sum(rows.count for rows in texts), "bytes_on_disk": written}


def extracted(job: Job, data: Data) -> Work:
    rows, queries = data.passages(job).count, data.queries(job)
    written = data.text_bytes(queries) + queries.count * (queries.id_bytes + _JSON_BYTES)
    return {"rows": rows, "bytes_on_disk": written}


def checkpoint(job: Job, data: Data) -> Work:
    weights = data.shape(job).num_weights
    return {"bytes_on_disk": 4 * weights, "memory_bytes": 8 * weights}


def tokens(job: Job, data: Data) -> Work:
    """A token takes two bytes; the number of sentences of a row takes one, and so does each one's length."""
    texts = data.texts(job)
    counts = texts.num_tokens / texts.sentence_tokens + 2 * texts.count
    memory = {"bytes_on_disk": 2 * texts.num_tokens + counts, "memory_bytes": 2 * counts}
    return {"tokens": texts.num_tokens, **memory}


query_tokens = tokens


def bm25_index(job: Job, data: Data) -> Work:
    texts, assumption = data.passages(job), data.tables.assumption
    written = data.text_bytes(texts) * assumption("index_share")
    work: Work = {"rows": texts.count, "bytes_on_disk": written, "memory_bytes": assumption("java_bytes")}
    return work | ({"note": "the length of its expansions is not counted"} if job.config.expansion else {})


def term_weights(job: Job, data: Data) -> Work:
    """A training on the relevant passages, and a forward pass of all; a weight is as long as its word."""
    settings, shape, texts = job.config.term_weights, data.shape(job), data.passages(job)
    length = texts.cut(settings.max_tokens, num_positions=shape.max_positions)
    data.assumptions.append("each train query has a relevant passage of its own")
    judged = data.queries(job).count * (1 - data.share_held_out(job))
    training = data.training(settings, shape, [(1, length)], num_items=judged, keeps_batch=False)
    passes = data.inference(job, shape, num_rows=texts.count, length=length)
    return {
        **training,
        **{unit: training[unit] + passes[unit] for unit in ("tokens", "flops")},
        "rows": texts.count,
        "bytes_on_disk": 2 * data.text_bytes(texts) + texts.count * (texts.id_bytes + _JSON_BYTES),
    }


def generate(job: Job, data: Data) -> Work:
    """Each token of a text, and of those that are generated from it, passes all weights.

    That is too many by about half: a token passes the encoder or the decoder.
    """
    settings, (kind, _, split) = job.config.generated, job.wildcards["texts"].partition(".")
    texts = data.passages(job) if kind == "passages" else data.queries(job, split)
    weights = generator_bytes(Path(settings.model)) / 4  # of float32
    generated = texts.count * settings.samples * settings.max_tokens
    tokens = texts.count * texts.cut(settings.max_input_tokens) + generated
    return {
        "tokens": tokens,
        "flops": 2 * tokens * weights,
        "bytes_on_disk": generated * data.tables.assumption("bytes_per_token")
        + texts.count * (texts.id_bytes + _JSON_BYTES),
        "memory_bytes": 4 * weights,
        "note": "each generated text is counted with max_tokens",
    }


def examples(job: Job, data: Data) -> Work:
    """From a run, or from official files that are read as a whole."""
    files = [need.wildcards["file"] for need in job.needs if need.rule == "download"]
    raw_bytes = sum(official_file(name).num_bytes or 0 for name in files)  # 0: published nowhere
    read = {"raw_bytes": raw_bytes} if files else data.run(job)
    an_example = data.passages(job).id_bytes * (1 + job.config.recipe.negatives.sample)
    return {**read, "bytes_on_disk": data.num_examples(job) * an_example}


pseudo_labels = examples


def queries(job: Job, data: Data) -> Work:
    texts = data.queries(job)
    written = data.text_bytes(texts) + texts.count * (texts.id_bytes + _JSON_BYTES)
    return {"rows": texts.count, "bytes_on_disk": written}


def encode(job: Job, data: Data) -> Work:
    shape, texts = data.shape(job), data.texts(job)
    key = "passage" if "shard" in job.wildcards else "query"
    max_tokens = getattr(job.config.recipe.lengths, key)
    length = texts.cut(max_tokens, num_positions=shape.max_positions)
    work = data.inference(job, shape, num_rows=texts.count, length=length)
    return {**work, "bytes_on_disk": 4 * texts.count * shape.dim}


encode_queries = encode


def search(job: Job, data: Data) -> Work:
    """Products in float32, of each query with each passage of the shard."""
    rows, queries = data.passages(job).count * job.share, data.queries(job).count
    dim, depth, assumption = data.shape(job).dim, min(job.config.depth, rows), data.tables.assumption
    vector, together = 4 * dim, min(assumption("search_queries"), queries)
    query_bytes, scores = vector + 4 * depth * _HIT_BYTES, 0.0
    if data.device.kind == "gpu":
        query_bytes, scores = (
            vector + depth * _HIT_BYTES,
            4 * together * min(job.config.encode.block_rows, rows),
        )
        together = min(assumption("search_held_bytes") / query_bytes, queries)
    block = min(assumption("search_read_bytes"), vector * rows)
    return {
        "fp32_flops": 2 * queries * rows * dim,
        "hits": queries * depth,
        "bytes_on_disk": queries * depth * _HIT_BYTES,
        "memory_bytes": block + together * query_bytes + 2 * scores,
    }


def train_sentences(job: Job, data: Data) -> Work:
    """Each column of a batch of pairs or triplets goes through the encoder as one chunk."""
    recipe, items, shape = job.config.recipe, data.queries(job), data.shape(job)
    rows = [(_sentences(job), items.cut(recipe.max_tokens))]
    settings = Settings(**vars(recipe), rows_per_chunk=recipe.batch_size)
    return data.training(settings, shape, rows, num_items=items.count)


def _sentences(job: Job) -> int:
    """The sentences of an item of a job's data set."""
    task = sources.task(job.config.dataset)
    assert task is not None
    return _SENTENCES[task]


def similarities(job: Job, data: Data) -> Work:
    items, length = data.queries(job), data.queries(job).cut(job.config.recipe.max_tokens)
    work = data.inference(job, data.shape(job), num_rows=_sentences(job) * items.count, length=length)
    return {**work, "bytes_on_disk": items.count * (items.id_bytes + _HIT_BYTES)}


def merge(job: Job, data: Data) -> Work:
    run, num_shards = data.run(job), sum(need.rule == "search" for need in job.needs)
    return {**run, "read_hits": run["hits"] * num_shards}


def metrics(job: Job, data: Data) -> Work:
    hits = data.run(job)["hits"]
    return {"hits": hits, "memory_bytes": 100 * hits}


def table(job: Job, data: Data) -> Work:
    """Only the start of its process."""
    return {}


held_out = subset = lengths = sentence_metrics = table
