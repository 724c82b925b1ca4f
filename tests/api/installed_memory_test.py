# SPDX-License-Identifier: Apache-2.0
"""installed_memory_test.py - installed models under a memory limit that is too small for all of them."""
import concurrent.futures
import http.client
import json
import os
import shutil
import threading

from api_rig import FACT_ANSWER, PATIENCE, case, equal, main, post
from installed_rig import SMALL, Home, chat, loaded, megabytes, plan_of_one, said


@case
def stream_survives_and_the_other_one_sees_progress(home, plan):
    """Only one model fits. A request for another one waits until the stream has ended, with comments."""
    with home.serve("--parallel", "2", "--memory", "4GB") as big:
        said(big, "m00")
        one = int(big.metric("mote_models_memory_bytes"))
    with home.serve("--parallel", "2", "--memory", megabytes(one + one // 2)) as tight:
        running = http.client.HTTPConnection("127.0.0.1", tight.port, timeout=PATIENCE)
        waiting = http.client.HTTPConnection("127.0.0.1", tight.port, timeout=PATIENCE)
        headers = {"Content-Type": "application/json", "Authorization": "Bearer " + tight.key}
        endless = chat("m00", stream=True, ignore_eos=True, max_tokens=30000, logprobs=False)
        running.request("POST", "/v1/chat/completions", json.dumps(endless), headers)
        stream = running.getresponse()
        assert stream.readline().startswith(b"data: ")
        waiting.request("POST", "/v1/chat/completions", json.dumps(chat("m01", stream=True)), headers)
        reply = waiting.getresponse()  # its head comes with the first comment
        equal((reply.status, reply.getheader("mote-model")), (200, "m01"))
        equal(reply.readline(), b": loading: waits for running requests of 1 other model\n")
        lines = [stream.readline() for _ in range(20)]
        assert any(line.startswith(b"data: ") for line in lines), lines
        equal(loaded(tight), ["m00"])
        stream.close()
        running.close()
        rest = reply.read().decode()
        events = [json.loads(e[6:]) for e in rest.split("\n\n") if e.startswith("data: {")]
        text = "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])
        equal(text, FACT_ANSWER)
        equal(loaded(tight), ["m01"])
        waiting.close()


@case
def busy_model_does_not_keep_others_out(home, plan):
    """Overlapping requests of one model: another one is served all the same."""
    with home.serve(*SMALL, "--memory", megabytes(plan + plan // 2)) as tight:
        over = threading.Event()

        def repeat():
            n = 0
            while not over.is_set():
                equal(said(tight, "m00")[0], FACT_ANSWER)
                n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            busy = [pool.submit(repeat) for _ in range(3)]
            try:
                for name in ("m01", "m02"):
                    equal(said(tight, name)[0], FACT_ANSWER)
            finally:
                over.set()
            assert all(b.result() > 0 for b in busy)


@case
def model_that_does_not_fit_alone(home, plan):
    with home.serve(*SMALL, "--memory", "10MB") as tiny:
        reply = post(tiny, "/v1/chat/completions", chat("m00"), 400)["error"]
        equal(reply["code"], "model_too_large")
        assert " MB" in reply["message"] and "--memory" in reply["message"], reply
        equal(tiny.get("/health")["status"], "ok")


@case
def the_vision_encoder_counts(home, plan):
    """The mapped file of the encoder is part of the plan, which stays below the limit."""
    encoder = os.path.join(os.environ["DATA"], "mmproj-mote-tiny-BF16.gguf")
    with Home(["sees"]) as sees:
        shutil.copy(encoder, sees.models)
        flags = (*SMALL, "--limit", "image-cache-bytes=1048576")
        with sees.serve(*flags, "--memory", "4GB", sees=True) as big:
            said(big, "sees")
            memory = big.get("/v1/status")["memory"]
            equal(memory["weights"], os.path.getsize(sees.path("sees")) + os.path.getsize(encoder))
            equal(memory["total"], int(big.metric("mote_models_memory_bytes")))
        limit = memory["total"] - os.path.getsize(encoder) // 2
        with sees.serve(*flags, "--memory", megabytes(limit), sees=True) as tight:
            said(tight, "sees")
            equal(tight.get("/v1/status")["memory"]["weights"], memory["weights"])
            assert tight.metric("mote_models_memory_bytes") <= limit


if __name__ == "__main__":
    with Home(["m00", "m01", "m02"]) as HOME:
        raise SystemExit(main(HOME, plan_of_one()))
