/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - counts finished requests, collects the values of all models, GET /metrics.
 *
 * The output is Prometheus' text format. Series of models come from tables: name, help text, label
 * and the offset of the value in metrics_model. metrics_sum() adds models up with the same tables.
 */
#include "server/api/native/native.h"

#include "base/cpu.h"
#include "base/os.h"
#include "server/auth/access.h"
#include "server/auth/api_keys.h"
#include "server/generation/cache_miss.h"

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

static void metrics_put(strbuf *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void metrics_put(strbuf *out, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0)
        strbuf_put(out, (str){line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1});
}

static void metrics_put_family(strbuf *out, const char *name, const char *type, const char *help)
{
    metrics_put(out, "# HELP mote_%s %s\n", name, help);
    metrics_put(out, "# TYPE mote_%s %s\n", name, type);
}

static void metrics_put_counter(strbuf *out, const char *name, uint64_t value, const char *help)
{
    metrics_put_family(out, name, "counter", help);
    metrics_put(out, "mote_%s %llu\n", name, (unsigned long long)value);
}

static void metrics_put_gauge(strbuf *out, const char *name, double value, const char *help)
{
    metrics_put_family(out, name, "gauge", help);
    metrics_put(out, "mote_%s %.17g\n", name, value);
}

/* One series of a family with one label. */
static void metrics_put_labelled(strbuf *out, const char *name, const char *label,
                                 const char *value, uint64_t n)
{
    metrics_put(out, "mote_%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)n);
}

/* Escapes a label value: newline, quote and backslash. */
static void metrics_put_label_text(strbuf *out, const char *text)
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

/* Prints mote_NAME{model="...",MORE} and a space; the value follows. */
static void metrics_put_series(strbuf *out, const char *name, const metrics_model *m,
                               const char *more)
{
    metrics_put(out, "mote_%s{model=\"", name);
    metrics_put_label_text(out, m->name);
    metrics_put(out, "\"%s%s} ", more[0] != '\0' ? "," : "", more);
}

/* ---- series of models ---- */

/* One series per model. */
typedef struct model_row {
    const char *name; /* of the metric; NULL: that of the row before */
    const char *help;
    const char *label; /* in addition to `model`, or "" */
    size_t at;         /* offset in metrics_model */
    enum { ROW_U64, ROW_U32, ROW_REAL } kind;
    bool gauge;
} model_row;

static void row_put_value(strbuf *out, const model_row *r, const metrics_model *m)
{
    const char *at = (const char *)m + r->at;
    switch (r->kind) {
    case ROW_U64:
        metrics_put(out, "%llu\n", (unsigned long long)*(const uint64_t *)(const void *)at);
        break;
    case ROW_U32: metrics_put(out, "%u\n", (unsigned)*(const uint32_t *)(const void *)at); break;
    case ROW_REAL: metrics_put(out, "%.17g\n", *(const double *)(const void *)at); break;
    }
}

/* `only_vision`: models with a vision encoder only. */
static void metrics_put_rows(strbuf *out, const metrics_view *v, const model_row *rows, size_t n,
                             bool only_vision)
{
    const char *name = NULL;
    for (size_t i = 0; i < n; i++) {
        if (rows[i].name != NULL) {
            name = rows[i].name;
            metrics_put_family(out, name, rows[i].gauge ? "gauge" : "counter", rows[i].help);
        }
        for (size_t k = 0; k < v->n_models; k++) {
            if (only_vision && !v->models[k].has_vision)
                continue;
            metrics_put_series(out, name, &v->models[k], rows[i].label);
            row_put_value(out, &rows[i], &v->models[k]);
        }
    }
}

static void histogram_put_model(strbuf *out, const char *name, const metrics_model *m,
                                const sched_histogram *h)
{
    uint64_t below = 0;
    double bound = SCHED_BUCKET_FIRST;
    char whole[64], label[32];
    snprintf(whole, sizeof whole, "%s_bucket", name);
    for (size_t i = 0; i + 1 < SCHED_BUCKETS; i++, bound *= 2) {
        below += h->count[i];
        snprintf(label, sizeof label, "le=\"%g\"", bound);
        metrics_put_series(out, whole, m, label);
        metrics_put(out, "%llu\n", (unsigned long long)below);
    }
    /* All buckets come from one snapshot, so the last one equals the count. */
    below += h->count[SCHED_BUCKETS - 1];
    metrics_put_series(out, whole, m, "le=\"+Inf\"");
    metrics_put(out, "%llu\n", (unsigned long long)below);
    snprintf(whole, sizeof whole, "%s_sum", name);
    metrics_put_series(out, whole, m, "");
    metrics_put(out, "%.17g\n", h->sum);
    snprintf(whole, sizeof whole, "%s_count", name);
    metrics_put_series(out, whole, m, "");
    metrics_put(out, "%llu\n", (unsigned long long)below);
}

/* `at`: offset of a sched_histogram in metrics_model. */
static void metrics_put_histogram(strbuf *out, const metrics_view *v, const char *name, size_t at,
                                  const char *help)
{
    metrics_put_family(out, name, "histogram", help);
    for (size_t k = 0; k < v->n_models; k++) {
        const char *m = (const char *)&v->models[k];
        histogram_put_model(out, name, &v->models[k],
                            (const sched_histogram *)(const void *)(m + at));
    }
}

/* ---- families ---- */

#define AT(member) offsetof(metrics_model, member)
/* clang-format off */
static const model_row work_rows[] = {
    {"requests_aborted_total", "Requests aborted because the client disconnected, by phase.", "phase=\"queued\"", AT(work.canceled_queued), ROW_U64, false},
    {NULL, NULL, "phase=\"prefill\"", AT(work.canceled_prefill), ROW_U64, false},
    {NULL, NULL, "phase=\"decode\"", AT(work.canceled_decode), ROW_U64, false},
    {"generations_completed_total", "Generations that ended by themselves or by a limit.", "", AT(work.finished), ROW_U64, false},
    {"prompt_tokens_total", "Prompt tokens, including those found in the prefix cache.", "", AT(work.prompt_tokens), ROW_U64, false},
    {"prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache.", "tier=\"live\"", AT(work.reused_live_tokens), ROW_U64, false},
    {NULL, NULL, "tier=\"ram\"", AT(work.reused_idle_tokens), ROW_U64, false},
    {NULL, NULL, "tier=\"disk\"", AT(work.reused_disk_tokens), ROW_U64, false},
    {"prefix_cache_requests_total", "Prompts by the tier of their longest prefix.", "tier=\"none\"", AT(work.started[SCHED_REUSE_NONE]), ROW_U64, false},
    {NULL, NULL, "tier=\"live\"", AT(work.started[SCHED_REUSE_LIVE]), ROW_U64, false},
    {NULL, NULL, "tier=\"ram\"", AT(work.started[SCHED_REUSE_IDLE]), ROW_U64, false},
    {NULL, NULL, "tier=\"disk\"", AT(work.started[SCHED_REUSE_DISK]), ROW_U64, false},
    {"prefix_cache_misses_total", "Prompts that differ from a cached one before its end, by reason; new: nothing to compare with.", "reason=\"image\"", AT(cache.misses[MISS_IMAGE]), ROW_U64, false},
    {NULL, NULL, "reason=\"tools\"", AT(cache.misses[MISS_TOOLS]), ROW_U64, false},
    {NULL, NULL, "reason=\"thinking\"", AT(cache.misses[MISS_THINKING]), ROW_U64, false},
    {NULL, NULL, "reason=\"whitespace\"", AT(cache.misses[MISS_WHITESPACE]), ROW_U64, false},
    {NULL, NULL, "reason=\"timestamp\"", AT(cache.misses[MISS_TIME]), ROW_U64, false},
    {NULL, NULL, "reason=\"id\"", AT(cache.misses[MISS_ID]), ROW_U64, false},
    {NULL, NULL, "reason=\"number\"", AT(cache.misses[MISS_NUMBER]), ROW_U64, false},
    {NULL, NULL, "reason=\"tool_call\"", AT(cache.misses[MISS_CALL]), ROW_U64, false},
    {NULL, NULL, "reason=\"system\"", AT(cache.misses[MISS_SYSTEM]), ROW_U64, false},
    {NULL, NULL, "reason=\"message\"", AT(cache.misses[MISS_MESSAGE]), ROW_U64, false},
    {NULL, NULL, "reason=\"prompt\"", AT(cache.misses[MISS_PROMPT]), ROW_U64, false},
    {NULL, NULL, "reason=\"new\"", AT(cache.misses[MISS_NEW]), ROW_U64, false},
    {"returned_answers_total", "Assistant messages in prompts, by how their sampled tokens were found.", "match=\"id\"", AT(cache.answers_by_id), ROW_U64, false},
    {NULL, NULL, "match=\"text\"", AT(cache.answers_by_text), ROW_U64, false},
    {NULL, NULL, "match=\"none\"", AT(cache.answers_unknown), ROW_U64, false},
    {"prefill_tokens_total", "Prompt tokens computed by prefill.", "", AT(work.prefill_tokens), ROW_U64, false},
    {"generated_tokens_total", "Tokens generated, including reasoning.", "", AT(work.generated_tokens), ROW_U64, false},
    {"reasoning_tokens_total", "Reasoning tokens generated.", "", AT(work.think_tokens), ROW_U64, false},
    {"draft_tokens_total", "Draft tokens of speculative decoding, by source.", "source=\"lookup\"", AT(work.spec.drafted[SPEC_LOOKUP]), ROW_U64, false},
    {NULL, NULL, "source=\"head\"", AT(work.spec.drafted[SPEC_MODEL]), ROW_U64, false},
    {"draft_accepted_total", "Draft tokens that became tokens of an answer, by source.", "source=\"lookup\"", AT(work.spec.accepted[SPEC_LOOKUP]), ROW_U64, false},
    {NULL, NULL, "source=\"head\"", AT(work.spec.accepted[SPEC_MODEL]), ROW_U64, false},
    {"draft_seconds_saved_total", "Time saved by steps with drafts that were faster than plain decoding.", "", AT(work.spec.seconds_saved), ROW_REAL, false},
    {"draft_seconds_lost_total", "Time lost by steps with drafts that were slower.", "", AT(work.spec.seconds_lost), ROW_REAL, false},
    {"tool_calls_total", "Tool calls generated.", "", AT(work.calls), ROW_U64, false},
    {"tool_calls_malformed_total", "Malformed tool calls that were passed on as text.", "", AT(calls_malformed), ROW_U64, false},
    {"repetition_loops_detected_total", "Repetition loops detected.", "", AT(work.loops_detected), ROW_U64, false},
    {"repetition_loops_recovered_total", "Repetition loops that generation left again.", "", AT(work.loops_recovered), ROW_U64, false},
    {"preemptions_total", "Generations preempted because the KV cache was full.", "", AT(work.preempted), ROW_U64, false},
    {"key_preemptions_total", "Generations paused because another API key has a share in the slots.", "", AT(work.paused), ROW_U64, false},
    {"engine_steps_total", "Engine steps (forward passes of a batch).", "", AT(work.steps), ROW_U64, false},
    {"engine_step_tokens_total", "Tokens in all steps; divided by steps: the mean batch size.", "", AT(work.step_rows), ROW_U64, false},
    {"engine_step_prefill_tokens_total", "Prefill tokens in all steps.", "", AT(work.prefill_rows), ROW_U64, false},
    {"engine_step_seconds_total", "Time spent in steps; its rate is the utilisation of the engine.", "", AT(work.step_seconds), ROW_REAL, false},
    {"requests_queued", "Requests waiting in the queue.", "", AT(work.queued), ROW_U32, true},
    {"sequences_running", "Sequences in a slot, by phase.", "phase=\"prefill\"", AT(work.prefilling), ROW_U32, true},
    {NULL, NULL, "phase=\"decode\"", AT(work.decoding), ROW_U32, true},
    {"sequences_limit", "Slots (--parallel).", "", AT(work.parallel), ROW_U32, true},
    {"prefix_cache_sequences", "Idle sequences held in the prefix cache.", "", AT(work.idle_sessions), ROW_U32, true},
    {"prefix_cache_bytes", "KV pages and recurrent states of idle sequences, counted as if none were shared.", "", AT(work.idle_bytes), ROW_U64, true},
    {"kv_cache_capacity_tokens", "Capacity of the KV cache.", "", AT(work.positions_total), ROW_U64, true},
    {"kv_cache_free_tokens", "Free capacity of the KV cache.", "", AT(work.positions_free), ROW_U64, true},
    {"recurrent_states_capacity", "Recurrent-state checkpoints that can be held.", "", AT(work.states_total), ROW_U64, true},
    {"recurrent_states_used", "Recurrent-state checkpoints in use.", "", AT(work.states_used), ROW_U64, true},
};

static const model_row disk_rows[] = {
    {"disk_cache_restores_total", "Prefixes restored from disk.", "", AT(disk.restores), ROW_U64, false},
    {"disk_cache_restore_failures_total", "Restores that a missing or damaged record ended.", "", AT(disk.failed_restores), ROW_U64, false},
    {"disk_cache_restore_seconds_total", "Time of all restores.", "", AT(disk.restore_seconds), ROW_REAL, false},
    {"disk_cache_read_bytes_total", "Bytes read from the disk cache.", "", AT(disk.read_bytes), ROW_U64, false},
    {"disk_cache_written_bytes_total", "Bytes written to the disk cache.", "", AT(disk.written_bytes), ROW_U64, false},
    {"disk_cache_damaged_records_total", "Records removed because a checksum was wrong.", "", AT(disk.damaged), ROW_U64, false},
    {"disk_cache_bytes", "Size of the directory, which all models share.", "", AT(disk.bytes), ROW_U64, true},
    {"disk_cache_limit_bytes", "Most bytes in the directory (--cache-disk).", "", AT(disk.cap), ROW_U64, true},
};

static const model_row memory_rows[] = {
    {"memory_bytes", "Planned memory of the loaded models, by kind.", "kind=\"weights\"", AT(memory.weights), ROW_U64, true},
    {NULL, NULL, "kind=\"model\"", AT(memory.model), ROW_U64, true},
    {NULL, NULL, "kind=\"kv_cache\"", AT(memory.kv_cache), ROW_U64, true},
    {NULL, NULL, "kind=\"recurrent_state\"", AT(memory.recurrent_state), ROW_U64, true},
    {NULL, NULL, "kind=\"scratch\"", AT(memory.scratch), ROW_U64, true},
};

/* For models with a vision encoder. */
static const model_row image_rows[] = {
    {"images_total", "Images and videos processed.", "", AT(vision.total), ROW_U64, false},
    {"image_cache_hits_total", "Images and videos found in the image cache.", "", AT(vision.cache_hits), ROW_U64, false},
    {"images_encoded_total", "Images and videos run through the vision encoder.", "", AT(vision.encoded), ROW_U64, false},
    {"images_failed_total", "Images and videos that failed to decode or did not fit in memory.", "", AT(vision.failed), ROW_U64, false},
    {"image_processing_seconds_total", "Time spent decoding and encoding images, all threads.", "", AT(vision.seconds), ROW_REAL, false},
    {"image_requests_queued", "Requests waiting for the vision encoder.", "", AT(vision.waiting), ROW_U32, true},
    {"image_cache_entries", "Images and videos in the image cache.", "", AT(vision.cached), ROW_U32, true},
    {"image_cache_bytes", "Size of the image cache.", "", AT(vision.bytes), ROW_U64, true},
};
/* clang-format on */

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const char *metrics_dialect_name(api_dialect dialect)
{
    static const char *const names[] = {"openai", "anthropic", "ollama"};
    return names[dialect];
}

static void metrics_put_requests(strbuf *out, const metrics_view *v)
{
    const request_counts *c = v->counts;
    metrics_put_family(out, "http_requests_total", "counter",
                       "Finished HTTP requests; code 499: the client disconnected first.");
    for (size_t i = 0; i < c->n; i++)
        metrics_put(out, "mote_http_requests_total{dialect=\"%s\",route=\"%s\",code=\"%d\"} %llu\n",
                    metrics_dialect_name(c->rows[i].dialect), c->rows[i].label, c->rows[i].status,
                    (unsigned long long)c->rows[i].n);
    if (c->beyond > 0)
        metrics_put(
            out,
            "mote_http_requests_total{dialect=\"other\",route=\"other\",code=\"other\"} %llu\n",
            (unsigned long long)c->beyond);
    metrics_put_counter(out, "structured_output_requests_total", v->structured_outputs,
                        "Requests with a JSON schema, grammar, regex or choice.");
    metrics_put_family(out, "requests_rejected_total", "counter",
                       "Connections and requests rejected before any work was done.");
    for (size_t i = 0; i < v->n_models; i++) {
        metrics_put_series(out, "requests_rejected_total", &v->models[i], "reason=\"queue_full\"");
        metrics_put(out, "%llu\n", (unsigned long long)v->models[i].work.refused_full);
    }
    metrics_put_labelled(out, "requests_rejected_total", "reason", "connection_limit",
                         v->http.refused_connections);
    metrics_put_labelled(out, "requests_rejected_total", "reason", "http",
                         v->http.refused_requests);
    metrics_put_labelled(out, "requests_rejected_total", "reason", "key_rpm",
                         v->over_quota[QUOTA_REQUESTS]);
    metrics_put_labelled(out, "requests_rejected_total", "reason", "key_tpm",
                         v->over_quota[QUOTA_TOKENS]);
    metrics_put_labelled(out, "requests_rejected_total", "reason", "key_concurrency",
                         v->over_quota[QUOTA_PARALLEL]);
}

static void metrics_put_memory(strbuf *out, const metrics_view *v)
{
    metrics_put_rows(out, v, memory_rows, COUNT(memory_rows), false);
    for (size_t i = 0; i < v->n_models; i++)
        if (v->models[i].has_vision) {
            metrics_put_series(out, "memory_bytes", &v->models[i], "kind=\"vision\"");
            metrics_put(out, "%llu\n", (unsigned long long)v->models[i].memory_vision);
        }
    metrics_put_labelled(out, "memory_bytes", "kind", "request_bodies", v->http.body_bytes);
    if (v->memory_limit > 0)
        metrics_put_gauge(out, "memory_limit_bytes", (double)v->memory_limit,
                          "The limit set by --memory.");
}

static bool metrics_has_vision(const metrics_view *v)
{
    bool has_vision = false;
    for (size_t i = 0; i < v->n_models; i++)
        has_vision |= v->models[i].has_vision;
    return has_vision;
}

static void metrics_put_http(strbuf *out, const metrics_view *v)
{
    metrics_put_gauge(out, "http_connections", v->http.connections, "Open connections.");
    metrics_put_gauge(out, "event_loop_lag_seconds", v->http.loop.longest_recent,
                      "Longest event-loop iteration of the last two seconds.");
    metrics_put_gauge(out, "event_loop_lag_max_seconds", v->http.loop.longest,
                      "Longest event-loop iteration since the start.");
    metrics_put_counter(out, "event_loop_slow_iterations_total", v->http.loop.over_20_ms,
                        "Event-loop iterations over 20 ms.");
    metrics_put_gauge(out, "server_draining", v->draining,
                      "1 while the server drains before it stops.");
    metrics_put_gauge(out, "uptime_seconds", v->uptime, "Time since the server started.");
}

static void metrics_put_info(strbuf *out, const metrics_view *v)
{
    metrics_put_family(out, "build_info", "gauge", "Version and instruction set.");
    metrics_put(out, "mote_build_info{version=\"%s\",isa=\"%s\"} 1\n", v->version, v->isa);
    metrics_put_family(out, "model_info", "gauge", "The served models.");
    for (size_t i = 0; i < v->n_models; i++) {
        metrics_put_series(out, "model_info", &v->models[i], "");
        strbuf_text(out, "1\n");
    }
    metrics_put_family(out, "model_loaded", "gauge", "1 if the model is loaded.");
    for (size_t i = 0; i < v->n_models; i++) {
        metrics_put_series(out, "model_loaded", &v->models[i], "");
        strbuf_text(out, v->models[i].loaded ? "1\n" : "0\n");
    }
}

static void metrics_put_registry(strbuf *out, const model_registry_stats *r)
{
    metrics_put_gauge(out, "models_installed", r->installed, "Installed models.");
    metrics_put_gauge(out, "models_loaded", r->loaded, "Loaded models.");
    metrics_put_gauge(out, "models_memory_bytes", (double)r->memory,
                      "Planned memory of the models that are loaded or being loaded.");
    metrics_put_gauge(out, "models_memory_peak_bytes", (double)r->memory_peak,
                      "The maximum of it since the start.");
    metrics_put_gauge(out, "model_load_progress", r->load_progress,
                      "Part of the file of the model being loaded that is in memory; 0: no load.");
    metrics_put_gauge(out, "model_load_waiting_requests", r->waiting,
                      "Requests that wait for a model to be loaded.");
    metrics_put_counter(out, "model_loads_total", r->loads, "Models loaded.");
    metrics_put_counter(out, "model_load_failures_total", r->failures,
                        "Models that could not be loaded.");
    metrics_put_family(out, "model_load_seconds_total", "counter",
                       "Time spent loading, without the wait for memory.");
    metrics_put(out, "mote_model_load_seconds_total %.17g\n", r->load_seconds);
    metrics_put_family(out, "model_unloads_total", "counter", "Models unloaded, by reason.");
    for (model_unload_reason i = 0; i < UNLOAD_REASONS; i++)
        metrics_put_labelled(out, "model_unloads_total", "reason", model_unload_reason_name(i),
                             r->unloads[i]);
}

static void metrics_put_batches(strbuf *out, const batch_counts *b)
{
    metrics_put_family(out, "batches", "gauge", "Batches of /v1/batches that are not over.");
    metrics_put_labelled(out, "batches", "state", "running", b->running);
    metrics_put_labelled(out, "batches", "state", "waiting", b->waiting);
    metrics_put_family(out, "batch_requests_total", "counter",
                       "Requests of batches with a result, by result.");
    metrics_put_labelled(out, "batch_requests_total", "result", "done", b->done - b->failed);
    metrics_put_labelled(out, "batch_requests_total", "result", "failed", b->failed);
}

void metrics_print(strbuf *out, const metrics_view *v)
{
    metrics_put_info(out, v);
    if (v->has_catalog)
        metrics_put_registry(out, &v->registry);
    metrics_put_requests(out, v);
    metrics_put_rows(out, v, work_rows, COUNT(work_rows), false);
    metrics_put_rows(out, v, disk_rows, COUNT(disk_rows), false);
    metrics_put_memory(out, v);
    if (metrics_has_vision(v)) {
        metrics_put_rows(out, v, image_rows, COUNT(image_rows), true);
        metrics_put_counter(out, "image_decoder_exits_total", v->decoder_exits,
                            "Times the image decoder process exited unexpectedly.");
    }
    if (v->has_batches)
        metrics_put_batches(out, &v->batches);
    metrics_put_http(out, v);
    metrics_put_histogram(out, v, "request_queue_seconds", AT(work.queue_seconds),
                          "Time in the queue.");
    metrics_put_histogram(out, v, "request_prefill_seconds", AT(work.prefill_seconds),
                          "Time from the first step to the end of prefill.");
    metrics_put_histogram(out, v, "time_to_first_token_seconds", AT(work.first_token_seconds),
                          "Time from the request to its first token.");
    metrics_put_histogram(out, v, "inter_token_latency_seconds", AT(work.inter_token_seconds),
                          "Time between two tokens of one generation.");
    metrics_put_histogram(out, v, "request_duration_seconds", AT(work.request_seconds),
                          "Time from the request to its end.");
}

/* ---- sum of all models ---- */

static void model_add_rows(metrics_model *into, const metrics_model *m, const model_row *rows,
                           size_t n)
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
    *out = (metrics_model){.name = v->n_models > 0 ? v->models[0].name : ""};
    for (size_t i = 0; i < v->n_models; i++) {
        const metrics_model *m = &v->models[i];
        model_add_rows(out, m, work_rows, COUNT(work_rows));
        model_add_rows(out, m, memory_rows, COUNT(memory_rows));
        model_add_rows(out, m, image_rows, COUNT(image_rows));
        out->work.refused_full += m->work.refused_full;
        out->memory.total += m->memory.total;
        out->memory_vision += m->memory_vision;
        out->has_vision |= m->has_vision;
    }
}

/* ---- GET /metrics ---- */

static void metrics_gather_model(metrics_model *v, const model_entry *e, served_model *m)
{
    *v = (metrics_model){.name = model_entry_name(e), /* the model may be unloaded before the end */
                         .loaded = served_model_loaded(m),
                         .context = served_model_context(m),
                         .threads = sched_settings(served_model_sched(m))->threads,
                         .leaves_in = served_model_leaves_in(m),
                         .has_vision = served_model_vision(m) != NULL};
    sched_read_stats(served_model_sched(m), &v->work);
    sched_read_disk_stats(served_model_sched(m), &v->disk);
    v->calls_malformed = served_model_malformed(m);
    v->cache = *served_model_cache_stats(m);
    sched_memory(served_model_sched(m), &v->memory);
    if (v->has_vision) {
        v->memory_vision = v->loaded ? vision_service_memory(served_model_vision(m)) : 0;
        v->memory.total += v->memory_vision;
        vision_service_read_stats(served_model_vision(m), &v->vision);
    }
}

void metrics_gather(metrics_view *v, server_context *s)
{
    mote_model_info info = {0};
    model_set set;
    model_registry_hold(s->models, &set);
    if (set.n > 0)
        mote_model_describe(served_model_weights(set.models[0]), &info);
    *v = (metrics_view){.version = mote_version(),
                        .isa = mote_isa_name(set.n > 0 ? info.isa : cpu_best_isa()),
                        .counts = s->counts,
                        .n_models = set.n,
                        .has_catalog = model_registry_has_catalog(s->models),
                        .memory_limit = s->memory_limit,
                        .structured_outputs = s->structured_outputs,
                        .decoder_exits = s->decoder_exits,
                        .has_batches = s->batches != NULL,
                        .batches = s->batch_counts,
                        .draining = s->stopping,
                        .uptime = os_now() - s->started};
    for (size_t i = 0; i < v->n_models; i++)
        metrics_gather_model(&v->models[i], set.entries[i], set.models[i]);
    model_set_release(&set);
    model_registry_read_stats(s->models, &v->registry);
    http_server_read_stats(s->http, &v->http);
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        v->over_quota[kind] = api_keys_refused(access_keys(s->access), kind);
}

void handle_metrics(exchange *x)
{
    metrics_view v;
    strbuf out = {0};
    metrics_gather(&v, exchange_context(x));
    metrics_print(&out, &v);
    exchange_reply_built(x, "text/plain; version=0.0.4; charset=utf-8", &out);
}
