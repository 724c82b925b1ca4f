# SPDX-License-Identifier: Apache-2.0
"""scenario_rows.py - failures of the hub, of the network and of TLS. scenarios.py describes a row."""
import base64
import os

from double import TOKEN
from hub_rig import MIB, equal
from listener import Listener
from scenarios import (LARGE, OTHER, SMALL, body, cut, flipped, listing, redirect, replaced, row, status)

ONE = {"a.gguf": LARGE}


# Redirects

@row(1, 5, "redirects more than 20 times")
def redirect_loop(s):
    s.hook("resolve", lambda request, answer: replaced(answer, location=request.target))
    yield
    assert len(s.requests("hub")) < 30


@row(1, 5, "redirects more than 20 times")
def redirect_loop_of_the_cdn(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: (302, [("Location", request.target)], ""))
    yield
    assert len(s.requests("raw_cdn")) < 60


@row(2, 5, "a redirect of .* is not followed: the scheme is http; only https is allowed")
def redirect_to_http(s):
    s.hook("resolve", lambda request, answer: replaced(
        answer, location=dict(answer[1])["Location"].replace("https:", "http:")))


@row(3, 5, "a redirect of .* is not followed: the scheme is file")
def redirect_to_a_file(s):
    s.hook("resolve", redirect("file:///etc/passwd"))


@row(3, 5, "a redirect of .* is not followed: the scheme is ftp")
def redirect_to_ftp(s):
    s.hook("resolve", redirect("ftp://localhost/a.gguf"))


@row(3, 5, "a redirect of .* is not followed: the scheme is gopher")
def redirect_to_gopher(s):
    s.hook("resolve", redirect("gopher://localhost/a.gguf"))


@row(5, 5, "not exactly one Location header")
def redirect_without_a_location(s):
    s.hook("resolve", redirect(None))


@row(5, 5, "not exactly one Location header")
def redirect_with_an_empty_location(s):
    s.use("raw_hub")
    s.hook("resolve", redirect(""))


@row(5, 5, "not exactly one Location header")
def redirect_with_two_locations(s):
    s.use("raw_hub")
    s.hook("resolve", lambda request, answer: (
        302, [*answer[1], ("Location", s.hub.url("cdn") + "/other")], answer[2]))


@row(6, 0)
def plain_download(s):
    """The token goes to the hub and nowhere else; the harness checks the CDN."""
    yield
    assert any(r.headers.get("authorization") == "Bearer " + TOKEN for r in s.requests("hub"))
    assert s.requests("cdn")


@row(7, 0)
def the_cdn_redirects_back_to_the_hub(s):
    def back(request, answer):
        target = f"{s.hub.url('hub')}/api/resolve-cache/models/{s.repo.name}/{s.repo.head}/a.gguf"
        return 302, [("Location", target)], ""
    s.hook("cdn", back)
    yield
    sent_back = [r for r in s.requests("hub") if "resolve-cache" in r.path]
    assert sent_back and not any("authorization" in r.headers for r in sent_back), sent_back


@row(9, 5, "the URL contains a user name or password")
def redirect_with_a_password(s):
    s.hook("resolve", lambda request, answer: replaced(
        answer, location=dict(answer[1])["Location"].replace("https:" + "//", "https:" + "//user:secret@")))


@row(10, 0, files=ONE)
def signed_url_expires(s):
    """Each URL is good for one request; the hub signs another one."""
    def expire(request, answer):
        with s.lock:
            s.repo.generation += 1
        return answer
    s.use(cdn="raw_cdn")
    s.hook("cdn", expire, times=2)
    s.flags += ["--jobs", "1"]
    yield
    assert sum("/resolve/" in r.path for r in s.requests("hub")) >= 2


@row(10, 5, "answers with status 403; gave up after 5 tries", files=ONE)
def signed_url_is_never_valid(s):
    s.hook("cdn", status(403, "<Error><Code>AccessDenied</Code></Error>"))


# Ranges

@row(11, 0, files=ONE)
def whole_file_instead_of_a_range(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: (200, [("ETag", '"x"')], LARGE))


@row(11, 5, "gave up|tries", files=ONE)
def no_ranges_and_a_cut_connection(s):
    """Every connection delivers 300,000 bytes from the start: that is no progress."""
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: cut(300000)(request, (200, [], LARGE)))
    yield
    assert len(s.requests("raw_cdn")) < 60


@row(11, 0, files=ONE)
def no_ranges_and_a_connection_that_is_cut_later_each_time(s):
    """Ranges that are complete stay, so this ends."""
    def send(request, answer):
        with s.lock:
            n = s.counts["sent"] = s.counts.get("sent", 0) + 1
        return cut(n * (2 * MIB + 1))(request, (200, [], LARGE))
    s.use(cdn="raw_cdn")
    s.hook("cdn", send)


@row(12, 0, files=ONE)
def wrong_range_once(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: replaced(answer, content_range=f"bytes 5-9/{len(LARGE)}"), times=1)


@row(12, 5, "a request for bytes .*Content-Range bytes 5-9/16789561", files=ONE)
def wrong_range_always(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: replaced(answer, content_range=f"bytes 5-9/{len(LARGE)}"))


@row(12, 5, "Content-Range bytes [0-9]+-[0-9]+/99999999", files=ONE)
def range_of_another_total(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: replaced(
        answer, content_range=dict(answer[1])["Content-Range"].rsplit("/", 1)[0] + "/99999999"))


@row(12, 5, "status 206, without a Content-Range", files=ONE)
def partial_content_without_a_range(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: replaced(answer, content_range=None))


@row(13, 0, files=ONE)
def range_not_satisfiable_once(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", status(416, "", ("Content-Range", f"bytes */{len(LARGE)}")), times=1)


@row(13, 5, "status 416", files=ONE)
def range_never_satisfiable(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", status(416, "", ("Content-Range", "bytes */5")))


# Ranges in parallel

def one_range(s, change, times=None):
    """Changes the answers for the second range only."""
    def changed(request, answer):
        if not request.headers.get("range", "").startswith("bytes=8388608-"):
            return answer
        with s.lock:
            n = s.counts["second"] = s.counts.get("second", 0) + 1
        return change(request, answer) if times is None or n <= times else answer
    s.use(cdn="raw_cdn")
    s.hook("cdn", changed)


@row(63, 0, files=ONE)
def other_etag_of_one_range_once(s):
    one_range(s, lambda request, answer: replaced(answer, etag='"other"'), times=1)


@row(63, 0, files=ONE)
def other_etag_of_one_range_always(s):
    """The metadata is requested again and is the same, so the hash of the whole file decides."""
    s.flags += ["--jobs", "1"]
    one_range(s, lambda request, answer: replaced(answer, etag='"other"'))
    yield
    assert sum("/resolve/" in r.path for r in s.requests("hub")) >= 2


@row(63, 0, "the hash of the file is wrong; it is downloaded again", files=ONE)
def one_range_of_another_file_once(s):
    """No header tells the difference. The hash of the whole file decides."""
    one_range(s, body(lambda data: OTHER[8 * MIB:8 * MIB + len(data)]), times=1)


@row(63, 0, files=ONE)
def one_range_fails(s):
    """The others are kept: the next run requests only the range that is missing."""
    one_range(s, status(503))
    equal(s.pull().code, 5)
    s.check_intact()
    del s.repo.hooks["cdn"]
    s.forget()
    yield
    equal(s.spans(), [(8 * MIB, 16 * MIB)])


# Changes while it downloads

@row(15, 0, files=ONE)
def other_content_when_the_url_is_signed_again(s):
    """The first URL expires after a range. The hub then has another hash: that file is installed, and of the first one
    nothing is left."""
    commit = s.repo.head
    s.hub.commit(s.repo, {"a.gguf": OTHER}, branch="other")
    other = s.repo.commits[s.repo.refs["other"]]["a.gguf"]
    s.use(cdn="raw_cdn")
    s.flags += ["--jobs", "1"]
    s.hook("cdn", status(403), times=1, skip=1)
    s.hook("resolve", lambda request, answer: replaced(
        answer, x_linked_etag=f'"{other.sha256}"', location=s.hub.signed_url(s.repo, other)), skip=1)
    s.installed = []
    yield
    equal(os.listdir(os.path.join(s.directory, "blobs")), [other.sha256])
    link = os.path.join(s.directory, "snapshots", commit, "a.gguf")
    equal(os.path.basename(os.path.realpath(link)), other.sha256)



@row(16, 0)
def main_moves_after_the_listing(s):
    """The files of the commit that was listed are installed, and main names that commit."""
    first = s.repo.head

    def move(request, answer):
        s.hub.commit(s.repo, {"a.gguf": OTHER})
        return answer
    s.hook("tree", move, times=1)
    s.installed = []
    yield
    with open(os.path.join(s.directory, "refs", "main"), "rb") as f:
        equal(f.read(), first.encode())
    link = os.path.join(s.directory, "snapshots", first, "a.gguf")
    equal(os.path.basename(os.path.realpath(link)), s.repo.commits[first]["a.gguf"].sha256)


@row(15, 6, "its hash is [0-9a-f]{64}, the hub says 1{64}")
def hash_of_the_file_differs_from_the_listing(s):
    """The redirect names another hash than the listing of the same commit: an old or a new file, never a mixture."""
    s.hook("resolve", lambda request, answer: replaced(answer, x_linked_etag='"' + "1" * 64 + '"'), times=1)


# Bodies

@row(17, 0, files=ONE)
def body_cut_once(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", cut(100000), times=1)
    yield
    # What had arrived is not requested again.
    starts = [r.headers["range"] for r in s.requests("raw_cdn")]
    assert len(starts) == len(set(starts)), starts


@row(17, 0, files=ONE)
def body_cut_again_and_again(s):
    """Each connection delivers 1 MiB: progress, so no limit of tries ends it."""
    s.use(cdn="raw_cdn")
    s.hook("cdn", cut(MIB + 1))


@row(17, 5, "transfer closed with .*gave up after 5 tries, the part is kept", files=ONE)
def body_cut_at_the_first_byte(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", cut(0))
    yield
    assert len(s.requests("raw_cdn")) < 60


@row(38, 0, files=ONE)
def connection_reset_once(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", cut(50000, reset=True), times=2)


@row(18, 0, files=ONE)
def chunked_body_that_ends_early(s):
    def chunked(request, answer):
        code, headers, data = answer
        request.head(code, [*headers, ("Transfer-Encoding", "chunked")])
        request.send(b"186a0\r\n" + data[:100000] + b"\r\n0\r\n\r\n")
        return None
    s.use(cdn="raw_cdn")
    s.hook("cdn", chunked, times=1)


@row(18, 0, files=ONE)
def chunked_body(s):
    def chunked(request, answer):
        code, headers, data = answer
        request.head(code, [*headers, ("Transfer-Encoding", "chunked")])
        for begin in range(0, len(data), 100000):
            piece = data[begin:begin + 100000]
            request.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
        request.send("0\r\n\r\n")
        return None
    s.use(cdn="raw_cdn")
    s.hook("cdn", chunked)


@row(19, 0, files=ONE)
def more_bytes_than_the_range(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", body(lambda data: data + b"x" * 100000))


@row(20, 0)
def no_content_length(s):
    def send(request, answer):
        request.head(answer[0], answer[1])
        request.send(answer[2])
        request.close()
    s.use(cdn="raw_cdn")
    s.hook("cdn", send)


def lengths(*values):
    def send(request, answer):
        request.head(answer[0], [*answer[1], *(("Content-Length", v) for v in values)])
        request.send(answer[2])
        request.close()
    return send


@row(20, 5, "Invalid Content-Length")
def negative_content_length(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lengths("-5"))


@row(20, 5, "two Content-Length headers")
def two_content_lengths(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lengths("10", "200000"))


@row(20, 0)
def huge_content_length(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lengths(str(1 << 63)))


def sizes(s, listed, linked):
    """The size in the listing and in the redirect."""
    def change(entries):
        for e in entries:
            e["size"] = e["lfs"]["size"] = listed
    s.hook("tree", listing(change))
    s.hook("resolve", lambda request, answer: replaced(answer, x_linked_size=linked))


@row(21, 5, "sends no valid size")
def size_zero(s):
    sizes(s, 0, "0")


@row(21, 5, "files with an invalid name or size: 1")
def size_absurd(s):
    sizes(s, 1 << 62, str(1 << 62))


@row(21, 5, "files with an invalid name or size: 1")
def size_is_no_number(s):
    sizes(s, "many", "many")


@row(21, 5, "sends no valid size")
def size_of_the_redirect_absurd(s):
    s.hook("resolve", lambda request, answer: replaced(answer, x_linked_size=str(1 << 62)))


@row(21, 5, "sends no valid size")
def size_of_the_redirect_is_no_number(s):
    s.hook("resolve", lambda request, answer: replaced(answer, x_linked_size="0x30d40"))


@row(22, 5, "Content-Encoding gzip: not the bytes of the file")
def compressed_body(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", lambda request, answer: replaced(answer, content_encoding="gzip"))


@row(23, 6, "is damaged: its hash is [0-9a-f]{64}, the hub says [0-9a-f]{64}")
def wrong_content(s):
    s.use(cdn="raw_cdn")
    s.hook("cdn", body(flipped))


@row(23, 0, files=ONE)
def flipped_bit_on_the_wire(s):
    """One range arrives with a wrong bit once. The second attempt from zero is right."""
    s.use(cdn="raw_cdn")
    s.hook("cdn", body(flipped), times=1, skip=1)


@row(24, 6, "is not a GGUF file; it is not installed", files={"a.gguf": b"<html>no model</html>" * 100})
def no_gguf_file(s):
    pass


# Answers of the API

@row(25, 5, "does not answer like a hub .*login page of the network")
def captive_portal(s):
    page = "<!doctype html><title>Login</title>"
    portal = Listener("portal", lambda r: r.reply(200, [("Content-Type", "text/html")], page), tls=s.hub.certificate)
    s.undo.append(portal.close)
    s.env["HF_ENDPOINT"] = f"https://127.0.0.1:{portal.port}"


@row(26, 5, "cannot read the file list .*unterminated string")
def listing_truncated(s):
    s.hook("tree", lambda request, answer: (200, answer[1], answer[2][:50]))


@row(26, 5, "cannot read the file list .*invalid UTF-8")
def listing_not_utf8(s):
    s.hook("tree", lambda request, answer: (200, answer[1], b'[{"type":"file","path":"\xff\xfe.gguf"}]'))


@row(26, 5, "cannot read the file list .*nested deeper")
def listing_deeply_nested(s):
    s.hook("tree", lambda request, answer: (200, answer[1], b"[" * 200000))


@row(26, 5, "cannot read the file list .*invalid JSON")
def listing_with_zero_bytes(s):
    s.hook("tree", lambda request, answer: (200, answer[1], b"[\0\0\0]"))


@row(26, 5, "the reply of .* is too large")
def listing_without_end(s):
    def endless(request, answer):
        request.head(200, [*answer[1]])
        while not s.hub.raw_hub.closing.is_set():
            request.send(b" " * 65536)
    s.use("raw_hub")
    s.hook("tree", endless)


@row(27, 5, "the reply of .* is too large")
def listing_of_100000_files(s):
    def many(entries):
        extra = [{"type": "file", "path": f"f{i}.txt", "size": 1, "oid": "0" * 40} for i in range(100000)]
        return entries + extra
    s.hook("tree", listing(many))


@row(27, 5, "the file list of .* does not end")
def listing_with_endless_pages(s):
    def more(request, answer):
        with s.lock:
            n = s.counts["pages"] = s.counts.get("pages", 0) + 1
        cursor = base64.urlsafe_b64encode(b"%d" % n).decode()
        link = f'<{s.hub.url("hub")}{request.raw_path}?recursive=true&cursor={cursor}>; rel="next"'
        return 200, [*answer[1], ("Link", link)], '[{"type":"file","path":"x%d","size":1,"oid":"%040d"}]' % (n, n)
    s.hook("tree", more)


@row(27, 5, "the file list of .* does not end")
def listing_with_a_repeated_page(s):
    def again(request, answer):
        link = f'<{s.hub.url("hub")}{request.raw_path}?recursive=true&cursor=MA==>; rel="next"'
        return 200, [*answer[1], ("Link", link)], answer[2]
    s.hook("tree", again)
    yield
    assert len(s.requests("hub")) < 20


@row(28, 5, "the next page of the file list is on another server")
def next_page_at_another_origin(s):
    s.hook("tree", lambda request, answer: replaced(answer, link=f'<{s.hub.url("cdn")}/x>; rel="next"'))
    yield
    equal([r.target for r in s.hub.requests("cdn") if r.path == "/x"], [])


def bad_name(title, name):
    """A row for a listing that has this name as well."""
    def check(s):
        entry = {"type": "file", "path": name, "size": 5, "oid": "1" * 40,
                 "lfs": {"oid": "2" * 64, "size": 5, "pointerSize": 134}}
        s.hook("tree", listing(lambda entries: entries + [entry]))
        s.target = f"hf:{s.repo.name}"
        yield
        for directory, _, files in os.walk(s.home):
            assert not any("evil" in f for f in files), (directory, files)
    check.__name__ = "file_name_" + title
    row(29, 0, "files with invalid names or sizes; they are ignored")(check)


bad_name("parent", "../../evil-Q4_K_M.gguf")
bad_name("absolute", "/evil-Q4_K_M.gguf")
bad_name("drive", "C:\\evil-Q4_K_M.gguf")
bad_name("share", "\\\\host\\evil-Q4_K_M.gguf")
bad_name("empty_segment", "a//evil-Q4_K_M.gguf")
bad_name("dot", "a/./evil-Q4_K_M.gguf")
bad_name("ends_in_a_dot", "evil-Q4_K_M./a-Q4_K_M.gguf")
bad_name("ends_in_a_blank", "evil-Q4_K_M /a-Q4_K_M.gguf")
bad_name("zero", "evil\0-Q4_K_M.gguf")
bad_name("newline", "evil\n-Q4_K_M.gguf")
bad_name("escape", "\x1b[31mevil-Q4_K_M.gguf")
bad_name("long", "evil-Q4_K_M" + "x" * 5000 + ".gguf")


def bad_etag(title, etag):
    """A row for a hash that is none, in the listing and in the redirect."""
    def check(s):
        def change(entries):
            for e in entries:
                e["lfs"]["oid"] = etag
        s.hook("tree", listing(change))
        s.hook("resolve", lambda request, answer: replaced(answer, x_linked_etag=f'"{etag}"'))
    check.__name__ = "hash_" + title
    row(31, 5, "sends no valid hash")(check)


bad_etag("with_a_path", "../../x")
bad_etag("empty", "")
bad_etag("too_short", "a" * 63)
bad_etag("in_upper_case", "A" * 64)


@row(32, 5, "has no valid commit")
def commit_is_no_hash(s):
    s.hook("info", lambda request, answer: (200, answer[1], answer[2].replace(s.repo.head, "../../../x")))


def bad_repository(title, target):
    def check(s):
        s.target = target
        yield
        equal([r.target for r in s.hub.requests() if "bad-name" in r.target], [])
    check.__name__ = "repository_" + title
    row(33, 3, "is not a repository of the hub; write hf:OWNER")(check)


bad_repository("parent", "hf:../bad-name:a.gguf")
bad_repository("of_three_segments", "hf:a/b/bad-name")
bad_repository("with_two_hyphens", "hf:owner/bad-name--x:a.gguf")


@row(34, 5, "part 2 of 3 is missing", files={"m-Q4_K_M-00001-of-00003.gguf": SMALL, "m-Q4_K_M-00003-of-00003.gguf": SMALL})
def part_of_a_split_model_missing(s):
    yield
    equal(s.requests("cdn"), [])


@row(34, 0, files={"m-Q4_K_M-00001-of-00002.gguf": SMALL, "m-Q4_K_M-00002-of-00002.gguf": LARGE})
def split_model(s):
    """The first part brings the others."""
    s.installed = list(s.repo.commits[s.repo.head])


@row(35, 0, files={"m-Q4_K_M-00001-of-00002.gguf": SMALL, "m-Q4_K_M-00002-of-00002.gguf": LARGE})
def main_moves_between_parts(s):
    """Both parts are of the commit that was listed."""
    first = dict(s.repo.commits[s.repo.head])

    def move(request, answer):
        s.hub.commit(s.repo, {name: OTHER for name in first})
        return answer
    s.hook("cdn", move, times=1)
    commit, s.installed = s.repo.head, []
    yield
    assert s.repo.head != commit
    for name, file in first.items():
        link = os.path.join(s.directory, "snapshots", commit, name)
        equal(os.path.basename(os.path.realpath(link)), file.sha256)
    equal(sum("/resolve/" + commit in r.path for r in s.requests("hub")), 2)


@row(30, 0, files={"A-Q4_K_M.gguf": SMALL, "a-Q4_K_M.gguf": OTHER})
def names_that_differ_in_case(s):
    """This file system distinguishes them."""
    s.installed = list(s.repo.commits[s.repo.head])
    s.target = f"hf:{s.repo.name}:a-Q4_K_M.gguf"
    equal(s.pull().code, 0)
    s.check_installed("a-Q4_K_M.gguf")
    s.target = f"hf:{s.repo.name}:A-Q4_K_M.gguf"


@row(8, 0)
def other_port_is_another_host(s):
    """The CDN of the test double is on the host of the hub, on another port."""
    yield
    ports = {s.hub.url(name).rsplit(":", 1)[1] for name in ("hub", "cdn")}
    equal(len(ports), 2)
    assert s.requests("cdn") and all("authorization" not in r.headers for r in s.requests("cdn"))
    assert all(r.headers.get("authorization") == "Bearer " + TOKEN for r in s.requests("hub"))


@row(8, 0, xet=True)
def xet_headers_are_ignored(s):
    yield
    equal([r.target for r in s.requests() if "xet-read-token" in r.target or "reconstructions" in r.target], [])
