# SPDX-License-Identifier: Apache-2.0
"""Access checks as tables: Host, Origin, CORS, content types, API keys and scopes."""
import contextlib
import re
import time
from pathlib import Path

import http_rig
from http_rig import get, post

ROUTES = Path(__file__).resolve().parents[2] / "src/server/api/routes.c"
PAGE = b"Origin: https://app.example"
FOREIGN = b"Origin: https://evil.example"


@contextlib.contextmanager
def within_a_minute(test):
    """For limits per minute: skips the result if the machine stalled for a minute."""
    began = time.monotonic()
    try:
        yield
    except AssertionError:
        if time.monotonic() - began < 60:
            raise
        test.skipTest("the minute was over before the test was")


# Host, status of GET /health
HOSTS = [
    (b"localhost", 200), (b"localhost:11435", 200), (b"LOCALHOST", 200), (b"LocalHost:80", 200),
    (b"127.0.0.1", 200), (b"127.0.0.1:1", 200), (b"127.1.2.3:65535", 200), (b"[::1]", 200),
    (b"[::1]:11435", 200), (b"box.lan", 200), (b"BOX.lan:8080", 200),
    (b"evil.example", 403), (b"localhost.evil.example", 403), (b"127.0.0.1.evil.example", 403),
    (b"localhost.", 403), (b"0.0.0.0", 403), (b"0.0.0.0:11435", 403), (b"[::]", 403),
    (b"192.168.1.5", 403), (b"[::ffff:127.0.0.1]", 403), (b"127.0.0.1.", 403), (b"127.0.0", 403),
    (b"127.0.0.256", 403), (b"127.0.0.01", 403), (b"127.0.0.0.1", 403), (b"2130706433", 403),
    (b"0x7f.0.0.1", 403), (b"box.lan.evil.example", 403), (b"xbox.lan", 403), (b"box", 403),
    (b"localhost:", 400), (b"localhost:x", 400), (b"localhost:0", 400), (b"localhost:65536", 400),
    (b"localhost:123456", 400), (b"localhost:80:80", 400), (b":80", 400), (b"[::1", 400),
    (b"[::1]x", 400), (b"[]", 400), (b"local host", 400), (b"localhost/", 400), (b"localhost?", 400),
    (b"localhost#", 400), (b"a@localhost", 400), (b"http://localhost", 400), (b"localhost,localhost", 400),
    (b"localhost\\", 400), (b"*", 400), (b"%6cocalhost", 400), (b"localhost;", 400), ("h\u00f6st".encode(), 400),
    (b"a" * 262, 400),
]

# headers, status of GET /health; all against --cors-origin https://app.example
BROWSERS = [
    ((), 200),
    ((PAGE,), 200),
    ((PAGE, b"Sec-Fetch-Site: cross-site"), 200),
    ((PAGE, b"Sec-Fetch-Site: same-site", b"Sec-Fetch-Mode: cors"), 200),
    ((b"Sec-Fetch-Site: same-origin",), 200),
    ((b"Sec-Fetch-Site: none", b"Sec-Fetch-Mode: navigate"), 200),
    ((FOREIGN,), 403),
    ((FOREIGN, b"Sec-Fetch-Site: same-origin"), 403),
    ((b"Origin: null",), 403),
    ((b"Origin:",), 403),
    ((b"Origin: http://app.example",), 403),
    ((b"Origin: https://app.example:444",), 403),
    ((b"Origin: https://app.example/",), 403),
    ((b"Origin: https://app.example.evil.example",), 403),
    ((b"Origin: https://APP.example",), 403),
    # the chat page of this server: Host is localhost
    ((b"Origin: http://localhost",), 200),
    ((b"Origin: https://localhost",), 200),
    ((b"Origin: http://localhost", b"Sec-Fetch-Site: same-origin"), 200),
    ((b"Origin: http://localhost", b"Sec-Fetch-Site: same-site"), 403),
    ((b"Origin: http://localhost", b"Sec-Fetch-Site: cross-site"), 403),
    ((b"Origin: http://localhost", b"Sec-Fetch-Site: none"), 403),
    ((b"Origin: http://localhost/",), 403),
    ((b"Origin: http://localhost.evil.example",), 403),
    ((b"Origin: http://",), 403),
    ((b"Origin: localhost",), 403),
    ((b"Origin: ws://localhost",), 403),
    ((b"Origin: http://127.0.0.1",), 403),
    ((b"Origin: http://localhost:11435",), 403),
    ((b"Sec-Fetch-Site: cross-site",), 403),
    ((b"Sec-Fetch-Site: Cross-Site",), 403),
    ((b"sec-fetch-site: cross-site", b"Sec-Fetch-Mode: no-cors", b"Sec-Fetch-Dest: image"), 403),
]

# content type, other headers, status of POST /tokenize
TYPES = [
    (b"application/json", (), 200), (b"application/json; charset=utf-8", (), 200),
    (b"Application/JSON", (), 200), (b"application/json;charset=utf-8", (PAGE,), 200),
    (None, (), 200), (b"application/x-www-form-urlencoded", (), 200),
    (b"text/plain", (), 415), (b"multipart/form-data; boundary=x", (), 415), (b"", (), 415),
    (b"application/jsonx", (), 415), (b"application/xml", (), 415), (b"text/json", (), 415),
    (None, (PAGE,), 415), (b"application/x-www-form-urlencoded", (PAGE,), 415),
    (b"text/plain", (PAGE,), 415),
    (b"application/x-www-form-urlencoded", (b"Sec-Fetch-Site: same-origin",), 415),
    (None, (b"Sec-Fetch-Mode: cors",), 415), (None, (b"sec-fetch-dest: empty",), 415),
    (b"application/json", (b"Sec-Fetch-Mode: cors",), 200),
]


class Browsers(http_rig.OneServer):
    flags = ("--allow-host", "box.lan", "--cors-origin", "https://app.example")

    def test_enough(self):
        self.assertGreaterEqual(len(HOSTS) + len(BROWSERS), 40)

    def test_hosts(self):
        for host, status in HOSTS:
            reply = self.server.ask(get(host=b"Host: " + host + b"\r\n"))
            self.assertEqual(reply.status, status, host)
            if status == 403:
                self.assertEqual(reply.json()["error"]["code"], "host_not_allowed")
                self.assertNotIn(host, reply.body)

    def test_origins(self):
        for lines, status in BROWSERS:
            reply = self.server.ask(get("/health", *lines))
            self.assertEqual(reply.status, status, lines)
            allowed = reply.headers.get("access-control-allow-origin")
            self.assertEqual(allowed, "https://app.example" if PAGE in lines else None, lines)
            self.assertEqual(reply.headers["vary"], "Origin")
            self.assertNotIn("access-control-allow-credentials", reply.headers)
            if status == 403:
                self.assertEqual(reply.json()["error"]["code"], "origin_not_allowed")

    def test_origin_is_checked_before_everything_else(self):
        for data in (get("/nowhere", FOREIGN), post("/tokenize", {"content": "a"}, FOREIGN),
                     get("/health", FOREIGN, method=b"OPTIONS")):
            self.assertEqual(self.server.ask(data, "POST").status, 403)

    def test_types(self):
        for kind, lines, status in TYPES:
            reply = self.server.ask(post("/tokenize", {"content": "a"}, *lines, kind=kind))
            self.assertEqual(reply.status, status, (kind, lines))

    def test_type_does_not_matter_without_a_body(self):
        reply = self.server.ask(get("/tokenize", b"Content-Length: 0", method=b"POST"))
        self.assertEqual(reply.status, 400)

    def test_preflight(self):
        asked = b"Access-Control-Request-Headers: authorization, content-type, x-stainless-lang"
        reply = self.server.ask(get("/v1/chat/completions", PAGE, asked,
                                    b"Access-Control-Request-Method: POST", method=b"OPTIONS"), "OPTIONS")
        self.assertEqual(reply.status, 204)
        self.assertEqual(reply.headers["access-control-allow-origin"], "https://app.example")
        self.assertEqual(reply.headers["access-control-allow-methods"], "GET, POST, DELETE, OPTIONS")
        self.assertEqual(reply.headers["access-control-allow-headers"],
                         "authorization, content-type, x-stainless-lang")
        self.assertEqual(reply.headers["access-control-max-age"], "600")
        self.assertIn("mote-model", reply.headers["access-control-expose-headers"])

    def test_preflight_echoes_names_only(self):
        for wrong in (b"a" * 1025, b"x-a: b", b"<script>", b'"a"', "\u00e9".encode()):
            reply = self.server.ask(get("/", PAGE, b"Access-Control-Request-Headers: " + wrong,
                                        method=b"OPTIONS"), "OPTIONS")
            self.assertEqual(reply.status, 204)
            self.assertNotIn("access-control-allow-headers", reply.headers)


class NoPage(http_rig.OneServer):
    flags = ("--no-web",)

    def test_own_origin_is_foreign_without_the_page(self):
        for lines in ((b"Origin: http://localhost",), (b"Origin: http://localhost", b"Sec-Fetch-Site: same-origin")):
            self.assertEqual(self.server.ask(get("/health", *lines)).status, 403)


class NoOrigins(http_rig.OneServer):
    def test_no_cors_headers(self):
        for lines in ((), (PAGE,), (b"Sec-Fetch-Site: cross-site",)):
            reply = self.server.ask(get("/health", *lines))
            self.assertEqual(reply.status, 403 if lines else 200)
            self.assertFalse([name for name in reply.headers if name.startswith("access-control")])

    def test_any_key_works_without_keys(self):
        for line in (b"Authorization: Bearer dummy", b"x-api-key: dummy", b"Authorization: Basic x"):
            self.assertEqual(self.server.ask(get("/v1/models", line)).status, 200)

    def test_only_inference_without_keys(self):
        """Routes of the other scopes need the key that the server wrote for its user."""
        for methods, path, privilege in routes():
            if privilege in ("PUBLIC", "INFER"):
                continue
            for method in methods:
                def ask(*lines):
                    name = path.replace("*", "some-id")
                    data = post(name, {}, *lines) if method == "POST" else get(name, *lines, method=method.encode())
                    return self.server.ask(data, method).status
                self.assertEqual([ask(), ask(b"x-api-key: dummy")], [401, 401], path)
                self.assertNotIn(ask(self.server.local_key()), (401, 403), path)

    def test_local_key_is_private(self):
        directory = http_rig.Path(self.server.directory.name) / "mote"
        self.assertEqual(directory.stat().st_mode & 0o777, 0o700)
        self.assertEqual([file.stat().st_mode & 0o777 for file in directory.iterdir()], [0o600])
        self.assertNotIn(self.server.local_key().split()[1].decode(), self.server.log())

    def test_other_programs_do_not_get_the_key(self):
        """mote ps uses it. mote env, which prints settings for other programs, does not."""
        def run(*words):
            host = "%s:%d" % self.server.address
            return http_rig.subprocess.run([http_rig.MOTE, *words, "--host", host], env=self.server.env, text=True,
                                           capture_output=True, check=True).stdout
        self.assertIn("100% CPU", run("ps"))
        settings = run("env", "claude")
        self.assertIn("ANTHROPIC_AUTH_TOKEN='mote'", settings)
        self.assertNotIn(self.server.local_key().split()[1].decode(), settings)

    def test_shared_directory_is_not_used(self):
        with http_rig.tempfile.TemporaryDirectory(prefix="mote-http-") as shared:
            (http_rig.Path(shared) / "mote").mkdir(mode=0o755)
            with http_rig.Server(env={"XDG_RUNTIME_DIR": shared}) as server:
                self.assertIn("it must be a directory of this user with mode 0700", server.log())
                self.assertEqual(list((http_rig.Path(shared) / "mote").iterdir()), [])
                self.assertEqual(server.ask(get("/v1/models")).status, 200)


def routes():
    """(methods, path, privilege) of every row of the table."""
    text = ROUTES.read_text(encoding="utf-8")
    rows = re.findall(r'^\s*\{(GET|POST|DELETE|[A-Z_| ]+),\s*"([^"]+)",\s*(\w+),', text, re.MULTILINE)
    rows = [(m, p, v) for m, p, v in rows if v in ("PUBLIC", "INFER", "METRICS", "ADMIN", "OWN")]
    return [(re.findall("GET|POST|DELETE", methods), path, privilege) for methods, path, privilege in rows]


class Keys(http_rig.OneServer):
    keys = ["# a comment", "plain-key infer,metrics,admin", "only-infer", "only-metrics metrics",
            "only-admin admin", "", "slow infer slow-one rpm=1", "slow-2 infer rpm=1",
            "slow-3 infer slow.3 rpm=1", "few-tokens infer few tpm=5", "one-at-once infer one par=1"]
    flags = ("--limit", "key-failures=1000000", "--cors-origin", "https://app.example")
    SCOPE = {"INFER": b"only-infer", "METRICS": b"only-metrics", "ADMIN": b"only-admin"}

    def ask(self, method, path, *lines):
        path = path.replace("/web/*", "/web/style.css").replace("*", "some-id")
        data = post(path, {}, *lines) if method == "POST" else get(path, *lines, method=method.encode())
        return self.server.ask(data, method)

    def test_every_route(self):
        rows = routes()
        self.assertGreater(len(rows), 30)
        for methods, path, privilege in rows:
            for method in methods:
                none = self.ask(method, path)
                wrong = self.ask(method, path, b"Authorization: Bearer wrong")
                if privilege == "PUBLIC":
                    self.assertLess(none.status, 400, path)
                    self.assertLess(wrong.status, 400, path)
                    continue
                self.assertEqual((none.status, wrong.status), (401, 401), path)
                self.assertEqual(none.headers["www-authenticate"], "Bearer")
                for scope, key in self.SCOPE.items():
                    status = self.ask(method, path, b"Authorization: Bearer " + key).status
                    if scope == privilege or (privilege == "OWN" and scope != "METRICS"):
                        self.assertNotIn(status, (401, 403), (path, scope))
                    else:
                        self.assertEqual(status, 403, (path, scope))

    def test_dot_segments_are_unknown_paths(self):
        for path in ("/v1/models/../models", "/v1/models/..", "/v1/models/.", "/v1/models//x", "//health", "/./health",
                     "/v1/models/%2e%2e/models", "/v1/models/..%2fmodels", "/v1/models%2f%2fx"):
            reply = self.ask("GET", path, b"x-api-key: plain-key")
            self.assertEqual((reply.status, reply.json()["error"]["code"]), (404, "not_found"), path)

    def test_unknown_paths_need_a_key(self):
        self.assertEqual(self.ask("GET", "/nowhere").status, 401)
        self.assertEqual(self.ask("GET", "/nowhere", b"x-api-key: only-infer").status, 404)

    def test_spellings(self):
        good = [(b"Authorization: Bearer only-infer",), (b"authorization: bearer only-infer",),
                (b"AUTHORIZATION: BEARER   only-infer",), (b"x-api-key: only-infer",),
                (b"Authorization: Bearer wrong", b"x-api-key: only-infer"),
                (b"Authorization: Bearer only-infer", b"x-api-key: wrong"),
                (b"Authorization: Basic abc", b"x-api-key: only-infer")]
        bad = [(b"Authorization: only-infer",), (b"Authorization: Bearer",), (b"Authorization: Bearer ",),
               (b"Authorization: Bearer only-infe",), (b"Authorization: Bearer only-inferx",),
               (b"Authorization: Bearer ONLY-INFER",), (b"Authorization: Basic only-infer",),
               (b"x-api-key:",), (b"x-api-key: only-infer metrics",), (b"api-key: only-infer",),
               (b"x-api-key: # a comment",), (b"Cookie: x-api-key=only-infer",)]
        for lines in good:
            self.assertEqual(self.ask("GET", "/v1/models", *lines).status, 200, lines)
        for lines in bad:
            self.assertEqual(self.ask("GET", "/v1/models", *lines).status, 401, lines)

    def test_host_cannot_change_the_path(self):
        for host in (b"localhost/health?", b"localhost/health", b"localhost?", b"localhost#/health"):
            reply = self.server.ask(get("/v1/models", host=b"Host: " + host + b"\r\n"))
            self.assertEqual(reply.status, 400)
        for path in ("/health/../v1/models", "/v1/models?/health", "/health;/v1/models",
                     "/v1%2fmodels", "/%76%31/models"):
            self.assertEqual(self.ask("GET", path).status, 401, path)

    def test_refused_before_the_body(self):
        head = get("/tokenize", b"Content-Type: application/json", b"Content-Length: 1000",
                   method=b"POST")
        with self.server.wire() as wire:
            self.assertEqual(wire.ask(head).status, 401)
            self.assertTrue(wire.closed())

    def test_preflight_needs_no_key(self):
        reply = self.server.ask(get("/v1/models", PAGE, method=b"OPTIONS"), "OPTIONS")
        self.assertEqual(reply.status, 204)

    def test_keys_are_not_in_the_log(self):
        self.ask("GET", "/v1/models", b"Authorization: Bearer plain-key")
        self.ask("GET", "/v1/models", b"Authorization: Bearer secret-guess")
        for secret in ("plain-key", "only-infer", "secret-guess"):
            self.assertNotIn(secret, self.server.log())


    # ---- limits of a key ----

    CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
    DIALECTS = {"/v1/chat/completions": CHAT, "/v1/messages": {"model": "m", **CHAT},
                "/api/chat": {"model": "mote-tiny-q4_k_m", "stream": False, **CHAT}}

    def with_key(self, key, path, body):
        return self.server.ask(post(path, body, b"x-api-key: " + key), "POST")

    def over(self, key, path, body, what):
        """The retry-after-ms of a refusal."""
        reply = self.with_key(key, path, body)
        self.assertEqual(reply.status, 429, (path, reply.body))
        self.assertEqual(reply.headers["x-should-retry"], "true")
        wait = int(reply.headers["retry-after-ms"])
        self.assertEqual(int(reply.headers["retry-after"]), (wait + 999) // 1000)
        error = reply.json()["error"]
        text = error if path.startswith("/api/") else error["message"]
        self.assertIn(what, text)
        if path == "/v1/messages":
            self.assertEqual(error["type"], "rate_limit_error")
        elif not path.startswith("/api/"):
            self.assertEqual((error["type"], error["code"]), ("rate_limit_error", "rate_limit_exceeded"))
        return wait

    def status(self):
        keys = self.server.ask(get("/v1/status", b"x-api-key: only-metrics")).json()["keys"]
        return {key.get("name", key["key"]): key for key in keys}

    def rejected(self, reason):
        text = self.server.ask(get("/metrics", b"x-api-key: only-metrics")).body.decode()
        return int(re.search(r'mote_requests_rejected_total{reason="%s"} (\d+)' % reason, text).group(1))

    def test_cache_entries_belong_to_a_key(self):
        def cache(key, path="/v1/cache", method=b"GET"):
            return self.server.ask(get(path, b"x-api-key: " + key, method=method))

        def pin(key, what):
            return self.with_key(key, "/v1/cache/pin", {"id": what}).status

        body = {"messages": [{"role": "user", "content": 80 * "duck "}], "max_tokens": 2}
        for key in (b"only-infer", b"plain-key"):
            self.assertEqual(self.with_key(key, "/v1/chat/completions", body).status, 200)
        own = [row["id"] for row in cache(b"only-infer").json()["data"]]
        everybodys = [row["id"] for row in cache(b"only-admin").json()["data"]]
        self.assertEqual(len(own), 1)
        self.assertGreaterEqual(len(everybodys), 2)
        self.assertIn(own[0], everybodys)
        theirs = next(id for id in everybodys if id not in own)
        # data of another key is not visible
        self.assertEqual([pin(b"only-infer", theirs), pin(b"only-infer", own[0])], [404, 200])
        self.assertEqual(cache(b"only-infer", "/v1/cache/" + theirs, b"DELETE").status, 404)
        self.assertEqual(cache(b"only-infer", method=b"DELETE").json(), {"deleted": 1})
        self.assertEqual([row["id"] for row in cache(b"only-admin").json()["data"] if row["id"] == theirs], [theirs])
        self.assertEqual(pin(b"only-admin", theirs), 200)
        self.assertEqual(cache(b"only-admin", "/v1/cache/" + theirs, b"DELETE").status, 200)
        self.assertEqual(cache(b"only-metrics").status, 403)

    def test_requests_per_minute(self):
        with within_a_minute(self):
            self.spend_requests()

    def spend_requests(self):
        for key, (path, body) in zip((b"slow", b"slow-2", b"slow-3"), self.DIALECTS.items()):
            self.assertEqual(self.with_key(key, path, body).status, 200, path)
            for other, its_body in self.DIALECTS.items():
                self.assertTrue(0 < self.over(key, other, its_body, "1 requests per minute") <= 60000)
            # requests without texts are not counted; http_long_text_test.py has those that only tokenize
            self.assertEqual(self.server.ask(get("/v1/models", b"x-api-key: " + key)).status, 200)
        keys = self.status()
        for name in ("slow-one", 6, "slow.3"):
            self.assertEqual([keys[name][of] for of in ("rpm", "requests_left", "running", "requests", "refused")],
                             [1, 0, 0, 1, 3], name)
        self.assertNotIn("tpm", keys["slow-one"])
        self.assertEqual(self.rejected("key_rpm"), 9)
        self.assertIn(" key=slow-one q=", self.server.log())
        self.assertIn(" 429 ", self.server.log())

    def test_tokens_per_minute(self):
        path, body = next(iter(self.DIALECTS.items()))
        began = time.monotonic()
        usage = self.with_key(b"few-tokens", path, body).json()["usage"]
        cost = usage["total_tokens"]
        self.assertGreater(cost, 5)
        # one token per 12 seconds: the debt and one more
        most = (cost - 5 + 1) * 12000
        wait = self.over(b"few-tokens", path, body, "5 tokens per minute")
        self.assertTrue(most - 1000 * (time.monotonic() - began) - 1 <= wait <= most, (wait, most))
        key = self.status()["few"]
        self.assertEqual((key["tpm"], key["tokens"], key["requests"]), (5, cost, 1))
        self.assertLess(key["tokens_left"], 0)
        self.assertEqual(self.rejected("key_tpm"), 1)

    def test_concurrent_requests(self):
        path, body = next(iter(self.DIALECTS.items()))
        with self.server.wire() as wire:
            wire.send(post(path, {**body, "max_tokens": 20000, "ignore_eos": True, "stream": True},
                           b"x-api-key: one-at-once"))
            wire._until(b"data: ")
            self.assertEqual(self.over(b"one-at-once", path, body, "1 concurrent requests"), 1000)
            self.assertEqual(self.status()["one"]["running"], 1)
        self.assertTrue(http_rig.until(lambda: self.with_key(b"one-at-once", path, body).status == 200))
        self.assertEqual(self.status()["one"]["running"], 0)
        # a client that disconnects is charged for the tokens so far
        self.assertGreater(self.status()["one"]["tokens"], 2)


class Failures(http_rig.unittest.TestCase):
    def test_too_many_wrong_keys(self):
        with http_rig.Server(keys=["right"]) as server, within_a_minute(self):
            guess = get("/v1/models", b"x-api-key: wrong")
            self.assertEqual([server.ask(guess).status for _ in range(10)], [401] * 10)
            reply = server.ask(guess)
            self.assertEqual((reply.status, reply.headers["retry-after"]), (429, "60"))
            self.assertEqual(reply.headers["x-should-retry"], "true")
            self.assertEqual(server.ask(get()).status, 200)
            # a valid key works although the address has too many failures
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: right")).status, 200)

    def new_key(self, *name):
        made = http_rig.subprocess.run([http_rig.MOTE, "serve", "--new-key", *name], capture_output=True,
                                   text=True, check=True)
        return made.stdout.strip(), made.stderr.strip().split("\n")[-1]

    def test_named_keys(self):
        self.assertTrue(self.new_key("ci-box.2")[1].endswith(" infer ci-box.2"))
        wrong = http_rig.subprocess.run([http_rig.MOTE, "serve", "--new-key", "a b"], capture_output=True, text=True)
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))

    def test_hashed_keys(self):
        key, line = self.new_key()
        self.assertRegex(key, r"^mote-[0-9a-f]{48}$")
        self.assertNotIn(key, line)
        with http_rig.Server(keys=[line]) as server:
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: " + key.encode())).status, 200)
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: " + line[7:71].encode())).status, 401)
            self.assertEqual(server.ask(get("/slots", b"x-api-key: " + key.encode())).status, 403)

    def test_key_of_the_environment(self):
        with http_rig.Server(env={"MOTE_API_KEY": "from-outside"}) as server:
            self.assertEqual(server.ask(get("/v1/models")).status, 401)
            for path in ("/v1/models", "/slots"):
                reply = server.ask(get(path, b"Authorization: Bearer from-outside"))
                self.assertEqual(reply.status, 200)

    def refused(self, *flags, **more):
        server = http_rig.Server(*flags, wait=False, **more)
        try:
            return server.process.wait(http_rig.PATIENCE), server.log()
        finally:
            server.close()

    def test_bad_key_files(self):
        for keys in (["key nonsense"], ["sha256:12 infer"], ["# nothing"], ["key infer,metric"],
                     ["key infer nonsense!"], ["key infer " + 33 * "n"], ["key infer a b"],
                     ["key rpm=0"], ["key infer nonsense rpm=1 rpm=2"], ["key infer tpm=x"],
                     ["key infer a par=1000000001"], ["key infer a=1"]):
            code, text = self.refused(keys=keys)
            self.assertEqual(code, 2, keys)
            self.assertNotIn("nonsense", text)

    def test_wide_addresses_need_a_key(self):
        for address in ("0.0.0.0:0", "[::]:0", "*:0"):
            code, text = self.refused(listen=(address,))
            self.assertEqual(code, 2)
            self.assertIn("--api-key-file", text)
        for flags, keys in ((("--i-know-this-is-unauthenticated",), None), ((), ["k"])):
            with http_rig.Server(*flags, listen=("0.0.0.0:0",), keys=keys) as server:
                address = ("127.0.0.1", server.address[1])
                with http_rig.Wire(address) as wire:
                    self.assertEqual(wire.ask(get()).status, 200)
                with http_rig.Wire(address) as wire:  # the list of names counts here too
                    self.assertEqual(wire.ask(get(host=b"Host: evil.example\r\n")).status, 403)



class Changes(http_rig.unittest.TestCase):
    """The key file changes while the server runs. A key with tpm=1 is in debt for many minutes after one
    request."""
    CHAT = Keys.CHAT

    def setUp(self):
        self.first = ["watch metrics,infer watch", "gone infer gone", "limited infer limited tpm=1"]
        self.server = http_rig.Server("--limit", "key-failures=100000", keys=self.first)
        self.file = Path(self.server.directory.name) / "keys"

    def tearDown(self):
        self.server.__exit__()

    def status(self, key, path="/v1/models"):
        return self.server.ask(get(path, b"x-api-key: " + key)).status

    def chat(self, key):
        return self.server.ask(post("/v1/chat/completions", self.CHAT, b"x-api-key: " + key), "POST").status

    def keys(self):
        return {key["name"]: key for key in self.server.ask(get("/v1/status", b"x-api-key: watch")).json()["keys"]}

    def rename_over(self, *lines):
        replacement = self.file.with_suffix(".new")
        replacement.write_text("\n".join(lines), encoding="utf-8")
        replacement.rename(self.file)

    def wait_for(self, condition, what):
        self.assertTrue(http_rig.until(condition), what)

    def wait_for_log(self, text, times):
        self.wait_for(lambda: self.server.log().count(text) >= times, text)
        self.assertEqual(self.server.log().count(text), times)

    def test_keys_are_reloaded(self):
        self.assertEqual([self.chat(b"limited"), self.chat(b"limited")], [200, 429])
        with self.server.wire() as wire:
            wire.send(post("/v1/chat/completions", {**self.CHAT, "max_tokens": 150, "ignore_eos": True, "stream": True},
                           b"x-api-key: gone"))
            wire._until(b"data: ")
            self.rename_over("watch metrics,infer watch", "limited infer,metrics limited tpm=1", "new-key infer new")
            self.wait_for(lambda: self.status(b"new-key") == 200, "a new key")
            self.assertEqual([self.status(b"gone"), self.chat(b"gone")], [401, 401])
            wire._until(b"data: [DONE]")  # the request sent before is answered
        self.wait_for_log("key file reloaded: 3 keys; 1 new, 1 removed, 1 changed", 1)
        # usage is kept, and new scopes apply at once
        self.assertEqual([self.chat(b"limited"), self.status(b"limited", "/v1/status")], [429, 200])
        self.assertEqual(list(self.keys()), ["watch", "limited", "new"])
        self.assertEqual([self.keys()["limited"][of] for of in ("tpm", "requests", "refused")], [1, 1, 2])
        self.file.write_text("\n".join(self.first), encoding="utf-8")  # in place
        self.wait_for(lambda: self.status(b"gone") == 200, "a key that is back")
        self.assertEqual(self.status(b"new-key"), 401)
        self.assertEqual(self.keys()["gone"]["requests"], 1)

    def test_invalid_file_changes_nothing(self):
        said = "the key file has changed and is NOT used"
        for n, broken in enumerate((["watch metrics,infer watch", "sha256:12 infer secret-name"], ["# no key"], None), 1):
            if broken is None:
                self.file.unlink()
            else:
                self.rename_over(*broken)
            self.wait_for_log(said, n)
            self.assertEqual([self.status(b"gone"), self.status(b"other"), self.status(b"")], [200, 401, 401])
        time.sleep(2.5)  # it is checked again, and not reported again
        self.wait_for_log(said, 3)
        self.rename_over("watch metrics,infer watch")
        self.wait_for(lambda: self.status(b"gone") == 401, "a valid file")
        self.assertNotIn("secret", self.server.log())


if __name__ == "__main__":
    http_rig.main()
