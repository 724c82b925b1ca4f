/* SPDX-License-Identifier: Apache-2.0 */
/* split_gguf.c - the program around gguf_split.h, for tests that are scripts.
 *
 *     split_gguf SOURCE.gguf STEM PARTS [--no-tensor-first-split]
 */
#include "support/gguf_split.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 4 || !test_gguf_split(argv[1], argv[2], (uint32_t)atoi(argv[3]), argc > 4)) {
        fprintf(stderr, "usage: split_gguf SOURCE.gguf STEM PARTS [--no-tensor-first-split]\n");
        return 1;
    }
    return 0;
}
