"""How long AlexNet trains for an epoch with PyTorch on 1 to all threads, and which number pays.

    pip install torch matplotlib
    python bench/training_threads.py [--batch 32] [--images 1281167] [--rounds 5] [--plot FILE]

A step is forward and backward pass of torchvision's AlexNet (224 x 224, 1,000 classes) in float32. The numbers of
threads take turns; the median of each counts. An epoch is IMAGES / BATCH steps, ImageNet's by default; loading and the
update of the weights are left out. From three numbers on the universal scalability law is fitted to steps a second.
"""

import os

import torch
from common import Record, in_turns, milliseconds, parser
from torch import nn

from pipeall.cli.cost_threads import report

COLUMNS = ("threads", "median [ms] .1f", "fastest [ms] .1f", "steps [1/s] .2f", "epoch [h] .1f")


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


def step(net: nn.Module, x: torch.Tensor, labels: torch.Tensor) -> None:
    net.zero_grad(set_to_none=False)
    nn.functional.cross_entropy(net(x), labels).backward()


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--images", type=int, default=1_281_167)
    options.add_argument("--plot")
    options = options.parse_args()
    net = alexnet()
    x, labels = torch.randn(options.batch, 3, 224, 224), torch.randint(1000, (options.batch,))

    def turn(threads: int) -> float:
        torch.set_num_threads(threads)
        step(net, x, labels)  # warm
        return milliseconds(step, net, x, labels)

    numbers = range(1, len(os.sched_getaffinity(0)) + 1)
    times = in_turns({threads: lambda threads=threads: turn(threads) for threads in numbers}, options.rounds)
    found = report(f"AlexNet, training steps of {options.batch}", times)
    with Record(options, *COLUMNS) as record:
        for row in found["rows"]:
            hours = row["median_ms"] / 3.6e6 * options.images / options.batch
            record.add(row["threads"], row["median_ms"], row["least_ms"], row["fps"], hours)
        record.say(
            f"{found['network']}; an epoch has {options.images:,} images; best here: {found['best_threads']} threads"
        )
        if found["law"]:
            record.say(f"universal scalability law: {found['law']}")
    if options.plot:
        from pipeall.cli.plot_threads import draw_threads

        draw_threads(options.plot, [found], "AlexNet forward and backward, PyTorch", "steps per second")


if __name__ == "__main__":
    main()
