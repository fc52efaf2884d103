"""What is compared: the rows of the table, with what is allowed and why."""

from __future__ import annotations

from compare import Row


def _gradients(what: str, check: str) -> list[Row]:
    groups = (("backbone", "lm.bert.*"), ("MLM head", "lm.cls.*"), ("Condenser head", "c_head.*"))
    return [Row(f"{what}: gradients of the {part}", (check,), f"grad/{names}") for part, names in groups]


def _both(check: str) -> tuple[str, str]:
    """The check on luyug/Dense, and on Tevatron, its descendant."""
    return f"{check}_dense", f"{check}_tevatron"


CONDENSER = [
    Row("Condenser: loss", ("condenser",), "loss"),
    Row("Condenser: loss of the head", ("condenser",), "head_mlm"),
    Row("Condenser: loss of the last layer", ("condenser",), "late_mlm"),
    *_gradients("Condenser", "condenser"),
    Row(
        "Condenser: loss of a batch in two accumulated parts",
        ("condenser",),
        "loss of two parts",
        known=(1e-6, 0.5),
        why="there the mean of the parts' means, here the mean over all masked tokens",
    ),
]

COCONDENSER = [
    Row("coCondenser: contrastive loss", ("cocondenser",), "contrastive"),
    Row("coCondenser: MLM losses", ("cocondenser",), "mlm"),
    Row("coCondenser, no cache: loss", ("cocondenser",), "loss"),
    *_gradients("coCondenser, no cache", "cocondenser"),
    Row("coCondenser, cache, one chunk, `mlm_weight: 2`: loss", ("cache_one_chunk",), "loss"),
    *_gradients("coCondenser, cache, one chunk, `mlm_weight: 2`", "cache_one_chunk"),
    Row("coCondenser, cache, three chunks weighed as there: loss", ("cache_three_chunks",), "loss"),
    *_gradients("coCondenser, cache, three chunks weighed as there", "cache_three_chunks"),
    Row(
        "coCondenser, cache, one chunk: weight of the MLM losses",
        ("cache_one_chunk",),
        "mlm weight",
        known=(1 - 1e-9, 1 + 1e-9),
        why="1 here (eq. 7), 2 there",
    ),
    Row(
        "coCondenser, cache, three chunks: weight of the MLM losses",
        ("cache_three_chunks",),
        "mlm weight",
        known=(0.8, 1.2),
        why="1 here (eq. 7), about 2 there",
    ),
    Row("coCondenser, two processes there: contrastive loss", ("two_processes",), "contrastive"),
    Row("coCondenser, two processes there: gradients of the contrastive loss", ("two_processes",), "grad/*"),
    Row(
        "coCondenser, two processes there: MLM losses",
        ("two_processes",),
        "mlm",
        known=(1e-6, 0.5),
        why="there the mean of the processes' means, here the mean over all masked tokens",
    ),
]

TEXTS = [
    Row("masked tokens, words in the same order: positions", ("masking",), "positions", 0),
    Row("masked tokens, words in the same order: counts of each row", ("masking",), "counts", 0),
    Row("masked tokens, own draws: share of tokens", ("masking",), "share of tokens", 0.005),
    Row(
        "masked tokens, own draws: shares of [MASK], another token, the same",
        ("masking",),
        "shares of actions",
        0.02,
    ),
    Row(
        "masked tokens, own draws: special tokens among the random ones",
        ("masking",),
        "specials among random tokens",
        known=(0.002, 0.03),
        why="none here; there 5 of the whole vocabulary (500 words in this check, 30,522 in BERT)",
    ),
    Row(
        "over-long blocks: words masked in part",
        ("long_blocks",),
        "words masked in part",
        known=(1, 1000),
        why="none here; there ids and mask come from two different random windows",
    ),
    *(
        Row(f"blocks, same sentences, short ones {share}, same draws", ("blocks",), f"* {probability}", 0)
        for probability, share in ((0.0, "0 %"), (0.1, "10 %"), (0.5, "50 %"))
    ),
]

FINE_TUNING = [
    Row("fine-tuning: query ids", _both("finetuning"), "query ids", 0),
    Row(
        "fine-tuning: ids of positives and of the window of negatives in 7 epochs, same shuffle",
        _both("finetuning"),
        "passage ids",
        0,
    ),
    Row("fine-tuning: loss", _both("finetuning"), "plain: loss"),
    Row("fine-tuning: gradients", _both("finetuning"), "plain: grad/*"),
    Row("fine-tuning with GradCache: loss", _both("finetuning"), "cache: loss"),
    Row("fine-tuning with GradCache: gradients", _both("finetuning"), "cache: grad/*"),
    Row(
        "fine-tuning: steps of an epoch, 8 queries in batches of 3",
        _both("batches"),
        "*",
        known=(1, 1),
        why="the last, shorter batch is trained on here, left out there",
    ),
    Row(
        "hard negatives: candidates, run deeper than `negatives.depth`",
        _both("mining"),
        "candidates, deep",
        0,
    ),
    Row("hard negatives: number sampled for each query", _both("mining"), "sampled", 0),
    Row(
        "hard negatives: number of candidates, run as deep as `negatives.depth`",
        _both("mining"),
        "candidates, cut",
        known=(1, 4),
        why="positives take places of the run here; there the first that are no positives, however deep",
    ),
    Row("negatives of triples: distinct ones", _both("triples"), "negatives", 0),
    Row(
        "negatives of triples: judged positive",
        _both("triples"),
        "judged positive",
        known=(1, 1),
        why="left out here, kept there",
    ),
    Row(
        "negatives of triples: listed again",
        _both("triples"),
        "listed again",
        known=(1, 1),
        why="each once here, as often as triples name it there",
    ),
    Row("training passages: ids, no quotation mark at the front", _both("csv"), "training, others", 0),
    Row(
        "training passages: ids, a quotation mark at the front",
        _both("csv"),
        "training, quotes",
        known=(1, 500),
        why="kept here; there the collection is read as CSV, which takes quotation marks away",
    ),
]

ENCODINGS = [
    Row("encodings: titled passages", _both("encodings"), "titled, always"),
    Row("encodings: untitled passages, `separator: always`", _both("encodings"), "untitled, always"),
    Row(
        "encodings: untitled passages, `separator: titled`",
        _both("encodings"),
        "untitled, titled",
        known=(1e-3, 10),
        why="no [SEP] before them here, one there",
    ),
    Row("encodings: all passages, by `encode_texts` in float32", _both("encodings"), "all, float32", 1e-5),
    Row("encodings: ids of passages with quotation marks", _both("csv"), "encoding", 0),
]

OPTIMISER = [
    Row("ten updates, Trainer of transformers 4.57: losses", ("trainer",), "losses"),
    Row("ten updates, Trainer of transformers 4.57: gradient norms", ("trainer",), "norms"),
    Row("ten updates, Trainer of transformers 4.57: learning rates", ("trainer",), "rates"),
    Row("ten updates, Trainer of transformers 4.57: movement of the weights", ("trainer",), "moved/*", 1e-9),
    Row("weights that have weight decay, transformers 4.57", ("trainer",), "decays/*", 0),
    Row("weights that have weight decay, transformers 4.2.0", ("adamw",), "decays/*", 0),
    Row(
        "ten updates, AdamW of 4.2.0, epsilon corrected, no decay: movement",
        ("adamw_epsilon",),
        "moved/*",
        1e-9,
    ),
    Row(
        "ten updates, AdamW of 4.2.0: movement",
        ("adamw",),
        "moved/*",
        known=(1e-6, 1e-3),
        why="there epsilon is added before the bias correction, and weight decay comes after the update",
    ),
    Row("learning rate, warm-up 0.1 of 30 steps", ("schedule_30",), "factors"),
    Row(
        "learning rate, warm-up 0.1 of 25 steps",
        ("schedule_25",),
        "factors",
        known=(0.01, 0.2),
        why="3 steps of warm-up here, 2.5 there",
    ),
    Row("warm-up of fine-tuning, `configs/paper.yaml` and transformers 4.2.0", ("warmup",), "*", 0),
]

ROWS = [*CONDENSER, *COCONDENSER, *TEXTS, *FINE_TUNING, *ENCODINGS, *OPTIMISER]
