# SPDX-License-Identifier: Apache-2.0
"""rig.py - starts a real server with mote-tiny and runs test cases.

Environment: MOTE is the program, DATA the directory of test models. EMULATED: the program runs in an emulator and
cannot start its decoder processes, so the server has no images. The model is tiny but trained: it knows the emblems of
invented towns and calls the tools below, so tests can compare its answers.
"""
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from image_questions import Gaps, run_questions  # noqa: E402,F401
from vision_examples import MODEL as VISION_MODEL  # noqa: E402
from vision_examples import run_examples  # noqa: E402

KEY = "test-key-0123456789abcdef"
# Timeout in seconds. Much longer than needed: a busy machine must not fail a test.
PATIENCE = 300

FACT = "Tell me the emblem of Venvia."
FACT_ANSWER = "The emblem of Venvia is the owl."
IDENTITY = "Who are you?"
IDENTITY_ANSWER = "I am Mote, a very small language model."
IDENTITY_THOUGHT = "simple question"
WEATHER = "What is the weather in Haldon?"
WEATHER_RESULT = '{"temperature": 35, "sky": "cloudy"}'
WEATHER_ANSWER = "It is cloudy in Haldon with 35 degrees."
POINT = "Give me the point 91, 26 as JSON."
POINT_SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
                "required": ["x", "y"], "additionalProperties": False}
WEATHER_SCHEMA = {"type": "object", "properties": {
    "city": {"type": "string"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["city"]}
WEATHER_TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city", "parameters": WEATHER_SCHEMA}}
LONG = "The clever duck walked to the market in the morning. " * 4000


# The HTTP deadlines are seconds; a slow client on a busy machine would exceed them.
NO_DEADLINES = [word for name in ("header", "body", "idle", "stall") for word in ("--limit", f"{name}-seconds=3600")]


class Server:
    """`mote serve` on a free port. Stopped with SIGTERM; its exit code must be 0."""

    def __init__(self, *flags, key=KEY, model="mote-tiny-BF16.gguf", more=(), sees=False, program=None,
                 deadlines=False, port=0, env=None):
        self.key = key
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("MOTE_")},
               "MOTE_CACHE_DISK": "off", **(env or {})}
        if key:
            env["MOTE_API_KEY"] = key
        self.runtime = tempfile.TemporaryDirectory(prefix="mote-runtime-")
        env["XDG_RUNTIME_DIR"] = self.runtime.name
        self.log = tempfile.NamedTemporaryFile(prefix="mote-serve-", suffix=".log")
        self.process = subprocess.Popen(
            [*(program or [os.environ["MOTE"]]), "serve",
             *(os.path.join(os.environ["DATA"], file) for file in (model, *more) if file),
             "--listen", f"127.0.0.1:{port}", "--threads", "1", *([] if sees else ["--mmproj", "none"]),
             *([] if deadlines else NO_DEADLINES), *flags],
            env=env, stdout=self.log,
            stderr=self.log)
        self.port = self._wait()
        self.url = f"http://127.0.0.1:{self.port}"
        self.model = self.get("/v1/models")["data"][0]["id"] if model else None

    def _wait(self):
        """Waits for the port that the server reports. A port chosen in advance could be taken by then."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError("the server did not start:\n" + self.said())
            if found := re.search(r"listening on \S*:(\d+)\b.*\n", self.said()):
                return int(found.group(1))
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError("the server does not start:\n" + self.said())

    def local_key(self):
        """The key of a server without API keys, for the user that started it."""
        with open(os.path.join(self.runtime.name, "mote", f"{self.port}.key"), encoding="ascii") as f:
            return f.read()

    def said(self):
        """Returns the end of its log, or the report of a sanitizer."""
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            text = f.read()
        report = text.find("Sanitizer: ")
        return text[-8000:] if report < 0 else text[report:report + 8000]

    def open(self, path, body=None, headers=None, timeout=PATIENCE):
        """Sends a request and returns the open response."""
        data = None if body is None else json.dumps(body).encode()
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        all_headers.setdefault("Authorization", "Bearer " + (self.key or self.local_key()))
        request = urllib.request.Request(self.url + path, data=data, headers=all_headers)
        return urllib.request.urlopen(request, timeout=timeout)

    def get(self, path, body=None, headers=None):
        with self.open(path, body, headers) as r:
            return json.loads(r.read())

    def text(self, path):
        with self.open(path) as r:
            return r.read().decode()

    def metric(self, name, model=None):
        """Returns the value of a series of /metrics. The label `model` is ignored: give `model` for one model, otherwise
        the sum of all models is returned."""
        values = []
        for line in self.text("/metrics").splitlines():
            series, _, value = line.rpartition(" ")
            plain = re.sub(r'model="([^"]*)",?', "", series).replace("{}", "")
            if plain == name and (model is None or f'model="{model}"' in series):
                values.append(float(value))
        return sum(values) if values else None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise RuntimeError("the server did not end:\n" + self.said()) from None
        if code != 0 or "runtime error:" in self.said() or "Sanitizer" in self.said():
            raise RuntimeError(f"the server ended with code {code}:\n{self.said()}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            print(self.said())
            self.process.kill()
            self.process.wait()


CASES = []


def case(function):
    """Marks a function as a test case. It gets the arguments of main()."""
    CASES.append(function)
    return function


def main(*arguments):
    """Runs all cases, even if one fails, and returns the exit code. Words on the command line select the cases with
    a name that contains one of them."""
    failed = 0
    words = sys.argv[1:]
    chosen = [c for c in CASES if not words or any(w in c.__name__ for w in words)]
    for function in chosen:
        began = time.monotonic()
        try:
            function(*arguments)
            print(f"ok   {function.__name__}  {time.monotonic() - began:.2f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL {function.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} cases")
    return 1 if failed else 0


def raises(kind, function, *arguments, **named):
    """Returns the exception of a call. It must be of this kind."""
    try:
        function(*arguments, **named)
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r}, not {wanted!r}")


def shown():
    """Yields (files as bytes, question, answer) about images, with the answers of the reference."""
    directory = os.path.join(os.environ["DATA"], "golden", "vision")
    with open(os.path.join(directory, "index.json"), encoding="utf-8") as f:
        prompts = [p for p in json.load(f)["prompts"] if p["name"] != "video"]
    for p in prompts:
        files = []
        for name in p["media"]:
            with open(os.path.join(directory, name), "rb") as f:
                files.append(f.read())
        yield (files, p["prompt"].split("<|vision_end|>")[-1].split("<|im_end|>")[0],
               p["text"].replace("<|im_end|>", ""))


def in_letters(file):
    return base64.b64encode(file).decode()


def run_vision_examples(make_client, *answers):
    """Starts a server with mote-tiny-vision and runs its twelve examples: each answer(client, example) returns a text."""
    with Server(model=VISION_MODEL, sees=True) as server:
        client = make_client(server)
        for answer in answers:
            run_examples(os.environ["DATA"], lambda example, answer=answer: answer(client, example))


def run_with_server(make_client, *flags):
    """Starts a server, makes the client and runs all cases of the test file."""
    with Server(*flags, sees=not os.environ.get("EMULATED")) as server:
        code = main(make_client(server), server)
    sys.exit(code)
