/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_tokenize.c - `mote tokenize`: text to token ids and back; messages to the prompt that the
 * chat template makes of them.
 */
#include "chat/prompt/render.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
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
    const char *messages;
    const char *tools;
    const char *think;
    bool no_generation_prompt;
    bool text;
    template_options template;
} tokenize_options;

#define AT(member) offsetof(tokenize_options, member)

static const cli_flag flags[] = {
    {.name = "ids",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(ids),
     .help = "print the ids, separated by commas (the default)"},
    {.name = "count",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(count),
     .help = "print only the number of tokens"},
    {.name = "pieces",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(pieces),
     .help = "print one token per line, with its text"},
    {.name = "special",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(special),
     .help = "parse control tokens in the text"},
    {.name = "decode",
     .kind = FLAG_TEXT,
     .value = "1,2,3",
     .once = true,
     .at = AT(decode),
     .help = "print the text of these ids instead"},
};

static const cli_flag message_flags[] = {
    {.name = "messages",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(messages),
     .help = "render the messages in FILE instead of TEXT: a JSON array, or the body of a chat "
             "request; - is stdin"},
    {.name = "tools",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = AT(tools),
     .help = "tools the model may call, a JSON array"},
    {.name = "think",
     .kind = FLAG_TEXT,
     .value = "HOW",
     .shown = "auto",
     .check = think_flag_check,
     .once = true,
     .at = AT(think),
     .help = "thinking of the answer that follows: " THINK_FLAG_HELP},
    {.name = "no-generation-prompt",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(no_generation_prompt),
     .help = "end the prompt with the last message"},
    {.name = "text",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = AT(text),
     .help = "print the rendered text instead of the ids"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Flags", flags, 0),
    FLAG_GROUP("Messages", message_flags, 0),
    TEMPLATE_FLAG_GROUP(offsetof(tokenize_options, template)),
};

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

/* `text`: with --text the rendered prompt, else NULL. */
static int tokenize_write_json(const cli_call *call, const mote_model *model, const input_ids *ids,
                               const strbuf *text)
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
    if (text != NULL)
        jw_key_str(&j, "text", strbuf_view(text));
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
            code = tokenize_write_json(call, model, &ids, NULL);
        else
            tokenize_write_text(call, model, &ids);
    }
    input_ids_free(&ids);
    strbuf_fini(&text);
    return code;
}

/* ---- --messages ---- */

/* The file as a JSON document; errors name the file. */
static int messages_read_json(json_doc **out, const char *path)
{
    strbuf text = {0};
    mote_error err;
    int code = input_read(&text, path);
    if (code == CLI_DONE && json_doc_read(out, strbuf_view(&text), &err) != MOTE_OK) {
        err_prefix(&err, strcmp(path, "-") == 0 ? "stdin" : path);
        code = msg_error(&err);
    }
    strbuf_fini(&text);
    return code;
}

/* `root`: an array of messages, or a body that already has other members. `tools`, if not NULL,
 * replace those of the body. */
static void messages_put_body(strbuf *out, const json_node *root, const json_node *tools)
{
    const bool is_body = json_node_is(root, JSON_IS_OBJECT);
    strbuf_text(out, "{\"tools\": ");
    json_put_as_spelt(out, tools != NULL ? tools : json_node_get(root, "tools"));
    if (!is_body) {
        strbuf_text(out, ", \"messages\": ");
        json_put_as_spelt(out, root);
    }
    const json_node *member = is_body ? json_node_first(root) : NULL;
    for (; member != NULL; member = json_node_next(member)) {
        if (str_is(json_node_name(member), "tools"))
            continue;
        strbuf_text(out, ", ");
        json_put_string(out, json_node_name(member));
        strbuf_text(out, ": ");
        json_put_as_spelt(out, member);
    }
    strbuf_text(out, "}");
}

/* Makes the body of a chat request from --messages and --tools. */
static int messages_make_body(json_doc **out, const tokenize_options *o)
{
    json_doc *messages = NULL, *tools = NULL;
    strbuf body = {0};
    mote_error err;
    int code = messages_read_json(&messages, o->messages);
    if (code == CLI_DONE && o->tools != NULL)
        code = messages_read_json(&tools, o->tools);
    if (code == CLI_DONE) {
        messages_put_body(&body, json_doc_root(messages),
                          tools != NULL ? json_doc_root(tools) : NULL);
        if (strbuf_check(&body, &err) != MOTE_OK ||
            json_doc_read(out, strbuf_view(&body), &err) != MOTE_OK)
            code = msg_error(&err);
    }
    json_doc_free(messages);
    json_doc_free(tools);
    strbuf_fini(&body);
    return code;
}

static mote_status messages_render(const tokenize_options *o, const mote_model *model,
                                   mote_think think, uint32_t budget, const json_node *body,
                                   chat_prompt *out, mote_error *err)
{
    static const chat_thinking thinking[] = {CHAT_THINK_AUTO, CHAT_THINK_ON, CHAT_THINK_OFF};
    chat_template template;
    chat_parsed parsed;
    TRY(chat_template_of(&template, model, err));
    TRY(chat_template_choose(&template, o->template.name, err));
    TRY(chat_parsed_read(&parsed, body, o->template.official ? CHAT_OFFICIAL : CHAT_STABLE, err));
    if (think != MOTE_THINK_AUTO)
        parsed.request.thinking = thinking[think];
    if (budget > 0)
        parsed.request.effort = chat_effort_of_budget(budget);
    parsed.request.no_generation_prompt |= o->no_generation_prompt;
    const mote_status status = chat_render(model, &template, &parsed.request, out, err);
    chat_parsed_fini(&parsed);
    return status;
}

/* Writes the exact text; only a terminal gets a final newline. */
static void tokenize_print_text(cli_out *out, const strbuf *text)
{
    out_shown(out, text->p, text->n);
    if (out->terminal && out->line_open)
        out_text(out, "\n");
}

static int tokenize_messages(const cli_call *call, const mote_model *model)
{
    const tokenize_options *o = call->options;
    json_doc *body = NULL;
    chat_prompt prompt = {0};
    mote_error err;
    mote_think think = MOTE_THINK_AUTO;
    uint32_t budget = 0;
    think_flag_read(o->think, &think, &budget);
    int code = messages_make_body(&body, o);
    if (code == CLI_DONE &&
        messages_render(o, model, think, budget, json_doc_root(body), &prompt, &err) != MOTE_OK)
        code = msg_error(&err);
    if (code == CLI_DONE) {
        const input_ids ids = {prompt.ids, prompt.n};
        template_flag_note(&o->template, model);
        if (call->common.json)
            code = tokenize_write_json(call, model, &ids, o->text ? &prompt.text : NULL);
        else if (o->text)
            tokenize_print_text(call->out, &prompt.text);
        else
            tokenize_write_text(call, model, &ids);
    }
    chat_prompt_fini(&prompt);
    json_doc_free(body);
    return code;
}

/* ---- --decode ---- */

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
        tokenize_print_text(call->out, &text);
    }
    strbuf_fini(&text);
    input_ids_free(&ids);
    return code;
}

static int tokenize_run(const cli_call *call)
{
    const tokenize_options *o = call->options;
    if (o->ids + o->count + o->pieces + (o->text && !call->common.json) > 1)
        return msg_usage("--ids, --count, --pieces and --text exclude each other");
    if ((o->decode != NULL) + (o->messages != NULL) + (call->n_words > 1) > 1)
        return msg_usage("--decode, --messages and TEXT exclude each other");
    if (o->messages == NULL &&
        (o->tools != NULL || o->think != NULL || o->text || o->no_generation_prompt))
        return msg_usage("--tools, --think, --text and --no-generation-prompt need --messages");
    if (o->tools != NULL && strcmp(o->tools, "-") == 0 && strcmp(o->messages, "-") == 0)
        return msg_usage("--messages and --tools cannot both be stdin");
    loaded on = {0};
    found_model found;
    int code = find_model(&found, call->words[0]);
    if (code == CLI_DONE)
        code = load_model(&on, &found, NULL, MOTE_ISA_BEST);
    if (code == CLI_DONE && o->messages != NULL)
        code = tokenize_messages(call, on.model);
    else if (code == CLI_DONE)
        code =
            o->decode != NULL ? tokenize_decode(call, on.model) : tokenize_encode(call, on.model);
    load_close(&on);
    return code;
}

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .section = "Use a model",
    .summary = "text to token ids and back",
    .usage = "MODEL [TEXT]",
    .arguments = "MODEL",
    .min_words = 1,
    .max_words = 2,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(tokenize_options),
    .about = "Prints the token ids of TEXT, or of stdin byte for byte. With --messages: the prompt "
             "that the chat template makes of messages, as ids or text; an image is one token.",
    .examples = "mote tokenize model.gguf \"Hello, world\"\n"
                "mote tokenize model.gguf --count < book.txt\n"
                "mote tokenize model.gguf --decode 9707,11,1879\n"
                "mote tokenize model.gguf --messages chat.json --template official --text",
    .run = tokenize_run,
};
