# SPDX-License-Identifier: Apache-2.0
"""Streams, and calls that Ctrl-C can end: each runs on a thread of its own.

The thread calls the library, which releases the GIL, and puts events into a queue. The caller waits for the queue. So
Ctrl-C raises KeyboardInterrupt in the caller at once, during prefill too, and the call of the library is canceled. The
library calls no Python function on a thread that Python does not know.
"""
from __future__ import annotations

import atexit
import os
import queue
import threading
from types import TracebackType
from typing import Any, Callable, Generic, Iterator, Optional, TypeVar, Union

from ._engine import Engine, close_all
from .answer import Answer, Event

T = TypeVar("T")


class _End(Generic[T]):
    """The last item of a queue: a result or an exception."""

    def __init__(self, result: Optional[T], error: Optional[BaseException]) -> None:
        self.result = result
        self.error = error


class Control:
    """What a thread of this module and its readers share."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.queue: queue.SimpleQueue[Union[Event, _End[Any]]] = queue.SimpleQueue()
        self.canceled = False
        self.ended = threading.Event()
        self._lock = threading.RLock()  # a finalizer may cancel inside on_cancel()
        self._stop: Optional[Callable[[], None]] = None

    def cancel(self) -> None:
        with self._lock:
            self.canceled = True
            if self._stop is not None:
                self._stop()

    def on_cancel(self, stop: Optional[Callable[[], None]]) -> None:
        """`stop` ends the running call of the library. None: no call runs, and the last `stop` is not called again."""
        with self._lock:
            self._stop = stop


_running: dict[Control, threading.Thread] = {}


def _work(run: Callable[[Control], T], control: Control) -> None:
    try:
        end = _End(run(control), None)
    except BaseException as error:  # raised by the reader
        end = _End(None, error)
    control.on_cancel(None)
    _running.pop(control, None)
    control.queue.put(end)
    control.ended.set()


class Task(Generic[T]):
    """Runs a function on a thread of its own."""

    def __init__(self, engine: Engine, run: Callable[[Control], T]) -> None:
        self._control = Control(engine)
        self._end: Optional[_End[T]] = None
        self._thread = threading.Thread(target=_work, args=(run, self._control), name="mote", daemon=True)
        _running[self._control] = self._thread
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left
            _running.pop(self._control, None)
            self._control.ended.set()
            raise

    def next_event(self) -> Optional[Event]:
        """Waits for the next event. None: the end. Raises the exception that ended the function."""
        if self._end is None:
            try:
                item = self._control.queue.get()
            except BaseException:  # KeyboardInterrupt, or an exception of another signal handler
                self.close()
                raise
            if isinstance(item, Event):
                return item
            self._end = item
            self._control.queue.put(item)  # for other threads that read
        if self._end.error is not None:
            raise self._end.error
        return None

    def result(self) -> T:
        """Waits for the end."""
        while self.next_event() is not None:
            pass
        assert self._end is not None and self._end.result is not None
        return self._end.result

    def cancel(self) -> None:
        """Ends the call soon."""
        self._control.cancel()

    def close(self) -> None:
        """Cancels the call and waits until it has ended."""
        self._control.cancel()
        self._thread.join()

    def __del__(self) -> None:
        if hasattr(self, "_control"):
            self._control.cancel()


class Stream(Task[Answer]):
    """A running generation. Iterating yields the pieces of its visible text; events() yields everything.

    `answer` waits for the end and returns the whole answer. close(), the end of a `with` block, and dropping the stream
    cancel the generation. It does not wait for its reader.
    """

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while (event := self.next_event()) is not None:
            if event.kind == "content":
                return event.text
        raise StopIteration

    def events(self) -> Iterator[Event]:
        """All events: progress of the prefill, reasoning, content, tool calls, warnings."""
        while (event := self.next_event()) is not None:
            yield event

    @property
    def answer(self) -> Answer:
        """The whole answer, or what there was of it when it was canceled. Waits for the end."""
        return self.result()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def cancel_all(engine: Optional[Engine] = None) -> None:
    """Cancels all running calls, of one engine or of all, and waits for their ends."""
    found = [(c, t) for c, t in list(_running.items()) if engine is None or c.engine is engine]
    for control, _ in found:
        control.cancel()
    for control, thread in found:
        if thread is not threading.current_thread():
            control.ended.wait()  # join() of a thread that another one is about to start is an error
            if thread.is_alive():
                thread.join()


def _at_exit() -> None:
    """No thread is inside the library when the interpreter ends."""
    cancel_all()
    close_all()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_running.clear)  # threads of the parent do not run there
