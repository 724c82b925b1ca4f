/* SPDX-License-Identifier: Apache-2.0 */
/* file_hash.c - hashes a file; see file_hash.h. */
#include "store/file_hash.h"

#include "base/mem.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, PROGRESS_BYTES = 4 << 20 };

static void identity_from_stat(file_identity *out, const struct stat *info)
{
    *out = (file_identity){.device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .bytes = (uint64_t)info->st_size,
                           .modified_ns = os_modified_ns(info)};
}

bool file_identity_of(file_identity *out, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    identity_from_stat(out, &info);
    return true;
}

static bool identity_equal(const file_identity *a, const file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->modified_ns == b->modified_ns;
}

/* A file that grows without end does not keep the loop busy: it stops after `total` bytes. */
static mote_status hash_descriptor(hasher *h, int fd, uint64_t total, const char *path,
                                   file_hash_progress progress, void *ctx, mote_error *err)
{
    unsigned char *piece = mem_new(PIECE_BYTES, 1);
    if (piece == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %d bytes to read a file", PIECE_BYTES);
    mote_status status = MOTE_OK;
    uint64_t done = 0, reported = 0;
    while (status == MOTE_OK && done < total) {
        const ssize_t n = read(fd, piece, PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            status = err_set(err, MOTE_E_IO, "cannot read %s at byte %llu: %s", path,
                             (unsigned long long)done, n < 0 ? strerror(errno) : "it was cut");
            break;
        }
        hasher_add(h, piece, (size_t)n);
        done += (uint64_t)n;
        if (progress != NULL && (done >= total || done - reported >= PROGRESS_BYTES)) {
            reported = done;
            if (!progress(ctx, done, total))
                status = err_set(err, MOTE_E_CANCELED, "stopped while %s was hashed", path);
        }
    }
    mem_free(piece);
    return status;
}

static mote_status hash_open_file(char out[HASH_TEXT_BYTES], hash_kind kind, int fd,
                                  const char *path, file_identity *identity,
                                  file_hash_progress progress, void *ctx, mote_error *err)
{
    struct stat info;
    file_identity after;
    hasher h;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_IO, "%s is not a regular file", path);
    identity_from_stat(identity, &info);
    os_will_read_all(fd);
    TRY(hasher_begin(&h, kind, identity->bytes, err));
    mote_status status = hash_descriptor(&h, fd, identity->bytes, path, progress, ctx, err);
    if (status == MOTE_OK)
        status = hasher_end(&h, out, err);
    hasher_fini(&h);
    if (status != MOTE_OK)
        return status;
    if (fstat(fd, &info) != 0)
        return err_set(err, MOTE_E_IO, "cannot read %s: %s", path, strerror(errno));
    identity_from_stat(&after, &info);
    if (!identity_equal(identity, &after))
        return err_set(err, MOTE_E_IO, "%s was written to while it was hashed; try again", path);
    return MOTE_OK;
}

mote_status file_hash(char out[HASH_TEXT_BYTES], hash_kind kind, const char *path,
                      file_identity *identity, file_hash_progress progress, void *ctx,
                      mote_error *err)
{
    file_identity unused;
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", path, strerror(errno));
    const mote_status status = hash_open_file(
        out, kind, fd, path, identity != NULL ? identity : &unused, progress, ctx, err);
    close(fd);
    return status;
}
