/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_compare.c - `mote compare`: how far the predictions of one model are from those of another,
 * or of the same one with another KV cache.
 *
 * Both run in the same steps and their logits are compared at once, so nothing is written to disk
 * and memory grows by 25 bytes per prediction only.
 */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/evaluate/logit_stats.h"
#include "cli/evaluate/text_windows.h"
#include "cli/load/find_model.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <math.h>
#include <string.h>

typedef struct compare_options {
    uint64_t kv[2];
    bool kv_given[2];
    double max_kl;
    bool max_kl_given;
    window_options windows;
} compare_options;

#define AT(member) offsetof(compare_options, member)

static const cli_flag flags[] = {
    {.name = "kv-a",
     .kind = FLAG_CHOICE,
     .value = LOAD_KV_CHOICES,
     .shown = "--kv",
     .once = true,
     .at = AT(kv[0]),
     .given = AT(kv_given[0]),
     .help = "KV cache type of A"},
    {.name = "kv-b",
     .kind = FLAG_CHOICE,
     .value = LOAD_KV_CHOICES,
     .shown = "--kv",
     .once = true,
     .at = AT(kv[1]),
     .given = AT(kv_given[1]),
     .help = "KV cache type of B"},
    {.name = "max-kl",
     .kind = FLAG_NUMBER,
     .value = "X",
     .min = 0,
     .max = 1000,
     .shown = "none",
     .once = true,
     .at = AT(max_kl),
     .given = AT(max_kl_given),
     .help = "exit with code 10 if the mean divergence is larger"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Comparison", flags, 0),
    WINDOW_FLAG_GROUP(offsetof(compare_options, windows)),
    WINDOW_LOAD_FLAG_GROUP(offsetof(compare_options, windows.load)),
};

typedef struct compare_state {
    const cli_call *call;
    const compare_options *options;
    found_model found[2];
    mote_kv kv[2];
    loaded on[2];
    text_windows windows;
    uint32_t vocabulary;
    size_t n;       /* predictions */
    double *nll[2]; /* [n] each */
    double *kl;     /* [n], sorted after compare_summarise */
    uint8_t *same;  /* [n]: the most likely token is the same */
} compare_state;

typedef struct compare_result {
    stat_mean nll[2], difference; /* nll of B - nll of A, token by token */
    stat_mean kl, median, p999, same;
    double most;
} compare_result;

/* ---- two models ---- */

/* Rows of logits compare only if every id is the same token in both. */
static int compare_check_tokens(compare_state *c)
{
    mote_model_info a, b;
    mote_model_describe(c->on[0].model, &a);
    mote_model_describe(c->on[1].model, &b);
    if (a.vocabulary != b.vocabulary || a.tokens != b.tokens)
        return msg_fail(CLI_FAILED, mote_status_name(MOTE_E_MISMATCH),
                        "%s has %u tokens and %s %u; only models with the same tokenizer compare",
                        c->found[0].name, a.tokens, c->found[1].name, b.tokens);
    for (mote_token id = 0; id < (mote_token)a.tokens; id++) {
        size_t n, m;
        const char *p = mote_token_bytes(c->on[0].model, id, &n);
        const char *q = mote_token_bytes(c->on[1].model, id, &m);
        if (n != m || (n > 0 && memcmp(p, q, n) != 0))
            return msg_fail(CLI_FAILED, mote_status_name(MOTE_E_MISMATCH),
                            "token %d of %s and of %s differ; only models with the same tokenizer "
                            "compare",
                            (int)id, c->found[0].name, c->found[1].name);
    }
    c->vocabulary = a.vocabulary;
    return CLI_DONE;
}

static int compare_open(compare_state *c)
{
    const window_options *w = &c->options->windows;
    int code = CLI_DONE;
    for (size_t i = 0; i < 2 && code == CLI_DONE; i++) {
        c->kv[i] = (mote_kv)(c->options->kv_given[i] ? c->options->kv[i] : w->load.kv);
        code = find_model(&c->found[i], c->call->words[i]);
        if (code == CLI_DONE)
            code = load_model(&c->on[i], &c->found[i], NULL, (mote_isa)w->load.isa);
    }
    if (code == CLI_DONE)
        code = compare_check_tokens(c);
    if (code == CLI_DONE)
        code = windows_read(&c->windows, c->on[0].model, c->call->words[2], w);
    for (size_t i = 0; i < 2 && code == CLI_DONE; i++)
        code = windows_engine(&c->on[i], w, c->kv[i], &c->windows);
    return code;
}

static void compare_take_row(void *ctx, size_t index, const float *const *rows, mote_token token)
{
    compare_state *c = ctx;
    double z[2];
    for (size_t i = 0; i < 2; i++) {
        z[i] = logit_log_sum(rows[i], c->vocabulary);
        c->nll[i][index] = z[i] - (double)rows[i][token];
    }
    c->kl[index] = logit_divergence(rows[0], z[0], rows[1], z[1], c->vocabulary);
    c->same[index] = logit_top(rows[0], c->vocabulary) == logit_top(rows[1], c->vocabulary);
}

static int compare_compute(compare_state *c)
{
    c->n = windows_scored(&c->windows);
    for (size_t i = 0; i < 2; i++)
        c->nll[i] = mem_new(c->n, sizeof *c->nll[i]);
    c->kl = mem_new(c->n, sizeof *c->kl);
    c->same = mem_new(c->n, sizeof *c->same);
    if (c->nll[0] == NULL || c->nll[1] == NULL || c->kl == NULL || c->same == NULL)
        return msg_no_memory("the results");
    return windows_run(&c->windows, c->on, 2, compare_take_row, c);
}

/* ---- the result ---- */

static void compare_summarise(compare_state *c, compare_result *r)
{
    size_t same = 0;
    for (size_t i = 0; i < c->n; i++)
        same += c->same[i];
    r->same = stat_share_of(same, c->n);
    for (size_t i = 0; i < 2; i++)
        r->nll[i] = stat_mean_of(c->nll[i], c->n);
    for (size_t i = 0; i < c->n; i++)
        c->nll[1][i] -= c->nll[0][i];
    r->difference = stat_mean_of(c->nll[1], c->n);
    r->kl = stat_mean_of(c->kl, c->n); /* in the order of the text: before it is sorted */
    stat_sort(c->kl, c->n);
    r->median = stat_quantile(c->kl, c->n, 0.5);
    r->p999 = stat_quantile(c->kl, c->n, 0.999);
    r->most = c->kl[c->n - 1];
}

static void compare_put_model(const compare_state *c, size_t i, stat_mean nll, strbuf *j)
{
    jw_open(j, '{');
    jw_key_text(j, "model", c->found[i].name);
    jw_key_text(j, "kv", load_kv_name(c->kv[i]));
    jw_key_double(j, "nll", nll.mean);
    jw_key_double(j, "nll_error", nll.error);
    jw_key_double(j, "perplexity", exp(nll.mean));
    jw_key_double(j, "perplexity_error", exp(nll.mean) * nll.error);
    jw_close(j, '}');
}

static int compare_print_json(const compare_state *c, const compare_result *r)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key(&j, "a");
    compare_put_model(c, 0, r->nll[0], &j);
    jw_key(&j, "b");
    compare_put_model(c, 1, r->nll[1], &j);
    jw_key_text(&j, "text", c->call->words[2]);
    jw_key_uint(&j, "tokens", c->windows.ids.n);
    jw_key_uint(&j, "context", c->windows.size);
    jw_key_uint(&j, "windows", c->windows.n);
    jw_key_uint(&j, "scored", c->n);
    jw_key_double(&j, "perplexity_ratio", exp(r->difference.mean));
    jw_key_double(&j, "perplexity_ratio_error", exp(r->difference.mean) * r->difference.error);
    jw_key_double(&j, "kl_mean", r->kl.mean);
    jw_key_double(&j, "kl_mean_error", r->kl.error);
    jw_key_double(&j, "kl_median", r->median.mean);
    jw_key_double(&j, "kl_median_error", r->median.error);
    jw_key_double(&j, "kl_p999", r->p999.mean);
    jw_key_double(&j, "kl_p999_error", r->p999.error);
    jw_key_double(&j, "kl_max", r->most);
    jw_key_double(&j, "same_top", r->same.mean);
    jw_key_double(&j, "same_top_error", r->same.error);
    jw_close(&j, '}');
    return out_json(c->call->out, &j);
}

static int compare_print(const compare_state *c, const compare_result *r)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], d[TEXT_NUMBER_BYTES];
    if (c->call->common.json)
        return compare_print_json(c, r);
    cli_out *o = c->call->out;
    const char *plus = term_utf8() ? "\xc2\xb1" : "+/-";
    const double ratio = exp(r->difference.mean);
    out_printf(o, "text           %s in %s of %s, %s scored\n",
               text_counted(a, c->windows.ids.n, "token"), text_counted(b, c->windows.n, "window"),
               text_count(d, c->windows.size), text_count((char[TEXT_NUMBER_BYTES]){0}, c->n));
    for (size_t i = 0; i < 2; i++)
        out_printf(o, "perplexity %c   %.4f %s %.4f   %s, kv %s\n", i == 0 ? 'A' : 'B',
                   exp(r->nll[i].mean), plus, exp(r->nll[i].mean) * r->nll[i].error,
                   c->found[i].name, load_kv_name(c->kv[i]));
    out_printf(o, "ratio B / A    %.5f %s %.5f\n", ratio, plus, ratio * r->difference.error);
    out_printf(o, "KL(A || B)     mean %.3e %s %.1e\n", r->kl.mean, plus, r->kl.error);
    out_printf(o, "               median %.3e %s %.1e\n", r->median.mean, plus, r->median.error);
    out_printf(o, "               99.9 %% %.3e %s %.1e   largest %.3e\n", r->p999.mean, plus,
               r->p999.error, r->most);
    out_printf(o, "same top token %.2f %% %s %.2f %%\n", 100 * r->same.mean, plus,
               100 * r->same.error);
    return CLI_DONE;
}

static int compare_finish(compare_state *c)
{
    compare_result r;
    compare_summarise(c, &r);
    if (!isfinite(r.kl.mean) || !isfinite(r.difference.mean))
        return msg_fail(CLI_DAMAGED, mote_status_name(MOTE_E_FORMAT),
                        "a logit is not a number, so the weights of %s or %s are damaged; run mote "
                        "perplexity with each to find the damaged file",
                        c->found[0].name, c->found[1].name);
    const int code = compare_print(c, &r);
    if (code == CLI_DONE && c->options->max_kl_given && !(r.kl.mean <= c->options->max_kl))
        return msg_fail(CLI_NOT_VALID, "above_limit",
                        "the mean divergence is %.3e, more than --max-kl %g", r.kl.mean,
                        c->options->max_kl);
    return code;
}

static int compare_run(const cli_call *call)
{
    compare_state c = {.call = call, .options = call->options};
    int code = compare_open(&c);
    if (code == CLI_DONE)
        code = compare_compute(&c);
    if (code == CLI_DONE)
        code = compare_finish(&c);
    for (size_t i = 0; i < 2; i++) {
        mem_free(c.nll[i]);
        load_close(&c.on[i]);
    }
    mem_free(c.kl);
    mem_free(c.same);
    windows_free(&c.windows);
    return code;
}

const cli_command cmd_compare = {
    .name = "compare",
    .section = "Evaluate",
    .summary = "difference between the predictions of two models",
    .usage = "A B FILE",
    .arguments = "MODEL MODEL FILE",
    .min_words = 3,
    .max_words = 3,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(compare_options),
    .about = "Predicts a text with two models that have the same tokenizer, such as a BF16 file "
             "and a quantised one, and compares the distributions token by token. Prints the "
             "divergence KL(A || B) in nats (mean, median, 99.9 %), how often the most likely "
             "token is the same, and both perplexities. A is the reference. With the same model "
             "twice, --kv-a and --kv-b compare KV cache types.\n"
             "The windows are those of mote perplexity. FILE - is stdin.",
    .examples = "mote compare model-BF16.gguf model-Q4_K_M.gguf wiki.test.raw --limit 20\n"
                "mote compare qwen3.5:4b qwen3.5:4b book.txt --kv-a f16 --kv-b q4_0 --max-kl 0.01",
    .run = compare_run,
};
