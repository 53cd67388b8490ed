"""What all pictures share: colours, and how a figure becomes a file.

Colours are those of Okabe and Ito, which people with colour-blindness can tell apart.
"""
from __future__ import annotations

import io

import matplotlib.pyplot as plt

RANKS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def png(ax) -> bytes:
    """The figure of `ax` as a PNG picture; the figure is closed."""
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png", dpi=100)
    plt.close(ax.figure)
    return buffer.getvalue()
