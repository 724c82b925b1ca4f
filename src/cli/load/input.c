/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - see input.h. */
#include "cli/load/input.h"

#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/term/interrupt.h"
#include "cli/term/output_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_ROOM = 1 << 16, LARGEST_INPUT = 1 << 28 };

static int no_memory(void)
{
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the text");
}

void input_text_free(input_text *text)
{
    mem_free(text->p);
    *text = (input_text){0};
}

void input_ids_free(input_ids *ids)
{
    mem_free(ids->ids);
    *ids = (input_ids){0};
}

static bool make_room(input_text *text, size_t more)
{
    size_t needed = text->n + more;
    if (needed <= text->room)
        return true;
    size_t room = text->room > 0 ? text->room : FIRST_ROOM;
    while (room < needed)
        room *= 2;
    char *p = mem_resize(text->p, text->room, room, 1);
    if (p == NULL)
        return false;
    text->p = p;
    text->room = room;
    return true;
}

bool input_add(input_text *text, const char *p, size_t n)
{
    if (!make_room(text, n))
        return false;
    if (n > 0)
        memcpy(text->p + text->n, p, n);
    text->n += n;
    return true;
}

static int read_all(input_text *text, int fd, const char *name)
{
    for (;;) {
        if (!make_room(text, FIRST_ROOM / 2))
            return no_memory();
        ssize_t n = read(fd, text->p + text->n, text->room - text->n);
        if (interrupt_came())
            return interrupt_exit_code();
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return msg_fail(CLI_FAILED, "io_error", "cannot read %s: %s", name, strerror(errno));
        if (n == 0)
            return CLI_DONE;
        text->n += (size_t)n;
        if (text->n > LARGEST_INPUT)
            return msg_usage("%s is larger than %d MiB", name, LARGEST_INPUT >> 20);
    }
}

int input_read(input_text *text, const char *path)
{
    if (strcmp(path, "-") == 0)
        return read_all(text, STDIN_FILENO, "standard input");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return msg_fail(errno == EACCES ? CLI_REFUSED : CLI_FAILED, "io_error",
                        "cannot open %s: %s", path, strerror(errno));
    int code = read_all(text, fd, path);
    close(fd);
    return code;
}

int input_text_or_file(input_text *text, const char *given)
{
    if (given[0] != '@')
        return input_add(text, given, strlen(given)) ? CLI_DONE : no_memory();
    int code = input_read(text, given + 1);
    if (text->n > 0 && text->p[text->n - 1] == '\n')
        text->n--;
    return code;
}

/* A descriptor that is neither (/dev/null, a closed one) has nothing to say. */
bool input_waits_on_stdin(void)
{
    struct stat info;
    if (fstat(STDIN_FILENO, &info) != 0)
        return false;
    return S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode);
}

/* The id at *at, which moves behind it. */
static bool take_id(const char **at, mote_token *out)
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
    /* Every id takes a digit and a separator. */
    out->ids = mem_new(strlen(list) / 2 + 1, sizeof *out->ids);
    if (out->ids == NULL)
        return no_memory();
    for (const char *at = list + strspn(list, separators); *at != '\0';) {
        const char *start = at;
        if (!take_id(&at, &out->ids[out->n]) || (*at != '\0' && strchr(separators, *at) == NULL)) {
            input_ids_free(out);
            return msg_usage("%s takes token ids such as 1,2,3; '%.20s' is none", flag, start);
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
    size_t room = n / 3 + 16; /* enough for most text; else the second turn has the count */
    mote_error err;
    for (;;) {
        out->ids = mem_new(room, sizeof *out->ids);
        if (out->ids == NULL)
            return no_memory();
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
