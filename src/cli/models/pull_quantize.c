/* SPDX-License-Identifier: Apache-2.0 */
/* pull_quantize.c - implements pull_quantize.h. */
#include "cli/models/pull_quantize.h"

#include "base/cpu.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "convert/convert.h"
#include "convert/quantize.h"
#include "convert/sample_text.h"
#include "json/json_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LABEL_BYTES = 128 };

typedef struct quantize_job {
    const cli_call *call;
    const quant_mix *mix;
    const char *repo; /* without its owner */
    char directory[FILE_PATH_BYTES];
    char out[FILE_PATH_BYTES];
    char source[FILE_PATH_BYTES]; /* the model of one commit before it is quantised; removed at the
                                     end */
    char mmproj[FILE_PATH_BYTES];
    char copy[FILE_PATH_BYTES]; /* for mixes that are measured */
    progress progress;
    char label[LABEL_BYTES];
    const char *action; /* of the progress line */
    uint64_t total;     /* likewise */
} quantize_job;

/* ---- progress ---- */

static bool job_show(quantize_job *j, progress_unit unit, const char *action, const char *tensor,
                     uint64_t done, uint64_t all)
{
    snprintf(j->label, sizeof j->label, "%s  %.80s", action, tensor);
    if (j->action != action || j->total != all) {
        progress_end(&j->progress);
        progress_begin(&j->progress, j->label, unit, done, all);
    }
    j->action = action;
    j->total = all;
    progress_at(&j->progress, done);
    return !interrupt_pending();
}

static bool job_converting(void *ctx, uint32_t tensor, const char *name, uint64_t done,
                           uint64_t all)
{
    (void)tensor;
    return job_show(ctx, PROGRESS_BYTES, "converting", name, done, all);
}

static bool job_quantizing(void *ctx, uint32_t tensor, const char *name, uint64_t done,
                           uint64_t all)
{
    (void)tensor;
    return job_show(ctx, PROGRESS_BYTES, "quantising", name, done, all);
}

static bool job_measuring(void *ctx, own_mix_phase phase, const char *tensor, uint64_t done,
                          uint64_t all)
{
    return job_show(ctx, phase == OWN_MIX_MEASURE ? PROGRESS_TOKENS : PROGRESS_BYTES, "measuring",
                    tensor, done, all);
}

/* ---- files ---- */

/* Creates a directory and those above it. */
static int make_directories(char *path)
{
    for (char *at = path + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        const char end = *at;
        *at = '\0';
        const bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *at = end;
        if (!made)
            return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot create %.800s: %s", path,
                            strerror(errno));
        if (end == '\0')
            return CLI_DONE;
    }
}

/* Paths of a job. The name of a repository is valid as the name of a file. */
static int job_set_paths(quantize_job *j, store *s, const model_name *name)
{
    const char *root = store_own_directory(s), *repo = strrchr(name->repo, '/') + 1;
    char file[FILE_PATH_BYTES];
    bool fits = root[0] == '/' && file_join(j->directory, root, repo);
    snprintf(file, sizeof file, "%s-%s.gguf", repo, j->mix->name);
    fits = fits && file_join(j->out, j->directory, file);
    snprintf(file, sizeof file, "%s-%s.measuring", repo, j->mix->name);
    fits = fits && file_join(j->copy, j->directory, file);
    snprintf(file, sizeof file, "mmproj-%s.gguf", repo);
    fits = fits && file_join(j->mmproj, j->directory, file);
    j->repo = repo;
    if (!fits)
        return msg_fail(CLI_NOT_WRITABLE, "not_writable",
                        "no directory for the model; set MOTE_MODELS to one, with its whole path");
    return make_directories(j->directory);
}

/* ---- steps ---- */

static int job_report(quantize_job *j, mote_status status, const mote_error *err)
{
    progress_end(&j->progress);
    j->action = NULL;
    if (status == MOTE_E_CANCELED && interrupt_pending()) {
        msg_note("%s; run the same command again: it continues", err->text);
        return interrupt_exit_code();
    }
    return status == MOTE_OK ? CLI_DONE : msg_error(err);
}

static int job_convert(quantize_job *j, const pulled_model *pulled)
{
    struct stat info;
    mote_error err = {0};
    char file[FILE_PATH_BYTES];
    const convert_options o = {.out = j->source,
                               .mmproj = j->mmproj,
                               .name = j->repo, /* the directory has the name of the commit */
                               .progress = job_converting,
                               .ctx = j};
    const char *commit = strrchr(pulled->snapshot, '/');
    snprintf(file, sizeof file, "%s.%.12s.source", j->repo, commit != NULL ? commit + 1 : "");
    if (!file_join(j->source, j->directory, file))
        return msg_fail(CLI_NOT_WRITABLE, "not_writable", "the path of %.200s is too long", file);
    if (stat(j->source, &info) == 0) /* an earlier run came that far */
        return CLI_DONE;
    return job_report(j, convert_directory(pulled->snapshot, &o, &err), &err);
}

static int job_quantize(quantize_job *j)
{
    cores all;
    strbuf text = {0};
    mote_error err = {0};
    cores_find(&all);
    if (j->mix->reference != NULL)
        sample_text_put(&text);
    const quantize_options o = {.out = j->out,
                                .mix = j->mix,
                                .threads = all.n,
                                .isa = cpu_best_isa_up_to(MOTE_ISA_BEST),
                                .progress = job_quantizing,
                                .copy = j->copy,
                                .text = strbuf_view(&text),
                                .text_name = "mote",
                                .measuring = job_measuring,
                                .ctx = j};
    mote_status status = strbuf_check(&text, &err);
    if (status == MOTE_OK)
        status = quantize_file(j->source, &o, &err);
    strbuf_fini(&text);
    return job_report(j, status, &err);
}

static int job_print(const quantize_job *j)
{
    char name[MODEL_NAME_BYTES];
    strbuf line = {0};
    model_name_of_file(name, strrchr(j->out, '/') + 1);
    if (!j->call->common.json) {
        msg_note("installed as %s", name);
        out_printf(j->call->out, "%s\n", j->out);
        return CLI_DONE;
    }
    jw_open(&line, '{');
    jw_key_text(&line, "event", "quantized");
    jw_key_text(&line, "name", name);
    jw_key_text(&line, "type", j->mix->name);
    jw_key_text(&line, "path", j->out);
    jw_close(&line, '}');
    return out_json(j->call->out, &line);
}

int pull_quantize(const cli_call *call, store *s, const model_name *name, const pull_options *o,
                  const char *type)
{
    static quantize_job j;
    static pulled_model pulled;
    struct stat info;
    pull_options pull = *o;
    j = (quantize_job){.call = call, .mix = quant_mix_find(type)};
    if (j.mix == NULL)
        return msg_usage("--quantize: unknown type %.60s; one of %s", type, quant_mix_names());
    if (quant_mix_needs_imatrix(j.mix))
        return msg_usage(
            "--quantize: %s needs an importance matrix; choose Q3_K_S or larger, or use "
            "mote convert, mote imatrix and mote quantize",
            j.mix->name);
    if (name->kind != MODEL_NAME_HUB || name->selector[0] != '\0')
        return msg_usage("--quantize needs a repository of Safetensors files, such as "
                         "hf:Qwen/Qwen3.5-4B");
    int code = job_set_paths(&j, s, name);
    if (code == CLI_DONE && !o->dry_run && stat(j.out, &info) == 0)
        return job_print(&j);
    pull.checkpoint = true;
    if (code == CLI_DONE)
        code = pull_model(&pulled, name, &pull, call->common.json ? call->out : NULL);
    if (code != CLI_DONE || o->dry_run)
        return code;
    code = job_convert(&j, &pulled);
    if (code == CLI_DONE)
        code = job_quantize(&j);
    if (code != CLI_DONE)
        return code;
    unlink(j.source);
    return job_print(&j);
}
