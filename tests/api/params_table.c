/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params_table.c - prints the table of parameters: as JSON for the tests of all fields, as
 * Markdown for docs/api.md, or with `check FILE` compares that file's copy with it.
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
        fprintf(stderr, "%s cannot be opened\n", path);
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
            "%s does not have the table of src/server/request/params_table.c: put what this "
            "program prints between the two marks\n",
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
