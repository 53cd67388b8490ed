"""Checks of the exercises: they take a learner's answer and say precisely what is wrong with it."""
