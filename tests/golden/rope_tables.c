/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope_tables.c - frequencies, cosines and sines, and YaRN, against golden/rope.
 *
 * The reference computes its frequencies in binary32, ours are rounded once from
 * binary64, so some differ by a unit in the last place, and an angle at position
 * p then differs by p times that. What is ours to get right is separated: with
 * the reference's own frequencies, cosines and sines agree to 1e-6 at every
 * position; with ours, to 1e-6 plus what the frequency's last place explains.
 */
#include "golden/compare.h"
#include "support/json.h"

#include "gguf/gguf.h"
#include "nn/nn.h"
#include "support/data.h"

#include <stdlib.h>
#include <string.h>

static const double close = 1e-6;

/* Relative differences of 32 frequencies; prints how many are the same bits. */
static void compare_frequencies(const rope *r, const char *name)
{
    test_npy want = golden_needs("rope", name);
    uint32_t same = 0;
    double worst = 0;
    for (int i = 0; i < ROPE_PAIRS; i++) {
        same += r->inv_freq[i] == want.f32[i];
        worst = fmax(worst, fabs((double)r->inv_freq[i] / (double)want.f32[i] - 1));
    }
    printf("%-24s %2u of 32 equal, largest relative difference %.1e\n", name, same, worst);
    if (!(worst <= close))
        rig_fail("the frequencies differ from the reference");
    test_npy_free(&want);
}

static void compare_angles(const test_json *index)
{
    const test_json *positions = test_json_get(test_json_get(index, "text"), "positions");
    test_npy cos = golden_needs("rope", "text.cos"), sin = golden_needs("rope", "text.sin");
    test_npy inv_freq = golden_needs("rope", "inv_freq");
    rope ours, theirs = {.scale = 1};
    rope_init(&ours, 1e7, 1, 0);
    memcpy(theirs.inv_freq, inv_freq.f32, sizeof theirs.inv_freq);
    double worst_theirs = 0, worst_ours = 0, unexplained = 0;
    for (uint32_t i = 0; i < positions->n; i++) {
        double pos = test_json_at(positions, i)->number;
        float c[ROPE_PAIRS], s[ROPE_PAIRS];
        rope_angles(&theirs, (uint64_t)pos, c, s);
        worst_theirs = fmax(worst_theirs, farthest(c, cos.f32 + i * ROPE_PAIRS, ROPE_PAIRS));
        worst_theirs = fmax(worst_theirs, farthest(s, sin.f32 + i * ROPE_PAIRS, ROPE_PAIRS));
        rope_angles(&ours, (uint64_t)pos, c, s);
        for (int k = 0; k < ROPE_PAIRS; k++) {
            double far = fmax(farthest(&c[k], &cos.f32[i * ROPE_PAIRS + (uint32_t)k], 1),
                              farthest(&s[k], &sin.f32[i * ROPE_PAIRS + (uint32_t)k], 1));
            double step = pos * fabs((double)ours.inv_freq[k] - (double)theirs.inv_freq[k]);
            /* The angle itself is rounded to binary32, in both. */
            double rounding = step > 0 ? pos * (double)ours.inv_freq[k] * 0x1p-23 : 0;
            worst_ours = fmax(worst_ours, pos < 5000 && step == 0 ? far : 0);
            unexplained = fmax(unexplained, far - step - rounding);
        }
    }
    printf("cos, sin: with the reference's frequencies %.1e; with ours, where they are the same "
           "and below 5000: %.1e; beyond what the frequency explains: %.1e\n",
           worst_theirs, worst_ours, unexplained);
    if (!(worst_theirs <= close) || !(worst_ours <= close) || !(unexplained <= close))
        rig_fail("cosines or sines differ from the reference");
    test_npy_free(&cos);
    test_npy_free(&sin);
    test_npy_free(&inv_freq);
}

static void compare_yarn_tables(const test_json *index)
{
    static const char *const names[] = {"real_x4", "real_x2", "tiny_x4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const test_json *entry = test_json_get(test_json_get(index, "yarn"), names[i]);
        double factor = test_json_get(entry, "factor")->number;
        double original = test_json_get(entry, "original_max_position_embeddings")->number;
        double scale = test_json_get(entry, "attention_scaling")->number;
        rope r;
        char name[64];
        rope_init(&r, 1e7, factor, original);
        snprintf(name, sizeof name, "yarn.%s.inv_freq", names[i]);
        compare_frequencies(&r, name);
        if (!(fabs((double)r.scale - scale) < 1e-6))
            rig_fail("the scale of %s is %.9g, not %.9g", names[i], (double)r.scale, scale);
    }
}

/* ---- YaRN through the whole model ---- */

enum { SHORT_CONTEXT = 64, YARN = 4 };

/* A copy of mote-tiny that says it was trained for 64 positions, as the golden's model was. */
static void write_short_model(char *path, size_t capacity)
{
    size_t bytes;
    const char *from = rig_model_path("mote-tiny-BF16");
    unsigned char *file = from != NULL ? test_file_read(from, &bytes) : NULL;
    gguf *g;
    mote_error err = {0};
    if (file == NULL)
        rig_fail("mote-tiny-BF16.gguf cannot be read");
    MUST(gguf_read(&g, file, bytes, &err), &err);
    const gguf_kv *context = gguf_find(g, "qwen35.context_length");
    const uint32_t positions = SHORT_CONTEXT;
    memcpy(file + (context->bytes - file), &positions, sizeof positions);
    gguf_free(g);
    rig_temp_path(path, capacity, "short.gguf");
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(file, 1, bytes, out) != bytes || fclose(out) != 0)
        rig_fail("cannot write %s", path);
    free(file);
}

/* The largest error of the logits; with YaRN at the positions of the extended context only. */
static double logits_error(const mote_model *model, mote_kv kv, uint32_t factor,
                           const test_json *positions, const char *name)
{
    test_npy ids = golden_needs("rope", "yarn.ids"), want = golden_needs("rope", name);
    uint32_t n = factor > 0 ? factor * SHORT_CONTEXT : (uint32_t)ids.count;
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.kv = kv, .yarn = (float)factor, .logits_rows = n});
    mote_session *session = rig_session(engine);
    rig_feed(engine, session, ids.i32, n, MOTE_LOGITS_ALL);
    double worst = 0;
    for (uint32_t i = 0; i < positions->n; i++) {
        size_t pos = (size_t)test_json_at(positions, i)->number;
        if (pos >= n)
            continue;
        worst = fmax(worst, row_error(mote_session_logits(session, pos),
                                      want.f32 + i * want.dims[1], want.dims[1]));
    }
    mote_session_free(session);
    mote_engine_free(engine);
    test_npy_free(&ids);
    test_npy_free(&want);
    return worst;
}

static void compare_yarn_logits(const test_json *index)
{
    const test_json *entry = test_json_get(test_json_get(index, "yarn"), "logits");
    const test_json *positions = test_json_get(entry, "positions");
    char path[128];
    write_short_model(path, sizeof path);
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model *whole = rig_open(rig_model_path("mote-tiny-BF16"), MOTE_ISA_BEST);
    double yarn = logits_error(model, MOTE_KV_F32, YARN, positions, "yarn.logits");
    double plain = logits_error(whole, MOTE_KV_F32, 0, positions, "yarn.plain_logits");
    double f16 = logits_error(model, MOTE_KV_F16, YARN, positions, "yarn.logits");
    double mixed_up = logits_error(model, MOTE_KV_F32, YARN, positions, "yarn.plain_logits");
    printf("YaRN logits: f32 %.1e, without YaRN %.1e, f16 %.1e (the option changes %.1e)\n", yarn,
           plain, f16, mixed_up);
    if (!(yarn <= 1e-4) || !(plain <= 1e-4))
        rig_fail("the logits differ from the reference");
    if (!(mixed_up > 1e-3))
        rig_fail("YaRN changes nothing");
    mote_model_close(whole);
    mote_model_close(model);
}

int main(void)
{
    const test_json *index = test_json_data("golden/rope/index.json");
    rope plain;
    rope_init(&plain, 1e7, 1, 0);
    compare_frequencies(&plain, "inv_freq");
    compare_angles(index);
    compare_yarn_tables(index);
    compare_yarn_logits(index);
    test_json_free(index);
    return 0;
}
