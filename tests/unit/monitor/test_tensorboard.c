// test_tensorboard.c -- TensorBoard's event files, read back: the frames and their checks, the fields, tags and values.
#include "monitor/metrics/tensorboard.h"

#include "made_run.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

static int enter_folder(void **state)
{
    static char folder[64];
    (void)snprintf(folder, sizeof folder, "/tmp/trireme-test-XXXXXX");
    *state = folder;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    return chdir("/") || file_remove_tree(*state, NULL) != OK;
}

// ---- A reader of the messages

typedef struct field {
    unsigned number, wire;
    uint64_t value; // a varint, or the bits of a fixed one
    const unsigned char *bytes;
    size_t count;
} field;

static uint64_t read_varint(const unsigned char **at)
{
    uint64_t value = 0;
    int shift = 0;
    do value |= (uint64_t)(**at & 127) << shift, shift += 7;
    while (*(*at)++ & 128);
    return value;
}

static field read_field(const unsigned char **at)
{
    const uint64_t key = read_varint(at);
    field f = {.number = (unsigned)(key >> 3), .wire = (unsigned)(key & 7)};
    if (f.wire == 0) {
        f.value = read_varint(at);
    } else if (f.wire == 2) {
        f.count = (size_t)read_varint(at);
        f.bytes = *at;
        *at += f.count;
    } else {
        const size_t count = f.wire == 1 ? 8 : 4;
        for (size_t i = 0; i < count; i++) f.value |= (uint64_t)(*at)[i] << 8 * i;
        *at += count;
    }
    return f;
}

// Writes "step 3: train/loss=0.5 …" of an event.
static void describe_value(const field *value, text *out)
{
    const unsigned char *at = value->bytes;
    while (at < value->bytes + value->count) {
        const field f = read_field(&at);
        const uint32_t bits = (uint32_t)f.value;
        float number;
        memcpy(&number, &bits, sizeof number);
        if (f.number == 1) text_addf(out, " %.*s", (int)f.count, (const char *)f.bytes);
        if (f.number == 2) text_addf(out, "=%g", (double)number);
    }
}

static void describe_event(const unsigned char *at, size_t bytes, text *out)
{
    const unsigned char *end = at + bytes;
    while (at < end) {
        const field f = read_field(&at);
        const unsigned char *inner = f.bytes;
        double seconds;
        memcpy(&seconds, &f.value, sizeof seconds);
        if (f.number == 1) assert_true(f.wire == 1 && seconds > 1.7e9);
        if (f.number == 2) text_addf(out, "step %llu", (unsigned long long)f.value);
        if (f.number == 3) text_addf(out, "%.*s", (int)f.count, (const char *)f.bytes);
        if (f.number == 7)
            text_addf(out, " session %llu", (unsigned long long)read_field(&inner).value);
        while (f.number == 5 && inner < f.bytes + f.count) {
            const field value = read_field(&inner);
            describe_value(&value, out);
        }
    }
    text_add(out, "\n");
}

static uint64_t little(const char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return value;
}

static void describe_file(const char *path, text *out)
{
    char *chars = NULL;
    size_t bytes = 0;
    assert_int_equal(file_read(path, &chars, &bytes, NULL), OK);
    for (size_t at = 0; at < bytes;) {
        const size_t length = (size_t)little(chars + at, 8);
        assert_true(at + 16 + length <= bytes);
        assert_int_equal(little(chars + at + 8, 4), tensorboard_masked_crc(chars + at, 8));
        assert_int_equal(little(chars + at + 12 + length, 4),
                         tensorboard_masked_crc(chars + at + 12, length));
        describe_event((const unsigned char *)chars + at + 12, length, out);
        at += 16 + length;
    }
    free(chars);
}

// The only file in RUN/tensorboard.
static void find_file(const char *run, char out[400])
{
    char folder[100];
    int count = 0;
    (void)snprintf(folder, sizeof folder, "%s/tensorboard", run);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *x; (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        (void)snprintf(out, 400, "%s/%s", folder, x->d_name);
        count++;
    }
    closedir(d);
    assert_int_equal(count, 1);
    assert_non_null(strstr(out, "/events.out.tfevents."));
}

// ---- Tests

// The checks of RFC 3720, masked as TFRecord does.
static void checks_are_masked_crc_32c(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0};
    const uint32_t plain = 0x8a9136aa, digits = 0xe3069283;
    assert_int_equal(tensorboard_masked_crc(zeros, sizeof zeros),
                     (uint32_t)((plain >> 15 | plain << 17) + 0xa282ead8));
    assert_int_equal(tensorboard_masked_crc("123456789", 9),
                     (uint32_t)((digits >> 15 | digits << 17) + 0xa282ead8));
}

static void give(const event_sink *s, event ev)
{
    assert_int_equal(s->take(s->arg, &ev, NULL), OK);
}

static void events_are_read_back(void **state)
{
    (void)state;
    event_sink s;
    char path[400];
    text found = {0};
    const made_run o = {.ranks = 1, .steps = 1};
    assert_int_equal(made_run_write("run", &o, NULL), OK);
    assert_int_equal(tensorboard_open("run", &s, NULL), OK);
    give(&s, (event){.kind = EVENT_START, .start = {.resumed_from = 6}});
    give(&s, (event){.kind = EVENT_STEP,
                     .step = {.step = 7,
                              .loss = 0.5,
                              .grad_norm = 2,
                              .lr = 0.25,
                              .seconds = 0.125f,
                              .tokens_per_s = 512,
                              .mfu = NAN}});
    give(&s, (event){.kind = EVENT_EVAL, .eval = {.step = 7, .has_perplexity = true}});
    give(&s, (event){.kind = EVENT_SAVE, .save = {.step = 7, .bytes = 4096, .seconds = 2}});
    find_file("run", path);
    describe_file(path, &found); // an evaluation and a checkpoint are written at once
    assert_string_equal(found.chars, "brain.Event:2\n"
                                     "step 7 session 1\n"
                                     "step 7 train/loss=0.5 train/grad_norm=2 train/lr=0.25 "
                                     "speed/step_seconds=0.125 speed/tokens_per_second=512 "
                                     "memory/rank_0_bytes=1e+09 memory/rank_0_peak_bytes=1e+09\n"
                                     "step 7 eval/loss=0 eval/perplexity=1\n"
                                     "step 7 checkpoint/seconds=2 checkpoint/bytes=4096\n");
    text_clear(&found);
    s.close(s.arg);
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    event_sink s;
    char path[400];
    text found = {0};
    assert_int_equal(file_make_directories("bare", NULL), OK);
    assert_int_equal(tensorboard_open("bare", &s, NULL), OK);
    give(&s, (event){.kind = EVENT_START, .start = {.resumed_from = -1}});
    const event_group_norm norm = {"*.bias", 2};
    give(&s, (event){.kind = EVENT_STEP,
                     .step = {.step = 1,
                              .mfu = 0.5f,
                              .loss_scale = 1024,
                              .group_norm = &norm,
                              .group_norms = 1}});
    s.close(s.arg);
    find_file("bare", path);
    describe_file(path, &found);
    assert_string_equal(found.chars,
                        "brain.Event:2\n"
                        "step 0 session 1\n"
                        "step 1 train/loss=0 train/grad_norm=0 train/grad_norm/*.bias=2 train/lr=0 "
                        "speed/step_seconds=0 speed/tokens_per_second=0 speed/mfu=0.5 "
                        "train/loss_scale=1024\n");
    text_clear(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checks_are_masked_crc_32c),
        cmocka_unit_test(events_are_read_back),
        cmocka_unit_test(what_is_not_known_is_left_out),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
