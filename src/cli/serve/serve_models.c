/* SPDX-License-Identifier: Apache-2.0 */
/* serve_models.c - see serve_models.h. */
#include "cli/serve/serve_models.h"

#include "cli/term/output_messages.h"
#include "cli/load/mmproj.h"
#include "media/sandbox/decoder.h"
#include "server/models/model_name.h"

/* Clients choose by name, so no two may have the same. */
static int check_names(const serve_models *m)
{
    char names[SERVER_MAX_MODELS][MODEL_NAME_BYTES];
    if (m->n > 1 && m->name != NULL)
        return msg_usage("--name is for one model; with several each is called like its file");
    if (m->n > 1 && m->mmproj != NULL && strcmp(m->mmproj, "none") != 0)
        return msg_usage(
            "--mmproj FILE is for one model; with several each has the tower that lies "
            "beside it (--mmproj none: they do not see)");
    for (size_t i = 0; i < m->n; i++) {
        model_name_of_file(names[i], m->paths[i]);
        for (size_t k = 0; k < i; k++)
            if (model_name_is(names[i], str_of(names[k]), true))
                return msg_usage("%s and %s would both be called %s: rename one of the files",
                                 m->paths[k], m->paths[i], names[i]);
    }
    return CLI_DONE;
}

static int find_mmproj(const serve_models *m, size_t i, char mmproj[MMPROJ_PATH_BYTES])
{
    char why[MMPROJ_WHY_BYTES];
    const bool told = mmproj_find(mmproj, why, m->paths[i], m->mmproj);
    if (!told && m->n > 1)
        return msg_usage("%s: %s (with several models --mmproj takes only none: put each into a "
                         "folder with its own tower)",
                         m->paths[i], why);
    if (!told)
        return msg_usage("%s", why);
    if (why[0] != '\0' && m->n > 1)
        msg_note("%s: %s", m->paths[i], why);
    else if (why[0] != '\0')
        msg_note("%s", why);
    return CLI_DONE;
}

static int open_one(serve_models *m, size_t i)
{
    char mmproj[MMPROJ_PATH_BYTES];
    mote_error err;
    int code = find_mmproj(m, i, mmproj);
    if (code != CLI_DONE)
        return code;
    const bool sees = mmproj[0] != '\0';
    if (sees && m->fork_server == NULL && fork_server_start(&m->fork_server, &err) != MOTE_OK)
        return msg_error(&err);
    code = load_model(&m->on[i], m->paths[i], sees ? mmproj : NULL, m->isa);
    if (code != CLI_DONE && sees && m->n > 1)
        msg_note("%s was to see with %s, which lies beside it: give each model a folder with its "
                 "own tower, or say --mmproj none",
                 m->paths[i], mmproj);
    return code == CLI_DONE ? load_warm(&m->on[i]) : code;
}

int serve_models_open(serve_models *m, server_options *o)
{
    int code = check_names(m);
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++) {
        code = open_one(m, i);
        o->models[o->n_models++] =
            (model_to_serve){.model = m->on[i].model, .path = m->paths[i], .name = m->name};
    }
    o->fork_server = m->fork_server;
    return code;
}

void serve_models_close(serve_models *m)
{
    for (size_t i = 0; i < m->n; i++)
        load_close(&m->on[i]);
    fork_server_stop(m->fork_server);
}
