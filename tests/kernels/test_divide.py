"""How products fall into chunks for a team: the schedule is played out by the team's rule, chunk by chunk."""

from itertools import pairwise

import numpy as np
import pytest
from pipeall._kernels.cpu.kernels import divided

WORK = 2**15  # products of a chunk at least
# (bytes of an element, MR, NR) of NEON's GEMMs, and of AVX-512's
TILES = [(4, 8, 8), (2, 8, 16), (1, 8, 8), (1, 4, 16), (4, 12, 32), (1, 8, 32)]
# (pixels of a side, channels in, out, taps): of YOLO at 640 pixels, MobileNet V1 to V3 and EfficientNet-B0 at 224
LAYERS = [
    *[(160, 32, 64, 1), (160, 32, 32, 9), (80, 64, 64, 9), (80, 128, 64, 1), (40, 128, 128, 9), (40, 256, 255, 1)],
    *[(20, 256, 256, 9), (20, 512, 512, 9), (20, 512, 256, 1), (20, 64, 64, 9), (20, 16, 16, 9), (20, 80, 80, 1)],
    *[(20, 1024, 512, 1), (13, 48, 48, 9), (80, 64, 80, 9), (40, 80, 80, 9), (20, 80, 80, 9), (20, 16, 64, 1)],
    *[(112, 32, 64, 1), (56, 128, 128, 1), (28, 256, 256, 1), (14, 512, 512, 1), (7, 512, 1024, 1), (7, 1024, 1024, 1)],
    *[(56, 24, 144, 1), (28, 144, 32, 1), (14, 64, 384, 1), (14, 384, 96, 1), (7, 160, 960, 1), (7, 960, 320, 1)],
    *[(14, 40, 240, 1), (14, 184, 80, 1), (7, 672, 112, 1), (14, 112, 672, 1), (7, 1152, 192, 1), (7, 320, 1280, 1)],
    *[(1, 1280, 1000, 1), (1, 576, 1024, 1)],
]


def product(layer, tile, **other):
    (side, channels, out, taps), (item, mr, nr) = layer, tile
    panels, k = -(-out // nr), channels * taps
    entries = {"rows": side * side, "panels": panels, "groups": 1, "unit": mr, "most": 104, "widest": panels}
    entries |= {"line": max(1, 64 // (nr * item)), "work": k * nr, "panel_bytes": k * nr * item}
    entries["input_bytes"] = side * side * channels * item
    entries["by_panels"] = panels * entries["panel_bytes"] > entries["input_bytes"]
    return entries | other


def chunks_of(entries, size):
    """(rows, panels) of each chunk, in the order in which threads claim them."""
    parts = [
        [min(each, entries[name] - at) for at in range(0, entries[name], each)]
        for name, each in zip(("rows", "panels"), size, strict=True)
    ]
    grid = [(rows, panels) for rows in parts[0] for panels in parts[1]]
    if entries["by_panels"]:
        grid = [(rows, panels) for panels in parts[1] for rows in parts[0]]
    return grid * entries["groups"]


def played_out(costs, threads):
    """When the last thread is done: each takes its share, then what others have not begun."""
    bounds = [len(costs) * i // threads for i in range(threads + 1)]
    left = [list(costs[a:b]) for a, b in pairwise(bounds)]
    at = np.zeros(threads)
    while any(left):
        thread = int(at.argmin())
        owner = next((thread + i) % threads for i in range(threads) if left[(thread + i) % threads])
        at[thread] += left[owner].pop(0)
    return at.max()


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_no_thread_waits_for_want_of_chunks(threads):
    for layer in LAYERS:
        for tile in TILES:
            entries = product(layer, tile)
            size = divided(threads, **entries)
            costs = [rows * panels for rows, panels in chunks_of(entries, size)]
            cells = entries["rows"] * entries["panels"]
            assert sum(costs) == cells
            if cells * entries["work"] < 4 * threads * WORK:  # a few microseconds
                continue
            used = cells / threads / played_out(costs, threads)
            assert used >= 0.75, f"{layer} by {tile}, {threads} threads: {size}, {used:.2f}"


def test_weights_that_are_larger_than_the_input_are_read_by_one_thread_each():
    for side, channels, out in [(20, 512, 512), (20, 256, 512), (13, 512, 512)]:
        entries = product((side, channels, out, 9), (1, 8, 8))
        assert entries["by_panels"]
        rows, panels = divided(4, **entries)
        across, down = -(-entries["panels"] // panels), -(-entries["rows"] // rows)
        bounds = [across * down * i // 4 for i in range(5)]
        readers = [{chunk // down for chunk in range(a, b)} for a, b in pairwise(bounds)]
        assert sum(map(len, readers)) <= across + 3  # a share's border may lie within a panel's chunks


def test_chunks_fill_cache_lines_where_that_leaves_no_thread_idle():
    for layer in LAYERS:
        for tile in TILES[:3]:
            entries = product(layer, tile)
            _, panels = divided(4, **entries)
            whole = panels == entries["panels"] or panels % entries["line"] == 0
            fine = divided(4, **entries | {"line": 1})
            assert whole or entries["rows"] <= 400, (layer, tile, panels, fine)


def test_one_thread_has_all_panels_unless_fewer_bytes_are_read_so():
    """Weights for each block of rows, or the input for each part of the panels."""
    assert divided(1, **product((80, 64, 64, 9), (4, 8, 8)))[1] == 8
    assert divided(1, **product((14, 1024, 256, 1), (4, 12, 32)))[1] == 8
    rows, panels = divided(1, **product((20, 512, 512, 9), (1, 8, 8)))
    assert rows <= 104 and panels * 512 * 9 * 8 <= 192 * 1024
    for layer in LAYERS:
        for tile in TILES:
            entries = product(layer, tile)
            rows, panels = divided(1, **entries)
            across, down = -(-entries["panels"] // panels), -(-entries["rows"] // rows)
            weights, whole = entries["panels"] * entries["panel_bytes"], entries["input_bytes"]
            read = whole * across + weights if across > 1 else whole + weights * down
            assert read <= whole + weights * down, (layer, tile)
