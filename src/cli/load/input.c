/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - text and token ids from flags, files and stdin; see load.h. */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 15, MAX_INPUT = 1 << 28 };

int input_no_memory(void)
{
    return msg_no_memory("a text");
}

void input_ids_free(input_ids *ids)
{
    mem_free(ids->ids);
    *ids = (input_ids){0};
}

static int input_read_fd(strbuf *text, int fd, const char *name)
{
    for (;;) {
        if (!strbuf_reserve(text, READ_BYTES))
            return input_no_memory();
        ssize_t n = read(fd, text->p + text->n, text->room - text->n);
        if (interrupt_pending())
            return interrupt_exit_code();
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return msg_fail(CLI_FAILED, "io_error", "cannot read %s: %s", name, strerror(errno));
        if (n == 0)
            return CLI_DONE;
        text->n += (size_t)n;
        if (text->n > MAX_INPUT)
            return msg_usage("%s is too large; at most %d MiB", name, MAX_INPUT >> 20);
    }
}

int input_read(strbuf *text, const char *path)
{
    if (strcmp(path, "-") == 0)
        return input_read_fd(text, STDIN_FILENO, "stdin");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return msg_fail(errno == EACCES ? CLI_REFUSED : CLI_FAILED, "io_error",
                        "cannot open %s: %s", path, strerror(errno));
    int code = input_read_fd(text, fd, path);
    close(fd);
    return code;
}

int input_text_or_file(strbuf *text, const char *given)
{
    if (given[0] != '@')
        return text_add(text, given, strlen(given)) ? CLI_DONE : input_no_memory();
    int code = input_read(text, given + 1);
    if (text->n > 0 && text->p[text->n - 1] == '\n')
        text->n--;
    return code;
}

/* /dev/null and a closed descriptor do not count. */
bool input_has_stdin(void)
{
    struct stat info;
    if (fstat(STDIN_FILENO, &info) != 0)
        return false;
    return S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode);
}

/* Parses the id at *at and advances *at. */
static bool input_parse_id(const char **at, mote_token *out)
{
    int64_t id = 0;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        id = id * 10 + (**at - '0');
        if (id > INT32_MAX)
            return false;
    }
    *out = (mote_token)id;
    return true;
}

int input_parse_ids(input_ids *out, const char *list, const char *flag)
{
    static const char separators[] = ", \t\r\n";
    *out = (input_ids){0};
    /* Every id has a digit and a separator. */
    out->ids = mem_new(strlen(list) / 2 + 1, sizeof *out->ids);
    if (out->ids == NULL)
        return input_no_memory();
    for (const char *at = list + strspn(list, separators); *at != '\0';) {
        const char *start = at;
        if (!input_parse_id(&at, &out->ids[out->n]) ||
            (*at != '\0' && strchr(separators, *at) == NULL)) {
            input_ids_free(out);
            return msg_usage("%s must be token ids such as 1,2,3; got '%.20s'", flag, start);
        }
        out->n++;
        at += strspn(at, separators);
    }
    return CLI_DONE;
}

int input_tokenize(input_ids *out, const mote_model *model, const char *text, size_t n,
                   unsigned flags)
{
    *out = (input_ids){0};
    size_t room = n / 3 + 16; /* enough for most texts; else the second pass knows the count */
    mote_error err;
    for (;;) {
        out->ids = mem_new(room, sizeof *out->ids);
        if (out->ids == NULL)
            return input_no_memory();
        if (mote_tokenize(model, text, n, flags, out->ids, room, &out->n, &err) != MOTE_OK) {
            input_ids_free(out);
            return msg_error(&err);
        }
        if (out->n <= room)
            return CLI_DONE;
        room = out->n;
        mem_free(out->ids);
    }
}
