# SPDX-License-Identifier: Apache-2.0
"""One open model: the objects of the library, who may use them when, and when they are freed.

The engine belongs to one thread at a time, so every call that uses it holds `lock`. Objects may be dropped by the
garbage collector at any moment, on any thread, also inside an event function of the library. So a finalizer never
waits: it puts the object on a list, which the next holder of the lock empties.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import hashlib
import os
import threading
import weakref
from typing import Any, Callable, Iterator

from . import _abi
from ._library import create, lib
from .errors import ClosedError
from .images import Pixels

_CACHED_IMAGES = 16
_FREE = {"mote_chat_new": "mote_chat_free", "mote_chat_load": "mote_chat_free", "mote_session_new": "mote_session_free",
         "mote_image_new": "mote_image_free"}


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine:
    def __init__(self, path: bytes, options: _abi.mote_model_options,
                 plan: Callable[[int], _abi.mote_engine_options]) -> None:
        self.lock = threading.Lock()
        self.engine = 0
        self._process = os.getpid()
        self._readers = 0  # threads that use the model without the engine
        self._no_reader = threading.Condition()
        self._dropped: collections.deque[int] = collections.deque()
        self._live: dict[int, str] = {}  # address: the function that frees it
        self._images: collections.OrderedDict[bytes, EncodedImage] = collections.OrderedDict()
        self.model = create("mote_model_open", path, ctypes.byref(options))
        try:
            self.engine = create("mote_engine_new", self.model, ctypes.byref(plan(self.model)))
        finally:
            if not self.engine:
                lib.mote_model_close(self.model)
        _engines.add(self)

    # ---- use ----

    @contextlib.contextmanager
    def use(self) -> Iterator[int]:
        """Holds the engine and yields its address."""
        if self._process != os.getpid():  # its threads are not here, and the lock may be held by one of them
            raise ClosedError("the model was opened before fork(); open it in the new process")
        with self.lock:
            self._free_dropped()
            if not self.engine:
                raise ClosedError("the model is closed")
            yield self.engine

    @contextlib.contextmanager
    def read(self) -> Iterator[int]:
        """Keeps the model open and yields its address. Any number of threads may do this, also while the engine runs."""
        with self._no_reader:
            if not self.model:
                raise ClosedError("the model is closed")
            self._readers += 1
        try:
            yield self.model
        finally:
            with self._no_reader:
                self._readers -= 1
                self._no_reader.notify_all()

    def own(self, name: str, *arguments: Any) -> int:
        """Creates a chat, a session or an image. The caller holds the engine."""
        address = create(name, *arguments)
        self._live[address] = _FREE[name]
        return address

    def free(self, address: int) -> None:
        """Frees an object of own(). The caller holds the engine."""
        getattr(lib, self._live.pop(address))(address)

    def chats(self) -> int:
        """Number of conversations. The caller holds the engine."""
        return list(self._live.values()).count("mote_chat_free")

    def drop(self, address: int) -> None:
        """Frees an object of own() as soon as nothing uses the engine. Never waits."""
        self._dropped.append(address)
        if self._process == os.getpid() and self.lock.acquire(blocking=False):
            try:
                self._free_dropped()
            finally:
                self.lock.release()

    def _free_dropped(self) -> None:
        while self._dropped:
            address = self._dropped.popleft()
            if address in self._live:  # else close() was faster
                self.free(address)

    def image(self, pixels: Pixels) -> EncodedImage:
        """The encoded image. The last 16 are kept: a conversation that is sent again does not encode them again. The
        caller holds the engine."""
        key = hashlib.sha256(b"%d %d " % pixels[:2] + pixels.rgb).digest()
        image = self._images.pop(key, None) or EncodedImage(self, pixels)
        self._images[key] = image
        while len(self._images) > _CACHED_IMAGES:
            self._images.popitem(last=False)
        return image

    # ---- end ----

    def close(self) -> None:
        """Waits until nothing uses the engine, then frees everything: images last, because messages contain them. A
        process that was forked leaves its copy alone."""
        if self._process != os.getpid():
            return
        with self.lock, self._no_reader:
            if not self.engine:
                return
            self._no_reader.wait_for(lambda: self._readers == 0)
            for image in (False, True):
                for address in [a for a, free in self._live.items() if (free == "mote_image_free") == image]:
                    self.free(address)
            lib.mote_engine_free(self.engine)
            lib.mote_model_close(self.model)
            self.engine = self.model = 0

    def __del__(self) -> None:
        if hasattr(self, "model"):
            self.close()


class EncodedImage:
    """An image after the vision encoder. The library needs it as long as a message contains it."""

    def __init__(self, engine: Engine, pixels: Pixels) -> None:
        rgb = (ctypes.c_uint8 * len(pixels.rgb)).from_buffer_copy(pixels.rgb)
        native = _abi.mote_pixels(rgb, None, pixels.width, pixels.height)
        threads = lib.mote_engine_threads(engine.engine)
        self.address = engine.own("mote_image_new", engine.model, ctypes.byref(native), threads)
        self._engine = engine

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.drop(self.address)


def close_all() -> None:
    """At exit: worker threads of the library end before the interpreter does."""
    for engine in list(_engines):
        engine.close()
