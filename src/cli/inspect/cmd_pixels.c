/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_pixels.c - `mote pixels`: an image as the vision encoder sees it, as a binary PPM.
 *
 * Programs that use the library get pixels of an image file with it: the library has no decoders. A
 * binary PPM as input is resized only, for programs that have pixels already.
 */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/term/output.h"
#include "json/json_writer.h"
#include "media/sandbox/decoder.h"

#include <stdio.h>
#include <string.h>

typedef struct pixels_options {
    uint64_t image_tokens;
} pixels_options;

static const cli_flag flags[] = {
    {.name = "image-tokens",
     .kind = FLAG_COUNT,
     .value = "N",
     .min = 1,
     .max = MOTE_IMAGE_MAX_TOKENS,
     .initial = MEDIA_FILES_TOKENS,
     .at = offsetof(pixels_options, image_tokens),
     .help = "maximum tokens, 1,024 pixels each"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

/* ---- binary PPM ---- */

/* A number of the header. Comments are not supported. */
static bool ppm_number(str *rest, uint32_t *out)
{
    size_t i = 0, digits = 0;
    uint64_t value = 0;
    while (i < rest->n && strchr(" \t\r\n", rest->p[i]) != NULL)
        i++;
    for (; i < rest->n && rest->p[i] >= '0' && rest->p[i] <= '9' && digits < 9; i++, digits++)
        value = 10 * value + (uint64_t)(rest->p[i] - '0');
    *rest = (str){rest->p + i, rest->n - i};
    *out = (uint32_t)value;
    return digits > 0 && rest->n > 0;
}

/* `file` begins with "P6". Resizes as the decoders do. */
static mote_status ppm_load(str file, media_limits limits, media_frames *out, mote_error *err)
{
    str rest = {file.p + 2, file.n - 2};
    media_frame from = {0};
    uint32_t maximum;
    *out = (media_frames){.n = 1};
    if (!ppm_number(&rest, &from.width) || !ppm_number(&rest, &from.height) ||
        !ppm_number(&rest, &maximum) || maximum != 255 || from.width == 0 || from.height == 0 ||
        (uint64_t)from.width * from.height > MEDIA_MAX_PIXELS ||
        rest.n - 1 != (uint64_t)from.width * from.height * 3)
        return err_set(err, MOTE_E_FORMAT,
                       "not a binary PPM of 8 bits with up to %d pixels and all of its bytes",
                       MEDIA_MAX_PIXELS);
    TRY(media_resize_image(from.width, from.height, limits, &out->width, &out->height, err));
    out->rgb = mem_new((size_t)out->width * out->height, 3);
    from.rgb = mem_new((size_t)from.width * from.height, 3);
    mote_status status = MOTE_OK;
    if (out->rgb == NULL || from.rgb == NULL)
        status =
            err_set(err, MOTE_E_MEMORY, "out of memory: %u x %u pixels", from.width, from.height);
    if (status == MOTE_OK) {
        memcpy(from.rgb, rest.p + 1, rest.n - 1);
        status = media_resize(&from, &(media_frame){out->rgb, out->width, out->height}, err);
    }
    mem_free(from.rgb);
    if (status != MOTE_OK)
        media_frames_fini(out);
    return status;
}

/* ---- the command ---- */

static mote_status pixels_load(str file, media_limits limits, media_frames *out, mote_error *err)
{
    fork_server *decoder = NULL;
    if (file.n > 2 && memcmp(file.p, "P6", 2) == 0)
        return ppm_load(file, limits, out, err);
    mote_status status = fork_server_start(&decoder, err);
    if (status == MOTE_OK)
        status = media_load(decoder, &(media_request){.file = file, .limits = limits}, out, err);
    fork_server_stop(decoder);
    return status;
}

static int pixels_write_json(const cli_call *call, const media_frames *frames)
{
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_uint(&j, "width", frames->width);
    jw_key_uint(&j, "height", frames->height);
    jw_key_uint(&j, "tokens", (uint64_t)frames->width * frames->height / MEDIA_TOKEN_PIXELS);
    jw_close(&j, '}');
    return out_json(call->out, &j);
}

static int pixels_print(const cli_call *call, const media_frames *frames)
{
    if (call->common.json)
        return pixels_write_json(call, frames);
    if (call->out->terminal)
        return msg_usage("the pixels are not text; redirect the output: mote pixels %.200s > x.ppm",
                         call->words[0]);
    out_printf(call->out, "P6\n%u %u\n255\n", frames->width, frames->height);
    out_write(call->out, frames->rgb, (size_t)frames->width * frames->height * 3);
    return CLI_DONE;
}

static int pixels_run(const cli_call *call)
{
    const pixels_options *o = call->options;
    const media_limits limits = {.max_pixels = o->image_tokens * MEDIA_TOKEN_PIXELS};
    const char *path = call->words[0];
    strbuf file = {0};
    media_frames frames;
    mote_error err;
    int code = input_read(&file, path);
    if (code == CLI_DONE && pixels_load(strbuf_view(&file), limits, &frames, &err) != MOTE_OK) {
        err_prefix(&err, strcmp(path, "-") == 0 ? "stdin" : path);
        code = msg_error(&err);
    } else if (code == CLI_DONE) {
        code = pixels_print(call, &frames);
        media_frames_fini(&frames);
    }
    strbuf_fini(&file);
    return code;
}

const cli_command cmd_pixels = {
    .name = "pixels",
    .section = "Understand",
    .summary = "an image as the vision encoder sees it",
    .usage = "FILE",
    .arguments = "FILE",
    .min_words = 1,
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(pixels_options),
    .about = "Decodes an image, rotates it as its EXIF data says and resizes it to multiples of 32 "
             "pixels, as --image of mote run does. Prints a binary PPM; with --json only the size. "
             "FILE is a JPEG, PNG, WebP "
             "or GIF file, or a binary PPM, which is only resized; - is stdin.",
    .examples = "mote pixels photo.jpg > seen.ppm\n"
                "mote pixels --image-tokens 256 - < photo.jpg > seen.ppm",
    .run = pixels_run,
};
