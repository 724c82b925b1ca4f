# SPDX-License-Identifier: Apache-2.0
"""certificates.py - a certificate authority for one test run, made with the openssl program."""
import os
import subprocess
import threading

CONFIG = """
[ca]
default_ca = local
[local]
new_certs_dir = {directory}
database = {directory}/index.txt
serial = {directory}/serial
certificate = {directory}/ca.pem
private_key = {directory}/ca.key
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""
GOOD_NAMES = "DNS:localhost,IP:127.0.0.1"


def openssl(*words):
    done = subprocess.run(["openssl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(words)}: {done.stderr}")


class Authority:
    """The authority. `file` is its certificate, for SSL_CERT_FILE."""

    def __init__(self, directory):
        self.directory = directory
        self.lock = threading.Lock()  # openssl ca keeps its list of certificates in a file
        self.config = os.path.join(directory, "ca.cnf")
        self.file = os.path.join(directory, "ca.pem")
        for name, text in (("ca.cnf", CONFIG.format(directory=directory)), ("index.txt", ""), ("serial", "1000\n")):
            with open(os.path.join(directory, name), "w", encoding="ascii") as f:
                f.write(text)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                "-subj", "/CN=authority of a mote test", "-keyout", os.path.join(directory, "ca.key"), "-out", self.file)

    def _request(self, name, alt_names):
        key, request = (os.path.join(self.directory, name + end) for end in (".key", ".csr"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-addext", "subjectAltName=" + alt_names, "-keyout", key, "-out", request)
        return key, request

    def certificate(self, name, alt_names=GOOD_NAMES, begin="20200101000000Z", end="20991231235959Z"):
        """Returns the files (certificate, key)."""
        key, request = self._request(name, alt_names)
        out = os.path.join(self.directory, name + ".pem")
        with self.lock:
            openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", out,
                    "-startdate", begin, "-enddate", end)
        return out, key

    def self_signed(self, name, alt_names=GOOD_NAMES):
        """Returns the files (certificate, key) of a certificate that no authority signed."""
        key, out = (os.path.join(self.directory, name + end) for end in (".key", ".pem"))
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650",
                "-subj", f"/CN={name}", "-addext", "subjectAltName=" + alt_names, "-keyout", key, "-out", out)
        return out, key
