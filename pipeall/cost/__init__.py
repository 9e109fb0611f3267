"""What a network costs before anything runs: operations, memory, batch, time, precision, algorithms, threads.

Paper 004 defines the terms. Everything is computed from shapes (``network.Network``), whose weights are never read.
"""
