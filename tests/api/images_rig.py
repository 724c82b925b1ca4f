# SPDX-License-Identifier: Apache-2.0
"""images_rig.py - one question about images in the form of every API, streamed or not; invalid files.

Images, questions and greedy answers come from the reference implementation (golden/vision).
"""
import json
import os
import pathlib
import struct
import zlib

from api_rig import equal, in_letters, ndjson, post, sse

GOLDEN = pathlib.Path(os.environ["DATA"]) / "golden" / "vision"


def image_file(name):
    return (GOLDEN / name).read_bytes()


def b64(data):
    return data if isinstance(data, str) else in_letters(data)


def url(data):
    return data if isinstance(data, str) else "data:image/png;base64," + b64(data)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, colour=(255, 0, 0), claim=None):
    """Returns a PNG of one colour. `claim`: the size in its header, if different."""
    head = struct.pack(">IIBBBBB", *(claim or (width, height)), 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class OpenAI:
    name, path, place = "openai", "/v1/chat/completions", "messages[0].content"

    def body(self, question, files, think=False, **more):
        parts = [{"type": "image_url", "image_url": {"url": url(f)}} for f in files]
        return {"messages": [{"role": "user", "content": parts + [{"type": "text", "text": question}]}],
                "temperature": 0, "reasoning_effort": "low" if think else "none", **more}

    def read(self, reply):
        return reply["choices"][0]["message"]["content"]

    def usage(self, reply):
        return reply["usage"]["prompt_tokens"], reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    def stream(self, server, body):
        events = [json.loads(d) for _, d in sse(server, self.path, {**body, "stream": True}) if d != "[DONE]"]
        return ("".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"]),
                [e["mote"] for e in events if "mote" in e][-1])

    def unavailable(self, reply):
        equal(reply["error"]["type"], "unavailable_error")
        return reply["error"]["code"], reply["error"]["message"]

    def error(self, reply):
        error = reply["error"]
        equal(error["type"], "invalid_request_error")
        assert error["param"] in (self.place, self.place.split(".")[0], self.place.split("[")[0]), error
        return error["code"], error["message"]


class Responses(OpenAI):
    name, path, place = "responses", "/v1/responses", "input[0].content"

    def body(self, question, files, think=False, **more):
        parts = [{"type": "input_image", "image_url": url(f), "detail": "auto"} for f in files]
        return {"input": [{"role": "user", "content": parts + [{"type": "input_text", "text": question}]}],
                "temperature": 0, "reasoning": {"effort": "low" if think else "none"}, **more}

    def read(self, reply):
        return "".join(c["text"] for i in reply["output"] if i["type"] == "message" for c in i["content"])

    def usage(self, reply):
        return reply["usage"]["input_tokens"], reply["usage"]["input_tokens_details"]["cached_tokens"]

    def stream(self, server, body):
        events = [(n, json.loads(d)) for n, d in sse(server, self.path, {**body, "stream": True})]
        return ("".join(e["delta"] for n, e in events if n == "response.output_text.delta"),
                events[-1][1]["response"]["mote"])


class Anthropic:
    name, path, place = "anthropic", "/v1/messages", "messages[0].content"

    def body(self, question, files, think=False, **more):
        blocks = [{"type": "image", "source": {"type": "url", "url": f} if isinstance(f, str) and "://" in f else
                   {"type": "base64", "media_type": "image/png", "data": b64(f)}} for f in files]
        return {"model": "any", "max_tokens": 200, "temperature": 0,
                "thinking": {"type": "enabled", "budget_tokens": 1024} if think else {"type": "disabled"},
                "messages": [{"role": "user", "content": blocks + [{"type": "text", "text": question}]}], **more}

    def read(self, reply):
        return "".join(b["text"] for b in reply["content"] if b["type"] == "text")

    def usage(self, reply):
        usage = reply["usage"]
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["cache_read_input_tokens"]

    def stream(self, server, body):
        events = [(n, json.loads(d)) for n, d in sse(server, self.path, {**body, "stream": True})]
        return ("".join(e["delta"].get("text", "") for n, e in events if n == "content_block_delta"),
                [e for n, e in events if n == "message_delta"][-1]["mote"])

    def unavailable(self, reply):
        equal((reply["type"], reply["error"]["type"]), ("error", "overloaded_error"))
        return None, reply["error"]["message"]

    def error(self, reply):
        equal((reply["type"], reply["error"]["type"]), ("error", "invalid_request_error"))
        assert "messages" in reply["error"]["message"], reply
        return None, reply["error"]["message"]


class Ollama:
    name, path = "ollama", "/api/chat"

    def body(self, question, files, think=False, **more):
        return {"model": None, "think": "low" if think else False, "options": {"temperature": 0}, "stream": False,
                "messages": [{"role": "user", "content": question, "images": [b64(f) for f in files]}], **more}

    def read(self, reply):
        return reply["message"]["content"]

    def usage(self, reply):
        return reply["prompt_eval_count"], reply["mote"]["cache"]["reused"]

    def stream(self, server, body):
        lines = [json.loads(line) for line in ndjson(server, self.path, {**body, "stream": True})]
        return "".join(self.read(line) for line in lines), lines[-1]["mote"]

    def unavailable(self, reply):
        equal(list(reply), ["error"])
        return None, reply["error"]

    def error(self, reply):
        equal(list(reply), ["error"])
        assert "images[" in reply["error"] or "videos" in reply["error"], reply
        return None, reply["error"]


class Generate(Ollama):
    name, path = "generate", "/api/generate"

    def body(self, question, files, think=False, **more):
        return {"model": None, "think": "low" if think else False, "options": {"temperature": 0}, "stream": False,
                "prompt": question, "images": [b64(f) for f in files], **more}

    def read(self, reply):
        return reply["response"]


ALL = [OpenAI(), Responses(), Anthropic(), Ollama(), Generate()]


def named(server, body):
    return {**body, "model": server.model}


def ask(server, d, question, files, status=200, **more):
    return post(server, d.path, named(server, d.body(question, files, **more)), status)
