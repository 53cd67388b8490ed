"""Models and data to train on real ranks.

    data           Data that is the same in every process
                   Stream, regression
    small          Small models to train on real ranks
                   Padded, cut, mlp, perceptron
    transformer    A GPT block and a small GPT in plain PyTorch, in which every tensor that backward needs can be
                   pointed at
                   GPT, Block
"""
from helpers.run.models.data import Stream, regression
from helpers.run.models.small import Padded, cut, mlp, perceptron
from helpers.run.models.transformer import GPT, Block

__all__ = ["GPT", "Block", "Padded", "Stream", "cut", "mlp", "perceptron", "regression"]
