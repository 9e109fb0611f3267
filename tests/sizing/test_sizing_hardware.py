"""Residence, epoch time and number formats: the lecture's vectors and numbers worked out by hand."""

import pytest

from pipeall import ArgumentError
from pipeall.sizing.residence import Epoch, channels, link_rate, needs_of
from pipeall.sizing.size_precision import BYTES, formats

MB, GB = 1e6, 1e9


@pytest.mark.parametrize("numbers, expected", [((8, 8, 4), 4), ((8, 4, 8), 4), ((1, 8, 8), 1)])
def test_the_lecture_s_channels(numbers, expected):
    assert channels(*numbers) == expected


def test_a_hundred_megabytes_by_sata_and_by_pcie():
    assert 100 * MB / link_rate("sata3") == pytest.approx(0.1667, abs=1e-4)
    assert 100 * MB / link_rate("pcie3x16") == pytest.approx(6.345e-3, rel=1e-3)
    with pytest.raises(ArgumentError, match="expected one of sd-uhs1"):
        link_rate("scsi")


def test_where_things_lie():
    """The lecture's model and batch of 10: all in the CPU's memory, or model and batch there, all in the GPU's."""
    model, data, working = 100 * MB, 100 * MB, 6.1 * GB
    on_cpu, on_gpu = (needs_of(lambda batch: batch * working / 10, model, data, gpu) for gpu in (False, True))
    assert {name: need(10) for name, need in on_cpu.items()} == {"cpu": working}
    assert {name: need(10) for name, need in on_gpu.items()} == {"cpu": 1.1 * GB, "gpu": working}


def test_an_epoch_by_hand():
    """1,000 samples of 600 KB: 1 s from SATA, 0.038 s over PCIe; 10^9 MACs each, thrice in training, at 10^12: 3 s."""
    options = dict(disk_rate=600 * MB, bus_rate=link_rate("pcie3x16"), mac_rate=1e12)
    plain = Epoch(1000, 600e3, 10**9, **options)
    assert (plain.load_s, plain.compute_s) == (1.0, 3.0) and plain.transfer_s == pytest.approx(600e6 / 15.76e9)
    assert plain.total_s == pytest.approx(4.038, abs=1e-3) and plain.bottleneck == "compute"
    assert Epoch(1000, 600e3, 10**9, prefetch=True, **options).total_s == 3.0
    assert Epoch(1000, 600e3, 10**9, training=False, **options).bottleneck == "disk"
    assert Epoch(1000, 600e3, 10**9, parallel=4, **options).load_s == 0.25
    assert Epoch(1000, 600e3, 10**9, cached=True, decode_s=0.01, parallel=4, **options).load_s == 2.5
    assert Epoch(1000, 600e3, 10**9, **options | {"bus_rate": None}).transfer_s == 0


@pytest.mark.parametrize("wrong", [{"disk_rate": 0}, {"mac_rate": -1}, {"parallel": 0}, {"bus_rate": 0}])
def test_rates_are_positive(wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Epoch(10, 1.0, 1, **{"disk_rate": 1.0, "bus_rate": 1.0, "mac_rate": 1.0} | wrong)


def test_channels_are_at_least_one():
    with pytest.raises(ArgumentError, match="at least 1 of each"):
        channels(4, 0, 2)


@pytest.mark.parametrize(
    "processor, half, eighth",
    [("Cortex-A73", None, 2.0), ("Cortex-A53", None, 2.0), ("Cortex-A55", 2.0, 4.0), ("Mali-G52 MP4", 2.0, 4.0),
     ("Mali-T860 MP4", 2.0, None), ("Cortex-A35", None, 2.0), ("Cortex-A78AE", 2.0, 4.0), ("Cortex-A720", 2.0, 8.0),
     ("Mali-G57 MC2", 2.0, 4.0), ("avx512", None, 2.0), ("avx512-vnni", None, 4.0), ("avx512-fp16", 2.0, 4.0)],
)  # fmt: skip
def test_which_processor_computes_in_what(processor, half, eighth):
    """Armv8.0 has neither half precision nor dot products; bytes go with the format everywhere."""
    found = {f.name: f for f in formats(1000, 100, processor)}
    assert list(found) == list(BYTES) == ["fp64", "fp32", "fp16", "int8"]
    assert (found["fp16"].rate, found["int8"].rate) == (half, eighth)
    assert [f.weight_bytes for f in found.values()] == [8000, 4000, 2000, 1000]
    assert [f.activation_bytes for f in found.values()] == [800, 400, 200, 100]


@pytest.mark.parametrize("mali, rate", [("Mali-T860", 0.25), ("Mali-G52", None), ("Mali-G610", None)])
def test_double_precision_ended_with_midgard(mali, rate):
    assert formats(1, 1, mali)[0].rate == rate


def test_samples_of_bytes_on_disk_are_floats_on_the_bus():
    """1,000 pictures of 600,000 bytes: 1 s from SATA; four times as many bytes over the bus."""
    found = Epoch(
        1000, 600e3, 10**9, moved_bytes=4 * 600e3, disk_rate=600 * MB, bus_rate=link_rate("pcie3x16"), mac_rate=1e12
    )
    assert found.load_s == 1.0 and found.transfer_s == pytest.approx(2400e6 / 15.76e9)


def test_a_processor_that_is_not_listed():
    with pytest.raises(ArgumentError, match="expected one of cortex-a53"):
        formats(1, 1, "Cortex-A530")
