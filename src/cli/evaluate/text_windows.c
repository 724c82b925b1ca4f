/* SPDX-License-Identifier: Apache-2.0 */
/* text_windows.c - see text_windows.h. */
#include "cli/evaluate/text_windows.h"

#include "base/pool.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

const cli_flag window_flags[] = {
    {.name = "context",
     .letter = 'c',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = WINDOW_MIN,
     .max = 4194304,
     .initial = "512",
     .aliases = "num-ctx|ctx-size|n-ctx|max-model-len",
     .once = true,
     .at = offsetof(window_options, size),
     .help = "tokens of a window; its second half is scored"},
    {.name = "limit",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1e9,
     .shown = "all",
     .once = true,
     .at = offsetof(window_options, limit),
     .help = "read only the first N windows of the text"},
};
_Static_assert(sizeof window_flags / sizeof *window_flags == WINDOW_N_FLAGS, "WINDOW_N_FLAGS");

/* Rows of logits per step: at most 64 MiB and at most ROWS_MAX rows. */
enum { ROWS_BYTES = 64 << 20, ROWS_MAX = 256 };

/* ---- the text ---- */

void windows_free(text_windows *w)
{
    input_ids_free(&w->ids);
}

int windows_read(text_windows *w, const mote_model *model, const char *path,
                 const window_options *options)
{
    char a[TEXT_NUMBER_BYTES];
    strbuf text = {0};
    int code = input_read(&text, path);
    if (code == CLI_DONE)
        code = input_tokenize(&w->ids, model, text.p != NULL ? text.p : "", text.n, 0);
    strbuf_fini(&text);
    if (code != CLI_DONE)
        return code;
    w->size = (size_t)options->size;
    w->n = w->ids.n / w->size;
    if (w->n == 0)
        return msg_usage("the text has %s and a window %zu; give a longer text or lower --context",
                         text_counted(a, w->ids.n, "token"), w->size);
    if (options->limit != 0 && options->limit < w->n)
        w->n = (size_t)options->limit;
    return CLI_DONE;
}

static size_t window_scored(const text_windows *w)
{
    return w->size - w->size / 2 - 1;
}

size_t windows_scored(const text_windows *w)
{
    return w->n * window_scored(w);
}

/* ---- the models ---- */

static size_t window_rows_per_step(const text_windows *w, uint32_t vocabulary)
{
    size_t rows = ROWS_BYTES / (vocabulary * sizeof(float));
    rows = rows < 1 ? 1 : rows > ROWS_MAX ? ROWS_MAX : rows;
    return rows < window_scored(w) ? rows : window_scored(w);
}

static uint32_t window_vocabulary(const loaded *l)
{
    mote_model_info info;
    mote_model_describe(l->model, &info);
    return info.vocabulary;
}

int windows_engine(loaded *l, const window_options *options, mote_kv kv, const text_windows *w)
{
    load_options load = options->load;
    uint64_t context = w->size;
    load.context = context; /* too little memory is an error: a shorter window has other results */
    load.kv = kv;
    return load_engine(l, &load, &context, context,
                       (uint32_t)window_rows_per_step(w, window_vocabulary(l)));
}

/* ---- all windows ---- */

typedef struct windows_state {
    const text_windows *w;
    const loaded *models;
    size_t n_models;
    window_row_fn *row;
    void *ctx;
    pool *threads;
    progress line;
    size_t done;               /* predictions before this step */
    const mote_token *targets; /* the token after each row of this step */
} windows_state;

static void windows_take_row(void *with, uint32_t task, uint32_t worker)
{
    const windows_state *s = with;
    const float *rows[WINDOW_MODELS];
    (void)worker;
    for (size_t i = 0; i < s->n_models; i++)
        rows[i] = mote_session_logits(s->models[i].session, task);
    s->row(s->ctx, s->done + task, rows, s->targets[task]);
}

/* Appends n tokens to the session of each model. */
static mote_status windows_step(windows_state *s, const mote_token *tokens, size_t n,
                                mote_logits want, mote_error *err)
{
    for (size_t i = 0; i < s->n_models; i++) {
        if (interrupt_pending())
            return err_set(err, MOTE_E_CANCELED, "interrupted");
        const mote_work work = {
            .session = s->models[i].session, .tokens = tokens, .n = n, .want = want};
        TRY(mote_step(s->models[i].engine, &work, 1, err));
    }
    if (want == MOTE_LOGITS_ALL) {
        s->targets = tokens + 1;
        pool_run(s->threads, windows_take_row, s, (uint32_t)n);
        s->done += n;
    }
    return MOTE_OK;
}

static mote_status windows_run_one(windows_state *s, size_t window, mote_error *err)
{
    const text_windows *w = s->w;
    const mote_token *tokens = w->ids.ids + window * w->size;
    const size_t rows = window_rows_per_step(w, window_vocabulary(&s->models[0]));
    for (size_t i = 0; i < s->n_models; i++)
        mote_session_rewind(s->models[i].session, 0);
    TRY(windows_step(s, tokens, w->size / 2, MOTE_LOGITS_NONE, err));
    for (size_t at = w->size / 2; at + 1 < w->size;) {
        const size_t left = w->size - 1 - at, n = rows < left ? rows : left;
        progress_at(&s->line, window * w->size + at);
        TRY(windows_step(s, tokens + at, n, MOTE_LOGITS_ALL, err));
        at += n;
    }
    return MOTE_OK;
}

int windows_run(const text_windows *w, const loaded *models, size_t n, window_row_fn *row,
                void *ctx)
{
    windows_state s = {.w = w, .models = models, .n_models = n, .row = row, .ctx = ctx};
    mote_error err;
    mote_status status = pool_new(&s.threads, mote_engine_threads(models[0].engine), &err);
    progress_begin(&s.line, "scoring", PROGRESS_TOKENS, 0, w->n * w->size);
    for (size_t i = 0; i < w->n && status == MOTE_OK; i++)
        status = windows_run_one(&s, i, &err);
    progress_end(&s.line);
    pool_free(s.threads);
    if (status == MOTE_OK)
        return CLI_DONE;
    return status == MOTE_E_CANCELED ? interrupt_exit_code() : msg_error(&err);
}
