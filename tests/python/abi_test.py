# SPDX-License-Identifier: Apache-2.0
"""The ctypes declarations of the Python module are those of the public headers.

_abi.py is what generate_abi makes of the headers, and a C compiler agrees: the size of every struct, offset and size of
every field, the value of every constant, the type of every function. A header with another field is noticed.

Argument: the C compiler.
"""
import ctypes
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CC = sys.argv[1]


def load(name, path):
    """A module by the path of its file."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


abi = load("abi", ROOT / "python/src/mote/_abi.py")
generate = load("generate_abi", ROOT / "python/generate_abi")
HEADER = generate.parse()
# The nested struct of mote_choice has no name in C.
STRUCTS = {name: fields for name, fields in HEADER.structs.items() if name != "mote_top"}


def compiled(text, include=ROOT / "include"):
    """What a C program prints; the message of the compiler if it does not compile."""
    with tempfile.TemporaryDirectory() as work:
        program = Path(work, "program")
        done = subprocess.run([CC, "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-", "-o", program],
                              input=text, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else subprocess.run([program], capture_output=True, text=True,
                                                                  check=True).stdout


def program(lines):
    return ('#include <mote_chat.h>\n#include <stdio.h>\n#define PRINT(x) printf("%s %llu\\n", #x, (unsigned long long)(x))\n'
            "int main(void)\n{\n" + "".join(f"    {line}\n" for line in lines) + "    return 0;\n}\n")


def values(lines, include=ROOT / "include"):
    out = compiled(program(lines), include)
    rows = dict(re.findall(r"^(.*) (\d+)$", out, re.M))
    assert len(rows) == len(lines), out
    return {name: int(value) for name, value in rows.items()}


# ctypes to C, for the types of functions. An enum is int or unsigned, so c_int is not checked.
C_TYPES = {"c_bool": "bool", "c_int32": "int32_t", "c_uint": "unsigned", "c_uint32": "uint32_t",
           "c_uint64": "uint64_t", "c_size_t": "size_t", "c_float": "float", "c_double": "double"}


class Abi(unittest.TestCase):
    def test_the_file_is_made_from_the_headers(self):
        self.assertEqual(0, generate.main(check=True))

    def test_sizes_and_offsets(self):
        lines, here = [], {}
        for name, fields in STRUCTS.items():
            struct = getattr(abi, name)
            lines.append(f"PRINT(sizeof({name}));")
            here[f"sizeof({name})"] = ctypes.sizeof(struct)
            for field, _ in fields:
                lines += [f"PRINT(offsetof({name}, {field}));", f"PRINT(sizeof((({name} *)0)->{field}));"]
                here[f"offsetof({name}, {field})"] = getattr(struct, field).offset
                here[f"sizeof((({name} *)0)->{field})"] = getattr(struct, field).size
        self.assertGreater(len(lines), 200)
        self.assertEqual(here, values(lines))

    def test_constants(self):
        here = {name: getattr(abi, name) % 2**64 for name in HEADER.constants}  # the compiler prints unsigned
        self.assertGreater(len(here), 80)
        self.assertEqual(here, values([f"PRINT({name});" for name in here]))

    def test_all_constants_and_functions_are_there(self):
        text = generate.without_comments("".join(p.read_text(encoding="utf-8") for p in generate.HEADERS))
        names = set(re.findall(r"\bMOTE_[A-Z0-9_]+\b", text)) - {"MOTE_API", "MOTE_H", "MOTE_CHAT_H", "MOTE_VERSION"}
        self.assertEqual(names, set(HEADER.constants))
        self.assertEqual(set(re.findall(r"\b(mote_\w+)\(", "".join(re.findall(r"MOTE_API [^;]*;", text)))),
                         set(abi.FUNCTIONS))

    def test_types_of_functions(self):
        """The compiler finds the declared type of every number to be the one that ctypes passes."""
        text = generate.without_comments("".join(p.read_text(encoding="utf-8") for p in generate.HEADERS))
        checks = []
        for name, (result, parameters) in HEADER.functions.items():
            before, inside = re.search(rf"MOTE_API ([^;]*?)\b{name}\(([^;]*)\);", text, re.S).groups()
            declared = [before] + [p.rsplit(" ", 1)[0] for p in generate.split_outside(inside, ",")]
            for kind, words in zip([result] + [kind for _, kind in parameters], declared):
                if kind in C_TYPES:
                    checks.append(f'_Static_assert(_Generic(({words}){{0}}, {C_TYPES[kind]}: 1, default: 0), "{name}");')
        self.assertGreater(len(checks), 50)
        self.assertEqual("", compiled("#include <mote_chat.h>\n" + "\n".join(checks) + "\nint main(void) { return 0; }\n"))

    def test_another_field_is_noticed(self):
        """Plants a field, and a field in the padding of a struct, which changes no size."""
        for before, after in (("    uint32_t logits_rows;", "    uint32_t planted;\n    uint32_t logits_rows;"),
                              ("    bool official;", "    bool official, planted;"),
                              ("    MOTE_E_IO,", "    MOTE_E_PLANTED,\n    MOTE_E_IO,"),
                              ("uint32_t threads, mote_error *err);", "uint64_t threads, mote_error *err);")):
            with tempfile.TemporaryDirectory() as work:
                planted = 0
                for path in generate.HEADERS:
                    text = path.read_text(encoding="utf-8")
                    planted += text.count(before)
                    Path(work, path.name).write_text(text.replace(before, after), encoding="utf-8")
                self.assertEqual(1, planted, before)
                header = generate.Header()
                for path in generate.HEADERS:
                    generate.read_header(header, Path(work, path.name).read_text(encoding="utf-8"))
            self.assertNotEqual(generate.written(HEADER), generate.written(header), after)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
