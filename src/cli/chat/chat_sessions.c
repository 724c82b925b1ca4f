/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_sessions.c - named sessions of a conversation: --session, /save, /switch, /list.
 *
 * The file of a session is written after each answer. Its KV pages and states are in the prefix
 * cache on disk: the next answer restores them, or prefills the tokens if they are gone.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/mem.h"
#include "base/os.h"
#include "cli/chat/conversation.h"
#include "cli/term/output.h"
#include "cli/term/text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int conversation_begin_session(conversation *t)
{
    char path[SESSION_PATH_BYTES];
    const char *name = t->flags->session;
    if (name == NULL)
        return CLI_DONE;
    int code = session_path(path, name);
    if (code == CLI_DONE)
        snprintf(t->session, sizeof t->session, "%s", name);
    if (code != CLI_DONE || !session_exists(name))
        return code;
    code = session_info_read(&t->resumed, name);
    t->resumes = code == CLI_DONE;
    t->session_tokens = t->resumed.ids.n;
    return code;
}

/* ---- save ---- */

static void session_describe(session_info *s, const conversation *t)
{
    const mote_session *session = mote_chat_session(t->chat);
    mote_memory memory;
    *s = (session_info){.saved = (uint64_t)time(NULL)};
    snprintf(s->model, sizeof s->model, "%s", t->model.name);
    _Static_assert(sizeof s->path >= PATH_MAX, "realpath writes to it");
    if (realpath(t->model.path, s->path) == NULL)
        s->path[0] = '\0';
    mote_engine_memory(t->on.engine, &memory);
    s->scope.ahead = memory.drafts > 0;
    s->ids.ids = (mote_token *)mote_session_tokens(session);
    s->ids.n = (size_t)mote_session_length(session);
}

/* The absolute path of the file, so that the session continues in another directory. */
static char *media_path(const media_file *f)
{
    char path[PATH_MAX];
    const char *from = realpath(f->path, path) != NULL ? path : f->path; /* a pattern of frames */
    const size_t n = strlen(from);
    char *copy = mem_new(n + 1, 1);
    if (copy != NULL)
        memcpy(copy, from, n);
    return copy;
}

/* Returns false without memory. */
static bool session_describe_media(session_info *s, const media_files *p)
{
    s->media = p->sent > 0 ? mem_new(p->sent, sizeof *s->media) : NULL;
    for (size_t i = 0; i < p->sent && s->media != NULL; i++) {
        const media_file *f = &p->list[i];
        s->media[s->n_media] = (session_media){.path = media_path(f),
                                               .video = f->video,
                                               .message = f->message,
                                               .image_tokens = f->image_tokens,
                                               .fps = f->fps};
        s->n_media += s->media[s->n_media].path != NULL;
    }
    return s->n_media == p->sent;
}

int conversation_save_session(conversation *t)
{
    session_info info;
    strbuf members = {0}, text = {0};
    mote_error err;
    if (t->session[0] == '\0')
        return CLI_DONE;
    session_describe(&info, t);
    mote_status status = session_describe_media(&info, &t->media)
                             ? MOTE_OK
                             : err_set(&err, MOTE_E_MEMORY, "out of memory for a session");
    session_put_members(&members, &info);
    if (status == MOTE_OK)
        status = strbuf_check(&members, &err);
    info.ids = (input_ids){0}; /* of the chat */
    session_info_free(&info);
    if (status == MOTE_OK)
        status = chat_put_text(&text, t->chat, strbuf_view(&members), &err);
    const int code =
        status == MOTE_OK ? session_write_text(t->session, strbuf_view(&text)) : msg_error(&err);
    strbuf_fini(&members);
    strbuf_fini(&text);
    return code;
}

/* ---- load ---- */

int session_load_media(media_files *p, const session_info *s, const conversation *t)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < s->n_media && code == CLI_DONE; i++) {
        const session_media *m = &s->media[i];
        media_options o = t->flags->media;
        o.image_tokens = m->image_tokens;
        o.fps = m->fps;
        code = media_files_add(p, m->path, m->video, t->on.model, &o,
                               (uint32_t)t->flags->load.threads);
        if (code == CLI_DONE)
            media_files_mark_sent(p, m->message);
    }
    return code;
}

mote_status conversation_attach_media(mote_chat *chat, const media_files *p, mote_error *err)
{
    mote_media media[MEDIA_FILES_ATTACHED];
    for (size_t i = 0; i < mote_chat_count(chat); i++) {
        const size_t n = media_files_of(p, i, media);
        if (n > 0)
            TRY(chat_attach_media(chat, i, media, n, err));
    }
    return MOTE_OK;
}

mote_status conversation_read_session(mote_chat **out, mote_engine *engine, const char *name,
                                      const mote_chat_options *options, mote_error *err)
{
    strbuf text = {0};
    mote_status status = session_read_text(&text, name) == CLI_DONE
                             ? chat_load_text(out, engine, strbuf_view(&text), options, err)
                             : err_set(err, MOTE_E_IO, "cannot read the session %s", name);
    strbuf_fini(&text);
    return status;
}

/* Loads a file or, if `path` is NULL, the session with these images. The old chat is kept until the
 * new one is open. */
static int load_chat(conversation *t, const char *path, const char *session,
                     const media_files *media)
{
    mote_chat_options options = {.context = mote_session_context(mote_chat_session(t->chat)),
                                 .official = t->flags->template.official == 1,
                                 .chat_template = t->flags->template.name,
                                 .loras = t->on.loras,
                                 .n_loras = t->on.n_loras};
    mote_chat *chat;
    bool restored = false; /* the session state too, not only the messages */
    mote_error err;
    const mote_status status =
        path != NULL ? mote_chat_load(&chat, t->on.engine, path, &options, &restored, &err)
                     : conversation_read_session(&chat, t->on.engine, session, &options, &err);
    if (status != MOTE_OK)
        return msg_error(&err);
    if (media != NULL && conversation_attach_media(chat, media, &err) != MOTE_OK) {
        mote_chat_free(chat);
        return msg_error(&err);
    }
    mote_chat_free(t->chat);
    t->chat = chat;
    chat_set_disk(chat, t->disk, t->extent);
    media_files_truncate(&t->media, 0);
    t->answered = false;
    t->question.n = 0;
    t->withdrawn = false;
    char x[TEXT_NUMBER_BYTES];
    msg_reply("%s%s", text_counted(x, mote_chat_count(chat), "message"),
              restored          ? ""
              : t->disk != NULL ? "; what the disk cache lacks is prefilled with the next message"
                                : "; they are prefilled with the next message");
    return CLI_DONE;
}

int conversation_load(conversation *t, const char *path)
{
    return load_chat(t, path, NULL, NULL);
}

/* Loads the session and its images in place of those of the conversation. */
static int load_session(conversation *t, const char *name)
{
    session_info info;
    media_files next = {.fork_server = t->media.fork_server};
    int code = session_info_read(&info, name);
    if (code == CLI_DONE && info.n_media > 0 && t->media.fork_server == NULL)
        code = msg_fail(CLI_NO_MODEL, "no_vision", "%s", media_files_no_encoder);
    if (code == CLI_DONE)
        code = session_load_media(&next, &info, t);
    if (code == CLI_DONE)
        code = load_chat(t, NULL, name, &next);
    session_info_free(&info);
    media_files *unused = code == CLI_DONE ? &t->media : &next;
    media_files_truncate(unused, 0);
    mem_free(unused->list);
    if (code == CLI_DONE)
        t->media = next;
    return code;
}

/* ---- commands ---- */

/* Copies a typed name without the blanks after it, which Tab adds. */
static void typed_name(char out[2 * SESSION_NAME_BYTES], const char *words)
{
    size_t n = strlen(words);
    while (n > 0 && strchr(" \t\n", words[n - 1]) != NULL)
        n--;
    snprintf(out, 2 * SESSION_NAME_BYTES, "%.*s",
             n < SESSION_NAME_BYTES ? (int)n : SESSION_NAME_BYTES, words);
}

void session_command_save(conversation *t, const char *words)
{
    char path[SESSION_PATH_BYTES], before[SESSION_NAME_BYTES], name[2 * SESSION_NAME_BYTES];
    typed_name(name, words[0] != '\0' ? words : t->session);
    if (name[0] == '\0') {
        msg_reply("/save needs a name for the session, or a file name");
        return;
    }
    if (session_path(path, name) != CLI_DONE)
        return;
    if (strcmp(name, t->session) != 0 && session_exists(name)) {
        msg_reply("the session %s exists (/switch %s continues it)", name, name);
        return;
    }
    memcpy(before, t->session, sizeof before);
    memcpy(t->session, name, strlen(name) + 1);
    if (conversation_save_session(t) == CLI_DONE)
        msg_reply("saved as the session %s, which is saved again after each answer", t->session);
    else
        memcpy(t->session, before, sizeof before);
}

void session_command_switch(conversation *t, const char *words)
{
    char path[SESSION_PATH_BYTES], name[2 * SESSION_NAME_BYTES];
    typed_name(name, words);
    if (name[0] == '\0') {
        msg_reply("/switch needs the name of a session (/list)");
        return;
    }
    if (session_path(path, name) != CLI_DONE)
        return;
    if (!session_exists(name)) {
        msg_reply("no session has the name %.80s (/list; /save %.80s names this conversation)",
                  name, name);
        return;
    }
    while (t->disk != NULL && !interrupt_pending() && !chat_disk_flush(t->disk, 1)) {
    }
    if (load_session(t, name) == CLI_DONE)
        memcpy(t->session, name, strlen(name) + 1);
}

void session_command_list(const conversation *t)
{
    session_list list;
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES];
    if (session_list_read(&list) != CLI_DONE)
        return;
    if (list.n == 0)
        msg_reply("no sessions (/save NAME makes one of this conversation)");
    for (size_t i = 0; i < list.n; i++) {
        const session_info *s = &list.items[i];
        msg_reply("%c %-20s %s, %s, %.60s", strcmp(s->name, t->session) == 0 ? '*' : ' ', s->name,
                  text_counted(x, s->turns, "turn"), text_counted(y, s->ids.n, "token"), s->model);
    }
    session_list_free(&list);
}
