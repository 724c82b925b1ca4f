/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_details.h - what a model's file says about itself, for those who list models.
 *
 * Reads the file's directory again, which takes milliseconds: off the loop.
 */
#ifndef MOTE_SERVER_MODELS_MODEL_DETAILS_H
#define MOTE_SERVER_MODELS_MODEL_DETAILS_H

#include "base/os.h"
#include "gguf/gguf.h"
#include "server/models/served_model.h"

typedef struct model_details {
    mote_model_info info;
    char family[32];     /* "qwen35" */
    char format[16];     /* "Q4_K_M"; "unknown" if the file does not say */
    char parameters[16]; /* "4.2B" */
    char digest[72];     /* 64 hexadecimal digits: of its name, size and date, not its contents */
    char date[48];       /* of the file, as Ollama writes it */
    bool insert;         /* it knows the marks for filling gaps */
    os_map map;
    gguf *file; /* NULL: it cannot be read any more */
} model_details;

/* Never fails: what cannot be known is empty or "unknown". */
void model_details_read(model_details *out, const served_model *m);
void model_details_fini(model_details *facts);

#endif
