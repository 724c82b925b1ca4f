# SPDX-License-Identifier: Apache-2.0
"""slowhttptest in its four modes with 4,000 connections, while another client is served normally.

The client uses a loopback address. The attacker uses another address of this machine, because the limit
of connections per address does not apply to loopback. The p99 latency of the client may double and grow by a fixed tolerance, because attacker, server and client share the machine.
The same client also measures a second server that is not attacked. This shows the noise of the machine.
"""
import re
import shutil
import subprocess
import sys
import time

import http_rig
from http_rig import get, post

MODES = {
    "slow headers": ("-H", "-i", "1"),
    "slow body": ("-B", "-i", "1", "-s", "8192", "-t", "POST"),
    "ranges": ("-R", "-a", "10", "-b", "300", "-t", "GET"),
    "slow read": ("-X", "-w", "1", "-y", "8", "-n", "1", "-z", "8", "-k", "3"),
}
SECONDS, CONNECTIONS, A_MOMENT = 4, 4000, 0.010


class Slow(http_rig.unittest.TestCase):
    def once(self, address):
        began = time.monotonic()
        with http_rig.Wire(address) as wire:
            self.assertEqual(wire.ask(get()).status, 200)
            self.assertEqual(wire.ask(post("/tokenize", {"content": "Hello"})).status, 200)
        return time.monotonic() - began

    def p99(self, seconds, *addresses):
        """p99 of each server, and the number of requests."""
        end, times = time.monotonic() + seconds, [[] for _ in addresses]
        while time.monotonic() < end:
            for of, address in zip(times, addresses):
                of.append(self.once(address))
            time.sleep(0.005)
        return [sorted(of)[int(len(of) * 0.99)] for of in times], len(times[0])

    def seen(self, server):
        """Refused connections so far, and open ones."""
        with server.wire() as wire:
            text = wire.ask(get("/metrics", server.local_key())).body.decode()
        return (sum(float(n) for n in re.findall(r'mote_requests_rejected_total{reason="connection_limit"} (\S+)', text)),
                float(re.search(r"^mote_http_connections (\S+)$", text, re.MULTILINE).group(1)))

    def attack(self, server, calm_server, name, flags):
        """One attempt on a quiet machine, three on a busy one, where the attack itself may be too slow. Returns
        the number of refused connections of the attacker."""
        for left in (2, 1, 0):
            calm, busy, away, came = self.attempt(server, calm_server, name, flags)
            # the range mode first checks for range support, and gives up
            came = came > 500 or name == "ranges"
            if came and busy < 2 * calm + A_MOMENT:
                return away
            self.assertGreater(0 if came and http_rig.is_quiet() else left, 0, f"{name}: {busy} beside {calm}")

    def attempt(self, server, calm_server, name, flags):
        """p99 of the client without and with the attack; refused connections, and all connections."""
        host, port = server.addresses[-1]
        url = "http://" + f"{host}:{port}/tokenize"
        (calm,), _ = self.p99(2, server.address)
        before, _ = self.seen(server)
        attack = subprocess.Popen(
            ["slowhttptest", "-c", str(CONNECTIONS), "-r", "2000", "-l", str(SECONDS + 2), "-p", "3",
             "-u", url, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        (busy, other), n = self.p99(SECONDS, server.address, calm_server.address)
        away, there = self.seen(server)
        away -= before
        attack.terminate()
        attack.wait()
        print(f"{name}: p99 {calm * 1000:.1f} ms, under attack {busy * 1000:.1f} ms, beside it "
              f"{other * 1000:.1f} ms, {n} requests, none refused; {away:.0f} of the attacker's were, "
              f"{there:.0f} are there")
        return max(calm, other), busy, away, away + there

    def test_modes(self):
        own = http_rig.own_address()
        if own is None:
            self.skipTest("this machine has loopback addresses only")
        flags = ("--log", "off", "--allow-host", own, "--i-know-this-is-unauthenticated")
        with http_rig.Server(*flags, listen=("127.0.0.1:0", f"{own}:0")) as server, \
                http_rig.Server("--log", "off") as calm_server:
            for name, flags in MODES.items():
                away = self.attack(server, calm_server, name, flags)
                if name != "ranges":
                    self.assertGreater(away, 0, name)

    def test_without_limit_per_address(self):
        """All 4,000 connections are accepted, and only deadlines close them."""
        flags = ("--limit", "connections=5000", "--limit", "connections-per-ip=5000", "--log", "off")
        with http_rig.Server(*flags) as server, http_rig.Server(*flags) as calm_server:
            for name in ("slow headers", "slow read"):
                away = self.attack(server, calm_server, name + ", all let in", MODES[name])
                self.assertEqual(away, 0)


if __name__ == "__main__":
    if shutil.which("slowhttptest") is None:
        print("there is no slowhttptest")
        sys.exit(http_rig.SKIPPED)
    http_rig.main()
