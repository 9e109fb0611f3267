"""The five networks on one modelled core of a board: pipeall's priced steps, summed, beside the best of other engines.

    python -m bench.engines.arm_engines [--unit big|big@fp16|big@int8]

The milliseconds of pipeall are those of prices.csv.gz, which tools/board_models/price.py writes. Those of the others,
ncnn 1.0.20261020 and MNN 3.6.1, were priced by the same tool (arm_cost.py): ``BEST`` is the better of the two.
"""

import sys
from collections import Counter
from statistics import geometric_mean

from bench.common import NETWORKS, Record, parser
from tools.board_models import price_table
from tools.board_models.fit_prices import PRICES

CORES = {
    "a311d-little": "A311D, Cortex-A53",
    "a311d-big": "A311D, Cortex-A73",
    "rk3399-little": "RK3399, Cortex-A53",
    "rk3399-big": "RK3399, Cortex-A72",
    "rk3588-little": "RK3588, Cortex-A55",
    "rpi5": "Raspberry Pi 5, Cortex-A76",
}
TYPES = {"big": "float32", "big@fp16": "halves", "big@int8": "8 bits"}
BEST = {  # milliseconds of NETWORKS
    "big": {
        "a311d-little": (197, 317, 162, 977, 142),
        "a311d-big": (122, 209, 105, 595, 103),
        "rk3399-little": (254, 416, 203, 1263, 181),
        "rk3399-big": (138, 223, 113, 628, 110),
        "rpi5": (53.6, 71.7, 34.3, 189, 34.1),
    },
    "big@fp16": {
        "rk3588-little": (106, 175, 76.7, 500, 74.9),
        "rpi5": (32.0, 42.0, 17.3, 94.3, 17.7),
    },
    "big@int8": {
        "a311d-little": (198, 283, 135, 731, 152),
        "a311d-big": (83.9, 149, 59.2, 337, 77.2),
        "rk3588-little": (149, 198, 52.3, 333, 68.6),
        "rpi5": (20.8, 40.2, 13.2, 75.1, 18.5),
    },
}
FITTED = (
    "One core. Instructions under emulation, priced by a model of core, caches and memory that was fitted to 42"
    " measured times of ncnn on seven cores: no times of a board. Its errors there: median 6 %, worst 21 %; of a"
    " network left out median 9 %, worst 26 %. Programs in 8 bits it was not fitted to: ncnn's it gives within 9 %"
    " in the median, 35 % at worst."
)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--unit", choices=TYPES, default="big")
    options = options.parse_args()
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in price_table.load(PRICES):
        sums[row.unit, row.soc, row.network] += row.ms

    def own(unit: str, soc: str) -> list[float]:
        if missing := [name for name in NETWORKS if (unit, soc, name) not in sums]:
            sys.exit(f"{PRICES.name}: expected {', '.join(missing)} as {unit} on {soc}, got no row: run price.py")
        return [sums[unit, soc, name] for name in NETWORKS]

    columns = [f"{name} [ms] .1f" for name in NETWORKS]
    with Record(options, "core", "engine", *columns, "mean ratio [x] .3f", "worst [x] .3f", keys=2) as record:
        for soc, best in BEST[options.unit].items():
            ms, others = own(options.unit, soc), {f"best peer, {TYPES[options.unit]}": best}
            if options.unit != "big":
                others["pipeall, float32"] = own("big", soc)
            record.add(CORES[soc], f"pipeall, {TYPES[options.unit]}", *ms, None, None)
            for engine, theirs in others.items():
                ratios = [a / b for a, b in zip(ms, theirs, strict=True)]
                record.add(CORES[soc], engine, *theirs, geometric_mean(ratios), max(ratios))
        record.say(FITTED)
        record.say("Ratios: pipeall's time (the first row of a core) by the row's time.")


if __name__ == "__main__":
    main()
