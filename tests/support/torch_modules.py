"""Small torch modules, their exports, and the bytes that autograd keeps of them."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="the reference: pip install torch")
nn = torch.nn


def unit(width, channels, kernel=3, groups=1, bias=False, activation=nn.ReLU):
    conv = nn.Conv2d(width, channels, kernel, padding=kernel // 2, groups=groups, bias=bias)
    return nn.Sequential(conv, nn.BatchNorm2d(channels), activation(inplace=True))


class Residual(nn.Module):
    def __init__(self, *units):
        super().__init__()
        self.units = nn.Sequential(*units)

    def forward(self, x):
        return torch.relu_(self.units(x) + x)


def network():
    """A stem, a residual unit as of ResNet, one of SiLU with a depthwise convolution, a pool, a classifier."""
    deep = Residual(unit(8, 8), nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8))
    wide = unit(8, 24, 1, activation=nn.SiLU), unit(24, 24, 3, 24, activation=nn.SiLU), unit(24, 8, 1)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
    return nn.Sequential(unit(3, 8), nn.MaxPool2d(2), deep, Residual(*wide), *head)


def exported(module, path, **options):
    """By the exporter of TorchScript, in evaluation mode as it does unasked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), (torch.zeros(1, 3, 32, 32),), path, dynamo=False, **options)
    return path


def kept(module, *shape, dtype=torch.float32):
    """Bytes of the storages that autograd keeps, parameters and buffers left out: of each sample, and fixed."""
    totals, own = [], {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers())}
    for batch in (2, 3):
        storages = {}

        def keep(tensor, storages=storages):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                storages[storage.data_ptr()] = storage
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            result = module.train()(torch.zeros(batch, *shape, dtype=dtype))
        totals.append(sum(storage.nbytes() for storage in storages.values()))
        del result
    return totals[1] - totals[0], 3 * totals[0] - 2 * totals[1]


class Attention(nn.Module):
    """Self-attention whose products and softmax are layers of their own."""

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)

    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return torch.softmax(q @ k.transpose(1, 2) / 4, -1) @ v
