/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_selftest.c - `mote selftest`: does this machine compute the defined results? */
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/machine/selftest.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>

typedef struct selftest_options {
    uint64_t tokens;
} selftest_options;

static const cli_flag flags[] = {
    {.name = "tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 4096,
     .initial = "8",
     .once = true,
     .at = offsetof(selftest_options, tokens),
     .help = "with a model: length of the prompt"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

typedef struct selftest_state {
    const cli_call *call;
    const char *path; /* of the model; NULL: built-in models */
    selftest_level levels[SELFTEST_LEVELS];
    size_t n;
    double seconds;
} selftest_state;

static bool selftest_show_progress(void *ctx, mote_isa level, const char *what)
{
    char line[128];
    (void)ctx;
    snprintf(line, sizeof line, "selftest  %s  %s", mote_isa_name(level), what);
    if (term_progress())
        progress_show(line);
    return !interrupt_pending();
}

/* Built-in models: the lowest level first. A file: the fastest first, because its result must
 * exist before the slow reference kernels start. */
static mote_status selftest_run_levels(selftest_state *s, mote_error *err)
{
    const selftest test = {.progress = selftest_show_progress};
    const selftest_options *o = s->call->options;
    mote_isa levels[SELFTEST_LEVELS];
    const size_t n = selftest_find_levels(levels);
    selftest_result first;
    const double start = os_now();
    mote_status status = MOTE_OK;
    for (size_t i = 0; status == MOTE_OK && i < n; i++) {
        selftest_level *out = &s->levels[i];
        status = s->path == NULL ? selftest_run_level(&test, levels[i], out, err)
                                 : selftest_run_file(&test, s->path, levels[n - 1 - i],
                                                     (size_t)o->tokens, &first, i == 0, out, err);
        s->n += status == MOTE_OK;
    }
    progress_clear();
    s->seconds = os_now() - start;
    return status;
}

/* ---- output ---- */

static uint32_t selftest_count_runs(const selftest_state *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < SELFTEST_N_CHECKS; k++)
            n += s->levels[i].runs[k];
    return n;
}

/* The name of the first check for a file, which has no stored logits. */
static const char *selftest_name(const selftest_state *s, size_t check)
{
    return check == SELFTEST_STORED && s->path != NULL ? "same logits"
                                                       : selftest_check_name((selftest_check)check);
}

static const char *selftest_verdict(const selftest_level *level, size_t check)
{
    return level->failed[check] > 0 ? "DIFFERENT" : level->runs[check] > 0 ? "ok" : "-";
}

static void selftest_print(const selftest_state *s)
{
    cli_out *o = s->call->out;
    char a[TEXT_NUMBER_BYTES];
    out_printf(o, "%-8s", "LEVEL");
    for (size_t k = 0; k < SELFTEST_N_CHECKS; k++)
        out_printf(o, "%-17s", selftest_name(s, k));
    out_text(o, "TIME\n");
    for (size_t i = 0; i < s->n; i++) {
        const selftest_level *level = &s->levels[i];
        out_printf(o, "%-8s", mote_isa_name(level->level));
        for (size_t k = 0; k < SELFTEST_N_CHECKS; k++)
            out_printf(o, "%-17s", selftest_verdict(level, k));
        out_printf(o, "%s\n", text_seconds(a, level->seconds));
    }
}

static int selftest_print_json(const selftest_state *s, bool ok)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_bool(&j, "ok", ok);
    jw_key_text(&j, "model", s->path);
    jw_key_uint(&j, "numerics", MOTE_NUMERICS);
    jw_key_uint(&j, "runs", selftest_count_runs(s));
    jw_key_double(&j, "seconds", s->seconds);
    jw_key(&j, "levels");
    jw_open(&j, '[');
    for (size_t i = 0; i < s->n; i++) {
        const selftest_level *level = &s->levels[i];
        jw_open(&j, '{');
        jw_key_text(&j, "level", mote_isa_name(level->level));
        jw_key_bool(&j, "ok", selftest_passed(level));
        jw_key_double(&j, "seconds", level->seconds);
        jw_key(&j, "checks");
        jw_open(&j, '[');
        for (size_t k = 0; k < SELFTEST_N_CHECKS; k++) {
            jw_open(&j, '{');
            jw_key_text(&j, "check", selftest_name(s, k));
            jw_key_uint(&j, "runs", level->runs[k]);
            jw_key_uint(&j, "failed", level->failed[k]);
            jw_key_text(&j, "kernels", level->kernels[k]);
            jw_key_text(&j, "difference", level->failed[k] > 0 ? level->message[k] : NULL);
            jw_close(&j, '}');
        }
        jw_close(&j, ']');
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(s->call->out, &j);
}

/* The fastest level without a difference; NULL: none. */
static const char *selftest_good_level(const selftest_state *s)
{
    for (size_t i = s->n; i > 0; i--)
        if (selftest_passed(&s->levels[i - 1]))
            return mote_isa_name(s->levels[i - 1].level);
    return NULL;
}

/* Reports the first difference of every level. */
static int selftest_fail(const selftest_state *s)
{
    const char *good = selftest_good_level(s);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < SELFTEST_N_CHECKS; k++) {
            const selftest_level *level = &s->levels[i];
            if (level->failed[k] > 0) {
                msg_fail(CLI_DAMAGED, "wrong_result", "level %s, %s: wrong result in %s (%s)",
                         mote_isa_name(level->level), selftest_name(s, k), level->kernels[k],
                         level->message[k]);
                break;
            }
        }
    if (good != NULL)
        return msg_fail(CLI_DAMAGED, "selftest_failed",
                        "this machine computes wrong results; set MOTE_ISA=%s, the fastest level "
                        "that passed, and report it with the file of mote doctor --report FILE",
                        good);
    return msg_fail(CLI_DAMAGED, "selftest_failed",
                    "this machine computes wrong results on every level; check its memory "
                    "(memtest86+), then report it with the file of mote doctor --report FILE");
}

static int selftest_run(const cli_call *call)
{
    selftest_state s = {.call = call};
    mote_error err;
    found_model found;
    if (call->n_words > 0) {
        const int code = find_model(&found, call->words[0]);
        if (code != CLI_DONE)
            return code;
        s.path = found.path;
    }
    const mote_status status = selftest_run_levels(&s, &err);
    if (status == MOTE_E_CANCELED && interrupt_pending())
        return interrupt_exit_code();
    if (status != MOTE_OK)
        return s.path != NULL ? load_failed(s.path, &err) : msg_error(&err);
    bool ok = true;
    for (size_t i = 0; i < s.n; i++)
        ok = ok && selftest_passed(&s.levels[i]);
    if (call->common.json) {
        const int code = selftest_print_json(&s, ok);
        return code != CLI_DONE ? code : ok ? CLI_DONE : CLI_DAMAGED;
    }
    selftest_print(&s);
    return ok ? CLI_DONE : selftest_fail(&s);
}

const cli_command cmd_selftest = {
    .name = "selftest",
    .section = "Understand",
    .summary = "check the results of this machine",
    .usage = "[MODEL]",
    .arguments = "MODEL",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(selftest_options),
    .about =
        "Runs small built-in models on every instruction-set level of this CPU and compares their "
        "logits with stored ones, bit for bit: all weight formats, all KV cache formats, threads, "
        "split prompts, forked and rewound sessions. Takes a few seconds.\n"
        "With MODEL it checks that all levels, threads and splits give the same logits for that "
        "model. The reference kernels need about a minute for a large model. " FIND_MODEL_HELP "\n"
        "Exit code 6: a result is wrong. The message names the level and the kernels.",
    .examples = "mote selftest\nmote selftest qwen3.5:4b",
    .run = selftest_run,
};
