from __future__ import annotations

import filecmp
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import small_config, transformers_bert, transformers_config
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    AutoTokenizer,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
)

from condenser.files import sha256_file
from condenser.model import backbone_sources
from condenser.model.backbone import new_backbone
from condenser.model.backbone_folder import load_backbone, save_backbone
from condenser.model.checkpoint import read_checkpoint
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.retriever import Retriever, UntiedEncoders
from condenser.model.text_vector import VECTOR_FILES
from condenser.model.tokenizer_files import wordpiece_tokenizer
from condenser.model.vocabulary import learn_wordpieces
from condenser.objectives import checkpoint

torch.set_num_threads(1)
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnop",
    *(f"##{c}" for c in "abcdefghijklmnop"),
]
SHAPE = {
    "hidden_size": 12,
    "num_layers": 2,
    "num_heads": 3,
    "intermediate_size": 20,
    "vocab_size": 120,
    "max_positions": 16,
}
TEXTS = ["the cat sat on the mat", "a cat and a dog sat", "dogs and cats, mats and hats!"] * 3


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def prepare(source: Any, folder: Path, *, mirror: str | None = None, **given: Any) -> dict[str, Any]:
    if source == "scratch":
        return new_backbone(folder, seed=7, **given)
    given = {name: str(value) for name, value in given.items()}
    settings = checkpoint.Settings(objective="checkpoint", source=source, **given)
    return checkpoint.prepare(settings, folder, seed=7, mirror=mirror, collection=None, system=None)


def write_checkpoint(folder: Path, kind: type, *, seed: int = 0) -> Any:
    """A checkpoint as transformers writes it, with a tokenizer that cuts at 8."""
    torch.manual_seed(seed)
    model = kind(transformers_config(small_config(num_layers=2))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer = wordpiece_tokenizer(WORDS, max_length=16)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=8)
    tokenizer.save_pretrained(folder)
    return model


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


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
    counts = prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    bert = model if kind is BertModel else model.bert
    same_states(tmp_path / "ours", bert)
    assert counts["pooler"] == ("new" if kind is BertForMaskedLM else "from checkpoint")
    assert counts["mlm_head"] == ("new" if kind is BertModel else "from checkpoint")
    if kind is not BertModel:
        states = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
        head = MaskedLanguageHead.load(tmp_path / "ours", small_config(num_layers=2))
        ours = head(states, load_backbone(tmp_path / "ours", dropout=None).embeddings.word_embeddings.weight)
        torch.testing.assert_close(ours, model.cls.predictions(states), rtol=0, atol=1e-6)


def test_auto_model_finds_every_weight_and_no_other(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    model, outcome = AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(model) is BertModel
    assert not any(outcome.values()), outcome
    same_states(tmp_path / "ours", model)


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertModel)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    save_backbone(load_backbone(tmp_path / "ours", dropout=None), tmp_path / "ours", tmp_path / "again")
    names = files_in(tmp_path / "again")
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        *VECTOR_FILES,
    }
    for name in names:
        assert sha256_file(tmp_path / "ours" / name) == sha256_file(tmp_path / "again" / name), name


def test_preparing_twice_gives_the_same_bytes_whatever_the_global_generator(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    for number in (1, 2):
        torch.manual_seed(number)
        prepare("folder", tmp_path / str(number), path=tmp_path / "source")
    before = torch.get_rng_state()
    load_backbone(tmp_path / "1", dropout=None)
    assert torch.equal(before, torch.get_rng_state())
    for name in files_in(tmp_path / "1"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_tensorflow_names_and_half_precision_are_understood(tmp_path: Path) -> None:
    """bert-base-uncased of the hub calls LayerNorm's weights gamma and beta."""
    model = write_checkpoint(tmp_path / "source", BertForPreTraining)
    weights = tmp_path / "source" / "model.safetensors"
    renamed = {}
    for name, value in load_file(weights).items():
        if "LayerNorm" in name:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )
        renamed[name] = value.half()
    renamed["bert.embeddings.position_ids"] = torch.arange(16)[None]
    save_file(renamed, weights)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    ours = load_backbone(tmp_path / "ours", dropout=None)
    assert all(p.dtype == torch.float32 for p in ours.parameters())
    same_states(tmp_path / "ours", model.half().float().bert)


def test_a_head_whose_decoder_is_not_the_embeddings_counts_as_new(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    weights = tmp_path / "source" / "model.safetensors"
    tensors = load_file(weights)
    tensors["cls.predictions.decoder.weight"] = torch.randn(40, 12)
    save_file(tensors, weights)
    assert prepare("folder", tmp_path / "ours", path=tmp_path / "source")["mlm_head"] == "new"


def test_new_head_is_drawn_as_bert_draws_it(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertModel)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    head = load_file(tmp_path / "ours" / "mlm_head.safetensors")
    assert set(head) == {
        *("bias", "transform.dense.weight", "transform.dense.bias"),
        *("transform.LayerNorm.weight", "transform.LayerNorm.bias"),
    }
    assert (head["transform.LayerNorm.weight"] == 1).all()
    for name in ("bias", "transform.dense.bias", "transform.LayerNorm.bias"):
        assert (head[name] == 0).all()
    deviation = head["transform.dense.weight"].std().item()
    assert 0.16 < deviation < 0.24  # initializer_range 0.2, 144 numbers


@pytest.mark.parametrize("tied", [True, False])
def test_a_trained_system_is_taken_byte_for_byte_with_a_new_head(tmp_path: Path, tied: bool) -> None:
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    prepare("folder", tmp_path / "start", path=tmp_path / "source")
    trained = (Retriever if tied else UntiedEncoders).load(tmp_path / "start", dropout=None)
    with torch.no_grad():
        for number, parameter in enumerate(trained.parameters()):
            parameter.add_(0.1 + number)  # so that two encoders differ
    trained.save(tmp_path / "trained", tmp_path / "start")
    settings = checkpoint.Settings(objective="checkpoint", source="system", dataset="a", system="b")
    options = {"seed": 7, "mirror": None, "collection": None, "system": tmp_path / "trained"}
    assert checkpoint.prepare(settings, tmp_path / "taken", **options)["mlm_head"] == "new"
    names = files_in(tmp_path / "trained")
    assert {"model.safetensors", "tokenizer.json", *VECTOR_FILES} <= names
    assert ("query/model.safetensors" in names) != tied
    _, different, missing = filecmp.cmpfiles(tmp_path / "trained", tmp_path / "taken", names, shallow=False)
    assert not (different or missing)


def test_our_own_folder_as_source_keeps_its_head(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    prepare("folder", tmp_path / "first", path=tmp_path / "source")
    assert prepare("folder", tmp_path / "second", path=tmp_path / "first")["mlm_head"] == "from checkpoint"
    names = ("model.safetensors", "mlm_head.safetensors", "config.json", "tokenizer.json")
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_tokenizer_neither_cuts_nor_pads(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertModel)
    long = "a b c d e f g h i j k l"
    assert len(AutoTokenizer.from_pretrained(tmp_path / "source").backend_tokenizer.encode(long)) == 8
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert len(tokenizer.backend_tokenizer.encode(long)) == 14
    assert len(tokenizer.backend_tokenizer.encode("a")) == 3
    assert tokenizer.model_max_length == 16
    assert str(tmp_path) not in (tmp_path / "ours" / "tokenizer_config.json").read_text()


def test_dropout_is_replaced_only_when_asked(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "source", BertModel)
    edit_json(tmp_path / "source" / "config.json", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    for dropout, expected in ((None, (0.2, 0.3)), (0.0, (0.0, 0.0)), (0.5, (0.5, 0.5))):
        model = load_backbone(tmp_path / "ours", dropout=dropout)
        assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob) == expected
        assert not any(p.requires_grad for p in model.pooler.parameters())


@pytest.mark.parametrize(
    "changes",
    [
        {"_attn_implementation": "evil/kernel@main:fn", "attn_implementation": {"": "evil/kernel"}},
        {"experts_implementation": "evil/kernel", "sub": {"auto_map": {}}},
        {"save_pretrained": 5, "to_dict": 5, "architectures": ["Evil"], "id2label": 5, "use_cache": "no"},
        {"gradient_checkpointing": True, "chunk_size_feed_forward": 7, "torchscript": True},
    ],
    ids=str,
)
def test_settings_that_change_no_vector_are_left_out(changes: dict, tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "source", BertModel)
    prepare("folder", tmp_path / "usual", path=tmp_path / "source")
    edit_json(tmp_path / "source" / "config.json", **changes)
    prepare("folder", tmp_path / "ours", path=tmp_path / "source")
    for name in files_in(tmp_path / "usual"):
        assert (tmp_path / "usual" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes(), name
    same_states(tmp_path / "ours", model)


# --- sources that are refused, each in one line


def refused(source: Path, ours: Path, match: str) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        prepare("folder", ours, path=source)
    assert "\n" not in str(caught.value)
    assert not ours.exists()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "source", BertModel)
    return tmp_path / "source"


SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size"),
)
CODE = {
    "auto_map": {"AutoModel": "modeling_evil.Evil", "AutoTokenizer": ["modeling_evil.Evil", None]},
    "trust_remote_code": True,
    "custom_pipelines": {"evil": {"impl": "modeling_evil.Evil"}},
}


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_beside_the_weights_is_refused(file: str, name: str, source: Path, tmp_path: Path) -> None:
    edit_json(source / file, **{name: CODE[name]})
    (source / "modeling_evil.py").write_text("raise SystemExit('ran')")
    refused(source, tmp_path / "ours", rf"{file}: {name} asks to run code that comes with the model")


def test_a_pickle_of_tensors_is_read_and_any_other_refused(source: Path, tmp_path: Path) -> None:
    prepare("folder", tmp_path / "expected", path=source)
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    refused(source, tmp_path / "ours", "expected weights as safetensors or pytorch_model.bin, got none")
    torch.save(tensors, source / "pytorch_model.bin")
    prepare("folder", tmp_path / "pickled", path=source)
    names = ("model.safetensors", "mlm_head.safetensors")
    assert all(
        map(filecmp.cmp, *([tmp_path / made / name for name in names] for made in ("expected", "pickled")))
    )

    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (tmp_path / "ran",)  # type: ignore[return-value]

    torch.save({**tensors, "trap": Trap()}, source / "pytorch_model.bin")
    refused(source, tmp_path / "ours", r"pytorch_model\.bin: expected a pickle of tensors alone")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "pickled",
    [
        *(b"", b"\x80\x02.", b"\x80\x02)R.", b"\x80\x02h\x05.", b"PK\x03\x04abc", b"\x80\x02}q\x00(X"),
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
        *({1: torch.zeros(2)}, {"a": torch.zeros(2).to_sparse()}, {"a": torch.zeros(2, device="meta")}),
        {"a": torch.zeros(1).half().expand(2**20, 2**20)},
    ],
    ids=lambda pickled: repr(pickled)[:60],
)
def test_an_odd_pickle_is_refused_in_one_line(pickled: Any, source: Path, tmp_path: Path) -> None:
    (source / "model.safetensors").unlink()
    if isinstance(pickled, bytes):
        (source / "pytorch_model.bin").write_bytes(pickled)
    else:
        torch.save(pickled, source / "pytorch_model.bin")
    refused(source, tmp_path / "ours", r"pytorch_model\.bin: expected (a pickle of tensors|tensors by name)")


def test_weights_in_several_files_are_read_by_their_index(source: Path, tmp_path: Path) -> None:
    prepare("folder", tmp_path / "expected", path=source)
    tensors = load_file(source / "model.safetensors")
    (source / "model.safetensors").unlink()
    halves = {f"model-0000{number}-of-00002.safetensors": [*tensors][number - 1 :: 2] for number in (1, 2)}
    for name, half in halves.items():
        save_file({each: tensors[each] for each in half}, source / name)
    places = {each: name for name, half in halves.items() for each in half}
    index = source / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    prepare("folder", tmp_path / "ours", path=source)
    name = "model.safetensors"
    assert filecmp.cmp(tmp_path / "expected" / name, tmp_path / "ours" / name)
    (source / "model-00002-of-00002.safetensors").unlink()
    refused(source, tmp_path / "again", r"model-00002-of-00002\.safetensors: no such file, but model\.safe")
    for places in ({"a": "../../secret"}, {}):
        index.write_text(json.dumps({"weight_map": places}))
        refused(source, tmp_path / "again", "expected a weight_map with names of files")


def test_a_pickle_named_safetensors_is_refused_without_being_read(source: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return exec, ("raise SystemExit('unpickled')",)

    torch.save({"embeddings.word_embeddings.weight": Trap()}, source / "model.safetensors")
    refused(source, tmp_path / "ours", r"model\.safetensors: expected a complete safetensors file")


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_nan_and_infinite_weights_are_refused(value: float, source: Path, tmp_path: Path) -> None:
    tensors = load_file(source / "model.safetensors")
    tensors["encoder.layer.1.output.dense.bias"][3] = value
    save_file(tensors, source / "model.safetensors")
    refused(source, tmp_path / "ours", r"expected finite weights, got NaN or infinity in encoder\.layer\.1\.")


def test_a_head_with_nan_is_refused(source: Path, tmp_path: Path) -> None:
    prepare("folder", tmp_path / "first", path=source)
    head = load_file(tmp_path / "first" / "mlm_head.safetensors")
    save_file({**head, "bias": head["bias"] + float("nan")}, tmp_path / "first" / "mlm_head.safetensors")
    refused(
        tmp_path / "first", tmp_path / "ours", r"mlm_head\.safetensors: expected finite weights, .* in bias"
    )


@pytest.mark.parametrize(
    "changes",
    [
        *({"hidden_size": 13}, {"hidden_act": "evil"}, {"hidden_act": 5}, {"pad_token_id": 99}),
        *({"layer_norm_eps": 0}, {"hidden_dropout_prob": 1.5}, {"initializer_range": "0.02"}),
    ],
    ids=str,
)
def test_settings_that_bert_rejects_are_refused(changes: dict, source: Path, tmp_path: Path) -> None:
    edit_json(source / "config.json", **changes)
    refused(source, tmp_path / "ours", r"config\.json: expected the settings of an encoder of type bert \(")


@pytest.mark.parametrize(
    ("name", "value"),
    [*((name, 24) for name in SIZES), *(("hidden_size", value) for value in ("abc", None, 0, 12.5, [12]))],
)
def test_a_size_that_does_not_fit_the_weights_is_refused(
    name: str, value: object, source: Path, tmp_path: Path
) -> None:
    edit_json(source / "config.json", **{name: value})
    refused(
        source,
        tmp_path / "ours",
        r"config\.json: expected the settings of an encoder of type bert \(|"
        r"model\.safetensors: does not fit its configuration \(",
    )


@pytest.mark.parametrize("name", ["num_hidden_layers", *SIZES[:2], *SIZES[4:]])
def test_a_size_beyond_the_weights_takes_no_memory(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condenser.model.backbone.empty_backbone", lambda _: pytest.fail("memory was taken"))
    edit_json(source / "config.json", **{name: 3 * 10**8})
    refused(source, tmp_path / "ours", "does not fit its configuration|equal to 1000, got 300000000")


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["{", "<html>"])
def test_settings_that_are_not_json_are_refused(
    file: str, content: str, source: Path, tmp_path: Path
) -> None:
    (source / file).write_text(content)
    refused(source, tmp_path / "ours", rf"{file}:1: expected JSON, got ")


@pytest.mark.parametrize("content", ["{}", '{"version": "1.0", "added_tokens": [', "<html>"])
def test_a_damaged_tokenizer_is_refused(content: str, source: Path, tmp_path: Path) -> None:
    (source / "tokenizer.json").write_text(content)
    refused(source, tmp_path / "ours", "expected a tokenizer, got a damaged one")


@pytest.mark.parametrize("content", ["null", '"auto_map"', '["auto_map"]'])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "special_tokens_map.json"])
def test_settings_that_are_no_object_are_refused_in_one_line(
    file: str, content: str, source: Path, tmp_path: Path
) -> None:
    (source / file).write_text(content)
    refused(source, tmp_path / "ours", rf"{file}: expected a JSON object, got ")


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ([("Transformer", ""), ("Pooling", "/etc")], "expected paths inside the model's folder, got '/etc'"),
        (
            [("Transformer", ""), ("Pooling", "../..")],
            r"expected paths inside the model's folder, got '\.\./",
        ),
        ([("Transformer", ""), ("Pooling", 3)], "expected a list of modules with type and path"),
        ([("Transformer", ""), ("\x1b[2J", "1")], r"got Transformer, \\x1b\[2J\. Set"),
    ],
)
def test_modules_of_others_lead_nowhere_and_write_nothing_on_a_terminal(
    modules: list[tuple[str, Any]], said: str, source: Path, tmp_path: Path
) -> None:
    (source / "modules.json").write_text(json.dumps([{"type": kind, "path": at} for kind, at in modules]))
    with pytest.raises(ValueError, match=said) as caught:
        prepare("folder", path=source, folder=tmp_path / "ours")
    assert str(caught.value).isprintable()


def test_quantised_weights_are_refused(source: Path, tmp_path: Path) -> None:
    edit_json(source / "config.json", quantization_config={"quant_method": "gptq"})
    refused(source, tmp_path / "ours", r"config\.json: expected quantization_config None")


EXOTIC = {"I8": 1, "BOOL": 1, "C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F4": 0.5}


@pytest.mark.parametrize(
    ("file", "dtype"), [*(("model.safetensors", dtype) for dtype in EXOTIC), ("mlm_head.safetensors", "I8")]
)
def test_weights_that_are_not_floating_point_are_refused(
    file: str, dtype: str, source: Path, tmp_path: Path
) -> None:
    num_bytes = int(8 * EXOTIC[dtype])
    described = {"dtype": dtype, "shape": [8], "data_offsets": [0, num_bytes]}
    header = json.dumps({"pooler.dense.bias": described}).encode()
    (source / file).write_bytes(struct.pack("<Q", len(header)) + header + bytes(num_bytes))
    refused(
        source,
        tmp_path / "ours",
        rf"{file}: expected floating-point weights of 16, 32 or 64 bits, got torch\.\w+ in 'pooler",
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_weights_of_every_floating_point_type_become_float32(
    dtype: torch.dtype, source: Path, tmp_path: Path
) -> None:
    tensors = {name: value.to(dtype) for name, value in load_file(source / "model.safetensors").items()}
    save_file(tensors, source / "model.safetensors")
    prepare("folder", tmp_path / "ours", path=source)
    for name, value in load_file(tmp_path / "ours" / "model.safetensors").items():
        assert value.dtype == torch.float32 and torch.equal(value, tensors[name].float()), name


def test_two_different_biases_of_the_head_are_refused(tmp_path: Path) -> None:
    """Checkpoints hold the head's bias twice; it has to be the same."""
    write_checkpoint(tmp_path / "source", BertForMaskedLM)
    weights = tmp_path / "source" / "model.safetensors"
    tensors = load_file(weights)
    bias = tensors["cls.predictions.bias"]
    save_file({**tensors, "cls.predictions.decoder.bias": bias.clone()}, weights)
    assert prepare("folder", tmp_path / "same", path=tmp_path / "source")["mlm_head"] == "from checkpoint"
    assert torch.equal(load_file(tmp_path / "same" / "mlm_head.safetensors")["bias"], bias)
    save_file({**tensors, "cls.predictions.decoder.bias": bias + 1}, weights)
    refused(tmp_path / "source", tmp_path / "ours", r"expected cls\.predictions\.bias and .* to be the same")


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    config = AlbertConfig(vocab_size=40, hidden_size=12, num_attention_heads=3, intermediate_size=20)
    AlbertModel(config).save_pretrained(tmp_path / "source")
    refused(tmp_path / "source", tmp_path / "ours", "expected as model_type one of bert, .*, got 'albert'")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"is_decoder": True}, "is_decoder False, got True"),
        ({"add_cross_attention": True}, "add_cross_attention False, got True"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type absolute, got 'relative_key'"),
    ],
)
def test_a_bert_that_is_not_a_plain_encoder_is_refused(
    changes: dict, match: str, source: Path, tmp_path: Path
) -> None:
    edit_json(source / "config.json", **changes)
    refused(source, tmp_path / "ours", match)


MISSING = [
    "encoder.layer.1.output.dense.weight",
    "embeddings.LayerNorm.bias",
    "embeddings.word_embeddings.weight",
]


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_weight_is_refused(name: str, source: Path, tmp_path: Path) -> None:
    tensors = load_file(source / "model.safetensors")
    del tensors[name]
    save_file(tensors, source / "model.safetensors")
    refused(source, tmp_path / "ours", name)


def test_an_unknown_weight_is_refused(source: Path, tmp_path: Path) -> None:
    tensors = load_file(source / "model.safetensors")
    save_file({**tensors, "encoder.layer.2.adapter.weight": torch.zeros(2)}, source / "model.safetensors")
    refused(source, tmp_path / "ours", "adapter")


def test_a_pruned_head_is_refused(source: Path, tmp_path: Path) -> None:
    model = BertModel.from_pretrained(source)
    for part in ("query", "key", "value"):  # one head of three
        linear = getattr(model.encoder.layer[0].attention.self, part)
        linear.weight, linear.bias = (torch.nn.Parameter(value[:8]) for value in (linear.weight, linear.bias))
    save_file(model.state_dict(), source / "model.safetensors")
    refused(source, tmp_path / "ours", r"model\.safetensors: does not fit its configuration")


def test_weights_cut_short_are_refused(source: Path, tmp_path: Path) -> None:
    data = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(data[: len(data) // 2])
    refused(source, tmp_path / "ours", "expected a complete safetensors file")


SECRET = "a-secret-of-the-user"


@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("key", ["vocab", "vocab_file", "tokenizer_file"])
def test_settings_of_a_tokenizer_reach_no_file_beside_it(
    file: str, key: str, source: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text(f"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{SECRET}\n")
    (source / "tokenizer.json").rename(source / "other.json")
    (source / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n")
    (source / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (source / file).write_text(json.dumps({key: str(tmp_path / "secret.txt")}))
    prepare("folder", path=source, folder=tmp_path / "ours")
    assert SECRET not in (tmp_path / "ours" / "tokenizer.json").read_text()
    assert "word" in (tmp_path / "ours" / "tokenizer.json").read_text()
    assert key not in (tmp_path / "ours" / "tokenizer_config.json").read_text()


@pytest.mark.parametrize(
    "name",
    [
        *("vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json", "config.json"),
        *("model.safetensors", "modules.json", "config_sentence_transformers.json", "1_Pooling/config.json"),
    ],
)
def test_a_link_that_leaves_the_folder_is_refused(name: str, source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    if "/" in name:
        (tmp_path / "other").mkdir()
        (source / "1_Pooling").symlink_to(tmp_path / "other")
        secret = tmp_path / "other" / "config.json"
    secret.write_text(json.dumps({"pad_token": SECRET}))
    if "/" not in name:
        (source / name).unlink(missing_ok=True)
        (source / name).symlink_to(secret)
    refused(source, tmp_path / "ours", f"{name}: expected a file of the checkpoint, got a link to {secret}")


def test_links_inside_the_folder_and_of_a_snapshot_of_the_hub_are_followed(
    source: Path, tmp_path: Path
) -> None:
    prepare("folder", path=source, folder=tmp_path / "plain")
    snapshot = tmp_path / "models--x--y" / "snapshots" / "0123"
    blobs = tmp_path / "models--x--y" / "blobs"
    shutil.copytree(source, snapshot)
    blobs.mkdir()
    for number, file in enumerate(sorted(file for file in snapshot.iterdir() if file.is_file())):
        file.rename(blobs / str(number))
        file.symlink_to(Path("..", "..", "blobs", str(number)))
    (tmp_path / "linked").symlink_to(snapshot)
    (source / "real.json").write_bytes((source / "tokenizer.json").read_bytes())
    (source / "tokenizer.json").unlink()
    (source / "tokenizer.json").symlink_to("real.json")
    for number, path in enumerate((snapshot, tmp_path / "linked", source)):
        prepare("folder", path=path, folder=tmp_path / f"ours{number}")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            ours = (tmp_path / f"ours{number}" / name).read_bytes()
            assert ours == (tmp_path / "plain" / name).read_bytes()


def test_a_tokenizer_with_words_beyond_the_embeddings_is_refused(source: Path, tmp_path: Path) -> None:
    words = [*WORDS, *(f"extra{number}" for number in range(10))]
    wordpiece_tokenizer(words, max_length=16).save_pretrained(source)
    refused(source, tmp_path / "ours", r"tokenizer\.json: expected ids below 40, .* got 46 for 'extra9'")


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda told: told["model"]["vocab"].update(p=40), r"ids below 40, .* got 40 for 'p'"),
        (lambda told: told["truncation"].update(direction="Left"), "truncation_side right, got 'left'"),
        (lambda told: told.update(post_processor=None), "one token before a text .*, got ids .5, 1. for"),
        (lambda told: told["model"]["vocab"].pop("[MASK]"), "for each id, got '##p' and '.MASK.' for 36"),
        (lambda told: told["model"]["vocab"].pop("[UNK]"), "reads any character, got an error .*UNK"),
    ],
)
def test_a_tokenizer_that_gives_other_tokens_than_are_encoded_here_is_refused(
    edit: Any, match: str, source: Path, tmp_path: Path
) -> None:
    told = json.loads((source / "tokenizer.json").read_text())
    edit(told)
    words = told["model"]["vocab"]
    told["added_tokens"] = [token for token in told["added_tokens"] if token["content"] in words]
    edit_json(source / "tokenizer_config.json", unk_token=None)
    (source / "tokenizer.json").write_text(json.dumps(told))
    refused(source, tmp_path / "ours", match)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("tokenizer_config.json", "truncation_side", "left"),
        ("tokenizer_config.json", "split_special_tokens", True),
        ("sentence_bert_config.json", "transformer_task", "fill-mask"),
        ("sentence_bert_config.json", "processing_kwargs", {"text": {"add_special_tokens": False}}),
        ("sentence_bert_config.json", "config_args", {"hidden_act": "relu"}),
        ("config_sentence_transformers.json", "truncate_dim", 4),
    ],
)
def test_a_setting_that_sentence_transformers_obeys_alone_is_refused(
    file: str, name: str, value: Any, source: Path, tmp_path: Path
) -> None:
    if not (source / file).is_file():
        (source / file).write_text("{}")
    edit_json(source / file, **{name: value})
    refused(source, tmp_path / "ours", rf"{file}: expected {name} .*, got ")


def test_padding_on_the_left_is_not_copied(source: Path, tmp_path: Path) -> None:
    prepare("folder", tmp_path / "expected", path=source)
    edit_json(source / "tokenizer_config.json", padding_side="left")
    prepare("folder", tmp_path / "ours", path=source)
    told = json.loads((tmp_path / "ours" / "tokenizer_config.json").read_text())
    assert told.get("padding_side", "right") == "right"


def test_a_missing_folder_config_or_tokenizer_is_refused(source: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", tmp_path / "ours", r"config\.json: no such file")
    (source / "tokenizer.json").unlink()
    refused(source, tmp_path / "ours", r"expected one of tokenizer.json, vocab.txt")


# --- the four sources


def test_embedded_backbone_is_the_published_minilm(tmp_path: Path) -> None:
    counts = prepare("embedded", tmp_path / "ours")
    assert (counts["layers"], counts["hidden_size"], counts["vocab_size"]) == (6, 384, 30522)
    assert counts["parameters"] == 22_713_216
    published = backbone_sources.embedded_folder()
    ours = load_file(tmp_path / "ours" / "model.safetensors")
    theirs = {k: v for k, v in load_file(published / "model.safetensors").items() if "position_ids" not in k}
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_embedded_weights_of_another_digest_are_refused_and_the_package_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / backbone_sources.EMBEDDED_PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=f"expected SHA-256 {backbone_sources.EMBEDDED_SHA256}, got "):
        backbone_sources.embedded_folder()


def test_hub_id_is_taken_from_the_mirror(source: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(source, mirror / "someone" / "small-bert")
    counts = prepare("hub", tmp_path / "ours", id="someone/small-bert", mirror=str(mirror))
    assert counts["layers"] == 2
    assert counts["source_sha256"] == sha256_file(source / "model.safetensors")
    same_states(tmp_path / "ours", BertModel.from_pretrained(source))


def test_a_model_of_the_hub_is_recorded_with_its_commit(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache of the hub's own client, which it reads without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "hub" / "models--x--y"
    shutil.copytree(source, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert prepare("hub", tmp_path / "ours", id="x/y")["revision"] == commit
    shutil.copytree(source, tmp_path / "mirror" / "x" / "y")
    assert (
        prepare("hub", tmp_path / "mirrored", id="x/y", mirror=str(tmp_path / "mirror"))["revision"] is None
    )


def test_hub_out_of_reach_names_both_remedies_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        ValueError, match=rf"Put its files into {tmp_path}/nobody/nothing/.*embedded"
    ) as caught:
        prepare("hub", tmp_path / "ours", id="nobody/nothing", mirror=str(tmp_path))
    assert "\n" not in str(caught.value) and "nobody/nothing" in str(caught.value)


def test_scratch_learns_words_and_draws_weights_alike_in_every_process(tmp_path: Path) -> None:
    """Hash seeds differ between processes; neither words nor weights may."""
    program = (
        "import sys, json; from condenser.model.backbone import new_backbone;"
        "shape, texts, folder = json.loads(sys.argv[1]);"
        "new_backbone(folder, seed=7, shape=shape, texts=texts)"
    )
    texts = [
        f"{word}{end} the{word} {end}{word}" for word in TEXTS for end in ("ing", "ed", "s", "ness", "é中")
    ]
    settings = json.dumps([SHAPE, texts, str(tmp_path / "there")])
    subprocess.run(
        [sys.executable, "-c", program, settings], check=True, cwd=Path(__file__).parents[3], timeout=120
    )
    prepare("scratch", tmp_path / "here", shape=SHAPE, texts=texts)
    names = files_in(tmp_path / "here")
    assert {"model.safetensors", "mlm_head.safetensors", "tokenizer.json"} < names
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name


def test_scratch_backbone_is_a_bert_that_knows_its_collection(tmp_path: Path) -> None:
    counts = prepare("scratch", tmp_path / "ours", shape=SHAPE, texts=iter([*TEXTS, "z" * 300_000]))
    assert counts["words_too_long_to_learn"] == 1
    assert counts["pooler"] == counts["mlm_head"] == "new" and counts["layers"] == 2
    model, outcome = AutoModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(outcome.values()), outcome
    assert model.config.vocab_size == counts["vocab_size"] <= 120
    assert model.config.max_position_embeddings == 16
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert tokenizer.tokenize("The CAT sat") == ["the", "cat", "sat"]
    ids = tokenizer("cat")["input_ids"]
    assert [tokenizer.decode([i]) for i in ids] == ["[CLS]", "cat", "[SEP]"]
    assert tokenizer.pad_token_id == 0 and tokenizer.mask_token_id == 4
    _, tensors, head, _ = read_checkpoint(tmp_path / "ours")
    assert head == {}
    assert (tensors["embeddings.word_embeddings.weight"][0] == 0).all()  # [PAD]


def test_a_tokenizer_from_scratch_names_a_class_that_transformers_4_knows(tmp_path: Path) -> None:
    """Version 5 calls it TokenizersBackend when it saves, also when it saves a copy.

    Version 4.57 reads further special tokens as a mapping; a list, as of version 5, stops it.
    """
    prepare("scratch", tmp_path / "first", shape=SHAPE, texts=iter(TEXTS))
    prepare("folder", tmp_path / "copy", path=tmp_path / "first")
    for name in ("first", "copy"):
        settings = json.loads((tmp_path / name / "tokenizer_config.json").read_text())
        assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert not settings.get("extra_special_tokens") and "auto_map" not in settings
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "copy")
    assert tokenizer.is_fast and tokenizer("cat")["input_ids"] == tokenizer.convert_tokens_to_ids(
        ["[CLS]", "cat", "[SEP]"]
    )


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
        *(
            ("---\nlicense: mit\n---\n", []),
            ("# language: en\n", []),
            ("---\nlanguage: [\n---\n", []),
            ("---\nlanguage: en", []),
            ("", []),
        ),
        *(("---\nlanguage:\n---\n", []), ("---\n- language\n---\n", []), (None, [])),
    ],
)
def test_the_languages_of_a_model_are_those_of_its_card(tmp_path, card, languages):
    if card is not None:
        (tmp_path / "README.md").write_text(card)
    assert backbone_sources.languages_of_card(tmp_path) == languages
