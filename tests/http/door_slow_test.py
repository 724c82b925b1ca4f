# SPDX-License-Identifier: Apache-2.0
"""slowhttptest in its four modes with 4,000 connections, while somebody else is served as ever.

The attacker comes from 127.0.0.1, the client from 127.0.0.2: for the server two addresses. Its slowest
request of a hundred may take twice as long as without the attack, and a moment more, since
attacker, server and client share this machine.
"""
import re
import shutil
import socket
import subprocess
import sys
import time

import door
from door import get, post

MODES = {
    "slow headers": ("-H", "-i", "1"),
    "slow body": ("-B", "-i", "1", "-s", "8192", "-t", "POST"),
    "ranges": ("-R", "-a", "10", "-b", "300", "-t", "GET"),
    "slow read": ("-X", "-w", "1", "-y", "8", "-n", "1", "-z", "8", "-k", "3"),
}
SECONDS, CONNECTIONS, A_MOMENT = 6, 4000, 0.010


class Slow(door.unittest.TestCase):
    def once(self, address):
        began = time.monotonic()
        wire = door.Wire.__new__(door.Wire)
        wire.socket, wire.buffer = socket.socket(), b""
        wire.socket.settimeout(door.PATIENCE)
        wire.socket.bind(("127.0.0.2", 0))
        wire.socket.connect(address)
        with wire:
            self.assertEqual(wire.ask(get()).status, 200)
            self.assertEqual(wire.ask(post("/tokenize", {"content": "Hello"})).status, 200)
        return time.monotonic() - began

    def p99(self, address, seconds):
        end, times = time.monotonic() + seconds, []
        while time.monotonic() < end:
            times.append(self.once(address))
            time.sleep(0.005)
        return sorted(times)[int(len(times) * 0.99)], len(times)

    def turned_away(self, server):
        """Connections over the limit so far: without them there was no attack."""
        text = server.ask(get("/metrics")).body.decode()
        return sum(float(n) for n in re.findall(r'mote_rejected_total{reason="connection"} (\S+)', text))

    def attack(self, server, name, flags):
        """One attempt on a quiet machine, three on a shared one, which has bad seconds of its own; how
        many of the attacker's connections were turned away."""
        for left in (0,) if door.is_quiet() else (2, 1, 0):
            calm, busy, away = self.attempt(server, name, flags)
            if busy < 2 * calm + A_MOMENT:
                break
            self.assertGreater(left, 0, f"{name}: {busy} beside {calm}")
        return away

    def attempt(self, server, name, flags):
        """p99 of the client without and with the attack, and whom the limit met."""
        url = "http://127.0.0.1:%d/tokenize" % server.address[1]
        calm, _ = self.p99(server.address, 2)
        before = self.turned_away(server)
        attack = subprocess.Popen(
            ["slowhttptest", "-c", str(CONNECTIONS), "-r", "2000", "-l", str(SECONDS + 2), "-p", "3",
             "-u", url, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        busy, n = self.p99(server.address, SECONDS)
        attack.terminate()
        attack.wait()
        time.sleep(0.5)
        away = self.turned_away(server) - before
        print(f"{name}: p99 {calm * 1000:.1f} ms, under attack {busy * 1000:.1f} ms, {n} requests, "
              f"none refused; {away:.0f} of the attacker's were")
        return calm, busy, away

    def test_modes(self):
        with door.Server("--log", "off") as server:
            for name, flags in MODES.items():
                away = self.attack(server, name, flags)
                if name != "ranges":  # that one asks first whether there are any, and gives up
                    self.assertGreater(away, 500, name)

    def test_without_the_limit_of_an_address(self):
        """All 4,000 are let in, and only deadlines end them."""
        flags = ("--limit", "connections=5000", "--limit", "connections-per-ip=5000", "--log", "off")
        with door.Server(*flags) as server:
            self.assertEqual(self.attack(server, "slow headers, all let in", MODES["slow headers"]), 0)
            self.assertEqual(self.attack(server, "slow read, all let in", MODES["slow read"]), 0)


if __name__ == "__main__":
    if shutil.which("slowhttptest") is None:
        print("there is no slowhttptest")
        sys.exit(door.SKIPPED)
    door.main()
