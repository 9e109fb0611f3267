"""The programs of examples/ run as their pages say."""

import configparser
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from docs_pages import FILES
from PIL import Image

import pipeall
from pipeall.tasks.labels import COCO

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a detector, photos and a video; it is the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("yolox_nano.onnx", "photos/", "street.mp4"):
        FILES[name](tmp_path / name)
    FILES["dog.jpg"](tmp_path / "photos" / "another.jpg")
    return tmp_path


def python(script: str, *arguments: object, **variables: str) -> subprocess.Popen:
    line = [sys.executable, EXAMPLES / script, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ | variables)


def test_peak_parallel_and_pipe_all_are_benchmarks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "bench_three_ways.py"]
    variables = {"NETWORKS": "squeezenet", "SECONDS": "0.02"}
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # or nothing is benchmarked
    done = subprocess.run(
        [*line, "--benchmark-json", "three.json"], env=os.environ | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    rows = json.loads(Path("three.json").read_text())["benchmarks"]
    assert [row["params"]["way"] for row in rows] == ["Peak", "Parallel", "Pipe-All"]
    for row, plan in zip(rows, [r"\w+", r"\w+\+.+", r"\w+-.+:.+"], strict=True):
        assert re.fullmatch(plan, row["extra_info"]["plan"])
        assert row["extra_info"]["fps"] == pytest.approx(20 / row["stats"]["median"], rel=0.01)


def test_four_clients_get_their_own_answers_over_http(folder):
    server = python("services/http_server.py", "yolox_nano.onnx", "--port", 0)
    try:
        address = re.search(r"http://\S+/", server.stdout.readline())[0]

        def answer(path):
            with urllib.request.urlopen(urllib.request.Request(address, path.read_bytes()), timeout=60) as reply:
                return json.load(reply)

        pictures = sorted((folder / "photos").iterdir()) * 6
        with ThreadPoolExecutor(4) as clients:
            answers = list(clients.map(answer, pictures))
        with pipeall.Model("yolox_nano.onnx") as model:
            expected = {path: json.loads(model(path).to_json()) for path in pictures}
        assert len({str(one) for one in expected.values()}) > 1
        assert answers == [expected[path] for path in pictures]

        with urllib.request.urlopen(address + "health", timeout=60) as reply:
            assert reply.read() == b"ok\n"
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(urllib.request.Request(address, b"no picture"), timeout=60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()


def test_answers_go_through_a_pipe_to_mqtt(folder, monkeypatch):
    broker = folder / "mosquitto_pub"
    broker.write_text('#!/bin/sh\necho "$@" > topic.txt\ncat > lines.txt\n')
    command = folder / "pipeall"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pipeall "$@"\n')
    broker.chmod(0o755), command.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    publish = ["sh", EXAMPLES / "services" / "publish.sh", "yolox_nano.onnx", "street.mp4", "board/camera"]
    subprocess.run(publish, check=True, env=os.environ | {"PATH": path})
    lines = [json.loads(line) for line in Path("lines.txt").read_text().splitlines()]
    assert [line["format"] for line in lines] == ["pipeall.answer/1"] * 8 + ["pipeall.run/1"]
    assert Path("topic.txt").read_text() == "--stdin-line --topic board/camera\n"


def ask_as_frigate_does(address, frame, labels):
    """Rows of class, score, top, left, bottom, right, of 0 to 1: as Frigate.s detector deepstack makes them."""
    jpeg = io.BytesIO()
    Image.fromarray(frame).save(jpeg, format="JPEG")
    mark = "0123456789abcdef"
    form = (
        f'--{mark}\r\nContent-Disposition: form-data; name="api_key"\r\n\r\n\r\n'
        f'--{mark}\r\nContent-Disposition: form-data; name="image"; filename="image"\r\n\r\n'
    ).encode() + jpeg.getvalue() + f"\r\n--{mark}--\r\n".encode()  # fmt: skip
    headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
    with urllib.request.urlopen(urllib.request.Request(address, form, headers), timeout=60) as reply:
        predictions = json.load(reply)["predictions"]
    rows = np.zeros((20, 6), np.float32)
    for index, one in enumerate(predictions):
        if one["confidence"] < 0.4 or one["label"].lower() not in labels:
            break
        height, width, _ = frame.shape
        edges = one["y_min"] / height, one["x_min"] / width, one["y_max"] / height, one["x_max"] / width
        rows[index] = labels.index(one["label"].lower()), one["confidence"], *edges
    return rows, jpeg.getvalue()


def test_frigate_gets_its_boxes(folder):
    server = python("services/frigate_server.py", "yolox_nano.onnx", "--port", 0)
    try:
        address = re.search(r"http://\S+/", server.stdout.readline())[0] + "v1/vision/detection"
        frame = np.asarray(Image.open("photos/another.jpg").convert("RGB"))
        with pipeall.Model("yolox_nano.onnx") as model:
            rows, jpeg = ask_as_frigate_does(address, frame, list(COCO))
            (folder / "sent.jpg").write_bytes(jpeg)
            boxes = model("sent.jpg").boxes[:20]
        sure = [box for box in boxes if box.score >= 0.4]
        height, width, _ = frame.shape
        expected = np.zeros((20, 6), np.float32)
        for row, box in zip(expected, sure, strict=False):
            edges = box.top / height, box.left / width, box.bottom / height, box.right / width
            row[:] = COCO.index(box.name), box.score, *edges
        assert sure and rows[0, 1] > 0.4
        np.testing.assert_allclose(rows, expected, rtol=1e-6)
        for kind, body in (("text/plain", b"x"), ("multipart/form-data; boundary=x", b"--x\r\n\r\nx\r\n--x--")):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": kind}), timeout=60)
    finally:
        server.kill()


def test_the_watchdog_passes_lines_on_and_tells_systemd(tmp_path):
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(30)
    line = [sys.executable, EXAMPLES / "services" / "watchdog.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with told, subprocess.Popen(line, **pipes, env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")}) as run:
        for text in ("one\n", "two\n"):
            run.stdin.write(text)
            run.stdin.flush()
            assert run.stdout.readline() == text and told.recv(100) == b"READY=1\nWATCHDOG=1"
        run.stdin.close()
        assert run.wait(30) == 0
    assert subprocess.run(line, input="three\n", capture_output=True, text=True).stdout == "three\n"  # without systemd


@pytest.mark.parametrize("unit", sorted((EXAMPLES / "services").glob("*.service")), ids=lambda path: path.stem)
def test_units_of_systemd_start_programs_that_are_there(unit):
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str
    read.read(unit)
    assert {"Unit", "Service", "Install"} == set(read.sections())
    programs = re.findall(r"/opt/pipeall/(\w+\.(?:py|sh))", read["Service"]["ExecStart"])
    assert programs and all((EXAMPLES / "services" / name).is_file() for name in programs)


def test_a_folder_of_pictures_goes_to_workers_of_dask(folder):
    with python("pictures_by_dask.py", "yolox_nano.onnx", "photos") as run:
        lines = dict(line.split(" ", 1) for line in run.stdout.read().splitlines())
    assert run.returncode == 0
    with pipeall.Model("yolox_nano.onnx") as model:
        assert {name: json.loads(line) for name, line in lines.items()} == {
            path.name: json.loads(model(path).to_json()) for path in (folder / "photos").iterdir()
        }
