/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_flags.h - the flags of `mote serve`, and what they set in the options of the server.
 */
#ifndef MOTE_CLI_SERVE_SERVE_FLAGS_H
#define MOTE_CLI_SERVE_SERVE_FLAGS_H

#include "cli/args/command.h"
#include "cli/load/load.h"
#include "server/server.h"

/* Flags that mote batch has too. */
#define KV_TOKENS_FLAG                                                                             \
    .name = "kv-tokens", .kind = FLAG_COUNT, .value = "N", .min = 256, .max = 1ull << 32,          \
    .shown = "32768, less if it does not fit into memory, or what fits into --memory"
#define REQUEST_PRESET_FLAG                                                                        \
    .name = "preset", .kind = FLAG_CHOICE, .value = "auto|general|coding|reasoning|vision",        \
    .initial = "auto",                                                                             \
    .help =                                                                                        \
        "sampling recommended by the model's authors for this task, unless the request sets it"
/* Without `at`: adapters that requests select. */
#define SERVED_LORA_FLAG                                                                           \
    .name = "lora", .kind = FLAG_LIST, .value = "[NAME:]FILE[=SCALE]",                             \
    .help = "LoRA adapter that requests select, as model MODEL:NAME or in mote.lora: a GGUF file " \
            "or a directory of PEFT; NAME is that of the file if it is not given; repeatable"

typedef struct serve_options {
    flag_list listen;
    const char *key_file;
    bool new_key;
    bool unauthenticated;
    uint64_t sandbox;
    bool allow_pull;
    const char *files;
    flag_list hosts;
    flag_list origins;
    bool no_web;
    const char *name;
    uint64_t parallel;
    uint64_t queue;
    uint64_t kv_tokens;
    uint64_t cache_disk;
    const char *cache_key;
    const char *spec;
    double drain;
    double drain_delay;
    const char *keep_alive;
    uint64_t log;
    bool no_ext;
    const char *think;
    uint64_t preset;
    const char *system;
    bool no_soft_switch;
    bool keep_billing_header;
    template_options template;
    flag_list loras;
    flag_list limits;
    const char *mmproj;
    uint64_t image_tokens;
    load_options load;
} serve_options;

enum { SERVE_N_FLAG_GROUPS = 8 };
extern const flag_group serve_flag_groups[SERVE_N_FLAG_GROUPS];

/* Sets what needs neither a file nor the environment: not models, keys, system prompt, thinking and
 * keep-alive. The strings belong to `f`. */
void serve_flags_apply(server_options *o, const serve_options *f);

#endif
