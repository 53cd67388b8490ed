"""How a class fared: a table of properties, and a page with what was hard and the commonest mistakes.

grading/properties.csv     a row for each property that a check has looked at, of each student
grading/report.html        for each exercise set: points by check, mistakes by number, what a person should look at
"""
from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment

LONGEST = 200                   # characters of a mistake
MOST_MISTAKES = 10              # of an exercise set, the commonest
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Report of a class</title>
<style>body {font-family: sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; line-height: 1.4}
table {border-collapse: collapse; margin: 1em 0} th, td {text-align: left; padding: .3em .8em; vertical-align: top}
th {border-bottom: 2px solid #555} td {border-bottom: 1px solid #ccc} td.number {text-align: right}</style>
<h1>Report of a class</h1>
{% for set in sets %}
<h2>{{ set.name }}</h2>
<p>{{ set.students }} graded, {{ "%.1f"|format(set.mean) }} of {{ "%g"|format(set.most) }} points on average by the
autograder{% if set.by_hand %}; written answers of {{ set.by_hand|join(", ") }} wait{% endif %}.</p>
<table><tr><th>check, hardest first<th>property<th>right</tr>
{% for row in set.properties %}<tr><td>{{ row.check }}<td>{{ row.what }}<td class="number">{{ row.right }} of
{{ row.asked }}</tr>{% endfor %}</table>
{% if set.mistakes %}<table><tr><th>the commonest mistakes<th>students</tr>
{% for words, count in set.mistakes %}<tr><td>{{ words }}<td class="number">{{ count }}</tr>{% endfor %}</table>
{% endif %}
{% if set.look_at %}<table><tr><th>to be looked at by a person<th></tr>
{% for student, words in set.look_at %}<tr><td>{{ student }}<td>{{ words }}</tr>{% endfor %}</table>{% endif %}
{% endfor %}
{% if troubles %}<h2>Not graded</h2><table>
{% for student, assignment, words in troubles %}<tr><td>{{ student }}<td>{{ assignment }}<td>{{ words }}</tr>
{% endfor %}</table>{% endif %}
</html>
"""


@dataclass(frozen=True)
class Judged:
    """One property of one student's answer: `wrong` says what is wrong with it, None if it is right."""

    student: str
    assignment: str
    check: str
    what: str
    points: float
    wrong: str | None


def write_report(root: Path, marks: list) -> None:
    """Both files, from what was recorded of each submission and from the marks of this run, a list of `Mark`."""
    judged = list(_judged(root, marks))
    with open(root / "grading/properties.csv", "w", newline="", encoding="utf-8", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(["student", "assignment", "check", "property", "points", "right", "mistake"])
        table.writerows([one.student, one.assignment, one.check, one.what, one.points, one.wrong is None,
                         one.wrong or ""] for one in judged)
    names = sorted({mark.assignment for mark in marks if mark.score is not None})
    sets = [_set(name, marks, [one for one in judged if one.assignment == name]) for name in names]
    troubles = [(mark.student, mark.assignment, mark.trouble.splitlines()[0]) for mark in marks if mark.trouble]
    page = Environment(autoescape=True).from_string(PAGE).render(sets=sets, troubles=troubles)
    (root / "grading/report.html").write_text(page, encoding="utf-8", errors="replace")


def _judged(root: Path, marks: list) -> Iterator[Judged]:
    for mark in marks:
        note = root / "grading/done" / mark.student / f"{mark.assignment}.json"
        if mark.score is not None and note.exists():
            for check, points, what, wrong in json.loads(note.read_text())["verdicts"]:
                yield Judged(mark.student, mark.assignment, check, what, points, wrong)


def _set(name: str, marks: list, judged: list[Judged]) -> dict:
    graded = [mark for mark in marks if mark.assignment == name and mark.score is not None]
    asked, right, mistakes = Counter(), Counter(), defaultdict(set)
    for one in judged:
        asked[one.check, one.what] += 1
        right[one.check, one.what] += one.wrong is None
        if one.wrong:
            mistakes[f"{one.check}: {one.wrong[:LONGEST]}"].add(one.student)
    hardest = sorted(asked, key=lambda key: right[key] / asked[key])
    return {"name": name, "students": len(graded), "most": max(mark.most for mark in graded),
            "mean": sum(mark.score for mark in graded) / len(graded),
            "by_hand": [mark.student for mark in graded if mark.by_hand],
            "properties": [{"check": check, "what": what, "right": right[check, what], "asked": asked[check, what]}
                           for check, what in hardest],
            "mistakes": sorted(((words, len(who)) for words, who in mistakes.items()), key=lambda pair: -pair[1]
                               )[:MOST_MISTAKES],
            "look_at": [(mark.student, mark.look_at) for mark in graded if mark.look_at]}
