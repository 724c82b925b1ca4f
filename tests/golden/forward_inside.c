/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_inside.c - locates a difference: the output of every layer, the KV cache and the
 * recurrent state of mote-tiny compared with the reference, on one prompt of 130 tokens.
 *
 * Tolerances are those of golden/forward: hidden states, keys, values and
 * convolution inputs 1e-3, DeltaNet states 1e-4. GGUF files hold value heads
 * tiled (head n reads key head n % 2), the reference grouped (n / 2), so heads
 * and their channels are compared in that order.
 */
#include "golden/compare.h"

#include "engine/engine_int.h"
#include "golden/session_state.h"

#include <stdlib.h>
#include <string.h>

enum { LAYERS = 8, EMBD = 256, ROWS = 130, DIM = 128, KEY_HEADS = 2, VALUE_HEADS = 4 };
enum { KEY_DIM = KEY_HEADS * DIM, CONV_DIM = 2 * KEY_DIM + VALUE_HEADS * DIM };

static const double hidden_bound = 1e-3, state_bound = 1e-4;

static uint32_t n_compared;

static void expect(double far, double bound, const char *what, int layer)
{
    printf("%-12s %2d  %.1e\n", what, layer, far);
    n_compared++;
    if (!(far <= bound))
        rig_fail("%s of layer %d is %g from the reference, not %g", what, layer, far, bound);
}

/* The reference's number of the value head that the file has at `head`. */
static uint32_t reference_head(uint32_t head)
{
    uint32_t r = VALUE_HEADS / KEY_HEADS;
    return head % KEY_HEADS * r + head / KEY_HEADS;
}

/* ---- hidden states, as they come by ---- */

static void see_rows(void *unused, const char *what, int layer, const float *rows, size_t n_rows,
                     size_t n_cols)
{
    (void)unused;
    char name[32];
    snprintf(name, sizeof name, "detail.layer%d", layer);
    if (strcmp(what, "embed") == 0)
        snprintf(name, sizeof name, "detail.embeddings");
    else if (strcmp(what, "final_norm") == 0)
        snprintf(name, sizeof name, "detail.final_norm");
    test_npy want = golden_needs("forward", name);
    /* The final norm is computed only for rows with logits. */
    if (n_cols != EMBD || n_rows > ROWS)
        rig_fail("%s shows [%zu][%zu]", what, n_rows, n_cols);
    const float *last = want.f32 + (ROWS - n_rows) * n_cols;
    expect(farthest(rows, last, n_rows * n_cols), hidden_bound, what, layer);
    test_npy_free(&want);
}

/* ---- memory ---- */

static test_npy needs_state(uint32_t tokens, uint32_t layer, const char *what)
{
    char name[48];
    snprintf(name, sizeof name, "state%u.layer%u.%s", tokens, layer, what);
    return golden_needs("forward", name);
}

static void compare_states(const mote_session *session, uint32_t tokens, uint32_t layer,
                           uint32_t index)
{
    test_npy want = needs_state(tokens, layer, "S"); /* [4][128][128] */
    static float got[DIM * DIM];
    double far = 0;
    for (uint32_t head = 0; head < VALUE_HEADS; head++) {
        session_peek_state(session, index, head, got);
        far = fmax(far, farthest(got, want.f32 + reference_head(head) * DIM * DIM, DIM * DIM));
    }
    expect(far, state_bound, tokens == 64 ? "S at 64" : "S at 130", (int)layer);
    test_npy_free(&want);
}

static void compare_inputs(const mote_session *session, uint32_t tokens, uint32_t layer,
                           uint32_t index)
{
    test_npy want = needs_state(tokens, layer, "conv"); /* [1024][3] */
    static float got[3][CONV_DIM];
    session_peek_conv(session, index, got[0]);
    double far = 0;
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t c = 0; c < CONV_DIM; c++) {
            uint32_t from = c;
            if (c >= 2 * KEY_DIM)
                from = 2 * KEY_DIM + reference_head((c - 2 * KEY_DIM) / DIM) * DIM + c % DIM;
            far = fmax(far, farthest(&got[i][c], &want.f32[from * 3 + i], 1));
        }
    expect(far, hidden_bound, tokens == 64 ? "conv at 64" : "conv at 130", (int)layer);
    test_npy_free(&want);
}

static void compare_keys(const mote_session *session, uint32_t tokens, uint32_t layer,
                         uint32_t index)
{
    test_npy k = needs_state(tokens, layer, "k"), v = needs_state(tokens, layer, "v");
    float got_k[256], got_v[256];
    double far_k = 0, far_v = 0;
    for (uint32_t pos = 0; pos < tokens; pos++) {
        session_peek_kv(session, index, 0, pos, got_k, got_v);
        far_k = fmax(far_k, farthest(got_k, k.f32 + pos * 256, 256));
        far_v = fmax(far_v, farthest(got_v, v.f32 + pos * 256, 256));
    }
    expect(far_k, hidden_bound, tokens == 64 ? "K at 64" : "K at 130", (int)layer);
    expect(far_v, hidden_bound, tokens == 64 ? "V at 64" : "V at 130", (int)layer);
    test_npy_free(&k);
    test_npy_free(&v);
}

static void compare_memory(const mote_session *session, uint32_t tokens)
{
    uint32_t delta = 0, attention = 0;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        if ((layer + 1) % 4 == 0) {
            compare_keys(session, tokens, layer, attention++);
        } else {
            compare_states(session, tokens, layer, delta);
            compare_inputs(session, tokens, layer, delta++);
        }
    }
}

int main(void)
{
    const char *path = rig_model_path("mote-tiny-BF16");
    if (path == NULL)
        rig_fail("mote-tiny-BF16.gguf is missing");
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.kv = MOTE_KV_F32, .sessions = 2, .logits_rows = ROWS});
    test_npy ids = golden_needs("forward", "detail.ids");
    mote_session *session = rig_session(engine);
    engine_set_tap(engine, see_rows, NULL);
    rig_feed(engine, session, ids.i32, ROWS, MOTE_LOGITS_ALL);
    engine_set_tap(engine, NULL, NULL);
    if (n_compared != LAYERS + 2)
        rig_fail("the tap showed %u arrays, not %d", n_compared, LAYERS + 2);
    test_npy logits = golden_needs("forward", "detail.logits_last");
    expect(row_error(mote_session_logits(session, ROWS - 1), logits.f32, logits.count), 1e-4,
           "logits", LAYERS);
    compare_memory(session, ROWS);

    mote_session *shorter = rig_session(engine);
    rig_feed(engine, shorter, ids.i32, 64, MOTE_LOGITS_NONE);
    compare_memory(shorter, 64);
    printf("%u arrays within tolerance\n", n_compared);
    mote_session_free(session);
    mote_session_free(shorter);
    mote_engine_free(engine);
    mote_model_close(model);
    test_npy_free(&ids);
    test_npy_free(&logits);
    return 0;
}
