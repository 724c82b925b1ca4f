/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_perplexity.c - `mote perplexity`: how well a model predicts a text. */
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

static const flag_group groups[] = {
    WINDOW_FLAG_GROUP(0),
    WINDOW_LOAD_FLAG_GROUP(offsetof(window_options, load)),
};

typedef struct perplexity_state {
    const cli_call *call;
    const window_options *options;
    loaded on;
    text_windows windows;
    uint32_t vocabulary;
    double *nll; /* [windows_scored] */
} perplexity_state;

static void perplexity_take_row(void *ctx, size_t index, const float *const *rows, mote_token token)
{
    perplexity_state *p = ctx;
    p->nll[index] = logit_log_sum(rows[0], p->vocabulary) - (double)rows[0][token];
}

static int perplexity_compute(perplexity_state *p)
{
    mote_model_info info;
    mote_model_describe(p->on.model, &info);
    p->vocabulary = info.vocabulary;
    int code = windows_read(&p->windows, p->on.model, p->call->words[1], p->options);
    if (code == CLI_DONE)
        code = windows_engine(&p->on, p->options, (mote_kv)p->options->load.kv, &p->windows);
    if (code != CLI_DONE)
        return code;
    p->nll = mem_new(windows_scored(&p->windows), sizeof *p->nll);
    if (p->nll == NULL)
        return msg_no_memory("the results");
    return windows_run(&p->windows, &p->on, 1, perplexity_take_row, p);
}

static int perplexity_print_json(const perplexity_state *p, const char *model, stat_mean nll)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "model", model);
    jw_key_text(&j, "text", p->call->words[1]);
    jw_key_text(&j, "kv", load_kv_name(p->options->load.kv));
    jw_key_uint(&j, "tokens", p->windows.ids.n);
    jw_key_uint(&j, "context", p->windows.size);
    jw_key_uint(&j, "windows", p->windows.n);
    jw_key_uint(&j, "scored", windows_scored(&p->windows));
    jw_key_double(&j, "nll", nll.mean);
    jw_key_double(&j, "nll_error", nll.error);
    jw_key_double(&j, "perplexity", exp(nll.mean));
    jw_key_double(&j, "perplexity_error", exp(nll.mean) * nll.error);
    jw_close(&j, '}');
    return out_json(p->call->out, &j);
}

static int perplexity_print(const perplexity_state *p, const char *model)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    const stat_mean nll = stat_mean_of(p->nll, windows_scored(&p->windows));
    if (!isfinite(nll.mean))
        return msg_fail(CLI_DAMAGED, mote_status_name(MOTE_E_FORMAT),
                        "a logit is not a number, so the weights of %s are damaged; download the "
                        "file again",
                        model);
    if (p->call->common.json)
        return perplexity_print_json(p, model, nll);
    cli_out *o = p->call->out;
    const char *plus = term_utf8() ? "\xc2\xb1" : "+/-";
    out_printf(o, "text        %s in %s of %s\n", text_counted(a, p->windows.ids.n, "token"),
               text_counted(b, p->windows.n, "window"), text_count(c, p->windows.size));
    out_printf(o, "scored      %s\n", text_counted(a, windows_scored(&p->windows), "token"));
    out_printf(o, "nll         %.6f %s %.6f\n", nll.mean, plus, nll.error);
    out_printf(o, "perplexity  %.4f %s %.4f\n", exp(nll.mean), plus, exp(nll.mean) * nll.error);
    return CLI_DONE;
}

static int perplexity_run(const cli_call *call)
{
    perplexity_state p = {.call = call, .options = call->options};
    found_model found;
    int code = find_model(&found, call->words[0]);
    if (code == CLI_DONE)
        code = load_model(&p.on, &found, NULL, (mote_isa)p.options->load.isa);
    if (code == CLI_DONE)
        code = perplexity_compute(&p);
    if (code == CLI_DONE)
        code = perplexity_print(&p, found.name);
    mem_free(p.nll);
    windows_free(&p.windows);
    load_close(&p.on);
    return code;
}

const cli_command cmd_perplexity = {
    .name = "perplexity",
    .section = "Evaluate",
    .summary = "how well a model predicts a text",
    .usage = "MODEL FILE",
    .arguments = "MODEL FILE",
    .min_words = 2,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(window_options),
    .about = "Cuts a text into windows of 512 tokens and predicts the second half of each, token "
             "by token, with the first half as context. Prints the mean negative log-likelihood "
             "(nll, in nats), the perplexity exp(nll), and their standard errors. FILE - is "
             "stdin.\n"
             "llama-perplexity uses the same windows, so its numbers are comparable. Compare only "
             "numbers of the same text, --context and tokenizer.",
    .examples = "mote perplexity qwen3.5:4b wiki.test.raw\n"
                "mote perplexity model.gguf --context 2048 --limit 10 --json - < book.txt",
    .run = perplexity_run,
};
