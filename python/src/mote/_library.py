# SPDX-License-Identifier: Apache-2.0
"""The shared library: finds it, declares its functions and turns a status into an exception.

ctypes releases the GIL for the duration of every call. MOTE_LIBRARY names another file than the one in the package.
"""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from . import _abi
from .errors import BY_STATUS, Error


def _load() -> ctypes.CDLL:
    path = os.environ.get("MOTE_LIBRARY") or str(Path(__file__).with_name("libmote.so"))
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load the library of mote: {error}; set MOTE_LIBRARY to the path of libmote.so") from None
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = parameters
    return library


lib = _load()


def text_of(value: bytes | None) -> str:
    """A constant of the library as str."""
    return (value or b"").decode("utf-8", "replace")


def failure(status: int, err: _abi.mote_error) -> Error:
    name = text_of(lib.mote_status_name(status))
    return BY_STATUS.get(status, Error)(err.text.decode("utf-8", "replace"), name)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns mote_status and takes mote_error last. Raises mote.Error."""
    err = _abi.mote_error()
    status: int = getattr(lib, name)(*arguments, ctypes.byref(err))
    if status != _abi.MOTE_OK:
        raise failure(status, err)


def create(name: str, *arguments: Any) -> int:
    """Calls a function whose first parameter is the new object. Returns its address."""
    out = ctypes.c_void_p()
    call(name, ctypes.byref(out), *arguments)
    assert out.value is not None
    return out.value


def sized_text(address: int | None, n: int) -> str:
    """Text that the library passes as pointer and length."""
    return ctypes.string_at(address, n).decode("utf-8", "replace") if address and n else ""


def file_name(path: str | os.PathLike[str]) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("a path must not contain a zero byte")
    return encoded


def version() -> str:
    """Version of the library."""
    return text_of(lib.mote_version())


def guard_files() -> None:
    """Turns SIGBUS of a truncated model file into mote.FileError. Installs a signal handler for SIGBUS."""
    call("mote_guard_files")
