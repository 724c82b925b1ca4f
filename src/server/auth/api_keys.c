/* SPDX-License-Identifier: Apache-2.0 */
/* api_keys.c - see api_keys.h. */
#include "server/auth/api_keys.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/words.h"
#include "server/auth/access.h"

#include <stdio.h>

/* Places of keys that are gone are used again, that of the first to go first; so many, so
 * that one whose requests still come to their end is not among them. */
enum { PLACES = 4 * API_KEYS_MAX };

struct api_keys {
    api_key places[PLACES];
    api_key *live[API_KEYS_MAX]; /* [n] */
    size_t n;
    uint64_t number;                 /* of takings */
    uint64_t forgotten[QUOTA_KINDS]; /* refusals of keys whose place another has */
};

/* What a text says, before anything is changed. */
typedef struct reading {
    api_key keys[API_KEYS_MAX];
    size_t n;
} reading;

/* ---- a line ---- */

static bool parse_scopes(str text, unsigned *out)
{
    static const struct {
        const char *name;
        privilege is;
    } scopes[] = {
        {"infer", PRIVILEGE_INFER}, {"metrics", PRIVILEGE_METRICS}, {"admin", PRIVILEGE_ADMIN}};
    *out = 0;
    for (str word = words_next(&text, ","); word.n > 0; word = words_next(&text, ",")) {
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

/* Letters, digits and -._ : it stands in logs. */
static bool read_name(char out[API_KEY_NAME_BYTES], str name)
{
    if (name.n >= API_KEY_NAME_BYTES || !words_only(name, "-._"))
        return false;
    memcpy(out, name.p, name.n);
    out[name.n] = '\0';
    return true;
}

/* What stands behind the secret: scopes, a name, limits; whoever has a '=' is a limit. */
static mote_status read_rest(api_key *key, size_t number, str rest, mote_error *err)
{
    str word = words_next(&rest, " \t");
    key->scopes = 1u << PRIVILEGE_INFER;
    if (word.n > 0 && memchr(word.p, '=', word.n) == NULL) {
        if (!parse_scopes(word, &key->scopes))
            return err_set(err, MOTE_E_ARG,
                           "key %zu: its scopes are infer, metrics and admin, with commas between",
                           number);
        word = words_next(&rest, " \t");
    }
    if (word.n > 0 && memchr(word.p, '=', word.n) == NULL) {
        if (!read_name(key->name, word))
            return err_set(err, MOTE_E_ARG,
                           "key %zu: a name has at most %d letters, digits, '-', '.' and '_'",
                           number, API_KEY_NAME_BYTES - 1);
        word = words_next(&rest, " \t");
    }
    for (; word.n > 0; word = words_next(&rest, " \t"))
        if (!quota_read(&key->quota, word))
            return err_set(err, MOTE_E_ARG,
                           "key %zu: behind its scopes and its name come rpm=N, tpm=N and par=N, "
                           "each once, from 1 to %d",
                           number, QUOTA_MOST);
    return MOTE_OK;
}

/* Says which key by its number: its text is nobody's business. */
static mote_status read_key(api_key *key, size_t number, str line, mote_error *err)
{
    enum { PREFIX = 7 };
    str rest = line;
    const str secret = words_next(&rest, " \t");
    const bool hashed = secret.n > PREFIX && memcmp(secret.p, "sha256:", PREFIX) == 0;
    const str hex = hashed ? (str){secret.p + PREFIX, secret.n - PREFIX} : (str){"", 0};
    if (hashed && !digest_parse(&key->digest, hex))
        return err_set(err, MOTE_E_ARG, "key %zu: after sha256: come 64 hexadecimal digits",
                       number);
    if (!hashed && !digest_of(&key->digest, secret))
        return err_set(err, MOTE_E_MEMORY, "no memory for a digest");
    return read_rest(key, number, rest, err);
}

static api_key *find_digest(api_key *keys, size_t n, const digest *d)
{
    for (size_t i = 0; i < n; i++)
        if (digest_equal(&keys[i].digest, d))
            return &keys[i];
    return NULL;
}

/* Of a key that comes twice the last line counts. */
static mote_status read_line(reading *r, str line, mote_error *err)
{
    api_key key = {0};
    if (line.n == 0 || line.p[0] == '#')
        return MOTE_OK;
    TRY(read_key(&key, r->n + 1, line, err));
    api_key *same = find_digest(r->keys, r->n, &key.digest);
    if (same == NULL && r->n == API_KEYS_MAX)
        return err_set(err, MOTE_E_ARG, "there are more than %d keys", API_KEYS_MAX);
    *(same != NULL ? same : &r->keys[r->n++]) = key;
    return MOTE_OK;
}

static mote_status read_lines(reading *r, str text, mote_error *err)
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
        TRY(read_line(r, line, err));
    }
    return MOTE_OK;
}

/* ---- taking ---- */

/* A place that nobody needs; NULL: there is none. */
static api_key *free_place(api_keys *k)
{
    api_key *best = NULL;
    for (size_t i = 0; i < PLACES; i++) {
        api_key *p = &k->places[i];
        if (!p->live && p->quota.running == 0 && (best == NULL || p->left < best->left))
            best = p;
    }
    return best;
}

static void move_in(api_keys *k, api_key *place, const api_key *key, uint64_t now)
{
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        k->forgotten[kind] += place->quota.refused[kind];
    *place = *key;
    quota_start(&place->quota, now);
    place->live = true;
}

static void settle(api_key *place, const api_key *key, uint64_t now, api_keys_change *change)
{
    const bool same = place->scopes == key->scopes && strcmp(place->name, key->name) == 0 &&
                      memcmp(place->quota.most, key->quota.most, sizeof key->quota.most) == 0;
    change->altered += place->live && !same;
    change->added += !place->live;
    place->scopes = key->scopes;
    memcpy(place->name, key->name, sizeof place->name);
    quota_change(&place->quota, key->quota.most, now);
    place->live = true;
}

static size_t count_free(const api_keys *k)
{
    size_t n = 0;
    for (size_t i = 0; i < PLACES; i++)
        n += !k->places[i].live && k->places[i].quota.running == 0;
    return n;
}

/* Those that stay first, so that no place is taken that one of them has. */
static void take(api_keys *k, const reading *r, uint64_t now, api_keys_change *change)
{
    api_key *at[API_KEYS_MAX];
    for (size_t i = 0; i < r->n; i++) {
        at[i] = find_digest(k->places, PLACES, &r->keys[i].digest);
        if (at[i] != NULL)
            settle(at[i], &r->keys[i], now, change);
    }
    for (size_t i = 0; i < r->n; i++)
        if (at[i] == NULL) {
            at[i] = free_place(k);
            move_in(k, at[i], &r->keys[i], now);
            change->added++;
        }
    for (size_t i = 0; i < k->n; i++)
        k->live[i]->live = false;
    for (size_t i = 0; i < r->n; i++)
        at[i]->live = true;
    for (size_t i = 0; i < k->n; i++)
        if (!k->live[i]->live) {
            k->live[i]->left = k->number;
            change->gone++;
        }
    memcpy(k->live, at, r->n * sizeof *at);
    k->n = r->n;
}

mote_status api_keys_take(api_keys *k, str text, bool needed, api_keys_change *change,
                          mote_error *err)
{
    *change = (api_keys_change){0};
    reading *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the list of keys");
    mote_status status = read_lines(r, text, err);
    if (status == MOTE_OK && needed && r->n == 0)
        status = err_set(err, MOTE_E_ARG,
                         "there is no key in the key file (mote serve --new-key makes one)");
    if (status == MOTE_OK && count_free(k) < r->n)
        status = err_set(err, MOTE_E_FULL, "too many keys that are gone are still at work");
    if (status == MOTE_OK) {
        k->number++;
        take(k, r, (uint64_t)(1000 * os_now()), change);
    }
    mem_free(r);
    return status;
}

/* ---- who has them ---- */

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
    for (size_t i = 0; i < PLACES; i++)
        n += k->places[i].quota.refused[kind];
    return n;
}

mote_status api_keys_generate(char key[API_KEY_BYTES], char line[API_KEY_LINE_BYTES],
                              const char *name, mote_error *err)
{
    unsigned char random[24];
    digest d;
    char hex[2 * DIGEST_BYTES + 1], checked[API_KEY_NAME_BYTES];
    if (name != NULL && !read_name(checked, str_of(name)))
        return err_set(err, MOTE_E_ARG, "a name has at most %d letters, digits, '-', '.' and '_'",
                       API_KEY_NAME_BYTES - 1);
    if (!os_random(random, sizeof random))
        return err_set(err, MOTE_E_IO, "the system has no random bytes to give");
    size_t n = (size_t)snprintf(key, API_KEY_BYTES, "mote-");
    for (size_t i = 0; i < sizeof random; i++)
        n += (size_t)snprintf(key + n, API_KEY_BYTES - n, "%02x", random[i]);
    if (!digest_of(&d, (str){key, n}))
        return err_set(err, MOTE_E_MEMORY, "no memory for a digest");
    digest_print(&d, hex);
    snprintf(line, API_KEY_LINE_BYTES, "sha256:%s infer%s%s", hex, name != NULL ? " " : "",
             name != NULL ? checked : "");
    return MOTE_OK;
}
