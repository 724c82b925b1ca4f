/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_chat.c - laws L1 to L3 and L7 for whole answers: grammars, thinking budgets, penalties, tool
 * calls, repetition loops, ended thinking. A request gives the same tokens, events and
 * log-probabilities alone and in any batch, with any split of the prompt, thread count, instruction
 * set level and drafts. Drafts come from suffix lookup, the MTP head, the known answer and from dice.
 *
 *   law_chat [SEED [LEVEL]]      MOTE_TEST_SCALE (percent) scales the number of rounds
 */
#include "base/os.h"
#include "chat/turn_drive.h"
#include "law/rig.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 8, ROUNDS = 4, MAX_THREADS = 3, MOST_BIAS = 8192, ENDLESS = 7 };

#define ASK(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],"
#define DIRECT    "\"enable_thinking\":false}"
#define THINK     "\"enable_thinking\":true}"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"set_timer\",\"parameters\":{"      \
    "\"type\":\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\",\"minimum\":1,"         \
    "\"maximum\":90},\"label\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"minutes\"]"  \
    "}}},{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"  \
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}}}],"

static const char person[] =
    "{\"type\":\"object\",\"properties\":{\"the_name_of_the_person\":{\"type\":\"string\","
    "\"maxLength\":12},\"age\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":11}},"
    "\"required\":[\"the_name_of_the_person\",\"age\"],\"additionalProperties\":false}";
static const char a_string[] = "{\"type\":\"string\"}";
static const char *const stops[] = {"Keldon", "zz"};
static mote_bias no_end[MOST_BIAS]; /* of tokens that hold a quote */

#define SCHEMA(text)                                                                               \
    .format = MOTE_FORMAT_JSON_SCHEMA, .format_text = (text), .format_bytes = sizeof(text) - 1

static turn_job requests[] = {
    {.request = ASK("What is 245 + 178?") THINK,
     .how = {.think_budget = 24, .max_tokens = 90, .sampling.seed = 3}},
    {.request = ASK("Who is the mayor of Keldon?") DIRECT,
     .how = {.max_tokens = 60, SCHEMA(person), .sampling = {.seed = 5, .top_logprobs = 4}},
     .logprobs = true},
    {.request = ASK("Who is the mayor of Keldon?") THINK,
     .how = {.think_budget = 8, .max_tokens = 80, SCHEMA(person), .sampling.seed = 6}},
    {.request = ASK("Set a timer for 5 minutes") TOOLS DIRECT,
     .how = {.tool_choice = MOTE_TOOLS_REQUIRED, .max_tokens = 70, .sampling.seed = 8}},
    {.request = ASK("How is the weather in Paris?") TOOLS THINK,
     .how = {.think_budget = 16, .max_tokens = 90, .sampling.seed = 9}},
    {.request = "Once upon a time",
     .raw = true,
     .logprobs = true,
     .how = {.max_tokens = 50,
             .set = MOTE_SET_REPETITION | MOTE_SET_FREQUENCY | MOTE_SET_MIN_P,
             .sampling = {.repetition = 1.3f, .frequency = 0.4f, .min_p = 0.02f, .seed = 2}}},
    {.request = ASK("Tell me of Keldon") DIRECT,
     .min_tokens = 30,
     .how = {.max_tokens = 60, .stop = stops, .n_stop = 2, .sampling.seed = 4}},
    {.request = ASK("Count") DIRECT, /* loops, and the JSON is completed */
     .how = {.max_tokens = 900,
             .set = MOTE_SET_TEMPERATURE,
             SCHEMA(a_string),
             .sampling = {.bias = no_end, .seed = 1}}},
    {.request = ASK("What is 12 + 30?") THINK,
     .end_thinking_at = 7,
     .how = {.think_budget = 200, .max_tokens = 300, .sampling.seed = 11}},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static mote_engine *engine_for(const mote_model *model, uint32_t threads)
{
    const mote_engine_options options = {.threads = threads,
                                         .sessions = SLOTS,
                                         .positions = 2048ull * SLOTS,
                                         .kept_states = 4,
                                         .drafts = true,
                                         .logits_rows = SLOTS * SPEC_MAX_ROWS};
    return rig_engine(model, &options);
}

/* All fields except times and views. */
static bool same_result(const mote_answer *a, const mote_answer *b)
{
    return a->finish == b->finish && a->stop == b->stop && a->answer_tokens == b->answer_tokens &&
           a->think_tokens == b->think_tokens && a->forced_tokens == b->forced_tokens &&
           a->dropped_tokens == b->dropped_tokens && a->think_end == b->think_end &&
           a->loops_detected == b->loops_detected && a->loops_recovered == b->loops_recovered &&
           a->calls == b->calls && a->warnings == b->warnings;
}

static void compare(const turn_job *alone, const turn_job *g, int request, const char *where)
{
    size_t n, m;
    const mote_token *a = turn_job_answer(alone, &n), *b = turn_job_answer(g, &m);
    if (n != m || memcmp(a, b, n * sizeof *a) != 0)
        rig_fail("%s: request %d gives other tokens", where, request);
    if (!str_eq(strbuf_view(&alone->log), strbuf_view(&g->log)))
        rig_fail("%s: request %d gives other events:\n%.*s\nand not\n%.*s", where, request,
                 (int)g->log.n, g->log.p, (int)alone->log.n, alone->log.p);
    if (!str_eq(strbuf_view(&alone->chosen), strbuf_view(&g->chosen)))
        rig_fail("%s: request %d gives other log-probabilities", where, request);
    if (!same_result(chat_turn_result(alone->turn), chat_turn_result(g->turn)))
        rig_fail("%s: request %d gives another result", where, request);
}

/* ---- drafts ---- */

/* A source of drafts that knows the answers; one token in `wrong` is random, 1: all. */
typedef struct draft_source {
    const turn_job *alone, *slots; /* slots: [n] */
    const int *request;            /* [n] */
    size_t n;
    uint32_t vocabulary, wrong;
    rig_random *random;
} draft_source;

static uint64_t drafted, accepted; /* tokens in all batches */

static mote_status draft_known(void *with, spec_request *wanted, size_t n, mote_error *err)
{
    draft_source *d = with;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        spec_request *r = &wanted[i];
        size_t slot = 0, length;
        while (slot < d->n && d->slots[slot].session != r->session)
            slot++;
        const turn_job *g = &d->slots[slot];
        const mote_token *answer = turn_job_answer(&d->alone[d->request[slot]], &length);
        const size_t at = (size_t)mote_session_length(r->session) + r->n_given - g->prompt.n;
        for (size_t k = 0; k < r->n; k++) {
            const bool known = at + k < length && !rig_once_in(d->random, d->wrong);
            r->tokens[k] = known ? answer[at + k] : (mote_token)rig_below(d->random, d->vocabulary);
            r->probabilities[k] = 0.8f;
        }
        r->n_drafted = r->n;
    }
    return MOTE_OK;
}

/* Drafts of a batch: none, lookup alone, the MTP head, random tokens, or mostly right ones. */
static void open_drafts(turn_host *h, turn_job *slots, draft_source *d)
{
    static const uint32_t wrongs[] = {1, 4, 20};
    const uint32_t kind = rig_below(d->random, 6);
    mote_error err;
    spec_options options = {.max_items = SLOTS, .with = d};
    if (kind == 0)
        return;
    if (kind == 2) {
        options.draft = spec_draft_of(h->engine);
        options.with = h->engine;
    } else if (kind > 2) {
        options.draft = draft_known;
        d->wrong = wrongs[kind - 3];
    }
    MUST(spec_new(&h->spec, &options, &err), &err);
    for (size_t i = 0; i < d->n; i++)
        slots[i].mode = (int)rig_below(d->random, SPEC_MAX_DRAFT + 2) - 1;
}

static void close_drafts(turn_host *h, const turn_job *slots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        drafted += slots[i].drafted;
        accepted += slots[i].right;
    }
    spec_free(h->spec);
    h->spec = NULL;
}

/* A random batch: requests may repeat; prefill chunks, start times and drafts are random. */
static void run_batch(turn_host *h, turn_job *alone, rig_random *random, const char *where)
{
    static const size_t chunks[] = {0, 1, 2, 7, 32, 33, 64};
    turn_job slots[SLOTS];
    int request[SLOTS];
    const size_t n = 2 + rig_below(random, SLOTS - 1);
    for (size_t i = 0; i < n; i++) {
        request[i] = (int)rig_below(random, REQUESTS);
        slots[i] = requests[request[i]];
        slots[i].chunk = chunks[rig_below(random, sizeof chunks / sizeof *chunks)];
        slots[i].start_after = rig_below(random, 40);
    }
    draft_source source = {.alone = alone,
                           .slots = slots,
                           .request = request,
                           .n = n,
                           .vocabulary = (uint32_t)h->chat_ctx.n_tokens,
                           .random = random};
    open_drafts(h, slots, &source);
    turn_jobs_run(h, slots, n);
    close_drafts(h, slots, n);
    for (size_t i = 0; i < n; i++) {
        compare(&alone[request[i]], &slots[i], request[i], where);
        turn_job_free(&slots[i]);
    }
}

/* Forbids all tokens with a quote, so that the string does not end, and favours "a". */
static void find_quotes(turn_host *h)
{
    size_t n = 0;
    for (mote_token id = 0; id < (mote_token)h->chat_ctx.n_tokens && n < MOST_BIAS; id++) {
        size_t bytes;
        const char *text = mote_token_bytes(h->chat_ctx.model, id, &bytes);
        if (bytes > 0 && memchr(text, '"', bytes) != NULL)
            no_end[n++] = (mote_bias){id, -1000};
        else if (bytes == 1 && text[0] == 'a')
            no_end[n++] = (mote_bias){id, 40};
    }
    requests[ENDLESS].how.sampling.n_bias = n;
}

/* Each request alone: one pass, one thread, best level. */
static void run_alone(turn_host *h, turn_job *alone)
{
    find_quotes(h);
    for (int i = 0; i < REQUESTS; i++) {
        alone[i] = requests[i];
        turn_jobs_run(h, &alone[i], 1);
    }
    const mote_answer *counted = chat_turn_result(alone[ENDLESS].turn);
    if (counted->loops_detected == 0 || counted->finish != MOTE_FINISH_STOP)
        rig_fail("the request that should loop does not");
}

static uint32_t run_batches(const mote_model *model, turn_job *alone, uint32_t threads,
                            mote_isa level, rig_random *random)
{
    turn_host h;
    char where[64];
    mote_engine *engine = engine_for(model, threads);
    const uint32_t rounds = level == MOTE_ISA_REF ? 1 : test_scaled(ROUNDS, 1);
    turn_host_open(&h, engine);
    snprintf(where, sizeof where, "%s, %u threads", mote_isa_name(level), (unsigned)threads);
    for (uint32_t i = 0; i < rounds; i++)
        run_batch(&h, alone, random, where);
    turn_host_close(&h);
    mote_engine_free(engine);
    return rounds;
}

int main(int argc, char **argv)
{
    static turn_job alone[REQUESTS];
    const char *path = rig_model_path("mote-tiny-Q4_K_M");
    const double start = os_now();
    rig_random random = {.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1};
    mote_isa levels[RIG_MAX_LEVELS];
    uint32_t batches = 0;
    if (path == NULL)
        return 77;
    mote_model *best = rig_open(path, MOTE_ISA_BEST);
    turn_host host;
    turn_host_open(&host, engine_for(best, 1));
    run_alone(&host, alone);
    const size_t n_levels = rig_levels(levels);
    for (size_t i = 0; i < n_levels; i++) {
        if (argc > 2 && strcmp(argv[2], mote_isa_name(levels[i])) != 0)
            continue;
        mote_model *model = rig_open(rig_model_path("mote-tiny-Q4_K_M"), levels[i]);
        for (uint32_t threads = 1; threads <= MAX_THREADS; threads++)
            batches += run_batches(model, alone, threads, levels[i], &random);
        mote_model_close(model);
    }
    for (int i = 0; i < REQUESTS; i++)
        turn_job_free(&alone[i]);
    mote_engine *engine = host.engine;
    turn_host_close(&host);
    mote_engine_free(engine);
    mote_model_close(best);
    if (argc <= 1 && (accepted == 0 || accepted == drafted))
        rig_fail("%llu of %llu draft tokens were accepted; this tests too little",
                 (unsigned long long)accepted, (unsigned long long)drafted);
    printf("%d requests in %u batches of up to %d: equal; %llu of %llu draft tokens accepted "
           "(%.1f s)\n",
           REQUESTS, (unsigned)batches, SLOTS, (unsigned long long)accepted,
           (unsigned long long)drafted, os_now() - start);
    return 0;
}
