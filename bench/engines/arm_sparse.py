"""Networks whose 1x1 convolutions are pruned by blocks, beside the dense ones, on one modelled core of a board.

    python -m bench.engines.arm_sparse [--soc rpi5]

The milliseconds are those of prices.csv.gz, which tools/board_models/price.py writes, with --zeros of pruned networks.
"""

from collections import Counter

from bench.common import Record, parser
from bench.engines.arm_engines import CORES, FITTED
from tools.board_models import price_table
from tools.board_models.price_table import PRICES

PRUNED = "-sparse"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--soc", choices=CORES, default="rpi5")
    options = options.parse_args()
    rows = [row for row in price_table.load(PRICES) if (row.soc, row.unit) == (options.soc, "big")]
    sums: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for row in rows:
        sums[row.network] += row.ms
        layers[row.network] += row.kernel == "sparse"
    columns = "network", "sparse layers", "dense [ms] .1f", "sparse [ms] .1f", "dense / sparse [x] .2f"
    with Record(options, *columns) as record:
        for name in sorted(name.removesuffix(PRUNED) for name in sums if name.endswith(PRUNED)):
            dense, sparse = sums[name], sums[name + PRUNED]
            record.add(name, layers[name + PRUNED], dense, sparse, dense / sparse)
        record.say(f"70 % of the blocks of 8 filters x 1 channel of each 1x1 layer are zeros. {CORES[options.soc]}.")
        record.say(FITTED)


if __name__ == "__main__":
    main()
