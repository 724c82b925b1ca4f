/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_logits.c - models with experts against the reference: logits, the experts of every row and
 * layer with their weights, outputs of single blocks, and the MTP block.
 *
 * moe-bf16 has f32 activations, so its bounds are those of an f32 engine and every choice must
 * be that of the reference. The quantised files have 8-bit activations: a choice may differ
 * where two logits of the router are close. golden/moe/README.md has the bounds.
 */
#include "golden/compare.h"

#include "engine/engine_int.h"
#include "model/forward_int.h"

#include <stdlib.h>
#include <string.h>

typedef struct golden_model {
    const char *name;
    uint32_t prompts, layers, used;
    uint32_t block_layers[3]; /* with arrays of the block */
    uint32_t n_block_layers;
    bool exact; /* f32 activations */
} golden_model;

static const golden_model models[] = {
    {"bf16", 3, 8, 4, {0, 3, 7}, 3, true},
    {"q8_0", 1, 4, 4, {0, 3, 0}, 2, false},
    {"q4_k_m", 1, 2, 2, {0, 1, 0}, 2, false},
};

enum { MAX_LAYERS = 8, MAX_ROWS = 160, MAX_USED = 4, MAX_EMBD = 256, BLOCK_ROWS = 16 };

/* What the tap showed of one pass, layer by layer. */
typedef struct seen_pass {
    uint32_t layers;
    float experts[MAX_LAYERS][MAX_ROWS][MAX_USED];
    float weights[MAX_LAYERS][MAX_ROWS][MAX_USED];
    float hidden[MAX_ROWS * MAX_EMBD];
    float draft[MAX_EMBD];
} seen_pass;

static void see_routes(float to[][MAX_USED], const float *rows, size_t n, size_t used)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to[i], rows + i * used, used * sizeof *rows);
}

static void see(void *ctx, const char *what, int layer, const float *rows, size_t n, size_t cols)
{
    (void)layer;
    seen_pass *s = ctx;
    const uint32_t at = s->layers;
    if (at >= MAX_LAYERS || n > MAX_ROWS)
        rig_fail("%s: layer %u, %zu rows", what, at, n);
    if (strcmp(what, "experts") == 0)
        see_routes(s->experts[at], rows, n, cols);
    else if (strcmp(what, "expert_weights") == 0)
        see_routes(s->weights[at], rows, n, cols);
    else if (strcmp(what, "hidden") == 0)
        memcpy(s->hidden, rows, n * cols * sizeof *rows);
    else if (strcmp(what, "draft") == 0)
        memcpy(s->draft, rows, cols * sizeof *rows);
    else if (strcmp(what, "moe") == 0)
        s->layers = at + 1 < MAX_LAYERS ? at + 1 : at; /* the last pass of a draft is seen too */
}

static test_npy needs(const golden_model *m, uint32_t prompt, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.p%u.%s", m->name, prompt, what);
    return golden_needs("moe", name);
}

/* ---- choices ---- */

typedef struct choices {
    uint32_t decisions, other; /* rows with another set of experts */
    double weight;             /* largest difference, where the sets are equal */
} choices;

/* The reference lists experts by descending weight, the tap by ascending number. */
static void compare_choice(const float *experts, const float *shares, const uint8_t *want,
                           const float *want_weights, uint32_t used, choices *c)
{
    double far = 0;
    c->decisions++;
    for (uint32_t i = 0; i < used; i++) {
        uint32_t at = 0;
        if (i > 0 && !(experts[i] > experts[i - 1]))
            rig_fail("experts of a row are not ascending");
        while (at < used && experts[at] != (float)want[i])
            at++;
        if (at == used) {
            c->other++;
            return;
        }
        const double d = fabs((double)shares[at] - (double)want_weights[i]);
        far = d > far ? d : far;
    }
    c->weight = far > c->weight ? far : c->weight;
}

static choices compare_choices(const golden_model *m, uint32_t prompt, const seen_pass *s,
                               uint32_t rows)
{
    test_npy experts = needs(m, prompt, "experts"), shares = needs(m, prompt, "weights");
    choices c = {0, 0, 0};
    for (uint32_t layer = 0; layer < m->layers; layer++)
        for (uint32_t row = 0; row < rows; row++) {
            const size_t at = ((size_t)layer * rows + row) * m->used;
            compare_choice(s->experts[layer][row], s->weights[layer][row], experts.u8 + at,
                           shares.f32 + at, m->used, &c);
        }
    test_npy_free(&experts);
    test_npy_free(&shares);
    return c;
}

/* ---- blocks ---- */

/* The feed-forward sublayer alone. Its norm multiplies the row by its root mean square, which
 * undoes the norm but for a rounding. */
static void run_block(mote_engine *engine, const model_layer *layer, const float *x, size_t n_embd,
                      float *y)
{
    float scale[MAX_EMBD];
    double sum = 0;
    for (size_t i = 0; i < n_embd; i++)
        sum += (double)x[i] * (double)x[i];
    const float rms = (float)sqrt(sum / (double)n_embd + 1e-6);
    for (size_t i = 0; i < n_embd; i++)
        scale[i] = rms;
    model_layer l = *layer;
    l.ffn_norm = scale;
    pass p = {.f = &engine->forward, .s = &engine->forward.s, .n_rows = 1};
    memcpy(p.s->x, x, n_embd * sizeof *x);
    feed_forward(&p, &l);
    memcpy(y, p.pending, n_embd * sizeof *y);
}

/* The largest difference of the outputs of single blocks, against the largest output of each. */
static double compare_blocks(const golden_model *m, const mote_model *model)
{
    test_npy x = needs(m, 0, "moe_x"), routed = needs(m, 0, "moe_routed"),
             shared = needs(m, 0, "moe_shared");
    const size_t rows = x.dims[1], n_embd = x.dims[2], n = rows * n_embd;
    double worst = 0;
    if (x.dims[0] != m->n_block_layers || n > BLOCK_ROWS * MAX_EMBD)
        rig_fail("%s: arrays of %zu blocks, not %u", m->name, x.dims[0], m->n_block_layers);
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = 2});
    for (uint32_t i = 0; i < m->n_block_layers; i++) {
        static float sum[BLOCK_ROWS * MAX_EMBD], got[BLOCK_ROWS * MAX_EMBD];
        for (size_t j = 0; j < n; j++)
            sum[j] = routed.f32[i * n + j] + shared.f32[i * n + j];
        for (size_t row = 0; row < rows; row++)
            run_block(engine, &model->w.layers[m->block_layers[i]], x.f32 + i * n + row * n_embd,
                      n_embd, got + row * n_embd);
        const double far = row_error(got, sum, n);
        printf("  block %u alone: %.1e\n", m->block_layers[i], far);
        worst = far > worst ? far : worst;
    }
    mote_engine_free(engine);
    test_npy_free(&x);
    test_npy_free(&routed);
    test_npy_free(&shared);
    return worst;
}

/* ---- prompts ---- */

static double mean_difference(const float *got, const float *want, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)got[i] - (double)want[i]);
    return sum / (double)n;
}

static void check_prompt(const golden_model *m, const mote_model *model, uint32_t prompt)
{
    test_npy ids = needs(m, prompt, "ids"), logits = needs(m, prompt, "logits");
    const uint32_t n = (uint32_t)ids.count;
    static seen_pass seen;
    seen = (seen_pass){0};
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.kv = MOTE_KV_F32, .batch = MAX_ROWS, .logits_rows = n});
    mote_session *session = rig_session(engine);
    engine_set_tap(engine, see, &seen);
    rig_feed(engine, session, ids.i32, n, MOTE_LOGITS_ALL);
    const float *got = mote_session_logits(session, 0);
    const double far = farthest(got, logits.f32, logits.count);
    const double mean = mean_difference(got, logits.f32, logits.count);
    const choices c = compare_choices(m, prompt, &seen, n);
    printf("%s p%u: logits %.1e, mean %.1e; %u of %u choices differ, weights %.1e\n", m->name,
           prompt, far, mean, c.other, c.decisions, c.weight);
    const bool right = m->exact ? far <= 1e-3 && c.other == 0 && c.weight <= 1e-4
                                : mean <= 0.1 && c.other * 50 <= c.decisions;
    if (!right)
        rig_fail("%s p%u differs from the reference", m->name, prompt);
    if (prompt == 0 && !(compare_blocks(m, model) <= (m->exact ? 1e-4 : 3e-2)))
        rig_fail("the blocks of %s differ from the reference", m->name);
    mote_session_free(session);
    mote_engine_free(engine);
    test_npy_free(&ids);
    test_npy_free(&logits);
}

/* ---- MTP ---- */

/* Row r of the MTP block: the session ends at position r, and token r + 1 is next. */
static void check_drafts(const golden_model *m, const mote_model *model)
{
    test_npy ids = needs(m, 0, "ids"), hidden = needs(m, 0, "mtp.hidden"),
             output = needs(m, 0, "mtp.output"), logits = needs(m, 0, "mtp.logits"),
             experts = needs(m, 0, "mtp.experts"), shares = needs(m, 0, "mtp.weights");
    const size_t n_embd = output.dims[1], vocabulary = logits.dims[1];
    static seen_pass seen;
    float *got = calloc(vocabulary, sizeof *got);
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.kv = MOTE_KV_F32, .batch = MAX_ROWS, .drafts = true});
    double far_hidden = 0, far_output = 0, far_logits = 0;
    choices c = {0, 0, 0};
    for (uint32_t row = 0; row < output.dims[0]; row++) {
        mote_session *s = rig_session(engine);
        mote_error err = {0};
        mote_draft_item item = {.session = s, .next = ids.i32[row + 1], .n = 1, .logits = got};
        seen = (seen_pass){0};
        engine_set_tap(engine, see, &seen);
        rig_feed(engine, s, ids.i32, row + 1, MOTE_LOGITS_NONE);
        seen.layers = 0;
        MUST(mote_draft(engine, &item, 1, &err), &err);
        engine_set_tap(engine, NULL, NULL);
        const double h = farthest(seen.hidden, hidden.f32, (row + 1) * n_embd);
        const double o = farthest(seen.draft, output.f32 + row * n_embd, n_embd);
        const double l = farthest(got, logits.f32 + row * vocabulary, vocabulary);
        far_hidden = h > far_hidden ? h : far_hidden;
        far_output = o > far_output ? o : far_output;
        far_logits = l > far_logits ? l : far_logits;
        compare_choice(seen.experts[0][0], seen.weights[0][0], experts.u8 + row * m->used,
                       shares.f32 + row * m->used, m->used, &c);
        mote_session_free(s);
    }
    printf("%s MTP: hidden %.1e, output %.1e, logits %.1e; %u of %u choices differ, weights %.1e\n",
           m->name, far_hidden, far_output, far_logits, c.other, c.decisions, c.weight);
    if (!(far_hidden <= 1e-3) || !(far_output <= 1e-3) || !(far_logits <= 1e-3) || c.other > 0 ||
        !(c.weight <= 1e-4) || c.decisions == 0)
        rig_fail("the MTP block of %s differs from the reference", m->name);
    mote_engine_free(engine);
    free(got);
    test_npy *arrays[] = {&ids, &hidden, &output, &logits, &experts, &shares};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        test_npy_free(arrays[i]);
}

int main(void)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const golden_model *m = &models[i];
        char name[64];
        snprintf(name, sizeof name, "moe-%s", m->name);
        const char *path = rig_model_path(name);
        if (path == NULL)
            rig_fail("the model %s is missing", name);
        mote_model *model = rig_open(path, MOTE_ISA_BEST);
        for (uint32_t prompt = 0; prompt < m->prompts; prompt++)
            check_prompt(m, model, prompt);
        if (m->exact)
            check_drafts(m, model);
        mote_model_close(model);
    }
    return 0;
}
