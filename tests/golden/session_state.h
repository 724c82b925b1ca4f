/* SPDX-License-Identifier: Apache-2.0 */
/* session_state.h - reads the KV cache and recurrent state of a session for the golden tests. */
#ifndef MOTE_TESTS_GOLDEN_SESSION_STATE_H
#define MOTE_TESTS_GOLDEN_SESSION_STATE_H

#include "engine/engine_int.h"

/* In all functions `layer` counts the layers of one kind: DeltaNet (state, conv) or attention (kv).
 */

/* The state at the current position, rows since the boundary included. */
void session_peek_state(const mote_session *s, uint32_t layer, uint32_t value_head,
                        float *out /* [128][128] */);
/* The last three inputs of the convolution, oldest first. */
void session_peek_conv(const mote_session *s, uint32_t layer, float *out);
void session_peek_kv(const mote_session *s, uint32_t layer, uint32_t kv_head, uint64_t pos,
                     float *k, float *v);

#endif
