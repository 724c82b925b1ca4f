/* SPDX-License-Identifier: Apache-2.0 */
/* typed_paths.c - see typed_paths.h. */
#include "cli/load/typed_paths.h"

#include "base/mem.h"
#include "base/str.h"
#include "media/decode/decode.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_WORDS = 16,  /* of a plain name with spaces */
    PATH_MOST = 4096 /* bytes of a name */
};

static const char *const extensions[] = {".png", ".jpg", ".jpeg", ".webp", ".gif"};
enum { N_EXTENSIONS = sizeof extensions / sizeof *extensions };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* ---- one name ---- */

/* A copy of n bytes with "~/" expanded. NULL: out of memory. */
static char *path_expand(const char *p, size_t n)
{
    const char *home = n > 1 && p[0] == '~' && p[1] == '/' ? getenv("HOME") : NULL;
    const size_t skip = home != NULL ? 1 : 0, room = (home != NULL ? strlen(home) : 0) + n + 1;
    char *path = mem_new(room, 1);
    if (path != NULL)
        snprintf(path, room, "%s%.*s", home != NULL ? home : "", (int)(n - skip), p + skip);
    return path;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "file:///a%20b" or "file://localhost/a%20b" to "/a b", in place. Other text stays. */
static void path_decode_url(char *path)
{
    static const char scheme[] = "file://", local[] = "localhost";
    if (strncmp(path, scheme, sizeof scheme - 1) != 0)
        return;
    const char *from = path + sizeof scheme - 1;
    if (strncmp(from, local, sizeof local - 1) == 0)
        from += sizeof local - 1;
    size_t n = 0;
    while (*from != '\0') {
        const int high = *from == '%' ? hex_digit(from[1]) : -1;
        const int low = high >= 0 ? hex_digit(from[2]) : -1;
        path[n++] = low > 0 || high > 0 ? (char)(high * 16 + low) : *from;
        from += low > 0 || high > 0 ? 3 : 1;
    }
    path[n] = '\0';
}

/* Reads one word: in quotes, or up to a blank, with backslashes removed. *taken: its bytes in the
 * text. NULL: out of memory, or the closing quote is missing. */
static char *word_read(const char *p, size_t n, size_t *taken)
{
    const char quote = n > 0 && (p[0] == '"' || p[0] == '\'') ? p[0] : '\0';
    char *word = mem_new(n + 1, 1);
    size_t at = quote != '\0', out = 0;
    if (word == NULL)
        return NULL;
    while (at < n && (quote != '\0' ? p[at] != quote : !is_blank(p[at]))) {
        if (p[at] == '\\' && quote != '\'' && at + 1 < n)
            at++;
        word[out++] = p[at++];
    }
    const bool closed = quote == '\0' || at < n;
    *taken = at + (quote != '\0' && closed);
    char *path = closed ? path_expand(word, out) : NULL;
    mem_free(word);
    if (path != NULL && quote == '\0')
        path_decode_url(path);
    return path;
}

/* ---- arguments of commands ---- */

/* The ends of the first words of a text; returns how many. */
static size_t words_ends(const char *p, size_t n, size_t ends[MAX_WORDS])
{
    size_t found = 0;
    for (size_t i = 1; i <= n && found < MAX_WORDS; i++)
        if (!is_blank(p[i - 1]) && (i == n || is_blank(p[i])))
            ends[found++] = i;
    return found;
}

static bool path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* The longest beginning of the text, in whole words, that is an existing file; NULL: none. */
static char *path_take_existing(const char *p, size_t *taken)
{
    size_t ends[MAX_WORDS];
    for (size_t i = words_ends(p, strlen(p), ends); i > 0; i--) {
        char *path = path_expand(p, ends[i - 1]);
        *taken = ends[i - 1];
        if (path != NULL && path_exists(path))
            return path;
        mem_free(path);
    }
    return NULL;
}

char *typed_path_take(const char **words, bool all)
{
    const char *p = *words;
    size_t taken = 0, n = strlen(p);
    while (n > 0 && is_blank(p[n - 1]))
        n--;
    char *path = path_take_existing(p, &taken);
    if (path == NULL)
        path = word_read(p, n, &taken);
    const bool whole = taken == n;
    if (path == NULL || (all && !whole)) {
        mem_free(path);
        path = path_expand(p, n);
        taken = n;
    }
    *words = p + taken + strspn(p + taken, " \t\n");
    return path;
}

/* ---- images in a message ---- */

bool typed_image_name(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < N_EXTENSIONS; i++) {
        const size_t n_end = strlen(extensions[i]);
        if (n > n_end && strcasecmp(name + n - n_end, extensions[i]) == 0)
            return true;
    }
    return false;
}

/* Only the first bytes are read here, not decoded. */
static bool file_is_image(const char *path)
{
    char head[64];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    struct stat info;
    const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    const ssize_t n = regular ? read(fd, head, sizeof head) : -1;
    close(fd);
    const media_format format = n > 0 ? media_format_of((str){head, (size_t)n}) : MEDIA_UNKNOWN;
    return format == MEDIA_JPEG || format == MEDIA_PNG || format == MEDIA_WEBP ||
           format == MEDIA_GIF;
}

/* Takes over `path`. */
static bool image_found(typed_image *out, char *path, size_t begin, size_t end)
{
    if (path != NULL && typed_image_name(path) && file_is_image(path)) {
        *out = (typed_image){path, begin, end};
        return true;
    }
    mem_free(path);
    return false;
}

/* A plain path with spaces: it must look like a path and end with an extension. */
static bool image_find_spaced(typed_image *out, const char *p, size_t n, size_t begin)
{
    size_t ends[MAX_WORDS];
    const bool rooted = p[0] == '/' || (n > 1 && (p[0] == '~' || p[0] == '.') &&
                                        (p[1] == '/' || (n > 2 && p[1] == '.' && p[2] == '/')));
    for (size_t i = rooted ? words_ends(p, n, ends) : 0; i > 1; i--)
        if (image_found(out, path_expand(p, ends[i - 1]), begin, begin + ends[i - 1]))
            return true;
    return false;
}

/* The word at p: a quoted, escaped or plain name, or a URL, with or without punctuation after it.
 */
static bool image_find_here(typed_image *out, const char *p, size_t n, size_t begin)
{
    size_t taken = 0;
    char *path = word_read(p, n, &taken);
    if (image_found(out, path, begin, begin + taken))
        return true;
    size_t bare = taken;
    while (bare > 1 && strchr(".,;:!?)", p[bare - 1]) != NULL)
        bare--;
    if (bare < taken && image_found(out, word_read(p, bare, &taken), begin, begin + bare))
        return true;
    return image_find_spaced(out, p, n, begin);
}

/* Position of the next extension of an image format; n: none. */
static size_t extension_find(const char *text, size_t n, size_t from)
{
    for (size_t i = from; i < n; i++)
        for (size_t k = 0; text[i] == '.' && k < N_EXTENSIONS; k++)
            if (strlen(extensions[k]) <= n - i &&
                strncasecmp(text + i, extensions[k], strlen(extensions[k])) == 0)
                return i;
    return n;
}

/* Long texts are common, names of images in them are not: files are looked up only for words in
 * front of an extension. */
bool typed_image_find(typed_image *out, const char *text, size_t n, size_t from)
{
    size_t extension = from;
    for (size_t i = from; i < n; i++) {
        if (extension <= i)
            extension = extension_find(text, n, i);
        if (extension == n)
            return false;
        if (extension - i > PATH_MOST)
            i = extension - PATH_MOST;
        const size_t left = n - i < 2 * PATH_MOST ? n - i : 2 * PATH_MOST;
        if (!is_blank(text[i]) && (i == 0 || is_blank(text[i - 1])) &&
            image_find_here(out, text + i, left, i))
            return true;
    }
    return false;
}
