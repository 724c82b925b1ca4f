/* SPDX-License-Identifier: Apache-2.0 */
/* base_test.c - errors, checked arithmetic, cursor, string map, philox, base64, CPU detection. */
#include "base/base64.h"
#include "base/ckd.h"
#include "base/cpu.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/str.h"
#include "base/strmap.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void error_texts_are_set_once_and_truncated(void **state)
{
    (void)state;
    mote_error err;
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(err_set(NULL, MOTE_E_IO, "no error struct"), MOTE_E_IO);
    assert_int_equal(err_set(&err, MOTE_E_FULL, "%d of %s", 3, "four"), MOTE_E_FULL);
    assert_int_equal(err.status, MOTE_E_FULL);
    assert_string_equal(err.text, "3 of four");
    err_prefix(&err, "model.gguf");
    assert_string_equal(err.text, "model.gguf: 3 of four");
    err_prefix(NULL, "no error struct");
    err_set(&err, MOTE_E_IO, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    err_prefix(&err, longer);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void status_names_are_unique(void **state)
{
    (void)state;
    for (int a = MOTE_OK; a <= MOTE_E_MISMATCH; a++) {
        assert_string_not_equal(mote_status_name((mote_status)a), "unknown");
        for (int b = MOTE_OK; b < a; b++)
            assert_string_not_equal(mote_status_name((mote_status)a),
                                    mote_status_name((mote_status)b));
    }
    assert_string_equal(mote_status_name((mote_status)99), "unknown");
}

static void checked_arithmetic_detects_overflow(void **state)
{
    (void)state;
    uint64_t v;
    size_t s;
    assert_true(ckd_add_u64(UINT64_MAX - 1, 1, &v) && v == UINT64_MAX);
    assert_false(ckd_add_u64(UINT64_MAX, 1, &v));
    assert_true(ckd_mul_u64(UINT32_MAX, UINT32_MAX, &v) && v == 0xFFFFFFFE00000001u);
    assert_false(ckd_mul_u64((uint64_t)1 << 32, (uint64_t)1 << 32, &v));
    assert_true(ckd_mul_u64(UINT64_MAX, 0, &v) && v == 0);
    assert_true(ckd_add_size(1, 2, &s) && s == 3);
    assert_false(ckd_add_size(SIZE_MAX, 1, &s));
    assert_false(ckd_mul_size(SIZE_MAX / 2 + 1, 2, &s));
    assert_true(ckd_round_up_u64(0, 32, &v) && v == 0);
    assert_true(ckd_round_up_u64(1, 32, &v) && v == 32);
    assert_true(ckd_round_up_u64(32, 32, &v) && v == 32);
    assert_false(ckd_round_up_u64(UINT64_MAX - 30, 32, &v));
}

static void cursor_stays_in_bounds(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    uint8_t u8 = 0xEE;
    uint16_t u16 = 0xEEEE;
    uint32_t u32 = 0xEEEE;
    uint64_t u64 = 0xEEEE;
    const unsigned char *view = NULL;
    for (size_t n = 0; n <= sizeof bytes; n++) {
        cursor c = {bytes, n, 0};
        assert_true(cursor_u64(&c, &u64) == (n >= 8));
        assert_int_equal(c.pos, n >= 8 ? 8 : 0);
        c.pos = 0;
        assert_true(cursor_u32(&c, &u32) == (n >= 4));
        c.pos = 0;
        assert_true(cursor_u16(&c, &u16) == (n >= 2));
        c.pos = 0;
        assert_true(cursor_u8(&c, &u8) == (n >= 1));
        c.pos = n;
        assert_int_equal(cursor_left(&c), 0);
        assert_false(cursor_skip(&c, 1));
        assert_false(cursor_skip(&c, UINT64_MAX));
        assert_false(cursor_view(&c, UINT64_MAX, &view));
        assert_true(cursor_view(&c, 0, &view));
        assert_int_equal(c.pos, n);
    }
    assert_int_equal(u8, 1);
    assert_int_equal(u16, 0x0201);
    assert_int_equal(u32, 0x04030201);
    assert_true(u64 == 0x0807060504030201u);
    cursor c = {bytes, sizeof bytes, 3};
    assert_true(cursor_view(&c, 7, &view) && view == bytes + 3);
    cursor empty = {bytes, 0, 0};
    assert_true(cursor_copy(&empty, NULL, 0));
    assert_false(cursor_u8(&empty, &u8));
}

static void map_finds_its_keys(void **state)
{
    (void)state;
    enum { N = 20000 };
    static char keys[N][16];
    mote_error err;
    strmap map;
    uint32_t value;
    bool existing;
    assert_int_equal(strmap_init(&map, N, &err), MOTE_OK);
    for (uint32_t i = 0; i < N; i++) {
        /* Lengths around the eight-byte steps of the hash, and NUL bytes. */
        const size_t n = (size_t)snprintf(keys[i], sizeof keys[i], "%u", i * 7919u) + i % 3;
        assert_int_equal(strmap_put(&map, (str){keys[i], n}, i, &existing, &err), MOTE_OK);
        assert_false(existing);
    }
    for (uint32_t i = 0; i < N; i++) {
        const str key = {keys[i], strlen(keys[i]) + i % 3};
        assert_true(strmap_get(&map, key, &value) && value == i);
        assert_false(strmap_get(&map, (str){key.p, key.n + 3}, &value));
    }
    assert_int_equal(strmap_put(&map, (str){keys[5], strlen(keys[5]) + 2}, 99, &existing, &err),
                     MOTE_OK);
    assert_true(existing);
    assert_true(strmap_get(&map, (str){keys[5], strlen(keys[5]) + 2}, &value) && value == 5);
    strmap_fini(&map);
    assert_false(strmap_get(&map, str_of("0"), &value));
}

static void map_accepts_empty_key(void **state)
{
    (void)state;
    mote_error err;
    strmap map;
    uint32_t value;
    assert_int_equal(strmap_init(&map, 0, &err), MOTE_OK);
    assert_false(strmap_get(&map, (str){NULL, 0}, &value));
    assert_int_equal(strmap_put(&map, (str){NULL, 0}, 7, NULL, &err), MOTE_OK);
    assert_true(strmap_get(&map, str_of(""), &value) && value == 7);
    strmap_fini(&map);
}

static void overfull_map_is_an_error(void **state)
{
    (void)state;
    static char keys[64][4];
    mote_error err;
    strmap map;
    uint32_t n = 0;
    assert_int_equal(strmap_init(&map, 1, &err), MOTE_OK);
    mote_status status = MOTE_OK;
    for (; n < 64 && status == MOTE_OK; n++) {
        snprintf(keys[n], sizeof keys[n], "%u", n);
        status = strmap_put(&map, str_of(keys[n]), n, NULL, &err);
    }
    assert_int_equal(status, MOTE_E_FORMAT);
    assert_true(n > 16);
    uint32_t value;
    assert_false(strmap_get(&map, str_of("absent"), &value));
    strmap_fini(&map);
    mem_fail_at(1);
    assert_int_equal(strmap_init(&map, 1, &err), MOTE_E_MEMORY);
    mem_fail_at(0);
    strmap_fini(&map);
}

/* Known answers from Random123 (kat_vectors). */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t key, lo, hi;
        uint32_t word[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822u,
         0x85a308d3243f6a88u,
         0x0370734413198a2eu,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; i++) {
        const philox_block got = philox(known[i].key, known[i].lo, known[i].hi);
        assert_memory_equal(got.word, known[i].word, sizeof got.word);
    }
    assert_true(philox_unit(0, 0, 0) == (float)(0x6627e8d5u >> 8) * 0x1p-24f);
}

static void unit_draws_are_uniform(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 16 };
    uint32_t bins[BINS] = {0};
    for (uint32_t i = 0; i < N; i++) {
        const float u = philox_unit(42, i, i % 3);
        assert_true(u >= 0.0f && u < 1.0f);
        bins[(int)(u * BINS)]++;
    }
    for (int i = 0; i < BINS; i++) /* expected 6250, standard deviation 77 */
        assert_in_range(bins[i], 5865, 6635);
    assert_true(philox_unit(1, 5, 0) != philox_unit(1, 5, 1));
    assert_true(philox_unit(1, 5, 0) != philox_unit(1, 6, 0));
    assert_true(philox_unit(1, 5, 0) != philox_unit(2, 5, 0));
}

static void base64_round_trip(void **state)
{
    static const char *const wrong[] = {
        "A", "AAAAA", "AA=A", "A===", "AA#A", "=", "AAAA====", "AA=\xff"};
    unsigned char bytes[64];
    (void)state;
    for (size_t n = 0; n <= sizeof bytes; n++)
        for (int url = 0; url < 2; url++) {
            strbuf text = {0}, back = {0};
            for (size_t i = 0; i < n; i++)
                bytes[i] = (unsigned char)(251 * i + 97 * n);
            base64_put(&text, (str){(const char *)bytes, n}, url);
            assert_int_equal(text.n, url ? (8 * n + 5) / 6 : (n + 2) / 3 * 4);
            strbuf_text(&text, " \r\n");
            assert_true(base64_get(&back, strbuf_view(&text)));
            assert_true(str_eq(strbuf_view(&back), (str){(const char *)bytes, n}));
            strbuf_fini(&text);
            strbuf_fini(&back);
        }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        strbuf back = {0};
        assert_false(base64_get(&back, str_of(wrong[i])));
        strbuf_fini(&back);
    }
}

static void cpu_detection(void **state)
{
    (void)state;
    assert_int_equal(cpu_check_level(cpu_best_isa(), NULL), MOTE_OK);
    assert_int_equal(cpu_best_isa(), cpu_best_isa());
}

static void isa_names(void **state)
{
    (void)state;
    const char *const names[] = {"best", "ref",     "avx2", "avx512", "amx",
                                 "neon", "dotprod", "i8mm", "avxvnni"};
    mote_isa isa;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(mote_isa_parse(names[i], &isa));
        assert_string_equal(mote_isa_name(isa), names[i]);
        assert_int_equal(isa, i); /* values of the public header never change */
    }
    assert_false(mote_isa_parse("sse2", &isa));
    assert_string_equal(mote_isa_name((mote_isa)99), "unknown");
}

#if defined(__x86_64__)
/* AVX-512 and AVX-VNNI exist without each other. */
static void isa_vnni(void **state)
{
    (void)state;
    cpu_features f;
    cpu_features_fill(&f);
    assert_int_equal(cpu_level(&f), MOTE_ISA_AMX);
    assert_int_equal(cpu_level_up_to(&f, MOTE_ISA_AVXVNNI), MOTE_ISA_AVXVNNI);
    assert_true(cpu_features_set(&f, "AVX_VNNI", false));
    assert_int_equal(cpu_level(&f), MOTE_ISA_AMX);
    assert_int_equal(cpu_level_up_to(&f, MOTE_ISA_AVXVNNI), MOTE_ISA_AVX2);
    assert_true(cpu_features_set(&f, "AVX512F", false));
    assert_int_equal(cpu_level(&f), MOTE_ISA_AVX2);
    assert_true(cpu_features_set(&f, "AVX_VNNI", true));
    assert_int_equal(cpu_level(&f), MOTE_ISA_AVXVNNI);
    f.saved_sets = 0;
    assert_int_equal(cpu_level(&f), MOTE_ISA_REF);
}
#else
static void isa_vnni(void **state)
{
    (void)state;
}
#endif

/* The levels of this architecture are ordered; those of another one are no part of them. */
static void isa_order(void **state)
{
    (void)state;
    const mote_isa all[] = {MOTE_ISA_AVX2, MOTE_ISA_AVXVNNI, MOTE_ISA_AVX512, MOTE_ISA_AMX,
                            MOTE_ISA_NEON, MOTE_ISA_DOTPROD, MOTE_ISA_I8MM};
    mote_isa levels[CPU_LEVELS], usable[CPU_LEVELS];
    const size_t n = cpu_list_levels(levels), n_usable = cpu_list_usable(usable);
    assert_int_equal(levels[0], MOTE_ISA_REF);
    assert_in_range(n_usable, 1, n);
    assert_int_equal(usable[n_usable - 1], cpu_best_isa());
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(cpu_level_above(levels[i]), i + 1 < n ? levels[i + 1] : MOTE_ISA_BEST);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(cpu_level_contains(levels[i], levels[k]),
                             k <= i && (k == i || levels[k] != MOTE_ISA_AVXVNNI));
    }
    for (size_t i = 0; i < n_usable; i++)
        assert_int_equal(cpu_best_isa_up_to(usable[i]), usable[i]);
    assert_int_equal(cpu_best_isa_up_to(MOTE_ISA_BEST), cpu_best_isa());
    size_t foreign = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        mote_error err;
        if (cpu_check_level(all[i], &err) == MOTE_OK)
            continue;
        foreign++;
        assert_non_null(strstr(err.text, mote_isa_name(all[i])));
        assert_non_null(strstr(err.text, "levels of this CPU: ref"));
        assert_false(cpu_level_contains(cpu_best_isa(), all[i]));
        assert_false(cpu_level_contains(all[i], MOTE_ISA_REF));
        assert_int_equal(cpu_best_isa_up_to(all[i]), cpu_best_isa());
    }
    assert_true(foreign >= 3);
    assert_int_equal(cpu_check_level((mote_isa)99, NULL), MOTE_E_ARG);
}

/* ---- writing all bytes ---- */

enum {
    WRITTEN = 1 << 20
}; /* more than a pipe holds, so the write waits and signals interrupt it */

static void on_alarm(int number)
{
    (void)number;
}

/* Reads slowly, and counts bytes that are wrong or missing. */
static void *read_all(void *arg)
{
    static unsigned char buffer[4096];
    sigset_t alarm;
    size_t at = 0, wrong = 0;
    ssize_t n;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* for the thread that writes */
    while ((n = read(*(int *)arg, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            wrong += buffer[i] != (unsigned char)(at++ * 7);
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return (void *)(wrong + (at != WRITTEN));
}

static void all_bytes_are_written(void **state)
{
    (void)state;
    unsigned char *data = mem_new(WRITTEN, 1);
    pthread_t reader;
    void *wrong;
    int ends[2];
    assert_non_null(data);
    for (size_t i = 0; i < WRITTEN; i++)
        data[i] = (unsigned char)(i * 7);
    assert_int_equal(sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL), 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    const bool written = os_write_all(ends[1], data, WRITTEN);
    setitimer(ITIMER_REAL, &never, NULL);
    close(ends[1]);
    pthread_join(reader, &wrong);
    assert_true(written);
    assert_null(wrong);
    close(ends[0]);
    mem_free(data);
    assert_true(os_write_all(-1, "", 0));
    assert_false(os_write_all(-1, "x", 1));
    assert_int_equal(errno, EBADF);
}

static void names_are_taken_apart(void **state)
{
    (void)state;
    uint32_t index;
    str name = str_of("layers.12.mlp.weight");
    assert_false(str_take_prefix(&name, "layer."));
    assert_true(str_take_prefix(&name, "layers."));
    assert_true(str_take_index(&name, &index));
    assert_int_equal(index, 12);
    assert_false(str_take_suffix(&name, ".bias"));
    assert_true(str_take_suffix(&name, ".weight"));
    assert_true(str_eq(name, str_of("mlp")));
    assert_false(str_take_prefix(&name, "mlp.") || str_take_suffix(&name, "a.mlp"));
    static const char *const refused[] = {"", ".", "7", "x.", "01.", "12345.", "-1.", "1 ."};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        name = str_of(refused[i]);
        assert_false(str_take_index(&name, &index));
        assert_true(str_eq(name, str_of(refused[i])));
    }
    name = str_of("0.");
    assert_true(str_take_index(&name, &index) && index == 0 && name.n == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_texts_are_set_once_and_truncated),
        cmocka_unit_test(status_names_are_unique),
        cmocka_unit_test(checked_arithmetic_detects_overflow),
        cmocka_unit_test(cursor_stays_in_bounds),
        cmocka_unit_test(map_finds_its_keys),
        cmocka_unit_test(map_accepts_empty_key),
        cmocka_unit_test(overfull_map_is_an_error),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(unit_draws_are_uniform),
        cmocka_unit_test(base64_round_trip),
        cmocka_unit_test(cpu_detection),
        cmocka_unit_test(isa_names),
        cmocka_unit_test(isa_order),
        cmocka_unit_test(isa_vnni),
        cmocka_unit_test(all_bytes_are_written),
        cmocka_unit_test(names_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
