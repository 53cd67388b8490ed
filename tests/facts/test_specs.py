"""The numbers of a spec agree with its stated shape, and a spec is found by its name."""
from dataclasses import FrozenInstanceError, replace

import pytest

from helpers.facts.specs import CARDS, MODELS, card, model
from helpers.facts.units import GiB

# layers, hidden, ffn, heads, key-value heads, vocabulary, from each model's config.json
SHAPES = {
    "Llama 2 7B": (32, 4096, 11008, 32, 32, 32000),
    "Llama 3.1 8B": (32, 4096, 14336, 32, 8, 128256),
    "Llama 3.1 70B": (80, 8192, 28672, 64, 8, 128256),
    "Llama 3.1 405B": (126, 16384, 53248, 128, 8, 128256),
}


def layer_matrices(hidden, ffn, heads, kv_heads):
    """Shape of every parameter of a block, as PyTorch keeps it."""
    head = hidden // heads
    return {"q": (heads * head, hidden), "k": (kv_heads * head, hidden), "v": (kv_heads * head, hidden),
            "o": (hidden, heads * head), "gate": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn),
            "attention norm": (hidden, 1), "mlp norm": (hidden, 1)}


def layer_params(name):
    return sum(rows * columns for rows, columns in layer_matrices(*SHAPES[name][1:5]).values())


@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_has_as_many_parameters_as_its_matrices(name):
    assert model(name).block_params == layer_params(name)


@pytest.mark.parametrize("name", SHAPES)
def test_layers_embeddings_and_last_norm_add_up_to_the_model(name):
    layers, hidden, *_, vocabulary = SHAPES[name]
    total = layers * layer_params(name) + 2 * vocabulary * hidden + hidden
    if name == "Llama 3.1 405B":                    # stated in round numbers
        assert model(name).num_params == pytest.approx(total, rel=0.003)
    else:
        assert model(name).num_params == total


@pytest.mark.parametrize("spec", [spec for spec in MODELS if spec.name not in SHAPES], ids=lambda spec: spec.name)
def test_a_model_without_a_stated_shape_claims_no_largest_layer(spec):
    assert spec.block_params == 0


@pytest.mark.parametrize(("name", "billions"), [
    ("GPT-2 1.5B", 1.5), ("ZeRO 7.5B", 7.5), ("70B", 70), ("BLOOM 176B", 176), ("Llama 2 7B", 7),
    ("Llama 3.1 8B", 8), ("Llama 3.1 70B", 71), ("Llama 3.1 405B", 405),
])
def test_a_model_is_as_large_as_its_name_says(name, billions):
    assert round(model(name).num_params / 1e9, 1 if billions % 1 else None) == billions


@pytest.mark.parametrize(("name", "gib"), [("24 GB, GeForce RTX 4090", 24), ("40 GB, A100", 40), ("80 GB, H100", 80)])
def test_a_card_has_as_many_gib_as_its_maker_prints_gb(name, gib):
    assert card(name).memory_bytes == gib * GiB


@pytest.mark.parametrize("specs", [MODELS, CARDS])
def test_every_spec_has_a_name_of_its_own_and_a_source(specs):
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(spec.source.strip() for spec in specs)


@pytest.mark.parametrize(("specs", "find"), [(MODELS, model), (CARDS, card)])
def test_every_spec_is_found_by_its_name(specs, find):
    assert [find(spec.name) for spec in specs] == list(specs)


@pytest.mark.parametrize(("find", "message"), [
    (model, "no model 'GPT-5'; there are 'GPT-2 1.5B', 'Llama 2 7B', "),
    (card, "no card 'GPT-5'; there are '24 GB, GeForce RTX 4090', '40 GB, A100', '80 GB, H100'$"),
])
def test_an_unknown_name_is_refused_with_the_names_there_are(find, message):
    with pytest.raises(ValueError, match=message):
        find("GPT-5")


def test_a_spec_is_copied_and_never_changed():
    bigger = replace(model("70B"), num_params=14e9)
    assert (bigger.num_params, model("70B").num_params) == (14e9, 70e9)
    with pytest.raises(FrozenInstanceError):
        bigger.num_params = 15e9
