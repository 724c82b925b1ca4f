/* SPDX-License-Identifier: Apache-2.0 */
/* eval_results.c - see eval_results.h. */
#include "cli/evaluate/eval_results.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "gguf/gguf_files.h"
#include "json/json.h"
#include "store/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { IDENTITY_PARTS = 64, IDENTITY_PART = 1 << 16 };

static int results_failed(const eval_results *r)
{
    return msg_fail(CLI_NOT_WRITABLE, "io_error", "cannot write %s: %s", r->path, strerror(errno));
}

/* ---- reading ---- */

static bool results_keep(eval_results *r, str id, bool pass)
{
    char *copy = mem_new(id.n + 1, 1);
    if (copy == NULL || !mem_grow(&r->done, r->n, &r->room, sizeof *r->done)) {
        mem_free(copy);
        return false;
    }
    memcpy(copy, id.p, id.n);
    r->done[r->n++] = (eval_done){copy, pass};
    return true;
}

static int results_read_line(eval_results *r, str line)
{
    json_doc *doc;
    if (json_doc_read(&doc, line, NULL) != MOTE_OK)
        return msg_fail(CLI_DAMAGED, "malformed", "%s has a line that is not JSON; remove the file",
                        r->path);
    const json_node *root = json_doc_root(doc);
    const bool kept = results_keep(r, json_node_text(json_node_get(root, "id")),
                                   json_node_truth(json_node_get(root, "pass")));
    json_doc_free(doc);
    return kept ? CLI_DONE : input_no_memory();
}

static int results_of_nothing(const eval_results *r)
{
    return msg_usage(
        "%s exists and is not a file of results; give another --out or remove the file", r->path);
}

/* Names the first field of the head that differs. */
static int results_other_head(const eval_results *r, str head, str found)
{
    json_doc *a = NULL, *b = NULL;
    str name = {NULL, 0};
    if (json_doc_read(&a, head, NULL) == MOTE_OK && json_doc_read(&b, found, NULL) == MOTE_OK &&
        json_node_get(json_doc_root(b), "eval") != NULL)
        for (const json_node *m = json_node_first(json_doc_root(a)); m != NULL;
             m = json_node_next(m)) {
            const json_node *other = json_node_member(json_doc_root(b), json_node_name(m));
            if (!str_eq(json_node_text(m), json_node_text(other))) {
                name = json_node_name(m);
                break;
            }
        }
    const int code = name.p == NULL
                         ? results_of_nothing(r)
                         : msg_usage("%s has results of another run: %.*s differs; give another "
                                     "--out or remove the file",
                                     r->path, STR_ARG(name));
    json_doc_free(a);
    json_doc_free(b);
    return code;
}

/* *whole: bytes of complete lines. */
static int results_read(eval_results *r, str text, str head, size_t *whole)
{
    *whole = 0;
    for (size_t number = 0; *whole < text.n; number++) {
        const char *start = text.p + *whole;
        const char *end = memchr(start, '\n', text.n - *whole);
        const size_t left = text.n - *whole;
        if (end == NULL && number == 0 && (left > head.n || memcmp(start, head.p, left) != 0))
            return results_of_nothing(r); /* opening it would remove what it has */
        if (end == NULL)
            return CLI_DONE; /* cut by a crash */
        const str line = {start, (size_t)(end - start)};
        if (number == 0 && !str_eq(line, head))
            return results_other_head(r, head, line);
        const int code = number > 0 ? results_read_line(r, line) : CLI_DONE;
        if (code != CLI_DONE)
            return code;
        *whole += line.n + 1;
    }
    return CLI_DONE;
}

/* ---- the file ---- */

/* Opens the file and locks it, before it is read. */
static int results_lock(eval_results *r)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    r->fd = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return results_failed(r);
    if (fcntl(r->fd, F_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN))
        return CLI_DONE; /* a file system without locks has no other error */
    return msg_fail(CLI_REFUSED, "in_use", "another mote eval writes %s; give another --out",
                    r->path);
}

int eval_results_open(eval_results *r, const char *path, str head)
{
    *r = (eval_results){.path = path, .fd = -1};
    if (path == NULL)
        return CLI_DONE;
    strbuf text = {0};
    size_t whole = 0;
    const bool exists = access(path, F_OK) == 0;
    int code = results_lock(r);
    if (code == CLI_DONE && exists)
        code = input_read(&text, path);
    if (code == CLI_DONE)
        code = results_read(r, strbuf_view(&text), head, &whole);
    strbuf_fini(&text);
    if (code != CLI_DONE)
        return code;
    if (r->fd < 0 || ftruncate(r->fd, (off_t)whole) != 0 ||
        lseek(r->fd, (off_t)whole, SEEK_SET) < 0)
        return results_failed(r);
    return whole == 0 ? eval_results_add(r, head) : CLI_DONE;
}

void eval_results_close(eval_results *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        mem_free(r->done[i].id);
    mem_free(r->done);
    if (r->path != NULL && r->fd >= 0)
        close(r->fd);
    *r = (eval_results){.fd = -1};
}

/* Results are in the order of the tasks, so the first comparison usually succeeds. */
bool eval_results_find(eval_results *r, str id, bool *pass)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t at = (r->next + i) % r->n;
        if (str_is(id, r->done[at].id)) {
            *pass = r->done[at].pass;
            r->next = at + 1;
            return true;
        }
    }
    return false;
}

int eval_results_add(eval_results *r, str line)
{
    strbuf whole = {0};
    if (r->path == NULL)
        return CLI_DONE;
    strbuf_put(&whole, line);
    strbuf_byte(&whole, '\n');
    const bool memory = !whole.failed;
    const bool written = memory && os_write_all(r->fd, whole.p, whole.n) && os_sync(r->fd);
    const int code = written ? CLI_DONE : memory ? results_failed(r) : input_no_memory();
    strbuf_fini(&whole);
    return code;
}

/* ---- what was measured ---- */

static int identity_end(hasher *h, char out[EVAL_IDENTITY_BYTES])
{
    mote_error err;
    return hasher_end(h, out, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
}

int eval_text_identity(str text, char out[EVAL_IDENTITY_BYTES])
{
    hasher h = {0};
    mote_error err;
    if (hasher_begin(&h, HASH_SHA256, text.n, &err) != MOTE_OK)
        return msg_error(&err);
    hasher_add(&h, text.p, text.n);
    return identity_end(&h, out);
}

/* Adds the size of a file and 64 parts of it. */
static int identity_add_file(hasher *h, const char *path)
{
    static unsigned char part[IDENTITY_PART];
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        const int code =
            msg_fail(CLI_FAILED, "io_error", "cannot read %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return code;
    }
    const uint64_t size = (uint64_t)info.st_size;
    hasher_add(h, &size, sizeof size);
    for (uint64_t i = 0; i < IDENTITY_PARTS; i++) {
        const uint64_t last = size > IDENTITY_PART ? size - IDENTITY_PART : 0;
        const ssize_t n = pread(fd, part, sizeof part, (off_t)(last * i / (IDENTITY_PARTS - 1)));
        hasher_add(h, part, n > 0 ? (size_t)n : 0);
    }
    close(fd);
    return CLI_DONE;
}

int eval_model_identity(const char *path, char out[EVAL_IDENTITY_BYTES])
{
    gguf_part_name name;
    char part[4096];
    hasher h = {0};
    mote_error err;
    const bool split = gguf_part_name_parse(&name, str_of(path));
    const uint32_t n = split && name.count <= GGUF_MAX_PARTS ? name.count : 1;
    if (hasher_begin(&h, HASH_SHA256, 0, &err) != MOTE_OK)
        return msg_error(&err);
    int code = CLI_DONE;
    for (uint32_t i = 1; i <= n && code == CLI_DONE; i++) {
        const bool fits = n > 1 && gguf_part_name_print(part, sizeof part, &name, i);
        code = identity_add_file(&h, fits ? part : path);
    }
    const int ended = identity_end(&h, out); /* frees the hasher */
    return code != CLI_DONE ? code : ended;
}
