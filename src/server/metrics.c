/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - counting requests and printing series. See metrics.h. */
#include "server/metrics.h"

#include <stdarg.h>
#include <stdio.h>

void request_counts_add(request_counts *c, api_dialect dialect, const char *label, int status)
{
    for (size_t i = 0; i < c->n; i++) {
        struct request_count *row = &c->rows[i];
        if (row->dialect == dialect && row->status == status && strcmp(row->label, label) == 0) {
            row->n++;
            return;
        }
    }
    if (c->n == METRICS_MAX_COUNTS) {
        c->beyond++;
        return;
    }
    c->rows[c->n++] = (struct request_count){dialect, label, status, 1};
}

/* ---- lines ---- */

static void put(strbuf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(strbuf *out, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0)
        strbuf_put(out, (str){line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1});
}

static void family(strbuf *out, const char *name, const char *type, const char *help)
{
    put(out, "# HELP mote_%s %s\n", name, help);
    put(out, "# TYPE mote_%s %s\n", name, type);
}

static void counter(strbuf *out, const char *name, uint64_t value, const char *help)
{
    family(out, name, "counter", help);
    put(out, "mote_%s %llu\n", name, (unsigned long long)value);
}

static void gauge(strbuf *out, const char *name, double value, const char *help)
{
    family(out, name, "gauge", help);
    put(out, "mote_%s %.17g\n", name, value);
}

/* One series of a family with one label. */
static void labelled(strbuf *out, const char *name, const char *label, const char *value,
                     uint64_t n)
{
    put(out, "mote_%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)n);
}

/* The name of a model may hold anything; the format wants three characters escaped. */
static void put_label_text(strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            strbuf_text(out, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            strbuf_byte(out, '\\');
        strbuf_byte(out, *text);
    }
}

static void histogram(strbuf *out, const char *name, const sched_histogram *h, const char *help)
{
    uint64_t below = 0;
    double bound = SCHED_BUCKET_FIRST;
    family(out, name, "histogram", help);
    for (size_t i = 0; i + 1 < SCHED_BUCKETS; i++, bound *= 2) {
        below += h->count[i];
        put(out, "mote_%s_bucket{le=\"%g\"} %llu\n", name, bound, (unsigned long long)below);
    }
    /* All buckets come from one reading, so that the last one is the count whatever goes on. */
    below += h->count[SCHED_BUCKETS - 1];
    put(out, "mote_%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)below);
    put(out, "mote_%s_sum %.17g\n", name, h->sum);
    put(out, "mote_%s_count %llu\n", name, (unsigned long long)below);
}

/* ---- families ---- */

static const char *dialect_name(api_dialect dialect)
{
    static const char *const names[] = {"openai", "anthropic", "ollama"};
    return names[dialect];
}

static void put_requests(strbuf *out, const metrics_view *v)
{
    const request_counts *c = v->counts;
    family(out, "requests_total", "counter", "Requests that are over; 499: the client left first.");
    for (size_t i = 0; i < c->n; i++)
        put(out, "mote_requests_total{dialect=\"%s\",route=\"%s\",status=\"%d\"} %llu\n",
            dialect_name(c->rows[i].dialect), c->rows[i].label, c->rows[i].status,
            (unsigned long long)c->rows[i].n);
    if (c->beyond > 0)
        put(out, "mote_requests_total{dialect=\"other\",route=\"other\",status=\"other\"} %llu\n",
            (unsigned long long)c->beyond);
    counter(out, "schema_requests_total", v->door.forms,
            "Requests answered in a form they had asked for.");
    family(out, "rejected_total", "counter",
           "What was turned away before any work was done for it.");
    labelled(out, "rejected_total", "reason", "queue_full", v->work.refused_full);
    labelled(out, "rejected_total", "reason", "connection", v->door.refused_connections);
    labelled(out, "rejected_total", "reason", "door", v->door.refused_requests);
    family(out, "cancelled_total", "counter",
           "Answers whose client left, by what they were doing.");
    labelled(out, "cancelled_total", "phase", "queued", v->work.canceled_queued);
    labelled(out, "cancelled_total", "phase", "reading", v->work.canceled_reading);
    labelled(out, "cancelled_total", "phase", "writing", v->work.canceled_writing);
}

static void put_tokens(strbuf *out, const sched_figures *f)
{
    counter(out, "answers_total", f->finished, "Answers that came to their end.");
    counter(out, "prompt_tokens_total", f->prompt_tokens,
            "Tokens of prompts, reused ones included.");
    family(out, "cached_tokens_total", "counter", "Tokens of prompts that were not read again.");
    labelled(out, "cached_tokens_total", "tier", "live", f->reused_live_tokens);
    labelled(out, "cached_tokens_total", "tier", "ram", f->reused_ended_tokens);
    counter(out, "read_tokens_total", f->read_tokens, "Tokens of prompts that were read.");
    counter(out, "generated_tokens_total", f->written_tokens, "Tokens written, thinking included.");
    counter(out, "thinking_tokens_total", f->think_tokens, "Tokens written while thinking.");
    counter(out, "tool_calls_total", f->calls, "Calls of tools that answers asked for.");
    counter(out, "loops_detected_total", f->loops_found, "Answers found to repeat themselves.");
    counter(out, "loops_recovered_total", f->loops_left, "Of these, how many got out of it.");
    counter(out, "put_back_total", f->put_back,
            "Answers put back for want of room, to go on later.");
}

static void put_batches(strbuf *out, const sched_figures *f)
{
    counter(out, "steps_total", f->steps, "Passes through the model.");
    counter(out, "step_rows_total", f->step_rows,
            "Tokens in all passes; by passes: the batch size.");
    counter(out, "step_prompt_rows_total", f->prompt_rows, "Of these, tokens of prompts.");
    family(out, "step_seconds_total", "counter",
           "Time in passes; of all time: how busy the engine is.");
    put(out, "mote_step_seconds_total %.17g\n", f->step_seconds);
    gauge(out, "queue_length", f->queued, "Requests that wait to begin.");
    family(out, "sequences_active", "gauge", "Answers at work, by what they are doing.");
    labelled(out, "sequences_active", "phase", "reading", f->reading);
    labelled(out, "sequences_active", "phase", "writing", f->writing);
    gauge(out, "sequences_limit", f->parallel, "Answers that can be at work at once.");
    gauge(out, "sequences_kept", f->ended_kept, "Ended conversations kept for their beginnings.");
    gauge(out, "positions_limit", (double)f->positions_total,
          "Tokens that all conversations can hold.");
    gauge(out, "positions_free", (double)f->positions_free, "How many more they can hold now.");
    gauge(out, "states_limit", (double)f->states_total, "Recurrent states that can be kept.");
    gauge(out, "states_used", (double)f->states_used, "Recurrent states that are kept.");
}

static void put_memory(strbuf *out, const metrics_view *v)
{
    family(out, "memory_bytes", "gauge", "Memory by what it holds, as planned at the start.");
    labelled(out, "memory_bytes", "kind", "weights", v->memory.weights);
    labelled(out, "memory_bytes", "kind", "model", v->memory.model);
    labelled(out, "memory_bytes", "kind", "kv", v->memory.pages);
    labelled(out, "memory_bytes", "kind", "state", v->memory.states);
    labelled(out, "memory_bytes", "kind", "scratch", v->memory.scratch);
    if (v->sees)
        labelled(out, "memory_bytes", "kind", "vision", v->memory_vision);
    labelled(out, "memory_bytes", "kind", "requests", v->door.body_bytes);
    if (v->memory_limit > 0)
        gauge(out, "memory_limit_bytes", (double)v->memory_limit, "What --memory allows.");
}

static void put_pictures(strbuf *out, const sight_figures *f)
{
    counter(out, "pictures_total", f->asked, "Pictures and films of requests that had their turn.");
    counter(out, "pictures_found_total", f->found, "Of these, how many had been seen before.");
    counter(out, "pictures_looked_total", f->looked, "How many the tower looked at.");
    counter(out, "pictures_failed_total", f->failed, "How many could not be read, or had no room.");
    family(out, "picture_seconds_total", "counter", "Time spent on pictures, by all threads.");
    put(out, "mote_picture_seconds_total %.17g\n", f->seconds);
    gauge(out, "pictures_waiting", f->waiting, "Requests that wait to have theirs looked at.");
    gauge(out, "pictures_kept", f->kept, "Pictures and films that are held.");
    gauge(out, "picture_bytes", (double)f->bytes, "Memory that they take.");
}

static void put_door(strbuf *out, const metrics_view *v)
{
    gauge(out, "connections", v->door.connections, "Open connections.");
    gauge(out, "loop_lag_seconds", v->door.loop_longest_lately,
          "Longest turn of the network thread within the last two seconds.");
    gauge(out, "loop_lag_max_seconds", v->door.loop_longest, "Longest turn since the start.");
    counter(out, "loop_slow_turns_total", v->door.loop_over_20_ms, "Turns that took over 20 ms.");
    gauge(out, "model_loaded", 1, "A model is ready to answer.");
    gauge(out, "draining", v->draining, "1 while the server finishes its work before it stops.");
    gauge(out, "uptime_seconds", v->uptime, "Since the server was started.");
}

static void put_info(strbuf *out, const metrics_view *v)
{
    family(out, "build_info", "gauge", "What runs here.");
    put(out, "mote_build_info{version=\"%s\",isa=\"%s\"} 1\n", v->version, v->isa);
    family(out, "model_info", "gauge", "The model that answers.");
    strbuf_text(out, "mote_model_info{model=\"");
    put_label_text(out, v->model);
    strbuf_text(out, "\"} 1\n");
}

void metrics_print(strbuf *out, const metrics_view *v)
{
    put_info(out, v);
    put_requests(out, v);
    put_tokens(out, &v->work);
    put_batches(out, &v->work);
    put_memory(out, v);
    if (v->sees)
        put_pictures(out, &v->sight);
    put_door(out, v);
    histogram(out, "queue_seconds", &v->work.queue_seconds, "Waiting to begin.");
    histogram(out, "prefill_seconds", &v->work.reading_seconds, "Reading the prompt.");
    histogram(out, "first_token_seconds", &v->work.first_token_seconds,
              "From the request to its first token.");
    histogram(out, "inter_token_seconds", &v->work.between_seconds,
              "Between two tokens of one answer.");
    histogram(out, "request_seconds", &v->work.request_seconds, "From the request to its end.");
}
