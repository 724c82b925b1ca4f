# SPDX-License-Identifier: Apache-2.0
"""mote runs Qwen 3.5 models on CPUs.

    import mote

    with mote.Model("qwen3.5:0.8b") as model:
        for piece in model.chat("Why is the sky blue?", stream=True):
            print(piece, end="", flush=True)
"""
from ._library import guard_files, version
from ._program import list_models, program, pull
from .answer import Answer, Event, ToolCall, Usage
from .conversation import Conversation
from .errors import (
    ArgumentError, CanceledError, ClosedError, ContextFullError, Error, FileError, FormatError, MismatchError,
    OutOfMemoryError, ProgramError, UnsupportedError,
)
from .model import Model, ModelInfo
from .options import Options, Sampling
from .stream import Stream

__version__ = version()

__all__ = [
    "Answer", "ArgumentError", "CanceledError", "ClosedError", "ContextFullError", "Conversation", "Error", "Event",
    "FileError", "FormatError", "MismatchError", "Model", "ModelInfo", "Options", "OutOfMemoryError", "ProgramError",
    "Sampling", "Stream", "ToolCall", "UnsupportedError", "Usage", "guard_files", "list_models", "program", "pull",
    "version",
]
