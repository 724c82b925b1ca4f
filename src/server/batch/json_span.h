/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_span.h - where a member of a JSON object stands in its text.
 *
 * A batch file has many long lines of which a few members matter before the request runs. These
 * functions find them without a document and without a copy. They accept some texts that are not
 * JSON; the route that gets the text parses it strictly.
 */
#ifndef MOTE_SERVER_BATCH_JSON_SPAN_H
#define MOTE_SERVER_BATCH_JSON_SPAN_H

#include "base/str.h"

#include <stdint.h>

/* The text of a member, with the quotes of a string; of several with this name the last. false:
 * there is none, or the text is not an object. `name` is ASCII; escapes in the text are decoded. */
bool json_span_member(str object, const char *name, str *value);
/* Is the text one object, with nothing but white space around it? */
bool json_span_is_object(str text);
/* A member that is a whole number; 0: it is not. */
uint64_t json_span_count(str object, const char *name);
/* Does a value that json_span_member() found equal this ASCII string, its escapes decoded? */
bool json_span_is_string(str value, const char *text);

#endif
