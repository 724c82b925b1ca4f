/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_test.c - conversations with the prefix cache on disk: an answer after a restore has the
 * tokens and logits of one that computed everything, whatever is on the disk.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "base/mem.h"
#include "chat/turn_rig.h"
#include "base/os.h"
#include "disk_cache/disk_session.h"
#include "support/random.h"
#include "support/test_files.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { CAP = 200 << 20 };

static mote_engine *engine;
static char directory[] = "/tmp/mote-chat-disk-XXXXXX", path[64], file[64];

/* Calls fn for each record with this end of the name: ".p", ".h", ".s" or ".e"; "": all files. */
static size_t each_record(const char *suffix, test_file_fn *fn)
{
    return test_files(path, suffix, fn, NULL);
}

static size_t damages; /* files that damage_file may still damage */

static void damage_file(const char *name, void *with)
{
    (void)with;
    if (damages == 0)
        return;
    damages--;
    const int fd = open(name, O_RDWR);
    char byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, 4096) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, 4096) == 1);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/prefix", directory);
    snprintf(file, sizeof file, "%s/chat.json", directory);
    engine = turn_engine("mote-tiny-Q4_K_M.gguf", 2, 3);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    turn_engine_close(engine);
    each_record("", test_file_remove);
    unlink(file);
    rmdir(path);
    return rmdir(directory);
}

static int empty(void **state)
{
    (void)state;
    each_record("", test_file_remove);
    return 0;
}

static chat_disk *disk_open(void)
{
    chat_disk *d;
    mote_error err;
    if (chat_disk_open(&d, path, CAP, NULL, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return d;
}

static void disk_close(chat_disk *d)
{
    while (!chat_disk_flush(d, 1)) {
    }
    assert_null(chat_disk_problem(d));
    chat_disk_close(d);
}

/* A text of n sentences. */
static char *long_text(unsigned n, unsigned variant)
{
    char *text = mem_new(n + 1, 48);
    for (unsigned i = 0; i < n; i++)
        snprintf(text + strlen(text), 48, "Number %u follows number %u. ", i + variant, i);
    return text;
}

/* One answer of a new conversation: content and all tokens. */
typedef struct outcome {
    answer_record record;
    mote_token *tokens;
    size_t n;
    uint64_t restored, reused, prompt;
} outcome;

static void outcome_take(outcome *o, mote_chat *chat)
{
    const mote_answer a = turn_answer(chat, turn_greedy(), &o->record);
    const mote_session *session = mote_chat_session(chat);
    o->n = (size_t)mote_session_length(session);
    o->tokens = mem_new(o->n, sizeof *o->tokens);
    memcpy(o->tokens, mote_session_tokens(session), o->n * sizeof *o->tokens);
    o->restored = chat_disk_restored(chat);
    o->reused = a.reused_tokens;
    o->prompt = a.prompt_tokens;
}

static void outcome_clear(outcome *o)
{
    record_clear(&o->record);
    mem_free(o->tokens);
    *o = (outcome){0};
}

static outcome ask(chat_disk *d, chat_disk_extent extent, const char *system, const char *text)
{
    outcome o = {0};
    mote_chat *chat =
        turn_chat(engine, &(mote_chat_options){.system = system, .system_bytes = strlen(system)});
    chat_set_disk(chat, d, extent);
    turn_add(chat, text);
    outcome_take(&o, chat);
    while (d != NULL && !chat_disk_flush(d, 1)) {
    }
    mote_chat_free(chat);
    return o;
}

static void same_outcome(const outcome *a, const outcome *b)
{
    assert_true(str_eq(strbuf_view(&a->record.content), strbuf_view(&b->record.content)));
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->tokens, b->tokens, a->n * sizeof *a->tokens);
}

static void a_repeated_prompt_is_restored(void **state)
{
    (void)state;
    char *system = long_text(60, 1);
    outcome cold = ask(NULL, CHAT_DISK_ALL, system, "Which number is first?");
    chat_disk *d = disk_open();
    outcome first = ask(d, CHAT_DISK_PROMPT, system, "Which number is first?");
    disk_close(d);
    assert_int_equal(first.restored, 0);
    const size_t records = each_record("", NULL);
    assert_true(each_record(".s", NULL) >= 1 && each_record(".p", NULL) >= 4);
    d = disk_open();
    outcome again = ask(d, CHAT_DISK_PROMPT, system, "Which number is first?");
    assert_true(again.restored + 64 >= again.prompt && again.reused == again.restored);
    assert_int_equal(each_record("", NULL), records); /* a hit writes nothing */
    outcome other = ask(d, CHAT_DISK_PROMPT, system, "Is there a last number?");
    assert_true(other.restored >= 256);
    disk_close(d);
    outcome other_cold = ask(NULL, CHAT_DISK_ALL, system, "Is there a last number?");
    same_outcome(&first, &cold);
    same_outcome(&again, &cold);
    same_outcome(&other, &other_cold);
    outcome_clear(&cold);
    outcome_clear(&first);
    outcome_clear(&again);
    outcome_clear(&other);
    outcome_clear(&other_cold);
    mem_free(system);
}

/* Each damaged record that a restore meets is removed, and written again. */
static void damage_is_a_miss(void **state)
{
    (void)state;
    char *system = long_text(60, 2);
    chat_disk *d = disk_open();
    outcome first = ask(d, CHAT_DISK_ALL, system, "Which number is first?");
    for (unsigned kind = 0; kind < 2; kind++) {
        damages = kind == 0 ? SIZE_MAX : 1;
        each_record(kind == 0 ? ".s" : ".p", damage_file);
        outcome again = ask(d, CHAT_DISK_ALL, system, "Which number is first?");
        assert_int_equal(again.restored, 0);
        same_outcome(&again, &first);
        outcome_clear(&again);
        again = ask(d, CHAT_DISK_ALL, system, "Which number is first?"); /* it was written again */
        assert_true(again.restored > 256);
        same_outcome(&again, &first);
        outcome_clear(&again);
    }
    disk_close(d);
    outcome_clear(&first);
    mem_free(system);
}

/* A conversation that goes through a file and the disk between its turns, against one that does
 * not. */
static void a_conversation_continues_from_disk(void **state)
{
    (void)state;
    test_random chance = {7};
    mote_chat *whole = turn_chat(engine, NULL), *chat = turn_chat(engine, NULL);
    chat_disk *d = disk_open();
    chat_set_disk(chat, d, CHAT_DISK_ALL);
    for (unsigned turn = 0; turn < 8; turn++) {
        char *text = long_text(4 + (unsigned)test_random_below(&chance, 12), turn);
        outcome a = {0}, b = {0};
        turn_add(whole, text);
        turn_add(chat, text);
        mem_free(text);
        outcome_take(&a, whole);
        outcome_take(&b, chat);
        same_outcome(&a, &b);
        if (turn > 0 && turn % 2 == 1) { /* loaded before this turn */
            assert_true(b.restored > 0 && b.restored + 200 > a.reused);
        }
        outcome_clear(&a);
        outcome_clear(&b);
        if (turn % 2 == 1)
            continue; /* the next answer stops the save */
        while (!chat_disk_flush(d, 1)) {
        }
        strbuf saved = {0};
        assert_int_equal(chat_put_text(&saved, chat, str_of("\"x\": 1"), NULL), MOTE_OK);
        mote_chat_free(chat);
        if (turn % 4 == 0) {
            assert_int_equal(chat_load_text(&chat, engine, strbuf_view(&saved), NULL, NULL),
                             MOTE_OK);
        } else {
            assert_int_equal(os_file_replace(file, saved.p, saved.n, NULL), MOTE_OK);
            assert_int_equal(mote_chat_load(&chat, engine, file, NULL, NULL, NULL), MOTE_OK);
        }
        strbuf_fini(&saved);
        chat_set_disk(chat, d, CHAT_DISK_ALL);
    }
    mote_chat_free(chat);
    mote_chat_free(whole);
    disk_close(d);
}

/* Copies the blocks of a session at its last multiple of 32 into a new one. */
static mote_session *copy_blocks(mote_engine *e, const mote_session *from)
{
    const size_t n = (size_t)mote_session_length(from) / 32 * 32;
    const mote_work prefix = {.tokens = mote_session_tokens(from), .n = n};
    mote_session *to;
    mote_block a[64], b[64];
    assert_int_equal(mote_session_prepare(&to, e, NULL, &prefix, NULL), MOTE_OK);
    const size_t n_a = mote_session_blocks(from, a, 64), n_b = mote_session_blocks(to, b, 64);
    assert_true(n_a <= 64 && n_b <= n_a);
    for (size_t i = 0; i + 1 < n_b; i++)
        memcpy(b[i].data, a[i].data, a[i].bytes);
    memcpy(b[n_b - 1].data, a[n_a - 1].data, a[n_a - 1].bytes);
    mote_session_adopt(to);
    return to;
}

static void step(mote_engine *e, mote_session *s, const mote_token *tokens, size_t n)
{
    const mote_work work = {.session = s, .tokens = tokens, .n = n};
    assert_int_equal(mote_step(e, &work, 1, NULL), MOTE_OK);
}

/* A session with a restored end has the logits of the original, and so do its later steps. */
static void an_end_has_the_bits_of_its_session(void **state)
{
    (void)state;
    test_random chance = {11};
    const mote_model *model = mote_engine_model(engine);
    mote_model_info info;
    mote_model_describe(model, &info);
    const size_t row = info.vocabulary * sizeof(float);
    float *logits = mem_new(1, row);
    for (unsigned i = 0; i < 24; i++) {
        const mote_engine_options options = {.threads = 1,
                                             .sessions = 2,
                                             .positions = 1024,
                                             .drafts = i % 2 == 1,
                                             .kv = i % 3 == 0 ? MOTE_KV_Q8_0 : MOTE_KV_F16};
        mote_engine *e;
        mote_session *cold;
        mote_token tokens[400];
        const size_t n = 32 + (size_t)test_random_below(&chance, 300);
        for (size_t j = 0; j < 400; j++)
            tokens[j] = (mote_token)test_random_below(&chance, 1000);
        if (n % 32 == 0)
            continue;
        assert_int_equal(mote_engine_new(&e, model, &options, NULL), MOTE_OK);
        assert_int_equal(mote_session_new(&cold, e, NULL, NULL), MOTE_OK);
        void *end = mem_new(1, mote_session_end_bytes(cold, n));
        step(e, cold, tokens, n);
        memcpy(logits, mote_session_logits(cold, 0), row);
        assert_int_equal(mote_session_read_end(cold, end, NULL), MOTE_OK);
        mote_session *warm = copy_blocks(e, cold);
        const size_t have = n / 32 * 32;
        assert_int_equal(mote_session_write_end(warm, tokens + have, n - have, end, NULL), MOTE_OK);
        assert_int_equal(mote_session_length(warm), n);
        assert_memory_equal(mote_session_logits(warm, 0), logits, row);
        for (size_t j = n; j < n + 70; j += 5) {
            step(e, cold, tokens + j % 300, 5);
            memcpy(logits, mote_session_logits(cold, 0), row);
            step(e, warm, tokens + j % 300, 5);
            assert_memory_equal(mote_session_logits(warm, 0), logits, row);
        }
        assert_int_equal(mote_session_write_end(warm, tokens, 40, end, NULL), MOTE_E_ARG);
        mem_free(end);
        mote_session_free(cold);
        mote_session_free(warm);
        mote_engine_free(e);
    }
    mem_free(logits);
}

static void dropped_records_are_those_of_one_conversation(void **state)
{
    (void)state;
    char *system = long_text(60, 3);
    chat_disk *d = disk_open();
    outcome one = ask(d, CHAT_DISK_ALL, system, "Which number is first?");
    const size_t of_one = each_record("", NULL);
    char *more = long_text(30, 9);
    outcome two = ask(d, CHAT_DISK_ALL, system, more);
    disk_close(d);
    assert_true(each_record("", NULL) > of_one);
    disk_cache *cache;
    disk_scope scope;
    assert_int_equal(disk_cache_open(&cache, path, CAP, false, NULL, NULL), MOTE_OK);
    disk_scope_init(&scope, engine, false, 0, 0);
    const size_t found = disk_session_find(cache, &scope, one.tokens, one.n, one.n);
    assert_true(found > 256);
    size_t same = 0;
    while (same < one.n && same < two.n && one.tokens[same] == two.tokens[same])
        same++;
    assert_true(disk_session_drop(cache, &scope, two.tokens, two.n, same) > 0);
    assert_int_equal(disk_session_find(cache, &scope, one.tokens, one.n, one.n), found);
    assert_true(disk_session_drop(cache, &scope, one.tokens, one.n, 0) > 0);
    assert_int_equal(disk_session_find(cache, &scope, one.tokens, one.n, one.n), 0);
    disk_cache_close(cache);
    assert_int_equal(each_record(".p", NULL) + each_record(".s", NULL) + each_record(".h", NULL) +
                         each_record(".e", NULL),
                     0);
    outcome_clear(&one);
    outcome_clear(&two);
    mem_free(system);
    mem_free(more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_repeated_prompt_is_restored, empty),
        cmocka_unit_test_teardown(damage_is_a_miss, empty),
        cmocka_unit_test_teardown(a_conversation_continues_from_disk, empty),
        cmocka_unit_test(an_end_has_the_bits_of_its_session),
        cmocka_unit_test_teardown(dropped_records_are_those_of_one_conversation, empty),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
