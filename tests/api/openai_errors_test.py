# SPDX-License-Identifier: Apache-2.0
"""openai_errors_test.py - each kind of error of the OpenAI API, in replies and in streams."""
import json
import re
import socket

from api_rig import FACT, LONG, PATIENCE, WEATHER_TOOL, case, equal, post, request, run, sse

CHAT = "/v1/chat/completions"
ROUTES = (CHAT, "/v1/completions", "/v1/responses", "/v1/embeddings")


def body(**more):
    return {"messages": [{"role": "user", "content": FACT}], "max_tokens": 4, **more}


def fails(server, path, sent, status, kind, code, param=None, headers=None):
    got, head, data = request(server, "POST", path, sent, headers)
    equal(got, status)
    error = json.loads(data)["error"]
    equal((error["type"], error["code"]), (kind, code))
    if param is not None:
        equal(error["param"], param)
    equal(head["x-should-retry"], "true" if status in (429, 503) else "false")
    equal(head["content-type"], "application/json; charset=utf-8")
    assert not re.search(r"0x[0-9a-f]{6}|/tmp|/home|/work|\.gguf", data.decode()), data
    return error


@case
def invalid_json(server):
    for path in ROUTES:
        for text in (b"", b"{", b"[]", b"nul", b'{"a":NaN}', b'{"a":1} x', b'{"a":"\x01"}', b"\xff\xfe", b'"text"',
                     b"[" * 100 + b"]" * 100):
            error = json.loads(request(server, "POST", path, text)[2])["error"]
            assert error["code"] in ("invalid_json", "invalid_value"), (path, text, error)
            equal(error["type"], "invalid_request_error")
        error = fails(server, path, b'{"a":', 400, "invalid_request_error", "invalid_json")
        equal(error["message"], "request body: invalid JSON: expected a value at line 1, column 6")


@case
def missing_fields(server):
    fails(server, CHAT, {}, 400, "invalid_request_error", "missing_field", "messages")
    fails(server, "/v1/responses", {}, 400, "invalid_request_error", "missing_field", "input")
    fails(server, "/v1/embeddings", {}, 400, "invalid_request_error", "missing_field", "input")
    equal(post(server, "/v1/completions", {"max_tokens": 2})["object"], "text_completion")
    fails(server, CHAT, body(response_format={"type": "json_schema"}), 400, "invalid_request_error",
          "missing_field", "response_format.schema")


@case
def context_length_exceeded(server):
    for path, sent in ((CHAT, body(messages=[{"role": "user", "content": LONG}])), ("/v1/completions", {"prompt": LONG}),
                       ("/v1/responses", {"input": LONG}), ("/v1/embeddings", {"input": LONG}),
                       (CHAT, body(messages=[{"role": "user", "content": LONG}], stream=True))):
        error = fails(server, path, sent, 400, "invalid_request_error", "context_length_exceeded",
                      [field for field in ("messages", "prompt", "input") if field in sent][0])
        n, context = error["n_prompt_tokens"], error["n_ctx"]
        assert n >= context
        message = error["message"].removesuffix(" The number of tokens is a lower bound.")
        equal(message, f"prompt is too long: {n} tokens > {context} maximum. This model's maximum context "
              f"length is {context} tokens; the request ({n} tokens) exceeds the available context size ({context} tokens).")
        assert not re.search("rate limit|quota|try again", error["message"])
    fails(server, CHAT, body(num_ctx=256, messages=[{"role": "user", "content": LONG[:4000]}]), 400,
          "invalid_request_error", "context_length_exceeded")
    cut = post(server, "/v1/embeddings", {"input": LONG, "truncate": True})
    equal(cut["usage"]["prompt_tokens"], 2047)


@case
def codex_gets_a_full_context_as_an_event(server):
    sent = {"input": LONG, "stream": True}
    for headers in ({"originator": "codex_cli_rs"}, {"User-Agent": "codex/1.0"}):
        events = sse(server, "/v1/responses", sent, headers)
        equal([name for name, _ in events], ["response.created", "response.in_progress", "response.failed"])
        response = json.loads(events[-1][1])["response"]
        equal((response["status"], response["error"]["code"]), ("failed", "context_length_exceeded"))
    fails(server, "/v1/responses", sent, 400, "invalid_request_error", "context_length_exceeded")


@case
def unsupported_formats(server):
    for schema in ({"type": "object", "patternProperties": {"(?=x)": {}}}, {"$ref": "other.json#/x"},
                   {"type": "string", "pattern": "(?=a)b"}, {"type": "nothing"}):
        fails(server, CHAT, body(json_schema=schema), 400, "invalid_request_error", "unsupported_schema", "json_schema")
    large = {"type": "string", "description": "x" * 262144}
    fails(server, CHAT, body(json_schema=large), 400, "invalid_request_error", "schema_too_large", "json_schema")
    fails(server, CHAT, body(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": large}}), 400,
          "invalid_request_error", "schema_too_large", "response_format.json_schema.schema")
    fails(server, CHAT, body(json_schema={}, regex="a"), 400, "invalid_request_error", "invalid_value", "regex")
    fails(server, CHAT, body(grammar='root ::= "a"', regex="a"), 400, "invalid_request_error", "invalid_value", "grammar")
    fails(server, CHAT, body(grammar=["root"]), 400, "invalid_request_error", "invalid_value", "grammar")
    for text in ("root ::= x", 'root ::= <[7]>', "root ::= root | [a]", ""):
        error = fails(server, CHAT, body(structured_outputs={"grammar": text}), 400, "invalid_request_error",
                      "unsupported_schema", "structured_outputs.grammar")
        assert "line 1, column " in error["message"] or text == "", error
    fails(server, CHAT, body(grammar='root ::= "a"#' + "x" * 262144), 400, "invalid_request_error", "schema_too_large",
          "grammar")


AMBIGUOUS = 's ::= "" | "a" s s | "a" s s s | "b" s | [a-z] s s s s'


@case
def ambiguous_grammars(server):
    """A grammar too ambiguous to track is rejected: at the start if the first token shows it, otherwise later. The
    error names the field."""
    first, later = "root ::= s\n" + AMBIGUOUS, 'root ::= "Hello there: " s\n' + AMBIGUOUS
    for stream in (False, True):
        fails(server, CHAT, body(grammar=first, stream=stream), 400, "invalid_request_error", "unsupported_schema", "grammar")
        fails(server, CHAT, body(structured_outputs={"grammar": first}, stream=stream), 400, "invalid_request_error",
              "unsupported_schema", "structured_outputs.grammar")
    fails(server, CHAT, body(grammar=later, max_tokens=50), 400, "invalid_request_error", "unsupported_schema", "grammar")
    last = json.loads(sse(server, CHAT, body(grammar=later, max_tokens=50, stream=True))[-1][1])["error"]
    equal((last["code"], last["param"]), ("unsupported_schema", "grammar"))
    assert "too many alternatives" in last["message"], last


@case
def malformed_calls_are_counted(server):
    """A model without tools makes a call: logit_bias forces the tag."""
    tag, = post(server, "/tokenize", {"content": "<tool_call>", "parse_special": True})["tokens"]
    before = server.metric("mote_tool_calls_malformed_total")
    reply = post(server, CHAT, {"messages": [{"role": "user", "content": "What is the weather in Haldon?"}], "temperature": 0,
                                "reasoning_effort": "none", "max_tokens": 30, "logit_bias": {str(tag): 12}})
    equal([w["code"] for w in reply["mote"]["warnings"]], ["tool_call_malformed"])
    assert reply["choices"][0]["message"]["content"].startswith("<tool_call>"), reply
    equal(server.metric("mote_tool_calls_malformed_total"), before + 1)


@case
def errors_name_the_clients_fields(server):
    """Errors name the fields of the client's body, not those of the converted one."""
    bad = {"type": "object", "properties": {"a": {"items": {"contains": {"type": "integer"}}}}}
    where = "'#/properties/a/items/contains'"
    good = {"name": "f", "parameters": {"type": "object"}}
    tool = {"name": "g", "strict": True, "parameters": bad}
    wrap = [{"type": "function", "function": f} for f in (good, tool)]
    refused = (400, "invalid_request_error", "unsupported_schema")
    for more, param in (({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": bad}}},
                         "response_format.json_schema.schema"), ({"json_schema": bad}, "json_schema"),
                        ({"structured_outputs": {"json": bad}}, "structured_outputs.json"),
                        ({"tools": [{"type": "web_search"}, *wrap]}, "tools[2].function.parameters"),
                        ({"functions": [good, tool]}, "functions[1].parameters")):
        error = fails(server, CHAT, body(**more), *refused, param)
        assert where in error["message"], error
    for more, param in (({"regex": "(a"}, "regex"), ({"grammar": "root ::= a"}, "grammar"), ({"guided_regex": "(?=a)"}, "guided_regex"),
                        ({"json_schema": {"properties": {"a": {"pattern": "(b"}}}}, "json_schema")):
        fails(server, CHAT, body(**more), *refused, param)
    error = fails(server, CHAT, body(tools=[{"type": "web_search"}, {"type": "function", "function": {"name": "a b"}}]), 400,
                  "invalid_request_error", "invalid_value", "tools[1].function.name")
    given = {"input": "x", "tools": [{"type": "function", **good}, {"type": "function", **tool}]}
    error = fails(server, "/v1/responses", given, *refused, "tools[1].parameters")
    assert error["message"].startswith("tools[1].parameters: ") and where in error["message"], error
    given = {"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": bad}}}
    fails(server, "/v1/responses", given, *refused, "text.format.schema")
    wrong = (400, "invalid_request_error", "invalid_value")
    user = {"role": "user", "content": "x"}
    called = {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"}
    for items, param in (([user, {"role": "king", "content": "x"}], "input[1].role"),
                         ([user, called, {"type": "reasoning"}, {"role": "user", "content": {}}], "input[3].content"),
                         ([user, {"type": "reasoning"}, {**called, "name": 5}, called], "input[1]"),
                         ([{"role": "user", "content": [{"type": "text", "text": "x"}] * 1025}], "input[0]"), (["x"], "input[0]")):
        error = fails(server, "/v1/responses", {"instructions": "Be brief.", "input": items}, *wrong, param)
        assert param in error["message"] and "messages[" not in error["message"], error
    sent = {"model": "m", "max_tokens": 4, "system": "x", "messages": [user], "tools": [{"name": "f", "strict": True, "input_schema": bad}]}
    status, _, data = request(server, "POST", "/v1/messages", sent)
    text = json.loads(data)["error"]["message"]
    assert status == 400 and text.startswith("tools[0].input_schema: ") and where in text, data


@case
def images(server):
    def sent(url):
        return body(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": url}]}])
    for url in ({"url": "https://example.com/a.png"}, "http://example.com/a.png", {"url": "file:///etc/passwd"}):
        fails(server, CHAT, sent(url), 400, "invalid_request_error", "image_url_not_allowed", "messages[0].content")
    fails(server, CHAT, sent({"url": "data:image/png;base64,AAAA"}), 400, "invalid_request_error", "no_vision")
    for kind in ("input_audio", "file"):
        fails(server, CHAT, body(messages=[{"role": "user", "content": [{"type": kind, kind: {}}]}]), 400,
              "invalid_request_error", "unsupported", "messages[0].content")
    fails(server, "/v1/responses", {"input": [{"role": "user", "content": [
        {"type": "input_image", "image_url": "https://example.com/a.png"}]}]}, 400, "invalid_request_error", "image_url_not_allowed",
          "input[0].content")


@case
def invalid_tools(server):
    many = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]
    fails(server, CHAT, body(tools=many), 400, "invalid_request_error", "invalid_value", "tools")
    hosted = post(server, "/v1/responses", {"input": FACT, "max_output_tokens": 2, "tools": [{"type": "web_search"}],
                                            "tool_choice": {"type": "web_search"}})
    equal([w["code"] for w in hosted["mote"]["warnings"]], ["tool_type_ignored"])
    fails(server, "/v1/responses", {"input": FACT, "tool_choice": {"type": "web_search"}}, 400, "invalid_request_error",
          "invalid_value", "tool_choice")
    post(server, CHAT, body(tools=many[:128], tool_choice="none"))
    fails(server, CHAT, body(tools=[WEATHER_TOOL], tool_choice={"type": "function", "function": {"name": "no"}}), 400,
          "invalid_request_error", "invalid_value", "tool_choice")
    fails(server, CHAT, body(tool_choice="required"), 400, "invalid_request_error", "invalid_value", "tool_choice")
    strict = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)b"}}}}}
    fails(server, CHAT, body(tools=[strict]), 400, "invalid_request_error", "unsupported_schema")
    lax = {"type": "function", "function": {**strict["function"], "strict": False}}
    warnings = post(server, CHAT, body(tools=[lax]))["mote"]["warnings"]
    assert warnings, warnings


@case
def keys_routes_and_methods(server):
    fails(server, CHAT, body(), 401, "authentication_error", "invalid_api_key", headers={"Authorization": "Bearer no"})
    equal(request(server, "GET", "/v1/nothing")[0], 404)
    equal(json.loads(request(server, "GET", "/v1/models/other-model")[2])["error"]["code"], "model_not_found")
    status, headers, data = request(server, "GET", CHAT)
    equal((status, headers["allow"]), (405, "POST, OPTIONS"))
    equal(json.loads(data)["error"]["code"], "method_not_allowed")
    for method, path in (("GET", "/v1/responses/resp_no"), ("DELETE", "/v1/responses/resp_no"),
                         ("POST", "/v1/responses/resp_no/cancel"), ("GET", "/v1/responses/resp_no/input_items")):
        status, _, data = request(server, method, path)
        equal((status, json.loads(data)["error"]["code"]), (404, "not_found"))


@case
def invalid_thinking_settings(server):
    for more, param in (({"reasoning_effort": "wild"}, "reasoning_effort"), ({"reasoning": {"effort": "wild"}}, "reasoning.effort"),
                        ({"thinking": {"type": "x"}}, "thinking.type"), ({"thinking_budget": 1.5}, "thinking_budget")):
        fails(server, CHAT, body(**more), 400, "invalid_request_error", "invalid_value", param)


@case
def many_messages(server):
    one = {"role": "user", "content": "a"}
    assert post(server, CHAT + "/input_tokens", body(messages=[one] * 2048))["input_tokens"] > 2048
    fails(server, CHAT, body(messages=[one] * 2049), 400, "invalid_request_error", "invalid_value", "messages")
    fails(server, "/v1/responses", {"input": [one] * 2049}, 400, "invalid_request_error", "invalid_value", "input")


@case
def error_names_the_message(server):
    for wrong in ({"role": "king", "content": "x"}, {"content": "x"}, "text", {"role": "user", "content": 5},
                  {"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]},
                  {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}):
        error = json.loads(request(server, "POST", CHAT, body(messages=[{"role": "user", "content": "a"}, wrong]))[2])["error"]
        assert "messages[1]" in error["message"] or "messages[1]" in error["param"], error


@case
def request_in_two_segments(server):
    """A request split into two segments at any byte gives the same reply."""
    text = json.dumps(body(max_tokens=1, temperature=0)).encode()
    head = (f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\nMote-Ext: 0\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n").encode()
    whole = head + text
    for at in range(1, len(whole), 7):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.sendall(whole[:at])
            s.sendall(whole[at:])
            data = b""
            while piece := s.recv(65536):
                data += piece
        assert data.startswith(b"HTTP/1.1 200 "), (at, data[:200])


if __name__ == "__main__":
    run("--kv-tokens", "2048")
