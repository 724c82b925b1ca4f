/* SPDX-License-Identifier: Apache-2.0 */
/* script_step.h - the acts of a script that are steps or drafts. */
#ifndef MOTE_TESTS_LAW_SCRIPT_STEP_H
#define MOTE_TESTS_LAW_SCRIPT_STEP_H

#include "law/script_model.h"

uint32_t script_any_engine(script *s);
void script_free(script *s, script_live *live);

void script_step(script *s);
/* One item is too long. */
void script_step_overfull(script *s);
void script_step_cancelled(script *s);
/* Some sessions are aborted inside the step. */
void script_step_aborted(script *s);
/* The table has drafts. */
void script_draft(script *s);

#endif
