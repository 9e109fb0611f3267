"""Multilayer perceptrons trained over ranks (paper 002): every rank holds a slice of each layer.

net = Perceptron(loss="cross-entropy")
net.add_layer("input", 784)
net.add_layer("hidden", 512, "relu")
net.add_layer("output", 10, "softmax")
net.initialize(comm)                      # or initialize() for one process
net.step(images, one_hot, rate=0.1)
"""

from .network import Perceptron

__all__ = ["Perceptron"]
