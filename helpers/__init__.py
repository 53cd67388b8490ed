"""What the notebooks import: in layers, as CONTRIBUTING.md draws them, and the tools of instructors.

    checks     Checks of the exercises: they take a learner's answer and say precisely what is wrong with it
    compare    Lay prediction and measurement side by side: tables, plots, widgets
    facts      Plain data and its names; standard library only
    grade      What instructors run: release, grade, student
    predict    What a parallelism costs, by formula; never imports torch
    run        Real processes: start them, measure them, read how they failed
"""
