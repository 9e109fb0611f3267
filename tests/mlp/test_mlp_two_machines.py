"""Eight ranks on two machines, which are network namespaces with a cable between them, by a file of hosts."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from build_trees import REPOSITORY
from commands import document
from mpi_run import LIMIT_S, RUNS

HOSTS = {"10.93.77.1": "pipeall-test-a", "10.93.77.2": "pipeall-test-b"}
NETWORK = "10.93.77.0/24"


def ip(*words: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


@pytest.fixture
def two_machines():
    """Two namespaces that reach each other and nothing else."""
    if shutil.which("ip") is None:
        pytest.skip("no two machines: needs ip: apt-get install iproute2")
    made = [ip("netns", "add", name, check=False) for name in HOSTS.values()]
    try:
        if any(done.returncode for done in made):
            pytest.skip(f"no two machines: network namespaces are forbidden here: {made[0].stderr.strip()}")
        first, second = HOSTS.values()
        ip("link", "add", "pipeall-a", "netns", first, "type", "veth", "peer", "name", "pipeall-b", "netns", second)
        for (address, name), end in zip(HOSTS.items(), ("pipeall-a", "pipeall-b"), strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name in HOSTS.values():
            ip("netns", "delete", name, check=False)


def test_eight_ranks_on_two_machines(two_machines, tmp_path):
    """The same losses to the last bit as one process has; the agent stands where ssh would."""
    if shutil.which("mpirun") is None:
        pytest.skip("no two machines: needs an MPI: apt-get install openmpi-bin")
    hosts, agent = tmp_path / "hosts", tmp_path / "agent"
    hosts.write_text("".join(f"{address} slots=4\n" for address in HOSTS))
    cases = " ".join(f"{address}) name={name};;" for address, name in HOSTS.items())
    agent.write_text(f'#!/bin/sh\ncase $1 in {cases} esac\nshift\nexec ip netns exec $name sh -c "$*"\n')
    agent.chmod(0o755)
    training = ("train", "digits", "--hidden", "16", "--batch", "256", "--epochs", "2", "--bit-equal")
    options = {
        "plm_rsh_agent": str(agent),
        "btl": "tcp,self",
        "btl_tcp_if_include": NETWORK,
        "oob_tcp_if_include": NETWORK,
        "mpi_yield_when_idle": "1",
    }
    given = [word for name, value in options.items() for word in ("--mca", name, value)]
    where = ["sh", "-c", 'ip -br address show type veth >&2; exec "$0" "$@"']
    command = ["mpirun", "-n", "8", "--hostfile", str(hosts), *given, "-x", "PYTHONPATH", *where, sys.executable, "-m"]
    done = subprocess.run(
        ["ip", "netns", "exec", next(iter(HOSTS.values())), *command, "pipeall", *training, "--json"],
        env=os.environ | RUNS | {"PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert [done.stderr.count(f"{address}/24") for address in HOSTS] == [4, 4], "ranks of each machine"
    spread, alone = json.loads(done.stdout), document(*training)
    for epoch in (*spread["epochs"], *alone["epochs"]):
        del epoch["seconds"]
    assert spread["epochs"] == alone["epochs"]
