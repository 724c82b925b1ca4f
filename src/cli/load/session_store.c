/* SPDX-License-Identifier: Apache-2.0 */
/* session_store.c - see session_store.h. */
#include "cli/load/session_store.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/term/output.h"
#include "disk_cache/sealed_text.h"
#include "json/json.h"
#include "json/json_writer.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char suffix[] = ".json";
static const char name_rule[] =
    "up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit";

static const disk_cipher *cipher_in_use; /* commands run on one thread */

void session_use_cipher(const disk_cipher *cipher)
{
    cipher_in_use = cipher;
}

const disk_cipher *session_cipher(void)
{
    return cipher_in_use;
}

/* ---- names and paths ---- */

bool session_name_is_valid(const char *name)
{
    const size_t n = strlen(name);
    return n > 0 && n < SESSION_NAME_BYTES && strchr("._-", name[0]) == NULL &&
           str_has_only(str_of(name), "._-");
}

/* Next to the prefix cache: $MOTE_CACHE/sessions. */
static bool sessions_directory(char *out, size_t room)
{
    static const char last[] = "/prefix";
    if (!load_disk_directory(out, room))
        return false;
    const size_t n = strlen(out) - (sizeof last - 1);
    return (size_t)snprintf(out + n, room - n, "/sessions") < room - n;
}

int session_path(char out[SESSION_PATH_BYTES], const char *name)
{
    if (!session_name_is_valid(name))
        return msg_usage("invalid name of a session: %.80s (%s)", name, name_rule);
    if (!sessions_directory(out, SESSION_PATH_BYTES - SESSION_NAME_BYTES - sizeof suffix))
        return msg_fail(CLI_FAILED, "no_directory",
                        "no directory for sessions: set MOTE_CACHE, XDG_CACHE_HOME or HOME");
    const size_t n = strlen(out);
    snprintf(out + n, SESSION_PATH_BYTES - n, "/%s%s", name, suffix);
    return CLI_DONE;
}

static int session_make_directory(void)
{
    char path[SESSION_PATH_BYTES];
    if (!sessions_directory(path, sizeof path - 2))
        return msg_fail(CLI_FAILED, "no_directory",
                        "no directory for sessions: set MOTE_CACHE, XDG_CACHE_HOME or HOME");
    memcpy(path + strlen(path), "/", 2);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot create %s: %s", path,
                            strerror(errno));
        *slash = '/';
    }
    return CLI_DONE;
}

bool session_exists(const char *name)
{
    char path[SESSION_PATH_BYTES];
    struct stat info;
    return session_name_is_valid(name) && session_path(path, name) == CLI_DONE &&
           stat(path, &info) == 0;
}

int session_not_found(const char *name)
{
    return msg_fail(CLI_FAILED, "not_found",
                    "no session has the name %.80s (mote session ls lists them)", name);
}

/* ---- one file ---- */

int session_read_text(strbuf *out, const char *name)
{
    char path[SESSION_PATH_BYTES];
    mote_error err;
    int code = session_path(path, name);
    if (code == CLI_DONE && !session_exists(name))
        code = session_not_found(name);
    if (code == CLI_DONE)
        code = input_read(out, path);
    if (code == CLI_DONE && sealed_text_is(strbuf_view(out)) &&
        sealed_text_open(out, cipher_in_use, &err) != MOTE_OK) {
        err_prefix(&err, path);
        code = msg_error(&err);
    }
    return code;
}

int session_write_text(const char *name, str text)
{
    char path[SESSION_PATH_BYTES];
    strbuf sealed = {0};
    mote_error err;
    int code = session_make_directory();
    if (code == CLI_DONE)
        code = session_path(path, name);
    if (code != CLI_DONE)
        return code;
    mote_status status = MOTE_OK;
    if (cipher_in_use != NULL)
        status = sealed_text_put(&sealed, cipher_in_use, text, &err);
    if (status == MOTE_OK && cipher_in_use != NULL)
        text = strbuf_view(&sealed);
    if (status == MOTE_OK)
        status = os_file_replace(path, text.p, text.n, &err);
    strbuf_fini(&sealed);
    return status == MOTE_OK ? CLI_DONE : msg_error(&err);
}

/* Reads and parses the file. */
static int session_open(json_doc **doc, uint64_t *bytes, const char *name)
{
    char path[SESSION_PATH_BYTES];
    strbuf text = {0};
    mote_error err;
    int code = session_path(path, name);
    if (code == CLI_DONE)
        code = session_read_text(&text, name);
    if (code == CLI_DONE && json_doc_read(doc, strbuf_view(&text), &err) != MOTE_OK) {
        err_prefix(&err, path);
        code = msg_error(&err);
    }
    *bytes = text.n;
    strbuf_fini(&text);
    return code;
}

static void copy_text(char *out, size_t room, const json_node *node)
{
    const str text = json_node_text(node);
    snprintf(out, room, "%.*s", (int)(text.n < room ? text.n : room - 1), text.n > 0 ? text.p : "");
}

/* Reads ids such as "12 7 930". Without memory, or if they are invalid, there are none. */
static void read_ids(input_ids *out, str text)
{
    size_t room = 1;
    for (size_t i = 0; i < text.n; i++)
        room += text.p[i] == ' ';
    out->ids = text.n > 0 ? mem_new(room, sizeof *out->ids) : NULL;
    const char *at = text.p;
    for (char *end; out->ids != NULL && out->n < room; at = end) {
        const long id = strtol(at, &end, 10);
        if (end == at)
            break;
        out->ids[out->n++] = (mote_token)id;
    }
}

/* Reads 32 hexadecimal digits; false: there are others. */
static bool read_key(disk_key *out, str text)
{
    unsigned long long word[2];
    if (text.n != 32 || sscanf(text.p, "%16llx%16llx", &word[0], &word[1]) != 2)
        return false;
    *out = (disk_key){{word[0], word[1]}};
    return true;
}

static void info_count_messages(session_info *s, const json_node *messages)
{
    const json_node *m = json_node_first(messages);
    for (; m != NULL; m = json_node_next(m)) {
        s->messages++;
        s->turns += str_is(json_node_text(json_node_get(m, "role")), "user");
    }
}

/* Without memory there are none; the conversation then lacks images. */
static void read_media(session_info *s, const json_node *media)
{
    const size_t room = json_node_size(media);
    s->media = room > 0 ? mem_new(room, sizeof *s->media) : NULL;
    const json_node *node = s->media != NULL ? json_node_first(media) : NULL;
    for (; node != NULL && s->n_media < room; node = json_node_next(node)) {
        session_media *m = &s->media[s->n_media];
        const json_node *video = json_node_get(node, "video");
        const str path = json_node_text(video != NULL ? video : json_node_get(node, "image"));
        int64_t message = 0, tokens = 0;
        json_node_int64(json_node_get(node, "message"), &message);
        json_node_int64(json_node_get(node, "image_tokens"), &tokens);
        *m = (session_media){.path = mem_new(path.n + 1, 1),
                             .video = video != NULL,
                             .message = (size_t)message,
                             .image_tokens = (uint64_t)tokens,
                             .fps = json_node_double(json_node_get(node, "fps"))};
        if (m->path == NULL)
            return;
        memcpy(m->path, path.p, path.n);
        s->n_media++;
    }
}

int session_info_read(session_info *s, const char *name)
{
    json_doc *doc;
    int64_t number = 0;
    *s = (session_info){0};
    snprintf(s->name, sizeof s->name, "%s", name);
    const int code = session_open(&doc, &s->bytes, name);
    if (code != CLI_DONE)
        return code;
    const json_node *root = json_doc_root(doc), *about = json_node_get(root, "session");
    copy_text(s->model, sizeof s->model, json_node_get(about, "model"));
    copy_text(s->path, sizeof s->path, json_node_get(about, "path"));
    if (json_node_int64(json_node_get(about, "saved"), &number) && number > 0)
        s->saved = (uint64_t)number;
    if (json_node_int64(json_node_get(about, "ahead"), &number))
        s->scope.ahead = number == 1;
    if (read_key(&s->scope.binding, json_node_text(json_node_get(root, "engine"))))
        read_ids(&s->ids, json_node_text(json_node_get(about, "ids")));
    info_count_messages(s, json_node_get(root, "messages"));
    read_media(s, json_node_get(about, "media"));
    json_doc_free(doc);
    return CLI_DONE;
}

void session_info_free(session_info *s)
{
    input_ids_free(&s->ids);
    for (size_t i = 0; i < s->n_media; i++)
        mem_free(s->media[i].path);
    mem_free(s->media);
}

static void put_media(strbuf *out, const session_info *s)
{
    jw_key(out, "media");
    jw_open(out, '[');
    for (size_t i = 0; i < s->n_media; i++) {
        const session_media *m = &s->media[i];
        jw_open(out, '{');
        jw_key_uint(out, "message", m->message);
        jw_key_text(out, m->video ? "video" : "image", m->path);
        jw_key_uint(out, "image_tokens", m->image_tokens);
        jw_key_double(out, "fps", m->fps);
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

void session_put_members(strbuf *out, const session_info *s)
{
    strbuf ids = {0};
    char number[16];
    for (size_t i = 0; i < s->ids.n; i++) {
        snprintf(number, sizeof number, i > 0 ? " %d" : "%d", (int)s->ids.ids[i]);
        strbuf_text(&ids, number);
    }
    strbuf about = {0};
    jw_open(&about, '{');
    jw_key_text(&about, "model", s->model);
    jw_key_text(&about, "path", s->path);
    jw_key_uint(&about, "saved", s->saved);
    jw_key_uint(&about, "ahead", s->scope.ahead);
    jw_key_str(&about, "ids", strbuf_view(&ids));
    if (s->n_media > 0)
        put_media(&about, s);
    jw_close(&about, '}');
    strbuf_text(out, "\"session\": ");
    strbuf_put(out, strbuf_view(&about));
    out->failed |= about.failed || ids.failed;
    strbuf_fini(&about);
    strbuf_fini(&ids);
}

/* ---- lists ---- */

void session_each_name(void (*fn)(void *with, const char *name), void *with)
{
    char path[SESSION_PATH_BYTES], name[SESSION_NAME_BYTES];
    DIR *d = sessions_directory(path, sizeof path) ? opendir(path) : NULL;
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        const size_t n = strlen(e->d_name), n_suffix = sizeof suffix - 1;
        if (n <= n_suffix || n - n_suffix >= sizeof name ||
            strcmp(e->d_name + n - n_suffix, suffix) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - n_suffix), e->d_name);
        if (session_name_is_valid(name))
            fn(with, name);
    }
    if (d != NULL)
        closedir(d);
}

static void list_add(void *with, const char *name)
{
    session_list *list = with;
    session_info info;
    if (session_info_read(&info, name) != CLI_DONE)
        return;
    if (list->n == list->room) {
        const size_t room = list->room * 2 + 16;
        session_info *grown = mem_resize(list->items, list->room, room, sizeof *grown);
        if (grown == NULL) {
            session_info_free(&info);
            return;
        }
        list->items = grown;
        list->room = room;
    }
    list->items[list->n++] = info;
}

static int info_newer(const void *a, const void *b)
{
    const session_info *x = a, *y = b;
    return x->saved != y->saved ? (x->saved < y->saved ? 1 : -1) : strcmp(x->name, y->name);
}

int session_list_read(session_list *list)
{
    *list = (session_list){0};
    session_each_name(list_add, list);
    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, info_newer);
    return CLI_DONE;
}

void session_list_free(session_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        session_info_free(&list->items[i]);
    mem_free(list->items);
    *list = (session_list){0};
}

/* ---- export ---- */

int session_put_messages(strbuf *out, const char *name)
{
    json_doc *doc;
    uint64_t bytes;
    const int code = session_open(&doc, &bytes, name);
    if (code != CLI_DONE)
        return code;
    const json_node *m = json_node_first(json_node_get(json_doc_root(doc), "messages"));
    strbuf_byte(out, '[');
    for (const char *before = ""; m != NULL; m = json_node_next(m), before = ",\n ") {
        strbuf_text(out, before);
        json_put_without(out, m, "tokens");
    }
    strbuf_text(out, "]\n");
    json_doc_free(doc);
    return CLI_DONE;
}
