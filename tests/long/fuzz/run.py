"""Coverage-guided fuzzing of what reads files, and of the native steps that take sizes.

    python tests/long/fuzz/run.py onnx --minutes 60       # or json, samples, steps
    python tests/long/fuzz/run.py windows --minutes 60    # C: libFuzzer with AddressSanitizer and UBSan, by clang

All but windows need ``pip install atheris``. The corpus grows in ``--corpus`` (default: under PIPEALL_CACHE) from the
seeds that ``seeds.py`` makes. A finding is written beside it; minimized, it belongs into
tests/long/fuzz/findings/TARGET, which test_fuzz.py replays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
sys.path[:0] = [str(REPOSITORY), str(HERE)]
MEMORY_MB = 3000
SECONDS = 20  # one input that takes longer is a finding


def native_fuzzer(folder: Path, optimize: str = "-O1") -> Path:
    """The libFuzzer program of windows.c; -O0 compiles in seconds and runs a tenth as fast."""
    kernels = REPOSITORY / "pipeall" / "_kernels" / "cpu"
    sources = [path for path in sorted(kernels.rglob("*.c")) if not path.with_suffix(".pyx").exists()]
    binary = folder / "windows-fuzzer"
    command = [
        "clang",
        "-std=c11",
        "-D_GNU_SOURCE",
        optimize,
        "-gline-tables-only",
        "-fsanitize=fuzzer,address,undefined",
    ]
    command += ["-fno-sanitize-recover=undefined", f"-I{REPOSITORY / 'pipeall'}", HERE / "windows.c", *sources]
    subprocess.run([*command, "-o", binary, "-lm", "-lpthread"], check=True)
    return binary


def main() -> None:
    import seeds

    from pipeall import env

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=("onnx", "json", "samples", "steps", "windows"))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--corpus", type=Path, default=env.cache_dir() / "fuzz")
    arguments = parser.parse_args()
    corpus, found = arguments.corpus / arguments.target, arguments.corpus / f"{arguments.target}-findings"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={arguments.minutes * 60:.0f}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY_MB}"]
    options += [f"-artifact_prefix={found}/", "-print_final_stats=1", "-use_value_profile=1"]
    if arguments.target != "windows":
        import atheris

        with atheris.instrument_imports(include=["pipeall", "steps"]):  # whatever imports them first
            import targets
    for number, content in enumerate(seeds.of(arguments.target)):
        (corpus / f"seed{number}").write_bytes(content)
    if arguments.target == "windows":
        binary = native_fuzzer(arguments.corpus)
        sys.exit(subprocess.run([binary, *options, "-max_len=64", corpus]).returncode)
    targets.limit()
    atheris.Setup([sys.argv[0], *options, "-max_len=4096", str(corpus)], targets.TARGETS[arguments.target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
