# SPDX-License-Identifier: Apache-2.0
"""Conversations: messages in OpenAI's format to the library, its events to answers."""
from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, Union, cast, overload

from . import _abi
from ._engine import EncodedImage, Engine
from ._library import call, file_name, lib, sized_text, text_of
from .answer import Answer, Event, Finish, ToolCall, Usage
from .errors import ArgumentError, ClosedError, OutOfMemoryError
from .images import ImageSource, Pixels, read_pixels
from .options import Options, answer_options, check_names
from .stream import Control, Stream
from .tools import Tool, read_tools

if TYPE_CHECKING:
    from typing_extensions import Unpack

Message = Mapping[str, Any]
Content = Union[str, Sequence[Mapping[str, Any]]]


# ---- messages ----

class _Message:
    """A message as the library gets it: JSON, or text with images."""

    def __init__(self, message: Message, tokens: int) -> None:
        self.role: str = message.get("role", "user")
        sources = list(message.get("images") or [])
        content = message.get("content")
        self.text = content if isinstance(content, str) else ""
        if content is not None and not isinstance(content, str):
            sources += [s for part in content for s in _image_of(part)]
            self.text = "".join(part.get("text", "") for part in content)
        if sources and self.role != "user":
            raise ValueError(f"images belong into user messages, not into a message of the role {self.role!r}")
        self.pixels: list[Pixels] = [read_pixels(source, tokens) for source in sources]
        self.json = b"" if sources else json.dumps({k: v for k, v in message.items() if k != "images"}).encode()
        self.images: list[EncodedImage] = []

    @classmethod
    def read(cls, message: Message) -> _Message:
        """A message of the library. A loaded one has parts such as {"type": "image"}, without the image."""
        made = cls({"role": message["role"]}, 0)
        made.json = json.dumps(message).encode()
        return made

    def same(self, other: _Message) -> bool:
        if self.pixels:
            return (self.text, self.images) == (other.text, other.images)
        return not other.pixels and json.loads(self.json) == json.loads(other.json)

    def add(self, chat: int) -> None:
        if not self.pixels:
            call("mote_chat_add_json", chat, self.json, len(self.json))
            return
        media = (_abi.mote_media * len(self.images))()
        for row, image in zip(media, self.images):
            row.images, row.n = (ctypes.c_void_p * 1)(image.address), 1
        text = self.text.encode()
        call("mote_chat_add_media", chat, media, len(media), text, len(text))


def _image_of(part: Mapping[str, Any]) -> list[ImageSource]:
    """The image of a part of a message, in the form of OpenAI's chat or responses API, or {"type": "image", "image": X}."""
    kind = part.get("type")
    if kind in ("text", "input_text"):
        return []
    if kind in ("image_url", "input_image"):
        url = part.get("image_url")
        return [_present(url.get("url") if isinstance(url, Mapping) else url, kind)]
    if kind == "image":
        return [_present(part.get("image"), kind)]
    raise ValueError(f"a part of a message has the type {kind!r}; use text, image_url or image")


def _present(source: Optional[ImageSource], kind: str) -> ImageSource:
    if source is None:
        raise ArgumentError(f"a part of the type {kind!r} has no image; the messages of a conversation do not include theirs",
                            "bad_argument")
    return source


def _encoded_tools(schemas: Optional[list[Any]]) -> bytes:
    return json.dumps(schemas).encode() if schemas else b""


# ---- events ----

class _Collector:
    """Collects the events of one answer and puts them into the queue of its stream."""

    def __init__(self, control: Control, chat: int, functions: Mapping[str, Callable[..., Any]]) -> None:
        self.control, self.chat, self.functions = control, chat, functions
        self.count: int = lib.mote_chat_count(chat)  # the library's ids of tool calls contain it
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self.warnings: list[str] = []

    def take(self, event: _abi.mote_chat_event) -> None:
        if self.control.canceled:  # perhaps before the library started
            lib.mote_chat_cancel(self.chat)
        kind, text = event.kind, sized_text(event.text, event.text_bytes)
        out: Optional[Event] = None
        if kind == _abi.MOTE_CHAT_PREFILL:
            out = Event("prefill", done=event.done, total=event.total)
        elif kind == _abi.MOTE_CHAT_CONTENT:
            self.content.append(text)
            out = Event("content", text)
        elif kind == _abi.MOTE_CHAT_REASONING:
            self.reasoning.append(text)
            out = Event("reasoning", text)
        elif kind == _abi.MOTE_CHAT_CALL_END:
            name = sized_text(event.name, event.name_bytes)
            self.calls.append(ToolCall(f"call_{self.count}_{event.call}", name, json.loads(text), self.functions.get(name)))
            out = Event("tool_call", tool_call=self.calls[-1])
        elif kind == _abi.MOTE_CHAT_WARNING:
            self.warnings.append(" ".join(filter(None, (sized_text(event.name, event.name_bytes), text))))
            out = Event("warning", self.warnings[-1])
        if out is not None:
            self.control.queue.put(out)


# One C function for all answers: a closure per answer would be a reference cycle. The key is `with` of the options.
_collectors: dict[int, _Collector] = {}
_errors: dict[int, BaseException] = {}
_keys = itertools.count(1)


def _event(key: int, event: Any) -> None:
    try:
        _collectors[key].take(event.contents)
    except BaseException as error:  # must not end in C
        _errors[key] = error
        lib.mote_chat_cancel(_collectors[key].chat)


_EVENT = _abi.mote_chat_event_fn(_event)


# ---- conversations ----

class Conversation:
    """A conversation that keeps its messages and their tokens. Each answer prefills the new tokens only.

    Made by Model.conversation(). Uses one of the model's `sessions` until close().
    """

    def __init__(self, engine: Engine, options: _abi.mote_chat_options, image_tokens: int, *, most: int = 0,
                 system: Optional[str] = None, tools: Optional[Sequence[Tool]] = None,
                 path: Optional[bytes] = None) -> None:
        self._engine = engine
        self._chat = 0
        self._image_tokens = image_tokens
        self._held: list[_Message] = []
        self._system = ""
        self._tools = b""
        self._functions: dict[str, Callable[..., Any]] = {}
        with engine.use() as address:
            if most and engine.chats() >= most:
                raise OutOfMemoryError("all sessions of the model are in use; close a conversation, or open the model with "
                                       "a larger `sessions`", "out_of_memory")
            if path is None:
                self._chat = engine.own("mote_chat_new", address, ctypes.byref(options))
            else:
                self._chat = engine.own("mote_chat_load", address, path, ctypes.byref(options), None)
                found = self._read_messages()
                first = len(found) - lib.mote_chat_count(self._chat)  # 1: the system text is before it
                self._held = [_Message.read(m) for m in found[first:]]
                with open(path, encoding="utf-8", errors="replace") as file:
                    self._tools = _encoded_tools(json.load(file).get("tools"))
            if system is not None:
                self._set_system(system)
            if tools is not None:
                self._set_tools(tools)

    # ---- answers ----

    @overload
    def send(self, content: Content, *, images: Optional[Sequence[ImageSource]] = None, role: str = "user",
             stream: Literal[False] = False, **options: Unpack[Options]) -> Answer: ...

    @overload
    def send(self, content: Content, *, images: Optional[Sequence[ImageSource]] = None, role: str = "user",
             stream: Literal[True], **options: Unpack[Options]) -> Stream: ...

    def send(self, content: Content, *, images: Optional[Sequence[ImageSource]] = None, role: str = "user",
             stream: bool = False, **options: Unpack[Options]) -> Union[Answer, Stream]:
        """Adds a message and answers it. The options are those of Model.chat(). An exception leaves messages and
        tools as they were."""
        message: dict[str, Any] = {"role": role, "content": content}
        if images:
            message["images"] = list(images)
        return self._start([message], False, stream, options)

    @overload
    def answer(self, messages: Sequence[Message] = (), *, stream: Literal[False] = False,
               **options: Unpack[Options]) -> Answer: ...

    @overload
    def answer(self, messages: Sequence[Message] = (), *, stream: Literal[True], **options: Unpack[Options]) -> Stream: ...

    def answer(self, messages: Sequence[Message] = (), *, stream: bool = False,
               **options: Unpack[Options]) -> Union[Answer, Stream]:
        """Adds messages, such as results of tools, and answers. An exception leaves messages and tools as they were."""
        return self._start(list(messages), False, stream, options)

    def _start(self, messages: list[Message], replace: bool, stream: bool, given: Mapping[str, Any]) -> Union[Answer, Stream]:
        """`replace`: `messages` are the whole conversation, else they are added to it."""
        options = check_names(given, Options)
        native = answer_options(options)

        def run(control: Control) -> Answer:
            new = [_Message(m, self._image_tokens) for m in messages]  # decodes images
            with self._use():
                tools = self._tools, self._functions
                try:
                    if replace:
                        self._set_system(new.pop(0).text if new and new[0].role in ("system", "developer") else "")
                        self._set_tools(options.get("tools", []))
                    elif "tools" in options:
                        self._set_tools(options["tools"])
                    return self._put_and_answer(new, replace, control, native)
                except BaseException:
                    self._put_tools(*tools)
                    raise

        started = Stream(self._engine, run)
        return started if stream else started.answer

    def _put_and_answer(self, new: list[_Message], replace: bool, control: Control,
                        options: _abi.mote_answer_options) -> Answer:
        before = self._put(new, replace)
        try:
            return self._answer(control, options)
        except BaseException:  # a question that does not fit must not stay, else every later one fails too
            self._cut(before)
            raise

    def _put(self, new: list[_Message], replace: bool) -> int:
        """Adds messages. Those that are already at the same place keep their tokens. Returns how many are not new."""
        for message in new:
            message.images = [self._engine.image(p) for p in message.pixels]
        keep = len(self._held)
        if replace:
            pairs = zip(self._held, new)
            keep = len(list(itertools.takewhile(lambda pair: pair[0].same(pair[1]), pairs)))
            self._cut(keep)
            new = new[keep:]
        try:
            for message in new:
                message.add(self._chat)
                self._held.append(message)
        except BaseException:
            self._cut(keep)
            raise
        return keep

    def _cut(self, n: int) -> None:
        """Removes the messages from index n on."""
        lib.mote_chat_cut(self._chat, n)
        del self._held[n:]

    def _answer(self, control: Control, options: _abi.mote_answer_options) -> Answer:
        collector = _Collector(control, self._chat, self._functions)
        result = _abi.mote_answer()
        key, chat = next(_keys), self._chat
        setattr(options, "with", key)
        options.event = _EVENT
        _collectors[key] = collector
        control.on_cancel(lambda: lib.mote_chat_cancel(chat))
        try:
            call("mote_chat_answer", chat, ctypes.byref(options), ctypes.byref(result))
        finally:
            control.on_cancel(None)
            del _collectors[key]
            error = _errors.pop(key, None)
        if error is not None:
            raise error
        return self._finished(collector, result)

    def _finished(self, collector: _Collector, result: _abi.mote_answer) -> Answer:
        count: int = lib.mote_chat_count(self._chat)
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        if count > collector.count:
            message = self._read_messages(count - 1)[0]
            self._held.append(_Message.read(message))
        elif self._held and self._held[-1].role == "assistant":  # the answer continued it
            message = self._read_messages(count - 1)[0]
            self._held[-1] = _Message.read(message)
        usage = Usage(result.prompt_tokens, result.reused_tokens, result.answer_tokens, result.think_tokens,
                      result.seconds_prefill, result.seconds_decode, result.drafted_tokens, result.accepted_tokens)
        finish = cast(Finish, text_of(lib.mote_finish_name(result.finish)))
        return Answer("".join(collector.content), "".join(collector.reasoning), collector.calls, finish, usage,
                      result.sampling.seed, collector.warnings, message)

    # ---- messages ----

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages in OpenAI's format, the system text first. Images are not included."""
        with self._use():
            return self._read_messages()

    def undo(self) -> int:
        """Removes the last user message and everything after it. Returns the number of removed messages."""
        with self._use():
            n: int = lib.mote_chat_undo(self._chat)
            del self._held[len(self._held) - n:]
            return n

    def clear(self) -> None:
        """Removes all messages. System text and tools stay."""
        with self._use():
            lib.mote_chat_clear(self._chat)
            self._held.clear()

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the conversation to `path` and its state to `path`.state. Model.load_conversation() continues it."""
        with self._use():
            call("mote_chat_save", self._chat, file_name(path))

    def _read_messages(self, i: int = _abi.MOTE_CHAT_ALL) -> list[dict[str, Any]]:
        n = ctypes.c_size_t()
        call("mote_chat_json", self._chat, i, None, 0, ctypes.byref(n))
        text = ctypes.create_string_buffer(n.value)
        call("mote_chat_json", self._chat, i, text, n.value, ctypes.byref(n))
        found: Any = json.loads(text.raw)
        return found if isinstance(found, list) else [found]

    def _set_system(self, text: str) -> None:
        if text != self._system:
            encoded = text.encode()
            call("mote_chat_set_system", self._chat, encoded, len(encoded))
            self._system = text

    def _set_tools(self, tools: Sequence[Tool]) -> None:
        schemas, functions = read_tools(tools)
        self._put_tools(_encoded_tools(schemas), functions)

    def _put_tools(self, encoded: bytes, functions: dict[str, Callable[..., Any]]) -> None:
        if encoded != self._tools:
            call("mote_chat_set_tools", self._chat, encoded, len(encoded))
            self._tools = encoded
        self._functions = functions

    # ---- end ----

    @contextlib.contextmanager
    def _use(self) -> Iterator[None]:
        with self._engine.use():
            if not self._chat:
                raise ClosedError("the conversation is closed")
            yield

    def close(self) -> None:
        """Frees the session. Waits for a running answer."""
        with contextlib.suppress(ClosedError), self._use():
            chat, self._chat = self._chat, 0  # before the next holder of the engine looks at it
            self._engine.free(chat)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_chat", 0):
            self._engine.drop(self._chat)
