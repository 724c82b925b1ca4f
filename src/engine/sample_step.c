/* SPDX-License-Identifier: Apache-2.0 */
/* sample_step.c - what a step left to read: logits, the hidden row, and mote_sample's choice. */
#include "engine/engine_int.h"
#include "sample/sample.h"

const float *mote_session_logits(const mote_session *s, size_t row)
{
    const mote_engine *e = s->engine;
    if (s->logits_step == 0 || s->logits_step != e->step || row >= s->n_logits)
        return NULL;
    return e->logits + (s->logits_row + row) * e->model->hp.n_vocab;
}

const float *mote_session_hidden(const mote_session *s, size_t *n)
{
    const mote_engine *e = s->engine;
    if (s->hidden_step == 0 || s->hidden_step != e->step)
        return NULL;
    if (n != NULL)
        *n = e->model->hp.n_embd;
    return session_hidden_row(s);
}

mote_status mote_sample(const mote_session *s, size_t row, const mote_sampling *how,
                        mote_choice *out, mote_error *err)
{
    if (s == NULL || out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_sample needs a session and a place for the choice");
    const float *logits = mote_session_logits(s, row);
    if (logits == NULL)
        return err_set(err, MOTE_E_ARG, "the session has no row %zu of logits from the last step",
                       row);
    const mote_sampling greedy = {0};
    how = how != NULL ? how : &greedy;
    /* Row i of n belongs to the token n - i places before the end of the session. */
    uint64_t position = s->length - (s->n_logits - 1 - row);
    uint64_t from = how->generated_from < position ? how->generated_from : position;
    sample_input in = {
        .kernels = &s->engine->model->kernels,
        .logits = logits,
        .vocabulary = s->engine->model->hp.n_vocab,
        .n_tokens = tok_n_tokens(s->engine->model->tok),
        .generated = s->tokens + from,
        .n_generated = (size_t)(position - from),
        .position = position,
    };
    return sample_pick(&in, how, s->engine->sample_scratch, out, err);
}
