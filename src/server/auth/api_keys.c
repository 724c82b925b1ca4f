/* SPDX-License-Identifier: Apache-2.0 */
/* api_keys.c - API keys: parsing, lookup, replacement, the key file. See api_keys.h. */
#include "server/auth/api_keys.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/str.h"
#include "server/auth/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Slots of removed keys are reused, the longest removed first. There are more slots than keys, so
 * that a removed key with running requests keeps its slot. */
enum { KEY_SLOTS = 4 * API_KEYS_MAX };

enum { KEY_FILE_MAX_BYTES = 1 << 20, KEY_FILE_SETTLE_SECONDS = 2 };

struct api_keys {
    api_key slots[KEY_SLOTS];
    api_key *live[API_KEYS_MAX]; /* [n] */
    size_t n;
    uint64_t number;                 /* of api_keys_set() calls */
    uint64_t forgotten[QUOTA_KINDS]; /* refusals counted in slots that were reused */
};

/* The keys of a text, before they replace the old ones. */
typedef struct key_list {
    api_key keys[API_KEYS_MAX];
    size_t n;
} key_list;

/* ---- parsing ---- */

static bool parse_scopes(str text, unsigned *out)
{
    static const struct {
        const char *name;
        privilege is;
    } scopes[] = {
        {"infer", PRIVILEGE_INFER}, {"metrics", PRIVILEGE_METRICS}, {"admin", PRIVILEGE_ADMIN}};
    *out = 0;
    for (str word = str_next_word(&text, ","); word.n > 0; word = str_next_word(&text, ",")) {
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
            if (str_is(word, scopes[i].name))
                bit = 1u << scopes[i].is;
        if (bit == 0)
            return false;
        *out |= bit;
    }
    return true;
}

/* Letters, digits and -._ only: names appear in logs. */
static bool key_parse_name(char out[API_KEY_NAME_BYTES], str name)
{
    if (name.n >= API_KEY_NAME_BYTES || !str_has_only(name, "-._"))
        return false;
    memcpy(out, name.p, name.n);
    out[name.n] = '\0';
    return true;
}

/* Parses the words after the secret: scopes, name, limits. A word with '=' is a limit. */
static mote_status key_parse_words(api_key *key, size_t number, str rest, mote_error *err)
{
    str word = str_next_word(&rest, " \t");
    key->scopes = 1u << PRIVILEGE_INFER;
    if (word.n > 0 && memchr(word.p, '=', word.n) == NULL) {
        if (!parse_scopes(word, &key->scopes))
            return err_set(err, MOTE_E_ARG,
                           "key %zu: scopes must be infer, metrics or admin, separated by commas",
                           number);
        word = str_next_word(&rest, " \t");
    }
    if (word.n > 0 && memchr(word.p, '=', word.n) == NULL) {
        if (!key_parse_name(key->name, word))
            return err_set(err, MOTE_E_ARG,
                           "key %zu: a name must have at most %d letters, digits, '-', '.' and '_'",
                           number, API_KEY_NAME_BYTES - 1);
        word = str_next_word(&rest, " \t");
    }
    for (; word.n > 0; word = str_next_word(&rest, " \t"))
        if (!quota_read(&key->quota, word))
            return err_set(
                err, MOTE_E_ARG,
                "key %zu: after scopes and name only rpm=N, tpm=N and par=N are allowed, "
                "each once, N from 1 to %d",
                number, QUOTA_MOST);
    return MOTE_OK;
}

/* Errors name a key by its number, never by its text. */
static mote_status key_parse(api_key *key, size_t number, str line, mote_error *err)
{
    enum { PREFIX = 7 };
    str rest = line;
    const str secret = str_next_word(&rest, " \t");
    const bool hashed = secret.n > PREFIX && memcmp(secret.p, "sha256:", PREFIX) == 0;
    const str hex = hashed ? (str){secret.p + PREFIX, secret.n - PREFIX} : (str){"", 0};
    if (hashed && !digest_parse(&key->digest, hex))
        return err_set(err, MOTE_E_ARG, "key %zu: sha256: must be followed by 64 hex digits",
                       number);
    if (!hashed && !digest_of(&key->digest, secret))
        return err_set(err, MOTE_E_MEMORY, "out of memory: digest of a key");
    return key_parse_words(key, number, rest, err);
}

static api_key *keys_find_digest(api_key *keys, size_t n, const digest *d)
{
    for (size_t i = 0; i < n; i++)
        if (digest_equal(&keys[i].digest, d))
            return &keys[i];
    return NULL;
}

/* If a key occurs twice, the last line counts. */
static mote_status key_list_add_line(key_list *r, str line, mote_error *err)
{
    api_key key = {0};
    if (line.n == 0 || line.p[0] == '#')
        return MOTE_OK;
    TRY(key_parse(&key, r->n + 1, line, err));
    api_key *same = keys_find_digest(r->keys, r->n, &key.digest);
    if (same == NULL && r->n == API_KEYS_MAX)
        return err_set(err, MOTE_E_ARG, "too many keys; at most %d", API_KEYS_MAX);
    *(same != NULL ? same : &r->keys[r->n++]) = key;
    return MOTE_OK;
}

static mote_status key_list_read(key_list *r, str text, mote_error *err)
{
    while (text.n > 0) {
        const char *end = memchr(text.p, '\n', text.n);
        str line = {text.p, end != NULL ? (size_t)(end - text.p) : text.n};
        text = (str){text.p + line.n, text.n - line.n};
        if (end != NULL)
            text = (str){text.p + 1, text.n - 1};
        if (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        while (line.n > 0 && (line.p[0] == ' ' || line.p[0] == '\t'))
            line = (str){line.p + 1, line.n - 1};
        TRY(key_list_add_line(r, line, err));
    }
    return MOTE_OK;
}

/* ---- replacing ---- */

/* A slot without key and without running requests; NULL: none. */
static api_key *keys_free_slot(api_keys *k)
{
    api_key *best = NULL;
    for (size_t i = 0; i < KEY_SLOTS; i++) {
        api_key *p = &k->slots[i];
        if (!p->live && p->quota.running == 0 && (best == NULL || p->left < best->left))
            best = p;
    }
    return best;
}

static void keys_fill_slot(api_keys *k, api_key *slot, const api_key *key, uint64_t now)
{
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        k->forgotten[kind] += slot->quota.refused[kind];
    *slot = *key;
    quota_start(&slot->quota, now);
    slot->live = true;
}

/* A key that was known before keeps its usage. */
static void keys_update(api_key *slot, const api_key *key, uint64_t now, api_keys_change *change)
{
    const bool same = slot->scopes == key->scopes && strcmp(slot->name, key->name) == 0 &&
                      memcmp(slot->quota.most, key->quota.most, sizeof key->quota.most) == 0;
    change->altered += slot->live && !same;
    change->added += !slot->live;
    slot->scopes = key->scopes;
    memcpy(slot->name, key->name, sizeof slot->name);
    quota_change(&slot->quota, key->quota.most, now);
    slot->live = true;
}

static size_t keys_count_free(const api_keys *k)
{
    size_t n = 0;
    for (size_t i = 0; i < KEY_SLOTS; i++)
        n += !k->slots[i].live && k->slots[i].quota.running == 0;
    return n;
}

/* Known keys first, so that their slots are not reused for new ones. */
static void keys_replace(api_keys *k, const key_list *r, uint64_t now, api_keys_change *change)
{
    api_key *at[API_KEYS_MAX];
    for (size_t i = 0; i < r->n; i++) {
        at[i] = keys_find_digest(k->slots, KEY_SLOTS, &r->keys[i].digest);
        if (at[i] != NULL)
            keys_update(at[i], &r->keys[i], now, change);
    }
    for (size_t i = 0; i < r->n; i++)
        if (at[i] == NULL) {
            at[i] = keys_free_slot(k);
            keys_fill_slot(k, at[i], &r->keys[i], now);
            change->added++;
        }
    for (size_t i = 0; i < k->n; i++)
        k->live[i]->live = false;
    for (size_t i = 0; i < r->n; i++)
        at[i]->live = true;
    for (size_t i = 0; i < k->n; i++)
        if (!k->live[i]->live) {
            k->live[i]->left = k->number;
            change->removed++;
        }
    memcpy(k->live, at, r->n * sizeof *at);
    k->n = r->n;
}

mote_status api_keys_set(api_keys *k, str text, bool needed, api_keys_change *change,
                         mote_error *err)
{
    *change = (api_keys_change){0};
    key_list *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of API keys");
    mote_status status = key_list_read(r, text, err);
    if (status == MOTE_OK && needed && r->n == 0)
        status = err_set(err, MOTE_E_ARG,
                         "no key in the key file (create one with mote serve --new-key)");
    if (status == MOTE_OK && keys_count_free(k) < r->n)
        status = err_set(err, MOTE_E_FULL, "too many removed keys still have running requests");
    if (status == MOTE_OK) {
        k->number++;
        keys_replace(k, r, (uint64_t)(1000 * os_now()), change);
    }
    mem_free(r);
    return status;
}

/* ---- life cycle and lookup ---- */

api_keys *api_keys_new(void)
{
    return mem_new(1, sizeof(api_keys));
}

void api_keys_free(api_keys *k)
{
    mem_free(k);
}

size_t api_keys_count(const api_keys *k)
{
    return k->n;
}

api_key *api_keys_at(const api_keys *k, size_t i)
{
    return k->live[i];
}

bool api_keys_find(const api_keys *k, str secret, api_key **found)
{
    digest d;
    if (secret.n == 0)
        return true;
    if (!digest_of(&d, secret))
        return false;
    for (size_t i = 0; i < k->n; i++)
        if (digest_equal(&d, &k->live[i]->digest))
            *found = k->live[i];
    return true;
}

uint64_t api_keys_refused(const api_keys *k, quota_kind kind)
{
    uint64_t n = k->forgotten[kind];
    for (size_t i = 0; i < KEY_SLOTS; i++)
        n += k->slots[i].quota.refused[kind];
    return n;
}

mote_status api_keys_generate(char key[API_KEY_BYTES], char line[API_KEY_LINE_BYTES],
                              const char *name, mote_error *err)
{
    unsigned char random[24];
    digest d;
    char hex[2 * DIGEST_BYTES + 1], checked[API_KEY_NAME_BYTES];
    if (name != NULL && !key_parse_name(checked, str_of(name)))
        return err_set(err, MOTE_E_ARG,
                       "a name must have at most %d letters, digits, '-', '.' and '_'",
                       API_KEY_NAME_BYTES - 1);
    if (!os_random(random, sizeof random))
        return err_set(err, MOTE_E_IO, "no random bytes from the system");
    size_t n = (size_t)snprintf(key, API_KEY_BYTES, "mote-");
    for (size_t i = 0; i < sizeof random; i++)
        n += (size_t)snprintf(key + n, API_KEY_BYTES - n, "%02x", random[i]);
    if (!digest_of(&d, (str){key, n}))
        return err_set(err, MOTE_E_MEMORY, "out of memory: digest of a key");
    digest_print(&d, hex);
    snprintf(line, API_KEY_LINE_BYTES, "sha256:%s infer%s%s", hex, name != NULL ? " " : "",
             name != NULL ? checked : "");
    return MOTE_OK;
}

/* ---- the file ---- */

static api_keys_file key_file_state(const api_keys_file *file, const struct stat *info)
{
    return (api_keys_file){.path = file->path,
                           .device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .size = (uint64_t)info->st_size,
                           .modified_ns = os_modified_ns(info),
                           .settled = time(NULL) - info->st_mtime >= KEY_FILE_SETTLE_SECONDS};
}

static bool key_file_is_same(const api_keys_file *a, const api_keys_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified_ns == b->modified_ns;
}

static mote_status key_file_unreadable(const char *why, mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot read it: %s", why);
}

/* Reads the file into `text`, a buffer of KEY_FILE_MAX_BYTES. */
static mote_status key_file_read(int fd, char *text, size_t *n, mote_error *err)
{
    *n = 0;
    for (;;) {
        const ssize_t got = read(fd, text + *n, KEY_FILE_MAX_BYTES - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return key_file_unreadable(strerror(errno), err);
        if (got == 0)
            return MOTE_OK;
        *n += (size_t)got;
        if (*n == KEY_FILE_MAX_BYTES)
            return key_file_unreadable("it is larger than 1 MiB", err);
    }
}

static mote_status key_file_load(api_keys *k, const char *path, api_keys_change *change,
                                 mote_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return key_file_unreadable(strerror(errno), err);
    char *text = mem_new(KEY_FILE_MAX_BYTES, 1);
    size_t n = 0;
    mote_status status = text != NULL ? key_file_read(fd, text, &n, err)
                                      : err_set(err, MOTE_E_MEMORY, "out of memory");
    if (status == MOTE_OK)
        status = api_keys_set(k, (str){text, n}, true, change, err);
    mem_free(text);
    close(fd);
    return status;
}

mote_status api_keys_reload(api_keys *k, api_keys_file *file, api_keys_change *change,
                            mote_error *err)
{
    struct stat info = {0};
    *change = (api_keys_change){0};
    if (file->path == NULL)
        return MOTE_OK;
    const bool there = stat(file->path, &info) == 0;
    if (there && !S_ISREG(info.st_mode))
        return MOTE_OK;
    api_keys_file now = key_file_state(file, &info);
    const bool changed = !key_file_is_same(file, &now), was_broken = file->broken;
    if (!changed && file->settled)
        return MOTE_OK;
    *file = now;
    const mote_status status = key_file_load(k, file->path, change, err);
    file->broken = status != MOTE_OK;
    return file->broken && was_broken && !changed ? MOTE_OK : status;
}
