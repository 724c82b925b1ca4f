/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffmpeg_main.c - mote-media-ffmpeg: decodes one video and exits.
 *
 * The fork server executes it for videos that the built-in decoders cannot read, with the socket as
 * standard input. Protocol and sandbox are those of the built-in decoders (decoder_int.h).
 */
#include "media/decode/decode_int.h"
#include "media/sandbox/decoder_int.h"

#include <libavutil/log.h>

int main(void)
{
    av_log_set_level(AV_LOG_QUIET);
    media_set_video_decoder(media_probe_ffmpeg, media_decode_ffmpeg);
    decoder_serve(0);
}
