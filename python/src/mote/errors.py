# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class per status of the library, all derived from mote.Error."""
from __future__ import annotations

from . import _abi


class Error(Exception):
    """A call of the library or of the program failed. `status` is its stable name, such as "out_of_memory"."""

    def __init__(self, text: str, status: str = "error") -> None:
        super().__init__(text)
        self.status = status


class ArgumentError(Error, ValueError):
    """An argument is invalid."""


class OutOfMemoryError(Error, MemoryError):
    """Memory is used up, or all sessions of the model are in use."""


class FileError(Error, OSError):
    """A file cannot be opened, read, written or mapped."""

    def __init__(self, text: str, status: str = "error") -> None:
        OSError.__init__(self, text)
        self.status = status


class FormatError(Error, ValueError):
    """A file is damaged, or a text is not JSON."""


class UnsupportedError(Error):
    """The file, the schema or the grammar is valid, and mote does not support it."""


class ContextFullError(Error):
    """The prompt does not fit the context. Open the model with a larger `context`."""


class CanceledError(Error):
    """The call was canceled."""


class MismatchError(Error):
    """The file belongs to another model."""


class ClosedError(Error):
    """The model or the conversation is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "closed")


class ProgramError(Error):
    """The program `mote`, which the package contains, failed or is not there. `code` is its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, "program")
        self.code = code


BY_STATUS: dict[int, type[Error]] = {
    _abi.MOTE_E_ARG: ArgumentError,
    _abi.MOTE_E_MEMORY: OutOfMemoryError,
    _abi.MOTE_E_IO: FileError,
    _abi.MOTE_E_FORMAT: FormatError,
    _abi.MOTE_E_UNSUPPORTED: UnsupportedError,
    _abi.MOTE_E_FULL: ContextFullError,
    _abi.MOTE_E_CANCELED: CanceledError,
    _abi.MOTE_E_MISMATCH: MismatchError,
}
