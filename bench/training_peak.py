"""Peak memory of a training step in PyTorch beside the predicted one: `python bench/training_peak.py [NET ...]`.

Needs torch and torchvision. Measured by the profiler over forward and backward pass at batch 4, weights and gradients
existing before. What is more than predicted: a new weight gradient until it is added to the old one (AlexNet, VGG: a
fully connected layer of 151 and 411 MB), and what the backward pass of BatchNorm allocates.
"""

import argparse
import sys
from pathlib import Path

import torch
from cost_references import MEASURED, build
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cost_networks import network  # noqa: E402

from pipeall.cost.training import memory_function  # noqa: E402

BATCH = 4


def peak_bytes(name: str) -> int:
    net, x = build(name), torch.zeros(BATCH, 3, 224, 224)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        net(x).sum().backward()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    total = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        total += event.nbytes()
        most = max(most, total)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nets", nargs="*", default=MEASURED)
    torch.set_num_threads(1)
    print(f"{'network':15} {'measured MB':>12} {'predicted MB':>13}")
    for name in parser.parse_args().nets:
        found = memory_function(network(name, 224), "sgd")(BATCH)
        predicted = found.saved + found.transient - BATCH * 4 * 3 * 224 * 224  # the input existed before
        print(f"{name:15} {peak_bytes(name) / 1e6:12.2f} {predicted / 1e6:13.2f}")


if __name__ == "__main__":
    main()
