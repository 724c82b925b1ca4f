/* SPDX-License-Identifier: Apache-2.0 */
/* reply_json.c - see embedding.h. */
#include "server/api/common/reply_json.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"

#include <math.h>

float *embedding_unit(const float *from, size_t n)
{
    float *unit = mem_new(n, sizeof *unit);
    double sum = 0;
    if (unit == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        sum += (double)from[i] * (double)from[i];
    const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; i < n; i++)
        unit[i] = (float)((double)from[i] * scale);
    return unit;
}

void embedding_put(const float *vector, size_t n, strbuf *out)
{
    jw_open(out, '[');
    for (size_t i = 0; i < n; i++)
        jw_float(out, vector[i]);
    jw_close(out, ']');
}

/* Floats stand in memory as base/os.h asserts: the lowest byte first. */
void embedding_put_base64(const float *vector, size_t n, strbuf *out)
{
    jw_raw(out, str_of("\""));
    base64_put(out, (str){(const char *)vector, n * sizeof *vector}, false);
    strbuf_byte(out, '"');
}

void embedding_put_unit(const float *from, size_t n, bool base64, strbuf *out)
{
    float *unit = embedding_unit(from, n);
    if (unit == NULL)
        out->failed = true;
    else if (base64)
        embedding_put_base64(unit, n, out);
    else
        embedding_put(unit, n, out);
    mem_free(unit);
}
