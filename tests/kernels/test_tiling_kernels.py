"""Kernels on strips of rows: every bit is that of whole steps."""

import numpy as np
import pytest
from graphs import zoo_net
from strip_graphs import blocks, cache_of, image_graph, programs

import pipeall
from pipeall.graph.lower.lower import lower


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(24))
def test_kernels_give_the_same_bits_in_strips(seed, threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    whole, strips = programs(image_graph(seed), cache_of(6000, threads))
    assert np.array_equal(whole, strips)


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_halves_and_integers_give_the_same_bits_in_strips(precision, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    graph, traits = blocks(), dict(fp16=precision == "float16")
    if precision == "int8":
        samples = np.random.default_rng(0).standard_normal((2, *graph.inputs[0].shape), np.float32)
        graph = pipeall.quantize(graph, [*samples], method="minmax").graph
    for threads in (1, 3):
        cache = cache_of(60_000, threads)
        strips = lower(graph, cache=cache, **traits).strips
        assert precision in {step.dst.dtype for cut in strips for band in cut.bands for _, step in band}
        assert np.array_equal(*programs(graph, cache, **traits))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_in_strips_gives_the_same_bits_in_a_smaller_arena(threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    graph, cache = zoo_net("mobilenet"), cache_of(600_000, threads)
    whole, strips = programs(graph, cache)
    assert np.array_equal(whole, strips)
    lowered = lower(graph, cache=cache)
    assert lowered.arena_bytes < lower(graph).arena_bytes  # how much depends on the cores: Strassen's layers stay whole
    assert all(some.local_bytes <= cache.nbytes for some in lowered.strips)
