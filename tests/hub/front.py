# SPDX-License-Identifier: Apache-2.0
"""front.py - nginx with TLS in front of the test double: one port for the hub, another one for the CDN.

The sockets are bound here, to ports chosen by the kernel, and handed to nginx as it hands them to a new
version of itself (the variable NGINX). So no other process can take a port in between.
"""
import json
import os
import socket
import subprocess
import time

PATIENCE = 300

CONFIG = """
daemon off; worker_processes {workers}; pid {work}/pid; error_log {work}/error.log; {user}
events {{ worker_connections 1024; }}
http {{
  log_format record escape=json '{{"listener":"$server_port","method":"$request_method","target":"$request_uri",'
    '"status":$status,"sent":$body_bytes_sent,"range":"$http_range","authorization":"$http_authorization","end":$msec}}';
  access_log {work}/access.log record;
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
  uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
  ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_session_cache shared:tls:1m;
  keepalive_requests 100000; large_client_header_buffers 4 32k; sendfile on; default_type application/octet-stream;
  proxy_read_timeout 600s;
  upstream localhost {{ server unix:{work}/app; }}
  server {{
    listen 127.0.0.1:{hub} ssl{http2};
    location / {{ proxy_set_header X-Listener hub; proxy_pass http://localhost; }}
  }}
  server {{
    listen 127.0.0.1:{cdn} ssl{http2};
    location / {{ proxy_set_header X-Listener cdn; proxy_pass http://localhost; }}
    # The program checks a request and names the file; nginx sends it, with ranges.
    location /files/ {{ internal; alias {files}/; }}
    # Without the program: for measurements.
    location /direct/ {{ alias {files}/; }}
  }}
}}
"""


def bound_socket():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(512)
    return s


class Nginx:
    """nginx as a child process. `hub` and `cdn` are its ports."""

    def __init__(self, work, files, certificate, http2=True, workers=1):
        self.work = work
        sockets = [bound_socket(), bound_socket()]
        self.hub, self.cdn = (s.getsockname()[1] for s in sockets)
        config = os.path.join(work, "nginx.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(CONFIG.format(work=work, files=files, certificate=certificate[0], key=certificate[1], hub=self.hub,
                                  cdn=self.cdn, http2=" http2" if http2 else "", workers=workers,
                                  user="user root;" if os.getuid() == 0 else ""))
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin",
               "NGINX": "".join(f"{s.fileno()};" for s in sockets)}
        with open(os.path.join(work, "nginx.out"), "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(["nginx", "-p", work, "-c", config], stdout=out, stderr=out, env=env,
                                            pass_fds=[s.fileno() for s in sockets])
        for s in sockets:
            s.close()
        self._wait()

    def _wait(self):
        """Waits until nginx has read its configuration: it then writes its process id."""
        end = time.monotonic() + PATIENCE
        while not os.path.exists(os.path.join(self.work, "pid")):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("nginx does not start: " + self.said())
            time.sleep(0.02)

    def said(self):
        text = ""
        for name in ("nginx.out", "error.log"):
            try:
                with open(os.path.join(self.work, name), encoding="utf-8") as f:
                    text += f.read()
            except FileNotFoundError:
                pass
        return text

    def access(self):
        """Returns the requests that are complete, as nginx logs them. `listener` is "hub" or "cdn"."""
        names = {str(self.hub): "hub", str(self.cdn): "cdn"}
        with open(os.path.join(self.work, "access.log"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f if line.endswith("\n")]
        return [{**row, "listener": names[row["listener"]]} for row in rows]

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)
