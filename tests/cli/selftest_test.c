/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftest_test.c - `mote selftest` finds wrong kernels and passes correct ones.
 *
 * The program is linked with --wrap=kern_table_init, so models that it opens get a wrong kernel in
 * one slot: the real kernel with one changed output. Every slot that a dense text model reaches
 * is planted once.
 *
 * `selftest_test --print` prints the body of src/cli/machine/selftest_stored.c.
 */
#define _GNU_SOURCE
#include "cli/machine/selftest.h"

#include "base/sanitized.h"
#include "cli/args/command.h"
#include "cli/term/terminal.h"
#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(MOTE_SANITIZED)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* ---- planted faults ---- */

#define KERNEL(slot, type) SLOT_##slot,
typedef enum slot {
#include "kernels/kernels.def"
    N_SLOTS
} slot;
#undef KERNEL

static const char *const slot_names[] = {
#define KERNEL(slot, type) #slot,
#include "kernels/kernels.def"
#undef KERNEL
};

/* What is planted. */
static struct {
    slot slot;        /* N_SLOTS: nothing */
    mote_isa level;   /* only in tables of this level */
    size_t rows;      /* GEMM: only in products with so many rows of input; 0: always */
    uint32_t threads; /* only in engines with so many threads; 0: always */
    bool forked;      /* only after a fork */
} planted = {.slot = N_SLOTS};

static kern_table real;
static uint32_t engine_threads;
static bool forked;

static bool fault_active(size_t rows)
{
    return (planted.rows == 0 || rows == planted.rows) &&
           (planted.threads == 0 || engine_threads == planted.threads) &&
           (!planted.forked || forked);
}

static void fault_add(float *value, float error)
{
    if (fault_active(0))
        *value += error;
}

/* One wrong kernel for every type of kernel. */
#define WRONG_kern_gemm_fn(slot)                                                                   \
    static void wrong_##slot(const kern_gemm_args *a)                                              \
    {                                                                                              \
        real.slot(a);                                                                              \
        if (fault_active(a->x->n))                                                                 \
            a->y[0] += 1e-3f;                                                                      \
    }
#define WRONG_kern_act_fn(slot)                                                                    \
    static void wrong_##slot(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)       \
    {                                                                                              \
        real.slot(x, cols, q, d, sum);                                                             \
        q[0] ^= 1;                                                                                 \
    }
#define WRONG_kern_rmsnorm_fn(slot)                                                                \
    static void wrong_##slot(const float *x, const float *w, size_t n, float eps, float *y)        \
    {                                                                                              \
        real.slot(x, w, n, eps, y);                                                                \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_rmsnorm_gated_fn(slot)                                                          \
    static void wrong_##slot(const float *x, const float *w, const float *z, size_t n, float eps,  \
                             float *y)                                                             \
    {                                                                                              \
        real.slot(x, w, z, n, eps, y);                                                             \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_l2norm_fn(slot)                                                                 \
    static void wrong_##slot(const float *x, size_t n, float eps, float scale, float *y)           \
    {                                                                                              \
        real.slot(x, n, eps, scale, y);                                                            \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_add_fn(slot)                                                                    \
    static void wrong_##slot(const float *x, size_t n, float *y)                                   \
    {                                                                                              \
        real.slot(x, n, y);                                                                        \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_silu_mul_fn(slot)                                                               \
    static void wrong_##slot(const float *gate, const float *up, size_t n, float *y)               \
    {                                                                                              \
        real.slot(gate, up, n, y);                                                                 \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_conv_fn(slot)                                                                   \
    static void wrong_##slot(const float *const x[4], const float *w, size_t w_stride, size_t n,   \
                             float *y)                                                             \
    {                                                                                              \
        real.slot(x, w, w_stride, n, y);                                                           \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_rope_fn(slot)                                                                   \
    static void wrong_##slot(float *x, const float *cos, const float *sin, size_t n)               \
    {                                                                                              \
        real.slot(x, cos, sin, n);                                                                 \
        fault_add(&x[0], 1e-2f);                                                                   \
    }
#define WRONG_kern_hadamard_fn(slot)                                                               \
    static void wrong_##slot(float *x, size_t n, float scale)                                      \
    {                                                                                              \
        real.slot(x, n, scale);                                                                    \
        fault_add(&x[0], 1e-2f);                                                                   \
    }
#define WRONG_kern_delta_rows_fn(slot)                                                             \
    static void wrong_##slot(const kern_delta_args *a)                                             \
    {                                                                                              \
        real.slot(a);                                                                              \
        fault_add(&a->o[0], 1e-3f);                                                                \
    }
#define WRONG_kern_delta_fold_fn(slot)                                                             \
    static void wrong_##slot(const kern_delta_args *a, float *s1)                                  \
    {                                                                                              \
        real.slot(a, s1);                                                                          \
        fault_add(&s1[0], 1e-2f);                                                                  \
    }
#define WRONG_kern_kv_put_fn(slot)                                                                 \
    static void wrong_##slot(const float *k, const float *v, void *k_page, void *v_page,           \
                             uint32_t at)                                                          \
    {                                                                                              \
        float changed[KERN_HEAD_DIM];                                                              \
        memcpy(changed, v, sizeof changed);                                                        \
        fault_add(&changed[0], 0.5f);                                                              \
        real.slot(k, changed, k_page, v_page, at);                                                 \
    }
#define WRONG_kern_attn_block_fn(slot)                                                             \
    static void wrong_##slot(const kern_attn_args *a)                                              \
    {                                                                                              \
        real.slot(a);                                                                              \
        if (a->n_keys[0] > 0)                                                                      \
            fault_add(&a->acc[0].o[0], 1e-2f);                                                     \
    }
#define WRONG_kern_attn_merge_fn(slot)                                                             \
    static void wrong_##slot(kern_attn_acc *into, const kern_attn_acc *from, size_t n)             \
    {                                                                                              \
        real.slot(into, from, n);                                                                  \
        fault_add(&into[0].o[0], 1e-2f);                                                           \
    }
#define WRONG_kern_attn_finish_fn(slot)                                                            \
    static void wrong_##slot(const kern_attn_acc *acc, const float *gate, float *y)                \
    {                                                                                              \
        real.slot(acc, gate, y);                                                                   \
        fault_add(&y[0], 1e-3f);                                                                   \
    }
#define WRONG_kern_max_fn(slot)                                                                    \
    static float wrong_##slot(const float *x, size_t n)                                            \
    {                                                                                              \
        return n > 1 ? x[0] : real.slot(x, n);                                                     \
    }
#define WRONG_kern_sum_exp_fn(slot)                                                                \
    static float wrong_##slot(const float *x, size_t n, float max, float scale)                    \
    {                                                                                              \
        return real.slot(x, n, max, scale) * 1.001f;                                               \
    }
/* Slots of the vision encoder, which the built-in models do not have. */
#define WRONG_kern_layernorm_fn(slot)
#define WRONG_kern_gelu_fn(slot)
#define WRONG_kern_vision_attn_fn(slot)
#define WRONG_kern_axpy_fn(slot)
#define WRONG_kern_low_rank_fn(slot)

#define KERNEL(slot, type) WRONG_##type(slot)
#include "kernels/kernels.def"
#undef KERNEL

/* The model of the self-test is dense and has no vision encoder and no adapters. */
static bool slot_not_reached(slot s)
{
    return s == SLOT_axpy || s == SLOT_layernorm || s == SLOT_gelu_tanh || s == SLOT_gelu_erf ||
           s == SLOT_vision_attn_block || s == SLOT_low_rank_add;
}

#define wrong_axpy              real.axpy
#define wrong_layernorm         real.layernorm
#define wrong_gelu_tanh         real.gelu_tanh
#define wrong_gelu_erf          real.gelu_erf
#define wrong_vision_attn_block real.vision_attn_block
#define wrong_low_rank_add      real.low_rank_add

void __real_kern_table_init(kern_table *table, mote_isa level);
void __wrap_kern_table_init(kern_table *table, mote_isa level);

void __wrap_kern_table_init(kern_table *table, mote_isa level)
{
    __real_kern_table_init(table, level);
    real = *table;
    if (level != planted.level)
        return;
    switch (planted.slot) {
#define KERNEL(slot, type)                                                                         \
    case SLOT_##slot:                                                                              \
        table->slot = wrong_##slot;                                                                \
        break;
#include "kernels/kernels.def"
#undef KERNEL
    case N_SLOTS: break;
    }
}

mote_status __real_mote_engine_new(mote_engine **out, const mote_model *model,
                                   const mote_engine_options *options, mote_error *err);
mote_status __wrap_mote_engine_new(mote_engine **out, const mote_model *model,
                                   const mote_engine_options *options, mote_error *err);

mote_status __wrap_mote_engine_new(mote_engine **out, const mote_model *model,
                                   const mote_engine_options *options, mote_error *err)
{
    engine_threads = options->threads;
    forked = false;
    return __real_mote_engine_new(out, model, options, err);
}

mote_status __real_mote_session_fork(mote_session **out, const mote_session *from, mote_error *err);
mote_status __wrap_mote_session_fork(mote_session **out, const mote_session *from, mote_error *err);

mote_status __wrap_mote_session_fork(mote_session **out, const mote_session *from, mote_error *err)
{
    forked = true;
    return __real_mote_session_fork(out, from, err);
}

/* ---- tests ---- */

static mote_isa best_level(void)
{
    mote_isa levels[SELFTEST_LEVELS];
    return levels[selftest_find_levels(levels) - 1];
}

/* The level below the best one, which must not be the only one. */
static mote_isa second_level(void)
{
    mote_isa levels[SELFTEST_LEVELS];
    return levels[selftest_find_levels(levels) - 2];
}

static void plant(slot s)
{
    memset(&planted, 0, sizeof planted);
    planted.slot = s;
    planted.level = best_level();
}

static int plant_nothing(void **state)
{
    (void)state;
    plant(N_SLOTS);
    return 0;
}

static void run_level(selftest_level *out)
{
    const selftest test = {.threads = 3};
    mote_error err;
    if (selftest_run_level(&test, best_level(), out, &err) != MOTE_OK)
        fail_msg("%s", err.text);
}

/* The stored logits are those of the reference kernels. */
static void stored_is_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < selftest_n_cases; i++) {
        selftest_result result;
        mote_error err;
        if (selftest_cases[i].slow && SANITIZED)
            continue;
        if (selftest_run_case(&selftest_cases[i], MOTE_ISA_REF, &result, &err) != MOTE_OK)
            fail_msg("%s", err.text);
        if (result.all != selftest_stored[i].all || result.last != selftest_stored[i].last ||
            memcmp(result.logits, selftest_stored[i].logits, sizeof result.logits) != 0)
            fail_msg("case %s: the stored logits are not those of the reference kernels; if "
                     "MOTE_NUMERICS has changed, use the output of selftest_test --print",
                     selftest_cases[i].name);
    }
}

/* All logits are numbers, and two cases do not have the same logits. */
static void cases_are_different(void **state)
{
    (void)state;
    for (size_t i = 0; i < selftest_n_cases; i++) {
        assert_true(selftest_stored[i].logits[0] == selftest_stored[i].logits[0]);
        for (size_t k = 0; k < i; k++)
            assert_true(selftest_stored[i].all != selftest_stored[k].all);
    }
}

static void correct_kernels_pass(void **state)
{
    (void)state;
    selftest_level out;
    run_level(&out);
    assert_true(selftest_passed(&out));
    assert_int_equal(out.runs[SELFTEST_STORED], selftest_n_cases);
    assert_int_equal(out.runs[SELFTEST_THREADS], 2);
    assert_int_equal(out.runs[SELFTEST_SPLIT], 2);
    assert_int_equal(out.runs[SELFTEST_CACHE], 2);
}

/* The case that must be named for a wrong kernel: the first that uses it. */
static const char *case_of_slot(slot s)
{
    static const struct {
        const char *begins, *name;
    } rows[] = {
        {"act_32", "Q8_0"},
        {"act_256", "Q6_K"},
        {"rmsnorm_gated", "DeltaNet"},
        {"l2norm", "DeltaNet"},
        {"conv_silu", "DeltaNet"},
        {"delta_", "DeltaNet"},
        {"rope", "attention f32"},
        {"kv_put_f32", "attention f32"},
        {"kv_put_f16", "attention f16"},
        {"hadamard", "attention q8_0"},
        {"kv_put_q8_0", "attention q8_0"},
        {"kv_put_q4_0", "attention q4_0"},
        {"attn_block_f32", "attention f32"},
        {"attn_block_f16", "attention f16"},
        {"attn_block_q8_0", "attention q8_0"},
        {"attn_block_q4_0", "attention q4_0"},
        {"attn_merge", "long attention"},
        {"attn_finish", "attention f32"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(slot_names[s], rows[i].begins, strlen(rows[i].begins)) == 0)
            return rows[i].name;
    return strncmp(slot_names[s], "gemm_", 5) == 0 ? slot_names[s] + 5 : "F32";
}

static void every_slot_is_found(void **state)
{
    (void)state;
    for (slot s = 0; s < N_SLOTS; s++) {
        /* Products call the kernels of gemm_i8_256 directly, not through the table. */
        if (slot_not_reached(s) || s == SLOT_gemm_i8_256)
            continue;
        plant(s);
        selftest_level out;
        run_level(&out);
        const char *name = case_of_slot(s), *message = out.message[SELFTEST_STORED];
        if (out.failed[SELFTEST_STORED] == 0)
            fail_msg("a wrong %s is not found", slot_names[s]);
        if (strncasecmp(message, name, strlen(name)) != 0 || message[strlen(name)] != ':')
            fail_msg("a wrong %s is reported as '%s', not as case %s", slot_names[s], message,
                     name);
    }
}

/* A fault in one kind of run is found by the check of that kind only. */
static void expect_only(selftest_check check)
{
    selftest_level out;
    run_level(&out);
    for (size_t i = 0; i < SELFTEST_N_CHECKS; i++)
        assert_int_equal(out.failed[i] > 0, i == (size_t)check);
}

static void split_is_checked(void **state)
{
    (void)state;
    plant(SLOT_gemm_f32);
    planted.rows = 7;
    expect_only(SELFTEST_SPLIT);
}

static void threads_are_checked(void **state)
{
    (void)state;
    plant(SLOT_add);
    planted.threads = 3;
    expect_only(SELFTEST_THREADS);
}

static void forks_are_checked(void **state)
{
    (void)state;
    plant(SLOT_add);
    planted.forked = true;
    expect_only(SELFTEST_CACHE);
}

/* Runs the command and returns its exit code; the first bytes of stderr go to `text`. */
static int run_command(char *text, size_t room)
{
    static cli_out out;
    const cli_call call = {.command = &cmd_selftest,
                           .options = &(uint64_t){8}, /* --tokens */
                           .out = &out};
    FILE *file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    out_open(&out, STDOUT_FILENO);
    const int code = cmd_selftest.run(&call);
    out_flush(&out);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    const size_t n = fread(text, 1, room - 1, file);
    text[n] = '\0';
    fclose(file);
    return code;
}

static void command_names_level_and_kernels(void **state)
{
    (void)state;
    char text[4096], expected[256];
    term_init(&(cli_common){.no_progress = true});
    plant(SLOT_gemm_q4_k);
    assert_int_equal(run_command(text, sizeof text), CLI_DAMAGED);
    snprintf(expected, sizeof expected, "level %s, stored logits: wrong result in Q4_K products",
             mote_isa_name(best_level()));
    assert_non_null(strstr(text, expected));
    if (best_level() == MOTE_ISA_REF)
        snprintf(expected, sizeof expected, "on every level");
    else
        snprintf(expected, sizeof expected, "set MOTE_ISA=%s, the fastest level that passed",
                 mote_isa_name(second_level()));
    assert_non_null(strstr(text, expected));
}

static int print_stored(void)
{
    for (size_t i = 0; i < selftest_n_cases; i++) {
        selftest_result r;
        mote_error err;
        if (selftest_run_case(&selftest_cases[i], MOTE_ISA_REF, &r, &err) != MOTE_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        printf("    /* %s */\n    {0x%016llx,\n     0x%016llx,\n     {%af, %af, %af, %af}},\n",
               selftest_cases[i].name, (unsigned long long)r.all, (unsigned long long)r.last,
               (double)r.logits[0], (double)r.logits[1], (double)r.logits[2], (double)r.logits[3]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--print") == 0)
        return print_stored();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(stored_is_reference, plant_nothing),
        cmocka_unit_test_setup(cases_are_different, plant_nothing),
        cmocka_unit_test_setup(correct_kernels_pass, plant_nothing),
        cmocka_unit_test_setup(every_slot_is_found, plant_nothing),
        cmocka_unit_test_setup(split_is_checked, plant_nothing),
        cmocka_unit_test_setup(threads_are_checked, plant_nothing),
        cmocka_unit_test_setup(forks_are_checked, plant_nothing),
        cmocka_unit_test_setup(command_names_level_and_kernels, plant_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
