# SPDX-License-Identifier: Apache-2.0
"""videos_test.py - videos sent as frames (video_frames): frame choice and timestamps equal the reference.

The prompt has a digest of the pixels in place of each video, so two videos with the same chosen frames have equal ids.
"""
import json
import os
import struct
import subprocess
import sys

from images_rig import GOLDEN, OpenAI, Responses, b64, named, image_file, url
from api_rig import Server, case, equal, main, post

INDEX = json.loads((GOLDEN / "index.json").read_text())
TABLE = json.loads(subprocess.run([os.environ["PARAMS"], "json"], check=True, capture_output=True).stdout)
CLIP = [image_file(f"media/clip{i:02d}.png") for i in range(20)]
BALL = [image_file(f"media/video{i}.png") for i in range(8)]
SAMPLES = {"boolean": True, "number": 1.5, "string": "x", "array": [True], "object": {"a": 1}}


def video(files, **more):
    return {"type": "video_frames", "frames": [url(f) for f in files], **more}


def body_of(part, text="", dialect=OpenAI(), **more):
    body = dialect.body(text, [], **more)
    body["input" if "input" in body else "messages"][0]["content"].insert(0, part)
    return body


def prompt(server, part):
    """Returns (text, ids). Images have negative ids."""
    reply = post(server, "/apply-template", body_of(part, tokens=True))
    return reply["prompt"], reply["tokens"]


def image_ids_of(ids):
    return [i for i in ids if i < 0]


def int32s(path):
    data = (GOLDEN / path).read_bytes()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - begin) // 4}i", data[begin:]))


@case
def frames_and_times_equal_the_reference(server):
    for golden in INDEX["video"]:
        name, n = golden["name"], golden["frames"]
        wanted = int32s(golden["ids"]["file"])
        pad = max(set(wanted), key=wanted.count)
        _, ids = prompt(server, video(CLIP[:n], fps=golden["fps"]))
        plain = [pad if i < 0 else i for i in ids]
        assert any(plain[i:i + len(wanted)] == wanted for i in range(len(plain))), (name, plain, wanted)
        chosen = [CLIP[i] for i in golden["sampled"]]
        equal((name, image_ids_of(prompt(server, video(chosen, fps=2))[1])), (name, image_ids_of(ids)))
        others = image_ids_of(prompt(server, video([CLIP[-1]] + chosen[1:], fps=2))[1])
        assert others[0] != image_ids_of(ids)[0] and others[-1] == image_ids_of(ids)[-1], name


@case
def default_is_two_frames_per_second(server):
    default = prompt(server, video(CLIP))
    equal(prompt(server, video(CLIP, fps=2)), default)
    equal(prompt(server, video(CLIP, fps=2.0)), default)
    equal(prompt(server, video(CLIP, fps=None)), default)
    assert prompt(server, video(CLIP, fps=10))[1] != default[1]
    equal(prompt(server, {"type": "video_frames", "frames": [b64(f) for f in CLIP]}), default)
    assert len(image_ids_of(prompt(server, video(CLIP[:1]))[1])) == 6
    # the same bytes with other frames and fps are different cache entries
    equal(prompt(server, video(CLIP)), default)


@case
def answers_equal_the_reference(server):
    golden = [p for p in INDEX["prompts"] if p["name"] == "video"][0]
    for d in (OpenAI(), Responses()):
        body = body_of(video(BALL, fps=2), "Which way does the ball move?", d)
        reply = post(server, d.path, named(server, body))
        equal((d.name, d.read(reply)), (d.name, golden["text"].replace("<|im_end|>", "")))
        equal(len(reply["mote"]["images"]), 1)
        equal(reply["mote"]["warnings"], [])


def refused(server, part, code, rest, word=""):
    """rest: the field name behind that of the content."""
    for d in (OpenAI(), Responses()):
        error = post(server, d.path, named(server, body_of(part, "?", d)), 400)["error"]
        equal((d.name, error["code"], error["param"]), (d.name, code, d.place + rest))
        assert word in error["message"], (word, error["message"])


@case
def invalid_videos_are_rejected(server):
    refused(server, video([]), "invalid_value", "", "1 to 768")
    refused(server, video(BALL[:1] * 769), "invalid_value", "", "1 to 768")
    refused(server, {**video(BALL), "frames": [url(BALL[0]), 5]}, "invalid_value", ".frames[1]")
    refused(server, video([BALL[0], "https://localhost/a.png"]), "image_url_not_allowed", ".frames[1]")
    refused(server, video([BALL[0], "###"]), "image_parse_error", ".frames[1]", "base64")
    refused(server, video([BALL[0], ""]), "image_parse_error", ".frames[1]")
    refused(server, video(BALL[:4] + [b"no image"]), "image_parse_error", "", "frame 5: ")
    refused(server, video(BALL[:2] + CLIP[:2]), "image_parse_error", "", "frame 3 is ")
    refused(server, {"type": "video_frames"}, "image_parse_error", "")
    for fps in (0, -1, 1000.5, 1e300):
        refused(server, video(BALL, fps=fps), "invalid_value", ".fps", "fps")


@case
def every_field_of_a_video_part(server):
    rows = [row for row in TABLE if "video part" in row["in"]]
    assert {"frames", "fps", "input_video"} <= {row["name"] for row in rows}, rows
    for row in (r for r in rows if r["name"] != "type"):  # a part without type is not a video
        for kind, sample in SAMPLES.items():
            part = {**video(BALL), row["name"]: sample}
            if row["type"] != "ignored" and kind not in row["type"].split(" or "):
                refused(server, part, "invalid_value", "." + row["name"], "must be ")
    body = body_of({**video(BALL), "unknown_name": 1}, "?", max_tokens=1)
    warnings = post(server, OpenAI.path, body)["mote"]["warnings"]
    equal([w["code"] for w in warnings], ["unknown_field"])
    post(server, OpenAI.path, body, 400, {"Mote-Strict": "1"})


if __name__ == "__main__":
    with Server(sees=True) as server:
        code = main(server)
    sys.exit(code)
