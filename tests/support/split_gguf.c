/* SPDX-License-Identifier: Apache-2.0 */
/* split_gguf.c - the program around gguf_split.h, for tests that are scripts.
 *
 *     split_gguf SOURCE.gguf STEM PARTS [--no-tensor-first-split]
 *     split_gguf --head SOURCE.gguf BODY.gguf HEAD.gguf
 */
#include "support/gguf_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const bool head = argc == 5 && strcmp(argv[1], "--head") == 0;
    if (head ? !test_gguf_split_head(argv[2], argv[3], argv[4])
             : argc < 4 || !test_gguf_split(argv[1], argv[2], (uint32_t)atoi(argv[3]), argc > 4)) {
        fprintf(stderr, "usage: split_gguf SOURCE.gguf STEM PARTS [--no-tensor-first-split]\n"
                        "       split_gguf --head SOURCE.gguf BODY.gguf HEAD.gguf\n");
        return 1;
    }
    return 0;
}
