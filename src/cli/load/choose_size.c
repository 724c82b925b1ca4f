/* SPDX-License-Identifier: Apache-2.0 */
/* choose_size.c - implements choose_size.h. */
#include "cli/load/choose_size.h"

#include "base/ram.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, LIMIT_BYTES = 256 };

static bool speed_path(char out[PATH_BYTES])
{
    return machine_speed_path(out, PATH_BYTES, getenv("MOTE_CACHE"), getenv("XDG_CACHE_HOME"),
                              getenv("HOME"));
}

int machine_speed_find(machine_speed *out, bool *known, const speed_options *options,
                       speed_source source)
{
    char path[PATH_BYTES];
    mote_error err;
    const bool stored = speed_path(path);
    *known = source != SPEED_MEASURED && stored && machine_speed_load(out, path, options);
    if (*known || source == SPEED_STORED)
        return CLI_DONE;
    if (term_progress())
        progress_show("measuring the speed of this machine");
    const mote_status status = machine_speed_measure(out, options, &err);
    progress_clear();
    if (interrupt_pending())
        return interrupt_exit_code();
    if (status != MOTE_OK)
        return msg_error(&err);
    *known = true;
    if (stored && out->streams == 1 && machine_speed_save(out, path, &err) != MOTE_OK)
        msg_detail("the measured speed is not stored: %s", err.text);
    return CLI_DONE;
}

uint64_t machine_budget(uint64_t memory, char *source, size_t room)
{
    ram machine;
    const char *limit = "--memory";
    ram_find(&machine);
    if (memory == 0)
        memory = ram_budget(&machine, 0, &limit);
    snprintf(source, room, "%s", limit);
    return memory;
}

/* ---- the choice ---- */

typedef struct size_choice {
    store *s;
    const char *family;
    fit_table table;
    fit_request request;
    char limit[LIMIT_BYTES]; /* what sets the budget */
    size_choice_from from;
    bool installed; /* the table has installed models only */
} size_choice;

static mote_status choice_add_models(size_choice *c, mote_error *err)
{
    if (c->from == CHOOSE_INSTALLED)
        TRY(fit_add_installed(&c->table, c->s, c->family, &c->request, err));
    c->installed = c->table.n > 0;
    const known_model *row = NULL;
    while (!c->installed && (row = model_family_next(store_known(c->s), c->family, row)) != NULL)
        TRY(fit_add_known(&c->table, c->s, row, NULL, &c->request, err));
    return MOTE_OK;
}

/* One model needs no comparison, so nothing is measured for it. */
static int choice_judge(size_choice *c)
{
    machine_speed speed;
    bool known;
    const speed_options options = {.formats = fit_table_formats(&c->table),
                                   .memory = c->request.budget,
                                   .stop = interrupt_pending};
    const int code = machine_speed_find(&speed, &known, &options,
                                        c->table.n > 1 ? SPEED_STORED_OR_MEASURED : SPEED_STORED);
    if (code == CLI_DONE)
        fit_table_judge(&c->table, known ? &speed : NULL, &c->request);
    return code;
}

static const char *choice_reason(const size_choice *c, const fit_row *row)
{
    if (c->table.n == 1)
        return c->installed ? "the only one installed" : "the only size";
    if (row->speed.decode >= FIT_FAST_ENOUGH)
        return c->installed ? "the largest installed one that fits and is fast enough"
                            : "the largest one that fits and is fast enough";
    return c->installed ? "the fastest installed one" : "the fastest one that fits";
}

static int choice_finish(const size_choice *c, char out[CHOSEN_NAME_BYTES])
{
    char need[TEXT_NUMBER_BYTES], budget[TEXT_NUMBER_BYTES], rate[TEXT_NUMBER_BYTES], speed[96];
    const fit_row *row = fit_choose(&c->table, false);
    text_bytes(budget, c->request.budget);
    if (row == NULL && c->installed)
        row = &c->table.rows[0]; /* loading it says what does not fit */
    if (row == NULL)
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY),
                        "no size of %s fits: available are %s (%s); mote fit lists what each needs",
                        c->family, budget, c->limit);
    snprintf(out, CHOSEN_NAME_BYTES, "%s", row->name);
    snprintf(speed, sizeof speed, ", about %s tokens/s", text_rate(rate, row->speed.decode));
    msg_note("%s: %s %s, %s: %s of %s%s", c->family, row->name, row->quant, choice_reason(c, row),
             text_bytes(need, row->asked.total + row->vision), budget,
             row->speed.decode > 0 ? speed : "");
    return CLI_DONE;
}

int choose_size(char out[CHOSEN_NAME_BYTES], store *s, const char *family, size_choice_from from,
                uint64_t memory)
{
    mote_error err;
    size_choice c = {.s = s, .family = family, .from = from, .request = {.sessions = 1}};
    c.request.budget = machine_budget(memory, c.limit, sizeof c.limit);
    int code = choice_add_models(&c, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
    if (code == CLI_DONE && c.table.n == 0)
        code = msg_fail(CLI_NO_MODEL, "not_found", "no model of the family %s is known", family);
    if (code == CLI_DONE)
        code = choice_judge(&c);
    if (code == CLI_DONE)
        code = choice_finish(&c, out);
    fit_table_fini(&c.table);
    return code;
}
