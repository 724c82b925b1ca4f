/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_env.c - `mote env`: prints the settings that point other programs at a `mote serve`.
 *
 * Each client is a row of a table. Its text is shell variables, or settings for a file or a dialog.
 * %u stands for the server's address, %k for the API key, %m for the model, %c for the context. The
 * command neither connects to the server nor writes files.
 *
 * A coding client sends its system prompt and tools with every request, many thousand tokens, and
 * then whole files. Its row has the context it needs; the note after the settings has the command
 * for a server with it.
 */
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/serve/server_client.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

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
     .once = true,
     .at = offsetof(env_options, shell),
     .help = "syntax of the variables"},
    {.name = "model",
     .kind = FLAG_TEXT,
     .value = "NAME",
     .once = true,
     .at = offsetof(env_options, model),
     .help = "model name, as mote ps prints it",
     .shown = "of a server on this machine: the newest installed model"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Output", flags, 0),
    CLIENT_FLAG_GROUP(offsetof(env_options, remote)),
};

typedef struct env_client {
    const char *name;
    const char *place; /* where the settings go; NULL: variables, one per line */
    bool quoted;       /* values of the settings are in double quotes */
    const char *text;
    uint32_t first_prompt; /* tokens of its system prompt and tools, about; 0: few */
    uint32_t context;      /* tokens it needs to work; 0: any */
} env_client;

/* The KV cache is larger than the context, so that side requests, such as titles and subagents, do
 * not evict the prefix of the main conversation. */
static uint32_t client_kv_tokens(const env_client *c)
{
    return c->context / 2 * 3;
}

static const env_client clients[] = {
    {"claude", NULL, false,
     "ANTHROPIC_BASE_URL=%u\nANTHROPIC_AUTH_TOKEN=%k\nANTHROPIC_MODEL=%m\n"
     "ANTHROPIC_DEFAULT_HAIKU_MODEL=%m\nCLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n"
     "CLAUDE_CODE_AUTO_COMPACT_WINDOW=%c\n",
     21000, 65536},
    {"codex", "the top of ~/.codex/config.toml", true,
     "model = \"%m\"\nmodel_provider = \"mote\"\nmodel_context_window = %c\n\n"
     "[model_providers.mote]\nname = \"mote\"\nbase_url = \"%u/v1\"\nwire_api = \"responses\"\n%e",
     13000, 65536},
    {"opencode", "opencode.json of a project, or ~/.config/opencode/opencode.json", true,
     "{\n  \"model\": \"mote/%m\",\n"
     "  \"provider\": {\n    \"mote\": {\n      \"npm\": \"@ai-sdk/openai-compatible\",\n"
     "      \"name\": \"mote\",\n      \"options\": {\"baseURL\": \"%u/v1\", \"apiKey\": \"%k\"},\n"
     "      \"models\": {\"%m\": {\"name\": \"%m\", \"limit\": {\"context\": %c, \"output\": "
     "8192}}}\n"
     "    }\n  }\n}\n",
     10000, 65536},
    {"cline", "the settings of Cline", false,
     "API Provider: OpenAI Compatible\nBase URL: %u/v1\nAPI Key: %k\nModel ID: %m\n"
     "Context Window Size: %c\n",
     14000, 32768},
    {"continue", "~/.continue/config.yaml", true,
     "name: mote\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: mote\n    provider: openai\n"
     "    model: \"%m\"\n    apiBase: \"%u/v1\"\n    apiKey: \"%k\"\n    roles: [chat, edit, "
     "apply]\n",
     0, 0},
    {"openwebui", NULL, false, "OPENAI_API_BASE_URL=%u/v1\nOPENAI_API_KEY=%k\n", 0, 0},
    {"openai", NULL, false, "OPENAI_BASE_URL=%u/v1\nOPENAI_API_KEY=%k\n", 0, 0},
    {"anthropic", NULL, false, "ANTHROPIC_BASE_URL=%u\nANTHROPIC_API_KEY=%k\n", 0, 0},
    {"ollama", NULL, false, "OLLAMA_HOST=%u\nOLLAMA_API_KEY=%k\n", 0, 0},
};

enum { N_CLIENTS = sizeof clients / sizeof *clients };

/* Codex reads no key from its file, only the name of an environment variable. */
static const char codex_key[] = "# the environment variable that holds the API key\n"
                                "env_key = \"MOTE_API_KEY\"\n";

typedef struct env_values {
    char url[CLIENT_HOST_BYTES + 32];
    const char *key;                     /* NULL: none */
    const char *model;                   /* NULL: unknown */
    uint32_t context;                    /* of the client */
    char serve[CLIENT_HOST_BYTES + 160]; /* the command for a server with it; "": any server */
} env_values;

/* ---- filling in values ---- */

static void env_put_value(strbuf *b, const char *text, bool quoted)
{
    for (; *text != '\0'; text++) {
        if (quoted && (*text == '"' || *text == '\\'))
            strbuf_byte(b, '\\');
        strbuf_byte(b, *text);
    }
}

/* Clients require a key even if the server does not. "default" is accepted as a model name by every
 * server. */
static void env_fill(strbuf *b, str text, const env_values *v, bool quoted)
{
    for (size_t i = 0; i < text.n; i++) {
        const char what = text.p[i] == '%' && i + 1 < text.n ? text.p[++i] : '\0';
        if (what == 'u')
            env_put_value(b, v->url, quoted);
        else if (what == 'k')
            env_put_value(b, v->key != NULL ? v->key : "mote", quoted);
        else if (what == 'm')
            env_put_value(b, v->model != NULL ? v->model : "default", quoted);
        else if (what == 'e')
            strbuf_text(b, v->key != NULL ? codex_key : "");
        else if (what == 'c')
            jw_uint(b, v->context);
        else
            strbuf_byte(b, text.p[i]);
    }
}

/* Single quotes, escaped for the shell. */
static void env_put_quoted(cli_out *o, str value, uint64_t shell)
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

static void env_put_variable(cli_out *o, strbuf *j, const char *name, str value, uint64_t shell)
{
    static const char *const before[] = {"export ", "set -gx ", "$env:"};
    static const char *const after[] = {"=", " ", " = "};
    if (j != NULL) {
        jw_key(j, name);
        jw_str(j, (str){value.p, value.n});
        return;
    }
    out_printf(o, "%s%s%s", before[shell], name, after[shell]);
    env_put_quoted(o, value, shell);
    out_text(o, "\n");
}

/* Without a model, its variables are omitted: the client keeps its own default. */
static bool env_put_variables(cli_out *o, strbuf *j, const env_client *c, const env_values *v,
                              uint64_t shell)
{
    strbuf value = {0};
    for (const char *line = c->text; *line != '\0' && !value.failed;) {
        char name[48];
        const size_t n = strcspn(line, "="), end = strcspn(line, "\n");
        const str value_format = {line + n + 1, end - n - 1};
        snprintf(name, sizeof name, "%.*s", (int)n, line);
        value.n = 0;
        env_fill(&value, value_format, v, false);
        if (v->model != NULL || !str_is(value_format, "%m"))
            env_put_variable(o, j, name, strbuf_view(&value), shell);
        line += end + 1;
    }
    const bool good = !value.failed;
    strbuf_fini(&value);
    return good;
}

static bool env_put_settings(cli_out *o, strbuf *j, const env_client *c, const env_values *v)
{
    strbuf text = {0};
    env_fill(&text, str_of(c->text), v, c->quoted);
    if (j != NULL)
        jw_str(j, (str){text.p, text.n});
    else
        out_write(o, text.p, text.n);
    const bool good = !text.failed;
    strbuf_fini(&text);
    return good;
}

/* ---- the command ---- */

static const env_client *env_find_client(const char *name)
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
    msg_usage("unknown client %.60s; supported: %s", name, known);
    return NULL;
}

static bool env_is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* A wildcard address cannot be connected to; localhost is used instead. */
static int env_find_values(env_values *v, const server_client *r, const char *model)
{
    const bool everywhere = strcmp(r->host, "0.0.0.0") == 0 || strcmp(r->host, "::") == 0;
    const char *host = everywhere ? "127.0.0.1" : r->host;
    const bool v6 = strchr(host, ':') != NULL;
    if (r->is_unix)
        return msg_usage("clients cannot connect to the UNIX socket %s; give --host HOST:PORT",
                         r->host);
    if (!env_is_printable(host) || (model != NULL && !env_is_printable(model)))
        return msg_usage("address or model name contains control characters");
    snprintf(v->url, sizeof v->url, "%s%s%s%s:%s", "http://", v6 ? "[" : "", host, v6 ? "]" : "",
             r->port);
    v->key = r->key[0] != '\0' ? r->key : NULL;
    v->model = model;
    return CLI_DONE;
}

/* The default address needs no --listen. */
static void env_find_serve(env_values *v, const env_client *c, const server_client *r)
{
    const bool v6 = strchr(r->host, ':') != NULL;
    const bool usual = strcmp(r->host, "127.0.0.1") == 0 && strcmp(r->port, "11435") == 0;
    v->context = c->context;
    v->serve[0] = '\0';
    if (c->context == 0)
        return;
    const int n = snprintf(v->serve, sizeof v->serve, "mote serve --context %u --kv-tokens %u",
                           c->context, client_kv_tokens(c));
    if (!usual)
        snprintf(v->serve + n, sizeof v->serve - (size_t)n, " --listen %s%s%s:%s", v6 ? "[" : "",
                 r->host, v6 ? "]" : "", r->port);
}

static bool env_is_local(const server_client *r)
{
    static const char *const names[] = {"127.0.0.1", "::1", "localhost", "0.0.0.0", "::"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(r->host, names[i]) == 0)
            return true;
    return false;
}

/* The model without --model, as for mote chat. A server without MODEL knows it by this name, one
 * with MODEL uses its first model for every name. */
static const char *env_default_model(char name[FOUND_NAME_BYTES], const env_client *c,
                                     const server_client *r)
{
    if (strstr(c->text, "%m") == NULL || !env_is_local(r) || !find_newest_model(name) ||
        !env_is_printable(name))
        return NULL;
    msg_note("the model is %s (--model NAME selects another)", name);
    return name;
}

static void env_note_context(const env_client *c, const env_values *v)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (c->context == 0)
        return;
    msg_note("%s sends about %s before the first message and needs a context of %s or more:",
             c->name, text_counted(a, c->first_prompt, "token"), text_count(b, c->context));
    msg_note("  %s", v->serve);
}

static int env_write_json(cli_out *o, const env_client *c, const env_values *v)
{
    strbuf j = {0};
    bool good;
    jw_open(&j, '{');
    jw_key_text(&j, "client", c->name);
    jw_key_text(&j, "place", c->place);
    if (c->context > 0) {
        jw_key_uint(&j, "context", c->context);
        jw_key_text(&j, "serve", v->serve);
    }
    jw_key(&j, c->place == NULL ? "variables" : "settings");
    if (c->place == NULL) {
        jw_open(&j, '{');
        good = env_put_variables(o, &j, c, v, SHELL_SH);
        jw_close(&j, '}');
    } else {
        good = env_put_settings(o, &j, c, v);
    }
    jw_close(&j, '}');
    j.failed |= !good;
    return out_json(o, &j);
}

static int env_run(const cli_call *call)
{
    const env_options *f = call->options;
    const env_client *c = env_find_client(call->words[0]);
    server_client r;
    env_values v;
    char newest[FOUND_NAME_BYTES];
    bool good = true;
    if (c == NULL)
        return CLI_USAGE;
    int code = client_open(&r, &f->remote);
    if (code == CLI_DONE)
        code =
            env_find_values(&v, &r, f->model != NULL ? f->model : env_default_model(newest, c, &r));
    if (code != CLI_DONE)
        return code;
    env_find_serve(&v, c, &r);
    if (call->common.json)
        code = env_write_json(call->out, c, &v);
    else if (c->place == NULL)
        good = env_put_variables(call->out, NULL, c, &v, f->shell);
    else
        good = env_put_settings(call->out, NULL, c, &v);
    if (!good)
        return input_no_memory();
    if (code == CLI_DONE && c->place != NULL)
        msg_note("put this in %s", c->place);
    if (code == CLI_DONE)
        env_note_context(c, &v);
    return code;
}

const cli_command cmd_env = {
    .name = "env",
    .section = "Server",
    .summary = "settings that point other programs at a server",
    .usage = "CLIENT",
    .arguments = "claude|codex|opencode|cline|continue|openwebui|openai|anthropic|ollama",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(env_options),
    .about =
        "Prints the variables or settings that point CLIENT at a `mote serve`: claude, codex, "
        "opencode, cline, continue, openwebui, or the client libraries openai, anthropic and "
        "ollama.\n"
        "For coding clients it also prints, on stderr, the context they need and the mote serve "
        "command for it.\n"
        "Without --model, the model is the newest installed one if the server is on this machine.\n"
        "It writes no file and does not connect to the server. An API key is printed.",
    .examples = "eval \"$(mote env claude)\"\nmote env codex --model qwen3.5:4b\n"
                "mote env openai --shell fish | source",
    .run = env_run,
};
