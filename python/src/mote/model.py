# SPDX-License-Identifier: Apache-2.0
"""mote.Model: an open model with everything that can be asked of it."""
from __future__ import annotations

import ctypes
import math
import os
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, Sequence, Union, overload

from . import _abi, _program
from ._engine import Engine
from ._library import call, failure, file_name, lib, sized_text, text_of
from .answer import Answer, Event, Finish, Usage
from .conversation import Conversation, Message
from .errors import ArgumentError, CanceledError, ContextFullError, ProgramError
from .images import DEFAULT_TOKENS, ImageSource
from .options import Options, Sampling, check_names, fill_sampling, stop_strings
from .stream import Control, Stream, Task, cancel_all
from .tools import Tool

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_CONTEXT = 32768
_KV = {"f16": _abi.MOTE_KV_F16, "f32": _abi.MOTE_KV_F32, "q8_0": _abi.MOTE_KV_Q8_0,
       "q4_0": _abi.MOTE_KV_Q4_0}
Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class ModelInfo:
    """What a model file says about itself."""

    name: str
    parameters: int
    file_bytes: int
    layers: int
    context: int  # trained context length
    vocabulary: int
    embedding: int  # length of an embedding
    vision: bool  # opened with a vision encoder
    isa: str  # instruction set level in use
    chat_template: str  # name of the template
    draft_head: bool  # it has an MTP head, for drafts


def find_model(name: str, download: bool) -> tuple[str, Optional[Path], Optional[Path]]:
    """Paths of the weights, of the vision encoder and of the MTP head. A name is one that `mote list` prints."""
    is_file = os.path.isfile(name)
    if is_file and not any(f.startswith(("mmproj", "mtp-")) or ".mmproj" in f
                           for f in map(str.lower, os.listdir(os.path.dirname(name) or "."))):
        return name, None, None
    try:
        shown = _program.show(name)
    except ProgramError:
        if is_file:
            return name, None, None  # the library says what is wrong with it
        if not download:
            raise
        _program.pull(name)
        shown = _program.show(name)
    return shown["file"], shown["mmproj"], shown["mtp"]


class _Stops:
    """Text up to the first stop string. Holds back what may be the start of one."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = [s for s in stops if s]
        self.held = ""
        self.found = False

    def add(self, piece: str) -> str:
        """Returns the text that is certain to be before a stop string."""
        self.held += piece
        at = min((i for i in map(self.held.find, self.stops) if i >= 0), default=-1)
        if at >= 0:
            self.found = True
            text, self.held = self.held[:at], ""
            return text
        keep = max((n for s in self.stops for n in range(1, len(s)) if self.held.endswith(s[:n])), default=0)
        text, self.held = self.held[:len(self.held) - keep], self.held[len(self.held) - keep:]
        return text


class Model:
    """An open model.

    model       path of a GGUF file, or a name that `mote list` prints, such as "qwen3.5:4b"
    context     most tokens of a prompt with its answer; memory is used when it is first needed
    sessions    how many Conversation objects can exist at once
    threads     0: one per physical core
    kv          format of the KV cache: "f16", "q8_0" (half the memory), "q4_0" (9/32) or "f32"
    mmproj      path of the vision encoder; "auto": as `mote run` chooses; None: text only
    mtp         path of a file with the MTP head, for drafts; "auto": as `mote run` chooses; None: none
    download    True: download the model if no model of this name is installed
    image_tokens  most tokens per image

    Methods may be called from any thread. Answers of one model are computed one after the other, each with all threads.
    """

    def __init__(self, model: Path, *, context: Optional[int] = None, sessions: int = 2, threads: int = 0,
                 kv: Literal["f16", "f32", "q8_0", "q4_0"] = "f16", mmproj: Optional[Path] = "auto",
                 mtp: Optional[Path] = "auto", download: bool = False, image_tokens: int = DEFAULT_TOKENS) -> None:
        if kv not in _KV:
            raise ValueError(f"kv={kv!r}: use {', '.join(_KV)}")
        path, encoder, head = os.fspath(model), mmproj, mtp
        if "auto" in (mmproj, mtp) or not os.path.isfile(path):
            path, found_encoder, found_head = find_model(path, download)
            encoder = found_encoder if mmproj == "auto" else mmproj
            head = found_head if mtp == "auto" else mtp
        all_sessions = sessions + 2  # chat(); generate() and embed()

        def plan(address: int) -> _abi.mote_engine_options:
            trained = _describe(address).context
            length = context if context is not None else min(DEFAULT_CONTEXT, trained)
            return _abi.mote_engine_options(threads=threads, sessions=all_sessions, positions=length * all_sessions,
                                            kept_states=2 * all_sessions, kv=_KV[kv],
                                            drafts=True, logits_rows=max(all_sessions, _abi.MOTE_SPEC_ROWS))

        self._image_tokens = image_tokens
        self._sessions = sessions
        self._making_chat = threading.Lock()
        files = _abi.mote_model_options(mmproj=file_name(encoder) if encoder else None,
                                        mtp=file_name(head) if head else None)
        self._engine = Engine(file_name(path), files, plan)
        self._chat: Optional[Conversation] = None
        self.path = path

    # ---- answers ----

    @overload
    def chat(self, messages: Union[str, Sequence[Message]], *, images: Optional[Sequence[ImageSource]] = None,
             stream: Literal[False] = False, **options: Unpack[Options]) -> Answer: ...

    @overload
    def chat(self, messages: Union[str, Sequence[Message]], *, images: Optional[Sequence[ImageSource]] = None,
             stream: Literal[True], **options: Unpack[Options]) -> Stream: ...

    def chat(self, messages: Union[str, Sequence[Message]], *, images: Optional[Sequence[ImageSource]] = None,
             stream: bool = False, **options: Unpack[Options]) -> Union[Answer, Stream]:
        """Answers messages in OpenAI's format, or one question.

        images      images of the last message: paths, bytes of files, Pillow images or arrays
        stream      True: returns a Stream, whose iteration yields the text piece by piece

        Options: max_tokens, temperature, top_k, top_p, min_p, typical_p, presence_penalty, frequency_penalty,
        repetition_penalty, repeat_last_n, logit_bias, seed, stop, thinking, preset, tools, tool_choice,
        parallel_tool_calls, json_schema, response_format, regex, choices, grammar, loop_guard. mote.Options describes
        them. What is not given comes from the preset of the model card.

        A call whose messages begin like those of the call before prefills only what is new.
        """
        rows: list[Message] = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        if images:
            if not rows:
                raise ValueError("images need a message")
            rows[-1] = {**rows[-1], "images": [*(rows[-1].get("images") or []), *images]}
        with self._making_chat:
            if self._chat is None:
                self._chat = self._conversation()
        return self._chat._start(rows, True, stream, options)

    def conversation(self, *, system: Optional[str] = None, tools: Optional[Sequence[Tool]] = None,
                     context: int = 0, official: bool = False, chat_template: Optional[str] = None) -> Conversation:
        """Starts a conversation that keeps its messages. `official`: render exactly as the model's own template does."""
        return self._conversation(context, official, chat_template, most=self._most(), system=system, tools=tools)

    def load_conversation(self, path: Path, *, tools: Optional[Sequence[Tool]] = None, context: int = 0) -> Conversation:
        """Loads what Conversation.save() wrote, and continues without prefill."""
        return self._conversation(context, most=self._most(), tools=tools, path=file_name(path))

    def _most(self) -> int:
        """How many conversations may exist, that of chat() included."""
        return self._sessions + (self._chat is not None)

    def _conversation(self, context: int = 0, official: bool = False, chat_template: Optional[str] = None,
                      **more: Any) -> Conversation:
        options = _abi.mote_chat_options(context=context, official=official,
                                         chat_template=chat_template.encode() if chat_template else None)
        return Conversation(self._engine, options, self._image_tokens, **more)

    # ---- text without a chat template ----

    @overload
    def generate(self, prompt: str, *, special: bool = False, stream: Literal[False] = False,
                 **options: Unpack[Sampling]) -> Answer: ...

    @overload
    def generate(self, prompt: str, *, special: bool = False, stream: Literal[True],
                 **options: Unpack[Sampling]) -> Stream: ...

    def generate(self, prompt: str, *, special: bool = False, stream: bool = False,
                 **options: Unpack[Sampling]) -> Union[Answer, Stream]:
        """Continues a text, without a chat template. Greedy unless `temperature` is given.

        special     recognise control tokens such as <|im_start|> in the prompt; not for text of users
        """
        given = check_names(options, Sampling)
        sampling = _abi.mote_sampling()
        fill_sampling(sampling, given)
        ids = self.tokenize(prompt, special=special)
        if not ids:
            raise ArgumentError("the prompt is empty", "bad_argument")

        def run(control: Control) -> Answer:
            with self._engine.use() as engine:
                session = self._engine.own("mote_session_new", engine, None)
                try:
                    return self._continue(control, session, ids, sampling, given)
                finally:
                    self._engine.free(session)

        started = Stream(self._engine, run)
        return started if stream else started.answer

    def _continue(self, control: Control, session: int, ids: list[int], sampling: _abi.mote_sampling,
                  given: dict[str, Any]) -> Answer:
        model, n_prompt, n = self._engine.model, len(ids), 0
        context: int = lib.mote_session_context(session)
        room = context - n_prompt
        if room <= 0:
            raise ContextFullError(f"the prompt has {n_prompt} tokens and leaves no room for an answer in a context of "
                                   f"{context} tokens", "context_full")
        limit = min(given.get("max_tokens", room), room)
        sampling.generated_from = n_prompt
        stops, text, pieces = _Stops(stop_strings(given.get("stop"))), _Text(model), []
        finish: Finish = "length"

        def put(piece: str) -> None:
            if piece:
                pieces.append(piece)
                control.queue.put(Event("content", piece))

        choice = _abi.mote_choice()
        while n < limit:
            if not self._step(control, session, ids, _abi.MOTE_LOGITS_LAST):
                finish = "canceled"
                break
            call("mote_sample", session, 0, ctypes.byref(sampling), ctypes.byref(choice))
            n += 1
            if lib.mote_token_is_end(model, choice.token):
                finish = "stop"
                break
            put(stops.add(text.add(choice.token)))
            if stops.found:
                finish = "stop_text"
                break
            ids = [choice.token]
        if not stops.found:
            put(stops.add(text.add(-1)) + stops.held)
        return Answer("".join(pieces), finish=finish, usage=Usage(n_prompt, 0, n), seed=sampling.seed)

    def _step(self, control: Control, session: int, ids: Sequence[int], want: int, total: Any = None) -> bool:
        """Appends tokens. False: canceled. The caller holds the engine."""
        engine = self._engine.engine
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        work = _abi.mote_work(session, tokens, len(ids), want, None, 0, total)
        err = _abi.mote_error()
        control.on_cancel(lambda: lib.mote_cancel(engine))
        try:
            # A cancel of an earlier call that came after its last step ends this one: then it is repeated.
            for _ in range(2):
                if control.canceled:
                    return False
                status = lib.mote_step(engine, ctypes.byref(work), 1, ctypes.byref(err))
                if status != _abi.MOTE_E_CANCELED:
                    break
        finally:
            control.on_cancel(None)
        if status != _abi.MOTE_OK:
            raise failure(status, err)
        return True

    # ---- embeddings ----

    @overload  # a str is a Sequence[str], too
    def embed(  # type: ignore[overload-overlap]
            self, texts: str, *, pooling: Literal["last", "mean"] = "last", dimensions: Optional[int] = None,
            normalize: bool = True) -> list[float]: ...

    @overload
    def embed(self, texts: Sequence[str], *, pooling: Literal["last", "mean"] = "last", dimensions: Optional[int] = None,
              normalize: bool = True) -> list[list[float]]: ...

    def embed(self, texts: Union[str, Sequence[str]], *, pooling: Literal["last", "mean"] = "last",
              dimensions: Optional[int] = None, normalize: bool = True) -> Union[list[float], list[list[float]]]:
        """The embedding of a text, or of each of several.

        pooling     "last": hidden row of the last token; "mean": average over all tokens
        dimensions  only the first n numbers
        normalize   scale to length 1
        """
        if pooling not in ("last", "mean"):
            raise ValueError(f"pooling={pooling!r}: use last or mean")
        rows = [self.tokenize(text) for text in ([texts] if isinstance(texts, str) else texts)]
        if not all(rows):
            raise ArgumentError("a text to embed is empty", "bad_argument")

        def run(control: Control) -> list[list[float]]:
            return [self._embed(control, ids, pooling == "mean") for ids in rows]

        vectors = [_scaled(v[:dimensions], normalize) for v in Task(self._engine, run).result()]
        return vectors[0] if isinstance(texts, str) else vectors

    def _embed(self, control: Control, ids: list[int], mean: bool) -> list[float]:
        with self._engine.use() as engine:
            size = _describe(self._engine.model).embedding
            session = self._engine.own("mote_session_new", engine, None)
            try:
                total = (ctypes.c_double * size)()
                if not self._step(control, session, ids, _abi.MOTE_HIDDEN_SUM if mean else _abi.MOTE_HIDDEN_LAST, total):
                    raise CanceledError("the model was closed before the embedding was computed", "canceled")
                if mean:
                    return [x / len(ids) for x in total]
                row: list[float] = lib.mote_session_hidden(session, None)[:size]
                return row
            finally:
                self._engine.free(session)

    # ---- tokens ----

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Token ids of a text. `special`: recognise control tokens such as <|im_start|>."""
        data = text.encode("utf-8", "replace")
        flags = _abi.MOTE_TEXT_CONTROL if special else 0
        n = ctypes.c_size_t()
        ids = (ctypes.c_int32 * len(data))()
        with self._engine.read() as model:
            call("mote_tokenize", model, data, len(data), flags, ids, len(data), ctypes.byref(n))
        return ids[:n.value]

    def detokenize(self, ids: Sequence[int]) -> str:
        """Text of token ids."""
        with self._engine.read() as model:
            text = _Text(model)
            return "".join(map(text.add, ids)) + text.add(-1)

    # ---- about the model ----

    @property
    def info(self) -> ModelInfo:
        with self._engine.read() as model:
            info = _describe(model)
            template = _abi.mote_template_info()
            lib.mote_chat_template(model, ctypes.byref(template))
            return ModelInfo(text_of(info.name), info.parameters, info.file_bytes, info.layers, info.context,
                             info.vocabulary, info.embedding, info.vision, text_of(lib.mote_isa_name(info.isa)),
                             text_of(template.name), info.draft_head)

    def close(self) -> None:
        """Cancels running answers, waits for their ends and frees everything. A running embed() raises CanceledError."""
        cancel_all(self._engine)
        self._engine.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class _Text:
    """Text of tokens, one by one."""

    def __init__(self, model: int) -> None:
        self._model = model
        self._stream = _abi.mote_text_stream()
        self._piece = ctypes.create_string_buffer(_abi.MOTE_PIECE_BYTES)

    def add(self, token: int) -> str:
        """Text of complete characters; -1 ends the text."""
        n = lib.mote_text_next(self._model, ctypes.byref(self._stream), token, self._piece, len(self._piece))
        return sized_text(ctypes.addressof(self._piece), n)


def _describe(model: int) -> _abi.mote_model_info:
    info = _abi.mote_model_info()
    lib.mote_model_describe(model, ctypes.byref(info))
    return info


def _scaled(row: list[float], normalize: bool) -> list[float]:
    length = math.sqrt(math.fsum(x * x for x in row)) if normalize else 1.0  # sum() depends on the version
    return [x / length for x in row] if length > 0 else row
