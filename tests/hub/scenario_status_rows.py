# SPDX-License-Identifier: Apache-2.0
"""scenario_status_rows.py - statuses of the hub: not found, no access, rate limits, errors of the server."""
import os
import threading

from hub_rig import equal
from scenarios import LARGE, row, status

ONE = {"a.gguf": LARGE}


@row(41, 3, "does not exist, or the token does not give access", names=["scenario/none"])
def no_such_repository(s):
    """A failed pull leaves no directory, which huggingface_hub would report as a damaged repository."""
    s.target = "hf:scenario/none:a.gguf"
    yield
    cache = os.path.join(s.home, "hf", "hub")
    equal([name for name in os.listdir(cache) if name.startswith("models--")], [])
    equal(os.listdir(os.path.join(cache, ".locks")), [])


@row(41, 3, "does not exist, or it is private: then set HF_TOKEN")
def no_such_repository_without_a_token(s):
    s.env.pop("HF_TOKEN")
    s.target = "hf:scenario/none:a.gguf"


@row(41, 3, "does not exist, or it is private: then set HF_TOKEN", access="private")
def private_without_a_token(s):
    s.env.pop("HF_TOKEN")


@row(41, 0, access="private")
def private_with_a_token(s):
    pass


@row(41, 11, "is gated and the account of this token has no access: request it at", names=["/scenario/gated"], access="gated")
def gated(s):
    """The message names the page where access is requested."""


@row(41, 11, "is gated: request access at .* then set HF_TOKEN or run hf auth login", access="gated")
def gated_without_a_token(s):
    s.env.pop("HF_TOKEN")


@row(41, 11, "the hub has disabled access", access="disabled")
def disabled(s):
    pass


@row(41, 3, "no file matches none.gguf; there are", names=["a.gguf"])
def no_such_file(s):
    s.target = f"hf:{s.repo.name}:none.gguf"
    yield
    equal(s.requests("cdn"), [])


@row(41, 11, "forbids access")
def forbidden_without_a_code(s):
    s.hook("resolve", status(403))
    yield
    assert sum("/resolve/" in r.path for r in s.requests("hub")) <= 2


@row(45, 11, "refused the token: it is wrong or expired; .*try without it")
def token_refused(s):
    """A public model, but the token is wrong: the token is the cause that is named."""
    s.env["HF_TOKEN"] = "hf_" + "b" * 34


def limited(*headers):
    return status(429, '{"error":"rate limit"}', *headers)


@row(42, 0)
def rate_limit_with_a_short_wait(s):
    s.hook("tree", limited(("RateLimit", '"api";r=0;t=0')), times=1)


@row(42, 5, r"limits the rate of requests \(429\); try again in 3600 s")
def rate_limit_of_an_hour(s):
    s.hook("tree", limited(("Retry-After", "3600")))


@row(42, 0, files=ONE)
def rate_limit_of_all_connections(s):
    """Three connections are limited at once. They share one wait."""
    s.use(cdn="raw_cdn")
    together = threading.Barrier(3)

    def limit(request, answer):
        together.wait(60)
        return 429, [("RateLimit", '"resolvers";r=0;t=1')], ""
    s.hook("cdn", limit, times=3)
    yield
    equal([e["reason"] for e in s.result.events("wait")], ["rate_limit"])


@row(42, 5, "limits the rate of requests")
def rate_limit_for_ever(s):
    """Each reply promises that the next request is welcome."""
    s.hook("tree", limited(("RateLimit", '"api";r=1;t=0'), ("Retry-After", "0")))
    yield
    assert 10 < len(s.requests("hub")) < 110


@row(42, 0)
def rate_limit_with_a_date(s):
    s.hook("tree", limited(("Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT")), times=1)


@row(43, 0)
def server_error_once(s):
    s.hook("tree", status(502, "<html>"), times=1)


@row(43, 0)
def server_error_of_the_redirect_once(s):
    s.hook("resolve", status(503), times=1)


@row(43, 0, files=ONE)
def server_error_of_the_cdn_once(s):
    s.hook("cdn", status(500), times=1)


@row(43, 5, "answers with status 500")
def server_error_always(s):
    s.hook("tree", status(500))
    yield
    assert len(s.requests("hub")) < 20


@row(43, 5, "answers with status 503; gave up after 5 tries")
def server_error_of_the_cdn_always(s):
    s.hook("cdn", status(503))
    yield
    assert len(s.requests("cdn")) < 60


@row(43, 5, "answers with status 204")
def no_content(s):
    s.hook("tree", lambda request, answer: (204, answer[1], ""))


@row(43, 5, "answers with status 304")
def not_modified(s):
    s.use("raw_hub")
    s.hook("tree", lambda request, answer: (304, answer[1], ""))


@row(43, 5, "answers with status 206")
def partial_listing(s):
    s.hook("tree", lambda request, answer: (206, answer[1], answer[2]))


@row(43, 5, "the reply of .* is too large")
def endless_interim_answers(s):
    def flood(request, answer):
        while not s.hub.raw_hub.closing.is_set():
            request.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)
    s.use("raw_hub")
    s.hook("tree", flood)
