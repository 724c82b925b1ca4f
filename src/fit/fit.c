/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.c - see fit.h.
 *
 * The choice: the largest size that fits with some memory to spare and decodes at
 * FIT_FAST_ENOUGH; if there is none, the largest that is fast enough but uses nearly all memory; if
 * there is none, the fastest that fits. Of a size it is the default quantisation, or the largest
 * one up to 8 bits if that still decodes at FIT_FAST and holds FIT_ROOMY_CONTEXT.
 */
#include "fit/fit.h"

#include "base/mem.h"
#include "fit/shape_file.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

const char *fit_verdict_name(fit_verdict verdict)
{
    static const char *const names[] = {"does not fit", "tight", "slow", "comfortable",
                                        "recommended"};
    return names[verdict];
}

void fit_table_fini(fit_table *t)
{
    mem_free(t->rows);
    *t = (fit_table){0};
}

static uint64_t fit_context(const fit_request *q)
{
    return q->context != 0 ? q->context : FIT_CONTEXT;
}

/* ---- rows ---- */

static mote_status row_plan(const mote_model *model, const fit_request *q, uint64_t context,
                            uint64_t more, mote_memory *out, mote_error *err)
{
    const mote_engine_options engine = {.threads = q->threads,
                                        .sessions = q->sessions,
                                        .positions = context * q->sessions,
                                        .kv = q->kv};
    TRY(mote_engine_plan(model, &engine, out, err));
    out->model += more;
    out->total += more;
    return MOTE_OK;
}

/* The largest context that fits, in whole pages of the KV cache. */
static mote_status row_find_context(fit_row *row, const mote_model *model, const fit_request *q,
                                    uint64_t more, mote_error *err)
{
    const uint64_t page = 64;
    uint64_t low = 0, high = row->trained / page;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        mote_memory memory;
        TRY(row_plan(model, q, middle * page, more, &memory, err));
        if (memory.total + row->vision <= q->budget)
            low = middle;
        else
            high = middle - 1;
    }
    row->context = low * page;
    return MOTE_OK;
}

/* `more`: bytes that the plan of this file does not count. */
static mote_status row_read_memory(fit_row *row, const char *path, const fit_request *q,
                                   uint64_t more, mote_error *err)
{
    mote_model *model;
    mote_model_info info;
    TRY(mote_model_open(&model, path, NULL, err));
    mote_model_describe(model, &info);
    row->trained = info.context;
    mote_status status = row_plan(model, q, fit_context(q), more, &row->asked, err);
    if (status == MOTE_OK)
        status = row_plan(model, q, row->trained, more, &row->full, err);
    if (status == MOTE_OK)
        status = row_find_context(row, model, q, more, err);
    mote_model_close(model);
    return status;
}

static uint64_t file_bytes(const char *path)
{
    struct stat info;
    return path != NULL && stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

static mote_status table_add(fit_table *t, const fit_row *row, mote_error *err)
{
    if (!mem_grow(&t->rows, t->n, &t->room, sizeof *t->rows))
        return err_set(err, MOTE_E_MEMORY, "out of memory: table of models");
    t->rows[t->n++] = *row;
    return MOTE_OK;
}

mote_status fit_add_file(fit_table *t, const char *path, const char *mmproj, const fit_request *q,
                         mote_error *err)
{
    const bool inside = mmproj != NULL && strcmp(mmproj, path) == 0;
    fit_row row = {.vision = inside ? 0 : file_bytes(mmproj)};
    TRY(model_work_read(&row.work, path, err));
    if (row.work.quant != NULL)
        snprintf(row.quant, sizeof row.quant, "%s", row.work.quant);
    TRY(row_read_memory(&row, path, q, 0, err));
    return table_add(t, &row, err);
}

static mote_status row_read_shape(fit_row *row, const fit_mix *mix, const fit_request *q,
                                  mote_error *err)
{
    const known_model *k = row->known;
    shape_file file;
    row->vision = k->mmproj[0] != '\0' ? 2 * k->vision_parameters : 0; /* published as F16 */
    TRY(shape_file_create(&file, &k->shape, mix, SHAPE_HOLLOW, err));
    mote_status status = model_work_read(&row->work, file.path, err);
    /* a plan counts the path of the file; that of the real one is not known */
    const uint64_t more = shape_vocabulary_bytes - strlen(file.path);
    if (status == MOTE_OK)
        status = row_read_memory(row, file.path, q, more, err);
    shape_file_close(&file);
    return status;
}

static mote_status row_read_installed(fit_row *row, const fit_request *q, mote_error *err)
{
    const store_model *m = row->installed;
    row->vision = file_bytes(m->mmproj);
    if (m->broken != NULL)
        return err_set(err, MOTE_E_FORMAT, "%s", m->broken);
    TRY(model_work_read(&row->work, m->weights, err));
    return row_read_memory(row, m->weights, q, 0, err);
}

/* Adds nothing if the tensors of the quantisation are not known. A damaged file counts as not
 * installed. */
static mote_status add_known_quant(fit_table *t, store *s, const known_model *known,
                                   const char *quant, const fit_request *q, mote_error *err)
{
    fit_row row = {.known = known, .installed = store_installed(s, known, quant)};
    known_full_name(known, quant, row.name);
    snprintf(row.quant, sizeof row.quant, "%s", quant);
    const fit_mix *mix = fit_mix_find(quant);
    if (row.installed != NULL && row_read_installed(&row, q, NULL) == MOTE_OK)
        return table_add(t, &row, err);
    if (mix == NULL || known->shape.layers == 0)
        return MOTE_OK;
    row.installed = NULL;
    TRY(row_read_shape(&row, mix, q, err));
    return table_add(t, &row, err);
}

mote_status fit_add_installed(fit_table *t, store *s, const char *family, const fit_request *q,
                              mote_error *err)
{
    const store_model *list;
    size_t n;
    TRY(store_list(s, &list, &n, err));
    for (size_t i = 0; i < n; i++) {
        model_name name;
        const size_t prefix = strlen(family);
        if (strncasecmp(list[i].name, family, prefix) != 0 || list[i].name[prefix] != ':' ||
            model_name_parse(&name, store_known(s), list[i].name, NULL) != MOTE_OK ||
            name.kind != MODEL_NAME_KNOWN)
            continue;
        fit_row row = {.known = name.known, .installed = &list[i]};
        snprintf(row.name, sizeof row.name, "%s", list[i].name);
        snprintf(row.quant, sizeof row.quant, "%s",
                 list[i].quant[0] != '\0' ? list[i].quant : name.quant);
        if (row_read_installed(&row, q, NULL) == MOTE_OK)
            TRY(table_add(t, &row, err));
    }
    return MOTE_OK;
}

mote_status fit_add_known(fit_table *t, store *s, const known_model *known, const char *quant,
                          const fit_request *q, mote_error *err)
{
    if (quant != NULL)
        return add_known_quant(t, s, known, quant, q, err);
    for (size_t i = 0; i < known->n_quants; i++)
        TRY(add_known_quant(t, s, known, known->quants[i], q, err));
    return MOTE_OK;
}

/* ---- speeds and verdicts ---- */

uint32_t fit_table_formats(const fit_table *t)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < t->n; i++)
        set |= model_work_formats(&t->rows[i].work);
    return set;
}

static bool row_fits(const fit_row *row, const fit_request *q)
{
    return row->asked.total + row->vision <= q->budget;
}

void fit_table_judge(fit_table *t, const machine_speed *speed, const fit_request *q)
{
    for (uint32_t i = 0; i < t->n; i++) {
        fit_row *row = &t->rows[i];
        row->speed = (model_speed){0};
        if (speed != NULL)
            row->speed =
                machine_speed_predict(speed, &row->work, fit_context(q), row->asked.kv_cache);
        const double decode = row->speed.decode / q->sessions;
        if (!row_fits(row, q))
            row->verdict = FIT_NO;
        else if (row->asked.total + row->vision > q->budget / 8 * 7)
            row->verdict = FIT_TIGHT;
        else
            row->verdict = decode > 0 && decode < FIT_FAST_ENOUGH ? FIT_SLOW : FIT_COMFORTABLE;
    }
    if (speed == NULL)
        return;
    fit_row *best = (fit_row *)fit_choose(t, false);
    if (best != NULL && best->known != NULL)
        best->verdict = FIT_RECOMMENDED;
}

/* ---- the choice ---- */

/* More than 8 bits per weight double the memory and change few answers. */
static bool row_is_unquantized(const fit_row *row)
{
    return strcasecmp(row->quant, "BF16") == 0 || strcasecmp(row->quant, "F16") == 0 ||
           strcasecmp(row->quant, "F32") == 0;
}

/* Larger is better: can it be used at all, is it fast, how good are its answers. */
static double row_quant_rank(const fit_row *row)
{
    const bool standard = strcasecmp(row->quant, row->known->standard) == 0;
    const bool affordable = row->speed.decode >= FIT_FAST && row->context >= FIT_ROOMY_CONTEXT &&
                            row->verdict != FIT_TIGHT && !row_is_unquantized(row);
    const double size = (double)row->asked.weights / 1e12; /* below 1 */
    if (affordable && row->asked.weights > 0)
        return 4 + size;
    if (standard && row->verdict != FIT_TIGHT)
        return 3;
    if (row->verdict != FIT_TIGHT && !row_is_unquantized(row))
        return 1 + size;
    return standard ? 2 : size;
}

const fit_row *fit_choose_quant(const fit_table *t, const known_model *known, bool installed)
{
    const fit_row *best = NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        const fit_row *row = &t->rows[i];
        if (row->known != known || row->verdict == FIT_NO || (installed && row->installed == NULL))
            continue;
        if (best == NULL || row_quant_rank(row) > row_quant_rank(best))
            best = row;
    }
    return best;
}

static double row_size_rank(const fit_row *row)
{
    const double size = (double)row->known->parameters / 1e15; /* below 1 */
    switch (row->verdict) {
    case FIT_NO: return 0;
    case FIT_SLOW: return row->speed.decode / 1e6;
    case FIT_TIGHT: return row->speed.decode >= FIT_FAST_ENOUGH ? 1 + size : 0;
    case FIT_COMFORTABLE:
    case FIT_RECOMMENDED: break;
    }
    return 2 + size;
}

const fit_row *fit_choose(const fit_table *t, bool installed)
{
    const fit_row *best = NULL;
    for (uint32_t i = 0; i < t->n; i++) {
        const fit_row *row =
            t->rows[i].known != NULL ? fit_choose_quant(t, t->rows[i].known, installed) : NULL;
        if (row != NULL && (best == NULL || row_size_rank(row) > row_size_rank(best)))
            best = row;
    }
    return best;
}
