/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_options.c - the ranges of the sampling options.
 *
 *   temperature            0 to 100
 *   top_p, min_p, typical_p
 *                          0 to 1
 *   presence, frequency    -100 to 100
 *   repetition             0 (off), or 0.01 to 100
 *   bias                   -1,000,000 to 1,000,000, or -inf, which forbids the token
 *   top_logprobs           0 to MOTE_TOP_LOGPROBS
 *
 * They are wider than any use that makes sense, so that a service can narrow
 * them to what its own interface promises. Their purpose here is that the
 * arithmetic of sample.c never meets a NaN: with these bounds a finite logit
 * stays finite or becomes -inf.
 */
#include "sample/sample_options.h"

#include <inttypes.h>
#include <math.h>

/* Written so that NaN fails. */
static bool within(float value, float least, float most)
{
    return value >= least && value <= most;
}

static mote_status check_range(const char *name, float value, float least, float most,
                               mote_error *err)
{
    if (within(value, least, most))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "%s is %g, not a number from %g to %g", name, (double)value,
                   (double)least, (double)most);
}

static mote_status check_repetition(float value, mote_error *err)
{
    if (value == 0 || within(value, 0.01f, 100))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "repetition is %g, not 0 (off) or a number from 0.01 to 100",
                   (double)value);
}

static mote_status check_bias(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    if (how->n_bias > 0 && how->bias == NULL)
        return err_set(err, MOTE_E_ARG, "n_bias is %zu, but bias is NULL", how->n_bias);
    for (size_t i = 0; i < how->n_bias; i++) {
        const mote_bias *b = &how->bias[i];
        if (b->token < 0 || (uint32_t)b->token >= n_tokens)
            return err_set(err, MOTE_E_ARG,
                           "bias %zu is for token %" PRId32
                           ", but the model's tokens are 0 to %" PRIu32,
                           i, b->token, n_tokens - 1);
        if (b->add != -INFINITY && !within(b->add, -1e6f, 1e6f))
            return err_set(err, MOTE_E_ARG,
                           "the bias of token %" PRId32
                           " is %g, not a number from -1e6 to 1e6 or -infinity",
                           b->token, (double)b->add);
    }
    return MOTE_OK;
}

mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    TRY(check_range("temperature", how->temperature, 0, 100, err));
    TRY(check_range("top_p", how->top_p, 0, 1, err));
    TRY(check_range("min_p", how->min_p, 0, 1, err));
    TRY(check_range("typical_p", how->typical_p, 0, 1, err));
    TRY(check_range("presence", how->presence, -100, 100, err));
    TRY(check_range("frequency", how->frequency, -100, 100, err));
    TRY(check_repetition(how->repetition, err));
    if (how->top_logprobs > MOTE_TOP_LOGPROBS)
        return err_set(err, MOTE_E_ARG, "top_logprobs is %" PRIu32 ", more than %d",
                       how->top_logprobs, MOTE_TOP_LOGPROBS);
    return check_bias(how, n_tokens, err);
}
