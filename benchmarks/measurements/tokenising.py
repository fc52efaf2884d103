"""Tokenising a collection to shards against `tokenizers` alone, and what a token takes on disk."""

from __future__ import annotations

from typing import Any

from measuring import Form, functions, in_turn, line
from transformers import AutoTokenizer

from condenser.data.records import read_passages
from condenser.data.tokens import Tokenizer, TokenShards, tokenise_collection
from condenser.shards import shard_files


def measure(form: Form) -> list[dict[str, Any]]:
    """Ours reads the collection, finds sentences and writes the shard; theirs has the texts in memory."""
    data, prefix = form.inputs / "data", form.work / "tokens.0-of-1"
    tokenizer = Tokenizer(form.inputs / "model")
    theirs = AutoTokenizer.from_pretrained(form.inputs / "model").backend_tokenizer
    texts = [passage.text for passage in read_passages(data / "collection.jsonl")]

    def ours() -> None:
        tokenise_collection(
            data / "collection.jsonl",
            data / "doc_ids.txt",
            prefix,
            tokenizer,
            shard="0-of-1",
            multiple_of=1024,
            leading_separator=False,
            batch_size=512,
        )

    seconds = in_turn(
        {"ours": ours, "theirs": lambda: theirs.encode_batch_fast(texts)},
        repeats=form.size(5, 9),
        clock=form.clock,
    )
    tokens = int(TokenShards([prefix]).row_starts[-1])
    size = sum(file.stat().st_size for file in shard_files(prefix))
    return [
        line(
            "tokenising to shards",
            "tokens/s",
            tokens / seconds["ours"],
            better="more",
            against="tokenizers' encode_batch_fast alone",
            peer=tokens / seconds["theirs"],
            least_ratio=0.95,
            profile=functions(ours),
            note=f"the default's {len(texts):,} passages; ours also reads JSON, finds sentences and writes",
        ),
        line(
            "tokens on disk",
            "bytes a token",
            size / tokens,
            better="less",
            most=2.1,
            limit=2.0,
            note="with the bounds of sentences and rows",
        ),
    ]
