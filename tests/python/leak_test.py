# SPDX-License-Identifier: Apache-2.0
"""leak_test.py [N] - N generations (1,000), most of them canceled: no memory, descriptor, thread or session is lost.

Compares the process before and after them. Before, all sessions are filled once, so that every page of the KV cache is in
use, and each kind of generation runs a few times. malloc uses one arena: with several, memory that
one thread frees stays with that thread's arena for a while, and the resident memory says less. MOTE_TEST_SCALE scales N.
Prints what it measured. Environment: DATA is the directory of test models.
"""
import gc
import os
import sys
import threading
import time
from pathlib import Path

import mote

DATA = Path(os.environ["DATA"])
LIMIT = 1 << 20  # bytes that the process may grow: fragments. A leak of 1 KiB per generation is found


def generations(model):
    """Ways to start and end a generation; each is one."""
    talk = model.conversation()

    def read(stream, n):
        for _ in range(n):
            next(stream, None)
        return stream

    def failing():
        try:
            model.chat("Hello", temperature=-1)
        except mote.ArgumentError:
            pass

    def conversation():
        with model.conversation(system="Be kind.") as other:
            other.send("Hello", max_tokens=8, stream=True).close()

    def dropped_conversation():
        model.conversation().send("Hello", max_tokens=8, stream=True).cancel()

    def image():
        ppm = b"P6\n256 256\n255\n" + os.urandom(4) * (256 * 256 * 3 // 4)  # another one each time
        with model.chat("What?", images=[ppm], max_tokens=50, stream=True) as stream:
            read(stream, 1)

    return [
        lambda: model.chat("Tell me a story.", max_tokens=200, stream=True).close(),  # before or in prefill
        lambda: read(model.chat("Tell me a story.", max_tokens=200, stream=True), 2).close(),
        lambda: read(model.chat("Tell me a story.", max_tokens=200, stream=True), 1),  # dropped
        lambda: model.chat("word " * 2000, max_tokens=5, stream=True).close(),
        lambda: model.chat("word " * 1500, max_tokens=5, stream=True).cancel(),
        lambda: model.chat("A person", json_schema={"type": "object"}, max_tokens=30, stream=True).close(),
        lambda: read(model.generate("Once upon a time", max_tokens=200, stream=True), 3).close(),
        lambda: model.generate("Once upon a time", max_tokens=200, stream=True),  # dropped
        lambda: talk.send("Hello", max_tokens=10, stream=True).close(),
        lambda: talk.undo(),
        lambda: model.chat("What is 1 + 1?", thinking=False, max_tokens=10),  # complete
        lambda: model.embed("hello world"),
        failing, conversation, dropped_conversation, image,
    ]


def fill(model):
    """Uses all memory of all sessions: two conversations, chat() and generate()."""
    long = "word " * 2400
    with model.conversation() as first, model.conversation() as second:
        for send in (first.send, second.send, model.chat, model.generate):
            send(long, max_tokens=1)


def measure(model=None):
    if model:
        model.chat("Hello", max_tokens=2)  # waits for canceled ones
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    end = time.monotonic() + 10  # a thread that has given its answer is not gone yet
    while threading.active_count() > 1 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.1)
    return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), threading.active_count()


def main(n):
    path = DATA / "mote-tiny-vision/mote-tiny-vision-Q4_K_M.gguf"
    with mote.Model(path, context=2560, sessions=2) as model:
        fill(model)
        ways = generations(model)
        for i in range(20 * len(ways)):
            ways[i % len(ways)]()
        before = measure(model)
        for i in range(n):
            ways[i % len(ways)]()
        after = measure(model)
    print(f"{n} generations: resident {before[0]} to {after[0]} bytes, descriptors {before[1]} to {after[1]}, "
          f"threads {before[2]} to {after[2]}")
    end = measure()
    print(f"closed: resident {end[0]} bytes, descriptors {end[1]}, threads {end[2]}")
    if after[0] - before[0] > LIMIT or after[1:] != before[1:] or end[2] != 1:
        print("something leaks")
        return 1
    return 0


if __name__ == "__main__":
    if os.environ.get("MALLOC_ARENA_MAX") != "1":
        os.execve(sys.executable, [sys.executable, "-B", *sys.argv], {**os.environ, "MALLOC_ARENA_MAX": "1"})
    scale = int(os.environ.get("MOTE_TEST_SCALE", "100"))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else max(200, 1000 * scale // 100)))
