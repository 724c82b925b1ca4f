/* SPDX-License-Identifier: Apache-2.0 */
/* resize_test.c - sizes and sampled frames equal those of the reference implementation. */
#include "media/decode/resize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct size_case {
    uint32_t width, height, want_width, want_height;
} size_case;

static void image_sizes(void **state)
{
    (void)state;
    static const size_case cases[] = {
        {256, 256, 256, 256},     {300, 200, 320, 224},    {320, 240, 320, 256},
        {1, 1, 256, 256},         {5, 3, 352, 224},        {272, 240, 256, 256}, /* ties to even */
        {4000, 3000, 4000, 3008}, {8000, 6000, 4704, 3520}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t w, h;
        assert_int_equal(
            media_resize_image(cases[i].width, cases[i].height, (media_limits){0}, &w, &h, NULL),
            MOTE_OK);
        assert_int_equal(w, cases[i].want_width);
        assert_int_equal(h, cases[i].want_height);
    }
}

static void limits_are_kept(void **state)
{
    (void)state;
    uint32_t w, h;
    for (uint64_t most = 32 * 32; most <= 4 << 20; most *= 2) {
        assert_int_equal(media_resize_image(4000, 3000, (media_limits){0, most}, &w, &h, NULL),
                         MOTE_OK);
        assert_true((uint64_t)w * h <= most || (w == MEDIA_SIDE || h == MEDIA_SIDE));
        assert_true(w % MEDIA_SIDE == 0 && h % MEDIA_SIDE == 0 && w > 0 && h > 0);
    }
    assert_int_equal(media_resize_image(201, 1, (media_limits){0}, &w, &h, NULL), MOTE_E_ARG);
    assert_int_equal(media_resize_image(1, 200, (media_limits){0}, &w, &h, NULL), MOTE_OK);
    assert_int_equal(media_resize_image(0, 5, (media_limits){0}, &w, &h, NULL), MOTE_E_ARG);
}

static void sampled_frames(void **state)
{
    (void)state;
    static const uint32_t fast[] = {0, 6, 13, 19}, slow[] = {0, 2, 4, 6, 8, 11, 13, 15, 17, 19};
    assert_int_equal(media_frames_wanted(20, 10), 4);
    assert_int_equal(media_frames_wanted(20, 4), 10);
    assert_int_equal(media_frames_wanted(7, 2), 7);
    assert_int_equal(media_frames_wanted(3, 2), 3);
    assert_int_equal(media_frames_wanted(1 << 20, 2), MEDIA_FRAMES_MAX);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(media_frame_at(i, 4, 20), fast[i]);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(media_frame_at(i, 10, 20), slow[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(image_sizes),
                                       cmocka_unit_test(limits_are_kept),
                                       cmocka_unit_test(sampled_frames)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
