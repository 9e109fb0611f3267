"""What a user installs, made and tried in fresh environments. Needs the network, except for what it says is offline.

    python -m bench.release.packaging wheels PYTHON [PYTHON ...]    a wheel for each, tried without a compiler
    python -m bench.release.packaging aarch64           cross-compiled (tests/arm64/setup first), tried emulated
    python -m bench.release.packaging sdist PYTHON      the source distribution, installed offline
    python -m bench.release.packaging oldest PYTHON [--tests ...]   the tests with the oldest dependencies allowed
    python -m bench.release.packaging newest PYTHON [--tests ...]   and with the newest there are

Everything is built from a source distribution of this tree. --keep FOLDER: where wheels and the sdist are put.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tomllib

from bench.common import REPOSITORY, Record, parser

ARM = REPOSITORY / "tests" / "arm64" / "python"
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
BUILD = PYPROJECT["build-system"]["requires"]
TRY = REPOSITORY / "tools" / "try_install.py"
COLUMNS = ("what", "size [bytes]", "machine", "Python", "NumPy", "top class")
TESTED = "Python", "tests"


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


def add(record: Record, package: Path, tried: str) -> None:
    """A row of a package and of what TRY printed of it."""
    record.add(package.name, package.stat().st_size, *tried.split())


def wheels(record: Record, folder: Path, pythons: list[str]) -> None:
    source = sdist(folder)
    for index, python in enumerate(pythons):
        builder = environment(python, folder / f"build{index}", *BUILD, "wheel")
        out = folder / f"wheel{index}"
        run(builder, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", out, source)
        (wheel,) = out.glob("*.whl")
        user = environment(python, folder / f"user{index}")
        run(user, "-m", "pip", "install", "-q", "--only-binary=:all:", wheel, **without_compiler(folder))
        add(record, wheel, run(user, TRY, cwd=folder, **without_compiler(folder)))


def aarch64(record: Record, folder: Path, _: list[str]) -> None:
    source = sdist(folder)
    run("tar", "xf", source, "-C", folder)
    (tree,) = folder.glob("pipeall-*/")
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('dist'))"
    run(ARM, "-c", build, cwd=tree)
    (wheel,) = (tree / "dist").glob("*.whl")
    shutil.copy2(wheel, folder)
    site = folder / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, "--only-binary=:all:",
        "--platform", "linux_aarch64", "--python-version", "3.11", "--implementation", "cp", wheel)  # fmt: skip
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{TRY.read_text()}"
    add(record, wheel, run(ARM, "-c", code, cwd=folder, QEMU_CPU="cortex-a53"))


def offline(record: Record, folder: Path, pythons: list[str]) -> None:
    """Installs the sdist with nothing but the build requirements and NumPy present."""
    source = sdist(folder)
    for index, python in enumerate(pythons):
        made = environment(python, folder / f"user{index}", *BUILD, "numpy")
        run(made, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", source)
        add(record, source, run(made, TRY, cwd=folder))


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


COMMANDS = {"wheels": wheels, "aarch64": aarch64, "sdist": offline}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("command", choices=(*COMMANDS, "oldest", "newest"))
    options.add_argument("pythons", nargs="*", default=[sys.executable], help="interpreters; default this one")
    options.add_argument("--tests", nargs="*", default=["tests"], help="what pytest runs; default all")
    options.add_argument("--keep", type=Path, help="folder for what is built")
    options = options.parse_args()
    columns = COLUMNS if options.command in COMMANDS else TESTED
    with tempfile.TemporaryDirectory() as name, Record(options, *columns, part=options.command) as record:
        folder = Path(name)
        if options.command in COMMANDS:
            COMMANDS[options.command](record, folder, options.pythons)
        else:
            bounds(record, folder, options.pythons, options.tests, options.command == "oldest")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for path in (*folder.glob("*.tar.gz"), *folder.glob("*.whl"), *folder.glob("wheel*/*.whl")):
                shutil.copy2(path, options.keep)


if __name__ == "__main__":
    main()
