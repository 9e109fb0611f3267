"""How long AlexNet trains for an epoch with PyTorch on 1 to all threads, and which number pays.

    pip install torch matplotlib
    python bench/training_threads.py [--batch 32] [--images 1281167] [--turns 5] [--plot FILE]

A step is forward and backward pass of torchvision's AlexNet (224 x 224, 1,000 classes) in float32. The numbers of
threads take turns; the median of each counts. An epoch is IMAGES / BATCH steps, ImageNet's by default; loading and the
update of the weights are left out. From three numbers on the universal scalability law is fitted to steps a second.
"""

import argparse
import os
from time import perf_counter

import torch
from torch import nn

from pipeall.cli.cost_threads import report, show


def alexnet() -> nn.Module:
    def conv(cin: int, cout: int, kernel: int, stride: int, padding: int) -> list[nn.Module]:
        return [nn.Conv2d(cin, cout, kernel, stride, padding), nn.ReLU(inplace=True)]

    pool = nn.MaxPool2d(3, 2)
    return nn.Sequential(
        *conv(3, 64, 11, 4, 2), pool, *conv(64, 192, 5, 1, 2), pool,
        *conv(192, 384, 3, 1, 1), *conv(384, 256, 3, 1, 1), *conv(256, 256, 3, 1, 1), pool, nn.Flatten(),
        nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(inplace=True),
        nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000),
    )  # fmt: skip


def step_ms(net: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> float:
    begin = perf_counter()
    net.zero_grad(set_to_none=False)
    nn.functional.cross_entropy(net(x), labels).backward()
    return 1e3 * (perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--images", type=int, default=1_281_167)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--plot")
    arguments = parser.parse_args()
    net = alexnet()
    x, labels = torch.randn(arguments.batch, 3, 224, 224), torch.randint(1000, (arguments.batch,))
    times: dict[int, list[float]] = {threads: [] for threads in range(1, len(os.sched_getaffinity(0)) + 1)}
    for _ in range(arguments.turns):
        for threads, taken in times.items():
            torch.set_num_threads(threads)
            step_ms(net, x, labels)  # warm
            taken.append(step_ms(net, x, labels))
    found = report(f"AlexNet, training steps of {arguments.batch}", times)
    show(found)
    for row in found["rows"]:
        seconds = row["median_ms"] / 1e3 * arguments.images / arguments.batch
        print(f"{row['threads']:3} threads: {seconds / 3600:.1f} h an epoch of {arguments.images:,} images")
    if arguments.plot:
        from pipeall.cli.plot_threads import draw_threads

        draw_threads(arguments.plot, [found], "AlexNet forward and backward, PyTorch", "steps per second")


if __name__ == "__main__":
    main()
