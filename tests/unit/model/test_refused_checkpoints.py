"""Checkpoints of others that are refused, each in one line, before anything is written."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import write_checkpoint
from transformers import BertForMaskedLM, BertModel

from condenser.model.backbone import backbone_from
from condenser.objectives import checkpoint

Edit = Callable[[Path], object]
CONFIG, TOKENS, TOKENIZER = "config.json", "tokenizer_config.json", "tokenizer.json"
WEIGHTS, HEAD, PICKLE = "model.safetensors", "mlm_head.safetensors", "pytorch_model.bin"
INDEX, MODULES, POOLING = f"{WEIGHTS}.index.json", "modules.json", "1_Pooling/config.json"
TEXTS, SIMILARITY = "sentence_bert_config.json", "config_sentence_transformers.json"


def put(name: str, content: str | bytes) -> Edit:
    """Another content of a file."""

    def edit(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return edit


def keys(name: str, **changes: Any) -> Edit:
    """Other keys of a file of settings."""

    def edit(folder: Path) -> None:
        kept = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        put(name, json.dumps(kept | changes))(folder)

    return edit


def both(*edits: Edit) -> Edit:
    """One edit after another."""

    def edit(folder: Path) -> None:
        for each in edits:
            each(folder)

    return edit


def without(name: str) -> Edit:
    """A file less."""
    return lambda folder: (folder / name).unlink()


def linked(name: str) -> Edit:
    """A file that is a link to one of the user's."""

    def edit(folder: Path) -> None:
        put(name, "")(folder)
        (folder / name).unlink()
        (folder / name).symlink_to(folder.parent / "secret")

    return both(put("../secret", "{}"), edit)


def tensors(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Edit:
    """Other weights."""
    return lambda folder: save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def pickled(content: object) -> Edit:
    """A pickle in place of the weights."""
    return both(without(WEIGHTS), lambda folder: torch.save(content, folder / PICKLE))


def of_type(dtype: str, num_bytes: int) -> bytes:
    """A safetensors file with eight numbers of a type."""
    described = {"dtype": dtype, "shape": [8], "data_offsets": [0, num_bytes]}
    header = json.dumps({"pooler.dense.bias": described}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(num_bytes)


def words(change: Callable[[dict[str, int]], object]) -> Edit:
    """A tokenizer of other words, without the special tokens that are none of them."""

    def edit(folder: Path) -> None:
        told = json.loads((folder / TOKENIZER).read_text())
        known = told["model"]["vocab"]
        change(known)
        told["added_tokens"] = [token for token in told["added_tokens"] if token["content"] in known]
        put(TOKENIZER, json.dumps(told))(folder)

    return both(keys(TOKENS, unk_token=None), edit)


def modules(*names: str, path: object = "1_Pooling", pooling: object = None) -> Edit:
    """Modules of sentence-transformers; `path` and `pooling` are those of the second."""
    places = ["", path, *(f"{number}_{name}" for number, name in enumerate(names[2:], start=2))]
    entries = [
        {"path": place, "type": f"sentence_transformers.models.{name}"}
        for name, place in zip(names, places, strict=True)
    ]
    of_modules = put(MODULES, json.dumps(entries))
    return of_modules if pooling is None else both(of_modules, put(POOLING, json.dumps(pooling)))


class Trap:
    """What runs code when a pickle of it is read."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, ("raise SystemExit('unpickled')",)


def with_two_biases(folder: Path) -> None:
    """A head whose bias is there twice, differently."""
    write_checkpoint(folder, BertForMaskedLM)
    tensors(lambda weights: weights | {"cls.predictions.decoder.bias": torch.ones(40)})(folder)


def with_a_pruned_layer(folder: Path) -> None:
    """A first layer with two heads of three."""
    weights = load_file(folder / WEIGHTS)
    changes = {
        name: value[:8].clone() for name, value in weights.items() if ".layer.0.attention.self" in name
    }
    save_file(weights | changes, folder / WEIGHTS)


PLAIN, CLS, QUERY = ("Transformer", "Pooling"), {"pooling_mode": "cls"}, {"query": "query: "}
LEFT = {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
UNFIT = f"{WEIGHTS}: does not fit its configuration ("
SETTINGS = f"{CONFIG}: expected the settings of an encoder of type bert ("
CODE = "asks to run code that comes with the model"
NO_TENSORS, NO_NAMES = (
    f"{PICKLE}: expected a pickle of tensors alone (",
    f"{PICKLE}: expected tensors by name",
)
NOT_FINITE, NO_NUMBERS = "expected finite weights, got NaN or infinity in", "expected floating-point weights"
NO_FILE_OF_IT = "expected a file of the checkpoint, got a link to"
ODD_MODULES = f"{MODULES}: expected the modules Transformer, Pooling and at most Dense and Normalize, got "
ODD_PATH = f"{MODULES}: expected paths inside the model's folder, got"
ODD_POOLING = f"{POOLING}: expected one pooling of cls, mean, max, last, weighted, got "

REFUSED: list[tuple[Edit, str]] = [  # what is edited in a good folder, and how the message begins
    # --- settings
    (without(CONFIG), f"{CONFIG}: no such file"),
    (put(CONFIG, "{"), f"{CONFIG}:1: expected JSON, got"),
    (put(CONFIG, '["auto_map"]'), f"{CONFIG}: expected a JSON object, got"),
    (keys(CONFIG, model_type="albert"), f"{CONFIG}: expected as model_type one of bert,"),
    (keys(CONFIG, is_decoder=True), f"{CONFIG}: expected is_decoder False, got True"),
    (keys(CONFIG, add_cross_attention=True), f"{CONFIG}: expected add_cross_attention False, got True"),
    (keys(CONFIG, position_embedding_type="relative_key"), f"{CONFIG}: expected position_embedding_type"),
    (keys(CONFIG, quantization_config={"bits": 4}), f"{CONFIG}: expected quantization_config None"),
    (keys(CONFIG, hidden_size=13), f"{SETTINGS}Value error, hidden_size 13 is no multiple of"),
    (keys(CONFIG, hidden_size=None), f"{SETTINGS}hidden_size:"),
    (keys(CONFIG, intermediate_size=0), f"{SETTINGS}intermediate_size:"),
    (keys(CONFIG, num_hidden_layers=3 * 10**8), f"{SETTINGS}num_hidden_layers:"),
    (keys(CONFIG, hidden_act="evil"), f"{SETTINGS}hidden_act:"),
    (keys(CONFIG, pad_token_id=99), f"{SETTINGS}Value error, pad_token_id 99 is not below"),
    (keys(CONFIG, layer_norm_eps=0), f"{SETTINGS}layer_norm_eps:"),
    (keys(CONFIG, hidden_dropout_prob=1.5), f"{SETTINGS}hidden_dropout_prob:"),
    (keys(CONFIG, initializer_range="0.02"), f"{SETTINGS}initializer_range:"),
    # --- code, and files outside the folder
    (keys(CONFIG, auto_map={"AutoModel": "modeling_evil.Evil"}), f"{CONFIG}: auto_map {CODE}"),
    (keys(CONFIG, trust_remote_code=True), f"{CONFIG}: trust_remote_code {CODE}"),
    (keys(CONFIG, custom_pipelines={"evil": {}}), f"{CONFIG}: custom_pipelines {CODE}"),
    (keys(TOKENS, auto_map={"AutoTokenizer": ["evil.Evil", None]}), f"{TOKENS}: auto_map {CODE}"),
    (pickled({"pooler.dense.weight": Trap()}), f"{NO_TENSORS}it asks for exec"),
    (lambda folder: torch.save(Trap(), folder / WEIGHTS), f"{WEIGHTS}: expected a complete safetensors file"),
    (linked(TOKENIZER), f"{TOKENIZER}: {NO_FILE_OF_IT}"),
    (linked("vocab.txt"), f"vocab.txt: {NO_FILE_OF_IT}"),
    (linked(WEIGHTS), f"{WEIGHTS}: {NO_FILE_OF_IT}"),
    (linked(POOLING), f"{POOLING}: {NO_FILE_OF_IT}"),
    # --- weights
    (without(WEIGHTS), f"{WEIGHTS}: expected weights as safetensors or {PICKLE}, got none"),
    (put(WEIGHTS, of_type("F32", 32)[:-1]), f"{WEIGHTS}: expected a complete safetensors file"),
    (keys(CONFIG, vocab_size=24), UNFIT),
    (keys(CONFIG, type_vocab_size=24), UNFIT),
    (keys(CONFIG, num_hidden_layers=3), UNFIT),
    (tensors(lambda it: it | {"encoder.layer.2.adapter.weight": torch.zeros(2)}), UNFIT),
    (with_a_pruned_layer, UNFIT),
    (
        tensors(lambda it: it | {"pooler.dense.bias": torch.full((12,), torch.nan)}),
        f"{WEIGHTS}: {NOT_FINITE}",
    ),
    (
        tensors(lambda it: it | {"pooler.dense.bias": torch.full((12,), torch.inf)}),
        f"{WEIGHTS}: {NOT_FINITE}",
    ),
    (put(WEIGHTS, of_type("I8", 8)), f"{WEIGHTS}: {NO_NUMBERS}"),
    (put(WEIGHTS, of_type("C64", 64)), f"{WEIGHTS}: {NO_NUMBERS}"),
    (put(WEIGHTS, of_type("F8_E4M3", 8)), f"{WEIGHTS}: {NO_NUMBERS}"),
    (put(WEIGHTS, of_type("F4", 4)), f"{WEIGHTS}: {NO_NUMBERS}"),
    (put(HEAD, of_type("I8", 8)), f"{HEAD}: {NO_NUMBERS}"),
    (lambda folder: save_file({"bias": torch.tensor([torch.nan])}, folder / HEAD), f"{HEAD}: {NOT_FINITE}"),
    (with_two_biases, f"{WEIGHTS}: expected cls.predictions.bias and cls.predictions.decoder.bias to be the"),
    # --- weights in several files, or as a pickle
    (both(without(WEIGHTS), put(INDEX, "[]")), f"{INDEX}: expected a weight_map with names of files"),
    (both(without(WEIGHTS), keys(INDEX, weight_map={})), f"{INDEX}: expected a weight_map with names"),
    (both(without(WEIGHTS), keys(INDEX, weight_map={"a": "../../b"})), f"{INDEX}: expected a weight_map"),
    (both(without(WEIGHTS), keys(INDEX, weight_map={"a": "b"})), f"b: no such file, but {INDEX} names it"),
    (both(without(WEIGHTS), put(PICKLE, b"")), NO_TENSORS),
    (both(without(WEIGHTS), put(PICKLE, b"\x80\x02)R.")), NO_TENSORS),
    (both(without(WEIGHTS), put(PICKLE, b"\x80\x02h\x05.")), NO_TENSORS),
    (both(without(WEIGHTS), put(PICKLE, b"PK\x03\x04abc")), NO_TENSORS),
    (both(without(WEIGHTS), put(PICKLE, b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.")), NO_TENSORS),
    (both(without(WEIGHTS), put(PICKLE, b"\x80\x02.")), NO_TENSORS),
    (pickled({1: torch.zeros(2)}), NO_NAMES),
    (pickled({"a": torch.zeros(2).to_sparse()}), NO_NAMES),
    (pickled({"a": torch.zeros(2, device="meta")}), NO_NAMES),
    (pickled({"a": torch.zeros(1).half().expand(2**20, 2**20)}), NO_NAMES),
    # --- tokenizer
    (without(TOKENIZER), f": expected one of {TOKENIZER}, vocab.txt,"),
    (put(TOKENIZER, "{}"), ": expected a tokenizer, got a damaged one ("),
    (put(TOKENS, "<html>"), f"{TOKENS}:1: expected JSON, got"),
    (put("special_tokens_map.json", "[]"), "special_tokens_map.json: expected a JSON object, got"),
    (keys(TOKENS, truncation_side="left"), f"{TOKENS}: expected truncation_side right, got 'left'"),
    (keys(TOKENS, split_special_tokens=True), f"{TOKENS}: expected split_special_tokens False, got True"),
    (keys(TOKENIZER, truncation=LEFT), f"{TOKENIZER}: expected truncation_side right, got 'left'"),
    (keys(TOKENIZER, post_processor=None), ": expected a tokenizer that puts one token before a text"),
    (words(lambda known: known.update(p=40)), f"{TOKENIZER}: expected ids below 40,"),
    (words(lambda known: known.pop("[MASK]")), f"{TOKENIZER}: expected one token for each id, got '##p'"),
    (words(lambda known: known.pop("[UNK]")), ": expected a tokenizer that reads any character, got"),
    (keys(TEXTS, transformer_task="fill-mask"), f"{TEXTS}: expected transformer_task feature-extraction,"),
    (keys(TEXTS, config_args={"hidden_act": "relu"}), f"{TEXTS}: expected config_args {{}}, got"),
    (keys(TEXTS, max_seq_length="8"), f"{TEXTS}: expected a number as max_seq_length,"),
    (keys(TEXTS, do_lower_case=1), f"{TEXTS}: expected a number as max_seq_length, true or false as do_"),
    # --- the vector of a text
    (put(MODULES, '{"a": 1}'), f"{MODULES}: expected a list of modules with type and path, got"),
    (modules(*PLAIN, path=3), f"{MODULES}: expected a list of modules with type and path, got"),
    (modules(*PLAIN, path="/etc"), f"{ODD_PATH} '/etc'"),
    (modules(*PLAIN, path="../.."), f"{ODD_PATH} '../..'"),
    (modules("Transformer", "\x1b[2J"), rf"{ODD_MODULES}Transformer, \x1b[2J"),
    (modules(*PLAIN, "LayerNorm"), f"{ODD_MODULES}Transformer, Pooling, LayerNorm"),
    (modules(*PLAIN, "Normalize", "Dense"), f"{ODD_MODULES}Transformer, Pooling, Normalize, Dense"),
    (modules(*PLAIN, "Dense", pooling=CLS), "2_Dense/config.json: expected the settings of a module Dense"),
    (modules(*PLAIN), f"{POOLING}: expected the settings of the pooling, got none"),
    (modules(*PLAIN, pooling={}), f"{ODD_POOLING}none"),
    (modules(*PLAIN, pooling={"pooling_mode": "mean_sqrt_len"}), f"{ODD_POOLING}mean_sqrt_len"),
    (modules(*PLAIN, pooling={"pooling_mode_odd": True}), f"{ODD_POOLING}pooling_mode_odd"),
    (
        modules(*PLAIN, pooling={"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}),
        f"{ODD_POOLING}cls, max",
    ),
    (
        both(modules(*PLAIN, pooling=CLS | {"include_prompt": False}), keys(SIMILARITY, prompts=QUERY)),
        f"{POOLING}: expected a pooling over prompt and text, got include_prompt false",
    ),
    (put(SIMILARITY, "[]"), f"{SIMILARITY}: expected settings by name, got"),
    (keys(SIMILARITY, truncate_dim=4), f"{SIMILARITY}: expected truncate_dim null, got 4"),
    (keys(SIMILARITY, prompts=["query: "]), f"{SIMILARITY}: expected texts by name as prompts, got"),
    (keys(SIMILARITY, prompts={"query": 3}), f"{SIMILARITY}: expected texts by name as prompts, got"),
    (
        keys(SIMILARITY, similarity_fn_name="manhattan"),
        f"{SIMILARITY}: expected the similarity cosine or dot",
    ),
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints") / "good"
    write_checkpoint(folder, BertModel)
    return folder


@pytest.mark.parametrize(("edit", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_checkpoint_is_refused_in_one_line(edit: Edit, message: str, good: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(good, tmp_path / "theirs")
    edit(folder)
    settings = checkpoint.Settings(objective="checkpoint", source="folder", path=str(folder))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        checkpoint.prepare(settings, tmp_path / "ours", seed=7, mirror=None, collection=None, system=None)
    said = str(caught.value)
    assert said.removeprefix(str(folder)).removeprefix("/").startswith(message)
    assert said.isprintable()  # one line, which does nothing to a terminal
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    "changes", [{"max_position_embeddings": 3 * 10**8}, {"hidden_size": 2**31 - 2}], ids=str
)
def test_a_size_beyond_the_weights_takes_no_memory(
    changes: dict[str, int], good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(good, tmp_path / "theirs")
    keys(CONFIG, **changes)(folder)
    monkeypatch.setattr("condenser.model.backbone.empty_backbone", lambda _: pytest.fail("memory was taken"))
    with pytest.raises(ValueError, match="does not fit its configuration"):
        backbone_from(folder, tmp_path / "ours", seed=7)
