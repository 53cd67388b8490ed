"""I and W together are autograd's backward; what is kept in between is what W needs."""
import copy
import random
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from helpers.run.measure.live_saved import LiveSavedBytes
from helpers.run.models import Block, perceptron
from helpers.run.models.transformer import RECOMPUTES
from helpers.run.pipeline import OwedWeights, deferred_weights
from tests.run.pipeline.pipeline_stages import Attention, LoRA, Plain, Scaling, Shared, Twice

SHAPES = [(16,), (5, 16), (3, 5, 16), (0, 16)]
STAGES = {"a subclass": lambda: Plain(16, 16), "one with a forward of its own": lambda: Scaling(16, 16), "LoRA": LoRA,
          "called twice": Twice, "shared": Shared, "weight_norm": lambda: weight_norm(nn.Linear(16, 16))}


def gradients(module):
    return {name: p.grad for name, p in module.named_parameters()}


def both(stage, x, num_microbatches=1, order=None):
    """Gradients of autograd, and of I and then W in `order`: of the input, and of the parameters."""
    found = []
    for split in (False, True):
        module, inputs, owings = copy.deepcopy(stage), [], []
        for number in range(num_microbatches):
            inputs.append((x + number).requires_grad_())
            owed = OwedWeights()
            if split:
                with deferred_weights(module, owed):
                    y = module(inputs[-1])
                    y.square().sum().backward()
                owings.append(owed)
            else:
                module(inputs[-1]).square().sum().backward()
        for number in order or range(len(owings)):
            if split:
                owings[number].compute()
        found.append(({i: x.grad for i, x in enumerate(inputs)}, gradients(module)))
    return found


def assert_alike(theirs, ours):
    for expected, got in zip(theirs, ours, strict=True):
        assert expected.keys() == got.keys()
        for name, tensor in expected.items():
            if tensor is None:
                assert got[name] is None
            else:
                torch.testing.assert_close(got[name], tensor, rtol=1e-12, atol=1e-12)
                assert got[name].is_contiguous()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_i_and_w_of_a_linear_layer_are_autograds_backward(shape, bias):
    torch.manual_seed(0)
    stage = nn.Sequential(nn.Linear(16, 8, bias=bias), nn.Tanh(), nn.Linear(8, 16, bias=bias)).double()
    assert_alike(*both(stage, torch.randn(shape, dtype=torch.float64)))


@pytest.mark.parametrize("seed", range(3))
def test_w_may_come_in_any_order(seed):
    order = random.Random(seed).sample(range(5), 5)
    assert_alike(*both(perceptron(16, 8, 16).double(), torch.randn(4, 16, dtype=torch.float64), 5, order))


@pytest.mark.parametrize("name", STAGES)
def test_linear_layers_of_any_kind_get_autograds_gradients(name):
    torch.manual_seed(0)
    assert_alike(*both(STAGES[name]().double(), torch.randn(4, 16, dtype=torch.float64)))


@pytest.mark.parametrize("make", [Attention, *(partial(Block, 16, 2, recompute=how) for how in RECOMPUTES)])
def test_attention_and_recomputing_get_autograds_gradients(make):
    assert_alike(*both(make().double(), torch.randn(2, 5, 16, dtype=torch.float64)))


@pytest.mark.parametrize("frozen", ["weight", "bias", "both"])
def test_what_is_frozen_gets_no_gradient(frozen):
    stage = nn.Linear(16, 16).double()
    stage.weight.requires_grad_(frozen == "bias")
    stage.bias.requires_grad_(frozen == "weight")
    theirs, ours = both(stage, torch.randn(4, 16, dtype=torch.float64))
    assert_alike(theirs, ours)
    assert sum(g is None for g in ours[1].values()) == (2 if frozen == "both" else 1)


def test_gradients_come_with_w_and_not_sooner():
    stage, x = nn.Linear(16, 8), torch.randn(4, 16, requires_grad=True)
    with deferred_weights(stage) as owed:
        y = stage(x)
    y.sum().backward()
    assert x.grad is not None
    assert gradients(stage) == {"weight": None, "bias": None}
    owed.compute()
    torch.testing.assert_close(stage.weight.grad, x.sum(0).expand(8, 16))
    owed.compute()                                              # owes nothing any more
    torch.testing.assert_close(stage.weight.grad, x.sum(0).expand(8, 16))


def test_outside_the_block_a_stage_is_as_before():
    """Also after an exception in it."""
    stage = nn.Linear(16, 8)
    with pytest.raises(RuntimeError), deferred_weights(stage) as owed:
        stage(torch.ones(4, 15))
    stage(torch.ones(4, 16)).sum().backward()
    assert stage.weight.grad is not None
    assert "forward" not in vars(stage)
    assert not list(owed.tensors())


def test_w_adds_in_place_as_autograd_does():
    stage = nn.Linear(16, 8)
    stage.weight.grad = gradient = torch.ones(8, 16)
    with deferred_weights(stage) as owed:
        stage(torch.ones(4, 16)).sum().backward()
    owed.compute()
    assert stage.weight.grad is gradient
    assert gradient.eq(5).all()


def test_after_i_inputs_and_gradients_of_linear_layers_are_kept_and_after_w_nothing():
    """4 samples in float32; tanh keeps its output, which the next layer takes."""
    stage = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 16), nn.Tanh())
    kept = LiveSavedBytes(stage.parameters())
    with kept.watching(), deferred_weights(stage) as owed:
        y = stage(torch.ones(4, 16))
    assert kept.now() == 4 * 4 * (16 + 8 + 16)
    y.sum().backward()
    del y
    for tensor in owed.tensors():
        kept.note(tensor)
    assert kept.now() == 4 * 4 * (16 + 8 + 8 + 16)
    owed.compute()
    del tensor
    assert kept.now() == 0
