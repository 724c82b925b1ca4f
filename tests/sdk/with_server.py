# SPDX-License-Identifier: Apache-2.0
"""with_server.py COMMAND... - starts a server and runs a command, which finds the server by its environment."""
import os
import subprocess
import sys
import tempfile

import rig

with tempfile.TemporaryDirectory(prefix="mote-files-") as work, rig.Server("--files", work + "/files") as server:
    env = {**os.environ, "MOTE_URL": server.url, "MOTE_KEY": rig.KEY, "MOTE_MODEL": server.model}
    code = subprocess.call(sys.argv[1:], env=env, timeout=850)
sys.exit(code)
