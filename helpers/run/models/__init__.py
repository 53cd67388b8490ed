"""Models and data to train on real ranks."""
from helpers.run.models.data import Stream, regression
from helpers.run.models.small import Padded, cut, mlp, perceptron
from helpers.run.models.transformer import GPT, Block

__all__ = ["GPT", "Block", "Padded", "Stream", "cut", "mlp", "perceptron", "regression"]
