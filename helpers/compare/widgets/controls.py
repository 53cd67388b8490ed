"""Controls with a name and what they redraw."""
from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

LONGEST_NAME = 11               # letters that fit beside a field


def follow(redraw: Callable, *controls: widgets.Widget) -> None:
    """Draw now, and whenever a control changes."""
    for control in controls:
        control.observe(redraw, names="value")
    redraw()


def row(*controls: widgets.Widget) -> widgets.HBox:
    """Controls side by side, wrapped where the page is narrow."""
    return widgets.HBox(controls, layout=widgets.Layout(flex_flow="row wrap"))      # wraps where it is narrow


def choice(name: str, options: list, value) -> widgets.Dropdown:
    """A dropdown with a name; `options` are values, or pairs of a text and a value."""
    return widgets.Dropdown(description=name, options=options, value=value)


def number_field(name: str, value: int, least: int, most: int) -> tuple[widgets.BoundedIntText, widgets.IntSlider]:
    """A field and a slider for one number; the field has the name that a slider cannot give a screen reader."""
    field = widgets.BoundedIntText(value=value, min=least, max=most, description=name)
    if len(name) > LONGEST_NAME:
        field.style.description_width = "initial"           # as wide as it is
    slider = widgets.IntSlider(value=value, min=least, max=most, continuous_update=False, readout=False)
    widgets.link((field, "value"), (slider, "value"))
    return field, slider
