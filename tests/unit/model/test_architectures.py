"""Encoders of every architecture: states, gradients, heads and scores are those of transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from architectures import ARCHITECTURES, small_encoder, write_folder
from small_models import meant, padded
from torch import Tensor
from transformers.models.modernbert import modeling_modernbert

from condenser import encoders
from condenser.encoders import ModernBertConfig, encoder_config, read_encoder_config
from condenser.model import attention as attention_module
from condenser.model import operations
from condenser.model.backbone import backbone_from
from condenser.model.crossencoder import CrossEncoder
from condenser.model.encoder import ACTIVATIONS
from condenser.model.folder import empty_backbone, load_backbone
from condenser.model.mlm_head import MaskedLanguageHead
from condenser.model.pretraining import Condenser
from condenser.model.rows import Rows

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def precise_rotations(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers rotates in float32 even where all else is in float64."""

    def rotated(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, ...]:
        cos, sin = (turn.unsqueeze(unsqueeze_dim) for turn in (cos, sin))
        return tuple(states * cos + modeling_modernbert.rotate_half(states) * sin for states in (q, k))

    monkeypatch.setattr(modeling_modernbert, "apply_rotary_pos_emb", rotated)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a backbone of each architecture once, beside its `source` with a head."""

    @cache
    def made(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        write_folder(kind, folder / "source", head="MaskedLM")
        assert backbone_from(folder / "source", folder / "ours", seed=7)["mlm_head"] == "from checkpoint"
        return folder / "ours"

    return made


def some_rows(lengths: list[int], device: str = "cpu") -> Rows:
    ids = torch.randint(5, 60, (len(lengths), 64), generator=torch.Generator().manual_seed(1)).numpy()
    return Rows.of(ids, np.array(lengths), device=torch.device(device))


def their_inputs(rows: Rows, pad: int) -> tuple[Tensor, Tensor]:
    ids, mask = padded(rows)
    return ids.masked_fill(~mask, pad), mask


@pytest.mark.parametrize(
    ("lengths", "device"),
    [([40, 17, 5, 5, 1], "cpu"), ([64, 33], "meta"), ([8, 8, 8], "meta")],
    ids=["in groups, as on a CPU", "together, as on a GPU", "without padding"],
)
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_layer_and_gradient_is_that_of_transformers(
    kind: str, lengths: list[int], device: str, tmp_path: Path
) -> None:
    theirs, ours = small_encoder(kind, tmp_path)
    rows = some_rows(lengths, device)
    ids, mask = their_inputs(rows, ours.config.pad_token_id or 0)
    outputs = theirs(ids, attention_mask=mask.long(), output_hidden_states=True)
    early, before_last = ours.before_last_layer(rows, recompute=False, skip_from=2)
    (last,) = ours.layers[-1](before_last, rows, [None])
    hidden = outputs.hidden_states
    for found, expected in ((early, hidden[2]), (last, outputs.last_hidden_state)):
        torch.testing.assert_close(meant(found, rows.layout), expected[mask], rtol=1e-10, atol=1e-10)
    weights = torch.randn(
        int(mask.sum()), 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    (meant(last, rows.layout) * weights).sum().backward()
    (outputs.last_hidden_state[mask] * weights).sum().backward()
    gradients = {ours.config.their_name(name): value.grad for name, value in ours.named_parameters()}
    for name, value in theirs.named_parameters():
        if not name.startswith("pooler."):
            found = gradients.pop(name)
            torch.testing.assert_close(found, value.grad, rtol=1e-9, atol=1e-10, msg=name)
    assert all(name.startswith("pooler.") for name in gradients), gradients.keys()


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_layer_at_some_tokens_is_the_whole_layer_there(kind: str, tmp_path: Path) -> None:
    _, ours = small_encoder(kind, tmp_path)
    rows = some_rows([40, 17, 5, 5, 1])
    chosen = rows.chosen(np.array([0, 0, 1, 3]), np.array([1, 39, 16, 2]))
    _, states = ours.before_last_layer(rows, recompute=False)
    layer, weights = ours.layers[-1], torch.randn(4, 24, dtype=torch.float64)
    (whole,) = layer(states, rows, [None])
    of_first, of_chosen = layer(states, rows, [rows.first, chosen])
    torch.testing.assert_close(of_first, whole[rows.first.tokens], rtol=0, atol=1e-12)
    of_chosen, expected = meant(of_chosen, chosen.layout), whole[meant(chosen.tokens, chosen.layout)]
    torch.testing.assert_close(of_chosen, expected, rtol=0, atol=1e-12)
    parameters = [weight for weight in ours.parameters() if weight.requires_grad]
    found = torch.autograd.grad((of_chosen * weights).sum(), parameters, allow_unused=True, retain_graph=True)
    whole_ones = torch.autograd.grad((expected * weights).sum(), parameters, allow_unused=True)
    for one, other in zip(found, whole_ones, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_dropout_is_drawn_in_training_alone_and_again_alike(kind: str, tmp_path: Path) -> None:
    _, ours = small_encoder(kind, tmp_path)
    rows, encoder = some_rows([40, 17, 5]), type(ours)(ours.config.with_dropout(0.3)).double()
    encoder.load_state_dict(ours.state_dict())
    states = []
    for training, recompute in ((False, False), (True, False), (True, True)):
        torch.manual_seed(3)
        _, output = encoder.train(training).before_last_layer(rows, recompute=recompute)
        output.square().sum().backward()
        states.append([output.detach(), encoder.word_embeddings.grad])
        encoder.zero_grad()
    _, plain = ours.before_last_layer(rows, recompute=False)
    assert torch.equal(states[0][0], plain)
    assert not torch.allclose(states[1][0], plain)
    assert torch.equal(states[1][0], states[2][0])
    torch.testing.assert_close(states[1][1], states[2][1], rtol=1e-12, atol=1e-12)


DROPOUTS = {
    **{kind: ["hidden_dropout_prob", "attention_probs_dropout_prob"] for kind in ARCHITECTURES},
    "distilbert": ["dropout", "attention_dropout", "seq_classif_dropout"],
    "modernbert": ["embedding_dropout", "mlp_dropout", "attention_dropout", "classifier_dropout"],
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in DROPOUTS.items() for name in names]
)
def test_a_cross_encoder_has_each_dropout_where_transformers_has_it(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often values of which width are dropped, with one probability above 0; shares are `attention`."""
    settings = {**ARCHITECTURES[kind], **dict.fromkeys(DROPOUTS[kind], 0.0), name: 0.25}
    config = transformers.CONFIG_MAPPING[kind](**settings, num_labels=1, attn_implementation="eager")
    theirs = transformers.AutoModelForSequenceClassification.from_config(config).train()
    ours = CrossEncoder(empty_backbone(encoder_config(config.to_dict(), origin="theirs")), seed=0).train()
    drawn = list[object]()

    def dropout(values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        drawn.extend(["attention" if values.dim() == 4 else values.shape[-1]] * (p == 0.25 and training))
        return values

    def attention(queries: Tensor, *others: Tensor, dropout_p: float, **_: Tensor) -> Tensor:
        drawn.extend(["attention"] * (dropout_p == 0.25))
        return queries

    monkeypatch.setattr(torch.nn.functional, "dropout", dropout)
    ids = torch.arange(5, 21)[None]
    theirs(ids, attention_mask=torch.ones_like(ids))
    expected, drawn[:] = Counter(drawn), []
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    for module in (operations, attention_module):
        monkeypatch.setattr(module, "is_drawn_here", lambda values, probability: False)
    ours(Rows.of(ids.numpy(), np.array([16])))
    assert Counter(drawn) == expected and expected


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_checkpoint_with_a_head_keeps_its_logits(kind: str, folder: Callable[[str], Path]) -> None:
    ours = load_backbone(folder(kind), dropout=None).eval()
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder(kind).with_name("source")).eval()
    head = MaskedLanguageHead.load(folder(kind), ours.config)
    rows = some_rows([30, 12])
    ids, mask = their_inputs(rows, ours.config.pad_token_id or 0)
    with torch.no_grad():
        expected = theirs(ids, attention_mask=mask.long()).logits[mask]
        _, states = ours.before_last_layer(rows, recompute=False)
        (last,) = ours.layers[-1](states, rows, [None])
        found = head(meant(last, rows.layout), ours.word_embeddings)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_auto_model_finds_every_weight_of_a_folder_and_no_other(
    kind: str, folder: Callable[[str], Path]
) -> None:
    config = read_encoder_config(folder(kind))
    model, outcome = transformers.AutoModel.from_pretrained(folder(kind), output_loading_info=True)
    assert type(model).__name__ == config.encoder_class
    assert not any(outcome.values()), outcome
    assert read_encoder_config(folder(kind).with_name("source")) == config


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_cross_encoder_gives_the_scores_of_transformers(
    kind: str, folder: Callable[[str], Path], tmp_path: Path
) -> None:
    ours = CrossEncoder.start(folder(kind), seed=3).eval()
    with torch.no_grad():
        for parameter in ours.scorer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    ours.save(tmp_path, folder(kind))
    theirs, outcome = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(outcome.values()), outcome
    rows = some_rows([30, 12])
    ids, mask = their_inputs(rows, ours.encoder.config.pad_token_id or 0)
    with torch.no_grad():
        expected = theirs.eval()(ids, attention_mask=mask.long()).logits
        found, again = ours(rows), CrossEncoder.load(tmp_path).eval()(rows)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, again, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_condensers_head_is_layers_of_its_architecture(kind: str, tmp_path: Path) -> None:
    """The head gives what transformers' layers give for [vector ; early tokens]."""
    theirs, ours = small_encoder(kind, tmp_path)
    head = MaskedLanguageHead(ours.config).double()
    model = Condenser(ours, head, num_head_layers=1, skip_from=1, use_late_mlm=True, seed=2).double()
    last = ours.layers[-1]
    if kind == "modernbert":  # the last layer of the small one has a window, a head's layer has none
        last = ours.layers[0]
        del model.head[0].attn_norm
        model.head[0].attn_norm = torch.nn.Identity()
        state = {**last.state_dict(), "final_norm.weight": ours.layers[-1].final_norm.weight}
        model.head[0].load_state_dict(state)
    else:
        model.head[0].load_state_dict(last.state_dict())
    rows = some_rows([20, 9])
    masked = rows.chosen(np.array([0, 1]), np.array([3, 4]))
    output = model(rows, masked)
    ids, mask = their_inputs(rows, ours.config.pad_token_id or 0)
    with torch.no_grad():
        hidden = theirs(ids, attention_mask=mask.long(), output_hidden_states=True)
        early = hidden.hidden_states[1].clone()
        early[:, 0] = hidden.last_hidden_state[:, 0]
        states = after_one_layer(kind, theirs, early, mask)
    for place, (row, column) in enumerate(((0, 3), (1, 4))):
        expected = head(states[row, column][None], ours.word_embeddings)
        torch.testing.assert_close(output.head_logits[place : place + 1], expected, rtol=1e-9, atol=1e-9)


def after_one_layer(kind: str, theirs: torch.nn.Module, states: Tensor, mask: Tensor) -> Tensor:
    """transformers' layer over states of one's own: the last one; of ModernBERT the first, and the norm."""
    hidden = torch.zeros(mask.shape, dtype=states.dtype).masked_fill(~mask, -torch.inf)[:, None, None, :]
    if kind == "modernbert":
        places = torch.arange(mask.shape[1])[None]
        turns = theirs.rotary_emb(states, places, "full_attention")
        layer = theirs.layers[0]
        return theirs.final_norm(layer(states, attention_mask=hidden, position_embeddings=turns))
    layers = theirs.transformer.layer if kind == "distilbert" else theirs.encoder.layer
    if kind == "mpnet":
        bias = theirs.encoder.compute_position_bias(states)
        return layers[-1](states, attention_mask=hidden, position_bias=bias)[0]
    output = layers[-1](states, hidden)
    return output[0] if isinstance(output, tuple) else output


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_key_that_config_json_lacks_has_the_default_of_transformers(kind: str) -> None:
    theirs = transformers.AutoConfig.for_model(kind).to_dict()
    expected = encoder_config(theirs, origin="theirs")
    assert encoder_config({"model_type": kind}, origin="ours") == expected
    for name, field in type(expected).model_fields.items():  # each is a setting of theirs, by its name there
        assert field.exclude or (field.alias or name) in theirs, name


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_transformers(name: str) -> None:
    values = torch.linspace(-5, 5, 101, dtype=torch.float64)
    theirs = transformers.activations.ACT2FN[name](values)
    torch.testing.assert_close(ACTIVATIONS[name](values), theirs, rtol=1e-12, atol=1e-14)


def test_settings_of_modernbert_by_version_4_are_those_of_version_5() -> None:
    settings = {"model_type": "modernbert", "num_hidden_layers": 5, "global_attn_every_n_layers": 2}
    config = encoder_config({**settings, "global_rope_theta": 7.0, "local_rope_theta": 5.0}, origin="old")
    assert isinstance(config, ModernBertConfig)
    full, sliding = "full_attention", "sliding_attention"
    assert config.layer_types == [full, sliding, full, sliding, full]
    assert config.rope_parameters.full_attention.rope_theta == 7.0
    assert config.rope_parameters.sliding_attention.rope_theta == 5.0


def test_every_architecture_is_tried_here() -> None:
    assert ARCHITECTURES.keys() == encoders.ARCHITECTURES.keys()
