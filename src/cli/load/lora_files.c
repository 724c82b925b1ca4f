/* SPDX-License-Identifier: Apache-2.0 */
/* lora_files.c - --lora FILE[=SCALE]: adapters of the model of a command; see load.h. */
#include "cli/load/load.h"

#include "cli/term/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cli_flag lora_flags[] = {
    {.name = "lora",
     .kind = FLAG_LIST,
     .value = "FILE[=SCALE]",
     .once = true,
     .at = offsetof(lora_options, files),
     .help = "LoRA adapter: a GGUF file, or a directory of PEFT; SCALE multiplies its effect; "
             "repeatable"},
};
_Static_assert(sizeof lora_flags / sizeof *lora_flags == LORA_N_FLAGS, "LORA_N_FLAGS");

bool lora_flag_split(const char *given, char path[LORA_PATH_BYTES], float *scale)
{
    const char *equals = strrchr(given, '=');
    size_t n = strlen(given);
    *scale = 1;
    if (equals != NULL && equals[1] != '\0') {
        char *end;
        const double value = strtod(equals + 1, &end);
        if (*end == '\0') {
            if (!(value >= -100 && value <= 100) || (float)value == 0)
                return false;
            *scale = (float)value;
            n = (size_t)(equals - given);
        }
    }
    if (n == 0 || n >= LORA_PATH_BYTES)
        return false;
    memcpy(path, given, n);
    path[n] = '\0';
    return true;
}

int load_loras(loaded *l, const lora_options *options)
{
    const flag_list *files = &options->files;
    char path[LORA_PATH_BYTES];
    mote_error err;
    if (files->n > MOTE_MAX_LORAS)
        return msg_usage("--lora can be given %d times, got %zu", MOTE_MAX_LORAS, files->n);
    for (size_t i = 0; i < files->n; i++) {
        mote_lora_use *use = &l->loras[i];
        mote_lora *lora;
        if (!lora_flag_split(files->items[i], path, &use->scale))
            return msg_usage("--lora must be FILE or FILE=SCALE with a scale of -100 to 100 other "
                             "than 0, got %.300s",
                             files->items[i]);
        if (mote_lora_open(&lora, l->model, path, &err) != MOTE_OK)
            return load_failed(path, &err);
        use->lora = l->opened[i] = lora;
        l->n_loras = i + 1;
        mote_lora_info info;
        mote_lora_describe(lora, &info);
        msg_detail("adapter %s   rank %u   changes %u of the model's matrices   scale %g",
                   info.name, info.rank, info.matrices, (double)use->scale);
    }
    return CLI_DONE;
}

uint32_t load_lora_rank(const loaded *l)
{
    uint32_t rank = 0;
    for (size_t i = 0; i < l->n_loras; i++) {
        mote_lora_info info;
        mote_lora_describe(l->loras[i].lora, &info);
        rank += info.rank;
    }
    return rank;
}
