/* SPDX-License-Identifier: Apache-2.0 */
/* sealed_text.c - see sealed_text.h. */
#include "disk_cache/sealed_text.h"

#include "base/os.h"

#include <string.h>

typedef struct text_head {
    char magic[8];
    uint64_t key_id;
    unsigned char salt[DISK_SALT_BYTES];
    unsigned char tag[DISK_TAG_BYTES];
} text_head;

enum { MOST_BYTES = 1 << 30 };

static const char text_magic[8] = {'M', 'O', 'T', 'E', 'T', 'X', 'T', '\n'};

bool sealed_text_is(str bytes)
{
    return bytes.n >= sizeof(text_head) && memcmp(bytes.p, text_magic, sizeof text_magic) == 0;
}

static bool text_crypt(const disk_cipher *cipher, text_head *head, const void *in, void *out,
                       size_t n, bool seal)
{
    void *work = cipher->begin(cipher->with, head->salt, seal);
    const disk_piece p = {.with = head,
                          .with_bytes = offsetof(text_head, salt),
                          .in = in,
                          .out = out,
                          .bytes = n,
                          .tag = head->tag};
    const bool ok = work != NULL && cipher->piece(work, &p);
    cipher->end(work);
    return ok;
}

mote_status sealed_text_put(strbuf *out, const disk_cipher *cipher, str text, mote_error *err)
{
    text_head head = {.key_id = cipher->key_id};
    const size_t at = out->n;
    memcpy(head.magic, text_magic, sizeof text_magic);
    if (text.n > MOST_BYTES)
        return err_set(err, MOTE_E_ARG, "%zu bytes are too many to encrypt", text.n);
    if (!os_random(head.salt, sizeof head.salt))
        return err_set(err, MOTE_E_IO, "no random bytes from the system");
    strbuf_put(out, (str){(const char *)&head, sizeof head});
    strbuf_put(out, text);
    TRY(strbuf_check(out, err));
    char *sealed = out->p + at + sizeof head;
    if (!text_crypt(cipher, &head, sealed, sealed, text.n, true))
        return err_set(err, MOTE_E_MEMORY, "cannot encrypt %zu bytes", text.n);
    memcpy(out->p + at, &head, sizeof head);
    return MOTE_OK;
}

mote_status sealed_text_open(strbuf *bytes, const disk_cipher *cipher, mote_error *err)
{
    text_head head;
    if (!sealed_text_is(strbuf_view(bytes)))
        return err_set(err, MOTE_E_FORMAT, "not encrypted by mote");
    memcpy(&head, bytes->p, sizeof head);
    if (cipher == NULL)
        return err_set(err, MOTE_E_MISMATCH, "encrypted: name its key file with --cache-key FILE");
    if (cipher->key_id != head.key_id)
        return err_set(err, MOTE_E_MISMATCH, "encrypted with another key than that of --cache-key");
    const size_t n = bytes->n - sizeof head;
    char *sealed = bytes->p + sizeof head;
    if (n > MOST_BYTES || !text_crypt(cipher, &head, sealed, sealed, n, false))
        return err_set(err, MOTE_E_FORMAT, "damaged: its tag is wrong");
    memmove(bytes->p, sealed, n);
    bytes->n = n;
    return MOTE_OK;
}
