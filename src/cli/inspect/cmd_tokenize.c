/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tokenize.c - `mote tokenize`: text to token ids and back. */
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>

typedef struct tokenize_options {
    bool ids;
    bool count;
    bool pieces;
    bool special;
    const char *decode;
} tokenize_options;

#define AT(member) offsetof(tokenize_options, member)

static const cli_flag flags[] = {
    {.name = "ids",
     .kind = FLAG_SWITCH,
     .at = AT(ids),
     .help = "print the ids, separated by commas (the default)"},
    {.name = "count",
     .kind = FLAG_SWITCH,
     .at = AT(count),
     .help = "print only the number of tokens"},
    {.name = "pieces",
     .kind = FLAG_SWITCH,
     .at = AT(pieces),
     .help = "print one token per line, with its text"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .at = AT(special),
     .help = "parse control tokens in the text"},
    {.name = "decode",
     .kind = FLAG_TEXT,
     .value = "1,2,3",
     .at = AT(decode),
     .help = "print the text of these ids instead"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

static int tokenize_read_text(const cli_call *call, strbuf *text)
{
    if (call->n_words > 1 && strcmp(call->words[1], "-") != 0)
        return text_add(text, call->words[1], strlen(call->words[1])) ? CLI_DONE
                                                                      : input_no_memory();
    if (call->n_words == 1 && !input_has_stdin())
        return msg_usage("no text (try: mote tokenize %.200s \"some text\")", call->words[0]);
    return input_read(text, "-");
}

static void tokenize_write_hex(strbuf *j, const char *bytes, size_t n)
{
    char hex[2 * 256 + 1] = "";
    for (size_t i = 0; i < n && i < 256; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    jw_key_text(j, "hex", hex);
}

static void tokenize_write_pieces(strbuf *j, cli_out *out, const mote_model *model,
                                  const input_ids *ids)
{
    jw_key(j, "pieces");
    jw_open(j, '[');
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, ids->ids[i], &n);
        jw_open(j, '{');
        jw_key_int(j, "id", ids->ids[i]);
        jw_key_str(j, "text", (str){bytes, n});
        tokenize_write_hex(j, bytes, n);
        jw_key_bool(j, "control", mote_token_is_control(model, ids->ids[i]));
        jw_close(j, '}');
        out_json_part(out, j);
    }
    jw_close(j, ']');
}

static int tokenize_write_json(const cli_call *call, const mote_model *model, const input_ids *ids)
{
    const tokenize_options *o = call->options;
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_uint(&j, "count", ids->n);
    if (!o->count) {
        jw_key(&j, "ids");
        jw_open(&j, '[');
        for (size_t i = 0; i < ids->n; i++)
            jw_int(&j, ids->ids[i]);
        jw_close(&j, ']');
        out_json_part(call->out, &j);
    }
    if (o->pieces)
        tokenize_write_pieces(&j, call->out, model, ids);
    jw_close(&j, '}');
    return out_json(call->out, &j);
}

static void tokenize_write_text(const cli_call *call, const mote_model *model, const input_ids *ids)
{
    const tokenize_options *o = call->options;
    if (o->count) {
        out_printf(call->out, "%zu\n", ids->n);
    } else if (o->pieces) {
        for (size_t i = 0; i < ids->n; i++) {
            size_t n;
            const char *bytes = mote_token_bytes(model, ids->ids[i], &n);
            out_printf(call->out, "%7d  ", (int)ids->ids[i]);
            out_quoted(call->out, bytes, n);
            out_text(call->out, "\n");
        }
    } else {
        for (size_t i = 0; i < ids->n; i++)
            out_printf(call->out, i == 0 ? "%d" : ",%d", (int)ids->ids[i]);
        out_text(call->out, "\n");
    }
}

static int tokenize_encode(const cli_call *call, const mote_model *model)
{
    const tokenize_options *o = call->options;
    strbuf text = {0};
    input_ids ids = {0};
    int code = tokenize_read_text(call, &text);
    if (code == CLI_DONE)
        code = input_tokenize(&ids, model, text.p, text.n, o->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE) {
        if (call->common.json)
            code = tokenize_write_json(call, model, &ids);
        else
            tokenize_write_text(call, model, &ids);
    }
    input_ids_free(&ids);
    strbuf_fini(&text);
    return code;
}

/* An id outside the vocabulary is an error. */
static int tokenize_check_ids(const mote_model *model, const input_ids *ids)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    for (size_t i = 0; i < ids->n; i++)
        if ((uint32_t)ids->ids[i] >= info.vocabulary)
            return msg_usage("token id %d is outside the vocabulary; the last id is %u",
                             (int)ids->ids[i], info.vocabulary - 1);
    return CLI_DONE;
}

static bool tokenize_collect(const mote_model *model, const input_ids *ids, strbuf *text)
{
    mote_text_stream stream = {0};
    char piece[MOTE_PIECE_BYTES];
    for (size_t i = 0; i <= ids->n; i++) {
        mote_token id = i < ids->n ? ids->ids[i] : -1;
        size_t n = mote_text_next(model, &stream, id, piece, sizeof piece);
        if (!text_add(text, piece, n))
            return false;
    }
    return true;
}

/* Writes the exact text; only a terminal gets a final newline. */
static int tokenize_decode(const cli_call *call, const mote_model *model)
{
    const tokenize_options *o = call->options;
    input_ids ids = {0};
    strbuf text = {0};
    int code = input_parse_ids(&ids, o->decode, "--decode");
    if (code == CLI_DONE)
        code = tokenize_check_ids(model, &ids);
    if (code == CLI_DONE && !tokenize_collect(model, &ids, &text))
        code = input_no_memory();
    if (code == CLI_DONE && call->common.json) {
        strbuf j = {0};
        jw_open(&j, '{');
        jw_key_uint(&j, "count", ids.n);
        jw_key_str(&j, "text", strbuf_view(&text));
        jw_close(&j, '}');
        code = out_json(call->out, &j);
    } else if (code == CLI_DONE) {
        out_shown(call->out, text.p, text.n);
        if (call->out->terminal && call->out->line_open)
            out_text(call->out, "\n");
    }
    strbuf_fini(&text);
    input_ids_free(&ids);
    return code;
}

static int tokenize_run(const cli_call *call)
{
    const tokenize_options *o = call->options;
    if (o->ids + o->count + o->pieces > 1)
        return msg_usage("--ids, --count and --pieces exclude each other");
    if (o->decode != NULL && call->n_words > 1)
        return msg_usage("--decode and TEXT exclude each other");
    loaded on = {0};
    int code = load_model(&on, call->words[0], NULL, MOTE_ISA_BEST);
    if (code == CLI_DONE)
        code =
            o->decode != NULL ? tokenize_decode(call, on.model) : tokenize_encode(call, on.model);
    load_close(&on);
    return code;
}

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .section = "Use a model",
    .summary = "text to token ids and back",
    .usage = "FILE [TEXT]",
    .min_words = 1,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(tokenize_options),
    .about = "Prints the token ids of TEXT, or of stdin byte for byte.",
    .examples = "mote tokenize model.gguf \"Hello, world\"\n"
                "mote tokenize model.gguf --count < book.txt\n"
                "mote tokenize model.gguf --decode 9707,11,1879",
    .run = tokenize_run,
};
