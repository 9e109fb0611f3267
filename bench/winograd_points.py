"""What points of Winograd's tiles lose in float32: transforms and sums by NumPy, of random numbers, against float64.

    python bench/winograd_points.py [--channels 128]

A tile's points are 0, the pairs of the table and infinity. Each matrix is rounded to float32; rows of B have a last
coefficient of 1, as the kernels have them but for powers of two. Errors are relative: the root mean square to that of
the result, the largest to the largest result.
"""

from collections.abc import Sequence

import numpy as np
from common import Record, parser
from winograd_reference import POINTS, convolve, matrices

PAIRS = {  # n -> pairs of points
    6: (
        (1, 2), (1, 1 / 2), (1 / 2, 3 / 2), (1 / 2, 5 / 4), (5 / 8, 5 / 4), (5 / 8, 11 / 8), (5 / 8, 3 / 2),
        (11 / 16, 11 / 8), (3 / 4, 5 / 4), (3 / 4, 3 / 2), (3 / 4, 13 / 8), (7 / 8, 7 / 4), (0.5**0.5, 2**0.5),
    ),
    8: (
        (1, 2, 1 / 2), (1, 7 / 4, 1 / 2), (1, 3 / 2, 1 / 2), (1, 3 / 2, 2 / 3), (1, 3 / 2, 0.55), (0.9, 1.4, 1 / 2),
        (1.05, 1.6, 0.6), (1, 2**0.5, 0.5**0.5),
    ),
}  # fmt: skip
VARIANTS = ((3, 4), (5, 2), (3, 6))  # r, m
SIDE, FILTERS = 24, 8


def scaled(r: int, m: int, points: tuple[float, ...]) -> list[np.ndarray]:
    """A, G and B in float32."""
    a, g, b = matrices(r, m, points)
    last = np.array([column[np.flatnonzero(np.abs(column) > 1e-12)[-1]] for column in b.T])
    return [matrix.astype(np.float32) for matrix in (a, g * last[:, None], b / last)]


def errors(r: int, m: int, points: tuple[float, ...], channels: int) -> tuple[float, float]:
    random = np.random.default_rng(0)
    x = np.maximum(random.standard_normal((channels, SIDE, SIDE)), 0)
    weight = random.standard_normal((FILTERS, channels, r, r))
    pads = (r // 2,) * 4
    expected = convolve(x, weight, pads, 1, *matrices(r, m))
    found = convolve(x.astype(np.float32), weight.astype(np.float32), pads, 1, *scaled(r, m, points))
    off = found - expected
    return np.sqrt(np.mean(off**2) / np.mean(expected**2)), np.abs(off).max() / np.abs(expected).max()


def points_of(pairs: Sequence[float]) -> tuple[float, ...]:
    return (0, *(sign * p for p in pairs for sign in (1, -1)))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--channels", type=int, default=128)
    options = options.parse_args()
    with Record(options, "variant", "pairs", "kernels'", "root mean square .2e", "largest .2e", keys=2) as record:
        for r, m in VARIANTS:
            n = m + r - 1
            for pairs in PAIRS[n]:
                points = points_of(pairs)
                ours = "yes" if set(points) == set(POINTS[n]) else None
                shown = ", ".join(f"{p:.4g}" for p in pairs)
                record.add(f"F({m}x{m}, {r}x{r})", shown, ours, *errors(r, m, points, options.channels))


if __name__ == "__main__":
    main()
