/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_eval.c - `mote eval`: answers the questions of a task file and checks the answers.
 *
 * Each task is a conversation of its own. Decoding is greedy, so a run gives the same answers again.
 */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/evaluate/eval_check.h"
#include "cli/evaluate/eval_results.h"
#include "cli/evaluate/eval_tasks.h"
#include "cli/evaluate/logit_stats.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>

/* Tokens for the template, the question and the answer besides a text that was made. */
enum { KEPT_STATES = 2, ROOM_AROUND_TEXT = 512 };

typedef struct eval_options {
    const char *out;
    const char *think;
    double min;
    uint64_t limit;
    uint64_t max_tokens;
    load_options load;
} eval_options;

#define AT(member) offsetof(eval_options, member)

static const cli_flag flags[] = {
    {.name = "out",
     .letter = 'o',
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(out),
     .help = "append each result to FILE as a line of JSON; the same command continues there"},
    {.name = "min",
     .kind = FLAG_NUMBER,
     .value = "SHARE",
     .min = 0,
     .max = 1,
     .shown = "none",
     .once = true,
     .at = AT(min),
     .help = "exit with code 10 if a smaller share of the tasks passes"},
    {.name = "limit",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1e9,
     .shown = "all",
     .once = true,
     .at = AT(limit),
     .help = "only the first N tasks of the file"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = 1 << 20,
     .initial = "1024",
     .once = true,
     .at = AT(max_tokens),
     .help = "longest answer in tokens, thinking included, unless the task sets max_tokens"},
    {THINK_FLAG_ALONE, .shown = "auto", .once = true, .at = AT(think), .help = THINK_FLAG_HELP},
};

static const flag_group groups[] = {
    FLAG_GROUP("Tasks", flags, 0),
    LOAD_FLAG_GROUP(offsetof(eval_options, load)),
};

typedef struct eval_count {
    str category;
    uint32_t passed, n;
} eval_count;

typedef struct eval_state {
    const cli_call *call;
    const eval_options *options;
    found_model found;
    loaded on;
    eval_tasks tasks;
    eval_results results;
    uint32_t n; /* tasks to do */
    eval_count total;
    eval_count *counts; /* [n_counts], by category in the order of the file */
    uint32_t n_counts, counts_room;
    mote_chat *volatile chat; /* of the running task; a signal handler reads it */
    eval_answer *answer;      /* of the running task */
} eval_state;

/* ---- one task ---- */

static void eval_on_event(void *with, const mote_chat_event *e)
{
    eval_state *state = with;
    eval_answer *a = state->answer;
    /* A signal may have come before there was an answer to cancel. */
    if (interrupt_pending())
        mote_chat_cancel(state->chat);
    if (e->kind == MOTE_CHAT_CONTENT)
        strbuf_put(&a->content, (str){e->text, e->text_bytes});
    if (e->kind != MOTE_CHAT_CALL_END)
        return;
    if (a->n_calls < EVAL_MAX_CALLS) {
        strbuf_put(&a->calls[a->n_calls].name, (str){e->name, e->name_bytes});
        strbuf_put(&a->calls[a->n_calls].arguments, (str){e->text, e->text_bytes});
    }
    a->n_calls++;
}

/* Calls the function with the JSON of a field, if the task has it. */
static mote_status
eval_add_json(mote_chat *chat, const eval_task *t, const char *field,
              mote_status (*add)(mote_chat *, const char *, size_t, mote_error *), mote_error *err)
{
    const json_node *node = json_node_get(t->root, field);
    strbuf text = {0};
    if (node == NULL)
        return MOTE_OK;
    json_put_as_spelt(&text, node);
    mote_status status = strbuf_check(&text, err);
    if (status == MOTE_OK)
        status = add(chat, text.p, text.n, err);
    strbuf_fini(&text);
    return status;
}

static mote_status eval_fill_chat(mote_chat *chat, const eval_task *t, mote_error *err)
{
    const str system = json_node_text(json_node_get(t->root, "system"));
    const str prompt = json_node_text(json_node_get(t->root, "prompt"));
    if (system.n > 0)
        TRY(mote_chat_set_system(chat, system.p, system.n, err));
    TRY(eval_add_json(chat, t, "tools", mote_chat_set_tools, err));
    TRY(eval_add_json(chat, t, "messages", mote_chat_add_json, err));
    return prompt.n > 0 ? mote_chat_add(chat, MOTE_ROLE_USER, prompt.p, prompt.n, err) : MOTE_OK;
}

static mote_status eval_decode(eval_state *e, const eval_task *t, mote_answer *answer,
                               mote_error *err)
{
    int64_t most = (int64_t)e->options->max_tokens;
    strbuf choices = {0};
    mote_answer_options o = {
        .set = MOTE_SET_TEMPERATURE | MOTE_SET_PRESENCE | MOTE_SET_FREQUENCY | MOTE_SET_REPETITION,
        .event = eval_on_event,
        .with = e,
    };
    think_flag_read(e->options->think, &o.think, &o.think_budget);
    json_node_int64(json_node_get(t->root, "max_tokens"), &most);
    o.max_tokens = (uint32_t)most;
    if (eval_check_choices(t->check) != NULL) {
        json_put_as_spelt(&choices, eval_check_choices(t->check));
        o.format = MOTE_FORMAT_CHOICES;
        o.format_text = choices.p;
        o.format_bytes = choices.n;
    }
    mote_status status = strbuf_check(&choices, err);
    if (status == MOTE_OK)
        status = mote_chat_answer(e->chat, &o, answer, err);
    if (status == MOTE_OK)
        status = strbuf_check(&e->answer->content, err);
    strbuf_fini(&choices);
    return status;
}

static int eval_keep(eval_state *e, const eval_task *t, const eval_answer *a,
                     const mote_answer *answer, bool pass)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_str(&j, "id", t->id);
    jw_key_str(&j, "category", t->category);
    jw_key_bool(&j, "pass", pass);
    jw_key_str(&j, "content", strbuf_view(&a->content));
    jw_key(&j, "tool_calls");
    jw_open(&j, '[');
    for (size_t i = 0; i < a->n_calls && i < EVAL_MAX_CALLS; i++) {
        jw_open(&j, '{');
        jw_key_str(&j, "name", strbuf_view(&a->calls[i].name));
        jw_key_str(&j, "arguments", strbuf_view(&a->calls[i].arguments));
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    jw_key_text(&j, "finish", mote_finish_name(answer->finish));
    jw_key_uint(&j, "prompt_tokens", answer->prompt_tokens);
    jw_key_uint(&j, "answer_tokens", answer->answer_tokens);
    jw_close(&j, '}');
    const int code = j.failed ? input_no_memory() : eval_results_add(&e->results, strbuf_view(&j));
    strbuf_fini(&j);
    return code;
}

static int eval_run_task(eval_state *e, const eval_task *t, bool *pass)
{
    eval_answer a = {0};
    mote_answer answer;
    mote_error err;
    mote_chat *chat = NULL;
    mote_status status = mote_chat_new(&chat, e->on.engine, NULL, &err);
    if (status == MOTE_OK)
        status = eval_fill_chat(chat, t, &err);
    e->chat = chat;
    e->answer = &a;
    if (status == MOTE_OK && !interrupt_pending())
        status = eval_decode(e, t, &answer, &err);
    int code = CLI_DONE;
    if (interrupt_pending()) {
        code = interrupt_exit_code();
    } else if (status != MOTE_OK) {
        char where[64];
        snprintf(where, sizeof where, "task %.*s", (int)(t->id.n < 50 ? t->id.n : 50), t->id.p);
        err_prefix(&err, where);
        code = msg_error(&err);
    } else {
        *pass = eval_check_passes(t->check, &a);
        if (!*pass)
            msg_detail("failed: %.*s: %.*s", STR_ARG(t->id), STR_ARG(strbuf_view(&a.content)));
        code = eval_keep(e, t, &a, &answer, *pass);
    }
    e->chat = NULL; /* first: a signal cancels it */
    mote_chat_free(chat);
    eval_answer_fini(&a);
    return code;
}

/* ---- all tasks ---- */

static bool eval_count_task(eval_state *e, const eval_task *t, bool pass)
{
    uint32_t i = 0;
    while (i < e->n_counts && !str_eq(e->counts[i].category, t->category))
        i++;
    if (i == e->n_counts) {
        if (!mem_grow(&e->counts, i, &e->counts_room, sizeof *e->counts))
            return false;
        e->counts[e->n_counts++] = (eval_count){.category = t->category};
    }
    e->counts[i].n++;
    e->counts[i].passed += pass;
    e->total.n++;
    e->total.passed += pass;
    return true;
}

static int eval_run_tasks(eval_state *e)
{
    char line[96];
    uint32_t known = 0;
    for (uint32_t i = 0; i < e->n; i++) {
        const eval_task *t = &e->tasks.tasks[i];
        bool pass = false;
        if (eval_results_find(&e->results, t->id, &pass)) {
            known++;
        } else {
            snprintf(line, sizeof line, "task %u of %u   passed %u", i + 1, e->n, e->total.passed);
            if (term_progress())
                progress_show(line);
            const int code = eval_run_task(e, t, &pass);
            progress_clear();
            if (code != CLI_DONE)
                return code;
        }
        if (!eval_count_task(e, t, pass))
            return input_no_memory();
    }
    if (known > 0)
        msg_note("%u of %u tasks were done before (%s)", known, e->n, e->results.path);
    return CLI_DONE;
}

/* ---- the result ---- */

static void eval_put_count(strbuf *j, const eval_count *c)
{
    const stat_mean share = stat_share_of(c->passed, c->n);
    jw_key_uint(j, "passed", c->passed);
    jw_key_uint(j, "tasks", c->n);
    jw_key_double(j, "share", share.mean);
    jw_key_double(j, "share_error", share.error);
}

static int eval_print_json(const eval_state *e)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_text(&j, "model", e->found.name);
    jw_key_text(&j, "file", e->call->words[1]);
    eval_put_count(&j, &e->total);
    jw_key(&j, "categories");
    jw_open(&j, '[');
    for (uint32_t i = 0; i < e->n_counts; i++) {
        jw_open(&j, '{');
        jw_key_str(&j, "category", e->counts[i].category);
        eval_put_count(&j, &e->counts[i]);
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(e->call->out, &j);
}

static void eval_print_count(cli_out *o, const eval_count *c)
{
    const stat_mean share = stat_share_of(c->passed, c->n);
    char name[128];
    text_fit(name, sizeof name, c->category.p, c->category.n, 24);
    out_printf(o, "%-24s  %5u of %5u  %5.1f %% %s %.1f %%\n", name, c->passed, c->n,
               100 * share.mean, term_utf8() ? "\xc2\xb1" : "+/-", 100 * share.error);
}

static int eval_print(const eval_state *e)
{
    if (e->call->common.json)
        return eval_print_json(e);
    for (uint32_t i = 0; i < e->n_counts; i++)
        eval_print_count(e->call->out, &e->counts[i]);
    if (e->n_counts != 1)
        eval_print_count(e->call->out, &e->total);
    return CLI_DONE;
}

static int eval_finish(const eval_state *e)
{
    const int code = eval_print(e);
    const double share = stat_share_of(e->total.passed, e->total.n).mean;
    if (code == CLI_DONE && share < e->options->min)
        return msg_fail(CLI_NOT_VALID, "below_limit", "%.4f of the tasks pass, less than --min %g",
                        share, e->options->min);
    return code;
}

/* ---- files ---- */

static int eval_read_tasks(eval_state *e, strbuf *text)
{
    mote_error err;
    int code = input_read(text, e->call->words[1]);
    if (code != CLI_DONE)
        return code;
    const mote_status status = eval_tasks_read(&e->tasks, strbuf_view(text), e->on.model, &err);
    progress_clear();
    if (interrupt_pending())
        return interrupt_exit_code();
    if (status != MOTE_OK) {
        err_prefix(&err, e->call->words[1]);
        return msg_error(&err);
    }
    e->n = e->tasks.n;
    if (e->options->limit != 0 && e->options->limit < e->n)
        e->n = (uint32_t)e->options->limit;
    return CLI_DONE;
}

/* The first line of the results: whatever changes them. */
static int eval_open_results(eval_state *e, str tasks)
{
    char model[EVAL_IDENTITY_BYTES], file[EVAL_IDENTITY_BYTES];
    const eval_options *o = e->options;
    strbuf j = {0};
    if (o->out == NULL)
        return eval_results_open(&e->results, NULL, (str){"", 0});
    int code = eval_model_identity(e->found.path, model);
    if (code == CLI_DONE)
        code = eval_text_identity(tasks, file);
    if (code != CLI_DONE)
        return code;
    jw_open(&j, '{');
    jw_key_text(&j, "eval", "mote");
    jw_key_text(&j, "model", model);
    jw_key_text(&j, "tasks", file);
    jw_key_text(&j, "think", o->think != NULL ? o->think : "auto");
    jw_key_uint(&j, "max_tokens", o->max_tokens);
    jw_key_uint(&j, "context", o->load.context); /* an answer ends at its limit */
    jw_key_text(&j, "kv", load_kv_name(o->load.kv));
    jw_key_double(&j, "yarn", o->load.yarn);
    jw_key_uint(&j, "numerics", MOTE_NUMERICS);
    jw_close(&j, '}');
    code = j.failed ? input_no_memory() : eval_results_open(&e->results, o->out, strbuf_view(&j));
    strbuf_fini(&j);
    return code;
}

static int eval_open_engine(eval_state *e)
{
    const load_options *load = &e->options->load;
    uint64_t longest = 0;
    mote_error err;
    for (uint32_t i = 0; i < e->n; i++)
        if (e->tasks.tasks[i].tokens > longest)
            longest = e->tasks.tasks[i].tokens;
    const uint64_t context = load_context(&e->on, load, longest, ROOM_AROUND_TEXT);
    mote_engine_options engine = {
        .threads = (uint32_t)load->threads,
        .sessions = 1,
        .positions = context,
        .kept_states = KEPT_STATES,
        .kv = (mote_kv)load->kv,
        .yarn = (float)load->yarn,
        .pin = (mote_pin)load->pin,
    };
    const int code = load_fit_memory(e->on.model, load, &engine, longest + ROOM_AROUND_TEXT);
    if (code != CLI_DONE)
        return code;
    if (mote_engine_new(&e->on.engine, e->on.model, &engine, &err) != MOTE_OK)
        return msg_error(&err);
    interrupt_set_engine(e->on.engine);
    load_describe(&e->on, engine.positions);
    return CLI_DONE;
}

static void eval_cancel(void *with)
{
    eval_state *e = with;
    if (e->chat != NULL)
        mote_chat_cancel(e->chat);
}

static int eval_run(const cli_call *call)
{
    eval_state e = {.call = call, .options = call->options, .results = {.fd = -1}};
    strbuf text = {0};
    e.total.category = str_of("total");
    int code = find_model(&e.found, call->words[0]);
    if (code == CLI_DONE)
        code = load_model(&e.on, &e.found, NULL, (mote_isa)e.options->load.isa);
    if (code == CLI_DONE)
        code = eval_read_tasks(&e, &text);
    if (code == CLI_DONE)
        code = eval_open_results(&e, strbuf_view(&text));
    if (code == CLI_DONE)
        code = eval_open_engine(&e);
    if (code == CLI_DONE) {
        interrupt_set_handler(eval_cancel, &e);
        code = eval_run_tasks(&e);
        interrupt_set_handler(NULL, NULL);
    }
    if (code == CLI_DONE)
        code = eval_finish(&e);
    eval_results_close(&e.results);
    mem_free(e.counts);
    load_close(&e.on);
    eval_tasks_free(&e.tasks);
    strbuf_fini(&text);
    return code;
}

const cli_command cmd_eval = {
    .name = "eval",
    .section = "Evaluate",
    .summary = "answer the questions of a file and check the answers",
    .usage = "MODEL FILE",
    .arguments = "MODEL FILE",
    .min_words = 2,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(eval_options),
    .about = "FILE has one task per line: a JSON object with id, prompt (or messages) and check. "
             "The check states the right answer: a text, a regular expression, one of several "
             "choices, JSON, a JSON Schema, or tool calls. A line with retrieval makes questions "
             "about a code hidden in a long text. Prints how many answers are right, by category, "
             "with standard errors. Decoding is greedy. docs/evaluate.md describes the fields.\n"
             "With --out an interrupted run continues. Results of another model, task file or "
             "setting are refused.",
    .examples = "mote eval qwen3.5:4b tasks.jsonl --out results.jsonl\n"
                "mote eval model.gguf tasks.jsonl --min 0.8 --json",
    .run = eval_run,
};
