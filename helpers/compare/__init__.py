"""Lay prediction and measurement side by side: tables, plots, widgets.

    commands        What the commands of `python -m helpers` print
    crossover       Which all-reduce is fastest: seconds over sizes, by formula and played on the virtual clock
                    Curves, curves, seconds
    plots           Figures: each function draws data it is given on axes it is given
                    bubble_curves, gantt, growth, held_strip, losses, memory_bars, part_bars, pipeline_gantt,
                    pipeline_picture, png, residency_plot, ring_frame, ring_strip, step_curves, times, who_draws
    ring_frames     The frames of a ring all-reduce: what every rank holds before each step, and what is on its way
                    RingFrame, ring_frames, parts_in
    step_colours    Colours of a pipeline's steps, and of the letters on them: light, middle, dark, so that a grey print
                    is read as well
    svg             A trace of a pipeline as SVG, for pages: each box says its step in full when the pointer rests on it
                    svg_gantt
    table           Tables that a notebook shows as HTML, and a terminal, a test or a screen reader as text
                    Table, predicted_vs_measured, state_table, savings_table, four_digits
    text_gantt      A trace of a pipeline as text: a row for each rank, as many characters for each unit of time as a
                    label needs
                    text_gantt
    widgets         Controls that redraw a picture and the sentence beside it
                    activation_explorer, all_reduce_explorer, crossover_explorer, fsdp_explorer, memory_explorer,
                    overlap_explorer, pipeline_explorer, residency_explorer, ring_explorer, sampling_explorer,
                    schedule_builder
    words           Sentences that say what a picture shows, one module for each topic
"""
