/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_context.c - the `context` of generate: the ids of a conversation, and back.
 *
 * A reply of generate carries the ids of its whole turn, and the next request may bring them in
 * place of messages. They are cut at the control tokens into the messages they were made from;
 * answers keep their ids, so that what is rendered is what was read before.
 */
#include "server/api/ollama/ollama.h"

typedef struct walk {
    const mote_model *model;
    mote_token start, end; /* of a turn */
    const mote_token *ids; /* [n] */
    size_t n, at;
} walk;

/* A turn: <|im_start|> role \n content <|im_end|>. */
typedef struct turn_ids {
    const char *role; /* one of the constants below */
    const mote_token *ids;
    size_t n; /* without what surrounds them */
} turn_ids;

static const char *const roles[] = {"system", "user", "assistant"};

static void put_text(const walk *w, const mote_token *ids, size_t n, strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const char *text = mote_token_bytes(w->model, ids[i], &bytes);
        strbuf_put(out, (str){text, bytes});
    }
}

/* How many ids spell `role` and the line end after it; 0: they spell something else. */
static size_t role_ids(const walk *w, const mote_token *ids, size_t n, const char *role)
{
    const size_t wanted = strlen(role) + 1;
    strbuf text = {0};
    size_t i = 0;
    while (i < n && text.n < wanted)
        put_text(w, &ids[i++], 1, &text);
    const bool is =
        text.n >= wanted && memcmp(text.p, role, wanted - 1) == 0 && text.p[wanted - 1] == '\n';
    strbuf_fini(&text);
    return is ? i : 0;
}

/* false: there are no more turns, or these are not the ids of a conversation (*bad). */
static bool next_turn(walk *w, turn_ids *out, bool *bad)
{
    *bad = false;
    if (w->at == w->n)
        return false;
    size_t end = ++w->at;
    *bad = w->ids[w->at - 1] != w->start;
    while (end < w->n && w->ids[end] != w->end)
        end++;
    out->role = NULL;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (role_ids(w, w->ids + w->at, end - w->at, roles[i]) > 0)
            out->role = roles[i];
    *bad |= out->role == NULL;
    out->ids = w->ids + w->at;
    out->n = end - w->at;
    w->at = end;
    while (w->at < w->n && w->ids[w->at] != w->start)
        w->at++;
    return !*bad;
}

static bool open_walk(walk *w, request *a, const json_node *context, http_error *error)
{
    const chat_context *chat_ctx = served_model_chat_context(a->served);
    size_t i = 0;
    mote_token *ids = request_memory(a, json_node_size(context), sizeof *ids, error);
    if (ids == NULL)
        return false;
    for (const json_node *e = json_node_first(context); e != NULL; e = json_node_next(e)) {
        int64_t id;
        if (!json_node_int64(e, &id) || id < 0 || id >= (int64_t)chat_ctx->n_tokens)
            return http_error_invalid(error, "context", "must hold ids of tokens");
        ids[i++] = (mote_token)id;
    }
    *w = (walk){.model = chat_ctx->model,
                .start = chat_ctx->how.tags[CHAT_TAG_IM_START],
                .end = chat_ctx->how.tags[CHAT_TAG_IM_END],
                .ids = ids,
                .n = i};
    return true;
}

bool ollama_context_put(request *a, const json_node *context, strbuf *out, str *system,
                        http_error *error)
{
    walk w;
    turn_ids turn;
    bool bad, first = true;
    if (!open_walk(&w, a, context, error))
        return false;
    while (next_turn(&w, &turn, &bad)) {
        const size_t head = strlen(turn.role) + 1;
        strbuf text = {0};
        put_text(&w, turn.ids, turn.n, &text);
        str content = strbuf_view(&text);
        content.p += head;
        content.n -= head;
        jw_open(out, '{');
        jw_key_text(out, "role", turn.role);
        jw_key_str(out, "content", content);
        jw_close(out, '}');
        if (first && turn.role == roles[0]) {
            const char *copy = request_copy(a, content, error);
            *system = (str){copy != NULL ? copy : "", copy != NULL ? content.n : 0};
        }
        first = false;
        strbuf_fini(&text);
    }
    return !bad || http_error_invalid(error, "context", "is not that of an earlier reply");
}

/* If a control token follows the line end, which is how answers begin, the role's ids end with
 * it. Where a letter follows they may not, and the text of the message has to do. */
bool ollama_context_tokens(request *a, const json_node *context, http_error *error)
{
    walk w;
    turn_ids turn;
    bool bad;
    size_t message = 0;
    if (!open_walk(&w, a, context, error))
        return false;
    while (next_turn(&w, &turn, &bad) && message < a->parsed.request.n_messages) {
        const size_t head = role_ids(&w, turn.ids, turn.n, turn.role);
        chat_message *m = &a->parsed.messages[message++];
        if (turn.role != roles[2] || head == turn.n ||
            !mote_token_is_control(w.model, turn.ids[head]))
            continue;
        m->tokens = turn.ids + head;
        m->n_tokens = turn.n - head;
    }
    return true;
}
