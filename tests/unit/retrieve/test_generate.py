"""Generated texts: against decoding one text at a time without padding or cache; draws; resuming; errors."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from architectures import TEXTS, write_folder
from safetensors.torch import load_file, save_file
from small_generators import KINDS, write_generator
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from condenser.data.expansions import expanded
from condenser.model.devices import Compute
from condenser.papers import generator as generators
from condenser.papers.generate import generate_texts, gumbel
from condenser.papers.generator import Generator
from condenser.papers.generator_files import generator_files

CPU = Compute(torch.device("cpu"), "fp32")
QUERIES = [(f"d{row}", " ".join(text.split()[: 2 + 3 * row])) for row, text in enumerate(TEXTS[:4] * 2)]
LONGEST = 12  # tokens of a generated text
INPUT = 20
SEED = 7


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for kind, folder in made.items():
        write_generator(kind, folder)
    return made


@pytest.fixture
def t5(folders: dict[str, Path], tmp_path: Path) -> Path:
    """A folder to be changed."""
    return shutil.copytree(folders["t5"], tmp_path / "t5")


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def written(folder: Path, output: Path, **changes: Any) -> dict[str, int]:
    torch.set_num_threads(1)
    settings = {
        **{"prefix": "", "samples": 3, "top_k": 5, "max_tokens": LONGEST, "max_input_tokens": INPUT},
        **{"rows_per_chunk": 6, "seed": SEED},
    }
    return generate_texts(
        folder, QUERIES, output, total=len(QUERIES), unit="passages",
        **{**settings, "work_folder": output.parent / "work", **changes}, compute=CPU,
    )  # fmt: skip


def contents(file: Path) -> list[list[str]]:
    return [json.loads(line)["contents"] for line in file.read_text().splitlines()]


def slowly(folder: Path, *, prefix: str, samples: int, top_k: int | None) -> tuple[list[list[str]], int]:
    """One text, one sample and one token after the other, each by a forward pass of all so far."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    start, end = model.generation_config.decoder_start_token_id, model.generation_config.eos_token_id
    found, num_unfinished = [], 0
    for row, (_, text) in enumerate(QUERIES):
        ids = tokenizer(prefix + text, truncation=True, max_length=INPUT, return_tensors="pt")["input_ids"]
        of_text = []
        for sample in range(samples):
            tokens = [start]
            while len(tokens) <= LONGEST and end not in tokens[1:]:
                with torch.no_grad():
                    logits = model(input_ids=ids, decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
                choice = 0
                best = logits.argsort(descending=True)[: top_k or 1]
                if top_k is not None:
                    place = np.array([row * samples + sample])
                    noise = gumbel(SEED, place, len(tokens), top_k)[0]
                    choice = int((logits[best].double() + noise).argmax())
                tokens.append(int(best[choice]))
            num_unfinished += end not in tokens[1:]
            of_text.append(tokenizer.decode(tokens, skip_special_tokens=True).strip())
        found.append(of_text)
    return found, num_unfinished


@pytest.mark.parametrize(
    ("kind", "samples", "top_k", "prefix"),
    [("t5", 1, None, ""), ("t5", 3, 5, "words: "), ("bart", 3, 5, ""), ("bert2bert", 1, None, "words: ")],
)
def test_texts_are_those_of_one_token_after_another_without_padding_or_cache(
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    samples: int,
    top_k: int | None,
    prefix: str,
) -> None:
    monkeypatch.setattr("condenser.papers.generate._CHUNKS", 2)  # of the samples, blocks of four texts
    output = tmp_path / "out.jsonl"
    counts = written(folders[kind], output, samples=samples, top_k=top_k, prefix=prefix)
    slow, num_unfinished = slowly(folders[kind], prefix=prefix, samples=samples, top_k=top_k)
    assert contents(output) == slow
    assert [json.loads(line)["id"] for line in output.read_text().splitlines()] == [one for one, _ in QUERIES]
    assert counts["unfinished"] == num_unfinished
    assert (counts["passages"], counts["generated"]) == (len(QUERIES), samples * len(QUERIES))
    if top_k:
        assert len({text for of_text in slow for text in of_text}) > len(QUERIES)


def test_some_texts_end_before_the_longest_and_some_do_not(folders: dict[str, Path], tmp_path: Path) -> None:
    """The tests above see both. Learnt vocabularies differ a little from run to run, so many are drawn."""
    shares = [
        written(folder, tmp_path / kind / "out.jsonl", top_k=40, samples=40)["unfinished"]
        / (40 * len(QUERIES))
        for kind, folder in folders.items()
    ]
    assert any(0 < share < 1 for share in shares), shares


@pytest.mark.parametrize("kind", ["t5", "bert2bert"])
def test_in_float32_another_number_of_texts_at_a_time_gives_the_same_bytes(
    folders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    files = [tmp_path / str(rows) / "out.jsonl" for rows in (1, 6, 100)]
    for file in files:
        written(folders[kind], file, rows_per_chunk=int(file.parent.name))
    assert len({file.read_bytes() for file in files}) == 1


def test_a_draw_is_one_from_the_softmax_of_the_most_probable_tokens() -> None:
    """200,000 draws: within 4 standard errors of each probability."""
    logits = torch.tensor([1.0, 3.0, -1.0, 2.5, 0.0, 2.0])
    count, top_k = 200_000, 4
    positions = np.arange(count)
    chosen = generators._Choice(top_k, partial(gumbel, SEED, positions))
    left = chosen(torch.zeros(count, 3, dtype=torch.long), logits.expand(count, -1))
    assert torch.equal(left.isfinite().sum(dim=1), torch.ones(count, dtype=torch.long))
    drawn = Counter(left.argmax(dim=1).tolist())
    best = logits.topk(top_k).indices.tolist()
    assert set(drawn) == set(best)
    for token, probability in zip(best, logits[best].softmax(dim=0).tolist(), strict=True):
        error = (probability * (1 - probability) / count) ** 0.5
        assert drawn[token] / count == pytest.approx(probability, abs=4 * error)


def test_each_token_of_each_text_has_noise_of_its_own() -> None:
    drawn = [gumbel(seed, np.arange(9), token, 4) for seed in (SEED, SEED + 1) for token in range(1, 6)]
    assert len(torch.stack(drawn).unique()) == 2 * 5 * 9 * 4


def test_a_job_that_was_interrupted_resumes_to_the_same_bytes(
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    noted: Callable[..., list[int]],
) -> None:
    monkeypatch.setattr("condenser.papers.generate._CHUNKS", 1)  # blocks of two texts
    whole, output = tmp_path / "whole" / "out.jsonl", tmp_path / "resumed" / "out.jsonl"
    counts = written(folders["t5"], whole)
    calls = noted(Generator, "generate", lambda _, ids, **__: len(ids), breaks_at=3)
    with pytest.raises(KeyboardInterrupt):
        written(folders["t5"], output)
    assert not output.exists()
    assert written(folders["t5"], output) == counts
    assert output.read_bytes() == whole.read_bytes()
    assert calls == [2, 2, 2, 2, 2]  # the first two blocks are not generated again


def test_the_file_is_read_as_an_expansion_and_long_texts_are_counted(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    output = tmp_path / "out.jsonl"
    tokenizer = AutoTokenizer.from_pretrained(folders["t5"])
    lengths = [len(tokenizer(text)["input_ids"]) for _, text in QUERIES]
    limit = sorted(set(lengths))[-2]  # a text of this length is not cut
    counts = written(folders["t5"], output, max_input_tokens=limit)
    assert counts["inputs_cut"] == sum(length > limit for length in lengths) > 0
    read = list(expanded(QUERIES, output, by="row", field="contents", weights=None, counts=Counter()))
    first, text = QUERIES[2]
    assert read[2] == (first, f"{text}\n{' '.join(contents(output)[2])}")


def test_what_a_folder_says_of_beams_and_lengths_does_not_count(
    folders: dict[str, Path], t5: Path, tmp_path: Path
) -> None:
    said = {"num_beams": 3, "min_length": 9, "no_repeat_ngram_size": 2, "do_sample": True, "top_k": 2}
    edit(t5 / "generation_config.json", **said)
    files = [tmp_path / name / "out.jsonl" for name in ("plain", "said")]
    for file, folder in zip(files, (folders["t5"], t5), strict=True):
        written(folder, file)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "expected a folder, found none at"),
        (lambda folder: (folder / "config.json").unlink(), "expected config.json in"),
        (lambda folder: (folder / "model.safetensors").unlink(), "expected weights as safetensors in"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "expected a tokenizer in"),
        (lambda folder: edit(folder / "config.json", auto_map={"AutoModel": "a.B"}), "got one that runs own"),
    ],
)
def test_a_folder_that_lacks_a_file_or_runs_code_is_refused(
    change: Callable[[Path], object], message: str, t5: Path
) -> None:
    (t5 / "pytorch_model.bin").write_bytes(b"a pickle, which is never read")
    assert t5 / "pytorch_model.bin" not in generator_files(t5)
    change(t5)
    with pytest.raises(ValueError, match=message):
        generator_files(t5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: write_folder("bert", folder), "model_type bert is no encoder with a decoder"),
        (lambda folder: edit(folder / "config.json", num_layers=3), "expected all weights of its config"),
    ],
    ids=["no generator", "lacks weights"],
)
def test_a_model_that_is_no_generator_or_lacks_weights_is_refused_in_one_line(
    change: Callable[[Path], object], message: str, t5: Path
) -> None:
    change(t5)
    with pytest.raises(ValueError, match=message) as refused:
        Generator.load(t5, CPU)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", ["max_input_tokens", "max_tokens"])
def test_texts_longer_than_the_positions_are_refused(
    folders: dict[str, Path], tmp_path: Path, key: str
) -> None:
    with pytest.raises(ValueError, match=rf"expected positions for {key} \(61\), got 60"):
        written(folders["bert2bert"], tmp_path / "out.jsonl", **{key: 61})


@pytest.mark.parametrize("top_k", [None, 5])
def test_weights_that_give_no_number_are_refused(t5: Path, tmp_path: Path, top_k: int | None) -> None:
    weights = load_file(t5 / "model.safetensors")
    weights["shared.weight"].fill_(float("nan"))
    save_file(weights, t5 / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="expected finite scores of tokens, got NaN"):
        written(t5, tmp_path / "out.jsonl", top_k=top_k, samples=1)
