/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - a program outside the tree that uses the installed library. */
#include <mote.h>

#include <stdio.h>

/* Names that mote uses inside. If the static library showed its own, this would not link. */
int pool_new(void);
int pool_new(void)
{
    return 1;
}

int mem_new(void);
int mem_new(void)
{
    return 2;
}

int main(void)
{
    mote_model *model = NULL;
    mote_error err;
    if (mote_model_open(&model, "no-such-file.gguf", NULL, &err) == MOTE_OK || model != NULL)
        return 1;
    printf("mote %s: %s\n", MOTE_VERSION, mote_status_name(err.status));
    return pool_new() + mem_new() == 3 ? 0 : 1;
}
