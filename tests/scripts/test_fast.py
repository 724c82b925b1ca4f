# SPDX-License-Identifier: Apache-2.0
"""Checks the table of fast tests: test_fast.py BUILD_DIRECTORY [ROOT]

Every directory of src with C files has a row in tests/fast.cmake, every row is about such a
directory, and every test of a row exists in the build and has the label `fast`.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

ROW = re.compile(r"^mote_fast\(([^)]*)\)", re.MULTILINE)


def labels_of(build):
    """{name of a test: its labels}, as ctest sees them."""
    run = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True,
                         text=True, check=True)
    tests = json.loads(run.stdout)["tests"]
    return {test["name"]: [value for prop in test.get("properties", []) if prop["name"] == "LABELS"
                           for value in prop["value"]] for test in tests}


def faults(build, root):
    rows = {words[0]: words[1:] for words in
            (row.split() for row in ROW.findall((root / "tests/fast.cmake").read_text(encoding="utf-8")))}
    directories = {str(path.parent.relative_to(root / "src")) for path in (root / "src").rglob("*.c")}
    for name in sorted(directories - rows.keys()):
        yield f"src/{name} has no row"
    for name in sorted(rows.keys() - directories):
        yield f"src/{name} has a row and no C file"
    labels = labels_of(build)
    for name, tests in rows.items():
        if not tests:
            yield f"src/{name} has a row without tests"
        for test in tests:
            if test not in labels:
                yield f"src/{name}: there is no test {test}"
            elif "fast" not in labels[test]:
                yield f"src/{name}: {test} lacks the label; call mote_label_fast() in its CMakeLists.txt"


def main():
    root = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parents[2]).resolve()
    found = list(faults(sys.argv[1], root))
    for fault in found:
        print(f"tests/fast.cmake:1: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
