# SPDX-License-Identifier: Apache-2.0
"""Images of messages: from a file, bytes, Pillow or NumPy to pixels in the model's size.

The program decodes and resizes, in a sandboxed process and by the rules of the model. Neither Pillow nor NumPy is needed.
"""
from __future__ import annotations

import base64
import importlib
import os
import re
from typing import Any, NamedTuple, Union

from . import _abi
from ._program import output

# A path, a data: URL, the bytes of a file, an image of Pillow, or an array [height, width, 3] of uint8.
ImageSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Any]

DEFAULT_TOKENS = 1280
_SIDE = _abi.MOTE_IMAGE_SIDE
_MIN_PIXELS = 65536  # smaller images are enlarged


class Pixels(NamedTuple):
    width: int
    height: int
    rgb: bytes  # [height][width][3]


def _ppm(pixels: Pixels) -> bytes:
    return b"P6\n%d %d\n255\n" % (pixels.width, pixels.height) + pixels.rgb


def _read_ppm(data: bytes) -> Pixels:
    head = re.match(rb"P6\n(\d+) (\d+)\n255\n", data)
    assert head, data[:20]
    return Pixels(int(head[1]), int(head[2]), data[head.end():])


def _data_url(url: str) -> bytes:
    head, comma, text = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise ValueError("a data: URL of an image must have the form data:image/png;base64,...")
    return base64.b64decode(text)


def _pillow(image: Any) -> Pixels:
    upright = importlib.import_module("PIL.ImageOps").exif_transpose(image).convert("RGB")
    return Pixels(upright.width, upright.height, upright.tobytes())


def _array(array: Any) -> Pixels:
    shape = tuple(array.shape)
    if str(array.dtype) != "uint8" or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise ValueError(f"an image array is uint8 of the shape (height, width, 3), not {array.dtype} of {shape}")
    if len(shape) == 2:
        array = array[:, :, None]
    if array.shape[2] == 1:
        array = array.repeat(3, axis=2)
    return Pixels(shape[1], shape[0], array[:, :, :3].tobytes())


def _fits(pixels: Pixels, tokens: int) -> bool:
    area = pixels.width * pixels.height
    return pixels.width % _SIDE == 0 and pixels.height % _SIDE == 0 and _MIN_PIXELS <= area <= tokens * _SIDE * _SIDE


def read_pixels(source: ImageSource, tokens: int = DEFAULT_TOKENS) -> Pixels:
    """Pixels of an image, resized to at most `tokens` tokens of 32 x 32 pixels."""
    arguments = ["pixels", "--image-tokens", str(tokens)]
    if isinstance(source, str) and source.startswith("data:"):
        return _read_ppm(output([*arguments, "-"], _data_url(source)))
    if isinstance(source, str) and re.match(r"https?://", source):
        raise ValueError("images are not downloaded; pass the bytes of the file")
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source).removeprefix("file://")
        return _read_ppm(output([*arguments, os.path.abspath(path)]))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read_ppm(output([*arguments, "-"], bytes(source)))
    if hasattr(source, "convert") and hasattr(source, "tobytes"):
        pixels = _pillow(source)
    elif hasattr(source, "__array_interface__"):
        pixels = _array(source)
    else:
        raise TypeError(f"an image is a path, bytes, a Pillow image or an array, not {type(source).__name__}")
    return pixels if _fits(pixels, tokens) else _read_ppm(output([*arguments, "-"], _ppm(pixels)))
