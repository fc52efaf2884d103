from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_files import do
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Digits, Sequence
from transformers import PreTrainedTokenizerFast

from condenser import progress
from condenser.data.blocks import pack_blocks
from condenser.data.records import Passage, Query, write_passages, write_queries
from condenser.data.tokens import (
    Tokenizer,
    TokenShards,
    _ends_word,
    load_counts,
    packed_counts,
    shard_bounds,
    split_sentences,
    tokenise_collection,
    tokenise_queries,
    word_continuation,
    write_token_shard,
)
from condenser.files import save_npy
from condenser.model.tokenizer_files import save_tokenizer, wordpiece_tokenizer
from condenser.shards import shard_files
from tests.token_shards import counts_in_bytes, hand_made_shards, real_tokenizer_folder, rows_of_lengths

TEXTS = [
    "Dr. Smith paid 3.5 dollars. He left at 5 p.m. Was it late? Yes!",
    "你好。我很好。 Café naïve coöperation",
    "",
    "   \n\n  ",
    "One line\u2028another. Control\x1cled.Words glued.Together",
    "A literal [SEP] and a [MASK]. The end",
    "electroencephalographically " * 60,
    "x" * 300 + ". Next one.",
    "\u200b\u200b",
]


@pytest.fixture(scope="module")
def real() -> Tokenizer:
    return Tokenizer(real_tokenizer_folder())


def whole_ids(text: str) -> list[int]:
    """Ids by transformers' own call, the independent truth."""
    from transformers import AutoTokenizer

    if not hasattr(whole_ids, "tokenizer"):
        whole_ids.tokenizer = AutoTokenizer.from_pretrained(real_tokenizer_folder())  # type: ignore[attr-defined]
    return whole_ids.tokenizer(text, add_special_tokens=False, verbose=False).input_ids  # type: ignore[attr-defined]


def written(prefix: Path, rows: list[tuple[str, str]], tokenizer: Tokenizer, **options) -> TokenShards:
    write_token_shard(rows, prefix, tokenizer, **{"batch_size": 2, "split": True, **options})
    return TokenShards([prefix])


def row_ids(shards: TokenShards, row: int) -> list[int]:
    start, end = shards.row_starts[row : row + 2]
    (ids,) = shards.read(np.array([start]), np.array([end - start]), width=int(end - start), fill=-1)
    return ids.tolist()


def written_collection(folder: Path, num_passages: int) -> tuple[Path, Path]:
    """Files of passages `number 0`, `number 1`, ... and of their ids."""
    passages = [Passage(f"d{row}", "", f"number {row}") for row in range(num_passages)]
    write_passages(folder / "collection.jsonl", passages)
    (folder / "doc_ids.txt").write_text("".join(f"{passage.doc_id}\n" for passage in passages))
    return folder / "collection.jsonl", folder / "doc_ids.txt"


def tiny_vocabulary(folder: Path, pieces: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    save_tokenizer(wordpiece_tokenizer(words, max_length=512), folder)
    return folder


def test_a_row_has_the_tokens_of_title_sep_text_tokenised_whole(tmp_path, real):
    rows = [(title, text) for text in TEXTS for title in ("", "A Title. Of two sentences")]
    shards = written(tmp_path / "t", rows, real)
    for row, (title, text) in enumerate(rows):
        whole = f"{title} [SEP] {text}" if title else text
        assert row_ids(shards, row) == whole_ids(whole), (title, text)  # `title [SEP]` where it has no text
        assert shards.title_lengths[row] == (len(whole_ids(title)) + 1 if title else 0)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.text(
        alphabet=st.sampled_from("aB1 .?!。,\n\t\x1c\x0b\x85\u00a0\u0301\u061d\u200b\u2028é東$[]'\""),
        max_size=60,
    )
)
def test_sentence_boundaries_change_no_token(real, text):
    sentences = split_sentences(text)
    assert "".join(sentences) == text
    assert np.concatenate([*real.encode(sentences), np.zeros(0, int)]).tolist() == whole_ids(text)


def test_sentences_are_those_a_reader_sees():
    text = "Dr. Smith paid 3.5 dollars. He left. 你好。我很好。"
    assert split_sentences(text) == ["Dr. Smith paid 3.5 dollars. ", "He left. ", "你好。", "我很好。"]
    assert split_sentences("no full stop\n\nnext") == ["no full stop\n\n", "next"]


def test_every_character_that_may_end_a_sentence_ends_a_word(real):
    ends = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000 and _ends_word(chr(code))]
    assert len(ends) > 300
    together = real.encode([f"a{char}b" for char in ends])
    apart = zip(real.encode([f"a{char}" for char in ends]), real.encode(["b"]) * len(ends), strict=True)
    for char, whole, parts in zip(ends, together, apart, strict=True):
        assert whole.tolist() == np.concatenate(parts).tolist(), repr(char)


@pytest.mark.parametrize("space", ["\u00a0", "\u0085", "\u2009", "\u2028", "\u3000"])
def test_a_wide_space_behind_an_initial_is_no_trap(space):
    # sentencex panics on this unless it sees a plain space
    text = f"John F{space}. Kennedy spoke. Then he left."
    assert split_sentences(text)[-1] == "Then he left."
    assert "".join(split_sentences(text)) == text


@pytest.mark.parametrize(
    "part", ["x", "word ", "Word. ", "a.", "(", "https://a.b/", "\u4e2d", "A. ", "\n", "\u00a0b", '"Who? ']
)
def test_the_time_of_a_text_grows_with_its_length_and_no_faster(tmp_path, real, part):
    """Of sixteen times the text, a step that compares all pairs of characters takes 256 times as long."""

    def seconds(size: int) -> float:
        began = time.process_time()
        text = part * (size // len(part))
        write_token_shard([("", text)], tmp_path / "t", real, batch_size=1, split=True)
        return time.process_time() - began

    seconds(10_000)
    assert seconds(320_000) < 64 * max(0.01, seconds(20_000))


def test_rows_without_tokens_stay_and_a_separator_without_title_is_no_title_and_no_text(tmp_path, real):
    rows = [
        ("", ""),
        ("Title", "Two here. \n\n Three"),
        ("Title", ""),
        ("", "\u200b"),
        ("", "First. Second."),
    ]
    counts = write_token_shard(rows, tmp_path / "sep", real, batch_size=2, split=True, leading_separator=True)
    plain = write_token_shard(rows, tmp_path / "plain", real, batch_size=2, split=True)
    assert plain == {
        **{"rows": 5, "rows_with_title": 2, "rows_without_tokens": 2},
        **{"sentences": 4, "tokens": 12, "unknown_words": 0},
    }
    assert counts == {**plain, "tokens": plain["tokens"] + 3}
    shards, without = TokenShards([tmp_path / "sep"]), TokenShards([tmp_path / "plain"])
    assert shards.title_lengths.tolist() == [1, 2, 2, 1, 1]
    for row, (title, _) in enumerate(rows):
        assert row_ids(shards, row) == ([] if title else [real.sep_id]) + row_ids(without, row)
    # what is pre-trained on lies after the title
    blocks = [pack_blocks(one, max_tokens=126, short_probability=0.0, seed=1) for one in (shards, without)]
    assert [one.num_empty_rows for one in blocks] == [3, 3]
    packed, expected = (
        of.read(one.starts, one.lengths, width=8, fill=0).tolist()
        for of, one in zip((shards, without), blocks, strict=True)
    )
    assert packed == expected


def test_the_batch_size_changes_no_byte(tmp_path, real):
    rows = [("t", text) for text in TEXTS]
    made = []
    for size in (1, 4, 100):
        write_token_shard(rows, tmp_path / str(size), real, batch_size=size, split=True)
        made.append([file.read_bytes() for file in shard_files(tmp_path / str(size))])
    assert made[0] == made[1] == made[2]


def test_a_shard_is_plain_npy_of_uint16_and_bytes(tmp_path, real):
    write_token_shard([("Title", f"One. {'two ' * 300}")], tmp_path / "t", real, batch_size=8, split=True)
    tokens, lengths, nums = (np.load(file, allow_pickle=False) for file in shard_files(tmp_path / "t"))
    assert (tokens.dtype, lengths.dtype, nums.dtype) == (np.uint16, np.uint8, np.uint8)
    assert tokens.tolist() == whole_ids(f"Title [SEP] One. {'two ' * 300}")
    assert (lengths.tolist(), nums.tolist()) == ([2, 2, 255, 45], [3])


@given(st.lists(st.integers(0, 3) | st.integers(250, 260) | st.integers(0, 70_000)))
def test_counts_in_bytes_are_those_of_a_loop_and_are_read_again(tmp_path_factory, counts):
    file = tmp_path_factory.getbasetemp() / "counts.npy"
    packed = packed_counts(np.array(counts, np.int64))
    assert packed.dtype == np.uint8 and packed.tolist() == counts_in_bytes(counts).tolist()
    save_npy(file, packed)
    assert load_counts(file).tolist() == counts


def test_a_vocabulary_beyond_uint16_is_written_as_uint32(tmp_path):
    words = [f"w{index}" for index in range(70_000)]
    tokenizer = Tokenizer(tiny_vocabulary(tmp_path / "vocabulary", words))
    shards = written(tmp_path / "t", [("", "w69999 w0")], tokenizer)
    assert np.load(shard_files(tmp_path / "t")[0]).dtype == np.uint32
    assert row_ids(shards, 0) == [70_004, 5]


def test_the_tokenizer_knows_continuations_and_specials(tmp_path):
    tokenizer = Tokenizer(tiny_vocabulary(tmp_path, ["dense", "##ly", "re", "##trieve"]))
    assert (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (0, 2, 3, 4)
    ids = [of_text.tolist() for of_text in tokenizer.encode(["Densely retrieve", "", "zzz"])]
    assert ids == [[5, 6, 7, 8], [], [1]]
    assert tokenizer.is_continuation.tolist() == [False] * 6 + [True, False, True]
    assert tokenizer.random_ids.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("is_mapping", [False, True])
def test_special_tokens_have_the_names_that_the_folder_says(is_mapping, tmp_path):
    words = ["<p>", "<u>", "<c>", "<s>", "<m>", "dense", "<extra>"]
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), words, strict=False))
    given = {f"{kind}_token": name for kind, name in names.items()}
    backend = Backend(WordPiece({word: i for i, word in enumerate(words)}, unk_token="<u>"))
    backend.pre_tokenizer = BertPreTokenizer()
    theirs = PreTrainedTokenizerFast(tokenizer_object=backend, **given)
    theirs.add_special_tokens({"additional_special_tokens": ["<extra>"]})
    theirs.save_pretrained(tmp_path)
    if is_mapping:  # as older versions of transformers write it
        told = {**given, **{name: {"content": value} for name, value in given.items()}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(told))
    ours = Tokenizer(tmp_path)
    assert (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id) == (0, 1, 2, 3, 4)
    assert ours.random_ids.tolist() == [5]
    assert set(ours.random_ids) == set(range(7)) - set(theirs.all_special_ids)
    assert [ids.tolist() for ids in ours.encode(["dense", "a<s>dense"])] == [[5], [1, 3, 5]]


def test_a_tokenizer_of_another_kind_is_refused_in_one_line(tmp_path):
    Backend(BPE()).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="expected a tokenizer of WordPiece, byte-level BPE or SentencePie"):
        Tokenizer(tmp_path)
    with pytest.raises(ValueError, match="found none"):
        Tokenizer(tmp_path / "nothing")


@given(st.integers(0, 500), st.integers(1, 9), st.integers(1, 40))
def test_shard_bounds_cover_every_row_once_at_multiples(num_rows, num_shards, multiple):
    bounds = shard_bounds(num_rows, num_shards=num_shards, multiple_of=multiple)
    assert len(bounds) == num_shards
    assert [row for begin, end in bounds for row in range(begin, end)] == list(range(num_rows))
    assert all(begin % multiple == 0 or begin == num_rows for begin, _ in bounds)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), max_size=8),
    st.randoms(use_true_random=False),
)
def test_any_number_of_shards_gives_the_same_answers(tmp_path_factory, lengths, random):
    folder = tmp_path_factory.mktemp("shards")
    rows = rows_of_lengths(lengths)
    flat = [token for row in rows for sentence in row for token in sentence]
    for num_shards in (1, 2, 3):
        shards = hand_made_shards(folder / str(num_shards), rows, num_shards=num_shards)
        assert shards.num_rows == len(rows)
        assert shards.title_lengths.tolist() == [len(row[0]) for row in rows]
        assert np.diff(shards.row_starts).tolist() == [sum(map(len, row)) for row in rows]
        assert np.diff(shards.sentence_starts).tolist() == [len(s) for row in rows for s in row]
        assert np.diff(shards.first_sentence).tolist() == [len(row) for row in rows]
        wanted = np.array([random.randrange(len(rows)) for _ in range(5)] if rows else [], dtype=np.int64)
        starts, sizes = shards.row_starts[wanted], np.diff(shards.row_starts)[wanted]
        spans = zip(starts, sizes, strict=True)
        expected = [flat[start : start + size] + [-7] * (30 - size) for start, size in spans]
        assert shards.read(starts, sizes, width=30, fill=-7).tolist() == expected


@pytest.mark.parametrize(("num_shards", "lengths"), [(1, [11]), (2, [4, 7]), (3, [4, 4, 3])])
def test_shards_are_cut_at_multiples_and_hold_the_rows_of_the_whole(tmp_path, real, num_shards, lengths):
    files, rows = written_collection(tmp_path, 11), []
    options = {"multiple_of": 4, "leading_separator": False, "batch_size": 3}
    for index, length in enumerate(lengths):
        shard = f"{index}-of-{num_shards}"
        counts = tokenise_collection(*files, tmp_path / "t", real, shard=shard, **options)
        assert counts["rows"] == length
        shards = TokenShards([tmp_path / "t"])
        rows += [row_ids(shards, row) for row in range(shards.num_rows)]
    assert rows == [whole_ids(f"number {row}") for row in range(11)]


def test_a_query_is_one_sentence_whatever_its_marks(tmp_path, real):
    write_queries(tmp_path / "q.jsonl", [Query("1", "What? When. Why!"), Query("2", "")])
    counts = tokenise_queries(tmp_path / "q.jsonl", tmp_path / "q", real, batch_size=8)
    assert (counts["sentences"], counts["rows"], counts["rows_without_tokens"]) == (1, 2, 1)
    assert row_ids(TokenShards([tmp_path / "q"]), 0) == whole_ids("What? When. Why!")


def test_the_program_writes_a_shard_with_the_separator_of_the_spec(tmp_path, real):
    write_passages(tmp_path / "c.jsonl", [Passage("a", "Title", "Text. More."), Passage("b", "", "word")])
    (tmp_path / "ids.txt").write_text("a\nb\n")
    files = {"collection": tmp_path / "c.jsonl", "doc_ids": tmp_path / "ids.txt"}
    prefix = tmp_path / "c.0-of-1"
    output = {"tokens": f"{prefix}.tokens.npy", "counts": f"{prefix}.counts.json"}
    for separator, lengths in (("titled", {"8": 1, "3": 1}), ("always", {"8": 1, "4": 1})):
        do(
            "tokens",
            settings={"encode": {"block_rows": 1024, "separator": separator}},
            wildcards={"shard": "0-of-1"},
            input={**files, "tokenizer": real_tokenizer_folder() / "tokenizer.json"},
            output={**output, "manifest": tmp_path / "c.json"},
        )
        manifest = json.loads((tmp_path / "c.json").read_text())
        assert manifest["counts"]["rows"] == 2 and len(manifest["outputs"]) == 4
        assert json.loads(Path(output["counts"]).read_text())["rows"] == lengths
    assert row_ids(TokenShards([prefix]), 1) == [real.sep_id, *whole_ids("word")]


def test_the_time_left_is_told_by_the_rows_of_the_shard(tmp_path, real, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    options = {"multiple_of": 1, "leading_separator": False, "batch_size": 2}
    files = written_collection(tmp_path, 7)
    tokenise_collection(*files, tmp_path / "t.1-of-2", real, shard="1-of-2", **options)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("tokens t.1-of-2: 2 of 4 rows (50 %)") and lines[0].endswith(" left")
    write_queries(tmp_path / "queries.jsonl", [Query(f"q{row}", "word") for row in range(3)])
    tokenise_queries(tmp_path / "queries.jsonl", tmp_path / "q", real, batch_size=2)
    assert capsys.readouterr().err.startswith("tokens q: 2 of 3 rows (67 %)")


def test_of_bytes_the_rest_of_a_character_continues_the_word_before_it():
    """In UTF-8 "é" is the bytes C3 A9, which byte-level BPE writes "Ã" and "©"."""
    backend = Backend(BPE())
    backend.pre_tokenizer = Sequence([Digits(), ByteLevel()])
    continues_word = word_continuation(backend)
    continues = {"Ġcaf": False, "Ã": True, "©": True, "Ã©": True, "x": True, ".": False, "Ġ.": False}
    assert {piece: continues_word(piece) for piece in continues} == continues
