/* SPDX-License-Identifier: Apache-2.0 */
/* run_report.c - what the reports of `mote run` have in common; see run.h. */
#include "cli/run/run.h"

double run_per_second(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

void run_write_sampling(json *j, const mote_sampling *s)
{
    json_key(j, "sampling");
    json_begin_object(j);
    json_key(j, "temperature");
    json_f32(j, s->temperature);
    json_key(j, "top_p");
    json_f32(j, s->top_p);
    json_key_u64(j, "top_k", s->top_k);
    json_key(j, "min_p");
    json_f32(j, s->min_p);
    json_key(j, "presence_penalty");
    json_f32(j, s->presence);
    json_key(j, "frequency_penalty");
    json_f32(j, s->frequency);
    json_key(j, "repetition_penalty");
    json_f32(j, s->repetition);
    json_key_u64(j, "seed", s->seed);
    json_end_object(j);
}
