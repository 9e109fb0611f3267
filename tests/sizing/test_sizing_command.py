"""``pipeall cost`` and ``info``: costs as JSON, text, CSV and figure, of models that run and of models that do not."""

import csv

import numpy as np
import onnx
import pytest
from commands import document, invoke
from onnx import helper
from onnx_models import model
from sizing_networks import REFERENCES, path

from pipeall import ModelError, load
from pipeall._kernels.peak import Peak
from pipeall.pipeline.devices.cpu.cpu_device import Cpu
from pipeall.sizing import onnx_shapes


def test_a_model_without_weights_is_sized_and_not_run():
    found = document("info", path("resnet50"))
    assert (found["parameters"], found["macs"]) == (25_557_032, 4_089_184_256) and "raw" not in found
    assert found["groups"] == found["cuts"] == [] and "resnet50.onnx" in found["refused"]
    assert "runs" in invoke("info", path("resnet50")).stdout
    cost = document("cost", path("resnet50"))
    assert cost["totals"] == found["totals"] and cost["memory"] == found["memory"] and cost["refused"]
    assert cost["totals"]["statistics"] == 53_120 and len(cost["layers"]) == 175


@pytest.mark.parametrize("tool", ["fvcore", "ptflops"])
def test_operations_as_a_tool_counts_them(tool):
    found = document("cost", path("densenet121"), "--convention", tool, "--explain")["operations"]
    assert found["value"] == REFERENCES["counted"]["densenet121"][tool]
    assert sum(term["value"] for term in found["terms"]) == found["value"]
    text = invoke("cost", path("densenet121"), "--convention", tool, "--explain").stdout
    assert f"{found['value']:,}" in text and "output elements of BatchNorm" in text


def test_training_memory_and_the_largest_batch():
    arguments = ("cost", "train", path("alexnet"), "--optimizer")
    found = document(*arguments, "momentum", "--memory", "32GB", "--gpu-memory", "4GiB")
    fit = found["exact"]["largest_batch"]
    assert fit["binding"] == "gpu" and fit["limit_bytes"]["gpu"] == round(0.8 * 4 * 2**30)
    parts = found["exact"]["parts"]
    assert parts["weights_bytes"] == parts["optimizer_bytes"] == 244_403_360
    assert sum(parts.values()) == found["exact"]["bytes"] == fit["used_bytes"]["gpu"]
    fixed = document(*arguments, "sgd", "--batch", "15", "--memory", "2GB")["exact"]
    assert fixed["batch"] == 15 and fixed["shares"]["cpu"] == pytest.approx(fixed["bytes"] / 2e9)
    text = invoke(*arguments, "momentum", "--memory", "2GB").stdout
    assert "largest batch" in text and "weight gradients" in text


def test_one_of_two_batches_is_recommended_and_where_its_bytes_lie():
    arguments = ("cost", "train", path("resnet18"), "--optimizer", "adam", "--memory", "32GB", "--gpu-memory", "4GB")
    found = document(*arguments)
    batch, lie = found["exact"]["largest_batch"]["batch"], found["residence"]
    assert found["recommended"]["batch"] == batch != found["lecture"]["largest_batch"]["batch"]
    model = 4 * (11_689_512 + 9_600)  # with means and variances
    assert (lie["disk_bytes"], lie["cpu_bytes"]) == (model, model + batch * 4 * 3 * 224 * 224)
    assert lie["gpu_bytes"] == found["exact"]["bytes"] <= 0.8 * 4e9
    text = " ".join(invoke(*arguments).stdout.split())
    assert f"Recommended: batch {batch}: the exact count" in text and "Where it lies" in text
    alone = document("cost", "train", path("resnet18"), "--optimizer", "adam", "--batch", "8")
    assert "recommended" not in alone and alone["residence"]["gpu_bytes"] == 0
    assert alone["residence"]["cpu_bytes"] == alone["exact"]["bytes"]


def test_what_the_system_takes():
    """Of the CPU's memory, before the share: 8 GB less 1.5 are 6.5, of which 80 % are 5.2."""
    run = ("cost", "train", path("resnet50"), "--optimizer", "sgd", "--memory", "8GB", "--system", "1.5GB")
    assert document(*run)["exact"]["largest_batch"]["limit_bytes"] == {"cpu": 5_200_000_000}
    wide, narrow = (document(*run, *more)["exact"]["parts"]["weights_bytes"] for more in (["--float64"], []))
    assert wide == 2 * narrow


def test_how_long_the_model_loads():
    """61,100,840 weights of AlexNet, in four bytes: 600 MB a second from a disk, 15.76 GB over the bus."""
    run = ("cost", "epoch", path("alexnet"), "--samples", "10", "--gmacs", "1", "--bus", "pcie3x16")
    found = document(*run)
    assert found["model_load_s"] == pytest.approx(4 * 61_100_840 / 600e6)
    assert found["model_transfer_s"] == pytest.approx(4 * 61_100_840 / 15.76e9)
    assert document(*run, "--disk", "ddr4-3200")["model_load_s"] == pytest.approx(4 * 61_100_840 / 25.6e9)


def test_an_epoch():
    arguments = ("--samples", "1000", "--gmacs", "71.418848", "--bus", "pcie3x16", "--channels", "8,4,8")
    found = document("cost", "epoch", path("alexnet"), *arguments)
    assert found["compute_s"] == pytest.approx(10.0) and found["load_s"] == pytest.approx(602_112e3 / (4 * 600e6))
    assert found["bottleneck"] == "compute" and not found["training"]
    assert "bound by the compute" in invoke("cost", "epoch", path("alexnet"), *arguments).stdout
    trained = document("cost", "epoch", path("alexnet"), *arguments, "--training")
    bytes_on_disk = document("cost", "epoch", path("alexnet"), *arguments, "--sample-type", "uint8")
    assert bytes_on_disk["load_s"] == pytest.approx(found["load_s"] / 4)
    assert bytes_on_disk["transfer_s"] == found["transfer_s"]
    assert trained["training"] and trained["compute_s"] > found["compute_s"]


def test_algorithms_beside_the_direct_one():
    """The second layer of Caffe's AlexNet: 7.2 times fewer operations by FFT, 1.2 with the kernels, weights x 43."""
    rows = document("cost", "alexnet", "--algorithms")["algorithms"]
    found = next(row for row in rows if (row["layer"], row["algorithm"]) == ("conv2", "fft"))
    assert found["fewer_operations"] == pytest.approx(7.2, abs=0.05)
    assert found["fewer_with_prepare"] == pytest.approx(1.19, abs=0.01)
    assert found["more_weights"] == pytest.approx(43.5, abs=0.1)
    assert "Beside direct convolution" in invoke("cost", "alexnet", "--algorithms").stdout


def test_number_formats():
    found = document("cost", "squeezenet", "--processor", "Cortex-A73", "--processor", "Mali-G52")["formats"]
    half = {name: rows[2] for name, rows in found.items()}
    assert half["Cortex-A73"]["rate"] is None and half["Mali-G52"]["rate"] == 2.0
    assert half["Mali-G52"]["weight_bytes"] == 2 * 1_248_424
    assert "widened to fp32" in invoke("cost", "squeezenet", "--processor", "Cortex-A73").stdout
    text = invoke("cost", "squeezenet", "--processor", "Mali-G52").stdout
    assert "with fewer digits" in text and "widened" not in text


def test_stages_and_their_memory(monkeypatch):
    monkeypatch.setattr(Cpu, "cache", lambda device, timed: None)  # strips need less than whole tensors do
    found = document("info", "squeezenet", "--plan", "B", "--here")
    (stage,), (here,) = found["plan"], found["here"]
    assert stage["cost"]["macs"] == found["macs"] and stage["memory"]["arena_bytes"] == here["arena"]
    assert here["total"] > 4 * found["parameters"]
    assert "Memory on this machine" in invoke("info", "squeezenet", "--plan", "B", "--here").stdout


def test_csv_and_figure(tmp_path):
    invoke("cost", path("alexnet"), "--csv", tmp_path / "layers.csv", "--plot", tmp_path / "layers.png")
    rows = list(csv.DictReader((tmp_path / "layers.csv").open()))
    assert rows[0]["output"] == "1x64x55x55" and sum(int(row["macs"]) for row in rows) == 714_188_480
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_under_a_roofline(tmp_path, monkeypatch):
    monkeypatch.setattr(Cpu, "peak", lambda device: Peak(1e11 * device.width, 1e10))
    invoke("cost", path("alexnet"), "--plot", tmp_path / "roof.png", "--roofline")
    invoke("cost", path("alexnet"), "--plot", tmp_path / "plain.png")
    assert (tmp_path / "roof.png").read_bytes() != (tmp_path / "plain.png").read_bytes()


def test_layers_as_text_and_folded():
    text = invoke("cost", path("vgg16"), "--layers").stdout
    assert "/features/features.0/Conv" in text and "1 x 64 x 224 x 224" in text
    bn = document("info", path("mobilenet_v1"))["parameters"]
    assert (
        document("cost", "mobilenet", "--folded")["totals"]["parameters"] == bn - 10_944
    )  # a bias of two weights a channel


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["cost", "squeezenet", "--explain"], "expected --convention with it"),
        (["cost", "train", "squeezenet", "--optimizer", "adam"], "expected --batch, or --memory"),
        (["cost", "train", "squeezenet", "--memory", "8GB"], "Missing option '--optimizer'"),
        (["cost", "train", "squeezenet", "--optimizer", "adam", "--gpu-memory", "8GB"], "expected --memory with it"),
        (["cost", "train", "squeezenet", "--optimizer", "adam", "--memory", "8"], "expected a size such as 8GB"),
        (
            ["cost", "train", "squeezenet", "--optimizer", "adam", "--batch", "1", "--system", "1GB"],
            "less than --memory",
        ),
        (["cost", "threads", "squeezenet", "--samples", "9"], "--samples: expected --training beside it"),
        (["cost", "threads", "squeezenet", "--no-library"], "--no-library: expected --training beside it"),
        (["cost", "squeezenet", "--roofline"], "expected --plot with it"),
        (["info", "squeezenet", "--here"], "expected --plan with it"),
        (["cost", "epoch", "squeezenet", "--samples", "10"], "Missing option '--gmacs'"),
        (["cost", "epoch", "squeezenet", "--samples", "10", "--gmacs", "1", "--channels", "1"], "three numbers"),
        (["cost", "squeezenet", "--processor", "Z80"], "expected one of cortex-a53"),
        (["cost"], "Missing argument 'MODEL'"),
        (["cost", "--layers"], "Missing argument 'MODEL'"),
        (["cost", "vgg"], "expected an .onnx file or one of"),
    ],
)
def test_options_that_do_not_fit(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def saved(tmp_path, nodes, shape, constants=None):
    onnx.save(model(nodes, {"x": shape}, ["y"], constants or {}), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def conv(**attrs):
    return helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attrs)


WEIGHT = {"w": np.zeros((4, 3, 3, 3), np.float32)}


def test_symbolic_dimensions_ask_for_a_shape(tmp_path):
    file = saved(tmp_path, [conv()], ("n", 3, "h", "w"), WEIGHT)
    with pytest.raises(ModelError, match=r"open sizes \(n, 3, h, w\): give input_shape"):
        onnx_shapes.read(file)
    net = onnx_shapes.read(file, (1, 3, 10, 12))
    assert net.shapes["y"] == (1, 4, 8, 10)


@pytest.mark.parametrize(
    "nodes, shape, constants, words",
    [
        ([conv()], (1, 3, 2, 2), WEIGHT, "of shape"),
        ([conv()], (1, 5, 8, 8), WEIGHT, "weight .4, 3, 3, 3. of 1 groups does not fit input .1, 5, 8, 8."),
        ([helper.make_node("Relu", ["z"], ["y"], name="r")], (1, 3, 8, 8), {}, "nothing before it makes 'z'"),
        ([helper.make_node("Slice", ["x", "s", "s"], ["y"], name="s")], (1, 3, 8, 8), {"s": np.zeros(4, np.int64)},
         r"output 'y' is of shape \(0, 0, 0, 0\)"),
        ([helper.make_node("LayerNormalization", ["x", "w"], ["y"])], (1, 8), {"w": np.zeros((0,), np.float32)},
         r"tensor 'w' is of shape \(0,\)"),
        ([helper.make_node("Relu", ["z"], [], name="")], (1, 3, 8, 8), {}, "nothing before it makes 'z'"),
        ([helper.make_node("Unique", ["x"], ["y"], name="u")],
         (1, 3, 8, 8), {}, "the size of its result depends on the data"),
    ],
)  # fmt: skip
def test_graphs_that_have_no_cost(tmp_path, nodes, shape, constants, words):
    with pytest.raises(ModelError, match=words):
        onnx_shapes.read(saved(tmp_path, nodes, shape, constants))


@pytest.mark.parametrize("command", ["info", "cost"])
def test_an_operator_that_is_not_supported_is_named_as_load_does(tmp_path, command):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), *(helper.make_node("Nope", ["a"], [y], name=y) for y in "by")]
    file = saved(tmp_path, [*nodes[:2], helper.make_node("Nope", ["b"], ["y"], name="y")], (1, 3, 8, 8))
    with pytest.raises(ModelError) as error:
        load(file)
    result = invoke(command, file)
    assert result.exit_code == 2 and result.stderr.strip() == f"error: {error.value}"
    assert "(Nope): operator not supported; 2 of 3 nodes are not: Nope (2); the part before it" in result.stderr


def test_an_operator_whose_work_is_not_known(tmp_path):
    file = saved(tmp_path, [helper.make_node("Det", ["x"], ["y"], name="d")], (1, 3, 8, 8))
    result = invoke("info", file)
    assert result.exit_code == 2 and "node 'd': what operator Det computes is not known" in result.stderr


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "cut.onnx").write_bytes(path("alexnet").read_bytes()[:1000])
    result = invoke("cost", tmp_path / "cut.onnx")
    assert result.exit_code == 2 and "not an ONNX file, or truncated" in result.stderr
