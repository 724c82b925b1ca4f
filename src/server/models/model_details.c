/* SPDX-License-Identifier: Apache-2.0 */
/* model_details.c - see model_details.h. */
#include "server/models/model_details.h"

#include "server/api/ollama/ollama.h"
#include "server/core/digest.h"

#include <stdio.h>

/* The numbers of general.file_type that files of this family carry. */
static const struct {
    uint32_t id;
    const char *name;
} formats[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},   {21, "Q2_K_S"}, {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},
};

static void read_file(model_details *out)
{
    str family = {"", 0};
    bool found = false;
    uint32_t id = UINT32_MAX;
    if (gguf_get_str(out->file, "general.architecture", &family, &found, NULL) == MOTE_OK && found)
        snprintf(out->family, sizeof out->family, "%.*s", (int)(family.n < 31 ? family.n : 31),
                 family.p);
    if (gguf_get_u32(out->file, "general.file_type", &id, &found, NULL) != MOTE_OK || !found)
        return;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id)
            snprintf(out->format, sizeof out->format, "%s", formats[i].name);
}

static void make_digest(model_details *out, const served_model *m)
{
    char text[256];
    digest d = {0};
    snprintf(text, sizeof text, "%s %llu %lld", served_model_name(m),
             (unsigned long long)out->info.file_bytes, (long long)served_model_date(m));
    digest_of(&d, str_of(text));
    digest_print(&d, out->digest);
}

void model_details_read(model_details *out, const served_model *m)
{
    size_t n = 0;
    *out = (model_details){.family = "qwen35", .format = "unknown"};
    mote_model_describe(served_model_weights(m), &out->info);
    const double size = (double)out->info.parameters;
    snprintf(out->parameters, sizeof out->parameters, size < 1e9 ? "%.1fM" : "%.1fB",
             size / (size < 1e9 ? 1e6 : 1e9));
    make_digest(out, m);
    ollama_time_of(served_model_date(m), 0, out->date);
    static const char mark[] = "<|fim_prefix|>";
    out->insert = mote_tokenize(served_model_weights(m), mark, sizeof mark - 1, MOTE_TEXT_CONTROL,
                                NULL, 0, &n, NULL) == MOTE_OK &&
                  n == 1;
    if (os_map_open(&out->map, served_model_path(m), NULL) != MOTE_OK)
        return;
    if (gguf_read(&out->file, out->map.data, out->map.bytes, NULL) == MOTE_OK)
        read_file(out);
}

void model_details_fini(model_details *facts)
{
    if (facts->file != NULL)
        gguf_free(facts->file);
    os_map_close(&facts->map);
}
