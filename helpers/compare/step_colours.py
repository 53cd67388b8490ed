"""Colours of a pipeline's steps, and of the letters on them: light, middle, dark, so that a grey print is read as well.

Okabe and Ito's, F, I lightened; see plots/figure.py.
"""
STEP_COLOURS = {"F": ("#BFE0F2", "black"), "B": ("#E69F00", "black"),
                "I": ("#D78DB3", "black"), "W": ("#0072B2", "white")}
LATER_STAGE_HEIGHT = 0.7                   # height of a box of a rank's further stages, of that of its first
