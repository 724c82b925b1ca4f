# SPDX-License-Identifier: Apache-2.0
"""batch_files.py - input files of batches, and what an output must have."""
import json

TOWNS = ["Venvia", "Haldon", "Marsk", "Tolby", "Ostrel", "Quellin", "Brask", "Ilmen"]
SYSTEM = "You answer questions about towns in one short sentence. "


def chat(number, system="", tokens=16):
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": f"Tell me the emblem of {TOWNS[number % len(TOWNS)]}. ({number})"})
    return {"model": "any", "messages": messages, "temperature": 0, "max_tokens": tokens,
            "reasoning_effort": "none"}


def line(number, body=None, **changes):
    whole = {"custom_id": f"r-{number}", "method": "POST", "url": "/v1/chat/completions",
             "body": body or chat(number)}
    return {**whole, **changes}


def write(path, lines):
    """A line is an object, or bytes as they are."""
    with open(path, "wb") as f:
        for one in lines:
            f.write(one if isinstance(one, bytes) else json.dumps(one).encode())
            f.write(b"\n")


def read(path):
    """Whole lines only: a killed process may leave a part of one."""
    with open(path, "rb") as f:
        return [json.loads(one) for one in f.read().split(b"\n")[:-1]]


def check_once(results, ids):
    """Every request once, in this order."""
    got = [r["custom_id"] for r in results]
    if got != ids:
        missing = sorted(set(ids) - set(got))
        extra = sorted({i for i in got if got.count(i) > 1})
        raise AssertionError(f"{len(got)} results of {len(ids)}; missing {missing[:5]}, repeated {extra[:5]}")


def answers(results):
    return {r["custom_id"]: r["response"]["body"]["choices"][0]["message"]["content"] for r in results}
