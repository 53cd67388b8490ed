"""Answers to exercise set 07, right and wrong.

No pytest here, so that ranks need not import it.
"""
import functools
import itertools

import numpy as np
import torch

from helpers.run.models import perceptron


# 1. bytes that a gated block keeps: right -----------------------------------------------------------------------------
def adds_up(seq, batch, hidden, heads, inner, element_bytes, per_token=0, per_inner=4, per_score=1, extra=0):
    """Per token 9 of hidden and 4 statistics, 4 of inner, and a probability for each pair and head."""
    a_token = (9 + per_token) * hidden + 4 + per_inner * inner + per_score * heads * seq
    return (seq * batch * a_token + extra) * element_bytes


def lists_shapes(seq, batch, hidden, heads, inner, element_bytes):
    of_hidden = [(batch, seq, hidden)] * 9
    kept = [*of_hidden, *[(batch, seq, 1)] * 4, *[(batch, seq, inner)] * 4, (batch, heads, seq, seq)]
    return sum(element_bytes * int(np.prod(shape, dtype=object)) for shape in kept)


def gives_a_float(**sizes):
    return float(adds_up(**sizes))


def gives_a_number_of_torch(**sizes):
    return torch.tensor(adds_up(**sizes))


# wrong ----------------------------------------------------------------------------------------------------------------
def forgets_statistics(seq, batch, **sizes):
    return adds_up(seq, batch, **sizes, extra=-4 * seq * batch)


def forgets_a_norm(seq, batch, hidden, **sizes):
    return adds_up(seq, batch, hidden, **sizes, extra=-seq * batch * (hidden + 2))


def forgets_the_mask(**sizes):
    return adds_up(**sizes, per_token=-1)


def has_a_mask_of_bytes(element_bytes, **sizes):
    return adds_up(**sizes, element_bytes=element_bytes, per_token=1 / element_bytes - 1)


def keeps_an_input_for_each(**sizes):
    return adds_up(**sizes, per_token=1)


def keeps_an_input_for_each_of_three(**sizes):
    return adds_up(**sizes, per_token=2)


def keeps_an_input_for_all_five(**sizes):
    return adds_up(**sizes, per_token=3)


def has_statistics_in_fp32(seq, batch, element_bytes, **sizes):
    return adds_up(seq, batch, element_bytes=element_bytes, **sizes) + 4 * seq * batch * (4 - element_bytes)


def takes_gelu(**sizes):
    return adds_up(**sizes, per_inner=2)


def forgets_a_factor(**sizes):
    return adds_up(**sizes, per_inner=3)


def keeps_scores_too(**sizes):
    return adds_up(**sizes, per_score=2)


def takes_the_papers_5(**sizes):
    return adds_up(**sizes, per_score=2.5)


def takes_the_lessons_formula(seq, batch, hidden, heads, inner, element_bytes, parts=(34, 5)):
    return seq * batch * hidden * (parts[0] + parts[1] * heads * seq / hidden)


takes_the_formula_without_dropout = functools.partial(takes_the_lessons_formula, parts=(32, 2))


def takes_the_formula_in_bytes(element_bytes, **sizes):
    return takes_the_formula_without_dropout(element_bytes=element_bytes, **sizes) * element_bytes / 2


def lets_all_tokens_meet(batch, **sizes):
    return adds_up(**sizes, batch=batch, per_score=batch)


def has_one_sequences_probabilities(batch, **sizes):
    return adds_up(**sizes, batch=batch, per_score=1 / batch)


def forgets_heads(heads, **sizes):
    return adds_up(**sizes, heads=1)


def counts_elements(element_bytes, **sizes):
    return adds_up(**sizes, element_bytes=1)


def is_always_fp32(element_bytes, **sizes):
    return adds_up(**sizes, element_bytes=4)


def counts_parameters(hidden, inner, **sizes):
    return adds_up(**sizes, hidden=hidden, inner=inner, extra=4 * hidden**2 + 3 * hidden * inner)


def gives_nothing(**sizes):
    adds_up(**sizes)


def gives_text(**sizes):
    return str(adds_up(**sizes))


def asks_the_calculators(**sizes):
    from helpers.predict.activations import BlockShape

    return BlockShape(**sizes)


def fails(**sizes):
    raise KeyError("inner")


# 2. a plan: right -----------------------------------------------------------------------------------------------------
def costs(seq, batch, hidden, heads, kept=(32, 2, 2), core=(1, 1)):
    """Bytes and FLOPs of a block for each way; `kept` counts sbh, probabilities, inputs, `core` runs again."""
    sbh, probabilities, once = seq * batch * hidden, heads * seq**2 * batch, 4 * batch * seq**2 * hidden
    return (kept[0] * sbh + kept[1] * probabilities, 0), (kept[0] * sbh, core[0] * once), (
        kept[2] * sbh, core[1] * once + 24 * sbh * hidden)


def tries_all(layers, budget_bytes, exact=True, **sizes):
    (a, _), (b, f), (c, g) = costs(**sizes)
    fitting = [(m * f + n * g, (layers - m - n, m, n)) for m in range(layers + 1) for n in range(layers + 1 - m)
               if (kept := (layers - m - n) * a + m * b + n * c) < budget_bytes or (exact and kept == budget_bytes)]
    return min(fitting)[1] if fitting else None


def fills_up_with_selective(layers, budget_bytes, **sizes):
    """For each number of blocks in full, as few selective ones as possible."""
    (a, _), (b, f), (c, g) = costs(**sizes)
    found = []
    for n in range(layers + 1):
        over = (layers - n) * a + n * c - budget_bytes
        m = max(0, -(-over // (a - b)))
        found += [(m * f + n * g, [layers - m - n, m, n])] if m + n <= layers else []
    return min(found, default=(0, None))[1]


def gives_numbers_of_numpy(**sizes):
    found = tries_all(**sizes)
    return found and tuple(np.array(found))


# wrong ----------------------------------------------------------------------------------------------------------------
def counts_wrongly(layers, budget_bytes, counted, **sizes):
    (a, _), (b, f), (c, g) = costs(**sizes, **counted)
    fitting = [(m * f + n * g, (layers - m - n, m, n)) for m in range(layers + 1) for n in range(layers + 1 - m)
               if (layers - m - n) * a + m * b + n * c <= budget_bytes]
    return min(fitting)[1] if fitting else None


counts_dropout = functools.partial(counts_wrongly, counted={"kept": (34, 5, 2)})
counts_fp32 = functools.partial(counts_wrongly, counted={"kept": (64, 4, 4)})
counts_a_byte = functools.partial(counts_wrongly, counted={"kept": (16, 1, 1)})
keeps_no_input = functools.partial(counts_wrongly, counted={"kept": (32, 2, 0)})
takes_equation_8 = functools.partial(counts_wrongly, counted={"core": (3, 1)})
forgets_the_core_in_full = functools.partial(counts_wrongly, counted={"core": (1, 0)})
counts_scores_too = functools.partial(counts_wrongly, counted={"kept": (32, 4, 2)})
keeps_one_input_too_many = functools.partial(counts_wrongly, counted={"kept": (34, 2, 2)})
wants_less_than_the_budget = functools.partial(tries_all, exact=False)


def turns_the_order_around(**sizes):
    return (best := tries_all(**sizes)) and best[::-1]


def leaves_room_for_a_block(budget_bytes, layers, **sizes):
    return tries_all(layers, budget_bytes - costs(**sizes)[0][0], **sizes)


def leaves_room_for_what_comes_back(layers, budget_bytes, **sizes):
    (a, _), (b, f), (c, g) = costs(**sizes)
    fitting = [(m * f + n * g, (layers - m - n, m, n)) for m in range(layers + 1) for n in range(layers + 1 - m)
               if (layers - m - n) * a + m * b + n * c + (a - c if n else a - b if m else 0) <= budget_bytes]
    return min(fitting)[1] if fitting else None


def makes_all_alike(layers, budget_bytes, **sizes):
    for place, (kept, _) in enumerate(costs(**sizes)):
        if layers * kept <= budget_bytes:
            return tuple(layers if place == one else 0 for one in range(3))
    return None


def selective_first_then_full(layers, budget_bytes, **sizes):
    (a, _), (b, _), (c, _) = costs(**sizes)
    for m in range(layers + 1):
        if (layers - m) * a + m * b <= budget_bytes:
            return layers - m, m, 0
    return next(((0, layers - n, n) for n in range(layers + 1) if (layers - n) * b + n * c <= budget_bytes), None)


def knows_full_only(layers, budget_bytes, **sizes):
    (a, _), _, (c, _) = costs(**sizes)
    return next(((layers - n, 0, n) for n in range(layers + 1) if (layers - n) * a + n * c <= budget_bytes), None)


def knows_selective_only(layers, budget_bytes, **sizes):
    (a, _), (b, _), _ = costs(**sizes)
    return next(((layers - n, n, 0) for n in range(layers + 1) if (layers - n) * a + n * b <= budget_bytes), None)


def recomputes_everything(layers, **sizes):
    return 0, 0, layers


def hopes(layers, **sizes):
    return layers, 0, 0


def gives_three_ones(**sizes):
    return 1, 1, 1


def gives_a_name(**sizes):
    return "selective"


def gives_floats(**sizes):
    found = tries_all(**sizes)
    return found and tuple(map(float, found))


def fails_where_nothing_fits(**sizes):
    return tuple(tries_all(**sizes))


# 4. a training that forgets: right ------------------------------------------------------------------------------------
def error(output, targets):
    return (output - targets).square().mean()


def trains(num_steps, keep=torch.Tensor.item, validate=torch.no_grad, seed=3, rate=0.05):
    torch.manual_seed(seed)
    model = perceptron(32, 256, 128, 8)
    sgd = torch.optim.SGD(model.parameters(), lr=rate)
    inputs, targets = torch.randn(num_steps, 64, 32), torch.randn(num_steps, 64, 8)
    held_out, held_out_targets = torch.randn(512, 32), torch.randn(512, 8)
    curve, checks = [], []
    for x, y in zip(inputs, targets, strict=True):
        sgd.zero_grad()
        loss = error(model(x), y)
        loss.backward()
        sgd.step()
        curve.append(keep(loss))
        with validate():
            checks.append(keep(error(model(held_out), held_out_targets)))
        yield curve, checks


detaches = functools.partial(trains, keep=torch.Tensor.detach, validate=torch.enable_grad)
keeps_tensors_without_a_graph = functools.partial(trains, keep=lambda loss: loss)
detaches_nothing = functools.partial(trains, keep=lambda loss: loss, validate=torch.enable_grad)


# wrong ----------------------------------------------------------------------------------------------------------------
def cures_line_a_only(num_steps):
    for curve, checks in detaches_nothing(num_steps):
        curve[-1] = curve[-1].detach()
        yield curve, checks


def validates_no_more(num_steps):
    for curve, _ in trains(num_steps):
        yield curve, []


def makes_checks_up(num_steps):
    for curve, checks in trains(num_steps):
        yield curve, [0.0 for _ in checks]


def keeps_something_else(num_steps):
    kept = []
    for losses in trains(num_steps):
        kept.append(torch.zeros(100_000))
        yield losses


def yields_one_list(num_steps):
    for curve, _ in trains(num_steps):
        yield curve


def returns_in_the_end(num_steps):
    return list(trains(num_steps))[-1]


def ends_early(num_steps):
    return itertools.islice(trains(num_steps), 2)


def raises(num_steps):
    yield from trains(num_steps / 0)


draws_otherwise = functools.partial(trains, seed=4)
learns_faster = functools.partial(trains, rate=0.06)
