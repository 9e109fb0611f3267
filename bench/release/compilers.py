"""Every C file of the package by each compiler, for x86-64 and aarch64, with the flags of a build: what it says.

    python -m bench.release.compilers gcc-12 clang-16 bullseye:gcc-10 trixie:gcc-14

SUITE:COMPILER lies in that Debian suite, which debootstrap puts under --roots; else it is on the path.
For aarch64 a gcc needs its cross compiler (package gcc-12-aarch64-linux-gnu), and all need libc6-dev-arm64-cross. Root.
"""

import os
import platform
import resource
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from distutils.core import run_setup  # that of setuptools
from itertools import chain
from pathlib import Path

from bench.common import REPOSITORY, Record, names, parser

TARGETS = "x86_64", "aarch64"
COLUMNS = ("compiler", "target", "files", "failed", "warnings", "CPU time [s] .0f")
# Runs in a root with these folders of this machine, in a mount namespace of its own: nothing stays mounted.
IN_ROOT = """
root=$1 here=$2; shift 2
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done; shift
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$here" "$@"
"""


def root_of(suite: str, roots: Path, packages: list[str]) -> Path:
    """A Debian with these packages."""
    root = roots / suite
    if not (root / "etc/apt/sources.list").exists():
        mirror = "http://deb.debian.org/debian"
        subprocess.run(["debootstrap", "--variant=minbase", suite, root, mirror], check=True, stdout=sys.stderr)
    install = ["apt-get", "install", "-qy", "--no-install-recommends", "libc6-dev", "libc6-dev-arm64-cross", *packages]
    subprocess.run(
        ["chroot", root, *install],
        check=True,
        stdout=sys.stderr,
        env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
    )
    return root


def command(compiler: str, target: str, roots: Path, folders: list[Path]) -> list[str]:
    """What a line of arguments is given to."""
    suite, _, name = compiler.rpartition(":")
    foreign = target != platform.machine()
    packages, called = [name], [name]
    if name.startswith("clang") and foreign:
        called += [f"--target={target}-linux-gnu", "-isystem", f"/usr/{target}-linux-gnu/include"]
    elif foreign:
        packages, called = [f"{name}-{target}-linux-gnu"], [f"{target}-linux-gnu-{name}"]
    if not suite:
        return called
    root = root_of(suite, roots, packages)
    return ["unshare", "-m", "sh", "-c", IN_ROOT, "sh", str(root), str(REPOSITORY), *map(str, folders), "--", *called]


def lines_of_files(out: Path) -> list[list[str]]:
    """The arguments for each C file, as a build has them."""
    lines = []
    for extension in run_setup("setup.py", stop_after="init").ext_modules:
        defined = [f"-D{name}={value}" if value else f"-D{name}" for name, value in extension.define_macros]
        included = [f"-I{path}" for path in (*extension.include_dirs, sysconfig.get_path("include"))]
        for source in extension.sources:
            glue = ["-O1"] if Path(source).with_suffix(".pyx").exists() else []
            target = out / f"{len(lines)}.o"
            flags = [*extension.extra_compile_args, *glue, "-fPIC", *defined, *included]
            lines.append([*flags, "-c", source, "-o", str(target)])
    return lines


def main() -> None:
    options = parser(__doc__)
    options.add_argument("compilers", nargs="+", metavar="COMPILER")
    options.add_argument("--targets", type=names, default=TARGETS, help="default both")
    options.add_argument("--syntax", action="store_true", help="no code is made: a tenth of the time, fewer warnings")
    options.add_argument("--roots", type=Path, default=Path(tempfile.gettempdir(), "compilers"))
    options = options.parse_args()
    os.chdir(REPOSITORY)
    wrong = 0
    with tempfile.TemporaryDirectory() as name, Record(options, *COLUMNS, keys=2) as record:
        out = Path(name)
        lines = lines_of_files(out)
        folders = [REPOSITORY, out, Path(sysconfig.get_path("include"))]
        for compiler, target in ((compiler, target) for compiler in options.compilers for target in options.targets):
            called = command(compiler, target, options.roots.resolve(), folders)

            called += ["-fsyntax-only"] if options.syntax else []

            def compile(line: list[str], called: list[str] = called) -> subprocess.CompletedProcess[str]:
                return subprocess.run([*called, *line], text=True, capture_output=True)

            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                done = list(pool.map(compile, lines))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            said = [line for line in chain(*(one.stderr.splitlines() for one in done)) if ": warning: " in line]
            failed = [one.stderr for one in done if one.returncode]
            print(*said, *failed, sep="\n", file=sys.stderr)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            record.add(compiler, target, len(lines), len(failed), len(said), cpu_s)
            wrong += len(said) + len(failed)
    sys.exit(f"{wrong} warnings and failures" if wrong else 0)


if __name__ == "__main__":
    main()
