# SPDX-License-Identifier: Apache-2.0
"""templates_test.py - chat templates over HTTP: all recorded conversations through /apply-template, the fields
`template`, `preserve_thinking` and `reasoning_effort` in every API, and the report of an unknown template."""
import http.client
import json
import os
import subprocess
import sys
import tempfile

from api_rig import FACT, Server, equal, post

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from template_lines import STYLES, read_lines, spells_control  # noqa: E402

# The API checks types before the template sees them.
API_REJECTS = {"tools_mapping"}


def has_odd_arguments(line):
    """Arguments in a JSON string are parsed first, because OpenAI's clients send them so; null means none."""
    calls = [c.get("function", c) for m in line["messages"] or [] for c in m.get("tool_calls") or []]
    return any(not isinstance(c.get("arguments", {}), dict) for c in calls)


def apply_template(connection, server, body):
    connection.request("POST", "/apply-template", json.dumps(body).encode(),
                       {"Content-Type": "application/json", "Authorization": "Bearer " + server.key})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def fault_of(line, status, got):
    if line["name"] in API_REJECTS:
        return None if status == 400 else f"status {status}"
    if has_odd_arguments(line):
        return None if status in (200, 400) else f"status {status}"
    if line["error"]:
        return None if status == 400 else f"is not rejected: {status}"
    if status != 200:
        return f"status {status}: {got}"
    if got["prompt"] != line["rendered"]:
        return f"renders as {got['prompt']!r}, not {line['rendered']!r}"
    if "ids" in line and (got["tokens"] == line["ids"]) == spells_control(line):
        return "the ids are not as expected"
    return None


def every_line(server, lines):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    faults = []
    for line in lines:
        kwargs = {"add_generation_prompt": False, **line["kwargs"]}
        body = {"messages": line["messages"], "tools": line["tools"], "chat_template_kwargs": kwargs,
                "template": "official", "tokens": True}
        status, got = apply_template(connection, server, body)
        if fault := fault_of(line, status, got):
            faults.append(f"{line['name']} with {line['style']}: {fault}")
    connection.close()
    assert not faults, "\n".join(faults[:10])


# ---- the fields in every API ----

def history(content):
    return [{"role": "user", "content": "a"}, {"role": "assistant", **content}, {"role": "user", "content": "b"}]


PLAIN = history({"content": "x", "reasoning_content": "kept"})
INPUT = [{"role": "user", "content": "a"},
         {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "kept"}]},
         {"role": "assistant", "content": "x"}, {"role": "user", "content": "b"}]
BLOCKS = history({"content": [{"type": "thinking", "thinking": "kept", "signature": "s"}, {"type": "text", "text": "x"}]})


def count(server, more):
    """Prompt tokens of one conversation with earlier thinking, in each API."""
    small = {"max_tokens": 1, "temperature": 0, **more}
    return {
        "openai": post(server, "/v1/chat/completions", {"messages": PLAIN, **small})["usage"]["prompt_tokens"],
        "responses": post(server, "/v1/responses", {"input": INPUT, "max_output_tokens": 1, "temperature": 0, **more}
                          )["usage"]["input_tokens"],
        "anthropic": post(server, "/v1/messages/count_tokens", {"model": "m", "messages": BLOCKS, **more})["input_tokens"],
        "ollama": post(server, "/api/chat", {"model": server.model, "stream": False, "options": {"num_predict": 1},
                                             "messages": history({"content": "x", "thinking": "kept"}), **more}
                       )["prompt_eval_count"]}


def fields_of_every_api(server):
    kept, dropped = count(server, {}), count(server, {"template": "official"})
    for api in kept:
        assert dropped[api] < kept[api], (api, kept, dropped)
    equal(len(set(kept.values())), 1)
    equal(count(server, {"preserve_thinking": False}), dropped)
    equal(count(server, {"chat_template_kwargs": {"preserve_thinking": False}}), dropped)
    equal(count(server, {"extra_body": {"chat_template_kwargs": {"preserve_thinking": False}}}), dropped)
    equal(count(server, {"preserve_thinking": True, "template": "keep-thinking"}), kept)


def wrong_values(server):
    chat = {"messages": [{"role": "user", "content": FACT}], "max_tokens": 1}
    for more, param, said in (({"template": "chatml"}, "template", 'must be official or keep-thinking, got "chatml"'),
                              ({"template": 5}, "template", "string"),
                              ({"preserve_thinking": "yes"}, "preserve_thinking", "boolean"),
                              ({"chat_template_kwargs": {"preserve_thinking": 1}},
                               "chat_template_kwargs.preserve_thinking", "true or false")):
        error = post(server, "/v1/chat/completions", {**chat, **more}, 400)["error"]
        equal(error["param"], param)
        assert said in error["message"], error
    # Ollama's own templates are texts; they are ignored.
    generate = {"model": server.model, "prompt": FACT, "stream": False, "options": {"num_predict": 1}}
    got = post(server, "/api/generate", {**generate, "template": "{{ .Prompt }}"})
    assert any(w["at"] == "template" for w in got["mote"]["warnings"]), got
    got = post(server, "/api/generate", {**generate, "template": "official"})
    assert not any(w["at"] == "template" for w in got["mote"].get("warnings", [])), got


def arguments_as_a_string(server):
    """OpenAI's clients send arguments as a JSON string; the template gets an object."""
    def prompt(arguments):
        talk = history({"content": None, "tool_calls": [{"id": "c", "type": "function", "function": {
            "name": "add", "arguments": arguments}}]})
        return post(server, "/apply-template", {"messages": talk, "template": "official"})["prompt"]
    assert "<parameter=a>\n1\n</parameter>" in prompt('{"a": 1}')
    equal(prompt('{"a": 1}'), prompt({"a": 1}))


EFFORT = {"low": "Reasoning effort is set to low", "xhigh": "Reasoning effort is set to xhigh", None: None}


def effort_line(prompt):
    return next((name for name, text in EFFORT.items() if text and text in prompt), None)


def effort_of_qwen38(server):
    """Every way to say how much to think selects the line of the system turn."""
    def line(**more):
        return effort_line(post(server, "/apply-template", {"messages": [{"role": "user", "content": "a"}], **more})["prompt"])
    for more, wanted in (({}, "xhigh"), ({"reasoning_effort": "low"}, "low"), ({"reasoning_effort": "minimal"}, "low"),
                         ({"reasoning_effort": "medium"}, None), ({"reasoning_effort": "high"}, "xhigh"),
                         ({"reasoning_effort": "none"}, None), ({"enable_thinking": False}, None),
                         ({"thinking_budget": 500}, "low"), ({"thinking_budget": 3000}, None),
                         ({"chat_template_kwargs": {"reasoning_effort": "low"}}, "low"),
                         ({"chat_template_kwargs": {"reasoning_effort": "minimal"}}, "low"),
                         ({"reasoning": {"effort": "low"}}, "low"), ({"model": "m:low"}, "low")):
        equal((more, line(**more)), (more, wanted))
        equal((more, line(template="official", **more) if "minimal" not in str(more) else wanted), (more, wanted))
    error = post(server, "/apply-template", {
        "messages": [{"role": "user", "content": "a"}], "template": "official",
        "chat_template_kwargs": {"reasoning_effort": "minimal"}}, 400)["error"]
    assert "Unexpected reasoning effort minimal" in error["message"], error


# ---- unknown templates ----

def changed_model(directory, name, old, new):
    """The test model with a changed template of the same length."""
    assert len(old) == len(new)
    with open(os.path.join(os.environ["DATA"], "mote-tiny-Q4_K_M.gguf"), "rb") as f:
        data = f.read()
    assert old in data
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        f.write(data.replace(old, new))
    return path


def mote(*words):
    done = subprocess.run([os.environ["MOTE"], *words], capture_output=True, check=False)
    equal(done.returncode, 0)
    return done.stdout.decode(), done.stderr.decode()


def unknown_template(directory):
    path = changed_model(directory, "foreign.gguf", b"<function=", b"<functiom=")
    said = "is unknown to mote; messages are rendered as qwen3.5-small, thinking off by default"
    shown, _ = mote("show", path)
    assert said in shown and "--chat-template" in shown, shown
    chat = json.loads(mote("show", path, "--json")[0])["chat"]
    equal((chat["template"], chat["template_origin"]), ("qwen3.5-small", "foreign"))
    assert said in chat["template_note"]
    assert said in mote("run", path, "-n", "1", FACT)[1]
    assert said not in mote("run", path, "-n", "1", "--chat-template", "qwen3.5", FACT)[1]
    assert said not in mote("run", path, "-n", "1", "--raw", FACT)[1]
    with Server("--log", "json", model=path) as server:
        assert said in server.said(), server.said()
        props = server.get("/props")
        equal((props["chat_template_used"], props["chat_template_origin"]), ("qwen3.5-small", "foreign"))
        assert said in props["chat_template_note"]
    with Server("--chat-template", "qwen3.6", model=path) as server:
        assert said not in server.said(), server.said()
        equal(server.get("/props")["chat_template_used"], "qwen3.6")


def changed_template(directory):
    path = changed_model(directory, "changed.gguf", b"'Picture '", b"'Image no'")
    shown, _ = mote("show", path)
    assert "is a modified template of this family; messages are rendered as qwen3.5-small" in shown, shown


def main():
    lines = read_lines(os.environ["DATA"])
    for style in STYLES.values():
        with Server("--chat-template", style, "--log", "off") as server:
            every_line(server, [line for line in lines if line["style"] == style])
            if style == "qwen3.8":
                effort_of_qwen38(server)
            if style == "qwen3.5-small":
                fields_of_every_api(server)
                wrong_values(server)
                arguments_as_a_string(server)
    with Server("--template", "official") as server:
        equal(count(server, {}), count(server, {"template": "official"}))
        equal(count(server, {"template": "keep-thinking"}), count(server, {"template": "keep-thinking", "preserve_thinking": True}))
    with tempfile.TemporaryDirectory() as directory:
        unknown_template(directory)
        changed_template(directory)
    print(f"{len(lines)} conversations")


main()
