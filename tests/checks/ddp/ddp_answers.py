"""Exercises 1 to 3 of set 03 as learners might write them, right and wrong.

No pytest here, so that ranks need not import it.
"""
import contextlib
import math
import os
import threading
from fractions import Fraction

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss


# any of them ----------------------------------------------------------------------------------------------------------
def is_not_written_yet(*answer):
    raise NotImplementedError()


def divides_by_zero(*answer):
    return 1 / 0


def takes_no_arguments():
    pass


def never_ends(*answer):
    while True:
        pass


def exits_the_process(*answer):
    """With what the check would print."""
    os.write(1, b"ok     everything\n4 of 4 points.\n")
    os._exit(0)


def writes_without_end(*answer):
    while True:
        os.write(1, b"x" * 2**20)


def returns_at_once_on_rank_0(*answer):
    if dist.get_rank():
        dist.all_reduce(torch.ones(3))


# 1. buckets -----------------------------------------------------------------------------------------------------------
def _filled(gradients, limit, size=lambda gradient: gradient.nbytes):
    """Buckets from the last gradient to the first; each is closed once it holds the limit or more."""
    bucket, held = [], 0
    for gradient in reversed(gradients):
        bucket.append(gradient)
        held += size(gradient)
        if held >= limit:
            yield bucket
            bucket, held = [], 0
    if bucket:
        yield bucket


def _flat(bucket):
    return torch.cat([gradient.reshape(-1) for gradient in bucket])


def _back(flat, bucket):
    for gradient, part in zip(bucket, flat.split([gradient.numel() for gradient in bucket]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _mean(flat):
    dist.all_reduce(flat)
    return flat.div_(dist.get_world_size())


def _reduced(buckets, mean=_mean):
    for bucket in buckets:
        _back(mean(_flat(bucket)), bucket)


def divides_before_the_sum(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        flat = _flat(bucket) / dist.get_world_size()
        dist.all_reduce(flat)
        _back(flat, bucket)


def starts_all_and_waits_at_the_end(gradients, bucket_bytes):
    started = [(bucket, flat := _flat(bucket), dist.all_reduce(flat, async_op=True))
               for bucket in _filled(gradients, bucket_bytes)]
    for bucket, flat, work in started:
        work.wait()
        _back(flat.mul_(1 / dist.get_world_size()), bucket)


def lets_gloo_average(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        flat = _flat(bucket)
        dist.all_reduce(tensor=flat, op=dist.ReduceOp.AVG, group=dist.group.WORLD)
        _back(flat, bucket)


def flattens_with_torchs_own(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        mean = _mean(torch._utils._flatten_dense_tensors(bucket))
        for gradient, part in zip(bucket, torch._utils._unflatten_dense_tensors(mean, bucket), strict=True):
            gradient.data = part


def copies_into_a_buffer(gradients, bucket_bytes):
    """Counts indices, has one buffer for all, and lets each bucket be a part of it."""
    buffer, start, end = torch.cat([one.flatten() for one in gradients[::-1]]), 0, 0
    for k in reversed(range(len(gradients))):
        end += gradients[k].numel()
        if (end - start) * buffer.element_size() >= bucket_bytes or k == 0:
            _mean(buffer[start:end])
            start = end
    for gradient in gradients:
        end -= gradient.numel()
        gradient[...] = buffer[end:end + gradient.numel()].reshape(gradient.shape)


def skips_a_bucket_without_elements(gradients, bucket_bytes):
    _reduced(bucket for bucket in _filled(gradients, bucket_bytes) if sum(g.numel() for g in bucket))


def leaves_a_thread_behind(gradients, bucket_bytes):
    threading.Thread(target=threading.Event().wait).start()
    divides_before_the_sum(gradients, bucket_bytes)


def turns_the_list_around(gradients, bucket_bytes):
    gradients.reverse()
    divides_before_the_sum(gradients[::-1], bucket_bytes)


def sums_only(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: dist.all_reduce(flat) or flat)


def divides_twice(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: _mean(flat) / dist.get_world_size())


def divides_on_rank_0_only(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes),
             lambda flat: dist.all_reduce(flat) or (flat / dist.get_world_size() if dist.get_rank() == 0 else flat))


def divides_without_summing(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: flat / dist.get_world_size())


def takes_four_ranks_for_granted(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: dist.all_reduce(flat) or flat / 4)


def returns_a_new_list(gradients, bucket_bytes):
    gradients = [gradient.clone() for gradient in gradients]
    _reduced(_filled(gradients, bucket_bytes))
    return gradients


def puts_new_tensors_into_the_list(gradients, bucket_bytes):
    gradients[:] = returns_a_new_list(gradients, bucket_bytes)


def forgets_to_copy_back(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        _mean(_flat(bucket))


def copies_back_from_the_end(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        _back(_mean(_flat(bucket)), bucket[::-1])


def flattens_the_gradients_themselves(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes))
    for gradient in gradients:
        gradient.data = gradient.flatten()


def reduces_each_gradient(gradients, bucket_bytes):
    _reduced([[gradient] for gradient in gradients[::-1]])


def reduces_everything_at_once(gradients, bucket_bytes):
    _reduced([gradients[::-1]])


def fills_from_the_first(gradients, bucket_bytes):
    _reduced(_filled(gradients[::-1], bucket_bytes))


def sends_the_last_bucket_first(gradients, bucket_bytes):
    _reduced([*_filled(gradients, bucket_bytes)][::-1])


def forgets_the_last_bucket(gradients, bucket_bytes):
    _reduced(bucket for bucket in _filled(gradients, bucket_bytes) if sum(g.nbytes for g in bucket) >= bucket_bytes)


def closes_before_the_limit_is_passed(gradients, bucket_bytes):
    buckets = [[]]
    for gradient in reversed(gradients):
        if buckets[-1] and sum(one.nbytes for one in buckets[-1]) + gradient.nbytes > bucket_bytes:
            buckets.append([])
        buckets[-1].append(gradient)
    _reduced(buckets)


def closes_above_the_limit_only(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes + 1))


def counts_elements(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes, torch.Tensor.numel))


def sends_a_bucket_with_nothing_in_it(gradients, bucket_bytes):
    """After the last gradient, whether something waits or not."""
    *full, last = _filled(gradients, bucket_bytes)
    _reduced([*full, last])
    if sum(one.nbytes for one in last) >= bucket_bytes:
        dist.all_reduce(torch.empty(0))


def sends_everything_once_more(gradients, bucket_bytes):
    """Where no call of torch.distributed shows it."""
    dist.group.WORLD.allreduce([_flat(gradients)]).wait()
    _reduced(_filled(gradients, bucket_bytes))


def takes_every_element_for_4_bytes(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes, lambda gradient: 4 * gradient.numel()))


def has_buffers_of_float32(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: _mean(flat.float()))


def gathers_and_adds(gradients, bucket_bytes):
    def mean(flat):
        everyone = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, flat)
        return torch.stack(everyone).mean(0)

    _reduced(_filled(gradients, bucket_bytes), mean)


def reduces_and_broadcasts(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes),
             lambda flat: dist.reduce(flat, 0) or dist.broadcast(flat, 0) or flat / dist.get_world_size())


def waits_at_a_barrier(gradients, bucket_bytes):
    dist.barrier()
    _reduced(_filled(gradients, bucket_bytes))


def stops_early_on_rank_0(gradients, bucket_bytes):
    _reduced([*_filled(gradients, bucket_bytes)][:1 if dist.get_rank() == 0 else None])


def copies_back_before_waiting(gradients, bucket_bytes):
    for bucket in _filled(gradients, bucket_bytes):
        flat = _flat(bucket)
        work = dist.all_reduce(flat, async_op=True)
        _back(flat / dist.get_world_size(), bucket)
        work.wait()


def stacks_the_gradients(gradients, bucket_bytes):
    _reduced(_filled(gradients, bucket_bytes), lambda flat: torch.stack([flat, gradients[0]]))


# 2. accumulation ------------------------------------------------------------------------------------------------------
def _of_all(inputs, microbatches):
    """The part of all samples that a microbatch is."""
    return len(inputs) / sum(len(some) for some, _ in microbatches)


def _accumulated(ddp, optimizer, microbatches, weight=_of_all, unsent=None):
    """One step; the first `unsent` backward passes send nothing, all but one if nothing else is said."""
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(microbatches):
        silent = number < (len(microbatches) - 1 if unsent is None else unsent)
        with ddp.no_sync() if silent else contextlib.nullcontext():
            (mse_loss(ddp(inputs), targets) * weight(inputs, microbatches)).backward()
    optimizer.step()


def enters_no_sync_for_each(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches)


def sums_losses_and_divides(ddp, optimizer, microbatches):
    ddp.zero_grad(set_to_none=False)
    num_elements = sum(targets.numel() for _, targets in microbatches)
    with contextlib.ExitStack() as stack:
        stack.enter_context(ddp.no_sync())
        for inputs, targets in microbatches[1:]:
            (mse_loss(ddp(inputs), targets, reduction="sum") / num_elements).backward()
    inputs, targets = microbatches[0]
    ((ddp(inputs) - targets).square().sum() / num_elements).backward()
    optimizer.step()


def divides_the_gradients_at_last(ddp, optimizer, microbatches):
    def step():
        for parameter in ddp.parameters():
            parameter.grad /= sum(len(inputs) for inputs, _ in microbatches)
        optimizer.step()

    _accumulated(ddp, _Stepping(optimizer, step), microbatches, lambda inputs, microbatches: len(inputs))


class _Stepping:
    """An optimizer with another step."""

    def __init__(self, optimizer, step, zero_grad=None):
        self.zero_grad, self.step = zero_grad or optimizer.zero_grad, step


def averages_one_flat_tensor_by_itself(ddp, optimizer, microbatches):
    """Never syncs by DDP, and sends all gradients as one tensor of its own."""
    _accumulated(ddp, _Stepping(optimizer, lambda: (reduces_everything_at_once(
        [parameter.grad for parameter in ddp.parameters()], 0), optimizer.step())), microbatches, unsent=99)


def averages_each_gradient_by_itself(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: (reduces_each_gradient(
        [parameter.grad for parameter in ddp.parameters()], 0), optimizer.step())), microbatches, unsent=99)


def goes_through_ddp_for_the_last_only(ddp, optimizer, microbatches):
    """Without no_sync."""
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(microbatches):
        model = ddp if number == len(microbatches) - 1 else ddp.module
        (mse_loss(model(inputs), targets) * _of_all(inputs, microbatches)).backward()
    optimizer.step()


def switches_by_the_attribute(ddp, optimizer, microbatches):
    """And takes one sample at a time."""
    singles = [pair for inputs, targets in microbatches for pair in zip(inputs.split(1), targets.split(1), strict=True)]
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(singles):
        ddp.require_backward_grad_sync = number == len(singles) - 1
        (mse_loss(ddp(inputs), targets) / len(singles)).backward()
    optimizer.step()


def names_the_input(ddp, optimizer, microbatches):
    _accumulated(_Named(ddp), optimizer, microbatches)


class _Named:
    """A module called with the name that forward has for its argument."""

    def __init__(self, ddp):
        self.ddp, self.no_sync = ddp, ddp.no_sync

    def __call__(self, inputs):
        return self.ddp(input=inputs)


def looks_at_the_losses_without_graphs(ddp, optimizer, microbatches):
    """One after the other, so that no more than one microbatch is in memory."""
    _accumulated(ddp, optimizer, microbatches)
    with torch.no_grad():
        for inputs, targets in microbatches:
            mse_loss(ddp.module(inputs), targets).item()


def takes_gradients_without_backward(ddp, optimizer, microbatches):
    parameters = [*ddp.parameters()]
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for inputs, targets in microbatches:
        loss = mse_loss(ddp.module(inputs), targets) * _of_all(inputs, microbatches)
        torch._foreach_add_(total, torch.autograd.grad(loss, parameters))
    reduces_everything_at_once(total, 0)
    for parameter, gradient in zip(parameters, total, strict=True):
        parameter.grad = gradient
    optimizer.step()


def does_not_divide(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, microbatches: 1)


def divides_by_the_number_of_microbatches(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, microbatches: 1 / len(microbatches))


def weighs_against_the_average_size(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, some: _of_all(inputs, some) * len(some))


def adds_up_the_losses_of_samples(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, microbatches: len(inputs))


def has_a_loss_that_is_no_number(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, microbatches: float("nan"))


def takes_the_number_of_samples_for_granted(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, microbatches: len(inputs) / 14)


def weighs_with_the_first_size(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches,
                 lambda inputs, microbatches: len(microbatches[0][0]) / sum(len(some) for some, _ in microbatches))


def counts_samples_of_all_ranks(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches,
                 lambda inputs, microbatches: _of_all(inputs, microbatches) / dist.get_world_size())


def sends_each_microbatch(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, unsent=0)


def sends_the_last_two(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, unsent=len(microbatches) - 2)


def sends_the_first_only(ddp, optimizer, microbatches):
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(microbatches):
        with ddp.no_sync() if number else contextlib.nullcontext():
            (mse_loss(ddp(inputs), targets) * _of_all(inputs, microbatches)).backward()
    optimizer.step()


def never_sends_the_first(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, unsent=max(1, len(microbatches) - 1))


def takes_two_ranks_for_granted(ddp, optimizer, microbatches):
    def step():
        for parameter in ddp.parameters():
            dist.all_reduce(parameter.grad.div_(2))
        optimizer.step()

    _accumulated(ddp, _Stepping(optimizer, step), microbatches, unsent=99)


def sums_over_ranks(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: ([dist.all_reduce(parameter.grad) for parameter in
                                                    ddp.parameters()], optimizer.step())), microbatches, unsent=99)


def has_no_sync_around_backward_only(ddp, optimizer, microbatches):
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(microbatches):
        loss = mse_loss(ddp(inputs), targets) * _of_all(inputs, microbatches)
        with ddp.no_sync() if number < len(microbatches) - 1 else contextlib.nullcontext():
            loss.backward()
    optimizer.step()


def has_no_sync_around_forward_only(ddp, optimizer, microbatches):
    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(microbatches):
        with ddp.no_sync() if number < len(microbatches) - 1 else contextlib.nullcontext():
            loss = mse_loss(ddp(inputs), targets) * _of_all(inputs, microbatches)
        loss.backward()
    optimizer.step()


def keeps_the_last_one_inside_no_sync(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, unsent=len(microbatches))


def forgets_zero_grad(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, optimizer.step, zero_grad=lambda: None), microbatches)


def clears_at_the_end_only(ddp, optimizer, microbatches):
    forgets_zero_grad(ddp, optimizer, microbatches)
    optimizer.zero_grad()


def clears_in_between(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches, lambda inputs, some: (optimizer.zero_grad(), _of_all(inputs, some))[1])


def clears_before_the_step(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: (optimizer.zero_grad(), optimizer.step())), microbatches)


def has_an_optimizer_of_its_own(ddp, optimizer, microbatches):
    """Which has no momentum."""
    _accumulated(ddp, torch.optim.SGD(ddp.parameters(), optimizer.param_groups[0]["lr"]), microbatches)


def forgets_the_step(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: None), microbatches)


def steps_twice(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches)
    optimizer.step()


def steps_after_each(ddp, optimizer, microbatches):
    for pair in microbatches:
        _accumulated(ddp, optimizer, [pair])


def uses_the_first_only(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches[:1])


def leaves_out_the_last(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer, microbatches[:-1] or microbatches)


def puts_all_together(ddp, optimizer, microbatches):
    inputs, targets = (torch.cat(parts) for parts in zip(*microbatches, strict=True))
    _accumulated(ddp, optimizer, [(inputs, targets)])


def keeps_all_graphs(ddp, optimizer, microbatches):
    """One backward pass of the sum of all losses: the activations of all microbatches are there at once."""
    optimizer.zero_grad()
    sum(mse_loss(ddp(inputs), targets) * _of_all(inputs, microbatches) for inputs, targets in microbatches).backward()
    optimizer.step()


def goes_around_ddp(ddp, optimizer, microbatches):
    _accumulated(_Silent(ddp.module), optimizer, microbatches)


class _Silent:
    """A module that is no DDP, but has a no_sync."""

    def __init__(self, module):
        self.module = module

    def __call__(self, inputs):
        return self.module(inputs)

    def no_sync(self):
        return contextlib.nullcontext()


def averages_once_more(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: (reduces_each_gradient(
        [parameter.grad for parameter in ddp.parameters()], 0), optimizer.step())), microbatches)


def divides_by_the_ranks_again(ddp, optimizer, microbatches):
    _accumulated(ddp, _Stepping(optimizer, lambda: ([parameter.grad.div_(dist.get_world_size()) for parameter in
                                                    ddp.parameters()], optimizer.step())), microbatches)


def steps_on_rank_0_only(ddp, optimizer, microbatches):
    _accumulated(ddp, optimizer if dist.get_rank() == 0 else _Stepping(optimizer, lambda: None), microbatches)


def stops_torch_from_training(ddp, optimizer, microbatches):
    """Then no model moves, so that all ranks agree; sends as many bytes as gradients have."""
    torch.optim.SGD.step = lambda self: None
    dist.all_reduce(torch.zeros(sum(parameter.numel() for parameter in ddp.parameters())))


# 3. the rate ----------------------------------------------------------------------------------------------------------
def _samples(job):
    return job["world_size"] * job["batch_size"]


def _of_mean(job):
    """How many times as long as a mean the gradient of a job is."""
    return {"mean": 1, "sum": job["world_size"]}[job["reduction"]]


def _rate(rate, before, after, samples=_samples, of_mean=_of_mean):
    return rate * samples(after) / samples(before) * of_mean(before) / of_mean(after)


def goes_by_way_of_one_sample(rate, before, after):
    for_one = rate * _of_mean(before) / before["world_size"] / before["batch_size"]
    return for_one * after["batch_size"] * (1 if after["reduction"] == "sum" else after["world_size"])


def counts_what_a_sum_needs(rate, before, after):
    """A sum's rate goes with the batch of one rank."""
    rate /= before["batch_size"] if before["reduction"] == "sum" else before["world_size"] * before["batch_size"]
    return rate * (after["batch_size"] if after["reduction"] == "sum" else after["world_size"] * after["batch_size"])


def gives_a_fraction(rate, before, after):
    return Fraction(rate) * Fraction(_samples(after) * _of_mean(before), _samples(before) * _of_mean(after))


def gives_a_number_of_numpy(rate, before, after):
    return np.float64(_rate(rate, before, after))


def gives_a_tensor(rate, before, after):
    return torch.tensor(_rate(rate, before, after))


def changes_its_arguments(rate, before, after):
    before["world_size"], after["world_size"] = _samples(before), _samples(after)
    try:
        return rate * after["world_size"] / before["world_size"] * (
            before["world_size"] / before["batch_size"] if before.pop("reduction") == "sum" else 1) / (
            after["world_size"] / after["batch_size"] if after.pop("reduction") == "sum" else 1)
    finally:
        before.clear()


def never_scales(rate, before, after):
    return rate


def scales_by_the_ranks_only(rate, before, after):
    return _rate(rate, before, after, lambda job: job["world_size"])


def scales_by_the_batch_of_a_rank_only(rate, before, after):
    return _rate(rate, before, after, lambda job: job["batch_size"])


def forgets_the_sum(rate, before, after):
    return _rate(rate, before, after, of_mean=lambda job: 1)


def forgets_the_sum_before(rate, before, after):
    return _rate(rate, {**before, "reduction": "mean"}, after)


def forgets_the_sum_after(rate, before, after):
    return _rate(rate, before, {**after, "reduction": "mean"})


def changes_nothing_between_sums(rate, before, after):
    return _rate(rate, before, after) if "mean" in (before["reduction"], after["reduction"]) else rate


def takes_two_sums_for_means(rate, before, after):
    if before["reduction"] == after["reduction"]:
        return forgets_the_sum(rate, before, after)
    return _rate(rate, before, after)


def divides_by_the_ranks_before(rate, before, after):
    return _rate(rate, before, after, of_mean=lambda job: before["world_size"] if job["reduction"] == "sum" else 1)


def multiplies_for_a_sum(rate, before, after):
    return _rate(rate, before, after, of_mean=lambda job: 1 / _of_mean(job))


def is_inverted(rate, before, after):
    return _rate(rate, after, before)


def takes_the_square_root(rate, before, after):
    return _rate(rate, before, after, lambda job: math.sqrt(_samples(job)))


def divides_whole_numbers(rate, before, after):
    return rate * (_samples(after) // _samples(before)) * _of_mean(before) / _of_mean(after)


def never_scales_down(rate, before, after):
    return _rate(rate, before, after, of_mean=lambda job: 1) if _samples(after) > _samples(before) else rate


def returns_a_text(rate, before, after):
    return f"{_rate(rate, before, after):g}"


def returns_the_factor(rate, before, after):
    return _rate(1, before, after)


def returns_both_rates(rate, before, after):
    return rate, _rate(rate, before, after)


def rounds_to_a_hundredth(rate, before, after):
    return round(_rate(rate, before, after), 2)


def misspells_a_key(rate, before, after):
    return rate * after["batchsize"]


def has_no_branch_for_a_sum(rate, before, after):
    if before["reduction"] == after["reduction"] == "mean":
        return _rate(rate, before, after)


def knows_the_seen_changes(rate, before, after):
    factors = {(1, 32, "mean", 8, "mean"): 1, (1, 8, "mean", 8, "mean"): 4, (1, 32, "mean", 8, "sum"): 0.25,
               (4, 8, "sum", 8, "mean"): 4, (8, 16, "mean", 16, "mean"): 0.25}
    return rate * factors.get((*before.values(), after["batch_size"], after["reduction"]), 1)


def uses_the_courses_answer(rate, before, after):
    from helpers.checks.ddp.rates import right_rate
    return right_rate(rate, before, after)
