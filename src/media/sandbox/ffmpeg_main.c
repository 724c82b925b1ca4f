/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffmpeg_main.c - mote-media-ffmpeg: decodes one film and ends.
 *
 * The nursery starts it for films that the built-in decoders do not know, with its end of the
 * socket as standard input. What it says and what it may do are the same as for them (wire.h).
 */
#include "media/decode/decode_ffmpeg.h"
#include "media/sandbox/decoder_worker.h"

#include <libavutil/log.h>

int main(void)
{
    av_log_set_level(AV_LOG_QUIET);
    media_set_foreign(media_probe_ffmpeg, media_decode_ffmpeg);
    wire_serve(0);
}
