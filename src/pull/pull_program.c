/* SPDX-License-Identifier: Apache-2.0 */
/* pull_program.c - mote-pull as a program of its own; not in builds with MOTE_ONE_FILE. */
#include "pull/pull_main.h"

int main(int argc, char **argv)
{
    return pull_main(argc, argv);
}
