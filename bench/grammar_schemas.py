# SPDX-License-Identifier: Apache-2.0
"""grammar_schemas - schemas for benchmarks of constrained decoding: everyday ones with documents, and expensive ones."""
import json
import random


def everyday():
    """Schemas as applications send them, each with a document."""
    person = {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 80}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "email": {"type": "string", "format": "email"}, "born": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8}},
        "required": ["name", "age"], "additionalProperties": False}
    yield "person", person, {"name": "Ann Müller-Okonkwo", "age": 41, "email": "ann@example.com",
                             "born": "1984-02-29", "tags": ["reader", "climber", "night owl"]}
    invoice = {"type": "object", "properties": {
        "number": {"type": "string", "pattern": "^INV-[0-9]{4,8}$"}, "currency": {"enum": ["EUR", "USD", "GBP", "JPY"]},
        "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
            "description": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1},
            "unit_price": {"type": "number", "minimum": 0}}, "required": ["description", "quantity", "unit_price"],
            "additionalProperties": False}}, "paid": {"type": "boolean"}},
        "required": ["number", "currency", "lines", "paid"], "additionalProperties": False}
    yield "invoice", invoice, {"number": "INV-00423", "currency": "EUR", "paid": False, "lines": [
        {"description": f"Hours of consulting, week {week}: a sentence that says what was done and for whom",
         "quantity": week, "unit_price": 99.5} for week in (7, 8, 11)]}
    steps = {"type": "object", "properties": {
        "steps": {"type": "array", "items": {"type": "object", "properties": {
            "explanation": {"type": "string"}, "output": {"type": "string"}},
            "required": ["explanation", "output"], "additionalProperties": False}},
        "final_answer": {"type": "string"}}, "required": ["steps", "final_answer"], "additionalProperties": False}
    yield "steps", steps, {"steps": [
        {"explanation": "Subtract 7 from both sides of the equation, so that only the term with x is left.",
         "output": "8x = -30"}, {"explanation": "Divide both sides by 8.", "output": "x = -15/4"}],
        "final_answer": "x = -15/4, or about -3.75"}
    tree = {"$defs": {"node": {"type": "object", "properties": {
        "tag": {"enum": ["div", "p", "span", "ul", "li"]}, "text": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["tag"],
        "additionalProperties": False}}, "$ref": "#/$defs/node"}
    yield "tree", tree, {"tag": "div", "children": [{"tag": "p", "text": "Hello, world"}, {
        "tag": "ul", "children": [{"tag": "li", "text": str(i)} for i in range(6)]}]}
    event = {"type": "object", "properties": {
        "id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"},
        "source": {"anyOf": [{"type": "object", "properties": {"kind": {"const": "user"}, "login": {"type": "string"}},
                              "required": ["kind", "login"]},
                             {"type": "object", "properties": {"kind": {"const": "system"}, "host": {"type": "string"}},
                              "required": ["kind", "host"]}]},
        "payload": {}}, "required": ["id", "at", "source"]}
    yield "event", event, {"id": "5f0c6a9e-1b2d-4c3e-9f80-0123456789ab", "at": "2024-05-31T23:59:59.5+02:00",
                           "source": {"kind": "system", "host": "db-3"},
                           "payload": {"sizes": [1, 2.5, 1e6], "ok": True, "note": "free \"text\" of any kind"}}
    yield "map", {"type": "object", "additionalProperties": {"type": "number"}}, {
        "Berlin": 3.6, "São Paulo": 12.3, "東京": 13.9}
    words = [f"option_{i}_{w}" for i in range(120) for w in ("low", "mid", "high")]
    yield "options", {"type": "array", "items": {"enum": words}}, ["option_7_low", "option_77_high", "option_119_mid"]
    wide = {"type": "object", "properties": {f"field_{i}": {"type": ["string", "integer", "null"]} for i in range(60)}}
    yield "wide", wide, {f"field_{i}": [None, i, f"value {i}"][i % 3] for i in range(0, 60, 3)}
    yield "any", {"type": "object"}, {"a": [1, {"b": None}], "text": "It was a bright cold day in April, and the clocks."}


# ---- expensive schemas of at most 4 KB each ----

LIMIT = 4096


def grown(part, wrap):
    """The largest schema wrap({name: part(i)}) of at most 4 KB."""
    parts, best = {}, wrap({})
    for i in range(2000):
        parts[f"p{i}"] = part(i)
        schema = wrap(dict(parts))
        if len(json.dumps(schema, ensure_ascii=False)) > LIMIT:
            break
        best = schema
    return best


def members(parts):
    return {"type": "object", "properties": parts, "additionalProperties": False}


def listed(key):
    return lambda parts: {key: list(parts.values())}


def word(i):
    return "".join("bdfgklmnprst"[(i * k + i // k) % 12] + "aeiou"[(i + k) % 5] for k in (3, 5, 7))


def hard():
    """(name, schema); some exceed the work limit, and rejecting them must be as fast."""
    yield "words", grown(word, lambda parts: {"enum": list(parts.values())})
    yield "integers between", grown(lambda i: {"type": "integer", "minimum": -i * 977, "maximum": i * i * 7919}, members)
    yield "numbers between", grown(lambda i: {"exclusiveMinimum": i / 7, "maximum": 10**(i % 12) + i / 3}, members)
    yield "multiples", grown(lambda i: {"type": "integer", "multipleOf": 101 + 2 * i}, members)
    yield "one large multiple", {"type": "integer", "multipleOf": 49999}
    yield "fraction multiples", grown(lambda i: {"multipleOf": (i + 1) / 100}, members)
    yield "formats", grown(lambda i: {"format": ["uri", "email", "date-time", "ipv6", "uuid", "duration"][i % 6],
                                      "type": "string"}, members)
    yield "formats with lengths", grown(lambda i: {"format": ["uri", "email", "date-time", "ipv6"][i % 4],
                                                   "type": "string", "maxLength": 12 + i}, members)
    yield "patterns", grown(lambda i: {"type": "string", "pattern": f"^{word(i)}[a-z]{{1,{i + 2}}}(-[0-9]+)*$"}, members)
    yield "patterns anywhere", grown(lambda i: {"type": "string", "pattern": f"{word(i)}.*{word(i + 1)}"}, members)
    yield "patterns and lengths", grown(lambda i: {"type": "string", "pattern": f"{word(i)}", "minLength": i,
                                                   "maxLength": 100 + i}, members)
    yield "a pattern of many states", {"type": "string", "pattern": "^(a|b)*a(a|b){14}$"}
    yield "a long repetition", {"type": "string", "pattern": "^([a-z]{1,40}-){1,60}[0-9]{1,500}$"}
    yield "letters of all scripts", {"type": "string", "pattern": "^[\\w\u00c0-\u024f\u0400-\u04ff\u4e00-\u9fff ]{1,200}$"}
    yield "a long class", {"type": "string", "pattern": "^[" + "".join(chr(0x4E00 + 3 * i) for i in range(1200)) + "]+$"}
    yield "a long alternation", {"type": "string", "pattern": "^(" + "|".join(word(i) + ".*" for i in range(430)) + ")$"}
    yield "members", grown(lambda i: {}, members)
    yield "members, required", grown(lambda i: {"type": "string"},
                                     lambda parts: {**members(parts), "required": list(parts)})
    yield "members, counted", grown(lambda i: True, lambda parts: {**members(parts), "maxProperties": len(parts) // 2})
    yield "members and others", grown(lambda i: {"type": "null"}, lambda parts: {"properties": parts, "minProperties": 3})
    yield "members by pattern", grown(lambda i: {"type": "integer"},
                                      lambda parts: {"patternProperties": {f"^{word(i)}": p
                                                                           for i, p in enumerate(parts.values())}})
    yield "patterns that overlap", {"patternProperties": {f"{chr(97 + i)}": {"minimum": i} for i in range(6)}}
    yield "names by pattern", {"propertyNames": {"pattern": "^[a-z]{1,30}(_[a-z]{1,30}){0,5}$"},
                               "additionalProperties": {"type": "string", "maxLength": 200}}
    yield "objects by tag", grown(lambda i: {"properties": {"kind": {"const": word(i)}, f"v{i}": {"type": "string"}},
                                             "required": ["kind"], "type": "object"}, listed("oneOf"))
    yield "objects, any of", grown(lambda i: {"properties": {"a": {"type": "string"}, word(i): {"type": "integer"}},
                                              "type": "object"}, listed("anyOf"))
    yield "objects, all of", grown(lambda i: {"properties": {f"m{i}": {"type": "string", "maxLength": 10 + i}}},
                                   listed("allOf"))
    yield "strings, one of", grown(lambda i: {"type": "string", "pattern": f"^{word(i)}[0-9]+$"}, listed("oneOf"))
    yield "numbers, one of", grown(lambda i: {"type": "number", "minimum": 10 * i, "maximum": 10 * i + 12}, listed("oneOf"))
    yield "numbers, none of", grown(lambda i: {"not": {"minimum": 10 * i, "maximum": 10 * i + 5}}, listed("allOf"))
    yield "arrays in arrays", _nested(28, lambda inner: {"type": "array", "items": inner, "minItems": 1, "maxItems": 99})
    yield "objects in objects", _nested(28, lambda inner: {"type": "object", "properties": {"a": inner, "b": {}},
                                                           "required": ["a"]})
    yield "tuples", {"type": "array", "items": False, "prefixItems": [{"type": ["string", "null", "integer"][i % 3]}
                                                                      for i in range(170)]}
    yield "sets", {"type": "array", "items": {"enum": [word(i) for i in range(32)]}, "uniqueItems": True}
    yield "references", {"$defs": {f"d{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{(i * 7 + 1) % 40}"},
                                                                              "y": {"$ref": f"#/$defs/d{(i + 1) % 40}"}}}
                                   for i in range(36)} | {f"d{i}": {"type": "null"} for i in range(36, 40)},
                         "$ref": "#/$defs/d0"}
    yield "references that meet", {"$defs": {f"d{i}": {"properties": {"n": {"allOf": [{"$ref": f"#/$defs/d{(i + 1) % 9}"},
                                                                                      {"$ref": f"#/$defs/d{(i + 4) % 9}"}]}}}
                                             for i in range(9)}, "$ref": "#/$defs/d0"}
    yield "conditions", {"type": "object", "properties": {f"c{i}": {"type": "boolean"} for i in range(6)}, "allOf": [
        {"if": {"properties": {f"c{i}": {"const": True}}, "required": [f"c{i}"]}, "then": {"required": [f"t{i}"]},
         "else": {"required": [f"e{i}"]}} for i in range(6)]}
    yield "dependencies", {"type": "object", "properties": {f"d{i}": {"type": "integer"} for i in range(16)},
                           "dependentRequired": {f"d{i}": [f"d{i + 8}"] for i in range(8)}}
    yield "any value, often", grown(lambda i: {"type": ["object", "array"]}, members)
    yield "values of enums", grown(lambda i: {"enum": [i, str(i), None, [i, {"k": i}], {"v": [i]}]}, members)
    rng = random.Random(4096)
    for number in range(40):
        yield f"random {number}", _random(rng)


def _nested(depth, wrap):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def _random(rng):
    """Random schemas of tests/grammar until 4 KB are full."""
    from schema_random import any_schema
    parts = {}
    while True:
        schema = any_schema(rng, 3)[0]
        if len(json.dumps(members({**parts, f"r{len(parts)}": schema}), ensure_ascii=False)) > LIMIT:
            if len(json.dumps(members(parts), ensure_ascii=False)) > LIMIT // 2:
                return members(parts)
            continue
        parts[f"r{len(parts)}"] = schema
