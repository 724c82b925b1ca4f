/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_ffmpeg.c - MP4, MKV and WebM with FFmpeg, for the program mote-media-ffmpeg.
 *
 * The file is in memory and read through two callbacks. Nothing is opened. FFmpeg uses one thread.
 * Pixels equal those of `ffmpeg -pix_fmt rgb24`: converted with the video's colour matrix and
 * rotated by its display matrix.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libswscale/swscale.h>

#include <math.h>

enum { IO_BYTES = 65536 };

/* Sorted timestamps of frames, in the time base of the stream. */
typedef struct video_index {
    int64_t *shown; /* [n]: of frame i; NULL: unknown, so all frames are decoded and counted */
    int64_t *keys;  /* [n_keys]: of key frames */
    uint32_t n, n_keys, room;
} video_index;

typedef struct video {
    str file;
    int64_t pos;
    AVIOContext *io;
    AVFormatContext *format;
    AVCodecContext *codec;
    AVStream *stream;
    AVPacket *packet;
    AVFrame *frame, *rgb;
    struct SwsContext *colours; /* conversion to RGB */
    bool ended;                 /* no more packets */
    video_index index;
    int64_t key; /* timestamp of the key frame from which it decodes */
} video;

/* ---- the file ---- */

static int video_read(void *with, uint8_t *to, int wanted)
{
    video *f = with;
    const int64_t left = (int64_t)f->file.n - f->pos;
    const int n = wanted < left ? wanted : (int)left;
    if (n <= 0)
        return AVERROR_EOF;
    memcpy(to, f->file.p + f->pos, (size_t)n);
    f->pos += n;
    return n;
}

static int64_t video_seek(void *with, int64_t offset, int whence)
{
    video *f = with;
    const int64_t size = (int64_t)f->file.n;
    if (whence == AVSEEK_SIZE)
        return size;
    const int64_t from = whence == SEEK_CUR ? f->pos : whence == SEEK_END ? size : 0;
    if (offset < -from || offset > size - from)
        return AVERROR(EINVAL);
    f->pos = from + offset;
    return f->pos;
}

static void video_close(video *f)
{
    sws_freeContext(f->colours);
    av_frame_free(&f->frame);
    av_frame_free(&f->rgb);
    av_packet_free(&f->packet);
    avcodec_free_context(&f->codec);
    avformat_close_input(&f->format);
    if (f->io != NULL)
        av_freep(&f->io->buffer);
    avio_context_free(&f->io);
}

static bool video_open_format(video *f)
{
    unsigned char *buffer = av_malloc(IO_BYTES);
    f->io = avio_alloc_context(buffer, IO_BYTES, 0, f, video_read, NULL, video_seek);
    f->format = avformat_alloc_context();
    if (buffer == NULL || f->io == NULL || f->format == NULL)
        return false;
    f->format->pb = f->io;
    f->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    f->format->format_whitelist = av_strdup("mov,matroska");
    return avformat_open_input(&f->format, "", NULL, NULL) == 0 &&
           avformat_find_stream_info(f->format, NULL) >= 0;
}

static bool video_open_codec(video *f)
{
    const AVCodec *decoder = NULL;
    const int best = av_find_best_stream(f->format, AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0);
    if (best < 0)
        return false;
    for (unsigned i = 0; i < f->format->nb_streams; i++)
        if ((int)i != best)
            f->format->streams[i]->discard = AVDISCARD_ALL;
    f->stream = f->format->streams[best];
    f->codec = avcodec_alloc_context3(decoder);
    f->packet = av_packet_alloc();
    f->frame = av_frame_alloc();
    f->rgb = av_frame_alloc();
    if (f->codec == NULL || f->packet == NULL || f->frame == NULL || f->rgb == NULL ||
        avcodec_parameters_to_context(f->codec, f->stream->codecpar) < 0)
        return false;
    f->codec->thread_count = 1;
    f->codec->max_pixels = MEDIA_MAX_PIXELS;
    return avcodec_open2(f->codec, decoder, NULL) == 0;
}

static mote_status video_open(video *f, str file, mote_error *err)
{
    *f = (video){.file = file};
    if (video_open_format(f) && video_open_codec(f))
        return MOTE_OK;
    video_close(f);
    return err_set(err, MOTE_E_FORMAT, "invalid video: FFmpeg cannot open it");
}

/* ---- properties ---- */

static double video_fps(const video *f)
{
    const AVRational average = f->stream->avg_frame_rate, lowest = f->stream->r_frame_rate;
    const AVRational rate = average.num > 0 && average.den > 0 ? average : lowest;
    return rate.num > 0 && rate.den > 0 ? av_q2d(rate) : MEDIA_DEFAULT_FPS;
}

mote_status media_probe_ffmpeg(str file, media_info *out, mote_error *err)
{
    video f;
    TRY(video_open(&f, file, err));
    out->width = (uint32_t)f.codec->width;
    out->height = (uint32_t)f.codec->height;
    out->fps = video_fps(&f);
    out->frames = 0;
    while (out->frames < MEDIA_MAX_SKIPPABLE_FRAMES && av_read_frame(f.format, f.packet) >= 0) {
        if (f.packet->stream_index == f.stream->index && !(f.packet->flags & AV_PKT_FLAG_DISCARD))
            out->frames++;
        av_packet_unref(f.packet);
    }
    out->pixels = (uint64_t)out->width * out->height * out->frames;
    video_close(&f);
    return out->frames > 0 ? MOTE_OK : err_set(err, MOTE_E_FORMAT, "invalid video: no frames");
}

/* The rotation as an EXIF orientation. */
static unsigned video_orientation(const video *f)
{
    const uint8_t *matrix = av_stream_get_side_data(f->stream, AV_PKT_DATA_DISPLAYMATRIX, NULL);
    if (matrix == NULL)
        return 1;
    const double turned = -av_display_rotation_get((const int32_t *)matrix);
    if (isnan(turned))
        return 1;
    switch (((int)lrint(turned / 90) % 4 + 4) % 4) {
    case 1: return 6;
    case 2: return 3;
    case 3: return 8;
    default: return 1;
    }
}

/* ---- skipping packets ---- */

static void index_fini(video_index *x)
{
    mem_free(x->shown);
    mem_free(x->keys);
    *x = (video_index){0};
}

/* Inserts a timestamp into n sorted ones. Packets are nearly sorted, so the search is short; qsort
 * may make system calls that the sandbox forbids. False: out of order by more than 64 packets, or
 * a duplicate. */
static bool times_insert(int64_t *times, uint32_t n, int64_t time)
{
    enum { MAX_MOVES = 64 };
    uint32_t i = n;
    for (; i > 0 && times[i - 1] > time; i--) {
        if (n - i == MAX_MOVES)
            return false;
        times[i] = times[i - 1];
    }
    times[i] = time;
    return i == 0 || times[i - 1] < time;
}

static bool index_grow(video_index *x)
{
    const uint32_t room = x->room > 0 ? 2 * x->room : 1024;
    int64_t *shown = mem_resize(x->shown, x->room, room, sizeof *shown);
    x->shown = shown != NULL ? shown : x->shown;
    int64_t *keys = mem_resize(x->keys, x->room, room, sizeof *keys);
    x->keys = keys != NULL ? keys : x->keys;
    x->room = room;
    return shown != NULL && keys != NULL;
}

static bool index_add(video_index *x, const AVPacket *packet)
{
    if (packet->pts == AV_NOPTS_VALUE || x->n == MEDIA_MAX_SKIPPABLE_FRAMES ||
        (x->n == x->room && !index_grow(x)) || !times_insert(x->shown, x->n++, packet->pts))
        return false;
    return !(packet->flags & AV_PKT_FLAG_KEY) || times_insert(x->keys, x->n_keys++, packet->pts);
}

/* Reads all packets. VP8 has packets that are not frames, so it gets no index. */
static void index_read(video *f, video_index *out)
{
    bool usable = f->codec->codec_id != AV_CODEC_ID_VP8;
    *out = (video_index){0};
    while (usable && av_read_frame(f->format, f->packet) >= 0) {
        if (f->packet->stream_index == f->stream->index &&
            !(f->packet->flags & AV_PKT_FLAG_DISCARD))
            usable = index_add(out, f->packet);
        av_packet_unref(f->packet);
    }
    if (!usable || out->n_keys == 0)
        index_fini(out);
}

/* How many of n sorted timestamps are smaller. */
static uint32_t times_before(const int64_t *times, uint32_t n, int64_t time)
{
    uint32_t least = 0;
    while (least < n) {
        const uint32_t middle = least + (n - least) / 2;
        if (times[middle] < time)
            least = middle + 1;
        else
            n = middle;
    }
    return least;
}

/* Returns true if the decoder needs the current packet for frame `wanted`. Packets before the last
 * key frame at or before it are skipped. Frames that no other frame refers to are not decoded
 * unless wanted. */
static bool packet_needed(video *f, uint32_t wanted)
{
    const video_index *x = &f->index;
    const AVPacket *packet = f->packet;
    if (x->shown == NULL || wanted >= x->n)
        return true;
    const uint32_t later = times_before(x->keys, x->n_keys, x->shown[wanted] + 1);
    const int64_t from = later > 0 ? x->keys[later - 1] : f->key;
    const bool is_key = (packet->flags & AV_PKT_FLAG_KEY) != 0;
    if (from > f->key && (!is_key || packet->pts != from))
        return false;
    if (from > f->key)
        avcodec_flush_buffers(f->codec);
    if (is_key)
        f->key = packet->pts;
    f->codec->skip_frame = packet->pts < x->shown[wanted] ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
    return true;
}

/* ---- frames ---- */

/* Sends the next packet to the codec; at the end of the file, the request to flush. */
static void video_feed(video *f, uint32_t wanted)
{
    if (av_read_frame(f->format, f->packet) < 0) {
        f->ended = true;
        avcodec_send_packet(f->codec, NULL);
        return;
    }
    if (f->packet->stream_index == f->stream->index && packet_needed(f, wanted))
        avcodec_send_packet(f->codec, f->packet); /* a damaged packet costs its frame only */
    av_packet_unref(f->packet);
}

/* Decodes the next frame on the way to frame `wanted`. */
static bool video_next_frame(video *f, uint32_t wanted)
{
    for (;;) {
        const int got = avcodec_receive_frame(f->codec, f->frame);
        if (got == 0)
            return true;
        if (got == AVERROR_EOF || f->ended)
            return false;
        video_feed(f, wanted);
    }
}

/* Converts into a buffer of the library, because it writes past the ends of rows. */
static bool video_to_rgb(video *f)
{
    const AVFrame *in = f->frame;
    int *inverse, *table, from_full, to_full, brightness, contrast, saturation;
    f->colours = sws_getCachedContext(f->colours, in->width, in->height, in->format, in->width,
                                      in->height, AV_PIX_FMT_RGB24, SWS_BICUBIC, NULL, NULL, NULL);
    if (f->colours == NULL)
        return false;
    if (sws_getColorspaceDetails(f->colours, &inverse, &from_full, &table, &to_full, &brightness,
                                 &contrast, &saturation) >= 0)
        sws_setColorspaceDetails(f->colours, sws_getCoefficients(in->colorspace),
                                 in->color_range == AVCOL_RANGE_JPEG || from_full, table, to_full,
                                 brightness, contrast, saturation);
    av_frame_unref(f->rgb);
    f->rgb->width = in->width;
    f->rgb->height = in->height;
    f->rgb->format = AV_PIX_FMT_RGB24;
    return av_frame_get_buffer(f->rgb, 64) == 0 &&
           sws_scale(f->colours, (const uint8_t *const *)in->data, in->linesize, 0, in->height,
                     f->rgb->data, f->rgb->linesize) == in->height;
}

static mote_status video_make_frame(video *f, media_frame *out, mote_error *err)
{
    TRY(media_check_size((uint64_t)f->frame->width, (uint64_t)f->frame->height, err));
    if (!video_to_rgb(f))
        return err_set(err, MOTE_E_FORMAT, "invalid video: a frame cannot be converted to RGB");
    TRY(media_frame_new(out, (uint32_t)f->rgb->width, (uint32_t)f->rgb->height, err));
    for (uint32_t y = 0; y < out->height; y++)
        memcpy(out->rgb + (size_t)y * out->width * 3,
               f->rgb->data[0] + (ptrdiff_t)y * f->rgb->linesize[0], (size_t)out->width * 3);
    const mote_status status = media_orient(out, video_orientation(f), err);
    if (status != MOTE_OK)
        media_frame_fini(out);
    return status;
}

/* Index of the decoded frame. `counted`: frames decoded before it. */
static uint32_t frame_index(const video *f, uint32_t counted)
{
    const video_index *x = &f->index;
    return x->shown == NULL ? counted
                            : times_before(x->shown, x->n, f->frame->best_effort_timestamp);
}

/* The next frame replaces one that cannot be decoded. If the video has fewer frames than it
 * announced, its last frame is repeated. */
static mote_status video_decode(video *f, media_frame_fn *frame, void *with, mote_error *err)
{
    media_frame image = {0};
    mote_status status = MOTE_OK;
    uint32_t wanted = 0;
    for (uint32_t n = 0;
         status == MOTE_OK && wanted != MEDIA_NO_MORE && video_next_frame(f, wanted); n++) {
        const uint32_t i = frame_index(f, n);
        if (i < wanted)
            continue;
        media_frame_fini(&image);
        image = (media_frame){0};
        status = video_make_frame(f, &image, err);
        while (status == MOTE_OK && wanted <= i)
            wanted = frame(with, wanted, &image);
    }
    while (status == MOTE_OK && image.rgb != NULL && wanted < MEDIA_MAX_SKIPPABLE_FRAMES)
        wanted = frame(with, wanted, &image);
    media_frame_fini(&image);
    return status;
}

mote_status media_decode_ffmpeg(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    video f;
    video_index index;
    TRY(video_open(&f, file, err));
    index_read(&f, &index);
    video_close(&f);
    mote_status status = video_open(&f, file, err);
    if (status == MOTE_OK) {
        f.index = index;
        f.key = index.shown != NULL ? index.keys[0] : 0;
        status = video_decode(&f, frame, with, err);
        video_close(&f);
    }
    index_fini(&index);
    return status;
}
