/* SPDX-License-Identifier: Apache-2.0 */
/* serve_pull.c - implements serve_pull.h. */
#include "cli/serve/serve_pull.h"

#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/pull_model.h"
#include "cli/serve/serve_catalog.h"
#include "cli/term/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- requests of clients; in the sandbox ---- */

/* A server does not choose a size: the choice depends on what else it serves. */
static mote_status family_needs_size(const known_models *known, const char *family, mote_error *err)
{
    char sizes[400] = "";
    size_t n = 0;
    for (const known_model *row = NULL;
         n < sizeof sizes && (row = model_family_next(known, family, row)) != NULL;)
        n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%s", n > 0 ? ", " : "", row->name);
    return err_set(err, MOTE_E_ARG, "%.60s has several sizes, name one of them: %s", family, sizes);
}

static mote_status request_write(const store *s, const char *text, strbuf *out, mote_error *err)
{
    model_name name;
    pull_request r = {.repo = NULL};
    TRY(model_name_parse(&name, store_known(s), text, err));
    if (name.kind == MODEL_NAME_FAMILY)
        return family_needs_size(store_known(s), name.text, err);
    if (name.kind != MODEL_NAME_KNOWN && name.kind != MODEL_NAME_HUB)
        return err_set(err, MOTE_E_ARG,
                       "%.100s is not the name of a model to pull; try qwen3.5:4b or "
                       "hf.co/owner/repo:Q4_K_M",
                       text);
    if (name.kind == MODEL_NAME_HUB && strcmp(name.selector, "latest") == 0)
        name.selector[0] = '\0'; /* Ollama's word for no tag */
    pull_request_of_name(&r, &name);
    pull_request_put_model(out, &r);
    return strbuf_check(out, err);
}

/* For model_pull_source.request. The tables of known models may have changed. */
static mote_status serve_pull_request(void *with, const char *name, strbuf *out, mote_error *err)
{
    const serve_pull *p = with;
    store *s;
    TRY(store_open(&s, &p->env, err));
    const mote_status status = request_write(s, name, out, err);
    store_close(s);
    return status;
}

/* For model_pull_source.start. */
static mote_status serve_pull_start(void *with, str request, int *fd, mote_error *err)
{
    serve_pull *p = with;
    return pull_spawner_pull(&p->spawner, request, fd, err);
}

/* ---- start ---- */

/* Overwrites the tokens in the environment of this process, which its memory shows. */
static void environment_forget_tokens(void)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *value = getenv(names[i]);
        if (value == NULL)
            continue;
        memset(value, 0, strlen(value));
        unsetenv(names[i]);
    }
}

static int pull_start_spawner(serve_pull *p)
{
    mote_error err;
    pull_request r = {.repo = NULL};
    const mote_status status = pull_settings_read(&p->settings, &r, &err);
    if (status == MOTE_E_FORMAT)
        return msg_usage("%s", err.text);
    if (status != MOTE_OK)
        return msg_fail(CLI_REFUSED, "token_refused", "%s", err.text);
    if (!serve_make_directories(r.cache))
        return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot create %s: %s", r.cache,
                        strerror(errno));
    if (pull_spawner_start(&p->spawner, &r, &err) != MOTE_OK)
        return msg_error(&err);
    return CLI_DONE;
}

int serve_pull_open(serve_pull *p, model_pull_source *out)
{
    const char *offline = pull_offline();
    if (offline != NULL)
        return msg_fail(CLI_NO_NETWORK, "offline", "--allow-pull: %s is set: no network", offline);
    find_store_env(&p->env);
    const int code = pull_start_spawner(p);
    memset(&p->settings, 0, sizeof p->settings); /* the token */
    environment_forget_tokens();
    *out = (model_pull_source){.request = serve_pull_request, .start = serve_pull_start, .with = p};
    return code;
}

void serve_pull_close(serve_pull *p)
{
    pull_spawner_stop(&p->spawner);
}
