from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import small_config, transformers_bert, write_checkpoint
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertForPreTraining, BertModel

from condenser.files import sha256_file
from condenser.model import backbone_sources
from condenser.model.backbone import new_backbone
from condenser.model.folder import load_backbone, read_checkpoint, save_backbone
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.retriever import Retriever, UntiedEncoders
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.tokenizer_files import wordpiece_tokenizer
from condenser.model.vocabulary import learn_wordpieces
from condenser.objectives import checkpoint

torch.set_num_threads(1)
WEIGHTS, CONFIG, TOKENS = "model.safetensors", "config.json", "tokenizer_config.json"
SHAPE = {
    **{"hidden_size": 12, "num_layers": 2, "num_heads": 3, "intermediate_size": 20},
    **{"vocab_size": 120, "max_positions": 16},
}
TEXTS = ["the cat sat on the mat", "a cat and a dog sat", "dogs and cats, mats and hats!"] * 3


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT alone, with a head, and what is made of each."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write_checkpoint(folder / "bert", BertModel)
    write_checkpoint(folder / "with-head", BertForMaskedLM)
    return {name: folder / name for name in ("bert", "with-head")}


@pytest.fixture
def source(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A BERT alone, to be changed."""
    return shutil.copytree(checkpoints["bert"], tmp_path / "source")


@pytest.fixture
def with_head(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A masked language model, to be changed."""
    return shutil.copytree(checkpoints["with-head"], tmp_path / "with-head")


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def same_bytes(one: Path, other: Path, names: Iterable[str]) -> None:
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def prepare(origin: Path | Mapping[str, str], folder: Path, *, mirror: Path | None = None) -> dict[str, Any]:
    """The backbone of a folder, or of another source."""
    source = {"source": "folder", "path": str(origin)} if isinstance(origin, Path) else origin
    settings = checkpoint.Settings(objective="checkpoint", **source)
    place = None if mirror is None else str(mirror)
    return checkpoint.prepare(settings, folder, seed=7, mirror=place, collection=None, system=None)


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder: Path, **changes: torch.Tensor) -> None:
    save_file(load_file(folder / WEIGHTS) | changes, folder / WEIGHTS)


def same_states(folder: Path, model: BertModel) -> None:
    ids = torch.randint(5, 37, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
    ours = transformers_bert(load_backbone(folder, dropout=None).eval())(ids, attention_mask=mask)
    theirs = model.eval()(ids, attention_mask=mask)
    torch.testing.assert_close(ours.last_hidden_state, theirs.last_hidden_state, rtol=0, atol=1e-6)
    if model.pooler is not None:
        torch.testing.assert_close(ours.pooler_output, theirs.pooler_output, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [BertModel, BertForMaskedLM, BertForPreTraining])
def test_checkpoint_of_each_class_keeps_its_states_and_its_head(kind: type, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "source", kind)
    counts = prepare(tmp_path / "source", tmp_path / "ours")
    same_states(tmp_path / "ours", model if kind is BertModel else model.bert)
    assert counts["pooler"] == ("new" if kind is BertForMaskedLM else "from checkpoint")
    assert counts["mlm_head"] == ("new" if kind is BertModel else "from checkpoint")
    if kind is not BertModel:
        states = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
        head = MaskedLanguageHead.load(tmp_path / "ours", small_config(num_layers=2))
        ours = head(states, load_backbone(tmp_path / "ours", dropout=None).embeddings.word_embeddings.weight)
        torch.testing.assert_close(ours, model.cls.predictions(states), rtol=0, atol=1e-6)


def test_saving_what_was_loaded_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    prepare(source, tmp_path / "ours")
    save_backbone(load_backbone(tmp_path / "ours", dropout=None), tmp_path / "ours", tmp_path / "again")
    names = files_in(tmp_path / "again")
    assert names == {CONFIG, WEIGHTS, TOKENS, "tokenizer.json", *VECTOR_FILES}
    same_bytes(tmp_path / "ours", tmp_path / "again", names)


def test_preparing_twice_gives_the_same_bytes_whatever_the_global_generator(
    with_head: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        torch.manual_seed(number)
        prepare(with_head, tmp_path / str(number))
    before = torch.get_rng_state()
    load_backbone(tmp_path / "1", dropout=None)
    assert torch.equal(before, torch.get_rng_state())
    same_bytes(tmp_path / "1", tmp_path / "2", files_in(tmp_path / "1"))


def test_tensorflow_names_and_half_precision_are_understood(tmp_path: Path) -> None:
    """bert-base-uncased of the hub calls LayerNorm's weights gamma and beta."""
    model = write_checkpoint(tmp_path / "source", BertForPreTraining)
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in model.half().state_dict().items()
        if ".decoder." not in name
    }
    renamed["bert.embeddings.position_ids"] = torch.arange(16)[None]
    save_file(renamed, tmp_path / "source" / WEIGHTS)
    prepare(tmp_path / "source", tmp_path / "ours")
    ours = load_backbone(tmp_path / "ours", dropout=None)
    assert all(p.dtype == torch.float32 for p in ours.parameters())
    same_states(tmp_path / "ours", model.float().bert)


def test_a_head_whose_decoder_is_not_the_embeddings_counts_as_new(with_head: Path, tmp_path: Path) -> None:
    edit_weights(with_head, **{"cls.predictions.decoder.weight": torch.randn(40, 12)})
    assert prepare(with_head, tmp_path / "ours")["mlm_head"] == "new"


def test_the_bias_of_a_head_may_be_there_twice(with_head: Path, tmp_path: Path) -> None:
    bias = load_file(with_head / WEIGHTS)["cls.predictions.bias"]
    edit_weights(with_head, **{"cls.predictions.decoder.bias": bias.clone()})
    assert prepare(with_head, tmp_path / "ours")["mlm_head"] == "from checkpoint"
    assert torch.equal(load_file(tmp_path / "ours" / "mlm_head.safetensors")["bias"], bias)


def test_new_head_is_drawn_as_bert_draws_it(source: Path, tmp_path: Path) -> None:
    prepare(source, tmp_path / "ours")
    head = load_file(tmp_path / "ours" / "mlm_head.safetensors")
    assert set(head) == {
        *("bias", "transform.dense.weight", "transform.dense.bias"),
        *("transform.LayerNorm.weight", "transform.LayerNorm.bias"),
    }
    deviation = head["transform.dense.weight"].std().item()
    assert 0.16 < deviation < 0.24  # initializer_range 0.2, 144 numbers


@pytest.mark.parametrize("tied", [True, False])
def test_a_trained_system_is_taken_byte_for_byte_with_a_new_head(
    with_head: Path, tmp_path: Path, tied: bool
) -> None:
    prepare(with_head, tmp_path / "start")
    trained = (Retriever if tied else UntiedEncoders).load(tmp_path / "start", dropout=None)
    with torch.no_grad():
        for number, parameter in enumerate(trained.parameters()):
            parameter.add_(0.1 + number)  # so that two encoders differ
    trained.save(tmp_path / "trained", tmp_path / "start")
    settings = checkpoint.Settings(objective="checkpoint", source="system", dataset="a", system="b")
    options = {"seed": 7, "mirror": None, "collection": None, "system": tmp_path / "trained"}
    assert checkpoint.prepare(settings, tmp_path / "taken", **options)["mlm_head"] == "new"
    names = files_in(tmp_path / "trained")
    assert {WEIGHTS, "tokenizer.json", *VECTOR_FILES} <= names
    assert (f"query/{WEIGHTS}" in names) != tied
    same_bytes(tmp_path / "trained", tmp_path / "taken", names)


def test_our_own_folder_as_source_keeps_its_head(with_head: Path, tmp_path: Path) -> None:
    prepare(with_head, tmp_path / "first")
    assert prepare(tmp_path / "first", tmp_path / "second")["mlm_head"] == "from checkpoint"
    names = (WEIGHTS, "mlm_head.safetensors", CONFIG, "tokenizer.json")
    same_bytes(tmp_path / "first", tmp_path / "second", names)


def test_tokenizer_neither_cuts_nor_pads(source: Path, tmp_path: Path) -> None:
    long = "a b c d e f g h i j k l"
    assert len(AutoTokenizer.from_pretrained(source).backend_tokenizer.encode(long)) == 8
    edit_json(source / TOKENS, padding_side="left")
    prepare(source, tmp_path / "ours")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert len(tokenizer.backend_tokenizer.encode(long)) == 14
    assert len(tokenizer.backend_tokenizer.encode("a")) == 3
    assert (tokenizer.model_max_length, tokenizer.padding_side) == (16, "right")
    assert str(tmp_path) not in (tmp_path / "ours" / TOKENS).read_text()


def test_dropout_is_replaced_only_when_asked(source: Path, tmp_path: Path) -> None:
    edit_json(source / CONFIG, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    prepare(source, tmp_path / "ours")
    for dropout, expected in ((None, (0.2, 0.3)), (0.0, (0.0, 0.0)), (0.5, (0.5, 0.5))):
        model = load_backbone(tmp_path / "ours", dropout=dropout)
        assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) == expected
        assert not any(p.requires_grad for p in model.pooler.parameters())


def test_settings_that_change_no_vector_are_left_out(source: Path, tmp_path: Path) -> None:
    prepare(source, tmp_path / "usual")
    edit_json(
        source / CONFIG,
        **{"_attn_implementation": "evil/kernel@main:fn", "attn_implementation": {"": "evil/kernel"}},
        **{"experts_implementation": "evil/kernel", "sub": {"auto_map": {}}, "save_pretrained": 5},
        **{"to_dict": 5, "architectures": ["Evil"], "id2label": 5, "use_cache": "no"},
        **{"gradient_checkpointing": True, "chunk_size_feed_forward": 7, "torchscript": True},
    )
    prepare(source, tmp_path / "ours")
    same_bytes(tmp_path / "usual", tmp_path / "ours", files_in(tmp_path / "usual"))


def test_a_pickle_of_tensors_is_read(source: Path, tmp_path: Path) -> None:
    prepare(source, tmp_path / "expected")
    torch.save(load_file(source / WEIGHTS), source / "pytorch_model.bin")
    (source / WEIGHTS).unlink()
    prepare(source, tmp_path / "pickled")
    same_bytes(tmp_path / "expected", tmp_path / "pickled", (WEIGHTS, "mlm_head.safetensors"))


def test_weights_in_several_files_are_read_by_their_index(source: Path, tmp_path: Path) -> None:
    prepare(source, tmp_path / "expected")
    tensors = load_file(source / WEIGHTS)
    (source / WEIGHTS).unlink()
    halves = {f"model-0000{number}-of-00002.safetensors": [*tensors][number - 1 :: 2] for number in (1, 2)}
    for name, half in halves.items():
        save_file({each: tensors[each] for each in half}, source / name)
    places = {each: name for name, half in halves.items() for each in half}
    (source / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": places}))
    prepare(source, tmp_path / "ours")
    same_bytes(tmp_path / "expected", tmp_path / "ours", [WEIGHTS])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_of_every_floating_point_type_become_float32(
    dtype: torch.dtype, source: Path, tmp_path: Path
) -> None:
    tensors = {name: value.to(dtype) for name, value in load_file(source / WEIGHTS).items()}
    save_file(tensors, source / WEIGHTS)
    prepare(source, tmp_path / "ours")
    for name, value in load_file(tmp_path / "ours" / WEIGHTS).items():
        assert value.dtype == torch.float32 and torch.equal(value, tensors[name].float()), name


@pytest.mark.parametrize(
    ("file", "key"),
    [(TOKENS, "vocab_file"), (TOKENS, "vocab"), ("special_tokens_map.json", "tokenizer_file")],
)
def test_settings_of_a_tokenizer_reach_no_file_beside_it(
    file: str, key: str, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na-secret-of-the-user\n")
    (source / "tokenizer.json").rename(source / "other.json")
    (source / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n")
    (source / TOKENS).write_text('{"tokenizer_class": "BertTokenizer"}')
    (source / file).write_text(json.dumps({key: str(tmp_path / "secret.txt")}))
    prepare(source, tmp_path / "ours")
    written = (tmp_path / "ours" / "tokenizer.json").read_text()
    assert "a-secret-of-the-user" not in written and "word" in written
    assert key not in (tmp_path / "ours" / TOKENS).read_text()


def test_links_inside_the_folder_and_of_a_snapshot_of_the_hub_are_followed(
    source: Path, tmp_path: Path
) -> None:
    prepare(source, tmp_path / "plain")
    snapshot = tmp_path / "models--x--y" / "snapshots" / "0123"
    blobs = tmp_path / "models--x--y" / "blobs"
    shutil.copytree(source, snapshot)
    blobs.mkdir()
    for number, file in enumerate(sorted(file for file in snapshot.iterdir() if file.is_file())):
        file.rename(blobs / str(number))
        file.symlink_to(Path("..", "..", "blobs", str(number)))
    (tmp_path / "linked").symlink_to(snapshot)
    (source / "tokenizer.json").rename(source / "real.json")
    (source / "tokenizer.json").symlink_to("real.json")
    for number, path in enumerate((snapshot, tmp_path / "linked", source)):
        prepare(path, tmp_path / f"ours{number}")
        same_bytes(tmp_path / "plain", tmp_path / f"ours{number}", ("tokenizer.json", TOKENS))


# --- the four sources


def test_embedded_backbone_is_the_published_minilm(tmp_path: Path) -> None:
    counts = prepare({"source": "embedded"}, tmp_path / "ours")
    assert (counts["layers"], counts["hidden_size"], counts["vocab_size"]) == (6, 384, 30522)
    assert counts["parameters"] == 22_713_216
    published = load_file(backbone_sources.embedded_folder() / WEIGHTS)
    ours = load_file(tmp_path / "ours" / WEIGHTS)
    assert ours.keys() == {name for name in published if "position_ids" not in name}
    assert all(torch.equal(weight, published[name]) for name, weight in ours.items())


def test_embedded_weights_of_another_digest_are_refused_and_the_package_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / backbone_sources.EMBEDDED_PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model" / WEIGHTS).write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=f"expected SHA-256 {backbone_sources.EMBEDDED_SHA256}, got "):
        backbone_sources.embedded_folder()


def test_a_model_of_the_hub_is_taken_from_the_mirror_or_recorded_with_its_commit(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of the hub's own client, which it reads without a network."""
    of_hub = {"source": "hub", "id": "x/y"}
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "hub" / "models--x--y"
    shutil.copytree(source, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert prepare(of_hub, tmp_path / "ours")["revision"] == commit
    write_checkpoint(tmp_path / "mirror" / "x" / "y", BertForMaskedLM)
    counts = prepare(of_hub, tmp_path / "mirrored", mirror=tmp_path / "mirror")
    assert counts["revision"] is None
    assert counts["source_sha256"] == sha256_file(tmp_path / "mirror" / "x" / "y" / WEIGHTS)


def test_hub_out_of_reach_names_both_remedies_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    remedies = rf"^backbone a/b: .*Put its files into {tmp_path}/a/b/.*embedded\.$"
    with pytest.raises(ValueError, match=remedies):
        prepare({"source": "hub", "id": "a/b"}, tmp_path / "ours", mirror=tmp_path)


def scratch(folder: Path, texts: Iterable[str] = TEXTS) -> dict[str, Any]:
    return new_backbone(folder, seed=7, shape=SHAPE, texts=texts)


def test_scratch_learns_words_and_draws_weights_alike_in_every_process(tmp_path: Path) -> None:
    """Hash seeds differ between processes; neither words nor weights may."""
    endings = ("ing", "ed", "s", "ness", "é中")
    texts = [f"{word}{end} the{word} {end}{word}" for word in TEXTS for end in endings]
    program = (
        "import json, sys; from condenser.model.vocabulary import learn_wordpieces;"
        "print(json.dumps(learn_wordpieces(json.loads(sys.argv[1]), vocab_size=120)[0]))"
    )
    command = [sys.executable, "-c", program, json.dumps(texts)]
    there = json.loads(subprocess.check_output(command, cwd=Path(__file__).parents[3], timeout=120))
    assert learn_wordpieces(texts, vocab_size=120)[0] == there
    for number in (1, 2):
        torch.manual_seed(number)
        scratch(tmp_path / str(number), texts)
    names = files_in(tmp_path / "1")
    assert {WEIGHTS, "mlm_head.safetensors", "tokenizer.json"} < names
    same_bytes(tmp_path / "1", tmp_path / "2", names)


def test_scratch_backbone_is_a_bert_that_knows_its_collection(tmp_path: Path) -> None:
    counts = scratch(tmp_path / "ours", iter([*TEXTS, "z" * 300_000]))
    assert counts["words_too_long_to_learn"] == 1
    assert counts["pooler"] == counts["mlm_head"] == "new" and counts["layers"] == 2
    model, outcome = AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(outcome.values()), outcome
    assert model.config.vocab_size == counts["vocab_size"] <= 120
    assert model.config.max_position_embeddings == 16
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer.tokenize("The CAT sat") == ["the", "cat", "sat"]
    assert [tokenizer.decode([i]) for i in tokenizer("cat")["input_ids"]] == ["[CLS]", "cat", "[SEP]"]
    assert tokenizer.pad_token_id == 0 and tokenizer.mask_token_id == 4
    _, tensors, head, _ = read_checkpoint(tmp_path / "ours")
    assert head == {}
    assert (tensors["embeddings.word_embeddings.weight"][0] == 0).all()  # [PAD]


def test_a_tokenizer_from_scratch_names_a_class_that_transformers_4_knows(tmp_path: Path) -> None:
    """Version 5 calls it TokenizersBackend when it saves, also when it saves a copy.

    Version 4.57 reads further special tokens as a mapping; a list, as of version 5, stops it.
    """
    scratch(tmp_path / "first")
    prepare(tmp_path / "first", tmp_path / "copy")
    for name in ("first", "copy"):
        settings = json.loads((tmp_path / name / TOKENS).read_text())
        assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert not settings.get("extra_special_tokens") and "auto_map" not in settings
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "copy")
    assert tokenizer.is_fast
    assert tokenizer("cat")["input_ids"] == tokenizer.convert_tokens_to_ids(["[CLS]", "cat", "[SEP]"])


@pytest.mark.parametrize("long_word", ["ab" * 150_000, "x" * 101, "é" * 101, "[" + "pq" * 60])
def test_a_word_that_becomes_unk_in_any_case_does_not_change_the_vocabulary(long_word: str) -> None:
    """Learning from a word of 300,000 letters took a minute."""
    words, num_too_long = learn_wordpieces([*TEXTS, "[ x é"], vocab_size=120)
    assert num_too_long == 0
    assert learn_wordpieces([*TEXTS, f"{long_word} [ {long_word} x é"], vocab_size=120) == (words, 2)
    assert wordpiece_tokenizer(words, max_length=16).tokenize(long_word)[-1] == "[UNK]"


def test_the_longest_word_that_bert_splits_is_learnt_from() -> None:
    word = "q" * 100
    assert "q" not in learn_wordpieces([*TEXTS, f"q{word} q{word}"], vocab_size=300)[0]
    words, _ = learn_wordpieces([*TEXTS, f"{word} {word}"], vocab_size=300)
    assert word in words
    assert wordpiece_tokenizer(words, max_length=16).tokenize(word) == [word]


def test_a_vocabulary_without_room_for_words_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vocab_size: expected more than \d+ .* got 20"):
        learn_wordpieces(TEXTS, vocab_size=20)


@pytest.mark.parametrize(
    ("card", "languages"),
    [
        ("---\nlanguage: pl\nlicense: mit\n---\n# A model\n", ["pl"]),
        ("---\nlanguage: [EN, no-NO]\n---\n", ["en", "no"]),
        ("---\nlanguage:\n- multilingual\n---\n", ["multilingual"]),
        ("---\nlicense: mit\n---\n", []),
        ("# language: en\n", []),
        ("---\nlanguage: en", []),
        ("---\nlanguage:\n---\n", []),
        (None, []),
    ],
)
def test_the_languages_of_a_model_are_those_of_its_card(tmp_path, card, languages):
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert backbone_sources.languages_of_card(tmp_path) == languages
