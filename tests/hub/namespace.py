# SPDX-License-Identifier: Apache-2.0
"""namespace.py - a network of its own for one program: addresses that look public, and names for them.

    network = Namespace({"hub.example": "203.0.113.7"})
    listener = Listener(..., bound=network.listen("203.0.113.7"))
    subprocess.Popen(..., preexec_fn=network.enter)

All addresses belong to the loopback interface of a new network namespace, so no packet leaves it. Needs the
rights of root; Namespace.Forbidden says that they are missing.
"""
import ctypes
import fcntl
import os
import queue
import socket
import struct
import tempfile
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
SIOCSIFADDR, SIOCSIFFLAGS, SIOCGIFFLAGS, IFF_UP = 0x8916, 0x8914, 0x8913, 1
HOSTS = "/etc/hosts"


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Namespace:
    class Forbidden(Exception):
        """This process may not make a namespace."""

    def __init__(self, names):
        """`names`: host name to address."""
        self.sockets, self.wanted = queue.Queue(), queue.Queue()
        self.hosts = tempfile.NamedTemporaryFile("w", prefix="mote-hosts-", encoding="ascii")
        os.chmod(self.hosts.name, 0o644)
        self.name(names)
        # A namespace belongs to a thread. Sockets that it makes can be used by all.
        threading.Thread(target=self._run, args=(sorted(set(names.values())),), daemon=True).start()
        first = self.sockets.get()
        if isinstance(first, Exception):
            raise Namespace.Forbidden(str(first))
        self.fd = first

    def _run(self, addresses):
        try:
            check(LIBC.unshare(CLONE_NEWNET))
            self._add(addresses)
            self.sockets.put(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        except OSError as e:
            self.sockets.put(e)
            return
        while (address := self.wanted.get()) is not None:
            end = socket.socket()
            end.bind(address)
            self.sockets.put(end)

    @staticmethod
    def _add(addresses):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for number, address in enumerate(["127.0.0.1", *addresses]):
                name = b"lo" if number == 0 else b"lo:%d" % number
                fcntl.ioctl(control, SIOCSIFADDR, struct.pack("16sHH4s8x", name, socket.AF_INET, 0,
                                                              socket.inet_aton(address)))
                flags = struct.unpack("16sH", fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sH", name, 0)))[1]
                fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH", name, flags | IFF_UP))

    def name(self, names):
        """Changes the addresses of names, for programs that are running too."""
        self.hosts.seek(0)
        self.hosts.truncate()
        self.hosts.write("".join(f"{address} {name}\n" for name, address in names.items()))
        self.hosts.flush()

    def listen(self, address, port=443):
        self.wanted.put((address, port))
        return self.sockets.get()

    def enter(self):
        """In a child process, before its program starts."""
        check(LIBC.setns(self.fd, CLONE_NEWNET))
        check(LIBC.unshare(CLONE_NEWNS))
        check(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        check(LIBC.mount(self.hosts.name.encode(), HOSTS.encode(), None, MS_BIND, None))

    def close(self):
        self.wanted.put(None)
        os.close(self.fd)
        self.hosts.close()
