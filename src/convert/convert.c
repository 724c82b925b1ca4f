/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - a model directory to GGUF; see convert.h. */
#include "convert/convert.h"

#include "base/mem.h"
#include "convert/model_card.h"
#include "convert/tokenizer_files.h"

#include <stdio.h>
#include <sys/stat.h>

/* Values of general.file_type, and of general.quantization_version. */
enum { FILE_F32 = 0, FILE_F16 = 1, FILE_BF16 = 32, QUANTIZATION_VERSION = 2 };

mote_status convert_mmproj_path(char out[CONVERT_PATH_BYTES], const convert_options *o,
                                mote_error *err)
{
    const char *slash = strrchr(o->out, '/');
    const int directory = slash != NULL ? (int)(slash + 1 - o->out) : 0;
    const int n = o->mmproj != NULL ? snprintf(out, CONVERT_PATH_BYTES, "%s", o->mmproj)
                                    : snprintf(out, CONVERT_PATH_BYTES, "%.*smmproj-%s", directory,
                                               o->out, o->out + directory);
    return n < CONVERT_PATH_BYTES ? MOTE_OK
                                  : err_set(err, MOTE_E_ARG, "path is too long: %.60s...", o->out);
}

/* One output file. */
typedef struct output {
    tensor_plan plan;
    gguf_writer *writer;
    const char *path;
} output;

typedef struct conversion {
    checkpoint *checkpoint;
    model_config config;
    const convert_options *options;
    output text, vision;
    char mmproj[CONVERT_PATH_BYTES];
} conversion;

/* ---- what is in the checkpoint ---- */

static bool conversion_has(const conversion *c, bool (*wanted)(const tensor_rule *rule))
{
    for (uint32_t i = 0; i < checkpoint_count(c->checkpoint); i++) {
        tensor_match match;
        if (tensor_rule_find(&match, &c->config, checkpoint_at(c->checkpoint, i)->tensor->name) &&
            wanted(match.rule))
            return true;
    }
    return false;
}

static bool rule_is_mtp(const tensor_rule *rule)
{
    return rule->group == GROUP_MTP;
}

/* config.json may name parts that the files do not have: many fine-tunes lack MTP and vision. */
static void conversion_choose_parts(conversion *c)
{
    const bool vision = conversion_has(c, tensor_rule_is_vision);
    const bool mtp = conversion_has(c, rule_is_mtp);
    c->config.has_vision = vision && !c->options->no_vision;
    c->config.mtp_layers = mtp && !c->options->no_mtp ? c->config.mtp_layers : 0;
}

static const char *unused_reason(const conversion *c, str name)
{
    tensor_match match;
    model_config all = c->config;
    all.mtp_layers = 1;
    all.has_vision = true;
    if (!tensor_rule_find(&match, &all, name))
        return "no part of a Qwen 3.5 model";
    if (match.rule->group == GROUP_TEXT)
        return "the output matrix is the token embedding";
    if (tensor_rule_is_vision(match.rule))
        return c->options->no_vision ? "--no-vision" : "config.json has no vision_config";
    return c->options->no_mtp ? "--no-mtp" : "mtp_num_hidden_layers of config.json is 0";
}

static void conversion_report_unused(const conversion *c)
{
    for (uint32_t i = 0; i < checkpoint_count(c->checkpoint); i++) {
        const checkpoint_tensor *t = checkpoint_at(c->checkpoint, i);
        if (!t->used && c->options->unused != NULL)
            c->options->unused(c->options->ctx, t->tensor->name, unused_reason(c, t->tensor->name));
    }
}

/* ---- metadata ---- */

static uint32_t file_type(const tensor_plan *plan)
{
    const quant_format format = tensor_plan_format(plan);
    return format == QUANT_F32 ? FILE_F32 : format == QUANT_F16 ? FILE_F16 : FILE_BF16;
}

static mote_status put_text_metadata(conversion *c, gguf_writer *w, mote_error *err)
{
    const json_node *config = checkpoint_config(c->checkpoint);
    const model_config *m = &c->config;
    gguf_writer_str(w, "general.architecture", str_of(model_config_architecture(m)));
    gguf_writer_str(w, "general.type", str_of("model"));
    TRY(model_card_put(c->checkpoint, c->options->name, gguf_writer_values(w), w, err));
    TRY(model_config_put_text(m, config, m->layers + m->mtp_layers, w, err));
    gguf_writer_u32(w, "general.file_type", file_type(&c->text.plan));
    TRY(model_config_put_layers(m, config, m->mtp_layers, w, err));
    gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    return tokenizer_files_put(c->checkpoint, m->vocab, w, err);
}

static mote_status put_vision_metadata(conversion *c, gguf_writer *w, mote_error *err)
{
    json_doc *preprocessor;
    gguf_writer_str(w, "general.architecture", str_of("clip"));
    gguf_writer_str(w, "general.type", str_of("mmproj"));
    TRY(model_card_put(c->checkpoint, c->options->name, gguf_writer_values(w), w, err));
    gguf_writer_u32(w, "general.file_type", file_type(&c->vision.plan));
    TRY(checkpoint_json(c->checkpoint, "preprocessor_config.json", &preprocessor, err));
    const mote_status status =
        model_config_put_vision(&c->config, checkpoint_config(c->checkpoint),
                                preprocessor != NULL ? json_doc_root(preprocessor) : NULL, w, err);
    json_doc_free(preprocessor);
    gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    return status;
}

/* ---- files ---- */

static mote_status output_prepare(conversion *c, output *o, bool vision, mote_error *err)
{
    TRY(tensor_plan_build(&o->plan, c->checkpoint, &c->config, vision, c->options->dtype, err));
    TRY(gguf_writer_new(&o->writer, err));
    TRY(tensor_plan_declare(&o->plan, o->writer, err));
    return vision ? put_vision_metadata(c, o->writer, err) : put_text_metadata(c, o->writer, err);
}

static mote_status output_write(conversion *c, output *o, mote_error *err)
{
    strbuf sources = {0};
    uint32_t done;
    checkpoint_put_sources(c->checkpoint, &sources);
    mote_status status = strbuf_check(&sources, err);
    if (status == MOTE_OK)
        status = gguf_writer_begin(o->writer, o->path, strbuf_view(&sources), &done, err);
    strbuf_fini(&sources);
    const stream_source source = tensor_plan_source(&o->plan);
    return status == MOTE_OK ? tensor_stream_write(o->writer, &source, done, c->options->progress,
                                                   c->options->ctx, err)
                             : status;
}

static mote_status output_commit(conversion *c, output *o, mote_error *err)
{
    TRY(gguf_writer_commit(o->writer, err));
    if (c->options->written != NULL)
        c->options->written(c->options->ctx, o->path, gguf_writer_n_tensors(o->writer),
                            gguf_writer_data_bytes(o->writer));
    return MOTE_OK;
}

/* True if both paths name one file, whether it exists or not. */
static bool same_place(const char *a, const char *b)
{
    const char *paths[2] = {a, b}, *names[2];
    struct stat directories[2];
    for (int i = 0; i < 2; i++) {
        char directory[CONVERT_PATH_BYTES];
        const char *slash = strrchr(paths[i], '/');
        names[i] = slash != NULL ? slash + 1 : paths[i];
        snprintf(directory, sizeof directory, "%.*s", (int)(names[i] - paths[i]), paths[i]);
        if (stat(slash != NULL ? directory : ".", &directories[i]) != 0)
            return false;
    }
    return strcmp(names[0], names[1]) == 0 && directories[0].st_dev == directories[1].st_dev &&
           directories[0].st_ino == directories[1].st_ino;
}

static mote_status conversion_check_outputs(const conversion *c, mote_error *err)
{
    TRY(checkpoint_check_output(c->checkpoint, c->text.path, err));
    if (!c->config.has_vision)
        return MOTE_OK;
    TRY(checkpoint_check_output(c->checkpoint, c->vision.path, err));
    if (same_place(c->text.path, c->vision.path))
        return err_set(err, MOTE_E_ARG,
                       "%.800s cannot hold the text model and the vision encoder; give --mmproj "
                       "another name",
                       c->vision.path);
    if (c->options->may_write != NULL && !c->options->may_write(c->options->ctx, c->vision.path))
        return err_set(err, MOTE_E_CANCELED, "%.800s is not written", c->vision.path);
    return MOTE_OK;
}

/* The files get their names when both are complete. */
static mote_status conversion_run(conversion *c, const char *directory, mote_error *err)
{
    TRY(convert_mmproj_path(c->mmproj, c->options, err));
    c->text.path = c->options->out;
    c->vision.path = c->mmproj;
    TRY(checkpoint_open(&c->checkpoint, directory, err));
    TRY(model_config_read(&c->config, checkpoint_config(c->checkpoint), err));
    conversion_choose_parts(c);
    TRY(conversion_check_outputs(c, err));
    TRY(output_prepare(c, &c->text, false, err));
    if (c->config.has_vision)
        TRY(output_prepare(c, &c->vision, true, err));
    conversion_report_unused(c);
    if (c->config.has_vision)
        TRY(output_write(c, &c->vision, err));
    TRY(output_write(c, &c->text, err));
    TRY(checkpoint_check_unchanged(c->checkpoint, err));
    if (c->config.has_vision)
        TRY(output_commit(c, &c->vision, err));
    return output_commit(c, &c->text, err);
}

mote_status convert_directory(const char *directory, const convert_options *o, mote_error *err)
{
    conversion *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: conversion");
    c->options = o;
    const mote_status status = conversion_run(c, directory, err);
    tensor_plan_fini(&c->text.plan);
    tensor_plan_fini(&c->vision.plan);
    tensor_stream_end(c->text.writer, status);
    tensor_stream_end(c->vision.writer, status);
    checkpoint_close(c->checkpoint);
    mem_free(c);
    return status;
}
