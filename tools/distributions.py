"""Commands of setuptools: archives with the same bytes for the same sources, and wheels that say what is in them.

With SOURCE_DATE_EPOCH set, files have that time and compiled code has no path of the machine in it.
"""

import gzip
import json
import os
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist


def epoch() -> int | None:
    """Seconds since 1970 that files are to have, or None."""
    return int(value) if (value := os.environ.get("SOURCE_DATE_EPOCH")) else None


class Sdist(sdist):
    """A .tar.gz in which order, owners and times depend on the sources alone."""

    def make_archive(self, base_name: str, format: str, *rest: Any, base_dir: str | None = None, **more: Any) -> str:
        if format != "gztar" or base_dir is None:
            return super().make_archive(base_name, format, *rest, base_dir=base_dir, **more)
        path, at = Path(f"{base_name}.tar.gz"), epoch()

        def nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            member.mtime = int(member.mtime) if at is None else at
            return member

        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=at or 0) as packed:
            with tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive:
                archive.add(base_dir, filter=nobodys)  # sorts what is in a folder
        return str(path)


class BdistWheel(bdist_wheel):
    """A wheel with a list of what is in it, in CycloneDX's form, where PEP 770 has it."""

    def egg2dist(self, egginfo_path: str, distinfo_path: str) -> None:
        super().egg2dist(egginfo_path, distinfo_path)
        path = Path(distinfo_path, "sboms", "pipeall.cdx.json")
        path.parent.mkdir()
        path.write_text(json.dumps(sbom(self.distribution.get_version()), indent=2) + "\n")


def sbom(pipeall: str) -> dict[str, Any]:
    """The list for a version of this package: its own code, and what others wrote that lies in the wheel with it."""
    package = part("library", "pipeall", pipeall, "MIT")
    glue = part("library", "Cython", version("Cython"), "Apache-2.0")
    glue["description"] = "C code of its own, in what it generates of .pyx files, is compiled into the modules"
    digits = {
        "type": "data",
        "bom-ref": "digits",
        "name": "Optical Recognition of Handwritten Digits",
        "description": "pipeall/mlp/digits.npz: 1,797 samples of E. Alpaydin and C. Kaynak, UCI repository",
        "licenses": [{"license": {"id": "CC-BY-4.0"}}],
    }
    contents = [glue, digits]
    tool = part("application", "setuptools", version("setuptools"), "MIT")
    metadata = {"component": package, "tools": {"components": [tool]}}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, json.dumps([metadata, contents]))}",
        "version": 1,
        "metadata": metadata,
        "components": contents,
        "dependencies": [{"ref": "pipeall", "dependsOn": ["Cython", "digits"]}, {"ref": "Cython"}, {"ref": "digits"}],
    }


def part(kind: str, name: str, number: str, licence: str) -> dict[str, Any]:
    """A package of the index, as a component."""
    return {
        "type": kind,
        "bom-ref": name,
        "name": name,
        "version": number,
        "purl": f"pkg:pypi/{name.lower()}@{number}",
        "licenses": [{"license": {"id": licence}}],
    }
