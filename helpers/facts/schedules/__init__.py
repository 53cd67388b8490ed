"""Pipeline schedules as data: who does what in which order, in the forms that the literature draws."""
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
