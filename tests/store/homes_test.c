/* SPDX-License-Identifier: Apache-2.0 */
/*
 * homes_test.c - the models in a home directory: a Hugging Face cache, stores of Ollama, LM Studio
 * and llama.cpp, directories; and contents of them that must not be used.
 */
#define _GNU_SOURCE
#include "store/file_list.h"
#include "store/gguf_head.h"
#include "store/hf_cache.h"
#include "store/mmproj.h"
#include "store/mtp_file.h"
#include "store/store.h"
#include "support/fake_root.h"
#include "support/gguf_build.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COMMIT     "0123456789abcdef0123456789abcdef01234567"
#define OTHER      "ffffffffffffffffffffffffffffffffffffffff"
#define SHA_COMMIT "dddddddddddddddddddddddddddddddddddddddd"
#define SHA        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SHA_2      "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HUB        ".cache/huggingface/hub/"
#define REPO       HUB "models--unsloth--Qwen3.5-4B-GGUF/"
#define SNAP       REPO "snapshots/" COMMIT "/"
#define OLLAMA     ".ollama/models/"
#define LAYER(kind, digest)                                                                        \
    "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"" digest "\"}"
#define MANIFEST(layers) "{\"schemaVersion\":2,\"layers\":[" layers "]}"

/* ---- a home directory ---- */

static char path_buffer[512];

static const char *at_home(const char *path)
{
    snprintf(path_buffer, sizeof path_buffer, "%s/%s", fake_root, path);
    return path_buffer;
}

/* A GGUF file with an architecture and, of an mmproj file, a projection. */
static void write_gguf(const char *path, const char *architecture, uint32_t embedding)
{
    test_gguf b;
    char key[80];
    test_gguf_begin(&b);
    test_gguf_str(&b, "general.architecture", architecture);
    snprintf(key, sizeof key, "%s.embedding_length", architecture);
    test_gguf_u32(&b, strcmp(architecture, "clip") == 0 ? "clip.vision.projection_dim" : key,
                  embedding);
    test_gguf_finish(&b);
    fake_root_write(path, "");
    FILE *f = fopen(at_home(path), "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.bytes, 1, b.n, f), b.n);
    assert_int_equal(fclose(f), 0);
    test_gguf_free(&b);
}

static void write_link(const char *path, const char *target)
{
    fake_root_write(path, "");
    assert_int_equal(unlink(at_home(path)), 0);
    assert_int_equal(symlink(target, at_home(path)), 0);
}

static store *opened;
static const store_model *list;
static size_t n_list;

static void open_home_with(store_env env)
{
    mote_error err;
    store_close(opened);
    opened = NULL;
    env.home = fake_root;
    if (store_open(&opened, &env, &err) != MOTE_OK ||
        store_list(opened, &list, &n_list, &err) != MOTE_OK)
        fail_msg("%s", err.text);
}

static void open_home(void)
{
    open_home_with((store_env){0});
}

static int remove_home(void **state)
{
    store_close(opened);
    opened = NULL;
    return fake_root_remove(state);
}

static const store_model *named(const char *name)
{
    for (size_t i = 0; i < n_list; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

/* A reason for a path that ends like this. */
static bool has_problem(const char *end, const char *why)
{
    size_t n;
    const store_problem *p = store_problems(opened, &n);
    for (size_t i = 0; i < n; i++) {
        const size_t a = strlen(p[i].path), b = strlen(end);
        if (a >= b && strcmp(p[i].path + a - b, end) == 0 && strstr(p[i].why, why) != NULL)
            return true;
    }
    return false;
}

static const char *found(const char *argument)
{
    model_name name;
    const store_model *m;
    mote_error err;
    if (store_find(opened, argument, &name, &m, &err) != MOTE_OK)
        return "error";
    return m != NULL ? m->name : "not installed";
}

/* ---- the Hugging Face cache ---- */

static void make_cache(void)
{
    write_gguf(REPO "blobs/" SHA, "qwen35", 2560);
    write_link(SNAP "Qwen3.5-4B-Q4_K_M.gguf", "../../blobs/" SHA);
    fake_root_write(REPO "refs/main", COMMIT);
}

static void cache(void **state)
{
    (void)state;
    make_cache();
    write_gguf(REPO "blobs/" SHA_2, "clip", 2560);
    write_link(SNAP "mmproj-F16.gguf", "../../blobs/" SHA_2);
    write_gguf(SNAP "mmproj-BF16.gguf", "clip", 2560);
    write_gguf(SNAP "Qwen3.5-4B-Q8_0.gguf", "qwen35", 2560); /* without links, as on FAT */
    write_gguf(SNAP "mtp-Qwen3.5-4B.gguf", "qwen35", 2560);
    write_gguf(SNAP "other.gguf", "qwen35", 2560);
    write_gguf(SNAP "llama.gguf", "llama", 4096);
    fake_root_write(HUB "CACHEDIR.TAG", "");
    fake_root_write(REPO ".no_exist/" COMMIT "/x.gguf", "");
    fake_root_write(REPO "blobs/" SHA ".1234abcd.incomplete", "part");
    open_home();
    assert_int_equal(n_list, 4);
    const store_model *m = named("qwen3.5:4b");
    assert_non_null(m);
    assert_string_equal(m->sha256, SHA);
    assert_string_equal(m->repo, "unsloth/Qwen3.5-4B-GGUF");
    assert_string_equal(m->commit, COMMIT);
    assert_non_null(strstr(m->mmproj, "mmproj-F16.gguf"));
    assert_non_null(strstr(m->mtp, "mtp-Qwen3.5-4B.gguf"));
    assert_null(m->broken);
    assert_null(named("qwen3.5:4b-q8_0")->sha256);
    assert_true(named("hf:unsloth/Qwen3.5-4B-GGUF:llama.gguf")->foreign);
    assert_string_equal(found("qwen3.5:4b-balanced"), "qwen3.5:4b");
    assert_string_equal(found("qwen3.5:4b-best"), "qwen3.5:4b-q8_0");
    assert_string_equal(found("hf:unsloth/Qwen3.5-4B-GGUF"), "qwen3.5:4b");
    assert_string_equal(found("hf:unsloth/qwen3.5-4b-gguf:q8_0"), "qwen3.5:4b-q8_0");
    assert_string_equal(found("hf:unsloth/Qwen3.5-4B-GGUF:other.gguf"),
                        "hf:unsloth/Qwen3.5-4B-GGUF:other.gguf");
    assert_string_equal(found("hf:unsloth/Qwen3.5-4B-GGUF:Q6_K"), "not installed");
    assert_string_equal(found("qwen3.5:9b"), "not installed");
    assert_string_equal(found("qwen3.5:3b"), "error");
}

/* A file of an older snapshot stays visible; the file of main comes first. */
static void snapshots(void **state)
{
    (void)state;
    make_cache();
    write_gguf(REPO "snapshots/" OTHER "/Qwen3.5-4B-Q4_K_M.gguf", "qwen35", 2560);
    write_gguf(REPO "snapshots/" OTHER "/Qwen3.5-4B-Q6_K.gguf", "qwen35", 2560);
    write_gguf(REPO "snapshots/main/Qwen3.5-4B-Q5_K_M.gguf", "qwen35", 2560); /* not a commit */
    open_home();
    assert_int_equal(n_list, 2);
    assert_string_equal(named("qwen3.5:4b")->commit, COMMIT);
    assert_string_equal(named("qwen3.5:4b-q6_k")->commit, OTHER);
}

/* The file of `argument`: "COMMIT FILE", or as found(). */
static const char *found_file(const char *argument)
{
    static char text[300];
    model_name name;
    const store_model *m;
    mote_error err;
    if (store_find(opened, argument, &name, &m, &err) != MOTE_OK)
        return "error";
    if (m == NULL)
        return "not installed";
    assert_non_null(strstr(m->weights, m->commit));
    snprintf(text, sizeof text, "%.4s %s", m->commit, m->file);
    return text;
}

/* A revision means the files of its snapshot, also those that a newer snapshot hides. */
static void revisions(void **state)
{
    (void)state;
    make_cache();
    write_gguf(REPO "snapshots/" OTHER "/Qwen3.5-4B-Q4_K_M.gguf", "qwen35", 2560);
    write_gguf(REPO "snapshots/" OTHER "/Qwen3.5-4B-Q6_K.gguf", "qwen35", 2560);
    fake_root_write(REPO "refs/v1.0", OTHER);
    fake_root_write(REPO "refs/gone", SHA_COMMIT);
    open_home();
    static const struct {
        const char *argument, *file;
    } cases[] = {
        {"hf:unsloth/Qwen3.5-4B-GGUF", "0123 Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@main", "0123 Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@main:Q4_K_M", "0123 Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@" COMMIT, "0123 Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@v1.0", "ffff Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/qwen3.5-4b-gguf@v1.0:Q4_K_M", "ffff Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@" OTHER ":Q4_K_M", "ffff Qwen3.5-4B-Q4_K_M.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@v1.0:Q6_K", "ffff Qwen3.5-4B-Q6_K.gguf"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@main:Q6_K", "not installed"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@" COMMIT ":Q6_K", "not installed"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@v2.0", "not installed"},
        {"hf:unsloth/Qwen3.5-4B-GGUF@gone", "not installed"},
        {"hf:unsloth/Other-GGUF@v1.0", "not installed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(found_file(cases[i].argument), cases[i].file) != 0)
            fail_msg("%s is %s", cases[i].argument, found_file(cases[i].argument));
    /* The name of what was found leads to it again. */
    char again[300];
    snprintf(again, sizeof again, "%s", found("hf:unsloth/Qwen3.5-4B-GGUF@v1.0"));
    assert_string_equal(again, "hf:unsloth/Qwen3.5-4B-GGUF@v1.0:Qwen3.5-4B-Q4_K_M.gguf");
    assert_string_equal(found_file(again), "ffff Qwen3.5-4B-Q4_K_M.gguf");
    assert_string_equal(found("hf:unsloth/Qwen3.5-4B-GGUF@main"), "qwen3.5:4b");
    assert_int_equal(n_list, 2);
}

/* A row of the user's table with a revision means that revision. */
static void known_revision(void **state)
{
    (void)state;
    make_cache();
    write_gguf(REPO "snapshots/" OTHER "/Qwen3.5-4B-Q4_K_M.gguf", "qwen35", 2560);
    fake_root_write(REPO "refs/v1.0", OTHER);
    fake_root_write(".config/mote/models", "[pinned]\nrepo = unsloth/Qwen3.5-4B-GGUF\n"
                                           "revision = v1.0\nfile = Qwen3.5-4B-{quant}.gguf\n"
                                           "quants = Q4_K_M\n");
    open_home();
    assert_string_equal(found_file("pinned"), "ffff Qwen3.5-4B-Q4_K_M.gguf");
    assert_string_equal(found_file("hf:unsloth/Qwen3.5-4B-GGUF"), "0123 Qwen3.5-4B-Q4_K_M.gguf");
    assert_int_equal(unlink(at_home(REPO "refs/v1.0")), 0);
    open_home();
    assert_string_equal(found_file("pinned"), "not installed");
}

static void roots(void **state)
{
    (void)state;
    static const struct {
        store_env env;
        const char *root;
    } cases[] = {
        {{.home = "/h"}, "/h/.cache/huggingface/hub"},
        {{.home = "/h", .xdg_cache_home = "/x"}, "/x/huggingface/hub"},
        {{.home = "/h", .xdg_cache_home = "/x", .hf_home = "/hf"}, "/hf/hub"},
        {{.home = "/h", .hf_home = "/hf", .huggingface_hub_cache = "/old"}, "/old/"},
        {{.home = "/h", .huggingface_hub_cache = "/old", .hf_hub_cache = "/new"}, "/new/"},
        {{.home = "/h", .hf_home = "~/hf"}, "/h/hf/hub"},
        {{.home = "/h", .hf_hub_cache = "", .hf_home = ""}, "/h/.cache/huggingface/hub"},
    };
    char root[FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(hf_cache_root(root, &cases[i].env));
        assert_string_equal(root, cases[i].root);
    }
    assert_false(hf_cache_root(root, &(store_env){0}));
}

/* References: empty, with a newline, too long, a directory, not a commit. */
static void references(void **state)
{
    (void)state;
    static char large[2 << 20];
    char commit[HF_COMMIT_BYTES], root[128];
    const char *why;
    test_random r = {3};
    make_cache();
    snprintf(root, sizeof root, "%s/%s", fake_root, HUB);
    const char *repo = "unsloth/Qwen3.5-4B-GGUF";
    fake_root_write(REPO "refs/main", COMMIT "\n");
    assert_true(hf_cache_commit(commit, root, repo, "main", &why));
    assert_string_equal(commit, COMMIT);
    assert_true(hf_cache_commit(commit, root, repo, OTHER, &why));
    assert_false(hf_cache_commit(commit, root, repo, "none", &why));
    assert_null(why);
    assert_false(hf_cache_commit(commit, root, repo, "../main", &why));
    memset(large, 'a', sizeof large - 1);
    static const char *const wrong[] = {"", "main", "../../../../etc", COMMIT COMMIT, large};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fake_root_write(REPO "refs/main", wrong[i]);
        assert_false(hf_cache_commit(commit, root, repo, "main", &why));
        assert_non_null(why);
        open_home(); /* the snapshot is found without its reference */
        assert_int_equal(n_list, 1);
        assert_true(has_problem("refs/main", ""));
    }
    for (int i = 0; i < 300; i++) {
        char text[64] = {0};
        for (size_t k = 0; k < sizeof text - 1; k++)
            text[k] = (char)(1 + test_random_below(&r, 255));
        fake_root_write(REPO "refs/main", text);
        assert_false(hf_cache_commit(commit, root, repo, "main", &why));
    }
    assert_int_equal(unlink(at_home(REPO "refs/main")), 0);
    assert_int_equal(mkdir(at_home(REPO "refs/main"), 0700), 0);
    open_home();
    assert_int_equal(n_list, 1);
    assert_true(has_problem("refs/main", "not a file"));
}

/* Links that leave the cache, loops, missing blobs; a second link inside the cache is normal. */
static void links(void **state)
{
    (void)state;
    make_cache();
    fake_root_write("secret.gguf", "GGUF");
    write_link(SNAP "outside.gguf", "../../../../../../secret.gguf");
    write_link(SNAP "absolute.gguf", "/etc/passwd");
    write_link(SNAP "loop.gguf", "loop.gguf");
    write_link(SNAP "gone.gguf", "../../blobs/" SHA_2);
    write_link(SNAP "up.gguf", "../..");
    write_link(SNAP "mmproj-F16.gguf", "/etc/passwd");
    write_gguf(HUB "blobs/ab/" SHA_2, "qwen35", 2560);
    write_link(REPO "blobs/" SHA_2 "x", "../../blobs/ab/" SHA_2);
    write_link(SNAP "Qwen3.5-4B-Q8_0.gguf", "../../blobs/" SHA_2 "x");
    fake_root_write(HUB "models--..--x/snapshots/" COMMIT "/a.gguf", "GGUF");
    fake_root_write(HUB "models--a/snapshots/" COMMIT "/a.gguf", "GGUF");
    fake_root_write(SNAP "a\nb.gguf", "GGUF");
    open_home();
    assert_non_null(named("qwen3.5:4b"));
    assert_null(named("qwen3.5:4b")->mmproj);
    assert_null(named("qwen3.5:4b-q8_0")->broken);
    assert_true(has_problem("outside.gguf", "leaves"));
    assert_true(has_problem("absolute.gguf", "leaves"));
    assert_true(has_problem("mmproj-F16.gguf", "leaves"));
    assert_non_null(named("hf:unsloth/Qwen3.5-4B-GGUF:loop.gguf")->broken);
    assert_non_null(named("hf:unsloth/Qwen3.5-4B-GGUF:gone.gguf")->broken);
    assert_int_equal(n_list, 4);
}

/* A model with a missing part cannot be used, and the reason says so. */
static void split_weights(void **state)
{
    (void)state;
    write_gguf(SNAP "Qwen3.5-4B-Q8_0-00001-of-00002.gguf", "qwen35", 2560);
    write_gguf(SNAP "BF16/x-BF16-00001-of-00002.gguf", "qwen35", 2560);
    write_gguf(SNAP "BF16/x-BF16-00002-of-00002.gguf", "qwen35", 2560);
    open_home();
    assert_int_equal(n_list, 2);
    assert_non_null(strstr(named("qwen3.5:4b-q8_0")->broken, "part 2 of 2 is missing"));
    const store_model *m = named("hf:unsloth/Qwen3.5-4B-GGUF:BF16/x-BF16-00001-of-00002.gguf");
    assert_null(m->broken);
    assert_int_equal(m->parts, 2);
    assert_string_equal(found("hf:unsloth/Qwen3.5-4B-GGUF:bf16"), m->name);
}

/* ---- other programs ---- */

static void ollama(void **state)
{
    (void)state;
    static char large[2 << 20];
    write_gguf(OLLAMA "blobs/sha256-" SHA, "qwen35", 2560);
    write_gguf(OLLAMA "blobs/sha256-" SHA_2, "clip", 2560);
    fake_root_write(
        OLLAMA "manifests/registry.ollama.ai/library/qwen3.5/4b",
        MANIFEST(LAYER("model", "sha256:" SHA) "," LAYER("projector", "sha256:" SHA_2)));
    fake_root_write(OLLAMA "manifests/registry.ollama.ai/me/mine/latest",
                    MANIFEST(LAYER("model", "sha256:" SHA)));
    fake_root_write(OLLAMA "manifests/hf.co/owner/name/Q4_K_M",
                    MANIFEST(LAYER("model", "sha256:" SHA)));
    memset(large, ' ', sizeof large - 1);
    static const struct {
        const char *name, *text, *why;
    } bad[] = {
        {"up", MANIFEST(LAYER("model", "sha256:../../../../../etc/passwd")), "digest"},
        {"short", MANIFEST(LAYER("model", "sha256:aaaa")), "digest"},
        {"long", MANIFEST(LAYER("model", "sha256:" OTHER OTHER)), "digest"},
        {"missing",
         MANIFEST(LAYER("model", "sha256:cccccccccccccccccccccccccccccccccccccccccccccc"
                                 "cccccccccccccccccc")),
         "No such file"},
        {"mlx", MANIFEST(LAYER("tensor", "sha256:" SHA)), "MLX"},
        {"none", MANIFEST(""), "no model"},
        {"text", "hello", "invalid JSON"},
        {"array", "[]", "no model"},
        {"large", large, "too large"},
        {"size",
         MANIFEST("{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:" SHA
                  "\",\"size\":7}"),
         "size"},
    };
    char path[200];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(path, sizeof path, OLLAMA "manifests/registry.ollama.ai/library/%s/latest",
                 bad[i].name);
        fake_root_write(path, bad[i].text);
    }
    write_link(OLLAMA "manifests/registry.ollama.ai/library/link/latest", "/etc/passwd");
    write_link(OLLAMA "manifests/registry.ollama.ai/library/loop/latest", "latest");
    open_home();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(path, sizeof path, "library/%s/latest", bad[i].name);
        if (!has_problem(path, bad[i].why))
            fail_msg("no reason '%s' for %s", bad[i].why, path);
    }
    assert_true(has_problem("link/latest", "leaves"));
    assert_true(has_problem("loop/latest", "loop"));
    assert_int_equal(n_list, 4);
    assert_string_equal(named("missing")->broken,
                        "Ollama has removed its file; try: ollama pull missing");
    assert_non_null(strstr(named("qwen3.5:4b")->mmproj, "sha256-" SHA_2));
    assert_string_equal(named("me/mine")->sha256, SHA);
    assert_string_equal(found("me/mine"), "me/mine");
    assert_string_equal(found("hf.co/owner/name:Q4_K_M"), "hf.co/owner/name:Q4_K_M");

    /* The Hugging Face cache wins the name. */
    make_cache();
    open_home();
    assert_int_equal(named("qwen3.5:4b")->origin, STORE_HF_CACHE);
    assert_true(has_problem("blobs/sha256-" SHA, "already that of another model"));
}

static void directories(void **state)
{
    (void)state;
    char models[300];
    write_gguf(".lmstudio/models/pub/repo/Tiny-Q4_K_M.gguf", "qwen35", 2560);
    write_gguf(".lmstudio/models/pub/repo/mmproj-Tiny-F16.gguf", "clip", 2560);
    write_gguf(".lmstudio/models/pub/repo/deep/er/no.gguf", "qwen35", 2560);
    write_gguf(".cache/llama.cpp/owner_repo_Old-Q8_0.gguf", "qwen35", 1024);
    write_gguf(".local/share/mote/models/mine.gguf", "qwen35", 1024);
    write_gguf(".local/share/mote/models/mmproj-F16.gguf", "clip", 2560); /* of another model */
    write_gguf("a/one.gguf", "qwen35", 1024);
    write_gguf("elsewhere/two.gguf", "qwen35", 1024);
    write_link("b/two.gguf", "../elsewhere/two.gguf");
    open_home();
    assert_int_equal(n_list, 3);
    assert_int_equal(named("tiny-q4_k_m")->origin, STORE_LM_STUDIO);
    assert_non_null(named("tiny-q4_k_m")->mmproj);
    assert_int_equal(named("owner_repo_old-q8_0")->origin, STORE_LLAMA_CPP);
    assert_int_equal(named("mine")->origin, STORE_DIRECTORY);
    assert_null(named("mine")->mmproj);
    assert_true(has_problem("mmproj-F16.gguf", "embeddings of 2560, not 1024"));

    snprintf(models, sizeof models, "%s/a:%s/b:%s/none", fake_root, fake_root, fake_root);
    open_home_with((store_env){.mote_models = models});
    assert_non_null(named("one"));
    assert_non_null(named("two"));
    assert_null(named("mine"));
    size_t n, outside = 0;
    const char *const *allowed = store_roots(opened, &n);
    for (size_t i = 0; i < n; i++)
        outside += strstr(allowed[i], "/elsewhere") != NULL;
    assert_int_equal(outside, 1); /* a sandbox must allow the target of the link */
}

static void paths(void **state)
{
    (void)state;
    model_name name;
    const store_model *m;
    mote_error err;
    write_gguf("dir/x-Q8_0.gguf", "qwen35", 1024);
    write_gguf("dir/mmproj-F16.gguf", "clip", 1024);
    write_gguf("many/a.gguf", "qwen35", 1024);
    write_gguf("many/b.gguf", "qwen35", 1024);
    open_home();
    assert_int_equal(store_find(opened, at_home("dir"), &name, &m, &err), MOTE_OK);
    assert_non_null(strstr(m->weights, "dir/x-Q8_0.gguf"));
    assert_non_null(strstr(m->mmproj, "dir/mmproj-F16.gguf"));
    assert_string_equal(m->name, "x-q8_0");
    assert_int_equal(store_find(opened, at_home("many/b.gguf"), &name, &m, &err), MOTE_OK);
    assert_string_equal(m->name, "b");
    assert_int_equal(store_find(opened, at_home("many"), &name, &m, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "several models"));
    assert_int_equal(store_find(opened, at_home("none.gguf"), &name, &m, &err), MOTE_E_IO);
}

static bool is_wanted(const char *name)
{
    return name[0] == 'w';
}

/* Names come in byte order and, if there is no room for all, the first of them, whatever the order
 * of the directory is. mmproj and MTP files of a path are chosen from them. */
static void names_of_a_directory(void **state)
{
    char names[4][FILE_NAME_BYTES], path[40], out[MTP_PATH_BYTES], why[MMPROJ_WHY_BYTES];
    (void)state;
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "names/%c%02d", i % 3 == 0 ? 'v' : 'w', i * 17 % 40);
        fake_root_write(path, "");
    }
    assert_int_equal(file_names(names, 4, at_home("names"), is_wanted), 4);
    for (int i = 0; i + 1 < 4; i++)
        assert_true(strcmp(names[i], names[i + 1]) < 0);
    assert_string_equal(names[0], "w02");
    assert_int_equal(file_names(names, 4, at_home("none"), is_wanted), 0);
    fake_root_write("x/x-Q8_0.gguf", "");
    fake_root_write("x/mtp-x-Q4_K_M.gguf", "");
    fake_root_write("x/mtp-x-Q8_0.gguf", "");
    fake_root_write("x/mmproj-x-BF16.gguf", "");
    fake_root_write("x/mmproj-x-F16.gguf", "");
    mtp_file_find(out, at_home("x/x-Q8_0.gguf"));
    assert_string_equal(out, at_home("x/mtp-x-Q8_0.gguf"));
    assert_true(mmproj_find(out, why, at_home("x/x-Q8_0.gguf"), NULL));
    assert_string_equal(out, at_home("x/mmproj-x-F16.gguf"));
    mtp_file_find(out, at_home("names/w01"));
    assert_string_equal(out, "");
}

/* The short reader of GGUF files accepts any bytes. */
static void damaged_heads(void **state)
{
    (void)state;
    test_random r = {11};
    gguf_head head;
    static const char *const words[] = {"a", "general.name", "tokenizer.ggml.tokens"};
    test_gguf b;
    test_gguf_begin(&b);
    test_gguf_str(&b, "general.architecture", "qwen35");
    test_gguf_strs(&b, "some.words", words, 3);
    test_gguf_i32s(&b, "some.numbers", (const int32_t[]){1, 2, 3}, 3);
    test_gguf_u32(&b, "qwen35.embedding_length", 1024);
    test_gguf_finish(&b);
    fake_root_write("head", "");
    for (int round = 0; round < 2000; round++) {
        FILE *f = fopen(at_home("head"), "w");
        assert_non_null(f);
        const size_t n = round == 0 ? b.n : 1 + test_random_below(&r, b.n);
        for (size_t i = 0; i < n; i++) {
            const bool change = round > 0 && test_random_below(&r, 40) == 0;
            fputc(change ? (int)test_random_below(&r, 256) : b.bytes[i], f);
        }
        assert_int_equal(fclose(f), 0);
        const bool valid = gguf_head_read(&head, at_home("head"));
        assert_true(strlen(head.architecture) < sizeof head.architecture);
        if (round == 0) {
            assert_true(valid);
            assert_string_equal(head.architecture, "qwen35");
            assert_int_equal(head.embedding, 1024);
        }
    }
    test_gguf_free(&b);
    assert_false(gguf_head_read(&head, at_home("none")));
    assert_false(gguf_head_read(&head, fake_root));
}

#define WITH_HOME(test) cmocka_unit_test_setup_teardown(test, fake_root_make, remove_home)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HOME(cache),
        WITH_HOME(snapshots),
        WITH_HOME(revisions),
        WITH_HOME(known_revision),
        cmocka_unit_test(roots),
        WITH_HOME(references),
        WITH_HOME(names_of_a_directory),
        WITH_HOME(links),
        WITH_HOME(split_weights),
        WITH_HOME(ollama),
        WITH_HOME(directories),
        WITH_HOME(paths),
        WITH_HOME(damaged_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
