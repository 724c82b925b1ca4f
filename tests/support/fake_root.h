/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_root.h - a temporary directory that stands for / or /sys in a test.
 *
 * fake_root_make and fake_root_remove are set-up and tear-down functions of cmocka.
 */
#ifndef MOTE_TESTS_SUPPORT_FAKE_ROOT_H
#define MOTE_TESTS_SUPPORT_FAKE_ROOT_H

extern char fake_root[64]; /* the path, while the directory exists */

int fake_root_make(void **state);
int fake_root_remove(void **state);
/* Writes a file and its parent directories below the directory. Aborts the program on failure. */
void fake_root_write(const char *path, const char *text);

#endif
