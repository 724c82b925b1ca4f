/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_chat.c - every allocation of a conversation fails once.
 *
 * For each act: allocation 1 fails, then allocation 2, and so on until the act succeeds. A failure
 * must be reported and leak nothing. Repeating the act on the same engine must give the same bytes
 * as a run without failures.
 *
 *   fault_chat [ACT [FIRST [EVERY]]]      acts are counted from 0, failures from 1
 */
#include "base/mem.h"
#include "chat/chat_int.h"
#include "chat/turn_drive.h"
#include "law/rig.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_FAULTS = 100000, CHECK_EVERY = 8 };

#define TOOLS                                                                                      \
    "[{\"type\":\"function\",\"function\":{\"name\":\"set_timer\",\"parameters\":{\"type\":"       \
    "\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":90},"  \
    "\"label\":{\"type\":\"string\",\"contentEncoding\":\"x\"},\"days\":{\"type\":\"array\","      \
    "\"items\":{\"enum\":[\"mo\",\"tu\"]}}},\"required\":[\"minutes\",\"days\"]}}},"               \
    "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"      \
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}}]"

static const char conversation[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Weather in Rome?\"}]},"
    "{\"role\":\"assistant\",\"reasoning_content\":\"Ask.\",\"content\":\"\",\"tool_calls\":[{"
    "\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":"
    "\"{\\\"city\\\": \\\"Rome\\\"}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call_1\","
    "\"content\":\"sunny\"},{\"role\":\"user\",\"content\":\"And a timer\"}],"
    "\"enable_thinking\":true,\"tools\":" TOOLS "}";

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"the_name_of_the_person\":{\"type\":\"string\","
    "\"maxLength\":12,\"pattern\":\"^[A-Z]\"},\"age\":{\"type\":\"integer\",\"minimum\":7}},"
    "\"required\":[\"the_name_of_the_person\",\"age\"],\"additionalProperties\":false}";

static turn_host host;

/* ---- acts ---- */

/* The output of an act. */
typedef mote_status act_fn(strbuf *out, mote_error *err);

static mote_status act_render(strbuf *out, mote_error *err)
{
    json_doc *doc = NULL;
    chat_parsed parsed = {0};
    chat_prompt prompt = {0};
    mote_status status = json_doc_read(&doc, str_of(conversation), err);
    if (status == MOTE_OK)
        status = chat_parsed_read(&parsed, json_doc_root(doc), CHAT_STABLE, err);
    if (status == MOTE_OK)
        status = chat_render(host.chat_ctx.model, &host.chat_ctx.template, &parsed.request, &prompt,
                             err);
    if (status == MOTE_OK) {
        strbuf_put(out, strbuf_view(&prompt.text));
        strbuf_put(out, (str){(const char *)prompt.ids, prompt.n * sizeof *prompt.ids});
    }
    chat_prompt_fini(&prompt);
    chat_parsed_fini(&parsed);
    json_doc_free(doc);
    return status;
}

static void put_event(void *with, const chat_event *e)
{
    strbuf_byte(with, (char)('A' + e->kind));
    strbuf_put(with, e->name);
    strbuf_put(with, e->text);
}

static mote_status act_parse(strbuf *out, mote_error *err)
{
    static const char answer[] =
        "Why? </think>\n\nSo:\n<tool_call>\n<function=set_timer>\n<parameter=minutes>\n'12'\n"
        "</parameter>\n<parameter=days>\n['mo', 'tu',]\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"x\\\"}\"}"
        "</tool_call>\n<tool_call>\n<function=nothing>\n</function>\n</tool_call>";
    static mote_token ids[1024];
    size_t n;
    json_doc *doc = NULL;
    chat_parser *p = NULL;
    const json_node *tools[2];
    mote_status status = json_doc_read(&doc, str_of(TOOLS), err);
    if (status == MOTE_OK) {
        tools[0] = json_node_first(json_doc_root(doc));
        tools[1] = json_node_next(tools[0]);
        const chat_parser_options options = {.model = host.chat_ctx.model,
                                             .template = &host.chat_ctx.template,
                                             .tools = tools,
                                             .n_tools = 2,
                                             .thinking = true,
                                             .tokens = true,
                                             .event = put_event,
                                             .with = out};
        status = chat_parser_new(&p, &options, err);
    }
    if (status == MOTE_OK)
        status = mote_tokenize(host.chat_ctx.model, answer, sizeof answer - 1, MOTE_TEXT_CONTROL,
                               ids, 1024, &n, err);
    for (size_t i = 0; status == MOTE_OK && i < n; i++)
        status = chat_parser_token(p, ids[i], err);
    if (status == MOTE_OK)
        status = chat_parser_end(p, false, err);
    chat_parser_free(p);
    json_doc_free(doc);
    return status;
}

static mote_status act_vocab(strbuf *out, mote_error *err)
{
    token_trie *words;
    TRY(chat_vocab_of(&words, &host.chat_ctx, err));
    strbuf_put(out, (str){(const char *)words->order, words->n_text * sizeof *words->order});
    token_trie_free(words);
    return MOTE_OK;
}

/* A turn with everything that takes memory, to its end or to the failure. */
static mote_status run_turn(turn_job *g, mote_error *err)
{
    TRY(turn_job_new(g, &host, err));
    TRY(chat_turn_next(g->turn, NULL, 0, &g->want, err));
    while (!g->want.over) {
        uint64_t at = mote_session_length(g->session);
        if (at > g->want.same)
            at = mote_session_rewind(g->session,
                                     g->want.same < g->want.n ? g->want.same : g->want.n - 1);
        if (at < g->want.n)
            rig_feed(host.engine, g->session, g->want.tokens + at, g->want.n - at,
                     MOTE_LOGITS_LAST);
        TRY(chat_turn_next(g->turn, g->session, 0, &g->want, err));
    }
    return MOTE_OK;
}

static mote_status act_turn(strbuf *out, mote_answer_options how, mote_error *err)
{
    static const char *const stops[] = {"zzzz"};
    turn_job g = {.request = conversation, .logprobs = true, .how = how};
    g.how.max_tokens = 70;
    g.how.think_budget = 8;
    g.how.stop = stops;
    g.how.n_stop = 1;
    g.how.sampling.top_logprobs = 2;
    mote_status status = mote_session_new(&g.session, host.engine, NULL, err);
    if (status == MOTE_OK)
        status = run_turn(&g, err);
    if (status == MOTE_OK) /* the failure may be the log's own */
        status = strbuf_check(&g.log, err);
    if (status == MOTE_OK)
        status = strbuf_check(&g.chosen, err);
    strbuf_put(out, strbuf_view(&g.log));
    strbuf_put(out, strbuf_view(&g.chosen));
    turn_job_free(&g);
    return status;
}

static mote_status act_call(strbuf *out, mote_error *err)
{
    return act_turn(out, (mote_answer_options){.tool_choice = MOTE_TOOLS_REQUIRED}, err);
}

static mote_status act_schema(strbuf *out, mote_error *err)
{
    return act_turn(out,
                    (mote_answer_options){.format = MOTE_FORMAT_JSON_SCHEMA,
                                          .format_text = schema,
                                          .format_bytes = sizeof schema - 1},
                    err);
}

/* ---- the public calls: a failed call is repeated and then succeeds ---- */

static mote_status failure; /* of the first call that failed */

static bool again(mote_status status)
{
    if (status == MOTE_OK)
        return false;
    if (failure != MOTE_OK || status != MOTE_E_MEMORY)
        rig_fail("a call fails with %s", mote_status_name(status));
    failure = status;
    return true;
}

#define TWICE(call)                                                                                \
    do {                                                                                           \
        if (again(call) && again(call))                                                            \
            rig_fail("%s fails twice", #call);                                                     \
    } while (0)

static void put_json(strbuf *out, const mote_chat *chat)
{
    static char text[1 << 16];
    size_t n;
    TWICE(mote_chat_json(chat, MOTE_CHAT_ALL, text, sizeof text, &n, NULL));
    strbuf_put(out, (str){text, n});
}

static mote_status act_chat(strbuf *out, mote_error *err)
{
    static const char message[] = "[{\"role\":\"user\",\"content\":\"Hello\"},"
                                  "{\"role\":\"assistant\",\"content\":\"Hi.\"}]";
    const mote_answer_options how = {.think = MOTE_THINK_ON, .think_budget = 8, .max_tokens = 40};
    mote_chat *chat, *loaded;
    char path[1024];
    (void)err;
    failure = MOTE_OK;
    rig_temp_path(path, sizeof path, "fault.chat");
    TWICE(mote_chat_new(&chat, host.engine, &(mote_chat_options){.system = "Be brief."}, NULL));
    TWICE(mote_chat_set_system(chat, "Be kind.", 8, NULL));
    TWICE(mote_chat_set_tools(chat, TOOLS, strlen(TOOLS), NULL));
    TWICE(mote_chat_add_json(chat, message, sizeof message - 1, NULL));
    TWICE(mote_chat_add(chat, MOTE_ROLE_USER, "Set a timer", 11, NULL));
    if (mote_chat_count(chat) != 3)
        rig_fail("a call that failed added something");
    TWICE(mote_chat_answer(chat, &how, NULL, NULL));
    if (mote_chat_count(chat) != 4)
        rig_fail("an answer that failed added something");
    TWICE(mote_chat_save(chat, path, NULL));
    put_json(out, chat);
    mote_chat_free(chat);
    TWICE(mote_chat_load(&loaded, host.engine, path, NULL, NULL, NULL));
    put_json(out, loaded);
    mote_chat_free(loaded);
    return failure;
}

/* ---- all of them ---- */

static void expect(act_fn *act, const strbuf *want, const char *name, uint64_t k)
{
    strbuf got = {0};
    mote_error err;
    mem_fail_at(0);
    MUST(act(&got, &err), &err);
    if (!str_eq(strbuf_view(&got), strbuf_view(want)))
        rig_fail("%s: after failure %llu the next one differs", name, (unsigned long long)k);
    strbuf_fini(&got);
}

/* Number k of the act's requests fails; false: it has fewer. */
static bool fail_once(act_fn *act, const strbuf *want, const char *name, uint64_t k)
{
    const uint64_t blocks = mem_count().blocks;
    strbuf got = {0};
    mote_error err = {0};
    strbuf_reserve(&got, 4 * want->n + 4096); /* so that this one does not fail */
    mem_fail_at(k);
    const mote_status status = act(&got, &err);
    const bool failed = mem_failed();
    mem_fail_at(0);
    if (status != MOTE_OK && (status != MOTE_E_MEMORY || !failed))
        rig_fail("%s: failure %llu is reported as %s: %s", name, (unsigned long long)k,
                 mote_status_name(status), err.text);
    if (status == MOTE_OK && !str_eq(strbuf_view(&got), strbuf_view(want)))
        rig_fail("%s: failure %llu is hidden, and the result differs", name, (unsigned long long)k);
    strbuf_fini(&got);
    if (mem_count().blocks != blocks)
        rig_fail("%s: failure %llu leaves %lld blocks", name, (unsigned long long)k,
                 (long long)(mem_count().blocks - blocks));
    return failed;
}

static void fail_all(act_fn *act, const char *name, uint64_t first, uint64_t every)
{
    strbuf want = {0};
    mote_error err;
    uint64_t k = first, tried = 0;
    MUST(act(&want, &err), &err);
    if (strbuf_check(&want, NULL) != MOTE_OK || want.n == 0)
        rig_fail("%s gives nothing", name);
    for (; fail_once(act, &want, name, k); k += every, tried++) {
        if (k > MAX_FAULTS)
            rig_fail("%s does not get through", name);
        if (tried % CHECK_EVERY == 0)
            expect(act, &want, name, k);
    }
    expect(act, &want, name, k);
    printf("%s: about %llu requests, %llu failures\n", name, (unsigned long long)k,
           (unsigned long long)tried);
    strbuf_fini(&want);
}

int main(int argc, char **argv)
{
    static const struct {
        act_fn *act;
        const char *name;
        uint64_t every; /* failure is tried: all, or fewer of what takes long */
    } acts[] = {{act_render, "render", 1},
                {act_parse, "parse", 1},
                {act_vocab, "vocab", 1},
                {act_call, "turn with a call", 1},
                {act_schema, "turn with a schema", 1},
                {act_chat, "mote_chat", 7}};
    const char *path = rig_model_path("mote-tiny-Q4_K_M");
    if (path == NULL)
        return 77;
    setvbuf(stdout, NULL, _IOLBF, 0);
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    const mote_engine_options options = {
        .threads = 1, .sessions = 2, .positions = 4096, .kept_states = 2};
    mote_engine *engine = rig_engine(model, &options);
    turn_host_open(&host, engine);
    /* A sanitized run, which is scaled down, tries fewer of all. */
    const uint64_t less = test_is_short() ? 7 : 1;
    const size_t only = argc > 1 ? strtoul(argv[1], NULL, 10) : SIZE_MAX;
    const uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if (i == only || only == SIZE_MAX)
            fail_all(acts[i].act, acts[i].name, first,
                     argc > 3 ? strtoull(argv[3], NULL, 10) : less * acts[i].every);
    turn_host_close(&host);
    mote_engine_free(engine);
    mote_model_close(model);
    return 0;
}
