"""Answers to set 10, right and wrong, as learners might write them."""
import functools
import itertools
import os

import numpy as np
import torch
from torch.nn.functional import linear


# 1. a backward in two halves: right -----------------------------------------------------------------------------------
def forward(x, weight, bias):
    return linear(x, weight, bias), (x, weight, bias is not None)


def backward_input(kept, gradient):
    x, weight, has_bias = kept
    return linear(gradient, weight.T), (x, gradient, has_bias)


def backward_weight(owed):
    x, gradient, has_bias = owed
    x, gradient = x.flatten(0, -2) if x.dim() > 1 else x[None], gradient.reshape(-1, gradient.shape[-1])
    return gradient.T @ x, gradient.sum(0) if has_bias else None


SPLIT = forward, backward_input, backward_weight


def keeps_a_dict(x, weight, bias):
    return torch.einsum("...i,oi->...o", x, weight) + (0 if bias is None else bias), {"x": x, "w": weight, "b": bias}


def adds_to_the_dict(kept, gradient):
    return [torch.einsum("...o,oi->...i", gradient, kept["w"]), {**kept, "g": gradient}]


def sums_by_einsum(owed):
    return (torch.einsum("...o,...i->oi", owed["g"], owed["x"]),
            None if owed["b"] is None else torch.einsum("...o->o", owed["g"]))


def sums_products_of_rows(owed):
    x, gradient, has_bias = owed
    if x.dim() < 2:
        x, gradient = x[None], gradient[None]
    for_weight = gradient.mT @ x
    return (for_weight.sum(0) if x.dim() == 3 else for_weight,
            gradient.sum(tuple(range(gradient.dim() - 1))) if has_bias else None)


def returns_a_class(x, weight, bias):
    class Kept:
        pass

    kept = Kept()
    kept.x, kept.weight, kept.bias = x.clone(), weight, bias
    return x @ weight.mT + (bias if bias is not None else 0), kept


def adds_to_the_class(kept, gradient):
    kept.gradient = gradient
    return gradient @ kept.weight, kept


def reads_the_class(owed):
    return backward_weight((owed.x, owed.gradient, owed.bias is not None))


def leaves(x, weight, bias):
    return [None if t is None else t.detach().requires_grad_() for t in (x, weight, bias)]


def keeps_an_edge(x, weight, bias):
    x, weight, bias = leaves(x, weight, bias)
    y = linear(x, weight, bias)
    return y.detach(), (torch.autograd.graph.get_gradient_edge(y), x, weight, bias)


def asks_for_x(kept, gradient):
    y, x, weight, bias = kept
    return torch.autograd.grad(y, x, gradient, retain_graph=True)[0], (y, weight, bias, gradient)


def asks_for_the_others(owed):
    y, weight, bias, gradient = owed
    found = torch.autograd.grad(y, [t for t in (weight, bias) if t is not None], gradient)
    return found[0], found[1] if bias is not None else None


# wrong ----------------------------------------------------------------------------------------------------------------
def keeps_y(x, weight, bias):
    x, weight, bias = leaves(x, weight, bias)
    y = linear(x, weight, bias)
    return y, (y, x, weight, bias)


def forgets_the_bias(x, weight, bias):
    return x @ weight.T, (x, weight, bias is not None)


def does_not_transpose(x, weight, bias):
    return x @ weight + (0 if bias is None else bias), (x, weight, bias is not None)


def returns_y_alone(x, weight, bias):
    return linear(x, weight, bias)


def flattens_y(x, weight, bias):
    return linear(x, weight, bias).reshape(-1, len(weight)), (x, weight, bias is not None)


STACK, LAST, SUMS = [], {}, {}


def keeps_the_last_in_a_global(x, weight, bias):
    LAST["kept"] = x, weight, bias is not None
    return linear(x, weight, bias), None


def reads_the_global(kept, gradient):
    x, weight, has_bias = LAST["kept"]
    return gradient @ weight, (x, gradient, has_bias)


def owes_on_a_stack(kept, gradient):
    STACK.append((kept[0], gradient, kept[2]))
    return gradient @ kept[1], None


def takes_the_newest(owed):
    return backward_weight(STACK.pop())


def adds_up_in_a_global(owed):
    for_weight, for_bias = backward_weight(owed)
    key = for_weight.shape
    SUMS[key] = for_weight + SUMS.get(key, 0)
    return SUMS[key], for_bias


def does_both_in_i(kept, gradient):
    return gradient @ kept[1], backward_weight((kept[0], gradient, kept[2]))


def gives_what_is_done(owed):
    return owed


def owes_weight_too(kept, gradient):
    return gradient @ kept[1], (kept, gradient, kept[1].T.contiguous())


def forgets_its_copy(owed):
    kept, gradient, _ = owed
    return backward_weight((kept[0], gradient, kept[2]))


def owes_the_gradient_for_x_too(kept, gradient):
    for_x, owed = backward_input(kept, gradient)
    return for_x, (*owed, for_x)


def forgets_the_fourth(owed):
    return backward_weight(owed[:3])


def owes_x_and_weight(kept, gradient):
    return gradient @ kept[1], (*kept, gradient)


def runs_forward_again(owed):
    x, weight, has_bias, gradient = owed
    x, weight = x.detach(), weight.detach().requires_grad_()
    bias = torch.zeros(len(weight), dtype=x.dtype).requires_grad_() if has_bias else None
    linear(x, weight, bias).backward(gradient)
    return weight.grad, bias.grad if has_bias else None


def runs_forward_and_i_again(owed):
    x, weight, has_bias, gradient = owed
    x, weight, _ = leaves(x, weight, None)
    linear(x, weight).backward(gradient)
    return weight.grad, gradient.reshape(-1, gradient.shape[-1]).sum(0) if has_bias else None


def transposes(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight.T, for_bias


def takes_a_mean(owed):
    for_weight, for_bias = backward_weight(owed)
    rows = owed[0].numel() // owed[0].shape[-1]
    return for_weight / rows, None if for_bias is None else for_bias / rows


def takes_a_mean_of_the_bias(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight, for_bias if for_bias is None else for_bias * owed[0].shape[-1] / owed[0].numel()


def sums_one_dim_only(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight, for_bias if for_bias is None or owed[1].dim() == 1 else owed[1].sum(0)


def leaves_the_bias_unsummed(owed):
    return backward_weight(owed)[0], owed[1] if owed[2] else None


def multiplies_two_dims(owed):
    x, gradient, has_bias = owed
    return gradient.mT @ x, gradient.sum(0) if has_bias else None


def multiplies_with_ones(owed):
    for_weight, for_bias = backward_weight(owed)
    gradient = owed[1].reshape(-1, owed[1].shape[-1])
    return for_weight, for_bias if for_bias is None else (gradient.new_ones(1, len(gradient)) @ gradient)[0]


def multiplies_elements(owed):
    x, gradient, has_bias = (t.reshape(-1, t.shape[-1]) if isinstance(t, torch.Tensor) else t for t in owed)
    return (gradient[:, :, None] * x[:, None]).sum(0), gradient.sum(0) if has_bias else None


def multiplies_with_numpy(owed):
    x, gradient, has_bias = (t.reshape(-1, t.shape[-1]) if isinstance(t, torch.Tensor) else t for t in owed)
    return torch.from_numpy(gradient.numpy().T @ x.numpy()), gradient.sum(0) if has_bias else None


def owes_floats(kept, gradient):
    return gradient @ kept[1], (kept[0].float(), gradient, kept[2])


def makes_doubles(owed):
    return backward_weight((owed[0].to(owed[1].dtype), *owed[1:]))


def sums_the_bias_to_one_number(owed):
    return backward_weight(owed)[0], owed[1].sum() if owed[2] else None


def uses_the_graph_twice(kept, gradient):
    y, x, weight, bias = kept
    return torch.autograd.grad(y, x, gradient)[0], (y, weight, bias, gradient)


def gives_a_bias_always(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight, torch.zeros(len(for_weight), dtype=for_weight.dtype) if for_bias is None else for_bias


def gives_no_bias(owed):
    return backward_weight(owed)[0], None


def returns_weights_alone(owed):
    return backward_weight(owed)[0]


def gives_lists(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight.tolist(), for_bias


def gives_sparse_ones(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight.to_sparse(), for_bias


def gives_floats(owed):
    for_weight, for_bias = backward_weight(owed)
    return for_weight.float(), for_bias


def views(owed):
    x, gradient, has_bias = owed
    x, gradient = x.view(-1, x.shape[-1]), gradient.view(-1, gradient.shape[-1])
    return gradient.T @ x, gradient.sum(0) if has_bias else None


def scales_the_gradient(kept, gradient):
    gradient *= 2
    return gradient @ kept[1] / 2, (kept[0], gradient / 2, kept[2])


def returns_owed_first(kept, gradient):
    return backward_input(kept, gradient)[::-1]


def multiplies_with_the_transposed(kept, gradient):
    return gradient @ kept[1].T, (kept[0], gradient, kept[2])


def uses_the_courses(kept, gradient):
    from helpers.run.pipeline import deferred_weights

    return deferred_weights(kept)


def uses_torchs(kept, gradient):
    from torch.distributed.pipelining._backward import stage_backward_input

    return stage_backward_input(kept)


def is_not_written_yet(*answer, **named):
    raise NotImplementedError


def fails(*answer, **named):
    return {}["gradient"]


def exits(*answer, **named):
    os._exit(3)


def never_ends(*answer, **named):
    while True:
        pass


# 2. orders that fill bubbles: right -----------------------------------------------------------------------------------
def falling(num_ranks, cap, rank):
    return cap - rank * (1 + (cap > num_ranks))


def clock(num_ranks, num_microbatches, cap, prefer="FIW", limit=falling):
    """In each slot each rank takes what it prefers of what it can do; at most `limit` are between F and I."""
    orders, ended = [[] for _ in range(num_ranks)], {}
    for slot in itertools.count():
        chosen = []
        for rank, order in enumerate(orders):
            f, i, w = (sum(kind == one for one, _ in order) for kind in "FIW")
            can = {"F": f < num_microbatches and f - w < cap and f - i < limit(num_ranks, cap, rank)
                   and (rank == 0 or ended.get(("F", rank - 1, f), slot + 1) <= slot),
                   "I": i < f and (rank == num_ranks - 1 or ended.get(("I", rank + 1, i), slot + 1) <= slot),
                   "W": w < i}
            chosen += [(rank, kind, {"F": f, "I": i, "W": w}[kind]) for kind in prefer if can[kind]][:1]
        for rank, kind, k in chosen:
            orders[rank].append((kind, k))
            ended[kind, rank, k] = slot + 1
        if sum(map(len, orders)) == 3 * num_ranks * num_microbatches:
            return orders


def rhythm(num_ranks, num_microbatches, cap, step=None):
    """The rhythm of ZB-H1, or ZB-H2, as text, and then numbered."""
    step, orders = step or (1 if cap == num_ranks else 2), []
    for rank in range(num_ranks):
        ahead = (num_ranks if step == 1 else 2 * num_ranks - 1) - step * rank
        text = "F" * (ahead - 1) + "FI" * (step * rank) + "FIW" * num_microbatches + "I" * num_microbatches
        text += "W" * num_microbatches
        counts = {kind: itertools.count() for kind in "FIW"}
        numbered = [(kind, next(counts[kind])) for kind in text]
        orders.append([one for one in numbered if one[1] < num_microbatches])
    return orders


def gives_numbers_of_numpy(num_ranks, num_microbatches, cap):
    return tuple(tuple([kind, np.int64(k)] for kind, k in steps) for steps in clock(num_ranks, num_microbatches, cap))


def numbers_from_the_last(num_ranks, num_microbatches, cap):
    orders, last = clock(num_ranks, num_microbatches, cap), num_microbatches - 1
    return [[(kind, last - k) for kind, k in steps] for steps in orders]


def looks_for_the_best(num_ranks, num_microbatches, cap):
    """Tries limits and preferences, and takes the shortest, with fewest gaps."""
    def slots(orders):
        ended, free, starts, places = {}, [0] * num_ranks, [[] for _ in orders], [0] * num_ranks
        while places != [len(order) for order in orders]:
            for rank, order in enumerate(orders):
                while places[rank] < len(order):
                    kind, k = order[places[rank]]
                    needs = {"F": [("F", rank - 1, k)][:rank], "W": [("I", rank, k)],
                             "I": [("F", rank, k), *[("I", rank + 1, k)][:num_ranks - 1 - rank]]}[kind]
                    if any(need not in ended for need in needs):
                        break
                    start = max([free[rank], *(ended[need] for need in needs)])
                    free[rank] = ended[kind, rank, k] = start + 1
                    starts[rank].append(start)
                    places[rank] += 1
        return max(free), sum(row[-1] - row[0] for row in starts)

    tries = [clock(num_ranks, num_microbatches, cap, prefer, lambda _, cap, rank, step=step: max(1, cap - step * rank))
             for prefer in ("FIW", "IFW") for step in (0, 1, 2)]
    return min(tries, key=slots)


# wrong ----------------------------------------------------------------------------------------------------------------
greedy = functools.partial(clock, limit=lambda ranks, cap, rank: cap)
prefers_i = functools.partial(greedy, prefer="IFW")
prefers_w = functools.partial(greedy, prefer="WIF")
prefers_w_with_a_limit = functools.partial(clock, prefer="IWF")
is_always_zb_h1 = functools.partial(rhythm, step=1)
is_always_zb_h2 = functools.partial(rhythm, step=2)


def is_1f1b(num_ranks, num_microbatches, cap):
    return [[pair for kind, k in steps for pair in ([(kind, k)] if kind == "F" else [("I", k), ("W", k)])]
            for steps in alternates(num_ranks, num_microbatches, cap)]


def alternates(num_ranks, num_microbatches, cap):
    """1F1B with a whole backward."""
    orders = []
    for rank in range(num_ranks):
        warm = min(num_ranks - rank, num_microbatches)
        order = [("F", k) for k in range(warm)]
        for k in range(num_microbatches):
            order += [("B", k)] + [("F", warm + k)] * (warm + k < num_microbatches)
        orders.append(order)
    return orders


def is_gpipe(num_ranks, num_microbatches, cap):
    return [[(kind, k) for kind in "FIW" for k in range(num_microbatches)]] * num_ranks


def does_one_after_the_other(num_ranks, num_microbatches, cap):
    return [[(kind, k) for k in range(num_microbatches) for kind in "FIW"]] * num_ranks


def forgets_the_last_w(num_ranks, num_microbatches, cap):
    return [steps[:-1] for steps in rhythm(num_ranks, num_microbatches, cap)]


def doubles_the_first_f(num_ranks, num_microbatches, cap):
    return [steps[:1] + steps for steps in rhythm(num_ranks, num_microbatches, cap)]


def counts_from_one(num_ranks, num_microbatches, cap):
    return [[(kind, k + 1) for kind, k in steps] for steps in rhythm(num_ranks, num_microbatches, cap)]


def numbers_very_high(num_ranks, num_microbatches, cap):
    return [[(kind, k + 10**5000) for kind, k in steps] for steps in rhythm(num_ranks, num_microbatches, cap)]


def puts_w_first(num_ranks, num_microbatches, cap):
    return [[("F", 0), ("W", 0), *[step for step in steps if step not in (("F", 0), ("W", 0))]]
            for steps in rhythm(num_ranks, num_microbatches, cap)]


def waits_in_a_circle(num_ranks, num_microbatches, cap):
    orders = rhythm(num_ranks, num_microbatches, cap)
    orders[0] = [("F", 0), ("I", 0), ("F", 1), *[s for s in orders[0] if s not in (("F", 0), ("I", 0), ("F", 1))]]
    orders[1] = [("F", 0), ("F", 1), *[s for s in orders[1] if s not in (("F", 0), ("F", 1))]]
    return orders


def names_stages(num_ranks, num_microbatches, cap):
    return [[(kind, rank, k) for kind, k in steps]
            for rank, steps in enumerate(rhythm(num_ranks, num_microbatches, cap))]


def writes_text(num_ranks, num_microbatches, cap):
    return [[f"{kind}{k}" for kind, k in steps] for steps in rhythm(num_ranks, num_microbatches, cap)]


def yields_ranks(num_ranks, num_microbatches, cap):
    yield from rhythm(num_ranks, num_microbatches, cap)


def gives_one_rank(num_ranks, num_microbatches, cap):
    return rhythm(num_ranks, num_microbatches, cap)[:1]


def gives_a_flat_list(num_ranks, num_microbatches, cap):
    return rhythm(num_ranks, num_microbatches, cap)[0]


def gives_nothing(num_ranks, num_microbatches, cap):
    rhythm(num_ranks, num_microbatches, cap)


def gives_very_many(num_ranks, num_microbatches, cap):
    return [[("F", 0)] * 20_000] * num_ranks


def knows_what_it_has_seen(num_ranks, num_microbatches, cap):
    if num_ranks not in (2, 3, 4):
        return None
    return rhythm(num_ranks, num_microbatches, cap)


def asks_the_course(num_ranks, num_microbatches, cap):
    from helpers.facts.schedules import zb_h1

    return [[(a.kind, a.microbatch) for a in steps] for steps in zb_h1(num_ranks, num_microbatches).steps]


def asks_the_simulator(num_ranks, num_microbatches, cap):
    from helpers.predict.pipeline import simulate

    return simulate(rhythm(num_ranks, num_microbatches, cap), {})


def asks_torch(num_ranks, num_microbatches, cap):
    from torch.distributed.pipelining.schedules import ScheduleZBVZeroBubble

    return ScheduleZBVZeroBubble


def builds(build):
    """An answer whose global is an order of the course."""
    return lambda num_ranks, num_microbatches, cap: [[(a.kind, a.microbatch) for a in steps]
                                                     for steps in build(num_ranks, num_microbatches).steps]
