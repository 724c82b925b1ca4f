/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params_table.c - prints the parameter table: Markdown for docs/api.md; `json` for the tests of
 * all fields; `check FILE` compares the copy in that file with it.
 */
#include "api/params_print.h"
#include "server/request/params.h"

#include <stdio.h>

static const char begins[] = "<!-- params: made by tests/api/params_table -->\n";
static const char ends[] = "<!-- end of params -->\n";

static int check(const char *path, str table)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "cannot open %s\n", path);
        return 1;
    }
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *from = strstr(text, begins), *to = strstr(text, ends);
    if (from != NULL && to != NULL) {
        from += strlen(begins);
        if ((size_t)(to - from) == table.n && memcmp(from, table.p, table.n) == 0)
            return 0;
    }
    fprintf(stderr,
            "%s: the parameter table differs from src/server/request/params_table.c; replace the "
            "text between the two marks with the output of this program\n",
            path);
    return 1;
}

int main(int argc, char **argv)
{
    strbuf out = {0};
    int code = 0;
    if (argc == 2 && strcmp(argv[1], "json") == 0)
        params_print_json(&out);
    else
        params_print(&out);
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        code = check(argv[2], strbuf_view(&out));
    else
        fwrite(out.p, 1, out.n, stdout);
    strbuf_fini(&out);
    return code;
}
