/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_facts.h - what a model's file says about itself, for those who list models.
 *
 * Reads the file's directory again, which takes milliseconds: off the loop.
 */
#ifndef MOTE_SERVER_DIALECTS_MODEL_FACTS_H
#define MOTE_SERVER_DIALECTS_MODEL_FACTS_H

#include "base/os.h"
#include "gguf/gguf.h"
#include "server/served.h"

typedef struct model_facts {
    mote_model_info info;
    char family[32];     /* "qwen35" */
    char format[16];     /* "Q4_K_M"; "unknown" if the file does not say */
    char parameters[16]; /* "4.2B" */
    char digest[72];     /* 64 hexadecimal digits: of its name, size and date, not its contents */
    char date[48];       /* of the file, as Ollama writes it */
    bool insert;         /* it knows the marks for filling gaps */
    os_map map;
    gguf *file; /* NULL: it cannot be read any more */
} model_facts;

/* Never fails: what cannot be known is empty or "unknown". */
void model_facts_read(model_facts *out, const served *m);
void model_facts_fini(model_facts *facts);

#endif
