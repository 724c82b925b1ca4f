/* SPDX-License-Identifier: Apache-2.0 */
/* rig_model.c - the part of rig.h that needs an engine. */
#include "law/rig.h"

mote_model *rig_open(const char *path, mote_isa isa)
{
    mote_error err = {0};
    mote_model *model;
    MUST(mote_model_open(&model, path, &(mote_model_options){.isa = isa}, &err), &err);
    return model;
}

mote_engine *rig_engine(const mote_model *model, const mote_engine_options *options)
{
    mote_error err = {0};
    mote_engine *engine;
    MUST(mote_engine_new(&engine, model, options, &err), &err);
    return engine;
}

mote_session *rig_session(mote_engine *engine)
{
    mote_error err = {0};
    mote_session *session;
    MUST(mote_session_new(&session, engine, NULL, &err), &err);
    return session;
}

void rig_feed(mote_engine *engine, mote_session *session, const mote_token *tokens, size_t n,
              mote_logits want)
{
    mote_error err = {0};
    mote_work work = {.session = session, .tokens = tokens, .n = n, .want = want};
    MUST(mote_step(engine, &work, 1, &err), &err);
}

uint32_t rig_argmax(const float *row, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return (uint32_t)best;
}
