#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sbom.py - the software in a static binary, as SPDX 2.3 JSON.

usage: sbom.py BINARY PREFIX SOURCES VERSION COMMIT ZIG >sbom.json

A library is in BINARY, which is not stripped, if it defines a function that also an archive in
PREFIX/lib defines, and no other archive does. Versions and hashes are those of SOURCES
(sources.txt). A library of TABLE without a function in BINARY, or an archive that no entry of TABLE
names, is an error: then this list or the build is wrong.
"""
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

# Source package: archives, licence (SPDX), what it does. Headers that are compiled in have no archive.
TABLE = {
    "curl": (["libcurl.a"], "curl", "HTTPS client of mote pull"),
    "giflib": (["libgif.a"], "MIT", "GIF files"),
    "libedit": (["libedit.a"], "BSD-3-Clause", "line editing in the chat"),
    "libjpeg-turbo": (["libjpeg.a"], "IJG AND BSD-3-Clause AND Zlib", "JPEG files"),
    "libpng1.6": (["libpng.a", "libpng16.a"], "libpng-2.0", "PNG files"),
    "libseccomp": (["libseccomp.a"], "LGPL-2.1-only", "system call filters of the sandboxes"),
    "libuv1": (["libuv_a.a"], "MIT", "event loop of the server"),
    "libwebp": (["libwebp.a", "libwebpdemux.a", "libwebpdecoder.a", "libwebpmux.a"], "BSD-3-Clause",
                "WebP files"),
    "ncurses": (["libtinfo.a"], "X11-distribute-modifications-variant", "terminal descriptions"),
    "openssl": (["libcrypto.a", "libssl.a"], "Apache-2.0", "TLS and hashes"),
    "utf8proc": (["libutf8proc.a"], "MIT AND Unicode-DFS-2015", "Unicode normalisation"),
    "xxhash": ([], "BSD-2-Clause", "checksums and hash keys"),
    "zlib": (["libz.a"], "Zlib", "compression of PNG files"),
}


def functions(path):
    """Names of global functions that a file defines."""
    run = subprocess.run(["nm", "--defined-only", "--no-sort", str(path)], capture_output=True, text=True,
                         check=False)
    return set(re.findall(r"^[0-9a-f]+ [TtWi] (\S+)$", run.stdout, re.MULTILINE))


def global_functions(path):
    run = subprocess.run(["nm", "--defined-only", "--extern-only", "--no-sort", str(path)],
                         capture_output=True, text=True, check=False)
    return set(re.findall(r"^[0-9a-f]+ [TWi] (\S+)$", run.stdout, re.MULTILINE))


def linked(binary, archives):
    """{archive: number of functions of it that are in the binary and in no other archive}"""
    inside = functions(binary)
    if not inside:
        sys.exit(f"{binary}: no symbols; give the binary that is not stripped")
    owners = {}
    for archive in archives:
        for name in global_functions(archive):
            owners.setdefault(name, set()).add(package_of(archive.name))
    found = {}
    for name, packages in owners.items():
        if len(packages) == 1 and name in inside:
            package = next(iter(packages))
            found[package] = found.get(package, 0) + 1
    return found


def package_of(archive):
    for package, (archives, _, _) in TABLE.items():
        if archive in archives:
            return package
    return sys.exit(f"{archive} is in no entry of TABLE in sbom.py")


def pins(sources):
    """{package: (version, [(file, hash)])}"""
    found = {}
    for line in sources.read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("#"):
            continue
        digest, path = line.split()
        name = path.rsplit("/", 1)[1]
        package, rest = name.split("_", 1)
        version, files = found.get(package, ("", []))
        if name.endswith(".dsc"):
            version = rest[:-len(".dsc")]
        elif not version:
            version = rest.split(".orig.")[0] if ".orig." in rest else ""
        found[package] = (version, files + [(name, digest)])
    return found


def entry(name, version, licence, comment, location, checksums=()):
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": location,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "comment": comment,
        **({"externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch=source"}]}
           if checksums else {}),
        **({"checksums": [{"algorithm": "SHA256", "checksumValue": digest}
                                             for _, digest in checksums]} if checksums else {}),
    }


# Libraries in the tree of mote: directory, licence, what it is.
IN_TREE = (
    ("dompurify", "Apache-2.0 OR MPL-2.0", "sanitizer of the chat page"),
    ("highlightjs", "BSD-3-Clause", "highlighting of the chat page"),
    ("llhttp", "MIT", "HTTP/1.1 parser"),
    ("markdown-it", "MIT", "Markdown of the chat page"),
)


def version_in_tree(sources, name):
    text = (sources.parents[2] / "third_party" / name / "VERSION").read_text(encoding="utf-8")
    return text.split()[1].rstrip(",")


def packages_of(binary, prefix, sources, version, commit, zig):
    archives = sorted(path for path in (prefix / "lib").glob("*.a") if not path.is_symlink())
    found, pinned = linked(binary, archives), pins(sources)
    yield entry("mote", version, "Apache-2.0", f"commit {commit}", "NOASSERTION")
    for package, (names, licence, comment) in sorted(TABLE.items()):
        if names and package not in found:
            sys.exit(f"{package}: none of its functions is in {binary}")
        if package not in pinned:
            sys.exit(f"{package}: not in {sources}")
        source = [pin for pin in pinned[package][1] if ".orig." in pin[0]]
        yield entry(package, pinned[package][0], licence,
                    f"{comment}; {found.get(package, 0)} functions linked" if names else comment,
                    "NOASSERTION", source)
    for name, licence, what in IN_TREE:
        yield entry(name, version_in_tree(sources, name), licence, f"{what}, in the tree of mote", "NOASSERTION")
    yield entry("musl", f"of ziglang {zig}", "MIT", "C library", "NOASSERTION")
    yield entry("compiler-rt", f"of ziglang {zig}", "Apache-2.0 WITH LLVM-exception OR MIT",
                "functions that the compiler calls", "NOASSERTION")


def main():
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    binary, prefix, sources, (version, commit, zig) = Path(sys.argv[1]), Path(sys.argv[2]), Path(
        sys.argv[3]).resolve(), sys.argv[4:]
    packages = list(packages_of(binary, prefix, sources, version, commit, zig))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    root = packages[0]["SPDXID"]
    print(json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"mote-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/mote-{version}-{commit}",
        "creationInfo": {"created": created, "creators": ["Tool: packaging/static/sbom.py"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": root},
            *({"spdxElementId": root, "relationshipType": "STATIC_LINK", "relatedSpdxElement": p["SPDXID"]}
              for p in packages[1:])],
    }, indent=2))


if __name__ == "__main__":
    main()
