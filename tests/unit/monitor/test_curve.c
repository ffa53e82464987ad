// test_curve.c -- losses read back from a log.jsonl, the sparkline, and a picture that libpng
// reads.
#include "base/file.h"
#include "monitor/canvas.h"
#include "monitor/curve.h"
#include "monitor/log.h"
#include "own_text.h"

#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], *log_path, *png_path;
static err e;

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-curve-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    log_path = own_path(folder, "log.jsonl");
    png_path = own_path(folder, "loss.png");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(log_path);
    free(png_path);
    return file_remove_tree(folder, &e);
}

static void write_raw(const char *s)
{
    FILE *f = fopen(log_path, "w");
    assert_non_null(f);
    fputs(s, f);
    assert_int_equal(fclose(f), 0);
}

static void losses_come_back_and_other_events_are_passed_over(void **state)
{
    curve c;

    (void)state;
    write_raw("{\"event\":\"start\",\"ranks\":2}\n"
              "{\"event\":\"step\",\"step\":1,\"loss\":7.5}\n"
              "{\"event\":\"step\",\"step\":2,\"loss\":null,\"loss_text\":\"nan\"}\n"
              "{\"event\":\"step\",\"step\":3,\"loss\":6}\n"
              "{\"event\":\"eval\",\"step\":3,\"loss\":6.5,\"perplexity\":665}\n"
              "{\"event\":\"end\",\"step\":3}\n"
              "{\"event\":\"step\",\"step\":4,\"lo");
    assert_int_equal(curve_read(log_path, &c, &e), OK);
    assert_int_equal(c.train.count, 2);
    assert_true(c.train.step[1] == 3 && c.train.loss[1] == 6);
    assert_int_equal(c.valid.count, 1);
    assert_true(c.valid.loss[0] == 6.5);
    curve_clear(&c);
}

static void steps_done_again_after_a_resume_replace_the_old_ones(void **state)
{
    curve c;

    (void)state;
    write_raw("{\"event\":\"step\",\"step\":1,\"loss\":5}\n"
              "{\"event\":\"step\",\"step\":2,\"loss\":4}\n"
              "{\"event\":\"eval\",\"step\":2,\"loss\":4.5}\n"
              "{\"event\":\"step\",\"step\":3,\"loss\":3}\n"
              "{\"event\":\"eval\",\"step\":3,\"loss\":3.5}\n"
              "{\"event\":\"start\",\"resumed_from\":2}\n"
              "{\"event\":\"step\",\"step\":3,\"loss\":30}\n"
              "{\"event\":\"step\",\"step\":4,\"loss\":20}\n");
    assert_int_equal(curve_read(log_path, &c, &e), OK);
    assert_int_equal(c.train.count, 4);
    assert_true(c.train.loss[2] == 30 && c.train.loss[3] == 20);
    assert_int_equal(c.valid.count, 1);
    assert_true(c.valid.step[0] == 2);
    curve_clear(&c);
}

static void broken_logs_are_refused_with_their_line(void **state)
{
    curve c;

    (void)state;
    write_raw("{\"event\":\"end\"}\n{\"event\":\n");
    assert_int_equal(curve_read(log_path, &c, &e), E_USAGE);
    assert_non_null(strstr(e.text, "log.jsonl:2:"));
    curve_clear(&c);
    write_raw("[1]\n");
    assert_int_equal(curve_read(log_path, &c, &e), E_USAGE);
    curve_clear(&c);
    assert_true(curve_read("/nowhere/log.jsonl", &c, &e) != OK);
    curve_clear(&c);
}

static void a_sparkline_falls_with_the_loss_and_keeps_to_its_width(void **state)
{
    double loss[100], step[100];
    curve_line line = {.step = step, .loss = loss, .count = 100};
    text t = {0};

    (void)state;
    for (int i = 0; i < 100; i++) loss[i] = 100 - i;
    curve_sparkline(&line, 8, &t);
    assert_string_equal(t.chars, "█▇▆▅▄▃▂▁");
    text_clear(&t);
    line.count = 2;
    curve_sparkline(&line, 8, &t);
    assert_string_equal(t.chars, "█▁");
    text_clear(&t);
    loss[1] = loss[0];
    curve_sparkline(&line, 8, &t);
    assert_string_equal(t.chars, "▁▁");
    text_clear(&t);
    line.count = 0;
    curve_sparkline(&line, 8, &t);
    assert_int_equal(t.bytes, 0);
}

// Reads the picture back; the caller frees the pixels.
static uint8_t *read_png(png_image *image)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    assert_true(png_image_begin_read_from_file(image, png_path));
    image->format = PNG_FORMAT_RGB;
    uint8_t *rgb = malloc(PNG_IMAGE_SIZE(*image));
    assert_non_null(rgb);
    assert_true(png_image_finish_read(image, NULL, rgb, 0, NULL));
    return rgb;
}

static void the_picture_holds_the_lines_and_is_read_by_libpng(void **state)
{
    double step[3] = {1, 2, 3}, loss[3] = {3, 2, 1}, one = 2, at = 2;
    curve c = {.train = {step, loss, 3, 3}, .valid = {&at, &one, 1, 1}};
    png_image image;
    uint8_t *rgb;
    long blue = 0, orange = 0;

    (void)state;
    assert_int_equal(curve_draw_png(&c, png_path, 0, 0, &e), OK);
    rgb = read_png(&image);
    assert_int_equal(image.width, 960);
    assert_int_equal(image.height, 540);
    for (size_t i = 0; i < 960 * 540; i++) {
        blue += rgb[3 * i] == 0x1f && rgb[3 * i + 1] == 0x5f && rgb[3 * i + 2] == 0xa8;
        orange += rgb[3 * i] == 0xd9 && rgb[3 * i + 1] == 0x48 && rgb[3 * i + 2] == 0x0f;
    }
    assert_true(blue > 500);
    assert_true(orange > 30);
    free(rgb);
}

static void one_point_flat_lines_and_huge_losses_can_be_drawn(void **state)
{
    static const double values[] = {0.0, 1.0, -3.0, 1e-12, 1e30};
    double step[300], loss[300];
    curve c = {.train = {step, loss, 300, 300}};

    (void)state;
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        for (int i = 0; i < 300; i++) {
            step[i] = i + 1;
            loss[i] = values[v];
        }
        for (c.train.count = 1; c.train.count <= 300; c.train.count += 299)
            assert_int_equal(curve_draw_png(&c, png_path, 320, 200, &e), OK);
    }
}

static void pictures_without_losses_or_of_absurd_size_are_refused(void **state)
{
    double one = 1;
    curve c = {0}, full = {.train = {&one, &one, 1, 1}};

    (void)state;
    assert_int_equal(curve_draw_png(&c, png_path, 0, 0, &e), E_USAGE);
    assert_int_equal(curve_draw_png(&full, png_path, 100, 100, &e), E_USAGE);
    assert_int_equal(curve_draw_png(&full, png_path, -5, 1 << 30, &e), E_USAGE);
    assert_true(curve_draw_png(&full, "/nowhere/loss.png", 0, 0, &e) != OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_come_back_and_other_events_are_passed_over),
        cmocka_unit_test(steps_done_again_after_a_resume_replace_the_old_ones),
        cmocka_unit_test(broken_logs_are_refused_with_their_line),
        cmocka_unit_test(a_sparkline_falls_with_the_loss_and_keeps_to_its_width),
        cmocka_unit_test(the_picture_holds_the_lines_and_is_read_by_libpng),
        cmocka_unit_test(one_point_flat_lines_and_huge_losses_can_be_drawn),
        cmocka_unit_test(pictures_without_losses_or_of_absurd_size_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
