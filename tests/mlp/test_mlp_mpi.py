"""Ranks that are processes: the bits of the simulator's, errors on every rank, and ranks that die."""

import importlib.util
import shutil

import numpy as np
import pytest
from mpi_run import HERE, mpirun

from pipeall.mlp.simulator import simulate

if importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None:
    pytest.skip("needs pipeall[mpi] and an MPI: apt-get install openmpi-bin", allow_module_level=True)


@pytest.mark.parametrize("ranks", [2, 4])
def test_mpi_equals_the_simulator_bit_for_bit(tmp_path, ranks):
    from mlp_rank import every

    done = mpirun(ranks, HERE / "mlp_rank.py", "train", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for rank, expected in enumerate(simulate(ranks, every)):
        with np.load(tmp_path / f"run.{rank}.npz") as got:
            assert len(got.files) == len(expected) > 0
            for name, array in zip(got.files, expected, strict=True):
                assert (got[name] == array).all()


def test_a_break_changes_no_bit(tmp_path):
    """Four epochs at once, and two, a file, and two more in other processes, on 1, 2 and 3 ranks: equal files, with all
    that the rules keep. The bit-equal mode goes on with the file of three ranks, and its files are equal on any."""
    from mlp_rank import RULES, SPLITS

    for what in ("break", "resume"):
        for ranks in (1, 2, 3):
            done = mpirun(ranks, HERE / "mlp_rank.py", what, tmp_path)
            assert done.returncode == 0, done.stderr
    for rule in RULES:
        for split in SPLITS:
            for ranks in (1, 2, 3):
                whole = tmp_path / f"whole-{split}-{rule.name}-{1 if split == 'any' else ranks}"
                with np.load(whole) as want, np.load(tmp_path / f"rest-{split}-{rule.name}-{ranks}") as got:
                    assert set(got.files) == set(want.files) and len(got.files) > 2 * 3 + 1, (
                        "weights, what is kept, meta"
                    )
                    for name in want.files:
                        assert (got[name] == want[name]).all(), (split, rule.name, ranks, name)


@pytest.mark.parametrize("end", ["killed", "failed"])
def test_a_rank_that_dies_ends_all_and_leaves_the_checkpoint(tmp_path, end):
    path = tmp_path / f"net.{end}"
    done = mpirun(2, HERE / "mlp_rank.py", "die", path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert ("signal 9" in said) if end == "killed" else ("error: rank 1 of 2: told to fail" in said)
    with np.load(path) as stored:
        assert '"epoch": 2' in str(stored["meta"])


def test_every_rank_says_what_is_wrong(tmp_path):
    done = mpirun(2, "-m", "pipeall", "train", tmp_path / "absent.npz")
    assert done.returncode == 2
    assert done.stderr.count("expected digits, a .npz or a .csv file") == 2


def test_a_diverging_loss_ends_every_rank(tmp_path):
    arguments = ("--hidden", "16", "--output", "relu", "--loss", "squared", "--lr", "1e30", "--epochs", "2")
    done = mpirun(2, "-m", "pipeall", "train", "digits", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("expected a finite loss") == 2
