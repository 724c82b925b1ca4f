/* SPDX-License-Identifier: Apache-2.0 */
/* serve_models.c - see serve_models.h. */
#include "cli/serve/serve_models.h"

#include "base/mem.h"
#include "cli/load/media_files.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "media/sandbox/decoder.h"
#include "server/models/model_match.h"

#include <stdio.h>
#include <string.h>

/* Requests select a model by name, so names must be unique. */
static int models_check_names(const serve_models *m)
{
    if (m->n != 1 && m->name != NULL)
        return msg_usage("--name needs a single model; with several, names come from the files");
    if (m->n != 1 && m->mmproj != NULL && strcmp(m->mmproj, "none") != 0)
        return msg_usage(
            "--mmproj FILE needs a single model; with several, each uses the mmproj file in "
            "its directory (--mmproj none: text only)");
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < i; k++)
            if (model_names_clash(m->found[i].name, m->found[k].name))
                return msg_usage("%s and %s would both be named %s; rename one of the files",
                                 m->arguments[k], m->arguments[i], m->found[i].name);
    return CLI_DONE;
}

static int models_find(serve_models *m)
{
    int code = CLI_DONE;
    m->found = mem_new(m->n + 1, sizeof *m->found);
    if (m->found == NULL)
        return msg_no_memory("the models");
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++) {
        const char *aliased = config_alias(m->catalog.config, m->arguments[i]);
        code = find_model(&m->found[i], aliased != NULL ? aliased : m->arguments[i]);
        if (aliased != NULL)
            snprintf(m->found[i].name, sizeof m->found[i].name, "%s", m->arguments[i]);
    }
    return code;
}

static int models_find_mmproj(const serve_models *m, size_t i, char mmproj[MMPROJ_PATH_BYTES])
{
    char why[MMPROJ_WHY_BYTES];
    const bool found = find_mmproj(mmproj, why, &m->found[i], m->mmproj);
    if (!found && m->n > 1)
        return msg_usage(
            "%s: %s (with several models, only --mmproj none is possible: put each model "
            "and its mmproj file into a directory)",
            m->arguments[i], why);
    if (!found)
        return msg_usage("%s", why);
    if (why[0] != '\0' && m->n > 1)
        msg_note("%s: %s", m->arguments[i], why);
    else if (why[0] != '\0')
        msg_note("%s", why);
    return CLI_DONE;
}

static int models_open_one(serve_models *m, size_t i)
{
    char mmproj[MMPROJ_PATH_BYTES];
    mote_error err;
    int code = models_find_mmproj(m, i, mmproj);
    if (code != CLI_DONE)
        return code;
    const bool vision = mmproj[0] != '\0';
    if (vision && m->fork_server == NULL && fork_server_start(&m->fork_server, &err) != MOTE_OK)
        return msg_error(&err);
    code = load_model(&m->on[i], &m->found[i], vision ? mmproj : NULL, m->isa);
    if (code != CLI_DONE && vision && m->n > 1)
        msg_note(
            "%s was opened with the vision encoder %s of its directory: put each model and its "
            "mmproj file into a directory, or use --mmproj none",
            m->arguments[i], mmproj);
    return code;
}

/* Reads [NAME:]FILE[=SCALE]. A name has no '/': "./a:b" is a file. */
static bool lora_read_flag(const char *given, served_lora *out, char path[LORA_PATH_BYTES])
{
    const char *colon = strchr(given, ':');
    const size_t n = colon != NULL ? (size_t)(colon - given) : 0;
    const bool named = n > 0 && memchr(given, '/', n) == NULL && n < sizeof out->name;
    if (!lora_flag_split(named ? colon + 1 : given, path, &out->scale))
        return false;
    snprintf(out->name, sizeof out->name, "%.*s", named ? (int)n : 0, given);
    return true;
}

/* Without a given name: that of the file or directory, without ".gguf". */
static void lora_default_name(served_lora *l, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t first = end;
    while (first > 0 && path[first - 1] != '/')
        first--;
    if (end - first > 5 && memcmp(path + end - 5, ".gguf", 5) == 0)
        end -= 5;
    snprintf(l->name, sizeof l->name, "%.*s", (int)(end - first), path + first);
}

static int models_open_lora(serve_models *m, const char *given)
{
    char path[LORA_PATH_BYTES];
    mote_error err;
    served_lora *l = &m->loras[m->n_loras];
    if (!lora_read_flag(given, l, path))
        return msg_usage(
            "--lora must be [NAME:]FILE[=SCALE] with a scale of -100 to 100 other than "
            "0, got %.300s",
            given);
    if (l->name[0] == '\0')
        lora_default_name(l, path);
    if (!str_has_only(str_of(l->name), "._-"))
        return msg_usage("the name '%s' of an adapter must have letters, digits and ._- only (try: "
                         "--lora NAME:%.300s)",
                         l->name, path);
    for (size_t i = 0; i < m->n_loras; i++)
        if (strcmp(m->loras[i].name, l->name) == 0)
            return msg_usage("two adapters have the name %s (try: --lora NAME:%.300s)", l->name,
                             path);
    mote_lora *lora;
    if (mote_lora_open(&lora, m->on[0].model, path, &err) != MOTE_OK)
        return load_failed(path, &err);
    l->lora = m->opened_loras[m->n_loras++] = lora;
    return CLI_DONE;
}

_Static_assert((int)FLAG_LIST_MAX <= (int)SERVED_MAX_LORAS, "one for each --lora");

/* Opens the adapters, which belong to the only model. */
static int models_open_loras(serve_models *m)
{
    int code = CLI_DONE;
    if (m->lora_files == NULL)
        return CLI_DONE;
    if (m->lora_files->n > 0 && m->n != 1)
        return msg_usage("--lora needs a single model: name it");
    for (size_t i = 0; i < m->lora_files->n && code == CLI_DONE; i++)
        code = models_open_lora(m, m->lora_files->items[i]);
    return code;
}

/* Bytes of all mapped files. */
static uint64_t models_mapped_bytes(const serve_models *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        mote_model_info info;
        mote_model_describe(m->on[i].model, &info);
        sum += info.file_bytes + info.vision_file_bytes + info.draft_file_bytes;
    }
    return sum;
}

/* True: the only model fits with few KV positions. The scheduler decides about several. */
static bool models_plan_fits(const serve_models *m, const sched_options *o, uint64_t memory)
{
    enum { PARALLEL = 8, POSITIONS = 1024 }; /* as sched/memory_plan.c */
    const uint32_t parallel = o->parallel > 0 ? o->parallel : PARALLEL;
    const mote_engine_options engine = {.threads = o->threads,
                                        .sessions = parallel + 2,
                                        .positions =
                                            o->context > POSITIONS ? o->context : POSITIONS,
                                        .shared_positions = true,
                                        .kept_states = 2,
                                        .logits_rows = parallel,
                                        .kv = o->kv,
                                        .yarn = o->yarn};
    mote_memory plan;
    return m->n != 1 || mote_engine_plan(m->on[0].model, &engine, &plan, NULL) != MOTE_OK ||
           plan.total <= memory;
}

/* Limits the plan to --memory, or else to the memory that is available. Called before the files are
 * read: a model that does not fit is refused at once, except one with experts, which then reads
 * some of them from disk. */
static int models_limit_memory(const serve_models *m, sched_options *o, uint64_t given)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    const char *source;
    const uint64_t mapped = models_mapped_bytes(m);
    const uint64_t budget = ram_budget(&m->ram, mapped, &source);
    if (given > 0 && given > budget)
        msg_note("--memory %s exceeds the %s available (%s); the machine may run out of memory",
                 text_bytes(a, given), text_bytes(b, budget), source);
    o->memory = given;
    if (given == 0 && budget == UINT64_MAX)
        return CLI_DONE;
    if (given == 0) {
        o->memory = budget;
        o->memory_source = source;
    }
    if (!models_plan_fits(m, o, o->memory) &&
        load_limit_experts(m->on[0].model, mapped, o->memory, given > 0 ? "--memory" : source,
                           &o->expert_memory))
        return CLI_DONE;
    if (given > 0 || mapped < budget)
        return CLI_DONE; /* the scheduler refuses it if there is no plan */
    return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                    "the weights need %s, %s are available (%s); use a smaller model, or set "
                    "--memory to try anyway",
                    text_bytes(a, mapped), text_bytes(b, budget), source);
}

int serve_models_open(serve_models *m, server_options *o, uint64_t memory)
{
    ram_find(&m->ram);
    int code = models_find(m);
    if (code == CLI_DONE)
        code = models_check_names(m);
    for (size_t i = 0; i < m->n && code == CLI_DONE; i++) {
        code = models_open_one(m, i);
        o->models[o->n_models++] =
            (model_to_serve){.model = m->on[i].model,
                             .path = m->found[i].path,
                             .name = m->name != NULL ? m->name : m->found[i].name};
    }
    o->fork_server = m->fork_server;
    if (code == CLI_DONE)
        code = models_open_loras(m);
    o->models[0].loras = m->loras;
    o->models[0].n_loras = m->n_loras;
    if (code == CLI_DONE)
        code = models_limit_memory(m, &o->sched, memory);
    /* With experts on disk, what is read ahead would be evicted again. */
    for (size_t i = 0; i < m->n && code == CLI_DONE && o->sched.expert_memory == 0; i++)
        code = load_prefault(&m->on[i], UINT64_MAX);
    return code;
}

int serve_models_open_catalog(serve_models *m, server_options *o, uint64_t memory, bool pull)
{
    mote_error err;
    const char *source = NULL;
    ram_find(&m->ram);
    int code = models_check_names(m);
    if (code == CLI_DONE)
        code = models_open_loras(m);
    if (code == CLI_DONE && pull)
        code = serve_pull_open(&m->pull, &o->pull);
    if (code == CLI_DONE)
        code = serve_catalog_open(&m->catalog);
    if (code != CLI_DONE)
        return code;
    const uint64_t budget = ram_budget(&m->ram, 0, &source);
    /* With a source, a plan has its default size instead of all of the memory. */
    o->sched.memory_source = memory > 0 ? "--memory" : source;
    o->sched.memory = memory > 0 ? memory : budget < UINT64_MAX ? budget : 0;
    o->catalog = (model_catalog){.list = serve_catalog_list, .with = &m->catalog};
    o->isa = m->isa;
    o->directories = (const char *const *)m->catalog.directories;
    o->n_directories = m->catalog.n;
    const bool images = m->mmproj == NULL;
    if (images && fork_server_start(&m->fork_server, &err) != MOTE_OK)
        return msg_error(&err);
    o->fork_server = m->fork_server;
    return CLI_DONE;
}

void serve_models_close(serve_models *m)
{
    mem_free(m->found);
    serve_catalog_close(&m->catalog);
    serve_pull_close(&m->pull);
    for (size_t i = 0; i < m->n_loras; i++)
        mote_lora_close(m->opened_loras[i]);
    for (size_t i = 0; i < m->n; i++)
        load_close(&m->on[i]);
    fork_server_stop(m->fork_server);
}
