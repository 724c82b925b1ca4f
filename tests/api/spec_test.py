# SPDX-License-Identifier: Apache-2.0
"""spec_test.py - law L7 in the server: drafts change the speed of answers and nothing else.

A sample; scripts/spec_law has many prompts, all lengths and three formats of the weights.
"""
import json
import sys
import threading

from api_rig import Server, case, equal, main, post, request
from spec_rig import CHAT, CODE, replies_of, compare, drafts, requests

WANTED = requests(22, seeds=(0, 1))
LENGTHS = ["1", "3", "8", "auto"]


def servers():
    return {spec: Server("--spec", spec, "--parallel", "6") for spec in ["off", *LENGTHS]}


@case
def answers_are_equal_alone(all_servers):
    plain = replies_of(all_servers["off"], WANTED, 1)
    assert all(status == 200 for status, _ in plain), [p for p in plain if p[0] != 200][:2]
    for spec in LENGTHS:
        compare(WANTED, plain, replies_of(all_servers[spec], WANTED, 1), f"--spec {spec}, alone")


@case
def answers_are_equal_in_four_streams(all_servers):
    plain = replies_of(all_servers["off"], WANTED, 1)
    for spec in LENGTHS:
        compare(WANTED, plain, replies_of(all_servers[spec], WANTED, 4), f"--spec {spec}, 4 streams")


@case
def drafts_are_made_and_accepted(all_servers):
    equal(drafts(all_servers["off"]), {"lookup": (0, 0), "head": (0, 0)})
    for spec in LENGTHS[:-1]:
        tried = drafts(all_servers[spec])
        assert tried["lookup"][0] > 20 and tried["lookup"][1] > 5, tried
        assert tried["head"][1] > 20, tried
        assert all(accepted <= drafted for drafted, accepted in tried.values()), tried


@case
def requests_set_their_own_limit(all_servers):
    body = {"messages": [{"role": "user", "content": f"{CODE}\n{CODE}\n{CODE}"}], "temperature": 0, "max_tokens": 60,
            "ignore_eos": True, "logit_bias": {"300": 30}, "mote": {"spec": "auto"}}
    most = post(all_servers["8"], CHAT, body)["mote"]["spec"]
    assert most["drafted"] >= most["accepted"] > 0, most
    reply = post(all_servers["8"], CHAT, {**body, "mote": {"spec": 1}})
    one = reply["mote"]["spec"]
    assert 0 < one["drafted"] < most["drafted"], (one, most)
    equal((reply["timings"]["draft_n"], reply["timings"]["draft_n_accepted"]), (one["drafted"], one["accepted"]))
    for off in ("off", 0):
        reply = post(all_servers["8"], CHAT, {**body, "mote": {"spec": off}})
        equal(reply["mote"]["spec"], {"drafted": 0, "accepted": 0})
        assert "draft_n" not in reply["timings"], reply["timings"]
    equal(post(all_servers["off"], CHAT, {**body, "mote": {"spec": 8}})["mote"]["spec"], {"drafted": 0, "accepted": 0})


@case
def invalid_limits(all_servers):
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    for value in ("fast", 9, -1, 1.5, "8", True, [], {}):
        status, _, data = request(all_servers["auto"], "POST", CHAT, {**body, "mote": {"spec": value}})
        equal(status, 400)
        equal(json.loads(data)["error"]["param"], "mote.spec")
    for value in ("auto", "off", 0, 8, 2.0, None):
        equal(request(all_servers["auto"], "POST", CHAT, {**body, "mote": {"spec": value}})[0], 200)
    status, _, data = request(all_servers["auto"], "POST", CHAT, {**body, "mote": 1})
    equal((status, json.loads(data)["error"]["param"]), (400, "mote"))
    warnings = post(all_servers["auto"], CHAT, {**body, "mote": {"speed": 1}})["mote"]["warnings"]
    equal(warnings, [{"code": "unknown_field", "at": "/mote/speed"}])


@case
def disconnects_leave_the_others_equal(all_servers):
    """Clients that disconnect inside steps with drafts."""
    server, plain = all_servers["8"], replies_of(all_servers["off"], WANTED[:12], 1)
    stop = threading.Event()

    def disturb():
        while not stop.is_set():
            try:
                request(server, "POST", CHAT, {**WANTED[0][2], "max_tokens": 400, "ignore_eos": True, "stream": True},
                        timeout=0.05)
            except OSError:
                pass
    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        compare(WANTED[:12], plain, replies_of(server, WANTED[:12], 2), "--spec 8, with disconnects")
    finally:
        stop.set()
        thread.join()


@case
def few_positions_preempt_and_stay_equal(all_servers):
    plain = replies_of(all_servers["off"], WANTED, 1)
    with Server("--spec", "8", "--parallel", "6", "--kv-tokens", "512", "--context", "512") as server:
        compare(WANTED, plain, replies_of(server, WANTED, 6), "--spec 8, 512 KV positions")


if __name__ == "__main__":
    running = servers()
    code = main(running)
    for each in running.values():
        each.stop()
    sys.exit(code)
