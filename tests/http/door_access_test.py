# SPDX-License-Identifier: Apache-2.0
"""Who is let in: Host, Origin, CORS, types of bodies, keys and scopes, in tables."""
import re
from pathlib import Path

import door
from door import get, post

ROUTES = Path(__file__).resolve().parents[2] / "src/server/routes.c"
PAGE = b"Origin: https://app.example"
STRANGER = b"Origin: https://evil.example"

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
    ((STRANGER,), 403),
    ((STRANGER, b"Sec-Fetch-Site: same-origin"), 403),
    ((b"Origin: null",), 403),
    ((b"Origin:",), 403),
    ((b"Origin: http://app.example",), 403),
    ((b"Origin: https://app.example:444",), 403),
    ((b"Origin: https://app.example/",), 403),
    ((b"Origin: https://app.example.evil.example",), 403),
    ((b"Origin: https://APP.example",), 403),
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


class Browsers(door.OneServer):
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
            told = reply.headers.get("access-control-allow-origin")
            self.assertEqual(told, "https://app.example" if PAGE in lines else None, lines)
            self.assertEqual(reply.headers["vary"], "Origin")
            self.assertNotIn("access-control-allow-credentials", reply.headers)
            if status == 403:
                self.assertEqual(reply.json()["error"]["code"], "origin_not_allowed")

    def test_origin_is_checked_before_everything_else(self):
        for data in (get("/nowhere", STRANGER), post("/tokenize", {"content": "a"}, STRANGER),
                     get("/health", STRANGER, method=b"OPTIONS")):
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


class NoPages(door.OneServer):
    def test_nothing_is_said_to_browsers(self):
        for lines in ((), (PAGE,), (b"Sec-Fetch-Site: cross-site",)):
            reply = self.server.ask(get("/health", *lines))
            self.assertEqual(reply.status, 403 if lines else 200)
            self.assertFalse([name for name in reply.headers if name.startswith("access-control")])

    def test_any_key_will_do_where_there_are_none(self):
        for line in (b"Authorization: Bearer dummy", b"x-api-key: dummy", b"Authorization: Basic x"):
            self.assertEqual(self.server.ask(get("/v1/models", line)).status, 200)


def routes():
    """(methods, path, privilege) of every row of the table."""
    text = ROUTES.read_text(encoding="utf-8")
    rows = re.findall(r'^\s*\{(GET|POST|DELETE|[A-Z_| ]+),\s*"([^"]+)",\s*(\w+),', text, re.MULTILINE)
    rows = [(m, p, v) for m, p, v in rows if v in ("PUBLIC", "INFER", "METRICS", "ADMIN")]
    return [(re.findall("GET|POST|DELETE", methods), path, privilege) for methods, path, privilege in rows]


class Keys(door.OneServer):
    keys = ["# a comment", "plain-key infer,metrics,admin", "only-infer", "only-metrics metrics",
            "only-admin admin", ""]
    flags = ("--limit", "key-failures=1000000", "--cors-origin", "https://app.example")
    SCOPE = {"INFER": b"only-infer", "METRICS": b"only-metrics", "ADMIN": b"only-admin"}

    def ask(self, method, path, *lines):
        path = path.replace("*", "some-id")
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
                    if scope == privilege:
                        self.assertNotIn(status, (401, 403), (path, scope))
                    else:
                        self.assertEqual(status, 403, (path, scope))

    def test_unknown_paths_are_nobodys_business(self):
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


class Failures(door.unittest.TestCase):
    def test_too_many_wrong_keys(self):
        with door.Server(keys=["right"]) as server:
            guess = get("/v1/models", b"x-api-key: wrong")
            self.assertEqual([server.ask(guess).status for _ in range(10)], [401] * 10)
            reply = server.ask(guess)
            self.assertEqual((reply.status, reply.headers["retry-after"]), (429, "60"))
            self.assertEqual(reply.headers["x-should-retry"], "true")
            self.assertEqual(server.ask(get()).status, 200)
            # who has the key is not locked out by others behind the same address
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: right")).status, 200)

    def test_hashed_keys(self):
        made = door.subprocess.run([door.MOTE, "serve", "--new-key"], capture_output=True, text=True,
                                   check=True)
        key, line = made.stdout.strip(), made.stderr.strip().split("\n")[-1]
        self.assertRegex(key, r"^mote-[0-9a-f]{48}$")
        self.assertNotIn(key, line)
        with door.Server(keys=[line]) as server:
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: " + key.encode())).status, 200)
            self.assertEqual(server.ask(get("/v1/models", b"x-api-key: " + line[7:71].encode())).status, 401)
            self.assertEqual(server.ask(get("/slots", b"x-api-key: " + key.encode())).status, 403)

    def test_key_of_the_environment(self):
        with door.Server(env={"MOTE_API_KEY": "from-outside"}) as server:
            self.assertEqual(server.ask(get("/v1/models")).status, 401)
            for path in ("/v1/models", "/slots"):
                reply = server.ask(get(path, b"Authorization: Bearer from-outside"))
                self.assertEqual(reply.status, 200)

    def refused(self, *flags, **more):
        server = door.Server(*flags, wait=False, **more)
        try:
            return server.process.wait(60), server.log()
        finally:
            server.close()

    def test_bad_key_files(self):
        for keys in (["key nonsense"], ["sha256:12 infer"], ["# nothing"], ["key infer,metric"]):
            code, text = self.refused(keys=keys)
            self.assertEqual(code, 2, keys)
            self.assertNotIn("nonsense", text)

    def test_wide_addresses_need_a_key(self):
        for address in ("0.0.0.0:0", "[::]:0", "*:0"):
            code, text = self.refused(listen=(address,))
            self.assertEqual(code, 2)
            self.assertIn("--api-key-file", text)
        for flags, keys in ((("--i-know-this-is-unauthenticated",), None), ((), ["k"])):
            with door.Server(*flags, listen=("0.0.0.0:0",), keys=keys) as server:
                address = ("127.0.0.1", server.address[1])
                with door.Wire(address) as wire:
                    self.assertEqual(wire.ask(get()).status, 200)
                with door.Wire(address) as wire:  # the list of names counts here too
                    self.assertEqual(wire.ask(get(host=b"Host: evil.example\r\n")).status, 403)


if __name__ == "__main__":
    door.main()
