/* SPDX-License-Identifier: Apache-2.0 */
/* cache_key.c - the key file of cache_cipher.h. */
#include "base/os.h"
#include "cli/load/cache_cipher.h"
#include "cli/term/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = 2 * CACHE_KEY_BYTES, MOST_BYTES = DIGITS + 64 };

/* ---- reading ---- */

static mote_status key_check_mode(int fd, const char *path, mote_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_ARG, "the key file %s is not a regular file", path);
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return err_set(err, MOTE_E_ARG,
                       "the key file %s belongs to another user: copy it to a file of your own",
                       path);
    if ((info.st_mode & 077) != 0)
        return err_set(
            err, MOTE_E_ARG,
            "the key file %s has mode %04o, so other users may read it: run chmod 600 %s", path,
            (unsigned)info.st_mode & 07777, path);
    return MOTE_OK;
}

/* Reads at most MOST_BYTES; returns how many. */
static size_t key_read_bytes(int fd, unsigned char out[MOST_BYTES])
{
    size_t n = 0;
    for (ssize_t got; n < MOST_BYTES; n += (size_t)got) {
        got = read(fd, out + n, MOST_BYTES - n);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            break;
    }
    return n;
}

static int hex_value(unsigned char c)
{
    return isdigit(c)             ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool key_parse(unsigned char key[CACHE_KEY_BYTES], const unsigned char *bytes, size_t n)
{
    if (n == CACHE_KEY_BYTES) {
        memcpy(key, bytes, CACHE_KEY_BYTES);
        return true;
    }
    while (n > 0 && isspace(bytes[n - 1]))
        n--;
    if (n != DIGITS)
        return false;
    for (size_t i = 0; i < CACHE_KEY_BYTES; i++) {
        const int high = hex_value(bytes[2 * i]), low = hex_value(bytes[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        key[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* For a key, which the compiler must not leave in memory. */
static void forget(void *bytes, size_t n)
{
    volatile unsigned char *at = bytes;
    while (n-- > 0)
        *at++ = 0;
}

mote_status cache_key_read(unsigned char key[CACHE_KEY_BYTES], const char *path, mote_error *err)
{
    unsigned char bytes[MOST_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe does not wait */
    if (fd < 0)
        return err_set(err, MOTE_E_ARG, "cannot open the key file %s: %s", path, strerror(errno));
    mote_status status = key_check_mode(fd, path, err);
    const size_t n = status == MOTE_OK ? key_read_bytes(fd, bytes) : 0;
    close(fd);
    if (status == MOTE_OK && !key_parse(key, bytes, n))
        status = err_set(err, MOTE_E_ARG,
                         "the key file %s must have 32 bytes or 64 hexadecimal digits (mote cache "
                         "key FILE makes one)",
                         path);
    forget(bytes, n);
    return status;
}

int cache_key_open(disk_cipher **out, const char *path)
{
    unsigned char key[CACHE_KEY_BYTES];
    mote_error err;
    *out = NULL;
    if (path == NULL || path[0] == '\0')
        return CLI_DONE;
    mote_status status = cache_key_read(key, path, &err);
    if (status == MOTE_OK)
        status = cache_cipher_new(out, key, &err);
    forget(key, sizeof key);
    if (status == MOTE_OK)
        return CLI_DONE;
    return status == MOTE_E_ARG ? msg_usage("--cache-key: %s", err.text) : msg_error(&err);
}

/* ---- making ---- */

static bool key_write(int fd)
{
    unsigned char key[CACHE_KEY_BYTES];
    char text[DIGITS + 2];
    if (!os_random(key, sizeof key))
        return false;
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(text + 2 * i, 3, "%02x", key[i]);
    memcpy(text + DIGITS, "\n", 2);
    const bool ok = os_write_all(fd, text, DIGITS + 1) && os_sync(fd);
    forget(key, sizeof key);
    forget(text, sizeof text);
    return ok;
}

int cache_key_create(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return msg_usage("%.200s exists: a key is never replaced", path);
    if (fd < 0)
        return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot create %.200s: %s", path,
                        strerror(errno));
    const bool ok = key_write(fd);
    close(fd);
    if (ok)
        return CLI_DONE;
    unlink(path);
    return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot write %.200s", path);
}
