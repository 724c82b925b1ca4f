/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script_model.h - where the sessions of a script must stand and what they must hold.
 *
 * A second, slower account of the engine's books: every page has a name, a session is
 * a list of names, and a page is in use as long as some list has it. What the engine
 * counts by references must come to the same.
 */
#ifndef MOTE_TESTS_LAW_SCRIPT_MODEL_H
#define MOTE_TESTS_LAW_SCRIPT_MODEL_H

#include "law/script.h"

/* A line of the script, for the message if something breaks. */
void script_note(script *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the script, the message and how to replay it, and ends the program. */
void script_broken(script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* The length and the tokens of a session. */
void script_check_standing(script *s, const script_live *live, const char *after);
/* Positions in use, sessions, and the marks of each, as the engines say. */
void script_check_use(script *s);

/* n tokens more. */
void script_advance(script *s, script_live *live, uint64_t n);
/* Has the engine the pages for this step? */
bool script_fits(const script *s, uint32_t engine, script_live *const *live, const mote_work *work,
                 size_t n);
/* Has the engine the pages for drafts that write positions below end[i] (0: none)? If so, the
 * sessions get their last pages for themselves. */
bool script_draft_fits(script *s, uint32_t engine, script_live *const *live, const uint64_t *end,
                       size_t n);
/* Names the pages of a session that is about to be loaded; false: there are not so many. */
bool script_load_fits(script *s, script_live *loaded);

#endif
