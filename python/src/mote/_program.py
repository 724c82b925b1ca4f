# SPDX-License-Identifier: Apache-2.0
"""The program `mote`: finds it, runs it for model names, downloads and image files, and is its console script.

The package contains it. MOTE_PROGRAM names another one; without both, `mote` of PATH is used.
"""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

from .errors import ProgramError


def program() -> str:
    """Path of the program."""
    inside = Path(__file__).with_name("bin") / "mote"
    found = os.environ.get("MOTE_PROGRAM") or (str(inside) if inside.exists() else shutil.which("mote"))
    if not found:
        raise ProgramError("the program mote is neither in this package nor in PATH; set MOTE_PROGRAM to its path", 127)
    return found


def output(arguments: list[str], data: bytes | None = None) -> bytes:
    """Runs the program and returns its standard output."""
    done = subprocess.run([program(), *arguments], input=data, stdin=subprocess.DEVNULL if data is None else None,
                          capture_output=True, check=False)
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace").strip().removeprefix("mote: ") or "no message"
        raise ProgramError(text, done.returncode)
    return done.stdout


def show(name: str) -> dict[str, Any]:
    """What `mote show` says about an installed model or a file: "file", "mmproj", "mtp" and more."""
    found: dict[str, Any] = json.loads(output(["show", "--json", name]))
    return found


def list_models() -> list[dict[str, Any]]:
    """The installed models, as `mote list --json` describes them."""
    found: list[dict[str, Any]] = json.loads(output(["list", "--json"]))["models"]
    return found


def pull(name: str) -> None:
    """Downloads a model, with progress on standard error. Installed models are not downloaded again."""
    code = subprocess.run([program(), "pull", name], check=False).returncode
    if code != 0:
        raise ProgramError(f"mote pull {name} failed with exit code {code}", code)


def main() -> NoReturn:
    """Replaces this process by the program."""
    try:
        path = program()
        os.execv(path, [path, *sys.argv[1:]])
    except (ProgramError, OSError) as error:
        sys.exit(f"mote: {error}")
