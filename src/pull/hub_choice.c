/* SPDX-License-Identifier: Apache-2.0 */
/* hub_choice.c - implements hub_choice.h, with the rule of store/hub_files.h. */
#include "pull/hub_choice.h"

#include "base/mem.h"
#include "store/hub_files.h"

#include <stdio.h>

static mote_status choice_add(pull *p, const listing_entry *e, mote_error *err)
{
    for (size_t i = 0; i < p->n_files; i++)
        if (strcmp(p->files[i].path, e->path) == 0)
            return MOTE_OK;
    if (p->n_files == PULL_FILES_MAX)
        return pull_fail(p, PULL_BAD_REPLY, err, "a model has at most %d files", PULL_FILES_MAX);
    pull_file *f = &p->files[p->n_files++];
    snprintf(f->path, sizeof f->path, "%s", e->path);
    memcpy(f->hash, e->hash, sizeof f->hash);
    f->size = e->size;
    return MOTE_OK;
}

static mote_status choose_exactly(pull *p, const listing *l, mote_error *err)
{
    for (size_t i = 0; i < p->request.n_files; i++) {
        uint32_t at = 0;
        while (at < l->n && strcmp(l->entries[at].path, p->request.files[i]) != 0)
            at++;
        if (at == l->n)
            return pull_fail(p, PULL_NOT_FOUND, err, "the repository %s has no file %.300s",
                             p->request.repo, p->request.files[i]);
        TRY(choice_add(p, &l->entries[at], err));
    }
    return MOTE_OK;
}

/* The row of a known model, as far as the choice needs it. */
static bool row_of_request(known_model *row, const pull_request *r)
{
    const char *const texts[] = {r->weights, r->mmproj, r->mtp};
    char *const to[] = {row->file, row->mmproj, row->mtp};
    for (size_t i = 0; i < 3; i++)
        if (texts[i] != NULL &&
            snprintf(to[i], KNOWN_PATH_BYTES, "%s", texts[i]) >= KNOWN_PATH_BYTES)
            return false;
    return true;
}

static mote_status choose_model(pull *p, const listing *l, const hub_file *files,
                                hub_choice *choice, mote_error *err)
{
    const pull_request *r = &p->request;
    const char *quant = r->quant != NULL ? r->quant : "";
    known_model row = {0};
    mote_error why;
    if (!row_of_request(&row, r))
        return pull_fail(p, PULL_BAD_REQUEST, err, "a file name of the request is too long");
    const mote_status status = row.file[0] != '\0'
                                   ? hub_choose_known(choice, files, l->n, &row, quant, &why)
                                   : hub_choose_files(choice, files, l->n, quant, &why);
    if (status == MOTE_OK)
        return MOTE_OK;
    if (l->invalid > 0) /* perhaps the file was among them */
        return pull_fail(p, PULL_BAD_REPLY, err,
                         "the repository %s: %s; files with an invalid name or size: %u", r->repo,
                         why.text, l->invalid);
    return pull_fail(p, status == MOTE_E_ARG ? PULL_NOT_FOUND : PULL_BAD_REPLY, err,
                     "the repository %s: %s", r->repo, why.text);
}

static mote_status take_choice(pull *p, const listing *l, const hub_choice *choice, mote_error *err)
{
    for (uint32_t i = 0; i < choice->n_weights; i++)
        TRY(choice_add(p, &l->entries[choice->weights[i]], err));
    if (choice->mmproj != HUB_NO_FILE)
        TRY(choice_add(p, &l->entries[choice->mmproj], err));
    if (choice->mtp != HUB_NO_FILE)
        TRY(choice_add(p, &l->entries[choice->mtp], err));
    return MOTE_OK;
}

/* All files that a conversion needs. */
static mote_status choose_checkpoint(pull *p, const listing *l, mote_error *err)
{
    bool config = false, weights = false;
    for (uint32_t i = 0; i < l->n; i++) {
        const str path = str_of(l->entries[i].path);
        config |= str_is(path, "config.json");
        weights |= path.n > 12 && memcmp(path.p + path.n - 12, ".safetensors", 12) == 0;
        TRY(choice_add(p, &l->entries[i], err));
    }
    if (config && weights)
        return MOTE_OK;
    return pull_fail(p, PULL_NOT_FOUND, err,
                     "the repository %s has no %s; --quantize needs the Safetensors files of a "
                     "model, such as those of hf:Qwen/Qwen3.5-4B",
                     p->request.repo, weights ? "config.json" : "model*.safetensors");
}

mote_status hub_choose(pull *p, const listing *l, mote_error *err)
{
    static hub_choice choice;
    if (p->request.checkpoint)
        return choose_checkpoint(p, l, err);
    if (p->request.n_files > 0)
        return choose_exactly(p, l, err);
    hub_file *files = mem_new(l->n, sizeof *files);
    if (files == NULL)
        return pull_fail(p, PULL_NO_MEMORY, err, "out of memory for the list of files");
    for (uint32_t i = 0; i < l->n; i++)
        files[i] = (hub_file){l->entries[i].path, l->entries[i].size};
    mote_status status = choose_model(p, l, files, &choice, err);
    if (status == MOTE_OK)
        status = take_choice(p, l, &choice, err);
    mem_free(files);
    return status;
}
