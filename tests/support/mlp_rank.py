"""What a rank of ``test_mlp_mpi`` does: python mlp_rank.py WHAT FILE, started by mpirun."""

import os
import signal
import sys
from dataclasses import replace

import numpy as np
from mlp_nets import HEADS, SIZES, network, samples

from pipeall.mlp import checkpoint
from pipeall.mlp.checkpoint import Progress
from pipeall.mlp.comm_mpi import Mpi
from pipeall.mlp.data import Split, split
from pipeall.mlp.rules import Rule
from pipeall.mlp.train import Settings, train

LAYOUTS = (
    {},
    {"bit_equal": True},
    {"mode": "ghost"},
    {"mode": "ghost", "ghost_gradient": "exchange", "ghost_width": 2},
    {"master": True},
)


def trained(comm, layout, head):
    """Outputs and loss after ten iterations, of one sample and of three."""
    net = network(SIZES[2], head, comm, **layout)
    x, t = samples(SIZES[2], 20, np.float32)
    for begin in range(10):
        end = begin + (1 if begin % 2 else 3)
        net.step(x[begin:end], t[begin:end], 0.1, 0.5 if begin > 5 else 0.0)
    outputs = net.predict(x)
    return outputs, np.array(net.loss(t)), np.array([comm.traffic.messages, comm.traffic.bytes])


def every(comm):
    return [array for layout in LAYOUTS for head in HEADS for array in trained(comm, layout, head)]


RULES = (Rule("sgd", momentum=0.9), Rule("adam"))
SPLITS = {"any": {"bit_equal": True}, "full": {}}


def fitted(comm, folder, run, epochs, before=None):
    """For each rule and mode a network of so many epochs, begun anew or from a file: RUN-MODE-RULE-RANKS."""
    data, test = (replace(part, x=part.x[:150], labels=part.labels[:150]) for part in split("digits")[:2])
    for rule in RULES:
        for mode, layout in SPLITS.items():
            net, made = network((64, 16, 12, 10), HEADS[2], comm, rule=rule, **layout), Progress()
            if before:
                ranks = 3 if mode == "any" else comm.size
                made = checkpoint.load(f"{folder}/{before}-{mode}-{rule.name}-{ranks}", net)
            path = f"{folder}/{run}-{mode}-{rule.name}-{comm.size}"
            train(net, Split(data, test), Settings(epochs, batch=64, rate=0.01), made, save=path)


def dying(comm, path):
    """Rank 1 is killed in the second epoch, or fails in it."""
    data, test = split("digits")[:2]
    net = network((64, 16, 10), HEADS[2], comm)

    def end_in_the_second(epoch):
        if epoch.epoch == 2 and comm.rank == 1:
            if path.endswith(".killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            comm.abort(RuntimeError("told to fail"))

    train(net, Split(data, test), Settings(50, batch=32, rate=0.1), save=path, on_epoch=end_in_the_second)


if __name__ == "__main__":
    what, file = sys.argv[1:]
    comm = Mpi()
    if what == "train":
        np.savez(f"{file}.{comm.rank}.npz", *every(comm))
    elif what == "break":
        fitted(comm, file, "whole", 4)
        fitted(comm, file, "half", 2)
    elif what == "resume":
        fitted(comm, file, "rest", 4, "half")
    else:
        dying(comm, file)
