/* SPDX-License-Identifier: Apache-2.0 */
/* pull_model.c - implements pull_model.h. */
#define _DEFAULT_SOURCE
#include "cli/load/pull_model.h"

#include "base/os.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* One download as the user sees it. */
typedef struct pull_view {
    pulled_model *out;
    const model_name *name;
    cli_out *events;
    bool question; /* only the size is needed, for a question */
    progress bar;
    const char *label; /* of the progress line; NULL: not begun */
    int code;          /* of the error event */
    bool failed;
} pull_view;

/* ---- events ---- */

static uint64_t event_count(const json_node *event, const char *name)
{
    int64_t n = 0;
    json_node_int64(json_node_get(event, name), &n);
    return n > 0 ? (uint64_t)n : 0;
}

static str event_text(const json_node *event, const char *name)
{
    return json_node_text(json_node_get(event, name));
}

static void view_plan(pull_view *v, const json_node *event)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    v->out->total = event_count(event, "total");
    v->out->missing = event_count(event, "missing");
    v->out->n_files = json_node_size(json_node_get(event, "files"));
    if (v->question)
        return;
    if (v->out->missing == 0)
        msg_note("%s: %s, all files are installed", v->name->text, text_bytes(a, v->out->total));
    else
        msg_note("%s: %s, %s to download", v->name->text, text_bytes(a, v->out->total),
                 text_bytes(b, v->out->missing));
}

/* Words of the event that may be shown as a label. */
static const char *view_label(str action)
{
    static const char *const labels[] = {"downloading", "verifying", "copying"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        if (str_is(action, labels[i]))
            return labels[i];
    return "working";
}

static void view_progress(pull_view *v, const json_node *event)
{
    const char *label = view_label(event_text(event, "action"));
    const uint64_t done = event_count(event, "all_completed");
    if (v->label != label)
        progress_begin(&v->bar, label, PROGRESS_BYTES, done, event_count(event, "all_total"));
    v->label = label;
    progress_at(&v->bar, done);
}

static void view_wait(const json_node *event)
{
    const str reason = event_text(event, "reason");
    char a[TEXT_NUMBER_BYTES];
    const char *seconds = text_seconds(a, json_node_double(json_node_get(event, "seconds")));
    if (str_is(reason, "lock"))
        msg_note("waiting: another process downloads the same file");
    else if (str_is(reason, "rate_limit"))
        msg_note("the hub limits the rate of requests; waiting %s", seconds);
    else
        msg_detail("a request failed; trying again in %s", seconds);
}

static void view_error(pull_view *v, const json_node *event)
{
    const str message = event_text(event, "message"), code = event_text(event, "code");
    char name[32];
    snprintf(name, sizeof name, "%.*s", STR_ARG(code));
    v->failed = true;
    v->code = (int)event_count(event, "exit");
    msg_fail(v->code, name, "%.*s", (int)message.n, message.p);
}

/* The first file of the model is its weights. */
static void view_file(pull_view *v, const json_node *event)
{
    const str path = event_text(event, "path");
    if (v->out->path[0] == '\0')
        snprintf(v->out->path, sizeof v->out->path, "%.*s", (int)path.n, path.p);
}

static void view_done(pull_view *v, const json_node *event)
{
    const str path = event_text(event, "snapshot");
    snprintf(v->out->snapshot, sizeof v->out->snapshot, "%.*s", (int)path.n, path.p);
}

static void view_event(pull_view *v, str line)
{
    json_doc *doc = NULL;
    if (json_doc_read(&doc, line, NULL) != MOTE_OK)
        return;
    const json_node *event = json_doc_root(doc);
    const str kind = event_text(event, "event");
    if (str_is(kind, "plan"))
        view_plan(v, event);
    else if (str_is(kind, "progress"))
        view_progress(v, event);
    else if (str_is(kind, "file"))
        view_file(v, event);
    else if (str_is(kind, "done"))
        view_done(v, event);
    else if (str_is(kind, "error"))
        view_error(v, event);
    else if (str_is(kind, "wait"))
        view_wait(event);
    else if (str_is(kind, "warning"))
        msg_note("%.*s", STR_ARG(event_text(event, "message")));
    json_doc_free(doc);
    if (v->events != NULL) {
        out_write(v->events, line.p, line.n);
        out_text(v->events, "\n");
        out_flush(v->events);
    }
}

/* ---- the process ---- */

static const double notice_after = 1; /* seconds of silence before a question */
enum { QUESTION_SECONDS = 5 };        /* that a question waits for the hub */

static int view_run(pull_view *v, const pull_request *r)
{
    pull_client client;
    mote_error err;
    str line;
    bool interrupted, forwarded = false, noticed = !v->question;
    const double started = os_now();
    if (pull_client_start(&client, r, &err) != MOTE_OK)
        return msg_error(&err);
    for (;;) {
        if (pull_client_next(&client, &line, &interrupted)) {
            view_event(v, line);
            continue;
        }
        if (!interrupted)
            break;
        if (!noticed && os_now() - started >= notice_after) {
            msg_note("requesting the size of %s from the hub", v->name->text);
            noticed = true;
        }
        if (!forwarded && interrupt_pending()) { /* Ctrl-C reaches both, SIGTERM only this one */
            kill(client.pid, interrupt_exit_code() == 130 ? SIGINT : SIGTERM);
            forwarded = true;
        }
    }
    progress_end(&v->bar);
    const int code = pull_client_end(&client, 0);
    if (code != CLI_DONE && !v->failed)
        return msg_fail(CLI_FAILED, "pull_failed", "mote-pull ended with status %d", code);
    return code;
}

void pull_request_of_name(pull_request *r, const model_name *name)
{
    if (name->kind == MODEL_NAME_KNOWN) {
        r->repo = name->known->repo;
        r->revision = name->known->revision;
        r->weights = name->known->file;
        r->mmproj = name->known->mmproj;
        r->mtp = name->known->mtp;
        r->quant = name->quant;
    } else {
        r->repo = name->repo;
        r->revision = name->revision;
        r->quant = name->selector;
    }
}

static bool is_url(const char *text)
{
    return strstr(text, "://") != NULL;
}

/* Options, then the environment. Returns an exit code. */
static int request_of_options(pull_request *r, const pull_options *o, pull_settings *settings,
                              char token[1024], char from[PULL_PATH_BYTES])
{
    mote_error err;
    r->jobs = o->jobs;
    r->limit_rate = o->limit_rate;
    r->retry_wait = o->retry_wait;
    r->dry_run = o->dry_run;
    r->checkpoint = o->checkpoint;
    r->give_up = o->give_up;
    if (o->from != NULL && is_url(o->from)) {
        r->endpoint = o->from;
    } else if (o->from != NULL) {
        if (realpath(o->from, from) == NULL)
            return msg_fail(CLI_NO_MODEL, "not_found", "there is no directory %s", o->from);
        r->from = from;
    }
    if (o->token_file != NULL) {
        if (pull_token_read(token, 1024, o->token_file, &err) != MOTE_OK)
            return msg_fail(CLI_REFUSED, "token_refused", "%s", err.text);
        r->token = token;
    }
    const mote_status status = pull_settings_read(settings, r, &err);
    if (status == MOTE_E_FORMAT)
        return msg_usage("%s", err.text);
    if (status != MOTE_OK)
        return msg_fail(CLI_REFUSED, "token_refused", "%s", err.text);
    const char *offline = pull_offline();
    if (offline != NULL && r->from == NULL)
        return msg_fail(CLI_NO_NETWORK, "offline", "%s is set: no network", offline);
    return CLI_DONE;
}

static int pull_with_view(pull_view *v, const pull_options *o)
{
    static pull_settings settings;
    static char token[1024], from[PULL_PATH_BYTES];
    pull_request r = {0};
    *v->out = (pulled_model){0};
    pull_request_of_name(&r, v->name);
    int code = request_of_options(&r, o, &settings, token, from);
    if (code == CLI_DONE)
        code = view_run(v, &r);
    memset(token, 0, sizeof token);
    memset(&settings, 0, sizeof settings);
    return code;
}

int pull_model(pulled_model *out, const model_name *name, const pull_options *o, cli_out *events)
{
    pull_view v = {.out = out, .name = name, .events = events};
    return pull_with_view(&v, o);
}

int pull_model_confirm(const model_name *name, bool *yes)
{
    pulled_model size;
    pull_view v = {.out = &size, .name = name, .question = true};
    char a[TEXT_NUMBER_BYTES], answer[16];
    const int code =
        pull_with_view(&v, &(pull_options){.dry_run = true, .give_up = QUESTION_SECONDS});
    if (code == CLI_NO_NETWORK)
        msg_note("mote pull %s waits longer for the hub", name->text);
    if (code != CLI_DONE)
        return code;
    fprintf(stderr, "Pull %s (%s)? [Y/n] ", name->text, text_bytes(a, size.missing));
    fflush(stderr);
    *yes = false;
    if (fgets(answer, sizeof answer, stdin) == NULL)
        return CLI_DONE;
    answer[strcspn(answer, "\n")] = '\0';
    *yes = answer[0] == '\0' || strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
    return CLI_DONE;
}
