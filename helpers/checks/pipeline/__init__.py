"""Checks of exercise set 09: the order of 1F1B, the fullest moment, balanced stages, a mended order.

    balancing       blocks dealt to stages so that the slowest stage is as fast as can be
                    BalanceCase, check_balance, check_balance_unseen
    mended_order    an order with three faults, mended by moving steps along their lines
                    Task, check_mended_order, check_mended_whole_order
    order_words     What all checks of orders share: an answer as a schedule, its length, and words with a picture below
    orders          Ask a learner's function for orders of work, in another process where no order of the course or of
                    torch is
    peaks           the most bytes that any order holds
                    PeakCase, check_peak, check_peak_unseen
    rank_order      the order of 1F1B, asked for one rank at a time
                    OrderCase, check_order, check_order_unseen
"""
from helpers.checks.pipeline import balancing, mended_order, peaks, rank_order
from helpers.run.launch import preload

__all__ = ["balancing", "mended_order", "peaks", "rank_order"]

preload(__name__)
