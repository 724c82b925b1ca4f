# SPDX-License-Identifier: Apache-2.0
"""python -m mote: the program."""
from ._program import main

main()
