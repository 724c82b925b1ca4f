/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - see routes.h. The rows of one folder of paths stand together. */
#include "server/routes.h"

#include "server/handlers.h"

static const route table[] = {
    {HTTP_GET | HTTP_HEAD, "/", PRIVILEGE_PUBLIC, API_OPENAI, "root", handle_root},
    {HTTP_GET | HTTP_HEAD, "/health", PRIVILEGE_PUBLIC, API_OPENAI, "health", handle_health},
    {HTTP_GET | HTTP_HEAD, "/v1/health", PRIVILEGE_PUBLIC, API_OPENAI, "health", handle_health},

    {HTTP_POST, "/v1/chat/completions", PRIVILEGE_INFER, API_OPENAI, "chat",
     handle_chat_completions},
    {HTTP_POST, "/chat/completions", PRIVILEGE_INFER, API_OPENAI, "chat", handle_chat_completions},
    {HTTP_POST, "/v1/chat/completions/input_tokens", PRIVILEGE_INFER, API_OPENAI, "chat",
     handle_chat_input_tokens},
    {HTTP_POST, "/v1/chat/completions/control", PRIVILEGE_INFER, API_OPENAI, "chat",
     handle_chat_control},
    {HTTP_POST, "/v1/completions", PRIVILEGE_INFER, API_OPENAI, "completions", handle_completions},
    {HTTP_GET | HTTP_HEAD, "/v1/models", PRIVILEGE_INFER, API_OPENAI, "models", handle_models},
    {HTTP_GET | HTTP_HEAD, "/v1/models/*", PRIVILEGE_INFER, API_OPENAI, "models", handle_model},
    {HTTP_POST, "/v1/embeddings", PRIVILEGE_INFER, API_OPENAI, "embeddings", handle_embeddings},

    {HTTP_POST, "/v1/messages", PRIVILEGE_INFER, API_ANTHROPIC, "messages", handle_messages},
    {HTTP_POST, "/v1/messages/count_tokens", PRIVILEGE_INFER, API_ANTHROPIC, "messages",
     handle_count_tokens},

    {HTTP_POST, "/api/chat", PRIVILEGE_INFER, API_OLLAMA, "ollama_chat", handle_ollama_chat},
    {HTTP_POST, "/api/generate", PRIVILEGE_INFER, API_OLLAMA, "ollama_generate",
     handle_ollama_generate},
    {HTTP_POST, "/api/embed", PRIVILEGE_INFER, API_OLLAMA, "embeddings", handle_ollama_embed},
    {HTTP_POST, "/api/embeddings", PRIVILEGE_INFER, API_OLLAMA, "embeddings",
     handle_ollama_embeddings},
    {HTTP_GET | HTTP_HEAD, "/api/version", PRIVILEGE_INFER, API_OLLAMA, "models",
     handle_ollama_version},
    {HTTP_GET | HTTP_HEAD, "/api/tags", PRIVILEGE_INFER, API_OLLAMA, "models", handle_ollama_tags},
    {HTTP_GET | HTTP_HEAD, "/api/ps", PRIVILEGE_INFER, API_OLLAMA, "models", handle_ollama_ps},
    {HTTP_POST, "/api/show", PRIVILEGE_INFER, API_OLLAMA, "models", handle_ollama_show},
    {HTTP_POST, "/api/pull", PRIVILEGE_INFER, API_OLLAMA, "models", handle_ollama_pull},
    {HTTP_DELETE, "/api/delete", PRIVILEGE_ADMIN, API_OLLAMA, "models", handle_ollama_delete},
    {HTTP_POST, "/api/create", PRIVILEGE_ADMIN, API_OLLAMA, "models", handle_ollama_unsupported},
    {HTTP_POST, "/api/copy", PRIVILEGE_ADMIN, API_OLLAMA, "models", handle_ollama_unsupported},
    {HTTP_POST, "/api/push", PRIVILEGE_ADMIN, API_OLLAMA, "models", handle_ollama_unsupported},
    {HTTP_HEAD | HTTP_POST, "/api/blobs/*", PRIVILEGE_ADMIN, API_OLLAMA, "models",
     handle_ollama_unsupported},

    {HTTP_GET | HTTP_HEAD, "/props", PRIVILEGE_INFER, API_OPENAI, "extras", handle_props},
    {HTTP_POST, "/props", PRIVILEGE_ADMIN, API_OPENAI, "extras", handle_props_change},
    {HTTP_GET | HTTP_HEAD, "/slots", PRIVILEGE_INFER, API_OPENAI, "extras", handle_slots},
    {HTTP_POST, "/tokenize", PRIVILEGE_INFER, API_OPENAI, "extras", handle_tokenize},
    {HTTP_POST, "/detokenize", PRIVILEGE_INFER, API_OPENAI, "extras", handle_detokenize},
    {HTTP_POST, "/apply-template", PRIVILEGE_INFER, API_OPENAI, "extras", handle_apply_template},
    {HTTP_GET | HTTP_HEAD, "/v1/requests/*", PRIVILEGE_INFER, API_OPENAI, "extras",
     handle_request_figures},
    {HTTP_POST, "/v1/score", PRIVILEGE_INFER, API_OPENAI, "score", handle_score},
    {HTTP_POST, "/v1/rerank", PRIVILEGE_INFER, API_OPENAI, "score", handle_rerank},
    {HTTP_POST, "/rerank", PRIVILEGE_INFER, API_OPENAI, "score", handle_rerank},
    {HTTP_POST, "/infill", PRIVILEGE_INFER, API_OPENAI, "infill", handle_infill},
    {HTTP_GET | HTTP_DELETE, "/v1/cache", PRIVILEGE_ADMIN, API_OPENAI, "extras",
     handle_not_offered},
    {HTTP_POST | HTTP_DELETE, "/v1/cache/*", PRIVILEGE_ADMIN, API_OPENAI, "extras",
     handle_not_offered},
    {HTTP_POST, "/v1/unload", PRIVILEGE_ADMIN, API_OPENAI, "extras", handle_not_offered},
};

/* Of every path, so that a browser may ask before it asks; it is not in the table, because
 * its paths are all of them. */
static const route options_route = {HTTP_OPTIONS, "*",       PRIVILEGE_PUBLIC,
                                    API_OPENAI,   "options", handle_options};

static bool matches(const route *r, str path, str *tail)
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

const route *route_find(str path, http_method method, str *tail, unsigned *allow)
{
    *allow = 0;
    if (method == HTTP_OPTIONS) {
        *tail = (str){"", 0};
        return &options_route;
    }
    const route *wild = NULL;
    str wild_tail = {"", 0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!matches(&table[i], path, tail))
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

const route *route_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

static bool begins(str path, const char *with)
{
    size_t n = strlen(with);
    return path.n >= n && memcmp(path.p, with, n) == 0;
}

api_dialect route_dialect_of(str path)
{
    if (begins(path, "/api/"))
        return API_OLLAMA;
    return begins(path, "/v1/messages") ? API_ANTHROPIC : API_OPENAI;
}
