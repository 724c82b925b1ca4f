#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""videos_ffmpeg.py LOAD_PROBE HELPER - frames of MP4, MKV and WebM equal those of the ffmpeg command.

HELPER is mote-media-ffmpeg. Skipped if it was not built (-DMOTE_FFMPEG=ON) or ffmpeg is not installed.
"""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

PROBE, HELPER = sys.argv[1:]
if not os.path.exists(HELPER) or shutil.which("ffmpeg") is None:
    print("mote-media-ffmpeg or ffmpeg is not available")
    sys.exit(77)

WIDTH, HEIGHT, FRAMES = 128, 96, 12
VIDEOS = [("mp4", "libx264", ["-pix_fmt", "yuv420p", "-bf", "2"]), ("mp4", "mpeg4", []), ("mkv", "libx264", ["-pix_fmt", "yuv444p"]),
         ("mkv", "ffv1", []), ("webm", "libvpx", []), ("webm", "libvpx-vp9", []),
         ("mp4", "libx264", ["-pix_fmt", "yuv420p", "-colorspace", "bt709", "-color_range", "pc"]),
         ("mov", "mjpeg", ["-metadata:s:v:0", "rotate=90"])]
LONG = 400
LONG_VIDEOS = [("mp4", "libx264", ["-pix_fmt", "yuv420p", "-bf", "3", "-g", "25", "-preset", "ultrafast", "-b_strategy", "0"]),
              ("mkv", "libx264", ["-pix_fmt", "yuv420p", "-bf", "3", "-g", "30", "-x264opts", "open-gop=1", "-preset", "veryfast"]),
              ("mp4", "libx264", ["-pix_fmt", "yuv420p", "-g", "1000", "-preset", "veryfast"]),
              ("mp4", "mpeg4", ["-bf", "2", "-g", "12"]), ("webm", "libvpx", ["-g", "20", "-cpu-used", "8"]),
              ("webm", "libvpx-vp9", ["-g", "20", "-cpu-used", "8"]), ("mp4", "libx265", ["-x265-params", "log-level=none"])]


def ffmpeg(*arguments):
    return subprocess.run(["ffmpeg", "-v", "error", "-y", *arguments], capture_output=True)


def load(process, data, fps):
    """(width, height, times, frames), or an error message."""
    process.stdin.write(struct.pack("<dII", fps, 0, len(data)) + data)
    process.stdin.flush()

    def take(form):
        return struct.unpack("<" + form, process.stdout.read(struct.calcsize("<" + form)))
    n = take("I")[0]
    if n == 0:
        return process.stdout.read(take("I")[0]).decode()
    w, h = take("II")
    return w, h, take(f"{n}d"), [process.stdout.read(w * h * 3) for _ in range(n)]


def compare(process, path, name):
    data = open(path, "rb").read()
    raw = ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-").stdout
    size = WIDTH * HEIGHT * 3
    want = [raw[i:i + size] for i in range(0, len(raw), size)]
    got = load(process, data, 2.0)
    if isinstance(got, str):
        print(f"FAILED: {name}: {got}")
        return False
    far = max((abs(a - b) for x, y in zip(got[3], want) for a, b in zip(x, y)), default=0)
    own = load(process, data, 0)
    right = len(got[3]) == len(want) == FRAMES and far == 0 and abs(own[2][-1] - (FRAMES - 1) / 6) < 0.01
    print(f"{'' if right else 'FAILED: '}{name}: {len(got[3])} of {len(want)} frames, {far} levels apart, ends at {own[2][-1]:.2f} s")
    return right


def chosen(total, fps):
    """Indexes of the sampled frames."""
    n = min(total, max(4, min(768, int(total / fps * 2))))
    return [round(i * (total - 1) / (n - 1)) for i in range(n)]


def compare_sampled(process, path, name):
    """The sampled frames of a long video equal those of a full decode."""
    data = open(path, "rb").read()
    raw = ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-").stdout
    size = WIDTH * HEIGHT * 3
    want = [raw[i:i + size] for i in range(0, len(raw), size)]
    fine = len(want) == LONG
    for fps in (2.0, 5.0, 12.0, 31.0, 75.0, 300.0):
        numbers = chosen(LONG, fps)
        got = load(process, data, fps)
        wrong = [i for i, frame in zip(numbers, got[3]) if frame != want[i]] if not isinstance(got, str) else got
        if len(got[3]) != len(numbers) or wrong:
            print(f"FAILED: {name}: {len(numbers)} of {LONG} frames, wrong: {wrong}")
            fine = False
    return fine


def damaged(process, path, rng):
    """Videos with bytes changed or removed: the probe replies each time."""
    data = open(path, "rb").read()
    for _ in range(20):
        worse = bytearray(data[:rng.randrange(100, len(data))] if rng.random() < 0.3 else data)
        for _ in range(rng.choice([1, 5, 50])):
            worse[rng.randrange(12, len(worse))] = rng.randrange(256)
        load(process, bytes(worse), 0)


def main():
    process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    fine, made = True, 0
    with tempfile.TemporaryDirectory() as directory:
        for i, (kind, coding, options) in enumerate(VIDEOS):
            path = f"{directory}/{i}.{kind}"
            size = f"{WIDTH}x{HEIGHT}" if "rotate=90" not in options else f"{HEIGHT}x{WIDTH}"
            done = ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=6", "-frames:v", str(FRAMES), "-c:v", coding, *options, path)
            if done.returncode != 0:
                print(f"not made: {kind} {coding}: {done.stderr.decode()[:200]}")
                continue
            made += 1
            fine = compare(process, path, f"{kind} {coding} {' '.join(options)}") and fine
            damaged(process, path, random.Random(i))
            fine = compare(process, path, f"{kind} {coding} after damaged ones") and fine
        for i, (kind, coding, options) in enumerate(LONG_VIDEOS):
            path = f"{directory}/long{i}.{kind}"
            done = ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={WIDTH}x{HEIGHT}:rate=25", "-frames:v", str(LONG), "-c:v", coding,
                          *options, path)
            if done.returncode == 0:
                made += 1
                fine = compare_sampled(process, path, f"long {kind} {coding} {' '.join(options)}") and fine
    sys.exit(0 if fine and made >= 6 else 1)


main()
