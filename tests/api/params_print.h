/* SPDX-License-Identifier: Apache-2.0 */
/* params_print.h - prints the parameter table of params.h. */
#ifndef MOTE_TESTS_API_PARAMS_PRINT_H
#define MOTE_TESTS_API_PARAMS_PRINT_H

#include "base/str.h"

/* As the Markdown table of docs/api.md. */
void params_print(strbuf *out);
/* As JSON, for the Python tests. */
void params_print_json(strbuf *out);

#endif
