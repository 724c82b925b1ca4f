/* SPDX-License-Identifier: Apache-2.0 */
/* openai_common.c - JSON that the routes of the OpenAI API share. */
#include "server/api/common/error_format.h"
#include "server/api/openai/openai.h"

const char *openai_finish(stop_cause cause)
{
    if (cause == STOP_CALLS)
        return "tool_calls";
    return cause == STOP_EOS || cause == STOP_TEXT ? "stop" : "length";
}

void openai_put_head(generation *w, const char *object, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "object", object);
    jw_key_int(out, "created", w->created);
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key_text(out, "system_fingerprint", served_model_fingerprint(w->request.served));
}

void openai_failed(generation *w, const http_error *error)
{
    error_format_print(error, API_OPENAI, w->request_id, &w->out);
    generation_send_sse(w, NULL);
}
