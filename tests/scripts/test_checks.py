# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks in scripts/: each planted fault must be caught, and only it.

Every test starts from a copy of the sources, adds a file with one fault and expects
a line that names this file and this fault. What the check says of other files does
not matter. A small sound tree shows that each check is able to pass.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("include", "src", "scripts", "cmake", "examples")
A_FEW = ("include", "scripts", "cmake")
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"


class Tree:
    """A temporary tree that starts with copies of these directories of the sources."""

    def __init__(self, copied):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-scripts-")
        self.root = Path(self.directory.name)
        for name in copied:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.root / name,
                                ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / ".clang-format", self.root)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text, encoding="utf-8", newline="")

    def run(self, check):
        """(exit code, lines) of a check of the real tree, looking at this one."""
        run = subprocess.run([sys.executable, "-B", str(ROOT / "scripts" / check), str(self.root)],
                             capture_output=True, text=True, check=False)
        if run.stderr:
            raise AssertionError(f"{check} itself failed:\n{run.stderr}")
        return run.returncode, run.stdout.splitlines()


class Planted(unittest.TestCase):
    """Base of the tests: plant, run, compare."""

    check = ""
    copied = COPIED

    def setUp(self):
        self.tree = Tree(self.copied)
        self.addCleanup(self.tree.directory.cleanup)

    def faults(self, name, text):
        """(exit code, what the check says of this file), with the file planted for this one run."""
        path = self.tree.root / name
        self.assertFalse(path.exists(), f"{name} is there already")
        self.tree.write(name, text)
        code, lines = self.tree.run(self.check)
        path.unlink()
        return code, [line for line in lines if line.startswith(f"{name}:")]

    def caught(self, name, text, expect):
        code, lines = self.faults(name, text)
        self.assertTrue(any(expect in line for line in lines),
                        f"not caught: {expect!r} in {name}\n" + "\n".join(lines))
        self.assertEqual(code, 1)

    def passes(self, name, text):
        self.assertEqual(self.faults(name, text)[1], [])


class Floors(Planted):
    check = "check_floors"

    def test_upward(self):
        self.caught("src/base/planted.c", SPDX + '#include "gguf/gguf.h"\n',
                    "base (floor 0) must not include gguf (floor 2)")

    def test_upward_with_odd_spelling(self):
        self.caught("src/quant/planted.h", SPDX + '\n  #  include\t"kernels/kernels.h"\n',
                    "quant (floor 1) must not include kernels (floor 2)")

    def test_sideways(self):
        self.caught("src/tok/planted.c", SPDX + '#include "sample/sample.h"\n',
                    "tok (floor 3) must not include sample (floor 3)")

    def test_engine_from_model(self):
        self.caught("src/model/planted.c", SPDX + '#include "engine/engine.h"\n',
                    "model (floor 4) must not include engine (floor 5)")

    def test_command_line_sees_no_tensor(self):
        self.caught("src/cli/planted.c", SPDX + '#include "kernels/kernels.h"\n',
                    "cli (floor 27) must not include kernels (floor 2)")

    def test_command_line_may_read_files(self):
        self.passes("src/cli/inspect/planted.c", SPDX + '#include "gguf/gguf.h"\n#include <mote.h>\n')
        self.caught("src/cli/run/planted.c", SPDX + '#include "gguf/gguf.h"\n', "cli/run (floor 26) must not include gguf")

    def test_downward_is_allowed(self):
        self.passes("src/model/planted.c", SPDX + '#include "gguf/gguf.h"\n#include "base/mem.h"\n')

    def test_commented_out_is_not_an_include(self):
        self.passes("src/base/planted.c", SPDX + '/*\n#include "gguf/gguf.h"\n*/\n')

    def test_directory_without_a_floor(self):
        self.caught("src/util/planted.c", SPDX, "no floor")

    def test_directories_of_the_server(self):
        for directory, header, expect in (
                ("http", "server/auth/access.h", "server/http (floor 12) must not include server/auth (floor 13)"),
                ("http", "server/server.h", "server/http (floor 12) must not include server (floor 21)"),
                ("vision", "server/request/request.h", "server/vision (floor 13) must not include server/request"),
                ("vision", "server/auth/access.h", "server/vision (floor 13) must not include server/auth (floor 13)"),
                ("api/openai", "server/api/routes.h", "must not include server/api (floor 20)"),
                ("api/ollama", "server/api/anthropic/anthropic.h", "must not include server/api/anthropic (floor 19)"),
                ("http", "server/attic/planted.h", "in a directory without a floor"),
                ("http", "engine/engine_int.h", "must not include engine (floor 5)")):
            with self.subTest(expect):
                self.caught(f"src/server/{directory}/planted.c", SPDX + f'#include "{header}"\n', expect)
        self.caught("src/server/attic/planted.c", SPDX, "no floor")
        self.passes("src/server/api/planted.c", SPDX + '#include "server/api/openai/openai.h"\n'
                    '#include "server/http/exchange.h"\n#include "base/mem.h"\n')

    def test_scheduler_sees_no_server(self):
        self.caught("src/sched/planted.c", SPDX + '#include "server/core/log.h"\n',
                    "sched (floor 10) must not include server/core (floor 11)")
        self.passes("src/cli/planted.c", SPDX + '#include "server/server.h"\n')

    def test_the_tree_passes(self):
        code, lines = self.tree.run(self.check)
        self.assertEqual(code, 0, "\n".join(lines))

    def test_an_example_may_read_images(self):
        self.passes("examples/c-app/planted.c", SPDX + "#include <mote.h>\n#include <png.h>\n")
        self.caught("examples/planted.c", SPDX + "#include <png.h>\n", "a user of mote does not have png.h")

    def test_path_in_a_table_that_is_gone(self):
        shutil.rmtree(self.tree.root / "src/gguf")
        (self.tree.root / "src/server/http/http_parser.c").unlink()
        lines = self.tree.run(self.check)[1]
        self.assertIn("scripts/check_floors:1: src/gguf does not exist", lines)
        self.assertTrue(any("<llhttp.h> names src/server/http/http_parser.c" in line for line in lines))

    def test_the_page_has_the_same_floors(self):
        page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
        for text, expect in (
                (page.replace("| 2 | `gguf/` |", "| 3 | `gguf/` |"), "src/gguf has the floor 3 in the table and 2 in"),
                (page.replace("| 3 | `nn/` |", "| | nn |"), "src/nn has the floor None in the table and 3 in"),
                (page.replace("| 0 | `base/` |", "| 0 | `attic/` |"), "src/attic has the floor 0 in the table and None in"),
                (page.replace("`examples/`", "examples"), "does not describe examples/")):
            with self.subTest(expect):
                self.assertNotEqual(text, page)
                self.caught("ARCHITECTURE.md", text, expect)
        self.passes("ARCHITECTURE.md", page)

    def test_include_without_directory(self):
        self.caught("src/base/planted.c", SPDX + '#include "mem.h"\n', "write the directory")

    def test_third_party_elsewhere(self):
        self.caught("src/tok/planted.c", SPDX + "#include <utf8proc.h>\n", "belongs to")
        self.caught("src/gguf/planted.c", SPDX + "#include <xxhash.h>\n", "belongs to")

    def test_unknown_system_header(self):
        self.caught("src/engine/planted.c", SPDX + "#include <sys/shm.h>\n", "on no list")

    def test_included_source(self):
        self.caught("tests/unit/planted.c", SPDX + '#include "base/mem.c"\n', "includes a source")

    def test_example_with_insides(self):
        self.caught("examples/planted.c", SPDX + '#include "base/mem.h"\n', "a user of mote")

    def test_name_used_twice(self):
        self.caught("src/quant/mem.c", SPDX, "the file name is taken by src/base/mem.c")

    def test_cycle(self):
        self.tree.write("src/base/ring_a.h", SPDX + '#include "base/ring_b.h"\n')
        self.tree.write("src/base/ring_b.h", SPDX + '#include "base/ring_c.h"\n')
        self.passes("src/base/ring_c.h", SPDX)
        self.caught("src/base/ring_c.h", SPDX + '#include "base/ring_a.h"\n', "a cycle of includes")


class Text(Planted):
    """Looks at one file after the other, so it is quick with a few of them."""

    copied = A_FEW
    check = "check_text"

    def test_characters(self):
        for text, expect in (("int\ta;\n", "a tab"), ("int a; \n", "blanks at the end"),
                             ("int a;\r\n", "a carriage return"),
                             ("int a\u200b;\n", "U+200B"), ("int a;\u00a0\n", "U+00A0"),
                             ("/* \u202e */\n", "U+202E"),
                             ("int a;", "no newline at the end")):
            with self.subTest(expect):
                self.caught("src/base/planted.c", SPDX + text, expect)

    def test_not_utf8(self):
        self.caught("docs/planted.md", b"caf\xe9\n", "not UTF-8")

    def test_binary_file(self):
        self.caught("a.out", b"\x7fELF\2\1\1\0", "a binary file")

    def test_licence(self):
        self.caught("src/base/planted.c", "int a;\n", "SPDX-License-Identifier")
        self.caught("scripts/planted", "#!/bin/sh\necho\n", "SPDX-License-Identifier")

    def test_calls(self):
        for call in ("malloc(1)", "free (p)", "exit(1)", "fprintf(stderr, x)", "getenv(x)",
                     "expf(x)", "pow(x, 2)", "tanh(x)", "strcpy(a, b)"):
            with self.subTest(call):
                self.caught("src/nn/planted.c", SPDX + f"void f(void)\n{{\n    {call};\n}}\n",
                            call.split("(")[0].strip() + "()")

    def test_calls_that_only_look_alike(self):
        self.passes("src/nn/planted.c", SPDX + "/* malloc(1) */\nvoid mem_free(void *);\n"
                    'static const char *s = "exit(1)";\nvoid g(t *k) { k->exp(1); fn_expf(2); }\n')

    def test_command_line_may_print(self):
        self.passes("src/cli/planted.c", SPDX + "int f(void)\n{\n    printf(x);\n}\n")
        self.caught("src/cli/planted.c", SPDX + "int f(void)\n{\n    malloc(1);\n}\n", "malloc()")

    def test_estimates(self):
        self.caught("src/kernels/x86/planted.c", SPDX + "int x = _mm256_rsqrt_ps(y);\n",
                    "not IEEE")

    def test_loose_maths(self):
        self.caught("cmake/planted.cmake", "add_compile_options(-f" "fast-math)\n",
                    "change results")
        self.caught("src/nn/planted.c", SPDX + "#pragma STDC FP_CONTRACT ON\n", "change results")

    def test_words(self):
        self.caught("docs/planted.md", "see /" "work/main/x\n", "a path of one machine")
        self.caught("docs/planted.md", "in /" "home/somebody/x\n", "a path of one machine")
        self.caught("docs/planted.md", "from https:/" "/registry.elsewhere.org/x\n", "a web address")

    def test_words_that_only_look_alike(self):
        self.passes("docs/planted.md", "prefill/workers, ~/" "work/x, a/root/b\n")

    def test_data_is_left_alone(self):
        self.passes("tests/data/planted.txt", "a\tb \r\n")


class Words(Planted):
    copied = A_FEW
    check = "check_words"

    def test_words(self):
        for text, expect in (("/* a film */", '"film": write video'),
                             ("int mote_picture_new(void);", '"picture": write image'),
                             ("int aPictureTower;", '"tower": write vision encoder'),
                             ("enum { JOB_SEATED };", '"seated": write slot'),
                             ("/* Nobody reads it. */", '"nobody"'),
                             ("/* the job keeps his place */", '"his"')):
            with self.subTest(text):
                self.caught("src/base/planted.c", SPDX + text + "\n", expect)

    def test_every_directory_is_read(self):
        for name in ("tests/unit/planted.c", "scripts/planted", "bench/planted.py", "tools/planted", "CMakeLists.txt",
                     "cmake/planted.cmake", ".ci/run", "deploy/planted.conf"):
            with self.subTest(name):
                self.caught(name, "a film\n", '"film": write video')

    def test_literals_of_tests_are_data(self):
        self.tree.write("tests/unit/planted.c", SPDX + 'const char *prompt = "Who are you?"; /* a film */\n')
        _, lines = self.tree.run("check_words")
        found = [line for line in lines if line.startswith("tests/unit/planted.c")]
        self.assertEqual(len(found), 1, found)
        self.assertIn('"film"', found[0])

    def test_phrases(self):
        for text, expect in (("it is put back", '"put back": write preempt'), ("int n_put_back;", '"put back"'),
                             ("the form of the answer", "response format"), ("asked for it", '"asked for"'),
                             ("looked at", '"looked"'), ("while reading the prompt", "prefill"),
                             ("a session who waits", '"who"')):
            with self.subTest(text):
                self.caught("docs/planted.md", text + "\n", expect)

    def test_names(self):
        for text, expect in (("ask_wrong(a)", '"ask_wrong": write request_'), ("answering *w", "generation_"),
                             ("mote_step_leave", "mote_step_abort"), ("mote_queue_length", "GET /metrics"),
                             ("--positions 10", "--kv-tokens")):
            with self.subTest(text):
                self.caught("docs/planted.md", text + "\n", expect)

    def test_file_name(self):
        self.caught("src/base/film_planted.c", SPDX, '"film" in the path')

    def test_ordinary_english(self):
        self.passes("docs/planted.md", "Users who ask a question, a form, look up a word, reading a file, the rest,\n"
                    "read the prompt from a file, filmstrip, insight, task_form, answering requests\n")

    def test_files_that_are_not_read(self):
        self.passes("CHANGELOG.md", "`film` is `video` now\n")
        self.passes("tests/data/chat/planted.jsonl", "a film\n")

    def test_standard_input(self):
        for text, code, expect in (("a video\n", 0, "words: "), ("one\na film\n", 1, 'stdin:2: "film"')):
            run = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/check_words"), "--stdin"],
                                 input=text, capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stderr), (code, ""))
            self.assertIn(expect, run.stdout)

    def test_count(self):
        run = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/check_words"), "--stdin", "--count"],
                             input="films, a film, a door\n", capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertEqual([line.split()[:2] for line in run.stdout.splitlines()],
                         [["2", "film"], ["1", "door"], ["3", "in"]])


class Format(Planted):
    check = "check_format"

    def test_wrong_indent(self):
        if shutil.which("clang-format-14") is None:
            self.skipTest("clang-format-14 is not installed")
        self.caught("src/base/planted.c", SPDX + "int f(void) {\n  return 1; }\n",
                    "run clang-format-14")


class RepoSize(Planted):
    check = "check_repo_size"

    def test_large_file(self):
        self.caught("docs/planted.md", "x" * 300_001, "more than 300,000")
        self.caught("src/base/planted.xz", "x" * 300_001, "more than 300,000")

    def test_archive_of_test_data(self):
        self.passes("tests/data/planted.tar.xz", "x" * 300_001)

    def test_many_files(self):
        self.assertNotIn("other files", "\n".join(self.tree.run(self.check)[1]))
        for i in range(41):
            with open(self.tree.root / f"part{i}", "wb") as f:
                f.truncate(299_000)
        code, lines = self.tree.run(self.check)
        self.assertEqual(code, 1)
        self.assertIn("other files", "\n".join(lines))

    def test_much_data(self):
        (self.tree.root / "tests/data").mkdir(parents=True)
        for i, size in enumerate((62_000_000, 1_000_001)):
            self.assertNotIn("archives", "\n".join(self.tree.run(self.check)[1]))
            with open(self.tree.root / f"tests/data/planted{i}.xz", "wb") as f:
                f.truncate(size)
        code, lines = self.tree.run(self.check)
        self.assertEqual(code, 1)
        self.assertIn("archives", "\n".join(lines))


class Docs(Planted):
    check = "check_docs"
    copied = ("src/base",)

    def setUp(self):
        super().setUp()
        self.tree.write("src/store/planted.c", 'getenv("MOTE_MODELS")\n')
        self.tree.write("README.md", "[a](docs/a.md)\n")
        self.tree.write("docs/a.md", "`src/base/mem.c`, [b](b.md#part), [home](../README.md)\n")
        self.tree.write("docs/b.md", "# b\n## part\n")

    def test_reached_by_way_of_another(self):
        # The README of src/base links to pages that this small tree does not have.
        lines = self.tree.run(self.check)[1]
        self.assertEqual([line for line in lines if not line.startswith("src/")], [])

    def test_what_is_not_there(self):
        self.caught("examples/planted.md", "[x](nothing.md)\n", "link to nothing.md")
        self.caught("examples/planted.md", "as `src/base/nothing.c` says\n", "src/base/nothing.c does not exist")

    def test_forgotten(self):
        self.caught("docs/planted.md", "# forgotten\n", "not reachable")

    def test_not_on_the_site(self):
        self.tree.write("mkdocs.yml", "nav:\n  - A: docs/a.md\n")
        self.assertIn("docs/b.md:1: add it to `nav` in mkdocs.yml", self.tree.run(self.check)[1])
        self.tree.write("mkdocs.yml", "nav:\n  - A: docs/a.md\n  - docs/b.md\n")
        self.assertFalse([line for line in self.tree.run(self.check)[1] if "mkdocs.yml" in line])

    def test_where_table(self):
        self.passes("ARCHITECTURE.md", "| what | where | name |\n|---|---|---|\n"
                    "| allocator | `src/base/mem.c` | `mem_free` |\n"
                    "| allocator | `src/base/mem.h` | `mem_free`, `mem_new()` |\n| not a path | `mem` | `x` |\n")
        self.caught("ARCHITECTURE.md", "| allocator | `src/base/mem.c` | `mem_fre` |\n",
                    "ARCHITECTURE.md:1: src/base/mem.c does not contain mem_fre")
        self.caught("ARCHITECTURE.md", "| allocator | `src/base/mem.c` | `mem_free`, `nothing()` |\n",
                    "does not contain nothing")
        self.caught("ARCHITECTURE.md", "| allocator | `base/mem.c` | `mem_free` |\n",
                    "base/mem.c does not exist")
        self.passes("ARCHITECTURE.md", "| 1 | `src/base/mem.c`: `mem_free` | frees |\n")
        self.caught("ARCHITECTURE.md", "| 1 | `src/base/mem.c`: `mem_fre` | frees |\n",
                    "src/base/mem.c does not contain mem_fre")

    def test_headings(self):
        self.passes("examples/planted.md", "# The `first` part, again\n[x](#the-first-part-again) [b](../docs/b.md#b)\n")
        self.caught("examples/planted.md", "# first\n[x](#second)\n", "examples/planted.md has no heading #second")
        self.caught("examples/planted.md", "[x](../docs/b.md#a)\n", "../docs/b.md has no heading #a")

    def test_variables(self):
        self.passes("examples/planted.md", "`MOTE_MODELS`, MOTE_*\n")
        self.caught("examples/planted.md", "set MOTE_MODEL_DIR\n", "no source has the variable MOTE_MODEL_DIR")

    def test_long_lines(self):
        long = "word " * 24 + "x"
        self.passes("CHANGELOG.md", f"{long[1:]}\n| {long} |\n```\n{long}\n```\n")
        self.passes("examples/planted.md", f"{long}\n")
        self.caught("CHANGELOG.md", f"short\n{long}\n", "CHANGELOG.md:2: 121 characters; at most 120")


@unittest.skipUnless(os.environ.get("MOTE"), "MOTE does not name the program")
class Commands(unittest.TestCase):
    """Pages with one command that the real program does not have."""

    def check(self, text, name="docs/planted.md"):
        tree = Tree(())
        self.addCleanup(tree.directory.cleanup)
        tree.write(name, text)
        run = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/check_commands"), os.environ["MOTE"],
                              str(tree.root)], capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def test_faults(self):
        for text, expect in (
                ("`mote sreve`", "planted.md:1: there is no command mote sreve"),
                ("a\n```sh\nmote run m \\\n    --imgae x\n```\n", "planted.md:3: mote run has no flag --imgae"),
                ("    git diff | build/mote run m -z 3\n", "mote run has no flag -z"),
                ('    eval "$(mote env claude --modle x)"\n', "mote env has no flag --modle"),
                ("`mote serve --kv q5_1`", "mote serve --kv is f16|f32|q8_0|q4_0, not q5_1"),
                ("`mote run m --kv=q5_1`", "mote run --kv=q5_1 is f16|f32|q8_0|q4_0, not q5_1"),
                ("with `--no-such-flag N`", "no command has the flag --no-such-flag")):
            with self.subTest(expect):
                code, output = self.check(text)
                self.assertEqual(code, 1, output)
                self.assertIn(expect, output)

    def test_sound(self):
        for name, text in (
                ("docs/a.md", "`mote ls`, `mote COMMAND`, `mote run m --num-ctx 9 | less --no-such`, mote sreve\n"
                              "```console\n$ HF_HOME=/x mote pull 'a b' --jobs 2 # mote is fast\nmote: 3 files\n```\n"),
                ("docs/a.md", "`--kv-tokens N`, `mote logits m [--top 5] -- --text`, `build/mote x.gguf`\n"),
                ("tools/README.md", "`--no-such-flag`\n"), ("CHANGELOG.md", "`mote sreve`\n")):
            with self.subTest(text):
                self.assertEqual(self.check(text, name)[0], 0)


@unittest.skipUnless(os.environ.get("MOTE"), "MOTE does not name the program")
class Notice(unittest.TestCase):
    """NOTICE with one fault, compared with the real program and sources."""

    def faults(self, old, new):
        tree = Tree(("src",))
        self.addCleanup(tree.directory.cleanup)
        text = (ROOT / "NOTICE").read_text(encoding="utf-8")
        self.assertEqual(len(re.findall(old, text)), 1)
        tree.write("NOTICE", re.sub(old, new, text))
        for name in ("tests/data", *(f"third_party/{path.name}" for path in (ROOT / "third_party").iterdir())):
            (tree.root / name).mkdir(parents=True)
        run = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/check_notice"), os.environ["MOTE"],
                              str(tree.root)], capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, 1)
        return [line.split(": ", 1)[1] for line in run.stdout.splitlines()]

    def test_faults(self):
        for old, new, expect in (
                (r"\n  libuv [^\n]*", "", "libuv is linked and not listed"),
                (r"\n  llhttp  [^\n]*", "", "llhttp is linked and not listed"),
                (r"\n  giflib ", "\n  libtiff  4.5.0  MIT  TIFF files\n  giflib ", "libtiff is listed and not linked"),
                (r"2\.36  ", "LGPL  ", "glibc has no version"),
                (r"(\n  libedit +\S+)[^\n]*", r"\1", "libedit has no licence"),
                (r"In third_party/axe-core, unchanged", "Unchanged", "third_party/axe-core is not mentioned"),
                (r"In third_party/llhttp,", "In third_party/llhttp9,", "third_party/llhttp9 does not exist")):
            with self.subTest(expect):
                self.assertEqual(self.faults(old, new), [expect])


@unittest.skipUnless(os.environ.get("MOTE"), "MOTE does not name the program")
class Fast(unittest.TestCase):
    """The table of fast tests, compared with the build that the program belongs to."""

    def faults(self, table):
        tree = Tree(())
        self.addCleanup(tree.directory.cleanup)
        tree.write("src/base/a.c", SPDX)
        tree.write("tests/fast.cmake", table)
        run = subprocess.run([sys.executable, "-B", str(Path(__file__).parent / "test_fast.py"),
                              str(Path(os.environ["MOTE"]).parent), str(tree.root)],
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def test_table(self):
        self.assertEqual(self.faults("mote_fast(base unit_base\n    unit_base_mem)\n"), (0, ""))
        for table, expect in (("", "src/base has no row"), ("mote_fast(base)\n", "a row without tests"),
                              ("mote_fast(base unit_nothing)\n", "there is no test unit_nothing"),
                              ("mote_fast(base kernel_check)\n", "kernel_check lacks the label"),
                              ("mote_fast(base unit_base)\nmote_fast(bass unit_base)\n", "src/bass has a row and no")):
            with self.subTest(expect):
                code, output = self.faults(table)
                self.assertIn(expect, output)
                self.assertEqual(code, 1)


class Recording(unittest.TestCase):
    """record_terminal follows what a program does to a terminal."""

    def texts(self, *options):
        with tempfile.TemporaryDirectory(prefix="mote-record-") as build:
            (Path(build) / "data").mkdir()
            subprocess.run([sys.executable, "-B", str(ROOT / "scripts/record_terminal"), "-o", f"{build}/t.svg",
                            *options, build,
                            "printf 'abc\\rX\\033[31mred\\033[0m \\303\\244\\n12345\\r\\033[Kend<>\\n'", "tty"],
                           capture_output=True, check=True)
            root = xml.etree.ElementTree.parse(f"{build}/t.svg").getroot()
        return [(node.text, node.get("style", "")) for node in root.iter() if node.tag.endswith("}text")]

    def test_last_frame(self):
        texts = self.texts("--static")
        self.assertEqual([text for text, _ in texts if text != "$"][1:5], ["X", "red", "\u00e4", "end<>"])
        self.assertIn("fill:#ff7b72", dict(texts)["red"])
        self.assertTrue(texts[-1][0].startswith("/dev/"), "the program has a terminal")
        self.assertNotIn("animation", "".join(style for _, style in texts))

    def test_animation(self):
        self.assertIn("animation-delay", dict(self.texts())["red"])


class Systems(Planted):
    check = "check_systems"

    def test_the_tree_passes(self):
        code, lines = self.tree.run(self.check)
        self.assertEqual(code, 0, "\n".join(lines))

    def test_faults(self):
        for text, expect in (
                ("#ifdef __linux__\n#endif\n", "planted.c:2: __linux__ is a macro"),
                ("#if defined( __APPLE__ )\n#endif\n", "__APPLE__ is a macro"),
                ("#define _GNU_SOURCE\n", "_GNU_SOURCE is a macro"),
                ("#  include <linux/futex.h>\n", "<linux/futex.h> is a header"),
                ("#include <sys/prctl.h>\n", "<sys/prctl.h> is a header"),
                ("#include <mach/mach.h>\n", "<mach/mach.h> is a header"),
                ("int f(void)\n{\n    return accept4 (1, 0, 0, 0);\n}\n", "planted.c:4: accept4() is a call"),
                ("int f(void)\n{\n    return !!memmem(a, 1, b, 1);\n}\n", "memmem() is a call"),
                ("int f = socket(1, SOCK_STREAM | SOCK_CLOEXEC, 0);\n", "SOCK_CLOEXEC is a constant"),
                ("char *f = realpath(a, b);\n", "realpath() needs #define _XOPEN_SOURCE"),
                ("long f = info->st_mtim.tv_sec;\n", "st_mtim is a constant"),
                ('const char *f = "/proc/self/exe";\n', '"/proc/self/exe" is a file of Linux'),
                ('const char *f = "%s/sys/x";\n', '"%s/sys/x" is a file of Linux'),
                ('const char *f = "/sys";\n', '"/sys" is a file of Linux')):
            with self.subTest(expect):
                self.caught("src/tok/planted.c", SPDX + text, expect)

    def test_files_of_one_system(self):
        for name in ("src/tok/planted_linux.c", "src/tok/planted_macos.c"):
            self.passes(name, SPDX + "#include <sys/prctl.h>\n#ifdef __linux__\n#endif\n")
        self.caught("src/tok/planted_linux.h", SPDX + "#ifdef __linux__\n#endif\n", "macro of one system")

    def test_what_is_not_a_call(self):
        self.passes("src/tok/planted.c", SPDX + '/* accept4(), "/proc/x", __linux__ */\n'
                    'const char *names[] = {"dup3", "accept4(", "a /proc/x"};\n'
                    "int x = s.clone(1) + s->splice(2) + my_syscall(3) + st_mtime;\n")

    def test_a_listed_file_that_is_gone(self):
        (self.tree.root / "src/base/ram.c").unlink()
        self.assertIn("scripts/check_systems:1: src/base/ram.c does not exist", self.tree.run(self.check)[1])


class Sound(unittest.TestCase):
    """A small sound tree that every check must pass, so that none fails always. check_floors wants
    every directory of its tables; its own tests run it on a copy of the sources."""

    def test_all_pass(self):
        tree = Tree(("scripts",))
        self.addCleanup(tree.directory.cleanup)
        tree.write("include/mote.h", SPDX + "#include <stdint.h>\n")
        tree.write("src/base/a.h", SPDX + "int base_a(void);\n")
        tree.write("src/tok/b.c", SPDX + '#include "base/a.h"\n\nint tok_b(void)\n{\n'
                   "    return base_a();\n}\n")
        tree.write("README.md", "# sound\n")
        for check in ("check_text", "check_format", "check_docs", "check_repo_size",
                      "check_words"):
            with self.subTest(check):
                code, lines = tree.run(check)
                self.assertIn(code, (0, 77), "\n".join(lines))

    def test_sizes_finds_the_longest(self):
        tree = Tree(("scripts",))
        self.addCleanup(tree.directory.cleanup)
        tree.write("src/base/a.c", SPDX + "\nstatic int\nlong_one(int a,\n         int b)\n{\n"
                   + "    a += b;\n" * 30 + "}\n\nint short_one(void)\n{\n}\n")
        code, lines = tree.run("check_sizes")
        self.assertEqual(code, 0)
        at = lines.index("longest functions")
        self.assertEqual(lines[at + 1].split(), ["35", "long_one", "src/base/a.c:3"])
        self.assertEqual(lines[at + 2].split(), ["3", "short_one", "src/base/a.c:39"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
