#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""schema_random - random schemas, judged by Python's jsonschema.

For each schema: texts the grammar writes by itself are valid; valid documents are
taken; what is taken after a random change is valid; masks are exact. A schema
comes with a function that makes documents for it, in the order in which the grammar
wants its properties, so that refusing one that is valid is a fault.

usage: schema_random.py PROBE [SCHEMAS [SEED]]
"""
import datetime
import ipaddress
import json
import random
import re
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed")
    sys.exit(77)

WORDS = ["", "a", "name", "foo", "foobar", "type", "x y", "é", "世界", "q\"q", "b\\c", "tab\t", "😀", "zz-9"]
NAMES = ["name", "age", "type", "id", "foo", "foobar", "x y", "é", "q\"q", "", "a/b", "tags"]


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def line(self):
        """The next answer; the test framework says a few words of its own."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("the probe ended")
            if not line.startswith((b"1..", b"#", b"TAP", b"\t", b"\n")):
                return line.decode().rstrip("\n")

    def ask(self, what, data):
        self.process.stdin.write(b"%s %d\n" % (what, len(data)) + data)
        self.process.stdin.flush()
        return self.line()

    def schema(self, schema, lenient=False):
        return self.ask(b"L" if lenient else b"S", json.dumps(schema, ensure_ascii=False).encode())

    def takes(self, text):
        return self.ask(b"D", text.encode()) == "yes"

    def exact(self, text):
        return self.ask(b"M", text.encode()) == "exact"

    def walk(self, seed):
        self.process.stdin.write(b"W %d\n" % seed)
        self.process.stdin.flush()
        answer = self.line()
        if answer == "open":
            return None
        return self.process.stdout.read(int(answer.split()[1])).decode()


# ---- the judge ----

# jsonschema holds formats only if asked to, and some of them only with other packages installed. The
# grammar always holds them, so the judge does too, each by means that have nothing to do with its patterns.

def is_date(text):
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text)) and datetime.date.fromisoformat(text) is not None


def is_time(text):
    found = re.fullmatch(r"(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-](\d\d):(\d\d))", text, re.ASCII)
    return found is not None and datetime.time(*map(int, found.group(1, 2, 3))) is not None and (
        found[6] is None or datetime.time(int(found[6]), int(found[7])) is not None)


def is_date_time(text):
    return text[10:11] == "T" and is_date(text[:10]) and is_time(text[11:])


def is_hostname(text):
    return all(re.fullmatch(r"[a-z0-9-]+", part, re.I | re.A) and "-" not in (part[0], part[-1])
               for part in text.split("."))


def is_email(text):
    local, at, host = text.rpartition("@")
    return bool(at) and is_hostname(host) and all(local.split(".")) and not re.search(r'[\s"(),:;<>@\[\]\\]', local)


def is_uri(text):
    return (re.fullmatch(r"[a-z][a-z0-9+.-]*:[^\s\"<>\\^`{|}]+", text, re.I | re.A) is not None
            and re.search(r"%(?![0-9a-fA-F]{2})", text) is None)


FORMATS = jsonschema.FormatChecker(formats=())
for name, check in [("date", is_date), ("time", is_time), ("date-time", is_date_time), ("email", is_email),
                    ("hostname", is_hostname), ("uri", is_uri), ("ipv4", ipaddress.IPv4Address),
                    ("ipv6", ipaddress.IPv6Address),
                    ("uuid", lambda text: re.fullmatch("-".join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12)), text))]:
    FORMATS.checks(name, raises=ValueError)(
        lambda value, check=check: not isinstance(value, str) or bool(check(value)))


def validator_of(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


# ---- schemas with their documents ----

def string_schema(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return {"type": "string"}, lambda r: r.choice(WORDS)
    if kind == 1:
        low = rng.randrange(4)
        high = low + rng.randrange(6)
        return ({"type": "string", "minLength": low, "maxLength": high},
                lambda r: "".join(r.choice("ab\"é世\n") for _ in range(r.randint(low, high))))
    if kind == 2:
        pattern, make = rng.choice([
            ("^[a-z]{2,5}$", lambda r: "".join(r.choice("abcxyz") for _ in range(r.randint(2, 5)))),
            ("^\\d+-[A-F]$", lambda r: f"{r.randrange(9999)}-{r.choice('ABCDEF')}"),
            ("foo", lambda r: r.choice(["foo", "xfoo", "foobar", "a foo b"])),
            ("^(yes|no|n/a)$", lambda r: r.choice(["yes", "no", "n/a"])),
            ("^[^\"]*$", lambda r: r.choice(["", "abc", "é\\n", "\n"])),
            ("^a.*z$", lambda r: "a" + r.choice(["", "b", "\"", "世"]) + "z"),
        ])
        return {"type": "string", "pattern": pattern}, make
    if kind == 3:
        name, make = rng.choice([
            ("date", lambda r: f"20{r.randrange(100):02}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"),
            ("date-time", lambda r: f"19{r.randrange(100):02}-05-31T{r.randrange(24):02}:00:{r.randrange(60):02}Z"),
            ("uuid", lambda r: "".join(r.choice("0123456789abcdef") if c == "x" else c
                                       for c in "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")),
            ("ipv4", lambda r: ".".join(str(r.randrange(256)) for _ in range(4))),
            ("ipv6", lambda r: r.choice(["::", "::1", "1:2:3:4:5:6:7:8", "fe80::a:b", "a::"])),
            ("email", lambda r: r.choice(["a@b.c", "first.last@host.example", "x+y@z-9.org"])),
            ("time", lambda r: f"{r.randrange(24):02}:{r.randrange(60):02}:00+0{r.randrange(10)}:30"),
            ("hostname", lambda r: r.choice(["a", "localhost", "www.example.com", "x-1.y"])),
            ("uri", lambda r: r.choice(["http://example.com", "https://example.com/x?y=1#z", "mailto:a@b.c"])),
        ])
        return {"type": "string", "format": name}, make
    if kind == 4:
        words = rng.sample(WORDS, rng.randint(1, 5))
        return {"enum": words}, lambda r: r.choice(words)
    return ({"type": "string", "pattern": "^[a-c]+$", "minLength": 2, "maxLength": 4},
            lambda r: "".join(r.choice("abc") for _ in range(r.randint(2, 4))))


def number_schema(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return {"type": "integer"}, lambda r: r.randint(-10**9, 10**9)
    if kind == 1:
        return {"type": "number"}, lambda r: r.choice([0, -1.5, 1e9, 3.25, -0.001, 12345678901234567890])
    low = rng.randint(-1500, 1500)
    high = low + rng.choice([0, 1, 7, 99, 5000])
    if kind == 2:
        return ({"type": "integer", "minimum": low, "maximum": high}, lambda r: r.randint(low, high))
    if kind == 3:
        schema = {"type": "number", rng.choice(["minimum", "exclusiveMinimum"]): low / 4,
                  rng.choice(["maximum", "exclusiveMaximum"]): (high + 4) / 4}
        return schema, lambda r: r.randint(8 * low + 1, 8 * high + 31) / 32
    if kind == 4:
        step = rng.choice([1, 2, 3, 7, 10, 25, 60])
        return ({"type": "integer", "multipleOf": step}, lambda r: step * r.randint(-500, 500))
    step = rng.choice([0.5, 0.25, 1.5, 4])
    return {"type": "number", "multipleOf": step, "minimum": -100}, lambda r: step * r.randint(-20, 500)


def scalar_schema(rng):
    kind = rng.randrange(6)
    if kind < 2:
        return string_schema(rng)
    if kind < 4:
        return number_schema(rng)
    if kind == 4:
        return rng.choice([({"type": "boolean"}, lambda r: r.choice([True, False])),
                           ({"type": "null"}, lambda r: None),
                           ({"const": True}, lambda r: True)])
    values = rng.sample([None, True, False, 0, 7, -3, 2.5, "a", "世", [1, "b"], {"k": None}, [], {}], 4)
    return {"enum": values}, lambda r: r.choice(values)


def array_schema(rng, depth):
    item, make = any_schema(rng, depth - 1)
    low = rng.randrange(3)
    high = low + rng.randrange(4)
    schema = {"type": "array", "items": item}
    if rng.random() < 0.3:
        first, make_first = any_schema(rng, depth - 1)
        schema["prefixItems"] = [first]
        if rng.random() < 0.5:
            schema["items"] = False
            return schema, lambda r: [make_first(r)][:r.randint(0, 1)]
        return schema, lambda r: ([make_first(r)] + [make(r) for _ in range(r.randint(0, 3))])
    if rng.random() < 0.7:
        schema.update(minItems=low, maxItems=high)
    if rng.random() < 0.1:
        values = rng.sample(["a", "b", 1, None, True, "long word"], 4)
        return ({"type": "array", "items": {"enum": values}, "uniqueItems": True, "maxItems": 3},
                lambda r: r.sample(values, r.randint(0, 3)))
    return schema, lambda r: [make(r) for _ in range(r.randint(low, high))]


def object_schema(rng, depth):
    names = rng.sample(NAMES, rng.randint(0, 5))
    members = {name: any_schema(rng, depth - 1) for name in names}
    required = [name for name in names if rng.random() < 0.5]
    schema = {"type": "object", "properties": {name: m[0] for name, m in members.items()}}
    if required or rng.random() < 0.3:
        schema["required"] = rng.sample(required, len(required))
    extra = None
    kind = rng.randrange(5)
    if kind < 2:
        schema["additionalProperties"] = False
    elif kind == 2:
        other, make_other = any_schema(rng, depth - 1)
        schema["additionalProperties"] = other
        extra = (["other", "z", "nam"], make_other)
    elif kind == 3:
        other, make_other = any_schema(rng, depth - 1)
        schema["patternProperties"] = {"^p_": other}
        schema["additionalProperties"] = False
        extra = (["p_1", "p_x"], make_other)
    else:
        extra = (["other", "ages"], lambda r: r.choice([1, "x", [1, {"a": None}], {}]))
    if rng.random() < 0.15:
        schema["maxProperties"] = max(len(required), rng.randint(0, 4))
    if extra is None and rng.random() < 0.3:  # of names that are not listed only one counts
        schema["minProperties"] = rng.randint(0, max(1, len(names)))
    if len(names) > 1 and rng.random() < 0.15:
        schema["dependentRequired"] = {names[0]: [names[1]]}
    if len(names) > 1 and rng.random() < 0.1:
        test = scalar_schema(rng)[0]
        test.pop("format", None)  # what does not satisfy a format is never said, see docs/structured-output.md
        schema["if"] = rng.choice([{"required": [names[0]]}, {"properties": {names[0]: {"type": "string"}}},
                                   {"properties": {names[0]: test}, "required": [names[0]]}])
        schema[rng.choice(["then", "else"])] = {"required": [names[1]]}

    def make(r):
        out = {name: m[1](r) for name, m in members.items() if name in required or r.random() < 0.5}
        if extra and r.random() < 0.4:
            for name in r.sample(extra[0], r.randint(1, len(extra[0]))):
                out[name] = extra[1](r)
        return out
    return schema, make


def combined_schema(rng, depth):
    kind = rng.randrange(6)
    if kind == 0:
        parts = [any_schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        return {"anyOf": [p[0] for p in parts]}, lambda r: r.choice(parts)[1](r)
    if kind == 1:
        parts = [string_schema(rng), number_schema(rng), array_schema(rng, depth - 1)]
        return {"oneOf": [p[0] for p in parts]}, lambda r: r.choice(parts)[1](r)
    if kind == 2:
        a, b = object_schema(rng, depth - 1), object_schema(rng, depth - 1)
        for part in (a[0], b[0]):
            part.pop("additionalProperties", None)
            part.pop("minProperties", None)  # of names that are not listed only one counts
        order = [*a[0]["properties"], *b[0]["properties"]]

        def make_both(r):
            out = {**a[1](r), **b[1](r)}
            return {name: out[name] for name in [*order, *out] if name in out}
        return {"allOf": [a[0], b[0]]}, make_both
    if kind == 3:
        low = rng.randint(-50, 50)
        return ({"allOf": [{"type": "number", "minimum": low}, {"type": "integer", "maximum": low + 9}]},
                lambda r: r.randint(low, low + 9))
    if kind == 4:
        tags = rng.sample(["cat", "dog", "bird"], 2)
        rest = any_schema(rng, depth - 1)
        schema = {"oneOf": [{"type": "object", "properties": {"kind": {"const": tag}, "v": rest[0]},
                             "required": ["kind", "v"]} for tag in tags]}
        return schema, lambda r: {"kind": r.choice(tags), "v": rest[1](r)}
    base, make = scalar_schema(rng)
    bad = rng.choice([{"const": 7}, {"enum": ["a", None]}, {"type": "boolean"}, {"minimum": 100},
                      {"pattern": "^f"}, {"maxLength": 1}])
    return {"allOf": [base, {"not": bad}]}, make


def any_schema(rng, depth):
    if depth <= 0 or rng.random() < 0.35:
        return scalar_schema(rng)
    return rng.choice([array_schema, object_schema, object_schema, combined_schema])(rng, depth)


def recursive_schema(rng):
    leaf, make_leaf = scalar_schema(rng)
    schema = {"$defs": {"tree": {"type": "object", "properties": {
        "value": leaf, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 3}},
        "required": ["value"], "additionalProperties": False}}, "$ref": "#/$defs/tree"}

    def make(r, depth=3):
        out = {"value": make_leaf(r)}
        if depth and r.random() < 0.6:
            out["children"] = [make(r, depth - 1) for _ in range(r.randint(0, 2))]
        return out
    return schema, make


def changed(rng, value):
    """The document with one thing in it replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        copy = dict(value)
        if rng.random() < 0.2:
            del copy[name]
        else:
            copy[name] = changed(rng, copy[name])
        return copy
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return value[:at] + ([] if rng.random() < 0.2 else [changed(rng, value[at])]) + value[at + 1:]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.7:
        return value + rng.choice([1, -1, 0.5, 1000, -value])
    if isinstance(value, str) and rng.random() < 0.7:
        return value + rng.choice(["x", "1", "é", value])
    return rng.choice([None, True, 0, -1, 2.5, "", "a", [], {}, {"name": 1}])


def spelt(rng, value):
    style = rng.randrange(3)
    if style == 0:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False, indent=2 if style == 1 else None)


# ---- the comparison ----

def plain(value):
    """Integers without a fraction of zero: the grammar writes no other."""
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return int(value) if isinstance(value, float) and value == int(value) else value


def refuses(probe, text):
    """Is it a fault that a valid text is not taken? Numbers with exponents where bounds exclude them are none."""
    if probe.takes(text) or "e-" in text or "e+" in text:
        return False
    return not probe.takes(json.dumps(plain(json.loads(text)), ensure_ascii=False))


def main():
    probe = Probe(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    n = dict(schemas=0, refused=0, impossible=0, walks=0, open=0, documents=0, changed=0, masks=0)
    faults = []
    for number in range(count):
        rng = random.Random(seed * 1000003 + number)
        schema, make = recursive_schema(rng) if number % 10 == 0 else any_schema(rng, 3)
        validator = validator_of(schema)
        documents = [make(rng) for _ in range(5)]
        valid = [d for d in documents if validator.is_valid(d)]
        answer = probe.schema(schema)
        n["schemas"] += 1
        where = f"seed {seed} schema {number}: {json.dumps(schema, ensure_ascii=False)}"
        if not answer.startswith("ok"):
            n["impossible" if "no text satisfies" in answer else "refused"] += 1
            if "no text satisfies" in answer and valid:
                faults.append(f"{where}\n  has no value, but {valid[0]!r} is valid")
            elif "no text satisfies" not in answer and "unsupported" not in answer:
                faults.append(f"{where}\n  {answer}")
            elif "unsupported" in answer and not any(f"'{k}'" in answer for k in ("oneOf", "if", "not")):
                faults.append(f"{where}\n  {answer}")
            continue
        for k in range(5):
            text = probe.walk(seed * 100000 + number * 5 + k)
            if text is None:
                n["open"] += 1
                continue
            n["walks"] += 1
            if not validator.is_valid(json.loads(text)):
                faults.append(f"{where}\n  wrote {text}")
        for document in valid:
            text = spelt(rng, document)
            n["documents"] += 1
            if refuses(probe, text):
                faults.append(f"{where}\n  refuses {text}")
            elif len(text) < 200 and probe.takes(text):
                n["masks"] += 1
                if not probe.exact(text):
                    faults.append(f"{where}\n  masks of {text}")
            other = changed(rng, document)
            text = spelt(rng, other)
            n["changed"] += 1
            if probe.takes(text) and not validator.is_valid(other):
                faults.append(f"{where}\n  takes {text}")
    print(", ".join(f"{v} {k}" for k, v in n.items()) + f", {len(faults)} faults (seed {seed})")
    for fault in faults[:10]:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
