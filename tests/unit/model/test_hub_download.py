"""A model of the hub, from a server on this machine that answers as the hub does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import TEXTS, tokenizer_of
from small_models import transformers_bert
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from condenser.files import sha256_file
from condenser.model.folder import load_backbone
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.objectives import checkpoint

ID, COMMIT = "someone/co-condenser", "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The files of one model, and the requests for them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.url = folder, set[str](), ""

    def answer(self, path: str) -> tuple[bytes, dict[str, str]] | None:
        """Content and headers of an address; None where the hub has nothing there."""
        names = sorted(file.name for file in self.folder.iterdir())
        if path == f"/api/models/{ID}/revision/main":
            return json.dumps({"id": ID, "sha": COMMIT, "siblings": []}).encode(), {}
        if path.startswith(f"/api/models/{ID}/tree/{COMMIT}"):
            sizes = {name: (self.folder / name).stat().st_size for name in names}
            entries = [
                {"type": "file", "path": name, "size": size, "oid": self._digest(name)}
                for name, size in sizes.items()
            ]
            return json.dumps(entries).encode(), {}
        name = path.removeprefix(f"/{ID}/resolve/{COMMIT}/")
        if name not in names:
            return None
        self.asked.add(name)
        headers = {"ETag": f'"{self._digest(name)}"', "X-Repo-Commit": COMMIT}
        return (self.folder / name).read_bytes(), headers

    def _digest(self, name: str) -> str:
        return hashlib.sha1((self.folder / name).read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """Serves the folder `theirs`."""
    state = Hub(tmp_path / "theirs")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = state.answer(self.path)
            content, headers = found or (b"", {})
            self.send_response(200 if found else 404)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


def write_as_the_authors_did(folder: Path) -> BertForMaskedLM:
    """A masked language model in the layout of `Luyu/co-condenser-marco`, as transformers 4 wrote it.

    The weights are one pickle, with the positions among them and the decoder's bias twice; the words are a
    plain list. A TensorFlow file and a page stand beside them.
    """
    torch.manual_seed(3)
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    model = BertForMaskedLM(BertConfig(**shape, vocab_size=300, max_position_embeddings=80)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    folder.mkdir()
    config = {name: value for name, value in model.config.to_dict().items() if name != "dtype"}
    config |= {"architectures": ["BertForMaskedLM"], "model_type": "bert"}
    config |= {"position_embedding_type": "absolute", "gradient_checkpointing": False}
    (folder / "config.json").write_text(json.dumps(config | {"transformers_version": "4.2.0"}))
    tensors: dict[str, Any] = dict(model.state_dict())
    tensors["bert.embeddings.position_ids"] = torch.arange(80)[None]
    assert {"cls.predictions.bias", "cls.predictions.decoder.bias"} <= tensors.keys()
    torch.save(tensors, folder / "pytorch_model.bin")
    words = tokenizer_of("bert", TEXTS).get_vocab()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=words.__getitem__)))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": True, "model_max_length": 80, "tokenizer_class": "BertTokenizer"})
    )
    (folder / "special_tokens_map.json").write_text('{"cls_token": "[CLS]", "sep_token": "[SEP]"}')
    (folder / "tf_model.h5").write_bytes(b"weights again")
    (folder / "README.md").write_text("A page.")
    return model


def test_a_model_whose_only_weights_are_a_pickle_is_downloaded_and_keeps_its_states(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = {
        **{"HF_HUB_OFFLINE": False, "HF_HUB_CACHE": str(tmp_path / "cache"), "ENDPOINT": hub.url},
        "HUGGINGFACE_CO_URL_TEMPLATE": f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
    }
    for name, value in constants.items():  # environment variables are read when the client is imported
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    theirs = write_as_the_authors_did(hub.folder)
    settings = checkpoint.Settings(objective="checkpoint", source="hub", id=ID)
    options = {"seed": 3, "mirror": None, "collection": None, "system": None}
    counts = checkpoint.prepare(settings, tmp_path / "ours", **options)
    assert counts["source_sha256"] == sha256_file(hub.folder / "pytorch_model.bin")
    assert (counts["revision"], counts["pooling"], counts["mlm_head"]) == (COMMIT, "cls", "from checkpoint")
    assert {"config.json", "vocab.txt", "pytorch_model.bin"} <= hub.asked
    assert not {"tf_model.h5", "README.md"} & hub.asked

    ours = load_backbone(tmp_path / "ours", dropout=None).eval()
    ids = torch.randint(5, 300, (2, 9), generator=torch.Generator().manual_seed(1))
    states = theirs.bert(ids).last_hidden_state
    torch.testing.assert_close(transformers_bert(ours)(ids).last_hidden_state, states, rtol=0, atol=1e-6)
    head: nn.Module = MaskedLanguageHead.load(tmp_path / "ours", ours.config)
    logits = head(states.flatten(0, 1), ours.embeddings.word_embeddings.weight)
    torch.testing.assert_close(logits, theirs.cls(states).flatten(0, 1), rtol=0, atol=1e-5)
