"""Checks of exercise set 02: collectives built from send and receive, and which to choose.

    building      collectives that a learner has built from send and receive
                  check_all_gather, check_all_gather_unseen, check_reduce_scatter, check_reduce_scatter_unseen,
                  check_broadcast, check_broadcast_unseen, check_mended_all_reduce, check_mended_all_reduce_unseen
    choosing      what an algorithm costs, and which one to choose
                  check_predicted, algorithm_on_ones, check_algorithm_choice, check_choice_unseen
    mesh_runs     Run a learner's collective: played on the virtual clock for its cost, and on gloo for its values
    properties    What may be wrong with an outcome of a collective, in words; None if nothing is
"""
from helpers.checks.collectives import building, choosing
from helpers.run.launch import preload

__all__ = ["building", "choosing"]

preload(__name__)
