"""What a network takes before anything runs: operations, memory, batch, time, precision, algorithms, threads.

Paper 004 defines the terms. Everything is computed from shapes (``size_network.Network``); only a quantized file is
loaded with its weights.
"""
