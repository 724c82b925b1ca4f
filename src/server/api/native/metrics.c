/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - counting requests and printing series. See metrics.h. */
#include "server/api/native/native.h"

#include <stdarg.h>
#include <stddef.h>
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

/* `mote_NAME{model="...",MORE} `, after which the value stands. */
static void put_of_model(strbuf *out, const char *name, const metrics_model *m, const char *more)
{
    put(out, "mote_%s{model=\"", name);
    put_label_text(out, m->name);
    put(out, "\"%s%s} ", more[0] != '\0' ? "," : "", more);
}

/* ---- what every model has ---- */

/* A series: where in metrics_model it stands, and as what. */
typedef struct model_row {
    const char *name; /* of its family; NULL: that of the row before */
    const char *help;
    const char *label; /* beside the model's, or "" */
    size_t at;
    enum { ROW_U64, ROW_U32, ROW_REAL } kind;
    bool gauge;
} model_row;

static void put_row_value(strbuf *out, const model_row *r, const metrics_model *m)
{
    const char *at = (const char *)m + r->at;
    switch (r->kind) {
    case ROW_U64:
        put(out, "%llu\n", (unsigned long long)*(const uint64_t *)(const void *)at);
        break;
    case ROW_U32: put(out, "%u\n", (unsigned)*(const uint32_t *)(const void *)at); break;
    case ROW_REAL: put(out, "%.17g\n", *(const double *)(const void *)at); break;
    }
}

/* Of all models, or of those that see. */
static void put_rows(strbuf *out, const metrics_view *v, const model_row *rows, size_t n,
                     bool only_seeing)
{
    const char *name = NULL;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].name != NULL) {
            name = rows[i].name;
            family(out, name, rows[i].gauge ? "gauge" : "counter", rows[i].help);
        }
        for (size_t k = 0; k < v->n_models; k++) {
            if (only_seeing && !v->models[k].sees)
                continue;
            put_of_model(out, name, &v->models[k], rows[i].label);
            put_row_value(out, &rows[i], &v->models[k]);
        }
    }
}

static void histogram_of(strbuf *out, const char *name, const metrics_model *m,
                         const sched_histogram *h)
{
    uint64_t below = 0;
    double bound = SCHED_BUCKET_FIRST;
    char whole[64], label[32];
    snprintf(whole, sizeof whole, "%s_bucket", name);
    for (size_t i = 0; i + 1 < SCHED_BUCKETS; i++, bound *= 2) {
        below += h->count[i];
        snprintf(label, sizeof label, "le=\"%g\"", bound);
        put_of_model(out, whole, m, label);
        put(out, "%llu\n", (unsigned long long)below);
    }
    /* All buckets come from one reading, so that the last one is the count whatever goes on. */
    below += h->count[SCHED_BUCKETS - 1];
    put_of_model(out, whole, m, "le=\"+Inf\"");
    put(out, "%llu\n", (unsigned long long)below);
    snprintf(whole, sizeof whole, "%s_sum", name);
    put_of_model(out, whole, m, "");
    put(out, "%.17g\n", h->sum);
    snprintf(whole, sizeof whole, "%s_count", name);
    put_of_model(out, whole, m, "");
    put(out, "%llu\n", (unsigned long long)below);
}

/* `at`: of a sched_histogram in metrics_model. */
static void histogram(strbuf *out, const metrics_view *v, const char *name, size_t at,
                      const char *help)
{
    family(out, name, "histogram", help);
    for (size_t k = 0; k < v->n_models; k++) {
        const char *m = (const char *)&v->models[k];
        histogram_of(out, name, &v->models[k], (const sched_histogram *)(const void *)(m + at));
    }
}

/* ---- families ---- */

#define AT(member) offsetof(metrics_model, member)
/* clang-format off */
static const model_row work_rows[] = {
    {"requests_aborted_total", "Requests whose client disconnected, by phase.", "phase=\"queued\"", AT(work.canceled_queued), ROW_U64, false},
    {NULL, NULL, "phase=\"prefill\"", AT(work.canceled_prefill), ROW_U64, false},
    {NULL, NULL, "phase=\"decode\"", AT(work.canceled_decode), ROW_U64, false},
    {"generations_completed_total", "Generations that ended by themselves or by a limit.", "", AT(work.finished), ROW_U64, false},
    {"prompt_tokens_total", "Prompt tokens, including those found in the prefix cache.", "", AT(work.prompt_tokens), ROW_U64, false},
    {"prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache.", "tier=\"live\"", AT(work.reused_live_tokens), ROW_U64, false},
    {NULL, NULL, "tier=\"ram\"", AT(work.reused_idle_tokens), ROW_U64, false},
    {"prefill_tokens_total", "Prompt tokens computed by prefill.", "", AT(work.prefill_tokens), ROW_U64, false},
    {"generated_tokens_total", "Tokens generated, including reasoning.", "", AT(work.generated_tokens), ROW_U64, false},
    {"reasoning_tokens_total", "Reasoning tokens generated.", "", AT(work.think_tokens), ROW_U64, false},
    {"tool_calls_total", "Tool calls generated.", "", AT(work.calls), ROW_U64, false},
    {"tool_calls_malformed_total", "Malformed tool calls that were passed on as text.", "", AT(calls_malformed), ROW_U64, false},
    {"repetition_loops_detected_total", "Repetition loops detected.", "", AT(work.loops_detected), ROW_U64, false},
    {"repetition_loops_recovered_total", "Repetition loops that generation left again.", "", AT(work.loops_recovered), ROW_U64, false},
    {"preemptions_total", "Generations preempted because the KV cache was full.", "", AT(work.preempted), ROW_U64, false},
    {"engine_steps_total", "Engine steps (forward passes of a batch).", "", AT(work.steps), ROW_U64, false},
    {"engine_step_tokens_total", "Tokens in all steps; divided by steps: the mean batch size.", "", AT(work.step_rows), ROW_U64, false},
    {"engine_step_prefill_tokens_total", "Prefill tokens in all steps.", "", AT(work.prefill_rows), ROW_U64, false},
    {"engine_step_seconds_total", "Time spent in steps; its rate is the utilisation of the engine.", "", AT(work.step_seconds), ROW_REAL, false},
    {"requests_queued", "Requests waiting in the queue.", "", AT(work.queued), ROW_U32, true},
    {"sequences_running", "Sequences in a slot, by phase.", "phase=\"prefill\"", AT(work.prefilling), ROW_U32, true},
    {NULL, NULL, "phase=\"decode\"", AT(work.decoding), ROW_U32, true},
    {"sequences_limit", "Slots (--parallel).", "", AT(work.parallel), ROW_U32, true},
    {"prefix_cache_sequences", "Idle sequences held in the prefix cache.", "", AT(work.idle_sessions), ROW_U32, true},
    {"kv_cache_capacity_tokens", "Capacity of the KV cache.", "", AT(work.positions_total), ROW_U64, true},
    {"kv_cache_free_tokens", "Free capacity of the KV cache.", "", AT(work.positions_free), ROW_U64, true},
    {"recurrent_states_capacity", "Recurrent-state checkpoints that can be held.", "", AT(work.states_total), ROW_U64, true},
    {"recurrent_states_used", "Recurrent-state checkpoints in use.", "", AT(work.states_used), ROW_U64, true},
};

static const model_row memory_rows[] = {
    {"memory_bytes", "Planned memory of the loaded models, by kind.", "kind=\"weights\"", AT(memory.weights), ROW_U64, true},
    {NULL, NULL, "kind=\"model\"", AT(memory.model), ROW_U64, true},
    {NULL, NULL, "kind=\"kv_cache\"", AT(memory.kv_cache), ROW_U64, true},
    {NULL, NULL, "kind=\"recurrent_state\"", AT(memory.recurrent_state), ROW_U64, true},
    {NULL, NULL, "kind=\"scratch\"", AT(memory.scratch), ROW_U64, true},
};

/* Of those that see. */
static const model_row image_rows[] = {
    {"images_total", "Images and videos processed.", "", AT(vision.asked), ROW_U64, false},
    {"image_cache_hits_total", "Images and videos found in the image cache.", "", AT(vision.found), ROW_U64, false},
    {"images_encoded_total", "Images and videos run through the vision encoder.", "", AT(vision.looked), ROW_U64, false},
    {"images_failed_total", "Images and videos that failed to decode or did not fit in memory.", "", AT(vision.failed), ROW_U64, false},
    {"image_processing_seconds_total", "Time spent decoding and encoding images, all threads.", "", AT(vision.seconds), ROW_REAL, false},
    {"image_requests_queued", "Requests waiting for the vision encoder.", "", AT(vision.waiting), ROW_U32, true},
    {"image_cache_entries", "Images and videos in the image cache.", "", AT(vision.kept), ROW_U32, true},
    {"image_cache_bytes", "Size of the image cache.", "", AT(vision.bytes), ROW_U64, true},
};
/* clang-format on */

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const char *dialect_name(api_dialect dialect)
{
    static const char *const names[] = {"openai", "anthropic", "ollama"};
    return names[dialect];
}

static void put_requests(strbuf *out, const metrics_view *v)
{
    const request_counts *c = v->counts;
    family(out, "http_requests_total", "counter",
           "Finished HTTP requests; code 499: the client disconnected first.");
    for (size_t i = 0; i < c->n; i++)
        put(out, "mote_http_requests_total{dialect=\"%s\",route=\"%s\",code=\"%d\"} %llu\n",
            dialect_name(c->rows[i].dialect), c->rows[i].label, c->rows[i].status,
            (unsigned long long)c->rows[i].n);
    if (c->beyond > 0)
        put(out,
            "mote_http_requests_total{dialect=\"other\",route=\"other\",code=\"other\"} %llu\n",
            (unsigned long long)c->beyond);
    counter(out, "structured_output_requests_total", v->structured_outputs,
            "Requests with a JSON schema, grammar, regex or choice.");
    family(out, "requests_rejected_total", "counter",
           "Connections and requests rejected before any work was done.");
    for (size_t i = 0; i < v->n_models; i++) {
        put_of_model(out, "requests_rejected_total", &v->models[i], "reason=\"queue_full\"");
        put(out, "%llu\n", (unsigned long long)v->models[i].work.refused_full);
    }
    labelled(out, "requests_rejected_total", "reason", "connection_limit",
             v->http.refused_connections);
    labelled(out, "requests_rejected_total", "reason", "http", v->http.refused_requests);
    labelled(out, "requests_rejected_total", "reason", "key_rpm", v->over_quota[QUOTA_REQUESTS]);
    labelled(out, "requests_rejected_total", "reason", "key_tpm", v->over_quota[QUOTA_TOKENS]);
    labelled(out, "requests_rejected_total", "reason", "key_concurrency",
             v->over_quota[QUOTA_PARALLEL]);
}

static void put_memory(strbuf *out, const metrics_view *v)
{
    put_rows(out, v, memory_rows, COUNT(memory_rows), false);
    for (size_t i = 0; i < v->n_models; i++)
        if (v->models[i].sees) {
            put_of_model(out, "memory_bytes", &v->models[i], "kind=\"vision\"");
            put(out, "%llu\n", (unsigned long long)v->models[i].memory_vision);
        }
    labelled(out, "memory_bytes", "kind", "request_bodies", v->http.body_bytes);
    if (v->memory_limit > 0)
        gauge(out, "memory_limit_bytes", (double)v->memory_limit, "The limit set by --memory.");
}

static bool any_sees(const metrics_view *v)
{
    bool sees = false;
    for (size_t i = 0; i < v->n_models; i++)
        sees |= v->models[i].sees;
    return sees;
}

static void put_http_stats(strbuf *out, const metrics_view *v)
{
    gauge(out, "http_connections", v->http.connections, "Open connections.");
    gauge(out, "event_loop_lag_seconds", v->http.loop.longest_recent,
          "Longest event-loop iteration of the last two seconds.");
    gauge(out, "event_loop_lag_max_seconds", v->http.loop.longest,
          "Longest event-loop iteration since the start.");
    counter(out, "event_loop_slow_iterations_total", v->http.loop.over_20_ms,
            "Event-loop iterations over 20 ms.");
    gauge(out, "server_draining", v->draining, "1 while the server drains before it stops.");
    gauge(out, "uptime_seconds", v->uptime, "Time since the server started.");
}

static void put_info(strbuf *out, const metrics_view *v)
{
    family(out, "build_info", "gauge", "Version and instruction set.");
    put(out, "mote_build_info{version=\"%s\",isa=\"%s\"} 1\n", v->version, v->isa);
    family(out, "model_info", "gauge", "The served models.");
    for (size_t i = 0; i < v->n_models; i++) {
        put_of_model(out, "model_info", &v->models[i], "");
        strbuf_text(out, "1\n");
    }
    family(out, "model_loaded", "gauge", "1 if the model is loaded.");
    for (size_t i = 0; i < v->n_models; i++) {
        put_of_model(out, "model_loaded", &v->models[i], "");
        strbuf_text(out, v->models[i].loaded ? "1\n" : "0\n");
    }
}

void metrics_print(strbuf *out, const metrics_view *v)
{
    put_info(out, v);
    put_requests(out, v);
    put_rows(out, v, work_rows, COUNT(work_rows), false);
    put_memory(out, v);
    if (any_sees(v)) {
        put_rows(out, v, image_rows, COUNT(image_rows), true);
        counter(out, "image_decoder_exits_total", v->decoder_exits,
                "Times the image decoder process exited unexpectedly.");
    }
    put_http_stats(out, v);
    histogram(out, v, "request_queue_seconds", AT(work.queue_seconds), "Time in the queue.");
    histogram(out, v, "request_prefill_seconds", AT(work.prefill_seconds),
              "Time from the first step to the end of prefill.");
    histogram(out, v, "time_to_first_token_seconds", AT(work.first_token_seconds),
              "Time from the request to its first token.");
    histogram(out, v, "inter_token_latency_seconds", AT(work.inter_token_seconds),
              "Time between two tokens of one generation.");
    histogram(out, v, "request_duration_seconds", AT(work.request_seconds),
              "Time from the request to its end.");
}

/* ---- all models together ---- */

static void add_rows(metrics_model *into, const metrics_model *m, const model_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *to = (char *)into + rows[i].at;
        const void *from = (const char *)m + rows[i].at;
        switch (rows[i].kind) {
        case ROW_U64: *(uint64_t *)to += *(const uint64_t *)from; break;
        case ROW_U32: *(uint32_t *)to += *(const uint32_t *)from; break;
        case ROW_REAL: *(double *)to += *(const double *)from; break;
        }
    }
}

void metrics_sum(metrics_model *out, const metrics_view *v)
{
    *out = (metrics_model){.name = v->models[0].name};
    for (size_t i = 0; i < v->n_models; i++) {
        const metrics_model *m = &v->models[i];
        add_rows(out, m, work_rows, COUNT(work_rows));
        add_rows(out, m, memory_rows, COUNT(memory_rows));
        add_rows(out, m, image_rows, COUNT(image_rows));
        out->work.refused_full += m->work.refused_full;
        out->memory.total += m->memory.total;
        out->memory_vision += m->memory_vision;
        out->sees |= m->sees;
    }
}
