"""Tokenising a collection to shards against `tokenizers` alone, and what a token takes on disk."""

from __future__ import annotations

from typing import Any

from jobs import tokenise
from measuring import Form, functions, in_turn, line, lines
from transformers import AutoTokenizer

from condenser.data.records import read_passages
from condenser.data.tokens import Tokenizer, TokenShards
from condenser.shards import shard_files


def measure(form: Form) -> list[dict[str, Any]]:
    """Ours reads the collection, finds sentences and writes the shard; theirs has the texts in memory."""
    data, prefix = form.inputs / "data", form.work / "tokens.0-of-1"
    tokenizer, collection = Tokenizer(form.inputs / "model"), data / "collection.jsonl"
    theirs = AutoTokenizer.from_pretrained(form.inputs / "model").backend_tokenizer
    texts = [passage.text for passage in read_passages(collection)]

    def ours() -> None:
        tokenise(collection, data / "doc_ids.txt", prefix, tokenizer)

    works = {"ours": ours, "theirs": lambda: theirs.encode_batch_fast(texts)}
    seconds = in_turn(works, repeats=form.size(5, 9), clock=form.clock)
    tokens, alone = int(TokenShards([prefix]).row_starts[-1]), "tokenizers' encode_batch_fast alone"
    size = sum(file.stat().st_size for file in shard_files(prefix)) / tokens
    note = f"the default's {len(texts):,} passages; ours also reads JSON, finds sentences and writes"
    return [
        *lines(
            "tokenising to shards", "tokens/s", tokens / seconds["ours"], {alone: tokens / seconds["theirs"]},
            goals={alone: 0.95}, profile=functions(ours), note=note,
        ),
        line(
            "tokens on disk", "bytes a token", size, better="less", most=2.1, limit=2.0,
            note="with the bounds of sentences and rows",
        ),
    ]  # fmt: skip
