# SPDX-License-Identifier: Apache-2.0
"""The Python examples of README.md, python/README.md and docs/python.md run with the installed module.

Blocks ```python of a page run in order, in one program. A block ```text after one is what it prints; `...` stands for any
text, a line `...` for any lines. The model of the pages is mote-tiny-vision, in a cache of Hugging Face's layout.

Environment: DATA is the directory of test models.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ["DATA"]) / "mote-tiny-vision"
REVISION = "0123456789" * 4
FILES = {"Qwen3.5-0.8B-Q8_0.gguf": "mote-tiny-vision-Q4_K_M.gguf", "mmproj-F16.gguf": "mmproj-mote-tiny-vision-BF16.gguf"}
MARK = "\x01"


def install(home):
    """qwen3.5:0.8b as `mote pull` leaves it."""
    repository = Path(home, "hub/models--unsloth--Qwen3.5-0.8B-GGUF")
    snapshot = repository / "snapshots" / REVISION
    for directory in (snapshot, repository / "blobs", repository / "refs"):
        directory.mkdir(parents=True)
    (repository / "refs/main").write_text(REVISION, encoding="ascii")
    for name, source in FILES.items():
        data = (DATA / source).read_bytes()
        blob = repository / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (snapshot / name).symlink_to(os.path.relpath(blob, snapshot))


def blocks_of(page):
    """[(program, output or None)] of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", text, re.S | re.M)


def matches(shown, printed):
    lines = shown.rstrip("\n").split("\n")
    pattern = "".join("(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n" for line in lines)
    return re.fullmatch(pattern, printed) is not None


class Examples(unittest.TestCase):
    maxDiff = None

    def run_page(self, page):
        blocks = blocks_of(page)
        self.assertTrue(blocks, page)
        with tempfile.TemporaryDirectory(prefix="mote-docs-") as work:
            install(work)
            shutil.copy(ROOT / "docs/four-stars.png", work)
            shutil.copy(DATA / "examples/count-1.png", Path(work, "photo.jpg"))
            program = "".join(f"{block}\nprint({MARK!r}, end='')\n" for block, _ in blocks)
            env = {**os.environ, "HF_HOME": work, "HOME": work, "MOTE_CONFIG": "/dev/null", "MOTE_NO_NETWORK": "1"}
            done = subprocess.run([sys.executable, "-c", program], cwd=work, env=env, capture_output=True, text=True,
                                  timeout=300, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr), page)
        outputs = done.stdout.split(MARK)[:-1]
        self.assertEqual(len(blocks), len(outputs))
        for (block, shown), printed in zip(blocks, outputs):
            if shown:
                self.assertTrue(matches(shown, printed), f"{page}\n{block}--- shown\n{shown}--- printed\n{printed}")
        return blocks, outputs

    def test_guide(self):
        self.run_page("docs/python.md")

    def test_readme_of_the_package(self):
        self.run_page("python/README.md")

    def test_readme(self):
        blocks, outputs = self.run_page("README.md")
        self.assertEqual(1, len(blocks))
        lines = blocks[0][0].splitlines()
        self.assertLessEqual(len(lines), 10)
        self.assertGreater(len(outputs[0].strip()), 20)


if __name__ == "__main__":
    unittest.main()
