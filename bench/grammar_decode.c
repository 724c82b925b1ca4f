/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_decode.c - decode speed with and without a response format.
 *
 *   grammar_decode MODEL.gguf [ROUNDS [TOKENS]]
 *
 * Three kinds of generation alternate, so that other load on the machine affects all of them: free
 * text, a format that leaves nearly every token to the model, and a format of long names that
 * forces most tokens. Prints tokens per second of each, and the median ratio to free text of the
 * same round. The weights may be random.
 */
#include <mote_chat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 3, MAX_ROUNDS = 64, SCHEMA_ROOM = 8192 };

static const char *const names[KINDS] = {"free text", "texts in a list", "long names"};
static char schemas[KINDS][SCHEMA_ROOM] = {
    "", "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":20},\"minItems\":200}"};

static void write_long_names(char *out)
{
    static const char *const words[] = {"the_number_of_items_in_the_warehouse", "delivery_address",
                                        "date_of_the_latest_inspection", "is_out_of_service",
                                        "responsible_person_at_the_supplier"};
    char *at = out + sprintf(out, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "%s\"%s_%d\":{\"type\":\"boolean\"}", i > 0 ? "," : "", words[i % 5], i);
    at += sprintf(at, "},\"required\":[");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "%s\"%s_%d\"", i > 0 ? "," : "", words[i % 5], i);
    sprintf(at, "],\"additionalProperties\":false}");
}

/* Tokens per second of one generation. */
static double answer(mote_chat *chat, int kind, uint32_t tokens, uint64_t seed, uint64_t *forced)
{
    static const char question[] = "Describe the warehouse and all that is in it, in detail.";
    const mote_answer_options how = {.think = MOTE_THINK_OFF,
                                     .max_tokens = tokens,
                                     .sampling = {.seed = seed},
                                     .format =
                                         kind > 0 ? MOTE_FORMAT_JSON_SCHEMA : MOTE_FORMAT_TEXT,
                                     .format_text = schemas[kind],
                                     .format_bytes = strlen(schemas[kind]),
                                     .no_loop_guard = true};
    mote_error err;
    mote_answer result;
    mote_status status = mote_chat_add(chat, MOTE_ROLE_USER, question, sizeof question - 1, &err);
    if (status == MOTE_OK)
        status = mote_chat_answer(chat, &how, &result, &err);
    if (status != MOTE_OK) {
        fprintf(stderr, "grammar_decode: %s\n", err.text);
        exit(1);
    }
    mote_chat_clear(chat);
    *forced += result.forced_tokens;
    return (double)result.answer_tokens / result.seconds_decode;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void compare(mote_chat *chat, int rounds, uint32_t tokens)
{
    static double rate[KINDS][MAX_ROUNDS], ratio[KINDS][MAX_ROUNDS];
    uint64_t forced[KINDS] = {0};
    for (int kind = 0; kind < KINDS; kind++) /* warm-up */
        answer(chat, kind, 8, 1, &forced[kind]);
    memset(forced, 0, sizeof forced);
    for (int r = 0; r < rounds; r++) {
        for (int k = 0; k < KINDS; k++) {
            const int kind = (k + r) % KINDS;
            rate[kind][r] = answer(chat, kind, tokens, (uint64_t)r + 2, &forced[kind]);
        }
        for (int kind = 0; kind < KINDS; kind++)
            ratio[kind][r] = rate[kind][r] / rate[0][r];
    }
    for (int kind = 0; kind < KINDS; kind++)
        printf("%-16s %7.2f tokens/s, %.3f of free text, %.0f %% of its tokens forced\n",
               names[kind], median(rate[kind], rounds), median(ratio[kind], rounds),
               100.0 * (double)forced[kind] / ((double)rounds * tokens));
}

int main(int argc, char **argv)
{
    const int rounds = argc > 2 ? atoi(argv[2]) : 5;
    const int tokens = argc > 3 ? atoi(argv[3]) : 64;
    if (argc < 2 || rounds < 1 || rounds > MAX_ROUNDS || tokens < 1) {
        fprintf(stderr, "usage: grammar_decode MODEL.gguf [ROUNDS [TOKENS]]\n");
        return 1;
    }
    mote_error err;
    mote_model *model = NULL;
    mote_engine *engine = NULL;
    mote_chat *chat = NULL;
    const mote_engine_options options = {.positions = 2048};
    write_long_names(schemas[2]);
    if (mote_model_open(&model, argv[1], NULL, &err) != MOTE_OK ||
        mote_engine_new(&engine, model, &options, &err) != MOTE_OK ||
        mote_chat_new(&chat, engine, NULL, &err) != MOTE_OK) {
        fprintf(stderr, "grammar_decode: %s\n", err.text);
        return 1;
    }
    compare(chat, rounds, (uint32_t)tokens);
    mote_chat_free(chat);
    mote_engine_free(engine);
    mote_model_close(model);
    return 0;
}
