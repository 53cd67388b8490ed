"""What PyTorch keeps and computes is what the formulas say, to the byte and to the FLOP."""
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from helpers.predict import activations as predicted
from helpers.predict.flops import Shape, forward_flops, hardware_flops, num_params, recomputed_flops
from helpers.run.launch import launch
from helpers.run.measure.saved_tensors import counted_flops, saved
from helpers.run.models import GPT, Block

# s, b, h, a
SHAPES = ((64, 2, 128, 4), (32, 1, 64, 8), (96, 3, 48, 2), (17, 2, 40, 5), (128, 1, 32, 1), (48, 4, 96, 3))
ATTENTIONS, RECOMPUTES = ("stored", "flash"), ("none", "selective", "full")
DTYPES = {4: torch.float32, 2: torch.bfloat16}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors are small, and on a busy machine two threads wait for each other longer than one computes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def block_and_input(shape, dropout=0.0, attention="stored", recompute="none", dtype=torch.float32):
    seq, batch, hidden, heads = shape
    torch.manual_seed(0)
    block = Block(hidden, heads, dropout, attention, recompute).to(dtype)
    return block, torch.randn(batch, seq, hidden, dtype=dtype, requires_grad=True)


def kept_by(shape, **options):
    block, x = block_and_input(shape, **options)
    with saved(block) as kept:
        block(x)
    return kept


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("recompute", RECOMPUTES)
@pytest.mark.parametrize("element_bytes", DTYPES)
def test_a_block_keeps_what_the_formula_says_to_the_byte(shape, dropout, attention, recompute, element_bytes):
    kept = kept_by(shape, dropout=dropout, attention=attention, recompute=recompute, dtype=DTYPES[element_bytes])
    block = predicted.BlockShape(*shape, element_bytes, dropout > 0, attention, counted="torch")
    assert kept.num_bytes == predicted.block_bytes(block, recompute=recompute)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_without_dropout_the_papers_own_count_is_right_but_for_two_norms_statistics(shape, recompute):
    """Four numbers a token, 4/(32 h) of the rest; full recomputation drops them, too."""
    seq, batch, _, _ = shape
    papers = predicted.block_bytes(predicted.BlockShape(*shape, dropout=False), recompute=recompute)
    measured = kept_by(shape, recompute=recompute, dtype=torch.bfloat16).num_bytes
    assert measured - papers == (0 if recompute == "full" else 2 * 4 * seq * batch)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("recompute", RECOMPUTES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_gpt_keeps_its_blocks_and_what_the_loss_needs(tied, recompute, dropout):
    """Besides: the numbers of the tokens and of the targets, 8 bytes each, and the loss's count of targets."""
    seq, batch, hidden, heads, layers, vocab = 32, 2, 64, 4, 3, 101
    gpt = GPT(layers, hidden, heads, vocab, seq, dropout, recompute=recompute, tied=tied)
    with saved(gpt) as kept:
        gpt.loss(torch.randint(vocab, (batch, seq + 1)))
    block = predicted.BlockShape(seq, batch, hidden, heads, 4, dropout > 0, counted="torch")
    expected = predicted.pipeline_stage_bytes(block, layers, vocab, recompute=recompute)
    assert kept.num_bytes == expected + 8 * batch * (seq + 1) + 8 * batch * seq + 4


def test_each_module_keeps_its_part():
    """Stored attention in fp32 without dropout; a module's output is kept by the one that needs it next."""
    shape = seq, batch, hidden, heads = SHAPES[0]
    sbh, sb, ssba = 4 * seq * batch * hidden, 4 * seq * batch, 4 * seq * seq * batch * heads
    assert kept_by(shape).by_module == {
        "attention_norm": sbh + 2 * sb, "qkv": sbh, "core": 3 * sbh + ssba, "projection": sbh,
        "mlp_norm": sbh + 2 * sb, "up": sbh, "gelu": 4 * sbh, "down": 4 * sbh}


def test_a_cpus_dropout_keeps_a_mask_of_elements():
    for dtype in DTYPES.values():
        kept = kept_by(SHAPES[0], dropout=0.1, dtype=dtype)
        masks = [tensor for tensor in kept.tensors if tensor.module.endswith("dropout")]
        assert len(masks) == 3
        assert {tensor.dtype for tensor in masks} == {dtype}


def test_flash_attention_keeps_no_tensor_of_sequence_squared():
    seq = SHAPES[0][0]
    shapes = {attention: [tensor.shape for tensor in kept_by(SHAPES[0], attention=attention).tensors]
              for attention in ATTENTIONS}
    assert any(shape[-2:] == (seq, seq) for shape in shapes["stored"])
    assert not any(shape[-2:] == (seq, seq) for shape in shapes["flash"])


def test_parameters_their_views_and_buffers_are_left_out():
    """A product with a parameter keeps it, and one with a buffer keeps that; a linear layer keeps weight.t()."""
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(10))
            self.register_buffer("scale", torch.ones(10))
            self.linear = nn.Linear(10, 10)

        def forward(self, x):
            return self.linear(x * self.weight * self.scale)

    with saved(Scaled()) as nothing:
        pass
    model = Scaled()
    with saved(model) as kept:
        model(torch.ones(3, 10, requires_grad=True))
    assert nothing.num_bytes == 0
    assert kept.by_module == {"Scaled": 120, "linear": 120}         # x, which weight's gradient needs; linear's input


def test_a_storage_counts_once_and_whole_however_many_views_are_kept():
    identity = nn.Identity()
    x = torch.ones(100, requires_grad=True)
    with saved(identity) as kept:
        (x[:10] * x[50:60]).sum()
        (x * x).sum()
    assert [(tensor.module, tensor.num_bytes) for tensor in kept.tensors] == [("", 400)]


def test_what_forward_does_not_keep_is_not_counted():
    block, x = block_and_input(SHAPES[0])
    with saved(block) as kept, torch.no_grad():
        block(x)
    assert kept.num_bytes == 0


def test_a_checkpoint_around_any_part_leaves_its_inputs():
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)) for _ in range(3)))
    x = torch.ones(5, 8, requires_grad=True)
    with saved(layers) as kept:
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=False)
        y.sum().backward()
    assert kept.num_bytes == 3 * 4 * 5 * 8


def test_of_a_distributed_tensor_its_local_part_is_counted():
    """An MLP [16, 32], GELU, [32, 16] split over two ranks: input 5 x 16 whole, both sides of GELU 5 x 32 halved."""
    def program(rank, world_size):
        mesh = init_device_mesh("cpu", (world_size,))
        mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        parallelize_module(mlp, mesh, {"0": ColwiseParallel(use_local_output=False), "2": RowwiseParallel()})
        with saved(mlp) as kept:
            mlp(torch.ones(5, 16, requires_grad=True))
        return kept.by_module

    half = 4 * 5 * 32 // 2
    assert launch(program, 2, timeout_s=60).results == [{"0": 4 * 5 * 16, "1": half, "2": half}] * 2


def test_measuring_changes_no_gradient_and_leaves_no_hook():
    block, x = block_and_input(SHAPES[0])
    block(x).sum().backward()
    expected = x.grad.clone()
    x.grad = None
    with saved(block):
        block(x).sum().backward()
    assert torch.equal(x.grad, expected)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in block.modules())


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_recomputation_changes_no_gradient_not_even_with_dropout(attention, recompute):
    gradients = []
    for how in ("none", recompute):
        block, x = block_and_input(SHAPES[0], 0.1, attention, how)
        block(x).sum().backward()
        gradients.append([x.grad, *(p.grad for p in block.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def test_both_attentions_give_the_same_and_no_token_sees_the_future():
    stored, x = block_and_input(SHAPES[0])
    flash, _ = block_and_input(SHAPES[0], attention="flash")
    torch.testing.assert_close(stored(x), flash(x))
    changed = x.detach().clone()
    changed[:, 40:] = 1
    torch.testing.assert_close(stored(changed)[:, :40], stored(x)[:, :40])


def test_the_core_is_pytorchs_own_attention():
    block, x = block_and_input(SHAPES[0])
    _, _, hidden, heads = SHAPES[0]
    torchs = nn.MultiheadAttention(hidden, heads, batch_first=True)
    torchs.load_state_dict({"in_proj_weight": block.qkv.weight, "in_proj_bias": block.qkv.bias,
                            "out_proj.weight": block.projection.weight, "out_proj.bias": block.projection.bias})
    future = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    torch.testing.assert_close(block.projection(block._attend(x)), torchs(x, x, x, attn_mask=future)[0])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_a_block_computes_what_the_formula_says(shape, dropout, attention, recompute):
    seq, batch, hidden, _ = shape
    block, x = block_and_input(shape, dropout, attention, recompute)
    with counted_flops() as done:
        block(x).sum().backward()
    assert done.num_flops == hardware_flops(Shape(1, hidden, seq, attention=attention), batch, recompute)


@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_a_gpt_computes_what_the_formula_says(recompute):
    gpt = GPT(3, 64, 4, 101, 32, recompute=recompute)
    with counted_flops() as done:
        gpt.loss(torch.randint(101, (2, 33))).backward()
    assert done.num_flops == hardware_flops(Shape(3, 64, 32, 101), 2, recompute)


@pytest.mark.parametrize(("recompute", "left_out"), [("selective", "the product with v"), ("full", "down")])
def test_pytorchs_default_stops_before_the_last_product(recompute, left_out):
    """Its inputs are all that backward needs of it."""
    seq, batch, hidden, _ = SHAPES[0]
    block, x = block_and_input(SHAPES[0], recompute=recompute)
    with set_checkpoint_early_stop(True), counted_flops() as done:
        block(x).sum().backward()
    shape = Shape(1, hidden, seq)
    saved_flops = {"the product with v": forward_flops(shape, batch)["attention core"] / 2,
                   "down": 2 * batch * seq * 4 * hidden**2}[left_out]
    assert hardware_flops(shape, batch, recompute) - done.num_flops == saved_flops < recomputed_flops(
        shape, batch, recompute)


@pytest.mark.parametrize("tied", [True, False])
def test_a_gpt_has_the_parameters_of_equation_2_and_a_last_norm(tied):
    gpt = GPT(3, 64, 4, 101, 40, tied=tied)
    assert sum(p.numel() for p in gpt.parameters()) == num_params(Shape(3, 64, 40, 101, tied)) + 2 * 64
    block = Block(64, 4)
    assert sum(p.numel() for p in block.parameters()) == 12 * 64**2 + 13 * 64


def test_a_gpt_learns_to_repeat_a_sequence():
    torch.manual_seed(0)
    gpt = GPT(2, 32, 4, 11, 16)
    numbers = torch.arange(17).remainder(11).repeat(4, 1)
    losses = []
    for _ in range(20):
        loss = gpt.loss(numbers)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(gpt.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(gpt.parameters(), gradients, strict=True):
                parameter -= 0.5 * gradient
    assert losses[0] == pytest.approx(math.log(11), rel=0.05)      # as good as a guess among 11 tokens
    assert losses[-1] < 0.5 * losses[0]


def test_the_formulas_variant_for_torch_differs_from_the_papers_in_what_was_measured():
    """Bytes per element of the block, s = 64, b = 2, h = 128, a = 4, in fp32 with dropout: masks of 4 bytes, not 1."""
    shape = seq, batch, hidden, heads = SHAPES[0]
    paper = predicted.BlockShape(*shape, element_bytes=4)
    more = predicted.block_bytes(replace(paper, counted="torch")) - predicted.block_bytes(paper)
    sbh, ssba, sb = seq * batch * hidden, seq * seq * batch * heads, seq * batch
    assert more == 3 * (2 * sbh + ssba) + 4 * 4 * sb


@pytest.mark.parametrize(("options", "says"), [
    ({"hidden": 10, "heads": 3}, "hidden is a multiple of heads, and 10 is none of 3"),
    ({"hidden": 8, "heads": 2, "attention": "sparse"}, "attention is one of stored, flash, not 'sparse'"),
    ({"hidden": 8, "heads": 2, "recompute": "some"}, "recompute is one of none, selective, full, not 'some'"),
])
def test_a_block_that_cannot_be_is_refused(options, says):
    with pytest.raises(ValueError, match=says):
        Block(**options)
