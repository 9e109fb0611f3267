"""What a user installs, made and tried in fresh environments. Needs the network, except for what it says is offline.

    python -m bench.release.packaging wheels PYTHON [PYTHON ...]    a wheel for each, tried without a compiler
    python -m bench.release.packaging cross PYTHON [PYTHON ...]     by zig, for both processors and both C libraries;
                                                        tried here, and where tests/arm64 and tests/musl are set up
    python -m bench.release.packaging sdist PYTHON      the source distribution, installed offline
    python -m bench.release.packaging oldest PYTHON [--tests ...]   the tests with the oldest dependencies allowed
    python -m bench.release.packaging newest PYTHON [--tests ...]   and with the newest there are

Everything is built from a source distribution of this tree. --keep FOLDER: where wheels and the sdist are put.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib

from bench.common import REPOSITORY, Record, names, parser

PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
BUILD = PYPROJECT["build-system"]["requires"]
TRY = REPOSITORY / "tools" / "try_install.py"
COLUMNS = ("what", "size [bytes]", "machine", "Python", "NumPy", "top class")
TESTED = "Python", "tests"
NOT_TRIED = ("not tried",) + (None,) * 3
ZIG = {"gnu": ("gnu.2.28", "manylinux_2_28"), "musl": ("musl", "musllinux_1_2")}  # C library -> zig's name, the wheel's
# zig says of each feature that a generic Arm core lacks it; of fp16 clang then believes no function that names it.
ZIG_CC = """#!/bin/sh
case "{triple} $*" in aarch64*_asimdhp.c*) set -- "$@" -mcpu=generic+fullfp16 ;; esac
exec {python} -m ziglang cc -target {triple} -fno-sanitize=undefined "$@"
"""
LENT = {"aarch64-gnu": "arm64", "x86_64-musl": "musl"}  # target -> the folder of tests that sets up a Python for it
TARGETS = [f"{machine}-{libc}" for machine in ("x86_64", "aarch64") for libc in ZIG]


def run(*command: object, cwd: Path | None = None, **variables: str) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=os.environ | variables, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))[:200]}\n{done.stdout[-5000:]}")
    return done.stdout


def environment(python: str, folder: Path, *packages: str) -> Path:
    """A virtual environment's Python; no package of this one is seen."""
    run(python, "-m", "venv", folder)
    made = folder / "bin" / "python"
    if packages:
        run(made, "-m", "pip", "install", "-q", *packages)
    return made


def sdist(folder: Path) -> Path:
    """The source distribution, in ``folder``."""
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("*.so", "__pycache__", ".git", ".venv*", ".*_cache", "build", "dist", "*.egg-info")
    shutil.copytree(REPOSITORY, tree, ignore=ignored)
    made = environment(sys.executable, folder / "builder", *BUILD)
    run(made, "-c", f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})", cwd=tree)
    (archive,) = folder.glob("pipeall-*.tar.gz")
    return archive


def without_compiler(folder: Path) -> dict[str, str]:
    """A search path on which there is nothing but what a wheel may need: no compiler."""
    empty = folder / "nothing"
    empty.mkdir(exist_ok=True)
    return {"PATH": str(empty), "CC": "/no/compiler"}


def tried(wheel: Path, python: str, folder: Path) -> str:
    """What TRY printed of a wheel in a new environment without a compiler."""
    user, without = environment(python, folder), without_compiler(folder)
    run(user, "-m", "pip", "install", "-q", "--only-binary=:all:", wheel, **without)
    return run(user, TRY, cwd=folder, **without)


def wheels(record: Record, folder: Path, pythons: list[str]) -> None:
    source = sdist(folder)
    for index, python in enumerate(pythons):
        builder = environment(python, folder / f"build{index}", *BUILD, "wheel")
        out = folder / f"wheel{index}"
        run(builder, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", out, source)
        (wheel,) = out.glob("*.whl")
        record.add(wheel.name, wheel.stat().st_size, *tried(wheel, python, folder / f"user{index}").split())


def cross(record: Record, folder: Path, pythons: list[str], targets: list[str]) -> None:
    """Wheels of these Pythons, which lend headers alone: their own machine's say what is right for other ones too."""
    run("tar", "xf", sdist(folder), "-C", folder)
    (tree,) = folder.glob("pipeall-*/")
    for index, python in enumerate(pythons):
        builder = environment(python, folder / f"build{index}", *BUILD, "wheel", "ziglang")
        code = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX').split('-x86_64')[0])"
        version = run(builder, "-c", code).strip()
        for target in targets:
            machine, libc = target.split("-")
            out = folder / f"wheel{index}-{target}"
            triple, tag = ZIG[libc]
            zig = tree / f"zig-{target}"
            zig.write_text(ZIG_CC.format(python=builder, triple=f"{machine}-linux-{triple}"))
            zig.chmod(0o755)
            run(
                builder, "setup.py", "-q", "build", "-b", f"build{index}-{target}", "bdist_wheel", "-d", out,
                "--plat-name", f"{tag}_{machine}", cwd=tree, CC=str(zig), LDSHARED=f"{zig} -shared",
                SETUPTOOLS_EXT_SUFFIX=f"{version}-{machine}-linux-{libc}.so",
            )  # fmt: skip
            (wheel,) = out.glob("*.whl")
            said = tried_across(wheel, python, target, folder).split()
            record.add(wheel.name, wheel.stat().st_size, *said or NOT_TRIED)


def tried_across(wheel: Path, python: str, target: str, folder: Path) -> str:
    """What TRY printed of a wheel for one of zig's targets; nothing where this machine does not run it."""
    if target == f"{platform.machine()}-gnu":
        return tried(wheel, python, folder / f"user-{wheel.stem}")
    lent = LENT.get(target, "")
    root = Path(os.environ.get(f"PIPEALL_{lent.upper()}_ROOT", Path.home() / ".cache" / f"pipeall-{lent}"))
    if "-cp311-" not in wheel.name or not root.is_dir():
        return ""
    site = folder / f"site-{wheel.stem}"
    (tags,) = re.findall(r"(\w+)\.whl", wheel.name)
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, "--only-binary=:all:",
        f"--platform={tags}", "--python-version=3.11", "--implementation=cp", wheel)  # fmt: skip
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{TRY.read_text()}"
    return run(REPOSITORY / "tests" / lent / "python", "-c", code, cwd=folder, QEMU_CPU="cortex-a53")


def offline(record: Record, folder: Path, pythons: list[str]) -> None:
    """Installs the sdist with nothing but the build requirements and NumPy present."""
    source = sdist(folder)
    for index, python in enumerate(pythons):
        made = environment(python, folder / f"user{index}", *BUILD, "numpy")
        run(made, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", source)
        record.add(source.name, source.stat().st_size, *run(made, TRY, cwd=folder).split())


def bounds(record: Record, folder: Path, pythons: list[str], tests: list[str], oldest: bool) -> None:
    """The tests with the oldest or newest versions; the output of pip and pytest goes to stderr."""
    project = PYPROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    lines = [line for line in (*project["dependencies"], *extras) if not line.startswith(("pipeall[", "torch", "ruff"))]
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(re.sub(r"\[.*\]", "", line).replace(">=", "==") + "\n" for line in lines))
    limit = ["-c", str(constraints)] if oldest else []
    for index, python in enumerate(pythons):
        made = environment(python, folder / f"user{index}")
        run(made, "-m", "pip", "install", "-q", *lines, *limit)
        work = folder / f"work{index}"
        work.mkdir()
        run("tar", "xf", sdist(work), "-C", work)
        (tree,) = work.glob("pipeall-*/")
        run(made, "setup.py", "-q", "build_ext", "--inplace", cwd=tree)
        tested = run(made, "-m", "pytest", "-q", "-rs", *tests, cwd=tree)
        print(run(made, "-m", "pip", "freeze", cwd=tree), tested[-3000:], sep="\n", file=sys.stderr)
        record.add(python, tested.strip().splitlines()[-1])


COMMANDS = {"wheels": wheels, "sdist": offline}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("command", choices=(*COMMANDS, "cross", "oldest", "newest"))
    options.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters; default this one")
    options.add_argument("--tests", nargs="*", default=["tests"], help="what pytest runs; default all")
    options.add_argument("--targets", type=names, default=TARGETS, help="of cross; default %(default)s")
    options.add_argument("--keep", type=Path, help="folder for what is built")
    options = options.parse_args()
    columns = TESTED if options.command in ("oldest", "newest") else COLUMNS
    with tempfile.TemporaryDirectory() as name, Record(options, *columns, part=options.command) as record:
        folder = Path(name)
        os.environ["PIPEALL_LEASES"] = str(folder / "leases")  # what is tried knows of no other program on its cores
        os.environ.pop("PYTHONPATH", None)  # nor of this tree, which would be tried in place of the wheel
        if options.command in COMMANDS:
            COMMANDS[options.command](record, folder, options.pythons)
        elif options.command == "cross":
            cross(record, folder, options.pythons, options.targets)
        else:
            bounds(record, folder, options.pythons, options.tests, options.command == "oldest")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for path in (*folder.glob("*.tar.gz"), *folder.glob("*.whl"), *folder.glob("wheel*/*.whl")):
                shutil.copy2(path, options.keep)


if __name__ == "__main__":
    main()
