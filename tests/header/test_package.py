# SPDX-License-Identifier: Apache-2.0
"""Installs mote, moves it elsewhere and builds an external program with it.

Both descriptions, pkg-config and CMake, and both libraries, shared and static. The
program in consumer/ has functions with names that mote uses internally.

Arguments: cmake, the build directory, the C compiler, the project's version.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
CMAKE, BUILD, CC, VERSION = sys.argv[1:5]


def run(*command, env=None):
    """Output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="mote-package-")
        cls.root = Path(cls.directory.name)
        run(CMAKE, "--install", BUILD, "--prefix", cls.root / "first")
        cls.prefix = cls.root / "somewhere else"
        (cls.root / "first").rename(cls.prefix)
        cls.lib = next(cls.prefix.rglob("libmote.a")).parent
        cls.pc = {"PKG_CONFIG_PATH": str(cls.lib / "pkgconfig")}
        cls.find_shared = {"LD_LIBRARY_PATH": str(cls.lib)}

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def expect_it_runs(self, program, shared):
        out = run(program, env=self.find_shared)
        self.assertEqual(f"mote {VERSION}: io_error\n", out)
        linked = "libmote.so.0" in run("readelf", "-d", program)
        self.assertEqual(shared, linked)

    def test_what_is_installed(self):
        for name in ("libmote.so", "libmote.so.0", f"libmote.so.{VERSION}", "libmote.a",
                     "pkgconfig/mote.pc", "cmake/mote/mote-config.cmake"):
            self.assertTrue((self.lib / name).exists(), name)
        self.assertEqual(["mote.h", "mote_chat.h"], sorted(p.name for p in (self.prefix / "include").iterdir()))
        if (Path(BUILD) / "mote").exists():
            self.assertIn(VERSION, run(self.prefix / "bin/mote", "version"))
            unit = (self.prefix / "lib/systemd/system/mote.service").read_text(encoding="utf-8")
            self.assertIn(f"\nExecStart={self.root}/first/bin/mote serve ", unit)
            self.assertTrue((self.prefix / "lib/systemd/system/mote.socket").exists())
            self.assertTrue((self.prefix / "lib/sysusers.d/mote.conf").exists())
            settings = (self.prefix / "lib/tmpfiles.d/mote.conf").read_text(encoding="utf-8").split()[-1]
            self.assertEqual(f"{self.root}/first/share/mote/service.conf", settings)
            self.assertTrue((self.prefix / "share/mote/service.conf").exists())

    def compile(self, name, *flags):
        # Quoted paths come back with the quotes a shell would take off.
        words = run("pkg-config", "--cflags", "--libs", *flags, "mote", env=self.pc)
        program = self.root / name
        extra = "-static" if flags else ""
        run("sh", "-c", f"'{CC}' '{HERE}/consumer/main.c' {extra} -o '{program}' {words.strip()}")
        return program

    def test_pkg_config_shared(self):
        self.assertEqual(VERSION, run("pkg-config", "--modversion", "mote", env=self.pc).strip())
        self.expect_it_runs(self.compile("pc_shared"), shared=True)

    def test_pkg_config_static(self):
        self.expect_it_runs(self.compile("pc_static", "--static"), shared=False)

    def configure(self, build, wanted):
        run(CMAKE, "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_C_COMPILER={CC}", f"-DWANTED={wanted}")

    def test_cmake(self):
        build = self.root / "consumer"
        self.configure(build, VERSION)
        run(CMAKE, "--build", build)
        self.expect_it_runs(build / "with_shared", shared=True)
        self.expect_it_runs(build / "with_static", shared=False)

    def test_cmake_refuses_another_version(self):
        with self.assertRaisesRegex(AssertionError, "99.0"):
            self.configure(self.root / "refused", "99.0")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
