"""Kernels on strips of rows: every bit is that of whole steps."""

import numpy as np
import pytest
from graphs import zoo_net
from strip_graphs import cache_of, image_graph, programs

from pipeall.graph.lower import lower


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("seed", range(30))
def test_kernels_give_the_same_bits_in_strips(seed, threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    whole, strips = programs(image_graph(seed), cache_of(6000, threads))
    assert np.array_equal(whole, strips)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_in_strips_gives_the_same_bits_in_less_memory(threads, monkeypatch):
    monkeypatch.setenv("PIPEALL_TUNE", "off")
    graph, cache = zoo_net("mobilenet"), cache_of(600_000, threads)
    whole, strips = programs(graph, cache)
    assert np.array_equal(whole, strips)
    lowered = lower(graph, cache=cache)
    local = max(some.local_bytes for some in lowered.strips)
    assert local <= cache.nbytes and lowered.arena_bytes + threads * local < 0.7 * lower(graph).arena_bytes
