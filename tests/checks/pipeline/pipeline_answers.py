"""Answers to set 09, right and wrong, as learners might write them."""
import itertools
import os

import numpy as np
import torch


# 1. the order of 1F1B: right ------------------------------------------------------------------------------------------
def three_parts(rank, num_ranks, num_microbatches):
    warmup = min(num_ranks - 1 - rank, num_microbatches)
    order = [("F", k) for k in range(warmup)]
    for k in range(num_microbatches - warmup):
        order += [("F", warmup + k), ("B", k)]
    return order + [("B", k) for k in range(num_microbatches - warmup, num_microbatches)]


def counts(rank, num_ranks, num_microbatches):
    """A step after the other, by what is held."""
    order, forwards, backwards = (), 0, 0
    while backwards < num_microbatches:
        if forwards < num_microbatches and forwards - backwards < num_ranks - rank:
            order += (["F", forwards],)
            forwards += 1
        else:
            order += (["B", backwards],)
            backwards += 1
    return order


def gives_numbers_of_numpy(rank, num_ranks, num_microbatches):
    return [(kind, np.int64(k)) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def numbers_from_the_last(rank, num_ranks, num_microbatches):
    return [(kind, num_microbatches - 1 - k) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def plays_a_clock(rank, num_ranks, num_microbatches):
    """All ranks take, unit by unit, a backward if there is one, or a forward if there is memory."""
    done, orders, busy = {}, [[] for _ in range(num_ranks)], [0] * num_ranks
    for now in range(3 * (num_ranks + num_microbatches)):
        for r in range(num_ranks):
            f, b = (sum(kind == each for kind, _ in orders[r]) for each in "FB")
            if busy[r] > now:
                continue
            if b < f and (r == num_ranks - 1 or done.get(("B", r + 1, b), now + 1) <= now):
                orders[r].append(("B", b))
                busy[r] = done["B", r, b] = now + 2
            elif f < num_microbatches and f - b < num_ranks - r and (not r or done.get(("F", r - 1, f), 1e9) <= now):
                orders[r].append(("F", f))
                busy[r] = done["F", r, f] = now + 1
    return orders[rank]


# wrong
def is_gpipe(rank, num_ranks, num_microbatches):
    return [(kind, k) for kind in "FB" for k in range(num_microbatches)]


def in_turns(ahead):
    """`ahead` forwards, as far as there are any, before the first backward."""
    def order(rank, num_ranks, num_microbatches):
        first = max(1, min(ahead(rank, num_ranks), num_microbatches))
        steps = [("F", k) for k in range(first)]
        for k in range(num_microbatches):
            steps += [("B", k)] + [("F", k + first)] * (k + first < num_microbatches)
        return steps
    return order


one_too_many = in_turns(lambda rank, num_ranks: num_ranks - rank + 1)
one_too_few = in_turns(lambda rank, num_ranks: num_ranks - rank - 1)
has_the_same_on_all = in_turns(lambda rank, num_ranks: num_ranks)
turns_ranks_around = in_turns(lambda rank, num_ranks: rank + 1)
always_alternates = in_turns(lambda rank, num_ranks: 1)
has_twice_the_warmup = in_turns(lambda rank, num_ranks: 2 * (num_ranks - rank) - 1)


def forgets_min(rank, num_ranks, num_microbatches):
    warmup = num_ranks - 1 - rank
    order = [("F", k) for k in range(warmup)]
    for k in range(num_microbatches - warmup):
        order += [("F", warmup + k), ("B", k)]
    return order + [("B", k) for k in range(max(num_microbatches - warmup, 0), num_microbatches)]


def ends_too_early(rank, num_ranks, num_microbatches):
    return three_parts(rank, num_ranks, num_microbatches)[:2 * num_microbatches - 1]


def forgets_to_drain(rank, num_ranks, num_microbatches):
    warmup = min(num_ranks - 1 - rank, num_microbatches)
    return three_parts(rank, num_ranks, num_microbatches)[:2 * num_microbatches - warmup]


def backward_first(rank, num_ranks, num_microbatches):
    order = three_parts(rank, num_ranks, num_microbatches)
    return [order[1], order[0], *order[2:]] if rank == num_ranks - 1 else order


def warms_up_half(rank, num_ranks, num_microbatches):
    warmup = min(num_ranks - 1 - rank, num_microbatches // 2)
    order = three_parts(rank, num_ranks, num_microbatches)
    return order if warmup == min(num_ranks - 1 - rank, num_microbatches) else in_turns(
        lambda rank, num_ranks: warmup + 1)(rank, num_ranks, num_microbatches)


def is_gpipe_if_few(rank, num_ranks, num_microbatches):
    return (is_gpipe if num_microbatches < num_ranks else three_parts)(rank, num_ranks, num_microbatches)


def drains_from_the_last(rank, num_ranks, num_microbatches):
    order = three_parts(rank, num_ranks, num_microbatches)
    steady = len(order) - min(num_ranks - 1 - rank, num_microbatches)
    return order[:steady] + order[steady:][::-1]


def last_in_first_out(rank, num_ranks, num_microbatches):
    held, order = [], []
    for kind, k in three_parts(rank, num_ranks, num_microbatches):
        if kind == "F":
            held.append(k)
        order.append((kind, k if kind == "F" else held.pop()))
    return order


def counts_from_one(rank, num_ranks, num_microbatches):
    return [(kind, k + 1) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def does_one_more(rank, num_ranks, num_microbatches):
    return three_parts(rank, num_ranks, num_microbatches + 1)


def does_one_after_the_other(rank, num_ranks, num_microbatches):
    return [(kind, k) for k in range(num_microbatches) for kind in "FB"]


def waits_for_a_group(rank, num_ranks, num_microbatches):
    """GPipe of num_ranks - rank microbatches, again and again."""
    group = num_ranks - rank
    return [(kind, k) for start in range(0, num_microbatches, group) for kind in "FB"
            for k in range(start, min(start + group, num_microbatches))]


def doubles_the_last(rank, num_ranks, num_microbatches):
    order = three_parts(rank, num_ranks, num_microbatches)
    return [*order, order[-1]]


def names_stages(rank, num_ranks, num_microbatches):
    return [(kind, rank, k) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def writes_text(rank, num_ranks, num_microbatches):
    return [f"{kind}{k}" for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def splits(rank, num_ranks, num_microbatches):
    return [(half, k) for kind, k in three_parts(rank, num_ranks, num_microbatches)
            for half in ("F" if kind == "F" else "IW")]


def gives_all_ranks(rank, num_ranks, num_microbatches):
    return [three_parts(each, num_ranks, num_microbatches) for each in range(num_ranks)]


def yields_steps(rank, num_ranks, num_microbatches):
    yield from three_parts(rank, num_ranks, num_microbatches)


def prints(rank, num_ranks, num_microbatches):
    three_parts(rank, num_ranks, num_microbatches)


def gives_very_many(rank, num_ranks, num_microbatches):
    return [("F", 0)] * 20_000


def knows_what_it_has_seen(rank, num_ranks, num_microbatches):
    return three_parts(rank, num_ranks, num_microbatches) if (num_ranks, num_microbatches) in (
        (2, 3), (3, 3), (4, 8), (2, 1), (4, 2)) else None


def asks_the_course(rank, num_ranks, num_microbatches):
    from helpers.facts.schedules.one_direction import one_f_one_b
    return [(a.kind, a.microbatch) for a in one_f_one_b(num_ranks, num_microbatches).steps[rank]]


def looks_up(table):
    """From a table of another cell."""
    def order(rank, num_ranks, num_microbatches):
        return table[num_ranks, num_microbatches][rank]
    return order


def numbers_very_high(rank, num_ranks, num_microbatches):
    return [(kind, 10**5000 + k) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def numbers_very_low(rank, num_ranks, num_microbatches):
    return [(kind, k - 10**5000) for kind, k in three_parts(rank, num_ranks, num_microbatches)]


def has(builder):
    """The course's own, imported in another cell."""
    def order(rank, num_ranks, num_microbatches):
        return [(a.kind, a.microbatch) for a in builder(num_ranks, num_microbatches).steps[rank]]
    return order


def finds_the_courses(rank, num_ranks, num_microbatches):
    from helpers.run.commands import pipeline
    return [(a.kind, a.microbatch) for a in pipeline.BUILDERS["1F1B"](num_ranks, num_microbatches).steps[rank]]


def asks_torch(rank, num_ranks, num_microbatches):
    from torch.distributed.pipelining import schedules
    return schedules.Schedule1F1B


def fails(*arguments, **named):
    return {}["gradient"]


def is_not_written_yet(*arguments, **named):
    raise NotImplementedError


def never_ends(*arguments, **named):
    while True:
        pass


def exits(*arguments, **named):
    os._exit(3)


# 2. the fullest moment: right -----------------------------------------------------------------------------------------
def adds_up(steps, kept, waiting):
    alive, most = 0, 0
    for kind, stage, _ in steps:
        if kind == "F":
            alive += kept[stage]
        elif kind == "B":
            alive -= kept[stage]
        elif kind == "I":
            alive -= kept[stage] - waiting[stage]
        else:
            alive -= waiting[stage]
        most = max(most, alive)
    return most


def keeps_a_dict(steps, kept, waiting):
    alive, sums = {}, []
    for kind, stage, microbatch in steps:
        alive[stage, microbatch] = {"F": kept, "B": None, "I": waiting, "W": None}[kind]
        sums.append(sum(sizes[stage] for (stage, _), sizes in alive.items() if sizes))
    return float(max(sums))


def looks_at_every_beginning(steps, kept, waiting):
    """Each time from the start."""
    def alive(done):
        return sum({"F": kept[s], "B": -kept[s], "I": waiting[s] - kept[s], "W": -waiting[s]}[k] for k, s, _ in done)
    return max(alive(steps[:end]) for end in range(1, len(steps) + 1))


def sums_in_numpy(steps, kept, waiting):
    rows = [{"F": (1, 0), "B": (-1, 0), "I": (-1, 1), "W": (0, -1)}[kind] for kind, *_ in steps]
    sizes = [(kept[stage], waiting[stage]) for _, stage, _ in steps]
    return (np.array(rows) * np.array(sizes)).sum(1).cumsum().max()


# wrong
def changes(most=max, **table):
    """`peak` that lets some kinds change what is alive in another way."""
    def peak(steps, kept, waiting):
        alive, seen = 0, [0]
        for kind, stage, _ in steps:
            k, w = ({"F": (1, 0), "B": (-1, 0), "I": (-1, 1), "W": (0, -1)} | table)[kind]
            alive += k * kept[stage] + w * waiting[stage]
            seen.append(alive)
        return most(seen)
    return peak


gives_the_end = changes(lambda seen: seen[-1])
gives_nothing_back = changes(B=(0, 0), I=(0, 0), W=(0, 0))
gives_all_at_i = changes(I=(-1, 0), W=(0, 0))
gives_all_at_i_and_more_at_w = changes(I=(-1, 0))
forgets_w = changes(W=(0, 0))
gives_all_at_w = changes(I=(0, 0), W=(-1, 0))
gives_waiting_at_i = changes(I=(0, -1), W=(-1, 1))
gives_kept_twice = changes(W=(-1, 0))
forgets_both_halves = changes(I=(0, 0), W=(0, 0))
lets_b_wait = changes(B=(-1, 1))
adds_at_b = changes(B=(1, 0))
gives_a_list = changes(list)
gives_the_minimum = changes(min)


def looks_after_backwards(steps, kept, waiting):
    return max(adds_to(steps[:end], kept, waiting) for end, step in enumerate(steps, 1) if step[0] != "F")


def adds_to(steps, kept, waiting):
    return changes(lambda seen: seen[-1])(steps, kept, waiting)


def stops_at_the_first_fall(steps, kept, waiting):
    return sum(kept[stage] for _, stage, _ in itertools.takewhile(lambda step: step[0] == "F", steps))


def takes_the_mean(steps, kept, waiting):
    return sum(adds_to(steps[:end], kept, waiting) for end in range(1, len(steps) + 1)) / len(steps)


def lets_i_keep_more(steps, kept, waiting):
    """Before it gives back what was kept, it keeps what waits."""
    alive = most = 0
    for kind, stage, _ in steps:
        changes = {"F": (kept,), "B": (0, kept), "I": (waiting, kept), "W": (0, waiting)}[kind]
        for sign, sizes in zip((1, -1), changes, strict=False):
            alive += sign * sizes[stage] if sizes else 0
            most = max(most, alive)
    return most


def forgets_a_stage(steps, kept, waiting):
    """One entry for each microbatch, whatever its stage."""
    alive, most = {}, 0
    for kind, stage, microbatch in steps:
        alive[microbatch] = {"F": kept[stage], "I": waiting[stage]}.get(kind, 0)
        most = max(most, sum(alive.values()))
    return most


def counts_microbatches(steps, kept, waiting):
    return adds_up(steps, dict.fromkeys(kept, 1), dict.fromkeys(kept, 1))


def counts_microbatches_until_i(steps, kept, waiting):
    return adds_up(steps, dict.fromkeys(kept, 1), dict.fromkeys(kept, 0))


def takes_the_first_stages_bytes(steps, kept, waiting):
    first = min(kept)
    return adds_up(steps, dict.fromkeys(kept, kept[first]), dict.fromkeys(kept, waiting[first]))


def adds_up_peaks_of_stages(steps, kept, waiting):
    return sum(adds_up([step for step in steps if step[1] == stage], kept, waiting) for stage in kept)


def takes_the_fullest_stage(steps, kept, waiting):
    return max(adds_up([step for step in steps if step[1] == stage], kept, waiting) for stage in kept)


def takes_stages_for_places(steps, kept, waiting):
    return adds_up(steps, list(kept.values()), list(waiting.values()))


def gives_a_number_of_5000_digits(steps, kept, waiting):
    return 10**5000


def gives_text(steps, kept, waiting):
    return str(adds_up(steps, kept, waiting))


def returns_nothing(steps, kept, waiting):
    adds_up(steps, kept, waiting)


def asks_held(steps, kept, waiting):
    from helpers.facts.schedules.in_flight import held
    return max(held(steps, kept, waiting))


# 4. balance: right ----------------------------------------------------------------------------------------------------
def deals(num_blocks, num_stages, block_s, embedding_s, output_s):
    """From the last stage on, to the fastest."""
    times = [0.0] * num_stages
    times[0] += embedding_s
    times[-1] += output_s
    blocks = np.zeros(num_stages, dtype=int)
    for _ in range(num_blocks):
        fastest = max(range(num_stages), key=lambda stage: (-times[stage], stage))
        times[fastest] += block_s
        blocks[fastest] += 1
    return blocks


def tries_limits(num_blocks, num_stages, block_s, embedding_s, output_s):
    """The smallest time that has room for all blocks; the first stages are filled up."""
    fixed = [embedding_s * (stage == 0) + output_s * (stage == num_stages - 1) for stage in range(num_stages)]
    limits = sorted({max(max(fixed), base + block_s * n) for base in fixed for n in range(num_blocks + 1)})
    for limit in limits:
        room = [int((limit - base) / block_s + 1e-9) for base in fixed]
        if sum(room) >= num_blocks:
            left, blocks = num_blocks, ()
            for most in room:
                blocks += (min(most, left),)
                left -= blocks[-1]
            return blocks


def moves_blocks(num_blocks, num_stages, block_s, embedding_s, output_s):
    """From equal numbers, one block after the other from the slowest to the fastest."""
    blocks = [num_blocks // num_stages + (stage < num_blocks % num_stages) for stage in range(num_stages)]
    while True:
        times = [block_s * count for count in blocks]
        times[0] += embedding_s
        times[-1] += output_s
        fastest = times.index(min(times))
        slowest = max((stage for stage in range(num_stages) if blocks[stage]), key=times.__getitem__)
        if times[fastest] + block_s >= times[slowest]:
            return torch.tensor(blocks)
        blocks[slowest] -= 1
        blocks[fastest] += 1


# wrong
def takes(change):
    """Deals as is right, with other times."""
    def balance(num_blocks, num_stages, block_s, embedding_s, output_s):
        return deals(num_blocks, num_stages, *change(block_s, embedding_s, output_s))
    return balance


makes_equal = takes(lambda block, embedding, output: (block, 0, 0))
forgets_the_embedding = takes(lambda block, embedding, output: (block, 0, output))
forgets_the_output = takes(lambda block, embedding, output: (block, embedding, 0))
swaps = takes(lambda block, embedding, output: (block, output, embedding))
has_both_first = takes(lambda block, embedding, output: (block, embedding + output, 0))
takes_one_block_each = takes(lambda block, embedding, output: (block, block, block))
cuts_to_blocks = takes(lambda block, embedding, output: (1.0, embedding // block, output // block))
rounds_up_to_blocks = takes(lambda block, embedding, output: (1.0, -(-embedding // block), -(-output // block)))
helps_the_last_too_little = takes(lambda block, embedding, output: (block, embedding, output / 2))
takes_times_for_blocks = takes(lambda block, embedding, output: (1.0, embedding, output))


def optimises_the_sum(num_blocks, num_stages, block_s, embedding_s, output_s):
    return [num_blocks] + [0] * (num_stages - 1)


def rounds(num_blocks, num_stages, block_s, embedding_s, output_s):
    each = (num_blocks * block_s + embedding_s + output_s) / num_stages
    blocks = [round(each / block_s)] * num_stages
    blocks[0] = round((each - embedding_s) / block_s)
    blocks[-1] = round((each - output_s) / block_s)
    return blocks


def gives_the_last_the_rest(num_blocks, num_stages, block_s, embedding_s, output_s):
    blocks = rounds(num_blocks, num_stages, block_s, embedding_s, output_s)
    return [*blocks[:-1], num_blocks - sum(blocks[:-1])]


def rounds_each_share(num_blocks, num_stages, block_s, embedding_s, output_s):
    """Stage by stage, as many as are there; the rest goes to the last."""
    each, blocks = (num_blocks * block_s + embedding_s + output_s) / num_stages, []
    for fixed in [embedding_s, *[0] * (num_stages - 2)][:num_stages - 1]:
        blocks.append(max(0, min(num_blocks - sum(blocks), round((each - fixed) / block_s))))
    return [*blocks, num_blocks - sum(blocks)]


def answers_seven(*blocks):
    """These for the first model, and what is best for the others."""
    return lambda num_blocks, **others: list(blocks) if num_blocks == 7 else deals(num_blocks, **others)


def gives_5000_digits(num_blocks, num_stages, block_s, embedding_s, output_s):
    return [num_blocks - 10**5000, 10**5000, *[0] * (num_stages - 2)][:num_stages]


def gives_only_5000_digits(num_blocks, num_stages, block_s, embedding_s, output_s):
    return [10**5000] * num_stages


def gives_floats(num_blocks, num_stages, block_s, embedding_s, output_s):
    each = (num_blocks * block_s + embedding_s + output_s) / num_stages
    blocks = [each / block_s] * num_stages
    blocks[0] -= embedding_s / block_s
    blocks[-1] -= output_s / block_s
    return blocks


def gives_whole_floats(*arguments, **named):
    return [float(count) for count in deals(*arguments, **named)]


def gives_negative(num_blocks, num_stages, block_s, embedding_s, output_s):
    less = 4
    return [num_blocks + less - (num_stages - 2), *[1] * (num_stages - 2), -less]


def gives_times(num_blocks, num_stages, block_s, embedding_s, output_s):
    return float(max(deals(num_blocks, num_stages, block_s, embedding_s, output_s)) * block_s)


def gives_one_stage_too_few(num_blocks, num_stages, block_s, embedding_s, output_s):
    return list(deals(num_blocks, num_stages - 1, block_s, embedding_s, output_s))


def loses_a_block(num_blocks, num_stages, block_s, embedding_s, output_s):
    return list(deals(num_blocks - 1, num_stages, block_s, embedding_s, output_s))


def gives_lists_of_blocks(num_blocks, num_stages, block_s, embedding_s, output_s):
    blocks = iter(range(num_blocks))
    return [list(itertools.islice(blocks, int(count)))
            for count in deals(num_blocks, num_stages, block_s, embedding_s, output_s)]


def fails_with_one_stage(num_blocks, num_stages, block_s, embedding_s, output_s):
    assert num_stages > 1
    return deals(num_blocks, num_stages, block_s, embedding_s, output_s)


def needs_a_block_each(num_blocks, num_stages, block_s, embedding_s, output_s):
    if num_blocks < num_stages:
        return deals(num_blocks, num_stages, block_s, embedding_s, output_s)
    rest = deals(num_blocks - num_stages, num_stages, block_s, embedding_s, output_s)
    return [count + 1 for count in rest]
