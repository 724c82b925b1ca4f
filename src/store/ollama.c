/* SPDX-License-Identifier: Apache-2.0 */
/* ollama.c - models of Ollama; see other_programs.h. */
#include "base/mem.h"
#include "json/json.h"
#include "store/other_programs.h"
#include "store/store_int.h"
#include "store/text_match.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MAX_MANIFESTS = 10000, MAX_MANIFEST_BYTES = 1 << 20, MAX_LAYERS = 1000 };

static const char media_type[] = "application/vnd.ollama.image.";

/* One manifest. */
typedef struct manifest {
    store *s;
    const char *root; /* of Ollama's models */
    const char *path; /* of the manifest */
} manifest;

/* "HOST/NAMESPACE/MODEL/TAG" to the name that Ollama prints. False: not of this form. */
static bool ollama_name(char *out, size_t room, const char *path)
{
    str part[4], rest = str_of(path);
    for (int i = 0; i < 4; i++) {
        part[i] = str_next_word(&rest, "/");
        if (!str_has_only(part[i], "._-"))
            return false;
    }
    if (rest.n > 0)
        return false;
    const bool plain = str_is(part[0], "registry.ollama.ai");
    const bool library = plain && str_is(part[1], "library"), latest = str_is(part[3], "latest");
    const int n = snprintf(out, room, "%.*s%s%.*s%s%.*s%s%.*s", plain ? 0 : (int)part[0].n,
                           part[0].p, plain ? "" : "/", library ? 0 : (int)part[1].n, part[1].p,
                           library ? "" : "/", (int)part[2].n, part[2].p, latest ? "" : ":",
                           latest ? 0 : (int)part[3].n, part[3].p);
    return n > 0 && (size_t)n < room;
}

/* Ollama removes blobs when it starts or pulls; the manifest may be left. */
static const char blob_gone[] = "the blob is gone: No such file or directory";

/* The file of a layer. NULL: it cannot be used; *why. */
static const char *layer_file(const manifest *f, const json_node *layer, struct stat *info,
                              char hash[65], const char **why)
{
    char path[FILE_PATH_BYTES], name[80];
    const str digest = json_node_text(json_node_get(layer, "digest"));
    int64_t size;
    *why = "the digest is not sha256: and 64 digits";
    if (!match_start(digest, "sha256:") || !hub_hash_valid((str){digest.p + 7, digest.n - 7}, 64))
        return NULL;
    snprintf(hash, 65, "%s", digest.p + 7);
    snprintf(name, sizeof name, "blobs/sha256-%s", hash);
    if (!file_join(path, f->root, name))
        return NULL;
    *why = blob_gone;
    if (lstat(path, info) != 0 && errno == ENOENT)
        return NULL;
    if (!file_inside(path, f->root, why))
        return NULL;
    *why = "the blob is not a file";
    if (stat(path, info) != 0 || !S_ISREG(info->st_mode))
        return NULL;
    *why = "the blob does not have the size that the manifest says";
    if (json_node_int64(json_node_get(layer, "size"), &size) && size != (int64_t)info->st_size)
        return NULL;
    return store_text(f->s, path);
}

/* The first layer of a kind, such as "model"; NULL: none. */
static const json_node *find_layer(const json_node *root, const char *kind)
{
    uint32_t left = MAX_LAYERS;
    for (const json_node *l = json_node_first(json_node_get(root, "layers")); l != NULL && left > 0;
         l = json_node_next(l), left--) {
        const str type = json_node_text(json_node_get(l, "mediaType"));
        if (match_start(type, media_type) &&
            str_is((str){type.p + sizeof media_type - 1, type.n - sizeof media_type + 1}, kind))
            return l;
    }
    return NULL;
}

/* The model stays in the list, so that its name is answered with what to do. */
static void manifest_add_gone(const manifest *f, store_model *m)
{
    char text[700];
    snprintf(text, sizeof text, "Ollama has removed its file; try: ollama pull %s", m->name);
    m->broken = store_text(f->s, text);
    store_model gone = *m;
    gone.weights = gone.quant = gone.architecture = "";
    store_add(f->s, &gone);
}

/* NULL, or why the manifest is not used. */
static const char *manifest_add(const manifest *f, const json_node *root, const char *name)
{
    char hash[65], other[65];
    struct stat info;
    const char *why = NULL;
    const json_node *model = find_layer(root, "model"), *projector = find_layer(root, "projector");
    if (model == NULL)
        return find_layer(root, "tensor") != NULL
                   ? "the model is stored as MLX tensors, not as GGUF"
                   : "the manifest names no model";
    store_model m = {.origin = STORE_OLLAMA, .name = store_text(f->s, name), .parts = 1};
    m.weights = layer_file(f, model, &info, hash, &why);
    if (m.weights == NULL && why == blob_gone)
        manifest_add_gone(f, &m);
    if (m.weights == NULL)
        return why;
    m.bytes = (uint64_t)info.st_size;
    m.modified = (int64_t)info.st_mtime;
    m.sha256 = store_text(f->s, hash);
    m.quant = "";
    if (projector != NULL) {
        m.mmproj = layer_file(f, projector, &info, other, &why);
        if (m.mmproj == NULL)
            store_add_problem(f->s, f->path, why);
        m.bytes += m.mmproj != NULL ? (uint64_t)info.st_size : 0;
    }
    store_check_files(f->s, &m);
    store_add(f->s, &m);
    return NULL;
}

static void manifest_read(const manifest *f, const char *name)
{
    strbuf text = {0};
    json_doc *doc = NULL;
    mote_error err;
    const char *why = NULL;
    if (!file_read_small(&text, f->path, MAX_MANIFEST_BYTES, &why))
        why = why != NULL ? why : "it does not exist";
    else if (json_doc_read(&doc, strbuf_view(&text), &err) != MOTE_OK)
        why = "not a manifest: invalid JSON";
    else
        why = manifest_add(f, json_doc_root(doc), name);
    if (why != NULL)
        store_add_problem(f->s, f->path, why);
    json_doc_free(doc);
    strbuf_fini(&text);
}

static mote_status ollama_scan_root(store *s, const char *root, mote_error *err)
{
    char manifests[FILE_PATH_BYTES], path[FILE_PATH_BYTES], name[512];
    file_list files;
    if (!file_join(manifests, root, "manifests") || !store_add_root(s, root))
        return MOTE_OK;
    TRY(file_list_read(&files, manifests, 3, MAX_MANIFESTS, err));
    store_add_unread(s, manifests, &files);
    for (uint32_t i = 0; i < files.n; i++) {
        const listed_file *f = &files.files[i];
        const char *why = f->broken;
        const manifest one = {s, root, path};
        if (!file_join(path, manifests, f->path))
            continue;
        if (why == NULL && !ollama_name(name, sizeof name, f->path))
            why = "not HOST/NAMESPACE/MODEL/TAG";
        if (why == NULL && file_inside(path, root, &why))
            manifest_read(&one, name);
        else
            store_add_problem(s, path, why);
    }
    file_list_fini(&files);
    return MOTE_OK;
}

mote_status ollama_scan(store *s, mote_error *err)
{
    char root[FILE_PATH_BYTES];
    if (store_env_set(s->env.ollama_models))
        return ollama_scan_root(s, s->env.ollama_models, err);
    if (store_env_set(s->env.home) && file_join(root, s->env.home, ".ollama/models"))
        TRY(ollama_scan_root(s, root, err));
    return store_env_set(s->env.ollama_service) ? ollama_scan_root(s, s->env.ollama_service, err)
                                                : MOTE_OK;
}
