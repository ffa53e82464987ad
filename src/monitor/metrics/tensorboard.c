// tensorboard.c -- see tensorboard.h. The numbers of fields are those of TensorFlow's event.proto and summary.proto.
#include "monitor/metrics/tensorboard.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/protobuf.h"
#include "base/spans.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELD_WALL_TIME = 1, FIELD_STEP_NUMBER = 2, FIELD_FILE_VERSION = 3, FIELD_SUMMARY = 5 };
enum { FIELD_SESSION_LOG = 7, SESSION_STATUS = 1, SESSION_STARTS = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2 };
// So many steps pass between looks for a record of rank 0 that is not there.
enum { LOOK_STEPS = 64 };
static const int64_t FLUSH_NS = INT64_C(1000000000);

typedef struct tensorboard {
    char *path, *record_path;
    int fd; // -1: the run has not begun
    uint64_t bytes;
    text pending; // records that are not written yet
    int64_t flushed_ns;
    spans *record;  // of rank 0; NULL: not there
    int64_t looked; // the step in which it was looked for
} tensorboard;

// ---- Records

// CRC-32C, bit by bit from a table of 16 entries.
static uint32_t crc32c(const unsigned char *data, size_t bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes; i++) {
        crc = table[(crc ^ data[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (data[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}

uint32_t tensorboard_masked_crc(const void *data, size_t bytes)
{
    const uint32_t crc = crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void add_little(text *out, uint64_t value, size_t bytes)
{
    unsigned char raw[8];
    for (size_t i = 0; i < bytes; i++) raw[i] = (unsigned char)(value >> 8 * i);
    text_add_bytes(out, raw, bytes);
}

void tensorboard_add_record(text *out, const void *data, size_t bytes)
{
    unsigned char length[8];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    text_add_bytes(out, length, sizeof length);
    add_little(out, tensorboard_masked_crc(length, sizeof length), 4);
    text_add_bytes(out, data, bytes);
    add_little(out, tensorboard_masked_crc(data, bytes), 4);
}

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void begin_event(text *message, int64_t step)
{
    protobuf_add_double(message, FIELD_WALL_TIME, wall_time());
    if (step >= 0) protobuf_add_uint(message, FIELD_STEP_NUMBER, (uint64_t)step);
}

static void end_event(tensorboard *b, text *message)
{
    if (message->failed) text_fail(&b->pending);
    tensorboard_add_record(&b->pending, message->chars, message->bytes);
    text_clear(message);
}

static void add_scalar(text *summary, const char *tag, double value)
{
    text one = {0};
    protobuf_add_bytes(&one, VALUE_TAG, tag, strlen(tag));
    protobuf_add_float(&one, VALUE_NUMBER, (float)value);
    protobuf_add_message(summary, SUMMARY_VALUE, &one);
    text_clear(&one);
}

static void add_summary(tensorboard *b, int64_t step, text *summary)
{
    text message = {0};
    begin_event(&message, step);
    protobuf_add_message(&message, FIELD_SUMMARY, summary);
    end_event(b, &message);
    text_clear(summary);
}

// ---- The file

static status flush(tensorboard *b, err *e)
{
    status result = OK;
    b->flushed_ns = clock_ns();
    TRY(text_check(&b->pending, e));
    if (!b->pending.bytes) goto done;
    TRY(file_write_at(b->fd, b->path, b->pending.chars, b->pending.bytes, b->bytes, e));
    b->bytes += b->pending.bytes;
done:
    text_clear(&b->pending);
    return result;
}

// Readers drop the steps of earlier files from the session's first step on.
static void add_head(tensorboard *b, int64_t first)
{
    text message = {0}, log = {0};
    begin_event(&message, -1);
    protobuf_add_bytes(&message, FIELD_FILE_VERSION, "brain.Event:2", strlen("brain.Event:2"));
    end_event(b, &message);
    protobuf_add_uint(&log, SESSION_STATUS, SESSION_STARTS);
    begin_event(&message, first);
    protobuf_add_message(&message, FIELD_SESSION_LOG, &log);
    end_event(b, &message);
    text_clear(&log);
}

static status begin(tensorboard *b, int64_t resumed_from, err *e)
{
    status result = OK;
    if (b->fd < 0) b->fd = open(b->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (b->fd < 0) return err_errno(e, "%s: cannot write it", b->path);
    add_head(b, resumed_from < 0 ? 0 : resumed_from + 1);
    TRY(flush(b, e));
done:
    return result;
}

// ---- The sink

static void add_memory(tensorboard *b, int64_t step, text *summary)
{
    if (!b->record && (b->looked < 0 || step >= b->looked + LOOK_STEPS)) {
        b->looked = step;
        (void)spans_open(b->record_path, &b->record, NULL);
    }
    if (!b->record) return;
    const spans_head *h = b->record->head;
    add_scalar(summary, "memory/rank_0_bytes", (double)atomic_load(&h->bytes_now));
    add_scalar(summary, "memory/rank_0_peak_bytes", (double)atomic_load(&h->bytes_peak));
}

static void add_step(tensorboard *b, const event_step *s)
{
    text summary = {0};
    add_scalar(&summary, "train/loss", s->loss);
    add_scalar(&summary, "train/grad_norm", s->grad_norm);
    for (int i = 0; i < s->group_norms; i++) {
        text tag = {0};
        text_addf(&tag, "train/grad_norm/%s", s->group_norm[i].name);
        if (tag.failed) text_fail(&summary);
        if (!tag.failed) add_scalar(&summary, tag.chars, s->group_norm[i].norm);
        text_clear(&tag);
    }
    add_scalar(&summary, "train/lr", s->lr);
    add_scalar(&summary, "speed/step_seconds", (double)s->seconds);
    add_scalar(&summary, "speed/tokens_per_second", (double)s->tokens_per_s);
    if (!isnan(s->mfu)) add_scalar(&summary, "speed/mfu", (double)s->mfu);
    if (s->loss_scale > 0) add_scalar(&summary, "train/loss_scale", s->loss_scale);
    add_memory(b, s->step, &summary);
    add_summary(b, s->step, &summary);
}

static void add_eval(tensorboard *b, const event *ev)
{
    text summary = {0};
    add_scalar(&summary, "eval/loss", ev->eval.loss);
    if (ev->eval.has_perplexity) add_scalar(&summary, "eval/perplexity", exp(ev->eval.loss));
    add_summary(b, ev->eval.step, &summary);
}

static void add_save(tensorboard *b, const event *ev)
{
    text summary = {0};
    add_scalar(&summary, "checkpoint/seconds", (double)ev->save.seconds);
    add_scalar(&summary, "checkpoint/bytes", (double)ev->save.bytes);
    add_summary(b, ev->save.step, &summary);
}

static status take(void *arg, const event *ev, err *e)
{
    tensorboard *b = arg;
    if (ev->kind == EVENT_START) return begin(b, ev->start.resumed_from, e);
    if (ev->kind == EVENT_STEP) add_step(b, &ev->step);
    if (ev->kind == EVENT_EVAL) add_eval(b, ev);
    if (ev->kind == EVENT_SAVE) add_save(b, ev);
    const bool is_due = ev->kind != EVENT_STEP || clock_ns() - b->flushed_ns >= FLUSH_NS;
    return b->fd >= 0 && is_due ? flush(b, e) : OK;
}

static void close_tensorboard(void *arg)
{
    tensorboard *b = arg;
    if (b->fd >= 0) {
        (void)flush(b, NULL); // of a run that failed
        close(b->fd);
    }
    spans_close(b->record);
    text_clear(&b->pending);
    free(b->record_path);
    free(b->path);
    free(b);
}

// "RUN/tensorboard/events.out.tfevents.SECONDS.HOST.PID.0", as TensorFlow names its files.
static status name_file(const char *run, char **out, err *e)
{
    status result = OK;
    char host[65] = "host";
    char *folder = NULL;
    text path = {0};
    (void)gethostname(host, sizeof host - 1);
    TRY(file_join(run, "tensorboard", &folder, e));
    TRY(file_make_directories(folder, e));
    text_addf(&path, "%s/events.out.tfevents.%.0f.%s.%ld.0", folder, floor(wall_time()), host,
              (long)getpid());
    TRY(text_take(&path, out, e));
done:
    text_clear(&path);
    free(folder);
    return result;
}

status tensorboard_open(const char *run, event_sink *out, err *e)
{
    status result = OK;
    tensorboard *b = NULL;
    TRY(alloc_zeroed(&b, 1, sizeof *b, "an event file", e));
    b->fd = -1;
    b->looked = -1;
    TRY(name_file(run, &b->path, e));
    TRY(file_join(run, "spans/rank-00000.spans", &b->record_path, e));
    *out = (event_sink){take, close_tensorboard, b};
    b = NULL;
done:
    if (b) close_tensorboard(b);
    return result;
}
