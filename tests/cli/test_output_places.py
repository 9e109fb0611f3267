"""A file that a command writes is none that it reads, and none that it writes for something else."""

import pytest
from commands import invoke, picture

CONTENT = b"as it was"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("net.onnx", "plan.json", "seen.mp4", "state.npz"):
        (tmp_path / name).write_bytes(CONTENT)
    (tmp_path / "photos").mkdir()
    picture(tmp_path / "photos")
    (tmp_path / "link.onnx").symlink_to("net.onnx")
    (tmp_path / "other.onnx").hardlink_to("net.onnx")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "option", "whose"),
    [
        ("quantize net.onnx photos -o net.onnx", "--output net.onnx", "MODEL"),
        ("quantize link.onnx photos -o net.onnx", "--output net.onnx", "MODEL"),
        ("quantize net.onnx photos -o other.onnx", "--output other.onnx", "MODEL"),
        ("quantize net.onnx photos -o new.onnx --report ./new.onnx", "--output new.onnx", "--report"),
        ("quantize net.onnx photos --plot photos/../plan.json --report plan.json", "--plot", "--report"),
        ("search net.onnx --profile plan.json -o plan.json", "--output plan.json", "--profile"),
        ("search squeezenet --board rk3588 -o a.json --measure-all a.json", "--output a.json", "--measure-all"),
        ("run net.onnx photos --plan plan.json --trace plan.json", "--trace plan.json", "--plan"),
        ("run net.onnx photos --draw new.mp4 --trace new.mp4", "--draw new.mp4", "--trace"),
        ("run net.onnx seen.mp4 --draw seen.mp4", "--draw seen.mp4", "SOURCE"),
        ("run net.onnx photos/plain.png --trace photos/plain.png", "--trace photos/plain.png", "SOURCE"),
        ("run net.onnx photos --trace photos/plain.png", "--trace photos/plain.png", "the source photos/plain.png"),
        ("cost net.onnx --csv net.onnx", "--csv net.onnx", "MODEL"),
        ("cost squeezenet --csv table --plot table", "--csv table", "--plot"),
        ("train state.npz --onnx state.npz", "--onnx state.npz", "DATA"),
        ("train digits --resume state.npz --onnx state.npz", "--onnx state.npz", "--resume"),
    ],
)
def test_one_file_has_one_use(here, words, option, whose):
    result = invoke(*words.split())
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert option in result.stderr and f"expected another place than that of {whose}" in result.stderr
    assert (here / "net.onnx").read_bytes() == CONTENT and not (here / "new.mp4").exists()


@pytest.mark.parametrize(
    "words",
    [
        "cost squeezenet --csv squeezenet",  # a network of the zoo is no file
        "cost squeezenet --csv /dev/null --plot /dev/null",
    ],
)
def test_what_is_no_file_that_is_read_is_written(here, words):
    assert invoke(*words.split()).exit_code == 0


def test_training_goes_on_in_its_own_checkpoint(here):
    train = ("train", "digits", "--save", "new.npz", "--epochs")
    assert invoke(*train, "1").exit_code == 0
    assert invoke(*train, "2", "--resume", "new.npz").exit_code == 0
