/* SPDX-License-Identifier: Apache-2.0 */
/* pull_main.h - the program mote-pull, as a function. */
#ifndef MOTE_PULL_MAIN_H
#define MOTE_PULL_MAIN_H

/* The name of the program: argv[0] with which its parent executes it. With MOTE_ONE_FILE this is
 * the program mote, which calls pull_main if it has this name. */
#define PULL_PROGRAM "mote-pull"

/* Returns the exit code. */
int pull_main(int argc, char **argv);

#endif
