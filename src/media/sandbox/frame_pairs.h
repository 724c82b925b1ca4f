/* SPDX-License-Identifier: Apache-2.0 */
/* frame_pairs.h - what was seen of a file to pictures of the model: two frames of a film are one.
 */
#ifndef MOTE_MEDIA_SANDBOX_FRAME_PAIRS_H
#define MOTE_MEDIA_SANDBOX_FRAME_PAIRS_H

#include "media/sandbox/decoder_client.h"

/* How many pictures it makes. */
size_t media_pairs(const media_frames *seen, bool video);
/* Number i of them, and its time; as mote_image_new. */
mote_status media_pair(const media_frames *seen, bool video, size_t i, const mote_model *model,
                       uint32_t threads, mote_image **out, double *seconds, mote_error *err);

#endif
