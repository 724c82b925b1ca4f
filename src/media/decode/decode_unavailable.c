/* SPDX-License-Identifier: Apache-2.0 */
/* decode_unavailable.c - takes the place of the decoders in a build without MOTE_MEDIA. */
#include "base/err.h"
#include "media/decode/decode_int.h"

static mote_status decode_refuse(str file, mote_error *err)
{
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "this mote was built without decoders for %s files; build it with "
                   "-DMOTE_MEDIA=ON",
                   media_format_name(media_format_of(file)));
}

#define UNAVAILABLE(format)                                                                        \
    mote_status media_probe_##format(str file, media_info *out, mote_error *err)                   \
    {                                                                                              \
        (void)out;                                                                                 \
        return decode_refuse(file, err);                                                           \
    }                                                                                              \
    mote_status media_decode_##format(str file, media_frame_fn *frame, void *with,                 \
                                      mote_error *err)                                             \
    {                                                                                              \
        (void)frame;                                                                               \
        (void)with;                                                                                \
        return decode_refuse(file, err);                                                           \
    }

UNAVAILABLE(jpeg)
UNAVAILABLE(png)
UNAVAILABLE(webp)
UNAVAILABLE(gif)
UNAVAILABLE(avi)
