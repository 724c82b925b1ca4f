/* SPDX-License-Identifier: Apache-2.0 */
/* model_name.c - see model_name.h. */
#include "server/models/model_name.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

void model_name_of_file(char out[MODEL_NAME_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(out, MODEL_NAME_BYTES, "%s", slash != NULL ? slash + 1 : path);
    size_t n = strlen(out);
    if (n > 5 && strcmp(out + n - 5, ".gguf") == 0)
        out[n - 5] = '\0';
    for (char *p = out; *p != '\0'; p++) {
        bool plain = isalnum((unsigned char)*p) || strchr("._-:", *p) != NULL;
        *p = plain ? (char)tolower((unsigned char)*p) : '-';
    }
}

/* Lower case, without a publisher in front and ":latest" behind, one sign for colon and dash. */
static size_t plain_name(str name, char *out, size_t room)
{
    size_t n = 0;
    size_t from = name.n;
    while (from > 0 && name.p[from - 1] != '/')
        from--;
    name.p += from;
    name.n -= from;
    if (name.n > 7 && strncasecmp(name.p + name.n - 7, ":latest", 7) == 0)
        name.n -= 7;
    for (; n < name.n && n + 1 < room; n++) {
        const char c = name.p[n];
        out[n] = c == ':' || c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    out[n] = 0;
    return n;
}

bool model_name_is(const char *name, str asked, bool whole)
{
    char a[160], b[160];
    const size_t n = plain_name(asked, a, sizeof a);
    plain_name(str_of(name), b, sizeof b);
    return n > 0 && strncmp(a, b, n) == 0 && (b[n] == 0 || (!whole && b[n] == '-'));
}
