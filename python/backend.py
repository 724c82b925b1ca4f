# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: the module, the shared library, the program and licences. Needs nothing but Python.

pip calls it (PEP 517): `pip install ./python` builds library and program with CMake and the C compiler of the machine.
packaging/wheel/build makes the wheels for other machines: it calls write_wheel() with files that it has built. The same
files give the same bytes.

Settings of pip (--config-settings NAME=VALUE): library=FILE and program=FILE are used instead of a build, tag=TAG is the
platform tag of the wheel.
"""
import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent
SUMMARY = "Run Qwen 3.5 models on CPUs, with bit-identical output"
REQUIRES_PYTHON = ">=3.10"
LICENCES = ("LICENSE", "NOTICE")


def version():
    header = (TREE / "include/mote.h").read_text(encoding="utf-8")
    return re.search(r'#define MOTE_VERSION "([^"]+)"', header)[1]


def metadata(licences=LICENCES):
    head = ["Metadata-Version: 2.4", "Name: mote", f"Version: {version()}", f"Summary: {SUMMARY}",
            "License-Expression: Apache-2.0", *(f"License-File: {name}" for name in licences),
            f"Requires-Python: {REQUIRES_PYTHON}", "Classifier: Operating System :: POSIX :: Linux",
            "Classifier: Typing :: Typed", "Description-Content-Type: text/markdown"]
    return "\n".join(head) + "\n\n" + (HERE / "README.md").read_text(encoding="utf-8")


# ---- the file ----

class Wheel:
    """A zip file with a RECORD. Order and times do not depend on the machine."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w")
        self.rows = []

    def add(self, name, data, executable=False):
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.create_system = 3  # Unix: external_attr is a file mode
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        self.zip.writestr(info, data, compresslevel=9)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, dist_info):
        record = "".join(self.rows) + f"{dist_info}/RECORD,,\n"
        self.add(f"{dist_info}/RECORD", record.encode())
        self.zip.close()


def write_wheel(directory, library, programs, tag, licences=(), sbom=None):
    """Writes the wheel and returns its name. `licences` are those of libraries in the programs, `sbom` describes them."""
    name = f"mote-{version()}-py3-none-{tag}.whl"
    dist_info = f"mote-{version()}.dist-info"
    wheel = Wheel(Path(directory) / name)
    for file in sorted((HERE / "src/mote").iterdir()):
        if file.suffix in (".py", ".typed"):
            wheel.add(f"mote/{file.name}", file.read_bytes())
    wheel.add("mote/libmote.so", Path(library).read_bytes(), executable=True)
    for file in programs:
        wheel.add(f"mote/bin/{Path(file).name}", Path(file).read_bytes(), executable=True)
    files = [*(TREE / licence for licence in LICENCES), *map(Path, licences)]
    for file in files:
        wheel.add(f"{dist_info}/licenses/{file.name}", file.read_bytes())
    if sbom is not None:
        wheel.add(f"{dist_info}/sboms/{Path(sbom).name}", Path(sbom).read_bytes())
    wheel.add(f"{dist_info}/METADATA", metadata([file.name for file in files]).encode())
    wheel.add(f"{dist_info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: mote\nRoot-Is-Purelib: false\n" + "".join(
        f"Tag: py3-none-{part}\n" for part in tag.split("."))).encode())
    wheel.add(f"{dist_info}/entry_points.txt", b"[console_scripts]\nmote = mote._program:main\n")
    wheel.close(dist_info)
    return name


# ---- with the compiler of the machine ----

def compile_here(directory):
    """Builds library and program. Returns their paths."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF", "-DMOTE_ONE_FILE=ON"]
    try:
        for command in (["cmake", "-S", str(TREE), "-B", directory, *options],
                        ["cmake", "--build", directory, "--parallel", str(os.cpu_count() or 1)]):
            subprocess.run(command, check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"mote: cannot build the library: {error}; README.md lists the packages that a build needs")
    return Path(directory) / "lib/libmote.so", [Path(directory) / "mote"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    tag = settings.get("tag") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if "library" in settings:
        programs = [settings["program"]] if "program" in settings else []
        return write_wheel(wheel_directory, settings["library"], programs, tag)
    with tempfile.TemporaryDirectory(prefix="mote-wheel-") as directory:
        return write_wheel(wheel_directory, *compile_here(directory), tag)


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("the module is built from the source tree of mote: pip install ./python")
