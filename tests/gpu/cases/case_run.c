// case_run.c -- the runner of cases, and the program around them. case.h says what a case is.
#include "case.h"

#include "base/rng.h"
#include "device/cpu/cpu.h"

#include <stdarg.h>
#include <stdlib.h>

enum { REPETITIONS = 3, FAILURES = 20 };

struct case_run {
    device *device;
    device_stream *stream;
    int cases, failures;
    double worst[KERNELS]; // errors, in units of the tolerance
    uint64_t picks;
    bool prepares;    // the device prepares each call before its launch
    const char *only; // of cases whose names have this in them; NULL: of all
    char text[256];   // names the case that runs
};

// The reference in double (ref64.h).
void ref64_kernels_fill(cpu_kernels *k);

void case_reference(kernel_call *call)
{
    static cpu_context context;
    static cpu_kernels kernels;
    err e = {0};
    if (!kernels.run[0]) {
        ref64_kernels_fill(&kernels);
        if (cpu_context_open(&(device_options){.threads = 1}, &context, &e) != OK) {
            fprintf(stderr, "cases: %s\n", e.text);
            exit(1);
        }
    }
    kernels.run[call->kind](&context, &call->u);
}

void case_prepare(case_run *r)
{
    r->prepares = true;
}

int64_t case_pick(case_run *r, int64_t low, int64_t high)
{
    const uint32_t word = rng_word(rng_key_make(11, RNG_MOCK, 0, 0), r->picks++);
    return low + (int64_t)(word % (uint64_t)(high - low + 1));
}

static void fail(case_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(case_run *r, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "FAILED %s: ", r->text);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (++r->failures < FAILURES) return;
    fprintf(stderr, "%d failures are enough\n", FAILURES);
    exit(1);
}

// ---- One launch

// Memory of the device that starts as the given bytes.
static unsigned char *to_device(case_run *r, const unsigned char *bytes, size_t count)
{
    void *p = NULL;
    err e = {0};
    if (device_alloc(r->device, MEMORY_DEVICE, count, &p, &e) != OK ||
        device_upload(r->stream, p, bytes, count, &e) != OK) {
        fprintf(stderr, "%s: %s\n", r->text, e.text);
        exit(1);
    }
    return p;
}

static void from_device(case_run *r, unsigned char *bytes, unsigned char *p, size_t count)
{
    err e = {0};
    if (device_download(r->stream, bytes, p, count, &e) != OK) {
        fprintf(stderr, "%s: %s\n", r->text, e.text);
        exit(1);
    }
    device_release(r->device, MEMORY_DEVICE, p, count);
}

// Launches the call with exactly the workspace that it needs.
static void launch(case_run *r, kernel_call *call, int repetition)
{
    const size_t bytes = kernel_workspace_bytes(r->device->needs, call), all = bytes + BEYOND;
    const int poison = repetition % 2 ? 0x7b : 0xff;
    unsigned char *memory = malloc(all);
    err e = {0};
    if (!memory) abort();
    memset(memory, poison, all);
    unsigned char *p = to_device(r, memory, all);
    call->workspace = bytes ? p : NULL;
    call->workspace_bytes = bytes;
    if (r->prepares && r->device->ops->prepare &&
        r->device->ops->prepare(r->device, call, &e) != OK)
        fail(r, "%s", e.text);
    if (case_before_launch) case_before_launch(repetition, call, p);
    device_launch(r->stream, call);
    if (r->device->ops->sync(r->stream, &e) != OK) fail(r, "%s", e.text);
    from_device(r, memory, p, all);
    for (size_t i = bytes; i < all; i++)
        if (memory[i] != poison) {
            fail(r, "byte %zu beyond the workspace of %zu bytes was written", i - bytes, bytes);
            break;
        }
    free(memory);
}

// Describes the call, runs it on the device, and leaves the results in s.
static kernel_call run_on_device(case_run *r, case_describe describe, const void *shape, space *s,
                                 int repetition)
{
    kernel_call call = describe(s, shape), there = call;
    for (int i = 0; i < s->used; i++)
        s->array[i].device = to_device(r, s->array[i].memory, s->array[i].total);
    if (case_to_device(&there, s)) {
        launch(r, &there, repetition);
    } else {
        fail(r, "a pointer of the call is in no array of its space");
    }
    for (int i = 0; i < s->used; i++)
        from_device(r, s->array[i].memory, s->array[i].device, s->array[i].total);
    return call;
}

// ---- What must hold

// Nothing but the outputs has changed; `start` is the case before its launch.
static void check_rest(case_run *r, const space *start, const space *have)
{
    for (int i = 0; i < start->used; i++) {
        const space_array *a = &start->array[i], *b = &have->array[i];
        const size_t front = (size_t)(a->data - a->memory), back = front + a->bytes;
        const char *name = a->name ? a->name : "an input";
        if (memcmp(a->memory, b->memory, front) != 0 ||
            memcmp(a->memory + back, b->memory + back, a->total - back) != 0)
            fail(r, "array %d (%s) was written outside", i, name);
        if (!a->name && memcmp(a->data, b->data, a->bytes) != 0) fail(r, "input %d was written", i);
    }
}

static bool is_compared(const space_array *a)
{
    return a->name && strcmp(a->name, SPACE_SCRATCH) != 0;
}

static bool has_fixed_order(const kernel_call *c)
{
    return c->kind != K_ATTENTION_GRAD || !c->u.attention_grad.any_order;
}

static void check_outputs(case_run *r, kernel_kind kind, const space *want, const space *have)
{
    char text[256];
    double worst;
    for (int i = 0; i < want->used; i++) {
        if (!is_compared(&want->array[i])) continue;
        if (!case_compare(kind, &want->array[i], &have->array[i], &worst, text, sizeof text))
            fail(r, "%s", text);
        else
            r->worst[kind] = fmax(r->worst[kind], worst);
    }
}

static void check_same_bits(case_run *r, const space *first, const space *second)
{
    for (int i = 0; i < first->used; i++) {
        const space_array *a = &first->array[i], *b = &second->array[i];
        if (!is_compared(a) || memcmp(a->data, b->data, a->bytes) == 0) continue;
        fail(r, "two launches gave other bits of %s", a->name);
    }
}

static void check_at(case_run *r, case_describe describe, const void *shape, bool odd)
{
    space start = {.odd = odd}, want = {.odd = odd}, first = {.odd = odd};
    describe(&start, shape);
    kernel_call call = describe(&want, shape);
    case_reference(&call);
    run_on_device(r, describe, shape, &first, 0);
    check_rest(r, &start, &first);
    check_outputs(r, call.kind, &want, &first);
    for (int i = 1; i < REPETITIONS; i++) {
        space again = {.odd = odd};
        run_on_device(r, describe, shape, &again, i);
        if (has_fixed_order(&call))
            check_same_bits(r, &first, &again);
        else
            check_outputs(r, call.kind, &want, &again);
        space_free(&again);
    }
    space_free(&start);
    space_free(&want);
    space_free(&first);
}

static bool is_left_out(const case_run *r, const char *text)
{
    return r->only && !strstr(text, r->only);
}

void case_check(case_run *r, case_describe describe, const void *shape, const char *text, ...)
{
    char shape_text[160];
    va_list args;
    va_start(args, text);
    vsnprintf(shape_text, sizeof shape_text, text, args);
    va_end(args);
    if (is_left_out(r, shape_text)) return;
    for (int odd = 0; odd < 2; odd++) {
        snprintf(r->text, sizeof r->text, "%s, %s", shape_text, odd ? "odd addresses" : "aligned");
        check_at(r, describe, shape, odd);
    }
    r->cases++;
}

static void compare_sequence(case_run *r, const space *start, const space *all, const space *one,
                             int sequences, int index)
{
    for (int i = 0; i < all->used; i++) {
        const space_array *a = &all->array[i], *b = &one->array[i];
        const size_t bytes = a->bytes / (size_t)sequences, from = bytes * (size_t)index;
        if (!a->name) continue;
        if (memcmp(a->data + from, b->data + from, bytes) != 0)
            fail(r, "%s of sequence %d depends on the batch", a->name, index);
        // What lies around the sequence is as it was.
        memcpy(b->data + from, start->array[i].data + from, bytes);
        if (memcmp(start->array[i].memory, b->memory, b->total) != 0)
            fail(r, "%s was written outside of sequence %d", a->name, index);
    }
}

void case_check_sequence(case_run *r, case_describe batch, case_describe one, const void *shape,
                         int sequences, int index, const char *text)
{
    space start = {.odd = false}, all = {.odd = false}, alone = {.odd = false};
    if (is_left_out(r, text)) return;
    snprintf(r->text, sizeof r->text, "%s, sequence %d", text, index);
    batch(&start, shape);
    run_on_device(r, batch, shape, &all, 0);
    run_on_device(r, one, shape, &alone, 1);
    compare_sequence(r, &start, &all, &alone, sequences, index);
    space_free(&start);
    space_free(&all);
    space_free(&alone);
    r->cases++;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cuda";
    case_run r = {.only = argc > 2 ? argv[2] : NULL};
    err e = {0};
    if (device_open(name, NULL, &r.device, &e) != OK ||
        r.device->ops->stream_open(r.device, STREAM_COMPUTE, false, &r.stream, &e) != OK) {
        fprintf(stderr, "cases: %s\n", e.text);
        return 1;
    }
    cases_run(&r);
    r.device->ops->stream_close(r.stream);
    device_close(r.device);
    for (int k = 0; k < KERNELS; k++)
        if (r.worst[k] > 0)
            printf("%-20s largest error %.2f of the tolerance\n", kernel_name((kernel_kind)k),
                   r.worst[k]);
    printf("%d cases on %s, %d failures\n", r.cases, name, r.failures);
    return r.failures || r.cases == 0 ? 1 : 0;
}
