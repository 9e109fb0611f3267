"""A small network with a layer of every kind that is quantized."""

from graphs import Net


def quiet(*_) -> None:
    """Takes what is said of progress."""


def small():
    """Convolutions of every kind, a residual, a concat, activations, pooling and a fully connected layer."""
    net = Net((1, 3, 16, 16))
    x = net.conv("x0", 8, k=3, lo=0.0)
    x = net.conv(x, 8, k=3, groups=8, lo=0.0, hi=6.0)
    x = net.conv(x, 8, residual=net.conv(x, 8, lo=0.0), lo=0.0)
    x = net.op(
        "concat",
        net.op("hardswish", net.conv(x, 4)),
        net.op("maxpool", x, kernel=(3, 3), strides=(1, 1), pads=(1,) * 4),
    )
    x = net.op("leakyrelu", net.conv(x, 16, k=3, groups=2), alpha=0.125)  # exact in a file's float32
    return net.graph(net.op("softmax", net.fc(net.global_pool(net.op("shuffle", x, groups=4)), 10)), name="small")
