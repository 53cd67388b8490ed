"""Pipeline schedules as data: who does what in which order, in the forms that the literature draws.

BUILDERS has every builder by the name that the literature gives its schedule.

    board            Write a schedule one step at a time, as on a board: each step must be possible when it is placed
    dualpipe         DualPipe and DualPipeV: a forward overlaps a backward, so messages hide behind computing
                     dualpipe, dualpipe_v, check_dualpipe, check_dualpipe_v
    durations        How long a step takes: seconds, or any unit, by kind of action, for all stages alike or for each
    in_flight        What each rank holds for backwards that are still to come
                     most_held
    interleaved      Interleaved 1F1B: each rank holds several chunks of the model, so filling and draining take less
                     time
                     interleaved
    one_direction    GPipe and 1F1B: one stage on each rank, microbatches in one direction
                     gpipe, one_f_one_b
    rhythm           Write the order of one rank as a rhythm, and deal microbatches to it
    schedule         A pipeline schedule: for every rank, what it does, in order
                     Action, Pair, Schedule, dependencies, parse
    start_order      Play an order: which step comes when, and whether the order ever ends
    text             Schedules as text: a grid to read, and CSV, which torch.distributed.pipelining reads, too
                     from_csv, grid, to_csv
    validate         Why an order is illegal: what is missing, doubled or too early, who waits for whom, where memory
                     runs out
                     IllegalSchedule, validate
    zb_v             ZB-V: two chunks on each rank, placed like a V, so that the rank that starts a microbatch also ends
                     it
                     zb_v
    zero_bubble      ZB-H1 and ZB-H2: backward in two halves, I and W; nobody waits for a W, so W fills bubbles
                     zb_h1, zb_h2
"""
from helpers.facts.schedules.dualpipe import dualpipe, dualpipe_v
from helpers.facts.schedules.in_flight import most_held
from helpers.facts.schedules.interleaved import interleaved
from helpers.facts.schedules.one_direction import gpipe, one_f_one_b
from helpers.facts.schedules.schedule import Action, Pair, Schedule, dependencies, parse
from helpers.facts.schedules.text import from_csv, grid, to_csv
from helpers.facts.schedules.validate import IllegalSchedule, validate
from helpers.facts.schedules.zb_v import zb_v
from helpers.facts.schedules.zero_bubble import zb_h1, zb_h2

BUILDERS = {"GPipe": gpipe, "1F1B": one_f_one_b, "interleaved 1F1B": interleaved, "ZB-H1": zb_h1, "ZB-H2": zb_h2,
            "ZB-V": zb_v, "DualPipe": dualpipe, "DualPipeV": dualpipe_v}

__all__ = ["BUILDERS", "Action", "IllegalSchedule", "Pair", "Schedule", "dependencies", "dualpipe", "dualpipe_v",
           "from_csv", "gpipe", "grid", "interleaved", "most_held", "one_f_one_b", "parse", "to_csv", "validate",
           "zb_h1", "zb_h2", "zb_v"]
