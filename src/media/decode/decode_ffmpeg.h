/* SPDX-License-Identifier: Apache-2.0 */
/* decode_ffmpeg.h - decoders of films that only the program mote-media-ffmpeg has. */
#ifndef MOTE_MEDIA_DECODE_DECODE_FFMPEG_H
#define MOTE_MEDIA_DECODE_DECODE_FFMPEG_H

#include "media/decode/decode_int.h"

media_probe_fn media_probe_ffmpeg;
media_decode_fn media_decode_ffmpeg;

#endif
