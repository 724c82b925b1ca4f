#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""videos_pillow.py DECODE_PROBE LOAD_PROBE - frames of JPEG videos equal Pillow's, sample for sample.

First every frame of every variant, then the sampled frames, their times and sizes through the fork
server, as the reference samples them.
"""
import io
import math
import random
import struct
import subprocess
import sys

try:
    from PIL import Image

    import videos
except ModuleNotFoundError as missing:
    if missing.name != "PIL":
        raise
    print("Pillow is not installed (Debian: python3-pil)")
    sys.exit(77)

failures = 0


def expect(holds, what, *found):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED: {what}", *found)


def pixels(jpeg):
    return Image.open(io.BytesIO(jpeg)).convert("RGB")


class Probe:
    def __init__(self, *words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def take(self, form):
        return struct.unpack("<" + form, self.process.stdout.read(struct.calcsize("<" + form)))

    def message(self):
        return self.process.stdout.read(self.take("I")[0]).decode()

    def frames(self, data):
        """Pixels of all frames, or an error message."""
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        n = self.take("I")[0]
        if n == 0:
            return self.message()
        out = []
        for _ in range(n):
            w, h = self.take("II")
            out.append((w, h, self.process.stdout.read(w * h * 3)))
        return out

    def load(self, files, fps=0.0):
        """(times, frames) as the model gets them, or an error message."""
        parts = [len(f) for f in files] if len(files) > 1 else []
        data = b"".join(files)
        self.process.stdin.write(struct.pack("<dII", fps, len(parts), len(data)) +
                                 struct.pack(f"<{len(parts)}Q", *parts) + data)
        self.process.stdin.flush()
        n = self.take("I")[0]
        if n == 0:
            return self.message()
        w, h = self.take("II")
        times = list(self.take(f"{n}d"))
        return times, [(w, h, self.process.stdout.read(w * h * 3)) for _ in range(n)]


def shapes(rng):
    """(name, video, the JPEGs of its frames)"""
    frames = videos.jpegs(rng, 7)
    odd = [f + b"\0" * (1 - len(f) % 2) for f in frames]  # all of odd length
    bare = [videos.without_tables(f) for f in frames]
    marked = videos.jpegs(rng, 3, restart_marker_blocks=2) + videos.jpegs(rng, 2, progressive=True)
    thumb = videos.jpegs(rng, 1, size=(8, 8))[0]
    holding = [f[:2] + b"\xff\xe1" + struct.pack(">H", len(thumb) + 8) + b"Exif\0\0" + thumb + f[2:] for f in frames]
    yield "a stream", b"".join(frames), frames
    yield "a stream with gaps", b"\r\n--frame\r\n".join(frames) + b"\0" * 9, frames
    yield "a stream of odd JPEGs", b"".join(marked), marked
    yield "a stream with previews inside", b"".join(holding), frames
    yield "a stream without tables", b"".join(bare), frames
    yield "a truncated stream", b"".join(frames)[:-9], frames[:-1]
    yield "a stream with a torn frame", b"".join(frames[:2]) + frames[2][:-30] + b"".join(frames[3:]), frames[:2] + frames[3:]
    yield "one JPEG and garbage", frames[0] + b"\xff\xd8 rubbish \xff", frames[:1]
    yield "an AVI", videos.avi(frames), frames
    yield "an AVI without tables", videos.avi(bare), frames
    yield "an AVI without an index", videos.avi(frames, index=False), frames
    yield "an AVI of odd lengths", videos.avi(odd), frames
    yield "an AVI with sound", videos.avi(frames, sound=True), frames
    yield "an AVI in groups", videos.avi(frames, sound=True, grouped=True), frames
    yield "an AVI with lists named like chunks", videos.avi(frames, odd_lists=True), frames
    yield "an AVI of two parts", videos.avi(frames, second=3), frames
    yield "an AVI with interrupted recording", videos.avi(frames, open_end=True), frames
    yield "an AVI that ends in a frame", videos.avi(frames, index=False)[:-50], frames[:-1]
    yield "an AVI with repeated frames", videos.avi([frames[0], b"", b"", frames[1], b""]), [frames[i] for i in (0, 0, 0, 1, 1)]
    yield "an AVI from top to bottom", videos.avi(frames, height=-30), frames
    yield "an AVI with uncompressed names", videos.avi(frames, name=b"db", coding=b"mjpg"), frames


def decode_all(probe, rng):
    n = 0
    for name, video, shown in shapes(rng):
        got = probe.frames(video)
        want = [(p.width, p.height, p.tobytes()) for p in map(pixels, shown)]
        expect(got == want, name, got if isinstance(got, str) else f"{len(got)} frames, not {len(want)}")
        n += len(want)
    print(f"{n} frames equal to Pillow")


def check_rejected(probe, rng):
    frames = videos.jpegs(rng, 3)
    for name, video, word in (
            ("another codec", videos.avi(frames, coding=b"H264"), "H264"),
            ("control characters", videos.avi(frames, coding=b"\x1b[2J"), "?[2J"),
            ("interlaced", videos.avi(frames, height=60), "interlaced"),
            ("no frames", videos.avi([]), "no complete frame"),
            ("only repeated frames", videos.avi([b"", b""]), "no complete frame"),
            ("no headers", videos.group(b"AVI ", videos.group(b"movi", videos.chunk(b"00dc", frames[0])), b"RIFF"),
             "no video stream"),
            ("nothing inside", b"RIFF\x04\0\0\0AVI ", "invalid AVI"),
            ("no JPEG inside", videos.avi([b"hello, world"]), "JPEG"),
            ("a bad frame", videos.avi([frames[0], frames[1][:300], frames[2]]), "frame 2"),
            ("an MP4", b"\0\0\0\x18ftypisom" + b"\0" * 30, "ffmpeg"),
            ("a Matroska", b"\x1a\x45\xdf\xa3" + b"\0" * 30, "ffmpeg")):
        got = probe.frames(video)
        expect(isinstance(got, str) and word in got, name, got)


def chosen(total, fps):
    """Reference: 2 per second, at least 4, at most 768, at most all; evenly spaced, ties to even."""
    n = min(max(int(total / fps * 2), 4), 768, total)
    return [round(i * (total - 1) / (n - 1)) for i in range(n)] if n > 1 else [0]


def choose(probe, rng):
    small = videos.jpegs(rng, 40, size=(64, 64))
    for total, rate, scale in ((40, 10, 1), (30, 30000, 1001), (25, 25, 1), (40, 4, 1), (7, 2, 1), (3, 30, 1), (1, 1, 1)):
        shown, fps = small[:total], rate / scale
        indexes = chosen(total, fps)
        want = [pixels(shown[i]).tobytes() for i in indexes]
        for name, got in (("the frame rate of the AVI", probe.load([videos.avi(shown, rate, scale, 64)])),
                          ("a given frame rate", probe.load([videos.avi(shown, 1, 1, 64)], fps)),
                          ("a stream", probe.load([b"".join(shown)], fps)),
                          ("files", probe.load(shown, fps))):
            expect(not isinstance(got, str), name, total, fps, got)
            if isinstance(got, str):
                continue
            times, images = got
            expect(len(times) == len(indexes) and all(math.isclose(t, i / fps) for t, i in zip(times, indexes)),
                   f"{name}: times", total, fps, times)
            expect([p[2] for p in images] == want, f"{name}: frames", total, fps)
    got = probe.load([b"".join(small[:24])])
    expect(got[0][-1] == 23 / 24, "a stream has no frame rate: 24", got[0])
    got = probe.load(small[:5])
    expect(got[0] == [0, 0.5, 1, 1.5, 2], "files have none either: 2", got[0])
    got = probe.load([small[0], videos.jpegs(rng, 1, size=(40, 64))[0], *small[1:4]])
    expect(isinstance(got, str) and "frame 2 is 40 x 64" in got, "frames of two sizes", got)
    got = probe.load([small[0], b"hello", *small[1:4]])
    expect(isinstance(got, str) and "frame 2" in got, "a file that is not an image", got)


def main():
    rng = random.Random(11)
    decoder = Probe(sys.argv[1], "1000")
    decode_all(decoder, rng)
    check_rejected(decoder, rng)
    choose(Probe(sys.argv[2]), rng)
    sys.exit(failures != 0)


main()
