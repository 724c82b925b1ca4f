# SPDX-License-Identifier: Apache-2.0
"""The built libraries show the functions of the public headers, no more and no less, and need little.

Arguments: nm, readelf, the shared library, the static library.
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NM, READELF, SHARED, STATIC = sys.argv[1:5]
ALLOWED = re.compile(r"(libc|libm|libpthread|libutf8proc)\.so\.\d+")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def declared():
    text = "".join(h.read_text(encoding="utf-8") for h in (ROOT / "include").glob("*.h"))
    return sorted(re.findall(r"^MOTE_API [^;]*?\b(mote_\w+)\(", text, flags=re.M))


def defined(*command):
    """Names of global symbols that have an address: 'address type name'."""
    return sorted(m[1] for m in re.finditer(r"^[0-9a-f]+ [A-Z] (\S+)$", output(*command), flags=re.M))


class Exports(unittest.TestCase):
    def test_the_header_declares(self):
        self.assertIn("mote_model_open", declared())
        self.assertIn("mote_chat_answer", declared())
        self.assertGreater(len(declared()), 30)

    def test_the_shared_library_exports_the_header(self):
        self.assertEqual(declared(), defined(NM, "-D", "--defined-only", SHARED))

    def test_the_static_library_shows_the_header(self):
        self.assertEqual(declared(), defined(NM, "-g", "--defined-only", STATIC))

    def test_the_shared_library_needs_little(self):
        dynamic = output(READELF, "-d", SHARED)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([], [n for n in needed if not ALLOWED.fullmatch(n)])
        self.assertEqual(["libmote.so.0"], re.findall(r"\(SONAME\).*\[(.*)\]", dynamic))

    def test_no_executable_stack_and_no_text_relocations(self):
        stack = [line for line in output(READELF, "-lW", SHARED).splitlines() if "GNU_STACK" in line]
        self.assertEqual(1, len(stack))
        self.assertNotIn("E", stack[0].split()[-2])
        self.assertNotIn("TEXTREL", output(READELF, "-d", SHARED))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
