/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - the route table. See routes.h. */
#include "server/api/routes.h"

#include "server/api/anthropic/anthropic.h"
#include "server/api/native/native.h"
#include "server/api/ollama/ollama.h"
#include "server/api/openai/openai.h"
#include "server/batch/batch_api.h"

/* Short names, so that a row fits on a line. */
#define GET     (HTTP_GET | HTTP_HEAD)
#define POST    HTTP_POST
#define DELETE  HTTP_DELETE
#define PUBLIC  PRIVILEGE_PUBLIC
#define INFER   PRIVILEGE_INFER
#define METRICS PRIVILEGE_METRICS
#define ADMIN   PRIVILEGE_ADMIN
#define OWN     PRIVILEGE_OWN

/* clang-format off */
static const route table[] = {
    {GET,    "/",                                    PUBLIC, API_OPENAI,    "root",            handle_root},
    {GET,    "/web/*",                               PUBLIC, API_OPENAI,    "web",             handle_web},
    {GET,    "/health",                              PUBLIC, API_OPENAI,    "health",          handle_health},
    {GET,    "/v1/health",                           PUBLIC, API_OPENAI,    "health",          handle_health},

    {POST,   "/v1/chat/completions",                 INFER,  API_OPENAI,    "chat",            handle_chat_completions},
    {POST,   "/chat/completions",                    INFER,  API_OPENAI,    "chat",            handle_chat_completions},
    {POST,   "/v1/chat/completions/input_tokens",    INFER,  API_OPENAI,    "count",           handle_chat_input_tokens},
    {POST,   "/v1/chat/completions/control",         INFER,  API_OPENAI,    "control",         handle_chat_control},
    {POST,   "/v1/completions",                      INFER,  API_OPENAI,    "completions",     handle_completions},
    {GET,    "/v1/models",                           INFER,  API_OPENAI,    "models",          handle_models},
    {GET,    "/v1/models/*",                         INFER,  API_OPENAI,    "models",          handle_model},
    {POST,   "/v1/embeddings",                       INFER,  API_OPENAI,    "embeddings",      handle_embeddings},
    {POST,   "/v1/responses",                        INFER,  API_OPENAI,    "responses",       handle_responses},
    {POST,   "/v1/responses/input_tokens",           INFER,  API_OPENAI,    "count",           handle_responses_input_tokens},
    {GET | DELETE | POST, "/v1/responses/*",         INFER,  API_OPENAI,    "responses",       handle_response},

    {POST,   "/v1/files",                            INFER,  API_OPENAI,    "files",           handle_file_upload},
    {GET,    "/v1/files",                            INFER,  API_OPENAI,    "files",           handle_files},
    {GET | DELETE, "/v1/files/*",                    INFER,  API_OPENAI,    "files",           handle_file},
    {POST,   "/v1/batches",                          INFER,  API_OPENAI,    "batches",         handle_batch_create},
    {GET,    "/v1/batches",                          INFER,  API_OPENAI,    "batches",         handle_batches},
    {GET | POST, "/v1/batches/*",                    INFER,  API_OPENAI,    "batches",         handle_batch},

    {POST,   "/v1/messages",                         INFER,  API_ANTHROPIC, "messages",        handle_messages},
    {POST,   "/v1/messages/count_tokens",            INFER,  API_ANTHROPIC, "count",           handle_count_tokens},

    {POST,   "/api/chat",                            INFER,  API_OLLAMA,    "ollama-chat",     handle_ollama_chat},
    {POST,   "/api/generate",                        INFER,  API_OLLAMA,    "ollama-generate", handle_ollama_generate},
    {GET,    "/api/version",                         INFER,  API_OLLAMA,    "ollama-models",   handle_ollama_version},
    {GET,    "/api/tags",                            INFER,  API_OLLAMA,    "ollama-models",   handle_ollama_tags},
    {GET,    "/api/ps",                              INFER,  API_OLLAMA,    "ollama-models",   handle_ollama_ps},
    {POST,   "/api/show",                            INFER,  API_OLLAMA,    "ollama-models",   handle_ollama_show},
    {POST,   "/api/pull",                            ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_pull},
    {DELETE, "/api/delete",                          ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_delete},
    {POST,   "/api/create",                          ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_unsupported},
    {POST,   "/api/copy",                            ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_unsupported},
    {POST,   "/api/push",                            ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_unsupported},
    {POST,   "/api/blobs/*",                         ADMIN,  API_OLLAMA,    "ollama-manage",   handle_ollama_unsupported},
    {POST,   "/api/embed",                           INFER,  API_OLLAMA,    "embeddings",      handle_ollama_embed},
    {POST,   "/api/embeddings",                      INFER,  API_OLLAMA,    "embeddings",      handle_ollama_embeddings},

    {GET,    "/metrics",                             METRICS, API_OPENAI,   "metrics",         handle_metrics},
    {GET,    "/v1/status",                           METRICS, API_OPENAI,   "metrics",         handle_status},

    {GET,    "/props",                               INFER,  API_OPENAI,    "props",           handle_props},
    {POST,   "/props",                               ADMIN,  API_OPENAI,    "props",           handle_props_change},
    {GET,    "/slots",                               METRICS, API_OPENAI,   "slots",           handle_slots},
    {GET,    "/v1/requests/last",                    OWN,    API_OPENAI,    "requests",        handle_request_last},
    {GET,    "/v1/requests/*",                       INFER,  API_OPENAI,    "requests",        handle_request_stats},
    {POST,   "/tokenize",                            INFER,  API_OPENAI,    "tokenize",        handle_tokenize},
    {POST,   "/detokenize",                          INFER,  API_OPENAI,    "tokenize",        handle_detokenize},
    {GET,    "/tokenizer_info",                      INFER,  API_OPENAI,    "tokenize",        handle_tokenizer_info},
    {POST,   "/apply-template",                      INFER,  API_OPENAI,    "template",        handle_apply_template},
    {POST,   "/v1/score",                            INFER,  API_OPENAI,    "score",           handle_score},
    {POST,   "/v1/rerank",                           INFER,  API_OPENAI,    "rerank",          handle_rerank},
    {POST,   "/rerank",                              INFER,  API_OPENAI,    "rerank",          handle_rerank},
    {POST,   "/infill",                              INFER,  API_OPENAI,    "infill",          handle_infill},
    {GET | DELETE, "/v1/cache",                      OWN,    API_OPENAI,    "cache",           handle_cache},
    {POST,   "/v1/cache/pin",                        OWN,    API_OPENAI,    "cache",           handle_cache_pin},
    {DELETE, "/v1/cache/*",                          OWN,    API_OPENAI,    "cache",           handle_cache_prefix},
    {POST,   "/v1/unload",                           ADMIN,  API_OPENAI,    "cache",           handle_unload},
};
/* clang-format on */

/* CORS preflight of every path. */
static const route options_route = {HTTP_OPTIONS, "*",       PRIVILEGE_PUBLIC,
                                    API_OPENAI,   "options", handle_options};

static bool route_matches(const route *r, str path, str *tail)
{
    size_t n = strlen(r->path);
    *tail = (str){"", 0};
    if (n >= 2 && r->path[n - 2] == '/' && r->path[n - 1] == '*') {
        if (path.n < n || memcmp(path.p, r->path, n - 1) != 0)
            return false;
        *tail = (str){path.p + n - 1, path.n - n + 1};
        return true;
    }
    return str_is(path, r->path);
}

/* Without empty and dot segments, which the table has none of. A proxy may resolve them and would
 * then see another path than this server. */
static bool path_is_plain(str path)
{
    for (size_t i = 0; i < path.n; i++) {
        if (path.p[i] != '/' || i + 1 == path.n)
            continue;
        const str rest = {path.p + i + 1, path.n - i - 1};
        size_t n = 0;
        while (n < rest.n && rest.p[n] != '/')
            n++;
        const str segment = {rest.p, n};
        if (n == 0 || str_is(segment, ".") || str_is(segment, ".."))
            return false;
    }
    return true;
}

const route *route_find(str path, http_method method, str *tail, unsigned *allow)
{
    *allow = 0;
    if (method == HTTP_OPTIONS) {
        *tail = (str){"", 0};
        return &options_route;
    }
    const route *wild = NULL;
    str wild_tail = {"", 0};
    *tail = wild_tail;
    if (!path_is_plain(path))
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!route_matches(&table[i], path, tail))
            continue;
        *allow |= table[i].methods;
        if (!(table[i].methods & method))
            continue;
        if (tail->n == 0)
            return &table[i];
        if (wild == NULL) {
            wild = &table[i];
            wild_tail = *tail;
        }
    }
    *tail = wild_tail;
    return wild;
}

bool route_is_upload(const route *r)
{
    return r->handler == handle_file_upload;
}

const route *route_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

static bool path_begins(str path, const char *with)
{
    size_t n = strlen(with);
    return path.n >= n && memcmp(path.p, with, n) == 0;
}

api_dialect route_dialect_of(str path)
{
    if (path_begins(path, "/api/"))
        return API_OLLAMA;
    return path_begins(path, "/v1/messages") ? API_ANTHROPIC : API_OPENAI;
}
