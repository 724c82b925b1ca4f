# SPDX-License-Identifier: Apache-2.0
"""Requests that must not be understood: name, bytes, status. All of them end the connection.

POST goes to a path that exists, so that a body which is taken in spite of its framing
would be answered with something else.
"""
H = b"Host: localhost\r\n"
J = b"Content-Type: application/json\r\n"
BODY = b'{"content":"a"}'
N = str(len(BODY)).encode()


def g(*lines, first=b"GET /health HTTP/1.1", host=H):
    return first + b"\r\n" + host + b"".join(lines) + b"\r\n"


def p(*lines, body=BODY, first=b"POST /tokenize HTTP/1.1"):
    return first + b"\r\n" + H + J + b"".join(lines) + b"\r\n" + body


CL = b"Content-Length: " + N + b"\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
CHUNKED = b"f\r\n" + BODY + b"\r\n0\r\n\r\n"

CASES = [
    # the first line
    ("nothing but a line end", b"\r\n" + g(), 400),
    ("a bare LF first", b"\n" + g(), 400),
    ("no version", g(first=b"GET /health"), 400),
    ("HTTP/0.9 in a word", b"GET /\r\n\r\n", 400),
    ("HTTP/2.0", g(first=b"GET /health HTTP/2.0"), 400),
    ("HTTP/1.2", g(first=b"GET /health HTTP/1.2"), 400),
    ("HTTP/1.10", g(first=b"GET /health HTTP/1.10"), 400),
    ("HTTP/01.1", g(first=b"GET /health HTTP/01.1"), 400),
    ("http in lower case", g(first=b"GET /health http/1.1"), 400),
    ("HTTP/1,1", g(first=b"GET /health HTTP/1,1"), 400),
    ("two blanks before the target", g(first=b"GET  /health HTTP/1.1"), 400),
    ("two blanks before the version", g(first=b"GET /health  HTTP/1.1"), 400),
    ("a blank at the end of the line", g(first=b"GET /health HTTP/1.1 "), 400),
    ("a blank before the method", g(first=b" GET /health HTTP/1.1"), 400),
    ("a tab between", g(first=b"GET\t/health HTTP/1.1"), 400),
    ("a blank in the target", g(first=b"GET /he alth HTTP/1.1"), 400),
    ("a bracket in the method", g(first=b"G(T /health HTTP/1.1"), 400),
    ("an unknown method", g(first=b"FETCH /health HTTP/1.1"), 405),
    ("a method in lower case", g(first=b"get /health HTTP/1.1"), 405),
    ("PUT", g(first=b"PUT /health HTTP/1.1"), 405),
    ("TRACE", g(first=b"TRACE / HTTP/1.1"), 405),
    ("CONNECT", g(first=b"CONNECT localhost:80 HTTP/1.1"), 405),
    ("PRI of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    ("a TLS hello", b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
    ("an absolute target", g(first=b"GET http://localhost/health HTTP/1.1"), 400),
    ("an absolute target of another host", g(first=b"GET http://evil.example/health HTTP/1.1"), 400),
    ("a target without a slash", g(first=b"GET health HTTP/1.1"), 400),
    ("a star for GET", g(first=b"GET * HTTP/1.1"), 400),
    ("a fragment", g(first=b"GET /health#x HTTP/1.1"), 400),
    ("a backslash", g(first=b"GET \\health HTTP/1.1"), 400),
    ("a backslash inside", g(first=b"GET /a\\..\\health HTTP/1.1"), 400),
    ("a bad escape", g(first=b"GET /he%zzalth HTTP/1.1"), 400),
    ("half an escape", g(first=b"GET /health% HTTP/1.1"), 400),
    ("half an escape at the end", g(first=b"GET /health%2 HTTP/1.1"), 400),
    ("NUL by an escape", g(first=b"GET /health%00 HTTP/1.1"), 400),
    ("a line end by an escape", g(first=b"GET /health%0d%0aX:%20y HTTP/1.1"), 400),
    ("bytes that are no UTF-8", g(first=b"GET /%ff%fe HTTP/1.1"), 400),
    ("an overlong slash", g(first=b"GET /%c0%af HTTP/1.1"), 400),
    ("raw UTF-8 in the target", g(first="GET /\u00e9 HTTP/1.1".encode()), 400),
    ("NUL in the target", g(first=b"GET /hea\0lth HTTP/1.1"), 400),
    # lines
    ("bare LF after the first line", b"GET /health HTTP/1.1\n" + H + b"\r\n", 400),
    ("bare LF after a header", b"GET /health HTTP/1.1\r\nHost: localhost\n\r\n", 400),
    ("bare LF as the blank line", b"GET /health HTTP/1.1\r\n" + H + b"\n", 400),
    ("a lone CR in a value", g(b"X: a\rb\r\n"), 400),
    ("a lone CR as a line end", g(b"X: a\rTransfer-Encoding: chunked\r\n"), 400),
    ("CR CR LF", g(b"X: a\r\r\n"), 400),
    ("a folded line", g(b"X: a\r\n b\r\n"), 400),
    ("a folded line with a tab", g(b"X: a\r\n\tb\r\n"), 400),
    ("a folded first header", b"GET /health HTTP/1.1\r\n " + H + b"\r\n", 400),
    ("NUL in a value", g(b"X: a\0b\r\n"), 400),
    ("NUL in a name", g(b"X\0Y: a\r\n"), 400),
    ("DEL in a value", g(b"X: a\x7fb\r\n"), 400),
    ("an escape character in a value", g(b"X: \x1b[31m\r\n"), 400),
    # names
    ("a header without a colon", g(b"X\r\n"), 400),
    ("a header without a name", g(b": a\r\n"), 400),
    ("a blank before the colon", g(b"X : a\r\n"), 400),
    ("a tab before the colon", g(b"X\t: a\r\n"), 400),
    ("a blank in a name", g(b"X Y: a\r\n"), 400),
    ("a bracket in a name", g(b"X(Y): a\r\n"), 400),
    ("UTF-8 in a name", g("X\u00e9: a\r\n".encode()), 400),
    # Host
    ("no Host", g(host=b""), 400),
    ("no Host in HTTP/1.0", g(first=b"GET /health HTTP/1.0", host=b""), 400),
    ("two Hosts", g(H), 400),
    ("two Hosts that differ", g(b"Host: evil.example\r\n"), 400),
    ("two Hosts, one in upper case", g(b"HOST: localhost\r\n"), 400),
    ("an empty Host", g(host=b"Host:\r\n"), 400),
    ("a Host with a path", g(host=b"Host: localhost/x\r\n"), 400),
    ("a Host with a path and a question", g(host=b"Host: localhost/v1/models?\r\n"), 400),
    ("a Host with a user", g(host=b"Host: a@localhost\r\n"), 400),
    ("a list of Hosts", g(host=b"Host: localhost, evil.example\r\n"), 400),
    # length and coding
    ("length and coding", p(CL, TE, body=CHUNKED), 400),
    ("coding and length", p(TE, CL, body=CHUNKED), 400),
    ("two lengths that differ", p(CL, b"Content-Length: 3\r\n"), 400),
    ("two lengths that agree", p(CL, CL), 400),
    ("a list of lengths", p(b"Content-Length: %s, %s\r\n" % (N, N)), 400),
    ("a length with a sign", p(b"Content-Length: +" + N + b"\r\n"), 400),
    ("a negative length", p(b"Content-Length: -1\r\n"), 400),
    ("a length in hexadecimal", p(b"Content-Length: 0xf\r\n"), 400),
    ("a length with a blank inside", p(b"Content-Length: 1 5\r\n"), 400),
    ("a length with a point", p(b"Content-Length: 15.0\r\n"), 400),
    ("an empty length", p(b"Content-Length:\r\n"), 400),
    ("a length of 2^64 + 15", p(b"Content-Length: 18446744073709551631\r\n"), 400),
    ("a length of 2^63", p(b"Content-Length: 9223372036854775808\r\n"), 400),
    ("Content-Length with a blank", p(b"Content-Length : " + N + b"\r\n"), 400),
    ("Transfer-Encoding with a blank", p(b"Transfer-Encoding : chunked\r\n", body=CHUNKED), 400),
    ("xchunked", p(b"Transfer-Encoding: xchunked\r\n", body=CHUNKED), 400),
    ("chunked twice", p(TE, TE, body=CHUNKED), 400),
    ("chunked, chunked", p(b"Transfer-Encoding: chunked, chunked\r\n", body=CHUNKED), 400),
    ("gzip, chunked", p(b"Transfer-Encoding: gzip, chunked\r\n", body=CHUNKED), 400),
    ("chunked, identity", p(b"Transfer-Encoding: chunked, identity\r\n", body=CHUNKED), 400),
    ("identity", p(b"Transfer-Encoding: identity\r\n"), 400),
    ("an empty coding", p(b"Transfer-Encoding:\r\n"), 400),
    ("chunked in quotes", p(b'Transfer-Encoding: "chunked"\r\n', body=CHUNKED), 400),
    ("chunked with a parameter", p(b"Transfer-Encoding: chunked;q=1\r\n", body=CHUNKED), 400),
    ("chunked after a vertical tab", p(b"Transfer-Encoding: \x0bchunked\r\n", body=CHUNKED), 400),
    ("chunked before a tab", p(b"Transfer-Encoding: chunked\t\r\n", body=CHUNKED), 400),
    ("a length behind a tab", p(b"Content-Length:\t" + N + b"\r\n"), 400),
    ("coding in HTTP/1.0", p(TE, body=CHUNKED, first=b"POST /tokenize HTTP/1.0"), 400),
    ("coding in HTTP/1.0 of another method",
     p(TE, body=CHUNKED, first=b"DELETE /api/delete HTTP/1.0"), 400),
    ("HTTP/1.0 without a length", p(first=b"POST /tokenize HTTP/1.0"), 400),
    ("GET with a body", g(b"Content-Length: 5\r\n") + b"hello", 400),
    ("GET with chunks", g(TE) + CHUNKED, 400),
    ("HEAD with a body", g(b"Content-Length: 5\r\n", first=b"HEAD /health HTTP/1.1") + b"hello", 400),
    ("OPTIONS with a body", g(b"Content-Length: 5\r\n", first=b"OPTIONS * HTTP/1.1") + b"hello", 400),
    ("Expect of something else", p(CL, b"Expect: 200-ok\r\n"), 400),
    ("gzip", p(CL, b"Content-Encoding: gzip\r\n"), 415),
    ("two types", p(CL, b"Content-Type: text/plain\r\n"), 400),
    ("two keys", g(b"x-api-key: a\r\n", b"X-Api-Key: b\r\n"), 400),
    ("two Authorizations", g(b"Authorization: Bearer a\r\n", b"authorization: Bearer b\r\n"), 400),
    ("two Origins", g(b"Origin: https://a.example\r\n", b"Origin: https://b.example\r\n"), 400),
    # chunks
    ("a chunk size that is no number", p(TE, body=b"g\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk size with 0x", p(TE, body=b"0xf\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk size with a sign", p(TE, body=b"+f\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a negative chunk size", p(TE, body=b"-1\r\n"), 400),
    ("a blank before a chunk size", p(TE, body=b" f\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a blank behind a chunk size", p(TE, body=b"f \r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("an empty chunk size", p(TE, body=b"\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk size of 2^64", p(TE, body=b"10000000000000000\r\n"), 400),
    ("a chunk size beyond the limit", p(TE, body=b"ffffffff\r\n" + b"a" * 5_000_000), 413),
    ("a chunk longer than it says", p(TE, body=b"3\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk size with bare LF", p(TE, body=b"f\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk that ends with bare LF", p(TE, body=b"f\r\n" + BODY + b"\n0\r\n\r\n"), 400),
    ("a chunk size with CR alone", p(TE, body=b"f\r" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk extension", p(TE, body=b"f;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a chunk extension with a quote", p(TE, body=b'f;a="\n"\r\n' + BODY + b"\r\n0\r\n\r\n"), 400),
    ("a trailer", p(TE, body=b"f\r\n" + BODY + b"\r\n0\r\nX: y\r\n\r\n"), 400),
    ("half a trailer", p(TE, body=b"f\r\n" + BODY + b"\r\n0\r\nX"), 400),
    ("a trailer that is a header", p(TE, body=b"f\r\n" + BODY + b"\r\n0\r\nContent-Length: 3\r\n\r\n"), 400),
]
