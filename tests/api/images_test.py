# SPDX-License-Identifier: Apache-2.0
"""images_test.py - images in every API: results, image cache, errors.

Answers equal those of the reference implementation and of `mote run --image`, also when batched.
"""
import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

from images_rig import ALL, GOLDEN, Anthropic, OpenAI, Responses, ask, b64, named, image_file, png, url
from api_rig import KEY, PATIENCE, POINT_SCHEMA, WEATHER_TOOL, Server, case, equal, main, post, request, shown
from jpeg_scans import jpeg

SEE, COUNT = image_file("media/see0.png"), image_file("media/count0.png")
DESCRIBE = "Describe the picture."
SEEN = {"w": 256, "h": 256, "tokens": 64}


@case
def answers_equal_the_reference(server):
    for files, question, wanted in shown():
        for d in ALL:
            reply = ask(server, d, question, files)
            equal((d.name, d.read(reply)), (d.name, wanted))
            equal(len(reply["mote"]["images"]), len(files))
            text, mote = d.stream(server, named(server, d.body(question, files)))
            equal((d.name, text), (d.name, wanted))
            equal(mote["images"], reply["mote"]["images"])


@case
def answers_equal_the_command_line(server):
    """Uses the vision preset of the sampler, because the request sets none."""
    file = str(GOLDEN / "media" / "see0.png")
    done = subprocess.run(
        [os.environ["MOTE"], "run", os.path.join(os.environ["DATA"], "mote-tiny-BF16.gguf"), "--image", file,
         "--seed", "11", "--think", "off", "--json", DESCRIBE],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=True)
    run = json.loads(done.stdout)
    body = OpenAI().body(DESCRIBE, [SEE], seed=11)
    del body["temperature"]
    reply = post(server, OpenAI.path, body)
    equal(reply["choices"][0]["message"]["content"], run["text"].strip() if "text" in run else run["content"].strip())
    equal(reply["mote"]["images"], run["images"])
    assert reply["mote"]["preset"].endswith("/vision"), reply["mote"]["preset"]


@case
def images_are_numbered_on_request(server):
    """chat_template_kwargs also count where the API converts the messages."""
    for d in ALL:
        plain, _ = d.usage(ask(server, d, DESCRIBE, [SEE]))
        numbered, _ = d.usage(ask(server, d, DESCRIBE, [SEE], chat_template_kwargs={"add_vision_id": True}))
        assert numbered > plain, (d.name, plain, numbered)


@case
def second_question_uses_the_caches(server):
    """The image is not encoded again, and only the new part of the prompt is prefilled. The first question is so
    long that the recurrent state at its end cannot be reused."""
    file = image_file("images/scene_320x240.jpg")
    for d in ALL:
        first = ask(server, d, "What is this? " * 16, [file], image_tokens=70)
        encoded = server.metric("mote_images_encoded_total")
        found = server.metric("mote_image_cache_hits_total")
        second = ask(server, d, "How many stars are there, and what is at the bottom?", [file], image_tokens=70)
        equal(server.metric("mote_images_encoded_total"), encoded)
        equal(server.metric("mote_image_cache_hits_total"), found + 1)
        equal(second["mote"]["images"], first["mote"]["images"])
        prompt, cached = d.usage(second)
        assert cached >= first["mote"]["images"][0]["tokens"] - 28, (d.name, prompt, cached)
        read = prompt - cached
        assert read <= 32 + 28, (d.name, prompt, cached)
    equal(encoded, server.metric("mote_images_encoded_total"))


@case
def next_turn_uses_the_prefix_cache(server):
    """An image in the history is not prefilled again."""
    o = OpenAI()
    body = o.body(DESCRIBE, [SEE])
    first = post(server, o.path, body)
    body["messages"] += [first["choices"][0]["message"], {"role": "user", "content": "Thanks! Who are you?"}]
    second = post(server, o.path, body)
    prompt, cached = o.usage(second)
    assert cached >= 64 and prompt - cached < 48, (prompt, cached)
    r = Responses()
    first = post(server, r.path, {**r.body(DESCRIBE, [SEE]), "store": True})
    second = post(server, r.path, {"input": DESCRIBE, "previous_response_id": first["id"], "temperature": 0,
                                   "reasoning": {"effort": "none"}})
    equal(second["mote"]["images"], [SEEN])
    assert r.usage(second)[1] >= 64, second["usage"]


@case
def image_sizes(server):
    big = image_file("images/big_2000x1500.jpg")
    o = OpenAI()

    def seen(more=None, **part):
        body = {**o.body(DESCRIBE, [big], max_tokens=1), **(more or {})}
        body["messages"][0]["content"][0]["image_url"].update(part)
        return post(server, o.path, body)["mote"]

    usual = seen()["images"][0]["tokens"]
    low = seen(detail="low")["images"][0]["tokens"]
    assert 200 < low <= 256 < usual <= 280, (low, usual)
    equal(seen(detail="auto")["images"][0]["tokens"], usual)
    for detail in ("high", "original"):
        capped = seen(detail=detail)
        assert 280 < capped["images"][0]["tokens"] <= 320, capped
        assert "image_tokens_capped" in [w["code"] for w in capped["warnings"]], capped
    assert 50 < seen({"image_tokens": 64}, detail="high")["images"][0]["tokens"] <= 64
    assert 50 < seen({"max_pixels": 65536}, detail="high")["images"][0]["tokens"] <= 64
    for more in ({"image_tokens": 63}, {"max_pixels": 1024}, {"image_tokens": "many"}):
        post(server, o.path, {**o.body(DESCRIBE, [SEE]), **more}, 400)
    body = o.body(DESCRIBE, [SEE])
    body["messages"][0]["content"][0]["image_url"]["detail"] = "much"
    post(server, o.path, body, 400)


@case
def image_source_forms(server):
    """Raw base64, a plain string, base64 with line breaks and without padding."""
    o = OpenAI()
    lines = "\n".join(b64(SEE)[i:i + 76] for i in range(0, len(b64(SEE)), 76))
    urlsafe = b64(SEE).replace("+", "-").replace("/", "_").rstrip("=")
    for value in (url(SEE), b64(SEE), lines, urlsafe, "DATA:image/jpeg;charset=x;BASE64," + b64(SEE)):
        body = o.body(DESCRIBE, [SEE])
        body["messages"][0]["content"][0]["image_url"] = value
        equal(post(server, o.path, body)["mote"]["images"], [SEEN])


@case
def images_in_tool_results(server):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Haldon"}'}}
    image = {"type": "image_url", "image_url": {"url": url(SEE)}}
    o = OpenAI()
    body = o.body("What is the weather in Haldon?", [], tools=[WEATHER_TOOL])
    body["messages"] += [{"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "call_1", "content": [image]}]
    first = post(server, o.path, body)
    a = Anthropic()
    tool = {"name": "get_weather", "description": WEATHER_TOOL["function"]["description"],
            "input_schema": WEATHER_TOOL["function"]["parameters"]}
    ours = a.body("What is the weather in Haldon?", [], tools=[tool])
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(SEE)}}
    ours["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "get_weather",
                                           "input": {"city": "Haldon"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": [block]}]}]
    second = post(server, a.path, ours)
    equal((first["mote"]["images"], second["mote"]["images"]), ([SEEN], [SEEN]))
    equal(a.read(second), o.read(first))
    equal(a.usage(second)[0], o.usage(first)[0])
    counted = post(server, "/v1/messages/count_tokens", {k: ours[k] for k in ("model", "messages", "tools")})
    assert abs(counted["input_tokens"] - a.usage(second)[0]) <= 4, counted


@case
def animated_gif(server):
    """An animated GIF with two frames counts as a video."""
    def frame(index):
        return (b"\x21\xf9\x04\x00\x32\x00\x00\x00" + b"\x2c\0\0\0\0\x40\x00\x40\x00\x00" + b"\x02" +
                lzw([index] * 64 * 64) + b"\x00")

    def lzw(pixels):
        bits, n, out = 0, 0, bytearray()
        for i, code in enumerate(p for pixel in pixels for p in (4, pixel)):
            bits |= code << n
            n += 3
            while n >= 8:
                out.append(bits & 255)
                bits >>= 8
                n -= 8
        bits |= 5 << n
        out += bits.to_bytes(2, "little")
        return b"".join(bytes([len(out[i:i + 255])]) + bytes(out[i:i + 255]) for i in range(0, len(out), 255))

    gif = (b"GIF89a\x40\x00\x40\x00\x91\x00\x00" + bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255]) +
           b"".join(frame(1 + i % 3) for i in range(8)) + b"\x3b")
    for d, path, items in ((OpenAI(), OpenAI.path, "messages"), (Responses(), Responses.path, "input")):
        body = d.body("Which way does the ball move?", [], max_tokens=4) if items == "messages" else d.body(
            "Which way does the ball move?", [], max_output_tokens=16)
        body[items][0]["content"].insert(0, {"type": "input_video", "input_video": {"data": b64(gif)}})
        mote = post(server, path, body)["mote"]
        equal(len(mote["images"]), 1)
        video = mote["images"][0]
        assert video["tokens"] > video["w"] * video["h"] // 1024, video


def invalid_images():
    """Returns (file, error code) of invalid images."""
    return [
        ("###", "image_parse_error"),
        ("AAAAA", "image_parse_error"),
        (b"not an image at all", "image_parse_error"),
        (SEE[:len(SEE) // 2], "image_parse_error"),
        (SEE[:40] + b"\0" * 64 + SEE[104:], "image_parse_error"),
        (png(4, 4, claim=(60000, 60000)), "image_too_large"),
        (jpeg(200, 200, 3000), "image_too_large"),
        (png(1, 300), "image_parse_error"),
        (image_file("images/ratio_limit_1x201.png"), "image_parse_error"),
        ("https://localhost/a.png", "image_url_not_allowed"),
    ]


@case
def invalid_images_are_rejected(server):
    for file, code in invalid_images():
        for d in ALL:
            if code == "image_url_not_allowed" and "api" in d.path:
                continue  # the Ollama API has no URLs
            said, text = d.error(ask(server, d, DESCRIBE, [file], 400))
            assert said in (None, code), (d.name, code, said, text)
            assert len(text) < 300 and "/tmp" not in text, text
            status, _, data = request(server, "POST", d.path, named(server, {**d.body(DESCRIBE, [SEE, file]),
                                                                             "stream": True}))
            equal((d.name, status), (d.name, 400))
            d.error(json.loads(data))
    for d in ALL:
        d.error(ask(server, d, DESCRIBE, [SEE] * 17, 400))
        equal(ask(server, d, DESCRIBE, [SEE] * 2)["mote"]["images"], [SEEN] * 2)
    assert server.metric("mote_images_failed_total") > 0


@case
def scores_reject_images(server):
    body = {"choices": ["yes", "no"], "messages": OpenAI().body(DESCRIBE, [SEE])["messages"]}
    for more in ({}, {"choices": None, "prompt_logprobs": 1}):
        error = post(server, "/v1/score", {**body, **more}, 400)["error"]
        equal((error["code"], error["param"]), ("unsupported", "messages[0].content"))
        assert "scoring" in error["message"] and "images" in error["message"], error


@case
def images_exceed_the_context(server):
    o = OpenAI()
    reply = post(server, o.path, {**o.body(DESCRIBE, [SEE, COUNT, SEE, COUNT]), "num_ctx": 256}, 400)
    equal(reply["error"]["code"], "context_length_exceeded")
    assert reply["error"]["n_ctx"] == 256 < reply["error"]["n_prompt_tokens"] + 1, reply


@case
def status_and_metrics(server):
    equal(server.get("/props")["modalities"], {"vision": True, "video": True, "audio": False})
    model = server.get("/v1/models")["data"][0]
    assert "vision" in model["capabilities"] and "image" in model["architecture"]["input_modalities"], model
    assert "vision" in post(server, "/api/show", {"model": server.model})["capabilities"]
    status = server.get("/v1/status")
    assert status["images"]["cached"] > 0 and status["images"]["bytes"] > 0, status["images"]
    memory = status["memory"]
    equal(memory["total"], sum(memory[k] for k in ("weights", "model", "kv_cache", "recurrent_state", "scratch", "vision")))
    equal(server.metric('mote_memory_bytes{kind="vision"}'), memory["vision"])
    files = ("mote-tiny-BF16.gguf", "mmproj-mote-tiny-BF16.gguf")
    equal(memory["weights"], sum(os.path.getsize(os.path.join(os.environ["DATA"], file)) for file in files))


@case
def disconnect_drops_queued_images(server):
    o = OpenAI()
    big = [image_file("images/big_2000x1500.jpg") + bytes([i]) for i in range(16)]
    data = json.dumps({**o.body(DESCRIBE, big), "image_tokens": 2048}).encode()
    encoded = server.metric("mote_images_encoded_total")
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall((f"POST {o.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n").encode() + data)
        end = time.monotonic() + PATIENCE
        while server.metric("mote_image_requests_queued") == 0 and time.monotonic() < end:
            time.sleep(0.01)
    while server.metric("mote_image_requests_queued") > 0 and time.monotonic() < end:
        time.sleep(0.02)
    equal(server.metric("mote_image_requests_queued"), 0)
    assert server.metric("mote_images_encoded_total") < encoded + 16
    equal(ask(server, o, DESCRIBE, [SEE])["mote"]["images"], [SEEN])


# ---- alone and batched ----

def batch_requests():
    """Requests for one batch: two images, tools, a schema, thinking, in all APIs."""
    two = [image_file("media/two0.png"), image_file("media/two1.png")]
    made = [(OpenAI(), "What is in the two pictures?", two, {"max_tokens": 40, "tools": [WEATHER_TOOL], "think": True}),
            (OpenAI(), "What colour is the triangle?", [image_file("media/colour0.png")], {"max_tokens": 24}),
            (OpenAI(), DESCRIBE, [SEE, COUNT],
             {"max_tokens": 60, "think": True, "tools": [WEATHER_TOOL], "response_format": {
                 "type": "json_schema", "json_schema": {"name": "p", "schema": POINT_SCHEMA}}}),
            (Responses(), "How many stars are there?", [COUNT], {"max_output_tokens": 30, "think": True}),
            (Anthropic(), "What is in the two pictures?", two, {"max_tokens": 30, "temperature": 0.9, "seed": 3}),
            (OpenAI(), "Who are you?", [], {"max_tokens": 20})]
    return [(d, d.body(q, files, **more)) for d, q, files, more in made]


def text_of(d, reply):
    """Returns the reply without ids and times."""
    reply = {k: v for k, v in reply.items() if k in ("choices", "output", "content", "message")}
    text = json.dumps(reply)
    for kind in ("rs_", "msg_", "call_", "fc_", "toolu_"):
        while kind in text and len(text.split(kind, 1)[1]) > 32:
            head, tail = text.split(kind, 1)
            text = head + "ID" + tail[32:]
    return d.name + text.split('"signature"')[0]


def compare_alone_and_batched(server, rounds):
    asked = batch_requests()
    alone = [text_of(d, post(server, d.path, named(server, {**body, "cache_prompt": False}))) for d, body in asked]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda a: text_of(a[0], post(server, a[0].path, named(server, a[1]))), asked * rounds))
    equal(got, alone * rounds)


@case
def alone_and_batched(server):
    compare_alone_and_batched(server, 2)


def few_kv_positions():
    """Too few KV positions for the whole batch: requests are preempted and prefilled again, images included."""
    with Server("--kv-tokens", "768", "--parallel", "6", "--limit", "images-in-parallel=4", sees=True) as server:
        compare_alone_and_batched(server, 2)
        print("preemptions", server.metric("mote_preemptions_total"))


def text_only_model():
    with Server() as server:
        for d in ALL:
            _, text = d.error(ask(server, d, DESCRIBE, [SEE], 400))
            assert "supports text only" in text, text
        equal(post(server, OpenAI.path, OpenAI().body(DESCRIBE, [SEE]), 400)["error"]["code"], "no_vision")
        equal(server.get("/props")["modalities"]["vision"], False)


def small_image_cache():
    """A small image cache: old images are evicted, images that do not fit are rejected, later ones fit again."""
    with Server("--limit", "image-cache-bytes=1048576", "--limit", "images=4", "--limit", "image-bytes=20000",
                "--image-tokens", "128", sees=True) as server:
        o = OpenAI()
        for i in range(24):
            reply = ask(server, o, DESCRIBE, [SEE + bytes([i])], max_tokens=2)
            equal(reply["mote"]["images"], [SEEN])
            assert server.metric("mote_image_cache_bytes") <= 1048576
        assert server.metric("mote_image_cache_entries") < 24
        ask(server, o, DESCRIBE, [SEE] * 5, 400)
        equal(ask(server, o, DESCRIBE, [image_file("images/scene_320x240.jpg")], 400)["error"]["code"], "image_too_large")
        equal(ask(server, o, DESCRIBE, [SEE, COUNT, image_file("media/two0.png"), image_file("media/two1.png")],
                  max_tokens=2)["mote"]["images"], [SEEN] * 4)


def children(pid):
    """Returns the fork servers among the child processes."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                found += [int(word) for word in f.read().split()]
    return [child for child in found if name_of(child) == "mote-forkserver"]


def name_of(pid):
    """"": the process is gone. The server reaps its children at any moment."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(pid):
    """"Z": it has exited, or is gone already."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def kill_fork_server(server):
    """Kills the fork server and returns its process id. There is exactly one."""
    fork_servers = children(server.process.pid)
    equal(len(fork_servers), 1)
    os.kill(fork_servers[0], signal.SIGKILL)
    wait_for("its exit", lambda: fork_servers[0] not in children(server.process.pid) or state_of(fork_servers[0]) == "Z")
    return fork_servers[0]


def has_pending_image(fork_server):
    """Does its socket have pending descriptors? Older kernels do not show it."""
    with open(f"/proc/{fork_server}/fdinfo/0", encoding="ascii") as f:
        counts = [line.split()[1] for line in f if line.startswith("scm_fds:")]
    if not counts:
        time.sleep(1)
    return not counts or counts[0] != "0"


def fork_server_is_killed():
    """The fork server is killed: its images fail with 503, the next image starts a new one, other requests are
    not affected."""
    with Server(sees=True) as server:
        o, lost = OpenAI(), 0
        ask(server, o, DESCRIBE, [SEE])
        for d in ALL[:3]:
            kill_fork_server(server)
            lost += 1
            equal(ask(server, d, DESCRIBE, [SEE])["mote"]["images"], [SEEN])  # from the image cache
            assert d.read(ask(server, d, "Who are you?", []))
            equal(ask(server, d, DESCRIBE, [COUNT + bytes([lost])])["mote"]["images"], [SEEN])
        fork_server = children(server.process.pid)[0]
        os.kill(fork_server, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(request, server, "POST", o.path, named(server, o.body(DESCRIBE, [COUNT + b"0"])))
            wait_for("an image for the fork server", lambda: has_pending_image(fork_server))
            equal(kill_fork_server(server), fork_server)
            status, headers, data = asked.result()
        equal((status, headers["retry-after"], headers["x-should-retry"]), (503, "1", "true"))
        code, text = o.unavailable(json.loads(data))
        assert code == "vision_unavailable" and "fork server" in text, (code, text)
        equal(ask(server, o, DESCRIBE, [COUNT + b"0"])["mote"]["images"], [SEEN])
        wait_for("the metric", lambda: server.metric("mote_image_decoder_exits_total") == lost + 1)
        assert "the image decoder process has exited (Killed, 9)" in server.said(), server.said()


if __name__ == "__main__":
    with Server("--image-tokens", "280", "--limit", "image-tokens=320", sees=True) as server:
        code = main(server)
    if len(sys.argv) == 1:
        few_kv_positions()
        text_only_model()
        small_image_cache()
        fork_server_is_killed()
    sys.exit(code)
