"""What may be wrong with an outcome of a collective, in words; None if nothing is.

Each property is a function of a case and its outcome.
"""
from __future__ import annotations

from collections.abc import Callable

from helpers.checks.collectives.mesh_runs import MeshCase, MeshOutcome, on_gloo, outcomes
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.verdict import Verdict

LONGEST_SHOWN = 9               # numbers of a tensor in a message
Expected = Callable[[MeshCase], list[list[float]]]          # by rank
Property = Callable[[MeshCase, MeshOutcome], str | None]


def judge(function: object, cases: list[MeshCase], value: tuple[str, Property],
          *costs: tuple[str, Property]) -> list[Verdict]:
    """A point for the values, and one for each cost if the values are right."""
    played = outcomes(function, cases)
    wrong = _first(value[1], cases, played) or _first(_sends_enough, cases, played)
    return [Verdict(1, value[0], wrong),
            *(Verdict(1, what, "values first" if wrong else _first(cost, cases, played)) for what, cost in costs)]


def judge_unseen(function: object, what: str, cases: list[MeshCase], real: MeshCase, *properties: Property,
                 ) -> list[Verdict]:
    """A point if all properties hold for more cases, and the first of them on real ranks."""
    played = outcomes(function, cases)
    wrong = next(filter(None, (_first(one, cases, played) for one in (*properties, _sends_enough))), None)
    return [Verdict(1, what, wrong or _first(properties[0], [real], [on_gloo(function, real)]))]


def _first(one: Property, cases: list[MeshCase], played: list[MeshOutcome | Raised]) -> str | None:
    for case, got in zip(cases, played, strict=True):
        if isinstance(got, Raised):
            return got.told_of(f"{case_name(case)}:")
        if (wrong := one(case, got)) is not None:
            return f"{case_name(case)}: {wrong}"
    return None


def holds_values(expected: Expected) -> Property:
    """Every rank's tensor holds what is expected of it, by rank, when the function has returned."""
    def wrong(case: MeshCase, got: MeshOutcome) -> str | None:
        words = _differs(case, "holds", got.held, expected(case))
        if words and all(map(_is_row, got.returned)) and got.returned == expected(case):
            return "it returns the right values, but `tensor` itself must hold them: fill it in place"
        if words and got.held == case.tensors:
            return f"{words} All tensors are as they were: write into `tensor` or views of it; a new one is not seen."
        return words

    return wrong


def returns(expected: Expected) -> Property:
    """Every rank returns what is expected of it, by rank."""
    return lambda case, got: _differs(case, "returned", got.returned, expected(case))


def _differs(case: MeshCase, verb: str, values: list, expected: list[list[float]]) -> str | None:
    for rank, (value, right) in enumerate(zip(values, expected, strict=True)):
        if value is None:
            return f"rank {rank} {verb} None, expected {_shown(right)}: is there a return?"
        if not _is_row(value):
            return f"rank {rank} {verb} {_shown(value)}; a flat tensor of {len(right)} is expected"
        if value != right:
            return f"rank {rank} {verb} {_shown(value)}, expected {_shown(right)}. {case.hint}".rstrip()
    return None


def _is_row(value: object) -> bool:
    """By exact type, since an object of the learner's own could claim to equal anything."""
    return type(value) is list and all(type(one) in (int, float) for one in value)


def _sends_enough(case: MeshCase, got: MeshOutcome) -> str | None:
    """Every result depends on all ranks or goes to all: N-1 ranks must hear of each element."""
    total, needed = sum(got.sent), (case.world_size - 1) * case.num_bytes
    if total >= needed:
        return None
    return (f"right values, but all ranks together send {total:.0f} bytes, and {needed} must travel: "
            "tensors go from rank to rank by calls of the mesh only")


def sends_at_most(num_bytes: Callable[[MeshCase], float], messages: Callable[[MeshCase], int]) -> Property:
    """Bytes of the busiest rank, and messages one after another."""
    def too_dear(case: MeshCase, got: MeshOutcome) -> str | None:
        most, enough = max(got.sent), num_bytes(case)
        if most > enough + 1e-6:
            return f"right values, but rank {got.sent.index(most)} sends {most:.0f} bytes; {enough:.0f} are enough"
        if got.messages > messages(case):
            return f"right values, but {got.messages:.0f} messages follow one another; {messages(case)} are enough"
        return None

    return too_dear


def tensors_at_most(number: Callable[[MeshCase], int]) -> Property:
    """Full tensors that follow one another through a rank's ports, so that sending to all at once is not free."""
    def too_slow(case: MeshCase, got: MeshOutcome) -> str | None:
        if got.tensors_moved <= number(case) + 1e-6:
            return None
        return (f"right values, but {got.tensors_moved:.0f} sends of the tensor follow one another; "
                f"{number(case)} are enough")

    return too_slow


def sends_to(target: Callable[[int, int], int]) -> Property:
    """All messages of rank r go to `target(r, N)`."""
    def elsewhere(case: MeshCase, got: MeshOutcome) -> str | None:
        wrong = sorted(way for way in got.ways if way[1] != target(way[0], case.world_size))
        if not wrong:
            return None
        source, to = wrong[0]
        return f"rank {source} sends to rank {to}, not to rank {target(source, case.world_size)}"

    return elsewhere


def case_name(case: MeshCase) -> str:
    """A case in words: ranks, elements, and the source where there is one."""
    source = f", source {case.args[0]}" if case.args else ""
    size = len(case.tensors[0])
    return f"{case.world_size} rank{'s' * (case.world_size > 1)}, {size} element{'s' * (size > 1)}{source}"


def _shown(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    numbers = [f"{one:.16g}" if isinstance(one, float) else repr(one) for one in value[:LONGEST_SHOWN]]
    return f"[{', '.join(numbers)}{', ...' * (len(value) > LONGEST_SHOWN)}]"
