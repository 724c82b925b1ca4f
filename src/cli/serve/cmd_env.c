/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_env.c - `mote env`: what a program has to be told so that it asks a `mote serve`.
 *
 * Each client is a row. Its text is variables for a shell, or settings for a file or a dialog;
 * %u stands for the server's address, %k for the key, %m for the model. Nothing is asked or
 * written.
 */
#include "cli/args/commands.h"
#include "cli/term/json_out.h"
#include "cli/serve/server_client.h"
#include "cli/term/output_messages.h"

#include <stdio.h>
#include <string.h>

typedef struct env_options {
    uint64_t shell;
    const char *model;
    client_options remote;
} env_options;

enum { SHELL_SH, SHELL_FISH, SHELL_POWERSHELL };

static const cli_flag flags[] = {
    {.name = "shell",
     .kind = FLAG_CHOICE,
     .value = "sh|fish|powershell",
     .initial = "sh",
     .at = offsetof(env_options, shell),
     .help = "how variables are written"},
    {.name = "model",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .at = offsetof(env_options, model),
     .help = "the model to ask for, as mote ps names it",
     .shown = "the server's first"},
};

static const flag_group groups[] = {
    FLAG_GROUP("What to print", flags, 0),
    CLIENT_FLAG_GROUP(offsetof(env_options, remote)),
};

typedef struct client {
    const char *name;
    const char *place; /* of settings; NULL: variables, a line each */
    bool quoted;       /* values of the settings stand between double quotes */
    const char *text;
} client;

static const client clients[] = {
    {"claude", NULL, false,
     "ANTHROPIC_BASE_URL=%u\nANTHROPIC_AUTH_TOKEN=%k\nANTHROPIC_MODEL=%m\n"
     "ANTHROPIC_DEFAULT_HAIKU_MODEL=%m\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n"},
    {"codex", "the top of ~/.codex/config.toml", true,
     "model = \"%m\"\nmodel_provider = \"mote\"\n\n[model_providers.mote]\nname = \"mote\"\n"
     "base_url = \"%u/v1\"\nwire_api = \"responses\"\n%e"},
    {"opencode", "opencode.json of a project, or ~/.config/opencode/opencode.json", true,
     "{\n  \"model\": \"mote/%m\",\n"
     "  \"provider\": {\n    \"mote\": {\n      \"npm\": \"@ai-sdk/openai-compatible\",\n"
     "      \"name\": \"mote\",\n      \"options\": {\"baseURL\": \"%u/v1\", \"apiKey\": \"%k\"},\n"
     "      \"models\": {\"%m\": {\"name\": \"%m\"}}\n    }\n  }\n}\n"},
    {"cline", "the settings of Cline", false,
     "API Provider: OpenAI Compatible\nBase URL: %u/v1\nAPI Key: %k\nModel ID: %m\n"},
    {"continue", "~/.continue/config.yaml", true,
     "name: mote\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: mote\n    provider: openai\n"
     "    model: \"%m\"\n    apiBase: \"%u/v1\"\n    apiKey: \"%k\"\n    roles: [chat, edit, "
     "apply]\n"},
    {"openwebui", NULL, false, "OPENAI_API_BASE_URL=%u/v1\nOPENAI_API_KEY=%k\n"},
    {"openai", NULL, false, "OPENAI_BASE_URL=%u/v1\nOPENAI_API_KEY=%k\n"},
    {"anthropic", NULL, false, "ANTHROPIC_BASE_URL=%u\nANTHROPIC_API_KEY=%k\n"},
    {"ollama", NULL, false, "OLLAMA_HOST=%u\nOLLAMA_API_KEY=%k\n"},
};

enum { N_CLIENTS = sizeof clients / sizeof *clients };

/* Codex takes no key from its file, only the name of a variable. */
static const char codex_key[] = "# the variable of the environment that holds the key\n"
                                "env_key = \"MOTE_API_KEY\"\n";

typedef struct values {
    char url[CLIENT_HOST_BYTES + 32];
    const char *key;   /* NULL: none is needed */
    const char *model; /* NULL: the server's first */
} values;

/* ---- filling in ---- */

static void put_value(strbuf *b, const char *text, bool quoted)
{
    for (; *text != '\0'; text++) {
        if (quoted && (*text == '"' || *text == '\\'))
            strbuf_byte(b, '\\');
        strbuf_byte(b, *text);
    }
}

/* Clients want a key even where none is needed; "default" is a name that every server answers to.
 */
static void fill(strbuf *b, str text, const values *v, bool quoted)
{
    for (size_t i = 0; i < text.n; i++) {
        const char what = text.p[i] == '%' && i + 1 < text.n ? text.p[++i] : '\0';
        if (what == 'u')
            put_value(b, v->url, quoted);
        else if (what == 'k')
            put_value(b, v->key != NULL ? v->key : "mote", quoted);
        else if (what == 'm')
            put_value(b, v->model != NULL ? v->model : "default", quoted);
        else if (what == 'e')
            strbuf_text(b, v->key != NULL ? codex_key : "");
        else
            strbuf_byte(b, text.p[i]);
    }
}

/* Between single quotes as the shell wants them. */
static void put_quoted(cli_out *o, str value, uint64_t shell)
{
    out_text(o, "'");
    for (size_t i = 0; i < value.n; i++) {
        const char c = value.p[i];
        if (c == '\'')
            out_text(o, shell == SHELL_SH ? "'\\''" : shell == SHELL_FISH ? "\\'" : "''");
        else if (c == '\\' && shell == SHELL_FISH)
            out_text(o, "\\\\");
        else
            out_write(o, &c, 1);
    }
    out_text(o, "'");
}

static void put_variable(cli_out *o, json *j, const char *name, str value, uint64_t shell)
{
    static const char *const before[] = {"export ", "set -gx ", "$env:"};
    static const char *const after[] = {"=", " ", " = "};
    if (j != NULL) {
        json_key(j, name);
        json_bytes(j, value.p, value.n);
        return;
    }
    out_printf(o, "%s%s%s", before[shell], name, after[shell]);
    put_quoted(o, value, shell);
    out_text(o, "\n");
}

/* A variable for a model that was not chosen is left out: the client's own name will do. */
static bool put_variables(cli_out *o, json *j, const client *c, const values *v, uint64_t shell)
{
    strbuf value = {0};
    for (const char *line = c->text; *line != '\0' && !value.failed;) {
        char name[48];
        const size_t n = strcspn(line, "="), end = strcspn(line, "\n");
        const str form = {line + n + 1, end - n - 1};
        snprintf(name, sizeof name, "%.*s", (int)n, line);
        value.n = 0;
        fill(&value, form, v, false);
        if (v->model != NULL || !str_is(form, "%m"))
            put_variable(o, j, name, strbuf_view(&value), shell);
        line += end + 1;
    }
    const bool good = !value.failed;
    strbuf_fini(&value);
    return good;
}

static bool put_settings(cli_out *o, json *j, const client *c, const values *v)
{
    strbuf text = {0};
    fill(&text, str_of(c->text), v, c->quoted);
    if (j != NULL)
        json_bytes(j, text.p, text.n);
    else
        out_write(o, text.p, text.n);
    const bool good = !text.failed;
    strbuf_fini(&text);
    return good;
}

/* ---- the command ---- */

static const client *find_client(const char *name)
{
    for (size_t i = 0; i < N_CLIENTS; i++)
        if (strcmp(clients[i].name, name) == 0)
            return &clients[i];
    char known[256] = "";
    for (size_t i = 0, n = 0; i < N_CLIENTS; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
                              i == 0               ? ""
                              : i + 1 == N_CLIENTS ? " or "
                                                   : ", ",
                              clients[i].name);
    msg_usage("nothing is known of %.60s (%s)", name, known);
    return NULL;
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* The address of a server that listens everywhere is none to connect to from here. */
static int find_values(values *v, const server_client *r, const char *model)
{
    const bool everywhere = strcmp(r->host, "0.0.0.0") == 0 || strcmp(r->host, "::") == 0;
    const char *host = everywhere ? "127.0.0.1" : r->host;
    const bool v6 = strchr(host, ':') != NULL;
    if (r->is_unix)
        return msg_usage("clients cannot reach %s; give the --host HOST:PORT of a listener",
                         r->host);
    if (!printable(host) || (model != NULL && !printable(model)))
        return msg_usage("control characters have no place in an address or a name");
    snprintf(v->url, sizeof v->url, "%s%s%s%s:%s", "http://", v6 ? "[" : "", host, v6 ? "]" : "",
             r->port);
    v->key = r->key[0] != '\0' ? r->key : NULL;
    v->model = model;
    return CLI_DONE;
}

static bool print_json(cli_out *o, const client *c, const values *v)
{
    json j = {.to = o};
    bool good;
    json_begin_object(&j);
    json_key_text(&j, "client", c->name);
    json_key_text(&j, "place", c->place);
    json_key(&j, c->place == NULL ? "variables" : "settings");
    if (c->place == NULL) {
        json_begin_object(&j);
        good = put_variables(o, &j, c, v, SHELL_SH);
        json_end_object(&j);
    } else {
        good = put_settings(o, &j, c, v);
    }
    json_end_object(&j);
    return good;
}

static int run(const cli_call *call)
{
    const env_options *f = call->options;
    const client *c = find_client(call->words[0]);
    server_client r;
    values v;
    bool good;
    if (c == NULL)
        return CLI_USAGE;
    int code = client_open(&r, &f->remote);
    if (code == CLI_DONE)
        code = find_values(&v, &r, f->model);
    if (code != CLI_DONE)
        return code;
    if (call->common.json)
        good = print_json(call->out, c, &v);
    else if (c->place == NULL)
        good = put_variables(call->out, NULL, c, &v, f->shell);
    else
        good = put_settings(call->out, NULL, c, &v);
    if (!good)
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the text");
    if (c->place != NULL)
        msg_note("this belongs into %s", c->place);
    return CLI_DONE;
}

const cli_command cmd_env = {
    .name = "env",
    .section = "Server",
    .summary = "what to tell other programs so that they ask a server",
    .usage = "CLIENT",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(env_options),
    .about = "Prints the variables or settings that point CLIENT at a `mote serve`: claude, codex, "
             "opencode, cline, continue, openwebui, or what is made with the libraries of openai, "
             "anthropic or ollama.\n"
             "Nothing is written and no server is asked. If there is a key, it is printed.",
    .examples = "eval \"$(mote env claude)\"\nmote env codex --model qwen3.5-4b-q4_k_m\n"
                "mote env openai --shell fish | source",
    .run = run,
};
