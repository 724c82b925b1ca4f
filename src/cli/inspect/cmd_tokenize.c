/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_tokenize.c - `mote tokenize`: text to token ids and back. */
#include "cli/args/commands.h"
#include "cli/load/input.h"
#include "cli/term/json_out.h"
#include "cli/load/load.h"
#include "cli/term/output_messages.h"

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
     .help = "the ids, with commas (what you get anyway)"},
    {.name = "count", .kind = FLAG_SWITCH, .at = AT(count), .help = "only how many there are"},
    {.name = "pieces",
     .kind = FLAG_SWITCH,
     .at = AT(pieces),
     .help = "one token a line, with its text"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .at = AT(special),
     .help = "control tokens spelled in the text count as such"},
    {.name = "decode",
     .kind = FLAG_TEXT,
     .value = "1,2,3",
     .at = AT(decode),
     .help = "the other way: print the text of these ids"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

static int read_text(const cli_call *call, input_text *text)
{
    if (call->n_words > 1 && strcmp(call->words[1], "-") != 0)
        return input_add(text, call->words[1], strlen(call->words[1]))
                   ? CLI_DONE
                   : msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                              "no memory for the text");
    if (call->n_words == 1 && !input_waits_on_stdin())
        return msg_usage("there is no text (try: mote tokenize %.200s \"some text\")",
                         call->words[0]);
    return input_read(text, "-");
}

static void write_hex(json *j, const char *bytes, size_t n)
{
    char hex[2 * 256 + 1] = "";
    for (size_t i = 0; i < n && i < 256; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
    json_key_text(j, "hex", hex);
}

static void write_json_pieces(json *j, const mote_model *model, const input_ids *ids)
{
    json_key(j, "pieces");
    json_begin_array(j);
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, ids->ids[i], &n);
        json_begin_object(j);
        json_key(j, "id");
        json_i64(j, ids->ids[i]);
        json_key(j, "text");
        json_bytes(j, bytes, n);
        write_hex(j, bytes, n);
        json_key_bool(j, "control", mote_token_is_control(model, ids->ids[i]));
        json_end_object(j);
    }
    json_end_array(j);
}

static void write_json(const cli_call *call, const mote_model *model, const input_ids *ids)
{
    const tokenize_options *o = call->options;
    json j = {.to = call->out};
    json_begin_object(&j);
    json_key_u64(&j, "count", ids->n);
    if (!o->count) {
        json_key(&j, "ids");
        json_begin_array(&j);
        for (size_t i = 0; i < ids->n; i++)
            json_i64(&j, ids->ids[i]);
        json_end_array(&j);
    }
    if (o->pieces)
        write_json_pieces(&j, model, ids);
    json_end_object(&j);
}

static void write_text(const cli_call *call, const mote_model *model, const input_ids *ids)
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

static int encode(const cli_call *call, const mote_model *model)
{
    const tokenize_options *o = call->options;
    input_text text = {0};
    input_ids ids = {0};
    int code = read_text(call, &text);
    if (code == CLI_DONE)
        code = input_tokenize(&ids, model, text.p, text.n, o->special ? MOTE_TEXT_CONTROL : 0);
    if (code == CLI_DONE) {
        if (call->common.json)
            write_json(call, model, &ids);
        else
            write_text(call, model, &ids);
    }
    input_ids_free(&ids);
    input_text_free(&text);
    return code;
}

/* Ids the vocabulary does not have are a mistake of the caller, not silence. */
static int check_ids(const mote_model *model, const input_ids *ids)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    for (size_t i = 0; i < ids->n; i++)
        if ((uint32_t)ids->ids[i] >= info.vocabulary)
            return msg_usage("%d is no token id: the vocabulary ends at %u", (int)ids->ids[i],
                             info.vocabulary - 1);
    return CLI_DONE;
}

static bool collect(const mote_model *model, const input_ids *ids, input_text *text)
{
    mote_text_stream stream = {0};
    char piece[MOTE_PIECE_BYTES];
    for (size_t i = 0; i <= ids->n; i++) {
        mote_token id = i < ids->n ? ids->ids[i] : -1;
        size_t n = mote_text_next(model, &stream, id, piece, sizeof piece);
        if (!input_add(text, piece, n))
            return false;
    }
    return true;
}

/* To a pipe exactly the text; a terminal gets its newline. */
static int decode(const cli_call *call, const mote_model *model)
{
    const tokenize_options *o = call->options;
    input_ids ids = {0};
    input_text text = {0};
    int code = input_parse_ids(&ids, o->decode, "--decode");
    if (code == CLI_DONE)
        code = check_ids(model, &ids);
    if (code == CLI_DONE && !collect(model, &ids, &text))
        code = msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the text");
    if (code == CLI_DONE && call->common.json) {
        json j = {.to = call->out};
        json_begin_object(&j);
        json_key_u64(&j, "count", ids.n);
        json_key(&j, "text");
        json_bytes(&j, text.p, text.n);
        json_end_object(&j);
    } else if (code == CLI_DONE) {
        out_shown(call->out, text.p, text.n);
        if (call->out->terminal && call->out->line_open)
            out_text(call->out, "\n");
    }
    input_text_free(&text);
    input_ids_free(&ids);
    return code;
}

static int run(const cli_call *call)
{
    const tokenize_options *o = call->options;
    if (o->ids + o->count + o->pieces > 1)
        return msg_usage("--ids, --count and --pieces exclude each other");
    if (o->decode != NULL && call->n_words > 1)
        return msg_usage("--decode takes ids, and there is a text as well");
    loaded on = {0};
    int code = load_model(&on, call->words[0], NULL, MOTE_ISA_BEST);
    if (code == CLI_DONE)
        code = o->decode != NULL ? decode(call, on.model) : encode(call, on.model);
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
    .about = "Prints the token ids of TEXT, or of what comes through a pipe, byte for byte.",
    .examples = "mote tokenize model.gguf \"Hello, world\"\n"
                "mote tokenize model.gguf --count < book.txt\n"
                "mote tokenize model.gguf --decode 9707,11,1879",
    .run = run,
};
