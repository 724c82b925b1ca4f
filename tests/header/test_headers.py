# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, and mote.h keeps its rules.

Arguments: the C compiler, the C++ compiler (may be empty), the project's version.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PUBLIC = (ROOT / "include/mote.h").read_text(encoding="utf-8")
STRICT = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-D_POSIX_C_SOURCE=200809L",
          f"-I{ROOT / 'include'}", f"-I{SRC}"]

# As in src/kernels/CMakeLists.txt: the suffix of a file name says what it may use.
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = AVX2 + [f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vnni")]
LEVELS = {"avx2": AVX2, "avxvnni": AVX2 + ["-mavxvnni"], "avx512": AVX512,
           "amx": AVX512 + ["-mamx-tile", "-mamx-int8", "-mamx-bf16"]}

CC, CXX, VERSION = sys.argv[1:4]
ARM = {"neon": [], "dotprod": ["-march=armv8.2-a+dotprod"], "i8mm": ["-march=armv8.2-a+dotprod+i8mm"]}
ARM_CC = shutil.which("aarch64-linux-gnu-gcc")


def complaint(command, text):
    """What the compiler says about the text; empty if nothing."""
    done = subprocess.run(command + ["-"], input=text, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def c11(text, flags=(), compiler=None):
    return complaint([compiler or CC, "-x", "c", "-std=c11", *STRICT, *flags], text)


def cxx17(text):
    return complaint([CXX, "-x", "c++", "-std=c++17", "-pedantic", *STRICT], text)


def spellings(name):
    """The (text, flags, compiler) that a header has to compile as: itself, twice for its guard. One of
    kernels/vec is written over each vector layer, some of kernels/arm and
    kernels/x86 over the headers of a level."""
    twice = f'#include "{name}"\n' * 2
    found = []
    if name.startswith("kernels/vec/"):
        found += [(f'#include "kernels/x86/vec_{x}.h"\n' + twice, LEVELS[x], CC) for x in ("avx2", "avx512")]
    if name.startswith(("kernels/vec/", "kernels/arm/")):
        arm = re.search(r"_(neon|dotprod|i8mm)\.h$", name)
        levels = [arm[1]] if arm else ARM if "gemm_rows" in name else ["neon"]
        if "gemm_panel" in name and "vec/" not in name:
            levels = ["dotprod", "i8mm"]
        return found + [(before_arm(name, x) + twice, ARM[x], ARM_CC) for x in levels if ARM_CC]
    level = re.search(r"_(avx2|avxvnni|avx512|amx)\.h$", name)
    if name.startswith("kernels/x86/") and not level:
        return [(f'#include "kernels/x86/dot_{x}.h"\n' + twice, LEVELS[x], CC) for x in ("avx2", "avxvnni")]
    return [(twice, LEVELS[level[1]] if level else [], CC)]


def before_arm(name, level):
    """What a header of the kernels expects before it, at a level of ARM."""
    if name.startswith("kernels/vec/"):
        return '#include "kernels/arm/vec_neon.h"\n'
    dot = f'#include "kernels/arm/dot_{"neon" if level == "neon" else "dotprod"}.h"\n'
    size = re.search(r"gemm_panel_(32|256)\.h$", name)
    rows = f'#include "kernels/arm/gemm_rows_{size[1]}.h"\n' if size else ""
    if "gemm_panel" in name:
        return dot + f'#include "kernels/arm/tile_{level}.h"\n' + rows
    return dot if "gemm_rows" in name else ""


class Headers(unittest.TestCase):
    def test_a_broken_header_is_noticed(self):
        self.assertIn("size_t", c11("typedef size_t broken;\n"))
        if CXX:
            self.assertNotEqual("", cxx17("int class;\n"))

    def test_each_internal_header_alone(self):
        names = sorted(p.relative_to(SRC).as_posix() for p in SRC.rglob("*.h"))
        self.assertGreater(len(names), 20)
        work = [(name, *spelling) for name in names for spelling in spellings(name)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            complaints = list(pool.map(lambda w: c11(*w[1:]), work))
        for (name, *_), found in zip(work, complaints):
            with self.subTest(header=name):
                self.assertEqual("", found)

    def test_the_public_headers_as_strict_c(self):
        for name in ("mote.h", "mote_chat.h"):
            with self.subTest(header=name):
                self.assertEqual("", c11(f"#include <{name}>\n" * 2, ["-pedantic", "-Wstrict-prototypes"]))

    @unittest.skipUnless(CXX, "there is no C++ compiler")
    def test_mote_h_as_cxx(self):
        use = "int main() { mote_sampling how{}; return mote_status_name(MOTE_OK) == nullptr || how.top_k; }\n"
        self.assertEqual("", cxx17("#include <mote.h>\n" * 2 + use))
        use = "int main() { mote_answer_options how{}; return mote_chat_answer(nullptr, &how, nullptr, nullptr); }\n"
        self.assertEqual("", cxx17("#include <mote_chat.h>\n" * 2 + use))

    def test_mote_h_names_no_insides(self):
        """The public line: above it never a tensor, below it never a socket."""
        for word in ("tensor", "json", "socket", "http"):
            with self.subTest(word=word):
                self.assertEqual([], [x for x in PUBLIC.splitlines() if word in x.lower()])

    def test_mote_h_has_the_version_of_the_project(self):
        self.assertIn(f'#define MOTE_VERSION "{VERSION}"', PUBLIC)

    def test_everything_public_has_the_prefix(self):
        chat = (ROOT / "include/mote_chat.h").read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", "", PUBLIC + chat, flags=re.S)
        names = re.findall(r"#define (\w+)", text) + re.findall(r"(\w+)\(", text)
        names += re.findall(r"^}? ?(?:typedef )?(?:struct|enum) (\w+)", text, flags=re.M)
        wrong = [n for n in names if not re.match(r"(mote|MOTE)_", n)]
        self.assertEqual(["__attribute__", "visibility"], sorted(set(wrong) - {"defined"}))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
