/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_cipher_openssl.c - the cipher of cache_cipher.h by libcrypto.
 *
 *   names         AES-256 of one block, with the key HMAC-SHA256(user key, "... names")
 *   key id        8 bytes of HMAC-SHA256(user key, "... id")
 *   key of a record     HMAC-SHA256(HMAC-SHA256(user key, "... records"), salt)
 *   piece         AES-256-GCM with the key of the record; the nonce is the number of the piece
 */
#include "base/mem.h"
#include "cli/load/cache_cipher.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>
#include <string.h>

enum { NONCE_BYTES = 12 };

typedef struct cache_cipher {
    disk_cipher table; /* first: a pointer to it is one to this */
    unsigned char records[CACHE_KEY_BYTES];
    pthread_mutex_t lock;          /* of both contexts */
    EVP_CIPHER_CTX *name, *unname; /* made once: mapping a name allocates nothing */
} cache_cipher;

/* A record that is sealed or opened. */
typedef struct record_cipher {
    EVP_CIPHER_CTX *context;
    bool seal;
} record_cipher;

static bool derive(const unsigned char key[CACHE_KEY_BYTES], const void *from, size_t bytes,
                   unsigned char out[CACHE_KEY_BYTES])
{
    unsigned n = 0;
    return HMAC(EVP_sha256(), key, CACHE_KEY_BYTES, from, bytes, out, &n) != NULL &&
           n == CACHE_KEY_BYTES;
}

static bool cipher_map_name(void *with, const unsigned char in[DISK_NAME_KEY_BYTES], bool back,
                            unsigned char out[DISK_NAME_KEY_BYTES])
{
    cache_cipher *c = with;
    int n = 0;
    pthread_mutex_lock(&c->lock);
    const bool ok =
        EVP_CipherUpdate(back ? c->unname : c->name, out, &n, in, DISK_NAME_KEY_BYTES) == 1 &&
        n == DISK_NAME_KEY_BYTES;
    pthread_mutex_unlock(&c->lock);
    return ok;
}

static void cipher_end(void *record)
{
    record_cipher *r = record;
    if (r != NULL)
        EVP_CIPHER_CTX_free(r->context); /* it clears the key */
    mem_free(r);
}

static void *cipher_begin(void *with, const unsigned char salt[DISK_SALT_BYTES], bool seal)
{
    const cache_cipher *c = with;
    unsigned char key[CACHE_KEY_BYTES];
    record_cipher *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->seal = seal;
    r->context = EVP_CIPHER_CTX_new();
    const bool ok = r->context != NULL && derive(c->records, salt, DISK_SALT_BYTES, key) &&
                    EVP_CipherInit_ex(r->context, EVP_aes_256_gcm(), NULL, key, NULL, seal) == 1;
    OPENSSL_cleanse(key, sizeof key);
    if (ok)
        return r;
    cipher_end(r);
    return NULL;
}

static bool cipher_piece(void *record, const disk_piece *p)
{
    const record_cipher *r = record;
    EVP_CIPHER_CTX *x = r->context;
    unsigned char nonce[NONCE_BYTES] = {0};
    unsigned char last[DISK_TAG_BYTES]; /* GCM has no bytes left at its end */
    int n = 0, m = 0;
    for (size_t i = 0; i < sizeof p->number; i++)
        nonce[i] = (unsigned char)(p->number >> (8 * i));
    bool ok = EVP_CipherInit_ex(x, NULL, NULL, NULL, nonce, r->seal) == 1;
    if (ok && p->with_bytes > 0)
        ok = EVP_CipherUpdate(x, NULL, &n, p->with, (int)p->with_bytes) == 1;
    ok = ok && EVP_CipherUpdate(x, p->out, &n, p->in, (int)p->bytes) == 1 && (size_t)n == p->bytes;
    if (ok && !r->seal)
        ok = EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_AEAD_SET_TAG, DISK_TAG_BYTES, p->tag) == 1;
    ok = ok && EVP_CipherFinal_ex(x, last, &m) == 1 && m == 0;
    if (ok && r->seal)
        ok = EVP_CIPHER_CTX_ctrl(x, EVP_CTRL_AEAD_GET_TAG, DISK_TAG_BYTES, p->tag) == 1;
    return ok;
}

static EVP_CIPHER_CTX *name_context(const unsigned char key[CACHE_KEY_BYTES], bool encrypt)
{
    EVP_CIPHER_CTX *x = EVP_CIPHER_CTX_new();
    if (x != NULL && EVP_CipherInit_ex(x, EVP_aes_256_ecb(), NULL, key, NULL, encrypt) == 1 &&
        EVP_CIPHER_CTX_set_padding(x, 0) == 1)
        return x;
    EVP_CIPHER_CTX_free(x);
    return NULL;
}

static bool cipher_set_key(cache_cipher *c, const unsigned char key[CACHE_KEY_BYTES])
{
    static const char for_names[] = "mote prefix cache 1: names";
    static const char for_records[] = "mote prefix cache 1: records";
    static const char for_id[] = "mote prefix cache 1: id";
    unsigned char names[CACHE_KEY_BYTES], id[CACHE_KEY_BYTES];
    bool ok = derive(key, for_names, sizeof for_names - 1, names) &&
              derive(key, for_records, sizeof for_records - 1, c->records) &&
              derive(key, for_id, sizeof for_id - 1, id);
    if (ok) {
        c->name = name_context(names, true);
        c->unname = name_context(names, false);
        memcpy(&c->table.key_id, id, sizeof c->table.key_id);
        ok = c->name != NULL && c->unname != NULL;
    }
    OPENSSL_cleanse(names, sizeof names);
    return ok;
}

mote_status cache_cipher_new(disk_cipher **out, const unsigned char key[CACHE_KEY_BYTES],
                             mote_error *err)
{
    *out = NULL;
    cache_cipher *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the cipher of the disk cache");
    pthread_mutex_init(&c->lock, NULL);
    c->table = (disk_cipher){.with = c,
                             .map_name = cipher_map_name,
                             .begin = cipher_begin,
                             .piece = cipher_piece,
                             .end = cipher_end};
    if (!cipher_set_key(c, key)) {
        cache_cipher_free(&c->table);
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "libcrypto has no AES-256 or HMAC, or no memory for them");
    }
    *out = &c->table;
    return MOTE_OK;
}

void cache_cipher_free(disk_cipher *cipher)
{
    if (cipher == NULL)
        return;
    cache_cipher *c = cipher->with;
    EVP_CIPHER_CTX_free(c->name);
    EVP_CIPHER_CTX_free(c->unname);
    pthread_mutex_destroy(&c->lock);
    OPENSSL_cleanse(c->records, sizeof c->records);
    mem_free(c);
}
