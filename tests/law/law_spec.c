/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_spec.c - law L7 for mote_chat_answer: drafts never change an answer. Conversations of three
 * answers with schema, tools, thinking, penalties and stop strings, greedy and sampled, are compared
 * with the same conversation without drafts: events, messages, counts and tokens by memcmp. Drafts
 * come from suffix lookup, from the known answer, from dice, and from the MTP head. The engine
 * without drafts has no MTP head either.
 *
 *   law_spec [--model NAME] [--seed N]
 */
#include "base/os.h"
#include "base/str.h"
#include "chat/chat_int.h"
#include "law/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES = 4, ANSWERS = 3, MAX_TOKENS = 4096, LOGS = 1 << 16 };

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"the_name_of_the_person\":{\"type\":\"string\","
    "\"maxLength\":12},\"age\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":11}},"
    "\"required\":[\"the_name_of_the_person\",\"age\"],\"additionalProperties\":false}";
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"set_timer\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":90},"
    "\"label\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"minutes\"]}}}]";
static const char *const stops[] = {"Keldon", "zz"};
static const char *const questions[ANSWERS] = {"Who is the mayor of Keldon?",
                                               "Say it again, and what is 245 + 178?",
                                               "Repeat your last answer, word by word."};

typedef struct setting {
    const char *name;
    bool tools;
    mote_answer_options how;
} setting;

#define GREEDY .set = MOTE_SET_TEMPERATURE, .think = MOTE_THINK_OFF

static const setting settings[] = {
    {"greedy", false, {GREEDY, .max_tokens = 70}},
    {"greedy without loop guard", false, {GREEDY, .max_tokens = 90, .no_loop_guard = true}},
    {"sampled", false, {.think = MOTE_THINK_OFF, .max_tokens = 70, .sampling.seed = 3}},
    {"thinking",
     false,
     {.think = MOTE_THINK_ON, .think_budget = 24, .max_tokens = 90, .sampling.seed = 5}},
    {"schema",
     false,
     {.think = MOTE_THINK_OFF,
      .max_tokens = 80,
      .format = MOTE_FORMAT_JSON_SCHEMA,
      .format_text = person,
      .format_bytes = sizeof person - 1,
      .sampling.seed = 7}},
    {"tools",
     true,
     {.think = MOTE_THINK_OFF,
      .max_tokens = 80,
      .tool_choice = MOTE_TOOLS_REQUIRED,
      .sampling.seed = 8}},
    {"tools and thinking",
     true,
     {.think = MOTE_THINK_ON, .think_budget = 16, .max_tokens = 90, .sampling.seed = 9}},
    {"penalties",
     false,
     {.think = MOTE_THINK_OFF,
      .max_tokens = 70,
      .set = MOTE_SET_REPETITION | MOTE_SET_FREQUENCY | MOTE_SET_MIN_P,
      .sampling = {.repetition = 1.3f, .frequency = 0.4f, .min_p = 0.02f, .seed = 2}}},
    {"stop strings",
     false,
     {.think = MOTE_THINK_OFF, .max_tokens = 70, .stop = stops, .n_stop = 2, .sampling.seed = 4}},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

/* One conversation: everything that must be equal. */
typedef struct record {
    strbuf log; /* events, results and messages */
    mote_token tokens[ANSWERS][MAX_TOKENS];
    size_t n[ANSWERS]; /* tokens of the session after each answer */
    uint64_t drafted, accepted;
    spec_stats stats;
} record;

/* ---- sources of drafts ---- */

typedef struct dice {
    const record *known; /* NULL: random tokens only */
    int answer;          /* that is being generated */
    uint32_t vocabulary, wrong;
    rig_random random;
} dice;

static mote_status draft_dice(void *with, spec_request *wanted, size_t n, mote_error *err)
{
    dice *d = with;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        spec_request *r = &wanted[i];
        const size_t at = (size_t)mote_session_length(r->session) + r->n_given;
        for (size_t k = 0; k < r->n; k++) {
            const bool known = d->known != NULL && at + k < d->known->n[d->answer] &&
                               !rig_once_in(&d->random, d->wrong);
            r->tokens[k] = known ? d->known->tokens[d->answer][at + k]
                                 : (mote_token)rig_below(&d->random, d->vocabulary);
            r->probabilities[k] = known ? 0.9f : 0.4f;
        }
        r->n_drafted = r->n;
    }
    return MOTE_OK;
}

/* ---- conversations ---- */

static void on_event(void *with, const mote_chat_event *e)
{
    strbuf *log = with;
    char head[64];
    if (e->kind == MOTE_CHAT_PREFILL) /* depends on time */
        return;
    snprintf(head, sizeof head, "%d %u ", (int)e->kind, (unsigned)e->call);
    strbuf_text(log, head);
    strbuf_put(log, (str){e->name, e->name_bytes});
    strbuf_byte(log, ' ');
    strbuf_put(log, (str){e->text, e->text_bytes});
    strbuf_byte(log, '\n');
}

/* Reused tokens are not compared, see compare(). */
static void log_result(record *r, const mote_answer *a)
{
    char line[256];
    snprintf(line, sizeof line, "= %d %u %llu %llu %llu %llu %llu %d %u %u %u %u\n", (int)a->finish,
             (unsigned)a->stop, (unsigned long long)a->prompt_tokens,
             (unsigned long long)a->answer_tokens, (unsigned long long)a->think_tokens,
             (unsigned long long)a->forced_tokens, (unsigned long long)a->dropped_tokens,
             (int)a->think_end, a->loops_detected, a->loops_recovered, a->calls, a->warnings);
    strbuf_text(&r->log, line);
    r->drafted += a->drafted_tokens;
    r->accepted += a->accepted_tokens;
}

static void log_messages(record *r, const mote_chat *chat)
{
    static char json[LOGS];
    mote_error err;
    size_t bytes;
    MUST(mote_chat_json(chat, MOTE_CHAT_ALL, json, sizeof json, &bytes, &err), &err);
    strbuf_put(&r->log, (str){json, bytes < sizeof json ? bytes : sizeof json});
}

static void keep_tokens(record *r, int i, const mote_chat *chat)
{
    const mote_session *session = mote_chat_session(chat);
    r->n[i] = (size_t)mote_session_length(session);
    if (r->n[i] > MAX_TOKENS)
        rig_fail("a conversation of %zu tokens", r->n[i]);
    memcpy(r->tokens[i], mote_session_tokens(session), r->n[i] * sizeof r->tokens[i][0]);
}

static void converse(record *r, mote_engine *engine, const setting *s, int mode, dice *source)
{
    mote_chat *chat;
    mote_error err;
    mote_answer answer;
    mote_answer_options how = s->how;
    *r = (record){0};
    how.spec = mode;
    how.event = on_event;
    how.with = &r->log;
    MUST(mote_chat_new(&chat, engine, NULL, &err), &err);
    if (source == NULL || source->vocabulary > 0) /* otherwise the MTP head, as chats use it */
        spec_set_draft(chat->spec, source != NULL ? draft_dice : NULL, source);
    if (s->tools)
        MUST(mote_chat_set_tools(chat, tools, sizeof tools - 1, &err), &err);
    for (int i = 0; i < ANSWERS; i++) {
        if (source != NULL)
            source->answer = i;
        MUST(mote_chat_add(chat, MOTE_ROLE_USER, questions[i], strlen(questions[i]), &err), &err);
        MUST(mote_chat_answer(chat, &how, &answer, &err), &err);
        log_result(r, &answer);
        keep_tokens(r, i, chat);
    }
    log_messages(r, chat);
    spec_read_stats(chat->spec, &r->stats);
    if (r->log.failed)
        rig_fail("out of memory: a log");
    mote_chat_free(chat);
}

/* Tokens of the sessions agree as far as both go: at the end of an answer a session may hold some
 * accepted tokens that plain decoding has not appended yet. */
static void compare(const record *plain, const record *r, const char *where)
{
    if (!str_eq(strbuf_view(&plain->log), strbuf_view(&r->log)))
        rig_fail("%s: another answer:\n%.*s\nand not\n%.*s", where, (int)r->log.n, r->log.p,
                 (int)plain->log.n, plain->log.p);
    for (int i = 0; i < ANSWERS; i++) {
        const size_t n = plain->n[i] < r->n[i] ? plain->n[i] : r->n[i];
        if (plain->n[i] > r->n[i] + SPEC_MAX_DRAFT || r->n[i] > plain->n[i] + SPEC_MAX_DRAFT ||
            memcmp(plain->tokens[i], r->tokens[i], n * sizeof r->tokens[i][0]) != 0)
            rig_fail("%s: answer %d leaves other tokens: %zu and not %zu", where, i, r->n[i],
                     plain->n[i]);
    }
}

static void run_setting(mote_engine *plain_engine, mote_engine *engine, const setting *s,
                        uint32_t vocabulary, uint64_t seed, uint64_t *drafted, uint64_t *accepted)
{
    static const char *const names[SOURCES] = {"lookup", "known answer", "random tokens",
                                               "MTP head"};
    static record plain, drafts;
    char where[160];
    converse(&plain, plain_engine, s, MOTE_SPEC_OFF, NULL);
    if (plain.drafted != 0)
        rig_fail("%s: drafts although they are off", s->name);
    for (int source = 0; source < SOURCES; source++)
        for (int mode = MOTE_SPEC_AUTO; mode <= MOTE_SPEC_MAX; mode++) {
            dice d = {.known = source == 1 ? &plain : NULL,
                      .vocabulary = source == 3 ? 0 : vocabulary,
                      .wrong = 6,
                      .random = {.seed = seed, .stream = (uint64_t)mode}};
            snprintf(where, sizeof where, "%s, %s, mode %d", s->name, names[source], mode);
            converse(&drafts, engine, s, mode, source > 0 ? &d : NULL);
            compare(&plain, &drafts, where);
            drafted[source] += drafts.drafted;
            accepted[source] += drafts.accepted;
            const uint64_t dice_drafted = drafts.stats.drafted[SPEC_MODEL],
                           dice_accepted = drafts.stats.accepted[SPEC_MODEL];
            if (source == 2 && mode > 0 && (dice_drafted == 0 || dice_accepted * 20 > dice_drafted))
                rig_fail("%s: %llu of %llu random tokens were accepted", where,
                         (unsigned long long)dice_accepted, (unsigned long long)dice_drafted);
            strbuf_fini(&drafts.log);
        }
    strbuf_fini(&plain.log);
}

int main(int argc, char **argv)
{
    const char *name = "mote-tiny-Q4_K_M";
    uint64_t seed = 1, drafted[SOURCES] = {0}, accepted[SOURCES] = {0};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--model") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
    }
    const char *path = rig_model_path(name);
    const double start = os_now();
    if (path == NULL)
        return 77;
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    mote_engine_options options = {.threads = 2, .positions = MAX_TOKENS, .kept_states = 2};
    mote_engine *plain = rig_engine(model, &options);
    options.logits_rows = MOTE_SPEC_ROWS;
    options.drafts = true;
    mote_engine *engine = rig_engine(model, &options);
    for (size_t i = 0; i < SETTINGS; i++)
        run_setting(plain, engine, &settings[i], info.vocabulary, seed, drafted, accepted);
    printf("%d settings: equal; accepted", SETTINGS);
    for (int i = 0; i < SOURCES; i++)
        printf(" %llu/%llu", (unsigned long long)accepted[i], (unsigned long long)drafted[i]);
    printf(" by lookup, known answer, dice, MTP head (%.1f s)\n", os_now() - start);
    if (accepted[0] == 0 || accepted[1] * 2 < drafted[1] || accepted[3] * 2 < drafted[3])
        rig_fail("too few drafts accepted");
    mote_engine_free(plain);
    mote_engine_free(engine);
    mote_model_close(model);
    return 0;
}
