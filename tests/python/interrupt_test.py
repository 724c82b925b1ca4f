# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: a real SIGINT during prefill, decode and other calls raises KeyboardInterrupt at once. The model works after it.

Environment: DATA is the directory of test models.
"""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

MODEL = Path(os.environ["DATA"]) / "mote-tiny-Q8_0.gguf"

# A program that runs CALL, says so before and after, and then asks a question.
PROGRAM = """
import sys, time, mote
model = mote.Model({model!r}, context=65536, mmproj=None)
end = {{model.tokenize("<|im_end|>", special=True)[0]: -100, model.tokenize("<|endoftext|>", special=True)[0]: -100}}
long = "word " * 60000
try:
    {before}
    print("ready", flush=True)
    {call}
    print("complete", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(model.chat("What is 417 + 265?", temperature=0, thinking=True), flush=True)
{after}
"""

def run(call, before="pass", after="", wait=0.3):
    """Starts the program, sends SIGINT `wait` seconds after it is ready. Returns output, exit code and seconds."""
    text = PROGRAM.format(model=str(MODEL), call=call, before=before, after=after)
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = child.stdout.readline()
    assert line == "ready\n", line + child.stderr.read()
    time.sleep(wait)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    first = child.stdout.readline()
    seconds = time.monotonic() - sent
    out, err = child.communicate(timeout=120)
    return first + out, err, child.returncode, seconds


class Interrupt(unittest.TestCase):
    def check(self, call, **more):
        out, err, code, seconds = run(call, **more)
        self.assertEqual(("interrupted\n417 + 265 = 682\n", "", 0), (out, err, code))
        self.assertLess(seconds, 5)
        print(f"{call[:60]}: {seconds * 1000:.0f} ms")

    def test_prefill(self):
        self.check("model.chat(long)")
        self.check("list(model.chat(long, stream=True))")
        self.check("model.generate(long)")
        self.check("model.embed(long)")

    def test_decode(self):
        self.check("model.generate('Once', max_tokens=60000, logit_bias=end)")
        self.check("[0 for _ in stream]", before="stream = model.generate('Once', max_tokens=60000, logit_bias=end, "
                   "stream=True); next(stream)")
        self.check("model.chat('Tell me a story.', max_tokens=60000, logit_bias=end, loop_guard=False)")

    def test_between_two_pieces(self):
        """The reader is busy itself: the exception is its own, and the end of the loop cancels the stream."""
        start = "model.generate('Once', max_tokens=60000, logit_bias=end, stream=True)"
        self.check(f"for piece in {start}: time.sleep(60)")
        self.check(f"with {start} as stream: next(stream); time.sleep(60)")

    def test_not_caught(self):
        """Like any Python program: a traceback, and the signal as exit status."""
        text = f"import mote\nm = mote.Model({str(MODEL)!r}, context=65536)\nprint('ready', flush=True)\nm.chat('word ' * 60000)"
        child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual("ready\n", child.stdout.readline())
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        err = child.communicate(timeout=60)[1]
        self.assertIn("KeyboardInterrupt", err)
        self.assertEqual(-signal.SIGINT, child.returncode)


if __name__ == "__main__":
    # A shell starts background jobs with SIGINT ignored, and so would be the children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
