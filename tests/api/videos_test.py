# SPDX-License-Identifier: Apache-2.0
"""films_test.py - films that come as their frames (video_frames): the frames and times that the reference chooses.

A film's tokens in a prompt are a digest of its pixels, so two films of which the same frames are chosen have the same.
"""
import json
import os
import struct
import subprocess
import sys

from images_rig import GOLDEN, OpenAI, Responses, b64, named, picture, url
from api_rig import Server, case, equal, main, post

INDEX = json.loads((GOLDEN / "index.json").read_text())
TABLE = json.loads(subprocess.run([os.environ["PARAMS"], "json"], check=True, capture_output=True).stdout)
CLIP = [picture(f"media/clip{i:02d}.png") for i in range(20)]
BALL = [picture(f"media/video{i}.png") for i in range(8)]
SAMPLES = {"boolean": True, "number": 1.5, "string": "x", "array": [True], "object": {"a": 1}}


def film(files, **more):
    return {"type": "video_frames", "frames": [url(f) for f in files], **more}


def body_of(part, text="", dialect=OpenAI(), **more):
    body = dialect.body(text, [], **more)
    body["input" if "input" in body else "messages"][0]["content"].insert(0, part)
    return body


def prompt(server, part):
    """(text, ids); pictures have ids below 0."""
    reply = post(server, "/apply-template", body_of(part, tokens=True))
    return reply["prompt"], reply["tokens"]


def pictures_in(ids):
    return [i for i in ids if i < 0]


def int32s(path):
    data = (GOLDEN / path).read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - begin) // 4}i", data[begin:]))


@case
def frames_and_times_of_the_reference(server):
    for golden in INDEX["video"]:
        name, n = golden["name"], golden["frames"]
        wanted = int32s(golden["ids"]["file"])
        pad = max(set(wanted), key=wanted.count)
        _, ids = prompt(server, film(CLIP[:n], fps=golden["fps"]))
        plain = [pad if i < 0 else i for i in ids]
        assert any(plain[i:i + len(wanted)] == wanted for i in range(len(plain))), (name, plain, wanted)
        chosen = [CLIP[i] for i in golden["sampled"]]
        equal((name, pictures_in(prompt(server, film(chosen, fps=2))[1])), (name, pictures_in(ids)))
        others = pictures_in(prompt(server, film([CLIP[-1]] + chosen[1:], fps=2))[1])
        assert others[0] != pictures_in(ids)[0] and others[-1] == pictures_in(ids)[-1], name


@case
def two_frames_a_second_unless_told(server):
    untold = prompt(server, film(CLIP))
    equal(prompt(server, film(CLIP, fps=2)), untold)
    equal(prompt(server, film(CLIP, fps=2.0)), untold)
    equal(prompt(server, film(CLIP, fps=None)), untold)
    assert prompt(server, film(CLIP, fps=10))[1] != untold[1]
    equal(prompt(server, {"type": "video_frames", "frames": [b64(f) for f in CLIP]}), untold)
    assert len(pictures_in(prompt(server, film(CLIP[:1]))[1])) == 6
    # the same bytes, cut elsewhere and told to be faster: kept under other names
    equal(prompt(server, film(CLIP)), untold)


@case
def the_answer_of_the_reference(server):
    golden = [p for p in INDEX["prompts"] if p["name"] == "video"][0]
    for d in (OpenAI(), Responses()):
        body = body_of(film(BALL, fps=2), "Which way does the ball move?", d)
        reply = post(server, d.path, named(server, body))
        equal((d.name, d.read(reply)), (d.name, golden["text"].replace("<|im_end|>", "")))
        equal(len(reply["mote"]["images"]), 1)
        equal(reply["mote"]["warnings"], [])


def refused(server, part, code, rest, word=""):
    """rest: what of the name of the field comes behind that of the content."""
    for d in (OpenAI(), Responses()):
        error = post(server, d.path, named(server, body_of(part, "?", d)), 400)["error"]
        equal((d.name, error["code"], error["param"]), (d.name, code, d.place + rest))
        assert word in error["message"], (word, error["message"])


@case
def what_is_wrong_is_said(server):
    refused(server, film([]), "invalid_value", "", "1 to 768")
    refused(server, film(BALL[:1] * 769), "invalid_value", "", "1 to 768")
    refused(server, {**film(BALL), "frames": [url(BALL[0]), 5]}, "invalid_value", ".frames[1]")
    refused(server, film([BALL[0], "https://localhost/a.png"]), "image_url_not_allowed", ".frames[1]")
    refused(server, film([BALL[0], "###"]), "image_parse_error", ".frames[1]", "base64")
    refused(server, film([BALL[0], ""]), "image_parse_error", ".frames[1]")
    refused(server, film(BALL[:4] + [b"no picture"]), "image_parse_error", "", "frame 5: ")
    refused(server, film(BALL[:2] + CLIP[:2]), "image_parse_error", "", "frame 3 is ")
    refused(server, {"type": "video_frames"}, "image_parse_error", "")
    for fps in (0, -1, 1000.5, 1e300):
        refused(server, film(BALL, fps=fps), "invalid_value", ".fps", "fps")


@case
def every_field_of_a_film(server):
    rows = [row for row in TABLE if "video part" in row["in"]]
    assert {"frames", "fps", "input_video"} <= {row["name"] for row in rows}, rows
    for row in (r for r in rows if r["name"] != "type"):  # without its type it is no film
        for kind, sample in SAMPLES.items():
            part = {**film(BALL), row["name"]: sample}
            if row["type"] != "ignored" and kind not in row["type"].split(" or "):
                refused(server, part, "invalid_value", "." + row["name"], "must be ")
    body = body_of({**film(BALL), "nobody_knows": 1}, "?", max_tokens=1)
    warnings = post(server, OpenAI.path, body)["mote"]["warnings"]
    equal([w["code"] for w in warnings], ["unknown_field"])
    post(server, OpenAI.path, body, 400, {"Mote-Strict": "1"})


if __name__ == "__main__":
    with Server(sees=True) as seeing:
        code = main(seeing)
    sys.exit(code)
