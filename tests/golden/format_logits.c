/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format_logits.c - the logits of mote-tiny have the same bits in every format at every level of
 * every architecture: their SHA-256 is in this file.
 *
 *   golden_format_logits [FORMAT|mix]
 *
 * The BF16 model is encoded in each format, and once with another format for each matrix (a mix, as
 * files with _XL in their names are), in one file and in three. Its logits are computed at each level of this machine
 * with 24, 3 and 1 tokens per step, which call the kernels for many, few and one token. A short run has
 * the mix, which has all formats, and a few whole models; the references compute the first positions only. A difference prints the two hashes: if the numerics
 * change on purpose (MOTE_NUMERICS), they are the new ones.
 */
#include "gguf/gguf.h"
#include "law/rig.h"
#include "support/data.h"
#include "support/gguf_build.h"
#include "support/gguf_split.h"
#include "support/quant_encode.h"
#include "support/scale.h"
#include "support/sha256.h"

#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 4, ALL = 28, MANY = 24 };

/* SHA-256 of the logits of positions 0 to 3 and of all 28; root mean square of the encoding error,
 * at most this part of that of the weights. */
typedef struct expected {
    const char *first, *all;
    double error;
} expected;

static const expected wanted[QUANT_N_FORMATS] = {
    [QUANT_F32] = {"cf357e56dd0df4253ee6b1c346e74331478bccb0500bc10c0c90f8722c5080dc",
                   "37cdfb31edf1d5998769d1e166f29ae42ee0fad05e0de741f76eced2d629aa8f", 0},
    [QUANT_F16] = {"b34f93e99a37e40e051d3664c54eeb0d878be701831186f72d91471109a292a0",
                   "1e0db9461f28d4870b6a347685e9aa893f4b5075a77ec5b6564c5f4981e1847b", 0.001},
    [QUANT_BF16] = {"cf357e56dd0df4253ee6b1c346e74331478bccb0500bc10c0c90f8722c5080dc",
                    "37cdfb31edf1d5998769d1e166f29ae42ee0fad05e0de741f76eced2d629aa8f", 0},
    [QUANT_Q4_0] = {"db919bb146fbd637486a8b38313f494970089f38e451dbfbc0a68838fa7c47e0",
                    "33784d4cbc01d792c75e464195124c7081f8f480cea8941141266966e61f60ac", 0.12},
    [QUANT_Q4_1] = {"a47c0d7e53e4dc052eca5366a9a07fbb722653e885e3d56884c006441e57673f",
                    "fc0434b4540e11734f2b23c1ed8ba62e97caed53d6a947eb1bdf6d3fe2eaeb3a", 0.12},
    [QUANT_Q5_0] = {"a54be5591c6def7e72291a4cd4e3b78157393baf9d5540ec65cb05468b1bd0af",
                    "568e2ddcabd5497880ca0babda9661be9cd62f34da72989e9a8841f8ce7906b2", 0.06},
    [QUANT_Q5_1] = {"b3a1d618fb24a105c5a8ee3c12dc89e0d618b3f98fe58f6519260b4fa8423ad3",
                    "1f73461c7481941b2a5d2e4ca1bb4fa5dd841417156d3bae0940cf1fd2d6cfe6", 0.06},
    [QUANT_Q8_0] = {"c3b8f767af1c1ff99f3b32cece30c5517253853f1b40b761e928558b33e4b1ba",
                    "03d73ea761a3c90dfe410eb24344f4aee4b5fbb8016a549fd2c47030123ab6d6", 0.01},
    [QUANT_Q2_K] = {"9a04315c9bfdd0acb3b7a48af43db7a971cc2d8be1540c133f4a2b990e4d14f0",
                    "3edfa491f96ca13cd4f77cc5296110c61e9bbeb7a172326102635630c298d352", 0.5},
    [QUANT_Q3_K] = {"e52c0cd08e05ff64adc608d5f89b84cb148a9285f8e79136202c7eb5bb852949",
                    "ef825e9f3c0697ea8c633d242e15f80a558cadd0eb4192bcf94e5dead05a19a1", 0.3},
    [QUANT_Q4_K] = {"e60d01f1210b9f3a38343c1a485c4f8dc8a0fe386928c10d18d78f1f2c6e84cc",
                    "6146d9882aa21ca539b534ce7e7b4eb42690e58d55abcdebe17584a362bb0a32", 0.12},
    [QUANT_Q5_K] = {"fa72766329f45393c3810e9971f068c0e46bcf6e997b4f098e641814767aee48",
                    "8f6c352654e6ad7a4aa261e0123c9a56b179d202ced27e46bc71a502474d98a5", 0.06},
    [QUANT_Q6_K] = {"9fd30750a3f52d1fc2c06b309e21bd103ba902c473b99f4c0c26c4c01e17fb4d",
                    "22eb01e868dd5880ae8d5621b6a261ce0f718a64a9a85b221c0aed30a73b3cd5", 0.04},
    [QUANT_IQ4_NL] = {"6249dbd0d4df8b1b094ba3bb495eebc8f7c7bb0ab73734c8efed8a753f727a78",
                      "221d274848f1f6e9138b1c3545b7ad1a2c457a3ab5ec9a3b92eadb76234b5ff1", 0.12},
    [QUANT_IQ4_XS] = {"bdd13af18accfc2f6b809b6d0446c4a137a1a985528abfab24b2a3faab840acb",
                      "2f1b8b93d0d67512db0c7f891d7619907cea45abe46f180bb69bbe4e3fe7a8f4", 0.12},
    [QUANT_IQ1_S] = {"cedb6a753de7127f2d5e7a30378193bd2e10acc26848a1e26849b5ee3909914a",
                     "fa278b3bd352fe5067ada72bda87a7581b032797978507648794d08524b4a884", 0.8},
    [QUANT_IQ1_M] = {"9bbb5fd88e35e90dfeac895f16e3e690651216022fdfa59024c084b8a70fe30d",
                     "b10f3c75419fe7029e19dbecf5d17e74d20ab391b1082cdb41a2d9db630a01ec", 0.75},
    [QUANT_IQ2_XXS] = {"7ddfc3c902eedc85a8b281c68751b9785eb054ebeb4cf23882087ff7df087929",
                       "bd2aaa8b0027b9f9897897ed434762cd1aa7135be63f180f92e10659a29ecf33", 0.44},
    [QUANT_IQ2_XS] = {"b27d6e54a69b23eff9a2b09ace2d5490d6ba88b69a980f83d71a591cb9e1cafa",
                      "c2263587fb4fb4f2420c8812a44d6db90bb0e169d18cbd1984616866c7c0803c", 0.44},
    [QUANT_IQ2_S] = {"6460641a75b51660485b771902ec134c0f590d2e0fe7ea1d0e5471cfb9e123ec",
                     "7ad6dda2f6be3fe6eceb794906441e3c4722bef2285ca950d434f59ffab404e6", 0.43},
    [QUANT_IQ3_XXS] = {"59b95da761da5add432cb75cbdf84830e517c93680425e1f76d9e1ead31b5cc2",
                       "528a0d4f8182f627ea73523ff410a1582db0f40c96dd995f0145e1546e59d417", 0.31},
    [QUANT_IQ3_S] = {"5add291b49ccba6f5832d8137fda26dd00abb430c438260cc3bb910eecb848a1",
                     "74675135293bdab4942f06e695513bbcb96c7d86369309a2bbdd3e4eba2ed6ef", 0.3},
    [QUANT_TQ1_0] = {"2881a0d69a85a151050d3e658d32db8c22fc081320962fb0dbe71bc0e0c00bd3",
                     "551407b8eded907afd28cc70a0dbcb9ad076f2e6a80db6aef5a609c89509b9ee", 0.52},
    [QUANT_TQ2_0] = {"77334524441dc3a0f8052dfd4f6acc3bd634167b3be0d81c1c8a7183a3eb07fe",
                     "ca2f6d9bd84c0633e99709b523862e8743aac2143e3576340d33bfed67503c20", 0.46},
    [QUANT_MXFP4] = {"99422adef7b4159da472d30ccca752fe9df03c4b4a336b947d53d7c97dd16fc8",
                     "9ba3b8bcb94a47944dcf47a58feba7451c10bad41ef71bb093eeae6dc543bdd3", 0.14},
    [QUANT_NVFP4] = {"3bd093ddc829fd88ba7079bf7626c4ad84e2f9bab2a76942b10497f4eeb1161d",
                     "20a788a2d511e7d76dbde5ac70759e36da8b7281a34317acef3aa15d3f2c8033", 0.12},
    [QUANT_Q1_0] = {"5d5d8a726e24416dbb52b97b0e360126283d87935dd56f3854f8b6b7cc81100f",
                    "c7a659128f4099037544a8ffc984290cb389486484210d481253c245d719cc19", 0.69},
    [QUANT_Q2_0] = {"b628e44b197b87ca462a1aa27dc4d5d09f5e3c73c84525fedc86c63922d9f74c",
                    "7d99ffd449ec9a4296083df9b4c8276b8beb9dd42bff3518338a7eb05a7478c6", 0.45},
};

static const expected wanted_mix = {
    "55f3f4133cc8d180248aca8d1bd36379da0980cda26c2d141dac16cfee91e125",
    "c1bb014afdfd45da90dd031549f957f0ace268d4cddbd2607177391826245c5f", 0.5};
static const quant_info mix = {.name = "mix"};

static const expected *expected_of(const quant_info *format)
{
    return format == &mix ? &wanted_mix : &wanted[format->format];
}

/* ---- the model in a format ---- */

/* Makes a NUL-terminated copy of a name; freed with free(). */
static char *name_copy(str s)
{
    char *name = calloc(s.n + 1, 1);
    if (name == NULL)
        rig_fail("out of memory");
    memcpy(name, s.p, s.n);
    return name;
}

static void copy_metadata(test_gguf *b, const gguf *g)
{
    for (uint64_t i = 0; i < gguf_n_kv(g); i++) {
        const gguf_kv *kv = gguf_kv_at(g, i);
        char *key = name_copy(kv->key);
        const uint32_t type = kv->type;
        const size_t n = (size_t)kv->n_bytes;
        if (kv->is_array) {
            unsigned char *array = malloc(12 + n);
            if (array == NULL)
                rig_fail("out of memory");
            memcpy(array, &type, 4);
            memcpy(array + 4, &kv->count, 8);
            memcpy(array + 12, kv->bytes, n);
            test_gguf_kv(b, key, GGUF_ARRAY, array, 12 + n);
            free(array);
        } else {
            test_gguf_kv(b, key, kv->type, kv->bytes, n);
        }
        free(key);
    }
}

/* Squares of the weights and of the errors of their encoding. */
typedef struct squares {
    double weights, errors;
} squares;

/* The blocks of a matrix; freed with free(). */
static void *encode_matrix(const gguf_tensor *t, const quant_info *format, uint64_t *bytes,
                           squares *sum)
{
    const size_t n = (size_t)(t->dims[0] * t->dims[1]), n_blocks = n / format->block_values;
    float *values = malloc(n * sizeof *values), *decoded = malloc(n * sizeof *decoded);
    *bytes = n_blocks * format->block_bytes;
    void *blocks = malloc((size_t)*bytes);
    if (values == NULL || decoded == NULL || blocks == NULL)
        rig_fail("out of memory");
    t->format->decode(t->data, n, values);
    test_quant_encode(format->format, values, n_blocks, blocks);
    format->decode(blocks, n_blocks, decoded);
    for (size_t i = 0; i < n; i++) {
        const double error = (double)decoded[i] - (double)values[i];
        sum->weights += (double)values[i] * (double)values[i];
        sum->errors += error * error;
    }
    free(values);
    free(decoded);
    return blocks;
}

static void write_model(const gguf *g, const quant_info *format, const char *path)
{
    static test_gguf b;
    void *made[TEST_GGUF_MAX_TENSORS];
    size_t n_made = 0;
    squares sum = {0, 0};
    test_gguf_begin(&b);
    copy_metadata(&b, g);
    for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        char *name = name_copy(t->name);
        if (t->n_dims == 2 && t->format->format == QUANT_BF16) {
            const quant_info *f = format != &mix ? format : quant_get(n_made % QUANT_N_FORMATS);
            uint64_t bytes;
            made[n_made] = encode_matrix(t, f, &bytes, &sum);
            test_gguf_tensor(&b, name, f->gguf_id, 2, t->dims, made[n_made++], bytes);
        } else {
            test_gguf_tensor(&b, name, t->gguf_type, t->n_dims, t->dims, t->data, t->bytes);
        }
        free(name);
    }
    test_gguf_finish(&b);
    const double error = sqrt(sum.errors / sum.weights);
    if (!(error <= expected_of(format)->error))
        rig_fail("%s: the encoding error is %.4f", format->name, error);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(b.bytes, 1, b.n, file) != b.n || fclose(file) != 0)
        rig_fail("cannot write %s", path);
    test_gguf_free(&b);
    while (n_made > 0)
        free(made[--n_made]);
}

/* ---- its logits ---- */

typedef struct hashes {
    char first[65], all[65];
} hashes;

/* Hashes of the first n positions; `all` is empty if n is FIRST. */
static hashes hash_logits(const char *path, mote_isa isa, const mote_token *tokens, size_t n)
{
    const size_t steps[] = {n == FIRST ? FIRST - 1 : MANY, n == FIRST ? 1 : ALL - MANY - 1, 1};
    mote_model *model = rig_open(path, isa);
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.logits_rows = MANY});
    mote_session *session = rig_session(engine);
    mote_model_info info;
    mote_model_describe(model, &info);
    hashes out = {"", ""};
    test_sha256 first, all;
    test_sha256_begin(&first);
    test_sha256_begin(&all);
    size_t at = 0;
    for (size_t s = 0; at < n; s++) {
        rig_feed(engine, session, tokens + at, steps[s], MOTE_LOGITS_ALL);
        for (size_t i = 0; i < steps[s]; i++) {
            const float *row = mote_session_logits(session, i);
            if (at + i < FIRST)
                test_sha256_add(&first, row, info.vocabulary * sizeof *row);
            test_sha256_add(&all, row, info.vocabulary * sizeof *row);
        }
        at += steps[s];
    }
    test_sha256_end(&first, out.first);
    if (n == ALL)
        test_sha256_end(&all, out.all);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    return out;
}

static bool hash_equal(const char *got, const char *hash)
{
    return got[0] == 0 || (hash != NULL && strcmp(got, hash) == 0);
}

/* Returns how many levels differ from the table. */
static int compare_levels(const quant_info *format, const char *path, const mote_token *tokens)
{
    mote_isa levels[CPU_LEVELS];
    const size_t n = cpu_list_usable(levels);
    const expected *e = expected_of(format);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const bool few = levels[i] == MOTE_ISA_REF && test_is_short();
        const double start = os_now();
        const hashes h = hash_logits(path, levels[i], tokens, few ? FIRST : ALL);
        const bool equal = hash_equal(h.first, e->first) && hash_equal(h.all, e->all);
        printf("%-7s %-8s %s %2d positions, %.1f s\n", format->name, mote_isa_name(levels[i]),
               equal ? "equal" : "DIFFERS", few ? FIRST : ALL, os_now() - start);
        wrong += !equal;
        if (!equal)
            printf("  \"%s\"\n  \"%s\"\n", h.first, h.all);
    }
    return wrong;
}

/* A mix of all formats, whole and in three parts. */
static int compare_mix(const gguf *g, const mote_token *tokens)
{
    char path[TEST_PATH], stem[TEST_PATH], part[TEST_PATH + 32];
    rig_temp_path(path, sizeof path, "mix.gguf");
    rig_temp_path(stem, sizeof stem, "mix");
    write_model(g, &mix, path);
    int wrong = compare_levels(&mix, path, tokens);
    if (!test_gguf_split(path, stem, 3, false))
        rig_fail("cannot split %s", path);
    snprintf(part, sizeof part, "%s-00002-of-00003.gguf", stem);
    const hashes h = hash_logits(part, MOTE_ISA_BEST, tokens, ALL);
    printf("mix in three parts: %s\n", hash_equal(h.all, wanted_mix.all) ? "equal" : "DIFFERS");
    return wrong + !hash_equal(h.all, wanted_mix.all);
}

/* One format of each kind: float, blocks of 32, blocks of 256, grids. */
static bool in_short_run(int format)
{
    return format == QUANT_BF16 || format == QUANT_Q8_0 || format == QUANT_Q4_K ||
           format == QUANT_IQ2_XXS;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *source = rig_model_path("mote-tiny-BF16");
    os_map map;
    gguf *g;
    mote_error err;
    if (source == NULL)
        rig_fail("mote-tiny-BF16 is missing");
    MUST(os_map_open(&map, source, &err), &err);
    MUST(gguf_read(&g, map.data, map.bytes, &err), &err);
    mote_token tokens[ALL];
    rig_random_tokens(&(rig_random){.seed = 17}, 7969, tokens, ALL);
    int wrong = 0;
    for (int f = 0; f < QUANT_N_FORMATS; f++) {
        const quant_info *format = quant_get((quant_format)f);
        char path[TEST_PATH];
        if (argc > 1 ? strcmp(argv[1], format->name) != 0 : test_is_short() && !in_short_run(f))
            continue;
        rig_temp_path(path, sizeof path, format->name);
        write_model(g, format, path);
        wrong += compare_levels(format, path, tokens);
        remove(path);
    }
    if (argc == 1 || strcmp(argv[1], mix.name) == 0)
        wrong += compare_mix(g, tokens);
    gguf_free(g);
    os_map_close(&map);
    if (wrong > 0)
        rig_fail("%d results differ from the table", wrong);
    return 0;
}
