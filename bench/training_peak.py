"""Peak memory of a training step in PyTorch beside the predicted one: `python bench/training_peak.py [NETWORK ...]`.

Needs torch and torchvision. Measured by the profiler over forward and backward pass at batch 4, weights and gradients
existing before. What is more than predicted: a new weight gradient until it is added to the old one (AlexNet, VGG: a
fully connected layer of 151 and 411 MB), and what the backward pass of BatchNorm allocates.
"""

import torch
from common import Record, parser
from cost_networks import network
from cost_references import MEASURED, build
from torch.profiler import ProfilerActivity, profile

from pipeall.cost.training import memory_function

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
    options = parser(__doc__, networks=MEASURED).parse_args()
    torch.set_num_threads(1)
    with Record(options, "network", "measured [MB] .2f", "predicted [MB] .2f") as record:
        for name in options.networks:
            found = memory_function(network(name, 224), "sgd")(BATCH)
            predicted = found.saved + found.transient - BATCH * 4 * 3 * 224 * 224  # the input existed before
            record.add(name, peak_bytes(name) / 1e6, predicted / 1e6)


if __name__ == "__main__":
    main()
