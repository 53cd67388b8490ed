"""What lesson 04's explorer says of draws."""
from __future__ import annotations

import html

from helpers.facts.data_sharding import Sampling


def sampling_in_words(report: Sampling) -> str:
    """The report, as HTML."""
    return "<br>".join(map(html.escape, str(report).splitlines()))
