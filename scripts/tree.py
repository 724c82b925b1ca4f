# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks in this directory: the list of files, and C text without comments.

A check takes the root of a tree (default: its own tree), prints one line
`path:line: what is wrong` per fault and exits with 1 if there was one. The
tests in tests/scripts plant a fault in a copy and check that it is caught.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Directories that a walk without git skips: git data and build output.
MADE = {".git", "build", "__pycache__"}


def root_from_arguments():
    """The tree to check: the first argument, or the one this script belongs to."""
    if len(sys.argv) > 2:
        sys.exit(f"usage: {sys.argv[0]} [root of the tree]")
    return Path(sys.argv[1] if len(sys.argv) == 2 else Path(__file__).parent.parent).resolve()


def _git_names(root):
    """Tracked files and untracked ones that are not ignored; None if git cannot list them."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    run = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                          "--exclude-standard"], capture_output=True, check=False)
    if run.returncode != 0:
        return None
    return sorted(set(os.fsdecode(name) for name in run.stdout.split(b"\0") if name))


def _walked_names(root):
    names = []
    for directory, inside, files in os.walk(root):
        inside[:] = [name for name in inside if name not in MADE]
        names += [os.path.relpath(os.path.join(directory, name), root) for name in files]
    return sorted(names)


def files(root):
    """Paths, relative to root, of everything that is or could be committed."""
    names = _git_names(root)
    if names is None:
        names = _walked_names(root)
    return [name for name in names if (root / name).is_file()]


def c_files(root, *directories):
    """The .c, .h and .def files below the given directories."""
    return [name for name in files(root)
            if name.endswith((".c", ".h", ".def")) and name.split("/")[0] in directories]


_NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def code_of(text):
    """The C text with comments and literals blanked out; every line keeps its number."""
    def blank(match):
        word = match.group()
        if word[0] in "\"'":
            return word[0] * 2
        return "\n" * word.count("\n") or " "
    return _NOT_CODE.sub(blank, text)


def report(faults, good):
    """Prints the faults, or `good` if there are none; returns the exit code."""
    for fault in faults:
        print(fault)
    if not faults:
        print(good)
    return 1 if faults else 0
