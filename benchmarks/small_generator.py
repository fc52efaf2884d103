"""Train a small generator for the key `generated` of `expansions`, where no T5 or BART can be had.

    python benchmarks/small_generator.py ../my/squad ../my/doct5query-squad --pairs query
    python benchmarks/small_generator.py ../my/squad ../my/gar --pairs answer --epochs 9 --batch-size 32
    python benchmarks/small_generator.py results/msmarco/data ../my/doct5query-pydoc --pairs query \\
        --held-out results/msmarco/held_out/seed42.txt

An encoder and a decoder, both the embedded MiniLM, the decoder with new layers of cross attention and a head
that is tied to its word embeddings, learn from the judged pairs of the train split (BEIR's layout, or the
files that the workflow makes of a data set):

  query      passage -> query: docT5query (Nogueira and Lin 2019)
  answer     query -> its first answer: GAR (Mao et al. 2021, section 3.2), as the next two
  sentence   query -> the sentence of its relevant passage that holds the answer
  title      query -> the title of its relevant passage

The folder that it writes is as transformers' save_pretrained makes it, with the tokenizer.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, EncoderDecoderModel
from transformers.utils import logging as transformers_logging

from condenser.data.generators import passage_input
from condenser.model.backbone_sources import embedded_folder
from condenser.model.devices import autocast, choose_device, choose_precision

WARM_UP = 0.1  # share of the steps; then the rate falls in a line to 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the pairs, train, and write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with corpus.jsonl or collection.jsonl")
    parser.add_argument("output", type=Path, help="folder to write")
    parser.add_argument("--pairs", choices=("query", "answer", "sentence", "title"), required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--most", type=int, help="take the first pairs alone")
    parser.add_argument("--held-out", type=Path, help="file with ids of queries to leave out, one a line")
    parser.add_argument("--max-input-tokens", type=int, default=256)
    parser.add_argument("--max-tokens", type=int, default=48, help="of what is to be generated")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    torch.manual_seed(args.seed)
    transformers_logging.set_verbosity_error()  # it would list the new weights
    transformers_logging.disable_progress_bar()
    held_out = set(args.held_out.read_text().split("\n")) if args.held_out else set()
    pairs = list(dict.fromkeys(read_pairs(args.data, args.pairs, held_out)))[: args.most]
    if not pairs:
        raise SystemExit(f"error: {args.data}: expected a train query with {args.pairs}, got none.")
    model, tokenizer = new_model(embedded_folder())
    train(model, tokenizer, pairs, args)
    model.save_pretrained(args.output)
    tokenizer.save_pretrained(args.output)
    print(f"{args.output}: {len(pairs):,} pairs, such as {pairs[0]!r}")


def read_pairs(folder: Path, kind: str, held_out: set[str]) -> Iterator[tuple[str, str]]:
    """Source and target of each judgement of the train split; those without a target are left out."""
    is_beir = (folder / "corpus.jsonl").exists()
    names = (
        ("corpus", "queries", "qrels/train") if is_beir else ("collection", "queries.train", "qrels.train")
    )
    passages = {one["_id" if is_beir else "doc_id"]: one for one in lines(folder / f"{names[0]}.jsonl")}
    queries = {one["_id" if is_beir else "query_id"]: one for one in lines(folder / f"{names[1]}.jsonl")}
    for row in (folder / f"{names[2]}.tsv").read_text(encoding="utf-8").split("\n")[is_beir:]:
        query_id, *_, doc_id, grade = row.split("\t") if row else ("", "", "0")
        if int(grade) <= 0 or query_id in held_out or query_id not in queries or doc_id not in passages:
            continue
        query, passage = queries[query_id], passages[doc_id]
        title, text, asked = passage.get("title", ""), passage["text"], query["text"]
        answers = query.get("answers", [])
        holding = [
            one for one in re.split(r"(?<=[.!?])\s+", text) if any(answer in one for answer in answers)
        ]
        target = {"query": asked, "answer": answers[:1], "sentence": holding[:1], "title": title}[kind]
        target = "".join(target)
        if target:
            yield (passage_input(title, text) if kind == "query" else asked), target


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    with file.open("rb") as opened:
        yield from map(json.loads, opened)


def new_model(folder: Path) -> tuple[Any, Any]:
    """Two copies of an encoder, the second a decoder with cross attention, and the tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = EncoderDecoderModel.from_encoder_decoder_pretrained(
        folder, folder, decoder_tie_word_embeddings=True
    )
    ids = {
        "decoder_start_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    for name, value in ids.items():
        setattr(model.config, name, value)
        setattr(model.generation_config, name, value)
    return model, tokenizer


def train(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], args: argparse.Namespace) -> None:
    """Teacher forcing: the mean cross-entropy of the target's tokens and of [SEP] behind them."""
    device = choose_device("auto")
    precision = choose_precision("auto", device).replace("fp16", "fp32")  # no loss scaler here
    model.to(device).train()
    sources = tokenizer([one for one, _ in pairs], truncation=True, max_length=args.max_input_tokens)
    targets = tokenizer([one for _, one in pairs], truncation=True, max_length=args.max_tokens)
    inputs, outputs = sources["input_ids"], targets["input_ids"]
    optimiser = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, fused=device.type == "cuda")
    num_batches = -(-len(pairs) // args.batch_size)
    steps = args.epochs * num_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / max(1, WARM_UP * steps), 1 - step / steps)
    )
    began = time.monotonic()
    for epoch in range(args.epochs):
        losses = []
        for batch in batches([len(ids) for ids in inputs], args.batch_size):
            source, target = padded([inputs[row] for row in batch]), padded([outputs[row] for row in batch])
            source, target = source.to(device, non_blocking=True), target.to(device, non_blocking=True)
            pad = model.config.pad_token_id
            with autocast(device, precision):
                logits = model(
                    input_ids=source,
                    attention_mask=(source != pad).long(),
                    decoder_input_ids=target[:, :-1],  # begins with [CLS]
                    decoder_attention_mask=(target[:, :-1] != pad).long(),
                    use_cache=False,
                ).logits
            wanted = target[:, 1:].flatten()
            loss = cross_entropy(logits.float().flatten(0, 1), wanted, ignore_index=pad)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
            losses.append(loss.detach())
        spent = (time.monotonic() - began) / ((epoch + 1) * num_batches)
        print(f"epoch {epoch + 1}: loss {torch.stack(losses).mean():.3f}, {spent:.3f} s a step", flush=True)
    model.eval()


def batches(lengths: list[int], size: int) -> list[list[int]]:
    """The rows in random batches of like lengths: a random order, sorted within 50 batches at a time."""
    order = torch.randperm(len(lengths)).tolist()
    found = []
    for start in range(0, len(order), 50 * size):
        part = sorted(order[start : start + 50 * size], key=lambda row: lengths[row])
        found += [part[at : at + size] for at in range(0, len(part), size)]
    return [found[number] for number in torch.randperm(len(found)).tolist()]


def padded(rows: list[list[int]]) -> torch.Tensor:
    """Token ids with 0, BERT's [PAD], behind the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


if __name__ == "__main__":
    main()
