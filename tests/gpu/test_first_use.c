// test_first_use.c -- what the cuda device takes for granted of CUDA, each as a case of its own, so that one run on a
// GPU says which of it does not hold: code that is loaded late, flags of streams, memory of other processes.
// ./check-gpu runs it there. On the stand-in it shows that the cases themselves are right. Each case is a
// process with a time limit of its own, because what does not hold mostly means that a stream waits for ever.
#include "child.h"

#include "device/device.h"
#include "device/kernel_needs.h"
#include "device/kernels.h"
#include "device/sharing.h"

#include <sys/mman.h>

enum { COUNT = 1000, BYTES = COUNT * sizeof(float), STREAMS_MOST = 16, SECONDS = 25 };

// What the ranks of a case share. Flags stand at its start, which is that of a page.
typedef struct page {
    device_flag flag[STREAMS_MOST];
    device_handle handle[2];
    _Atomic int turn; // how far the other process is
} page;

typedef struct rig {
    device *d;
    device_stream *a, *b;
    float *x, *y; // [COUNT] device memory: ones, and zeros
    float *back;  // [COUNT] host memory of the device
    page *shared;
} rig;

static void good(status s, const err *e, const char *what)
{
    if (s == OK) return;
    fprintf(stderr, "%s: %s\n", what, e->text);
    _exit(CHILD_FAILED);
}
#define GOOD(call)                                                                                 \
    do {                                                                                           \
        err e = {0};                                                                               \
        good(call, &e, #call);                                                                     \
    } while (0)

static void *take(const rig *r, device_memory_kind kind, size_t bytes)
{
    void *p = NULL;
    GOOD(device_alloc(r->d, kind, bytes, &p, &e));
    return p;
}

static page *page_open(void)
{
    page *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static rig rig_open_on(int index, page *shared)
{
    rig r = {.shared = shared};
    float ones[COUNT];
    alarm(SECONDS);
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    GOOD(device_open("cuda", &(device_options){.index = index}, &r.d, &e));
    GOOD(r.d->ops->stream_open(r.d, STREAM_COMPUTE, false, &r.a, &e));
    GOOD(r.d->ops->stream_open(r.d, STREAM_COMM, false, &r.b, &e));
    r.x = take(&r, MEMORY_DEVICE, BYTES);
    r.y = take(&r, MEMORY_ZEROED, BYTES);
    r.back = take(&r, MEMORY_HOST, BYTES);
    GOOD(device_upload(r.a, r.x, ones, BYTES, &e));
    GOOD(r.d->ops->sharing->open_flags(r.d, shared, sizeof *shared, &e));
    return r;
}

static rig rig_open(void)
{
    return rig_open_on(0, page_open());
}

// Nobody has the memory of this device open any more.
static void rig_close(rig *r)
{
    r->d->ops->sharing->close_flags(r->d, r->shared, true);
    r->d->ops->stream_close(r->a);
    r->d->ops->stream_close(r->b);
    r->d->ops->sharing->close_imports(r->d);
    device_release(r->d, MEMORY_DEVICE, r->x, BYTES);
    device_release(r->d, MEMORY_ZEROED, r->y, BYTES);
    device_release(r->d, MEMORY_HOST, r->back, BYTES);
    r->d->ops->sharing->free_exported(r->d);
    device_close(r->d);
}

static void finish(const rig *r, device_stream *s)
{
    GOOD(r->d->ops->sync(s, &e));
}

// y = x + y
static void add(device_stream *s, const float *x, float *y)
{
    device_launch(s, &(kernel_call){
                         .kind = K_ADD,
                         .u.add = {.count = COUNT, .a = x, .b = y, .y = y, .alpha = 1, .beta = 1}});
}

static void set(const rig *r, device_stream *s, int flag)
{
    r->d->ops->sharing->set_flags(s, &(device_flag *){&r->shared->flag[flag]}, 1);
}

static void await(const rig *r, device_stream *s, int flag)
{
    r->d->ops->sharing->wait_flags(s, &(device_flag *){&r->shared->flag[flag]}, 1);
}

static void set_by_host(const rig *r, int flag)
{
    atomic_store(&r->shared->flag[flag].is_set, 1);
}

static void expect(const rig *r, const float *p, float value)
{
    r->d->ops->copy(r->a, r->back, p, BYTES);
    finish(r, r->a);
    for (int i = 0; i < COUNT; i++) CHECK(r->back[i] == value);
}

static device_recording *ended(const rig *r)
{
    device_recording *x = NULL;
    GOOD(r->d->ops->capture_end(r->a, &x, &e));
    return x;
}

static void begin(const rig *r)
{
    GOOD(r->d->ops->capture_begin(r->a, &e));
}

static void replay(const rig *r, device_recording *x)
{
    GOOD(r->d->ops->replay(x, r->a, &e));
}

// ---- Code that is loaded when it is first launched

static void kernel_in_recording(void)
{
    rig r = rig_open();
    begin(&r);
    add(r.a, r.x, r.y);
    device_recording *x = ended(&r);
    replay(&r, x);
    replay(&r, x);
    expect(&r, r.y, 2);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

// y [8, 8] = x · x^T
static kernel_call product(const rig *r)
{
    return (kernel_call){.kind = K_MATMUL,
                         .u.matmul = {.m = 8,
                                      .n = 8,
                                      .k = 8,
                                      .a = r->x,
                                      .b = r->x,
                                      .c = r->y,
                                      .lda = 8,
                                      .ldb = 8,
                                      .ldc = 8,
                                      .type = F32,
                                      .c_type = F32,
                                      .trans_b = true}};
}

static void product_in_recording(void)
{
    rig r = rig_open();
    kernel_call c = product(&r);
    c.workspace_bytes = kernel_workspace_bytes(r.d->needs, &c);
    c.workspace = take(&r, MEMORY_DEVICE, c.workspace_bytes);
    GOOD(r.d->ops->prepare(r.d, &c, &e));
    begin(&r);
    device_launch(r.a, &c);
    device_recording *x = ended(&r);
    replay(&r, x);
    r.d->ops->copy(r.a, r.back, r.y, BYTES);
    finish(&r, r.a);
    for (int i = 0; i < 64; i++) CHECK(r.back[i] == 8);
    r.d->ops->recording_close(x);
    device_release(r.d, MEMORY_DEVICE, c.workspace, c.workspace_bytes);
    rig_close(&r);
}

static void kernel_while_waiting(void)
{
    rig r = rig_open();
    await(&r, r.b, 0);
    add(r.a, r.x, r.y);
    expect(&r, r.y, 1);
    set_by_host(&r, 0);
    finish(&r, r.b);
    rig_close(&r);
}

static void recording_while_waiting(void)
{
    rig r = rig_open();
    await(&r, r.b, 0);
    begin(&r);
    add(r.a, r.x, r.y);
    device_recording *x = ended(&r);
    replay(&r, x);
    expect(&r, r.y, 1);
    set_by_host(&r, 0);
    finish(&r, r.b);
    r.d->ops->recording_close(x);
    rig_close(&r);
}

static void allocation_while_waiting(void)
{
    rig r = rig_open();
    await(&r, r.b, 0);
    void *on_gpu = take(&r, MEMORY_ZEROED, 1 << 24), *on_host = take(&r, MEMORY_HOST, 1 << 24);
    set_by_host(&r, 0);
    finish(&r, r.b);
    device_release(r.d, MEMORY_ZEROED, on_gpu, 1 << 24);
    device_release(r.d, MEMORY_HOST, on_host, 1 << 24);
    rig_close(&r);
}

// ---- Flags

// The kernel is loaded before any stream waits: loading it would wait for that stream.
static void flags_of_streams(void)
{
    rig r = rig_open();
    add(r.a, r.y, r.y); // 0
    finish(&r, r.a);
    await(&r, r.a, 0);
    add(r.a, r.x, r.y);
    add(r.b, r.x, r.x); // 2
    set(&r, r.b, 0);
    expect(&r, r.y, 2);
    CHECK(atomic_load(&r.shared->flag[0].is_set) == 0);
    rig_close(&r);
}

static void flags_of_the_host(void)
{
    rig r = rig_open();
    await(&r, r.a, 0);
    set(&r, r.a, 1);
    usleep(20000);
    CHECK(atomic_load(&r.shared->flag[1].is_set) == 0);
    set_by_host(&r, 0);
    finish(&r, r.a);
    CHECK(atomic_load(&r.shared->flag[1].is_set) == 1);
    device_flag_release(&r.shared->flag[0]);
    await(&r, r.a, 0);
    finish(&r, r.a);
    rig_close(&r);
}

static void flags_in_recording(void)
{
    rig r = rig_open();
    begin(&r);
    await(&r, r.a, 0);
    add(r.a, r.x, r.y);
    set(&r, r.a, 1);
    device_recording *x = ended(&r);
    for (int i = 1; i <= 3; i++) {
        set(&r, r.b, 0);
        replay(&r, x);
        await(&r, r.b, 1);
        finish(&r, r.b);
        expect(&r, r.y, (float)i);
    }
    r.d->ops->recording_close(x);
    rig_close(&r);
}

static void many_streams(void)
{
    rig r = rig_open();
    device_stream *more[STREAMS_MOST];
    for (int i = 0; i < STREAMS_MOST; i++) {
        GOOD(r.d->ops->stream_open(r.d, STREAM_COMM, false, &more[i], &e));
        await(&r, more[i], i);
    }
    for (int i = 0; i < STREAMS_MOST; i++) set(&r, r.a, i);
    for (int i = 0; i < STREAMS_MOST; i++) finish(&r, more[i]);
    for (int i = 0; i < STREAMS_MOST; i++) r.d->ops->stream_close(more[i]);
    rig_close(&r);
}

// Two ranks of one process on one GPU register the same memory.
static void flags_twice(void)
{
    rig first = rig_open(), second = rig_open_on(0, first.shared);
    await(&first, first.a, 0);
    set(&second, second.a, 0);
    finish(&first, first.a);
    finish(&second, second.a);
    first.d->ops->sharing->close_flags(first.d, first.shared, false);
    await(&second, second.b, 1);
    set(&second, second.a, 1);
    finish(&second, second.b);
    first.d->ops->sharing->open_flags(first.d, first.shared, sizeof *first.shared, NULL);
    rig_close(&second);
    first.d->ops->stream_close(first.a);
    first.d->ops->stream_close(first.b);
}

// ---- Two processes. The parent asks for the GPUs before it forks, and the page is mapped before, too.

static void turn_is(const page *p, int turn)
{
    while (atomic_load(&p->turn) < turn) usleep(1000);
}

static void in_two(void (*one)(page *p), void (*other)(page *p))
{
    page *p = page_open();
    device_description d;
    int how;
    GOOD(device_describe("cuda", &(device_options){.local_ranks = 2}, &d, &e));
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        other(p);
        _exit(0);
    }
    one(p);
    CHECK(waitpid(pid, &how, 0) == pid);
    CHECK(how == 0);
}

static void waits(page *p)
{
    rig r = rig_open_on(0, p);
    await(&r, r.a, 0);
    set(&r, r.a, 1);
    atomic_store(&p->turn, 1);
    finish(&r, r.a);
    rig_close(&r);
}

// Much work, while the other process has a stream that waits on the same GPU.
static void works_and_sets(page *p)
{
    rig r = rig_open_on(0, p);
    turn_is(p, 1);
    for (int i = 0; i < 1000; i++) add(r.a, r.x, r.y);
    expect(&r, r.y, 1000);
    set(&r, r.a, 0);
    await(&r, r.a, 1);
    finish(&r, r.a);
    rig_close(&r);
}

static void flags_of_processes(void)
{
    in_two(waits, works_and_sets);
}

// Exports x from its second half on, and y, which are small and may lie in one allocation of the driver.
static void lends(page *p)
{
    rig r = rig_open_on(0, p);
    const device_sharing *s = r.d->ops->sharing;
    add(r.a, r.x, r.x); // 2
    finish(&r, r.a);
    GOOD(s->export_memory(r.d, r.x + COUNT / 2, &p->handle[0], &e));
    GOOD(s->export_memory(r.d, r.y, &p->handle[1], &e));
    atomic_store(&p->turn, 1);
    turn_is(p, 2);
    expect(&r, r.y, 0);
    atomic_store(&p->turn, 3);
    turn_is(p, 4);
    rig_close(&r);
}

static void borrow(const rig *r, float **half, float **y)
{
    const device_sharing *s = r->d->ops->sharing;
    void *x = NULL, *again = NULL;
    turn_is(r->shared, 1);
    GOOD(s->import_memory(r->d, &r->shared->handle[0], &x, &e));
    GOOD(s->import_memory(r->d, &r->shared->handle[1], (void **)y, &e));
    GOOD(s->import_memory(r->d, &r->shared->handle[0], &again, &e));
    CHECK(x == again);
    *half = x;
}

static void borrows(page *p)
{
    rig r = rig_open_on(0, p);
    float *half, *y;
    borrow(&r, &half, &y);
    r.d->ops->copy(r.a, r.back, half, BYTES / 2);
    r.d->ops->copy(r.a, r.back + COUNT / 2, y, BYTES / 2);
    finish(&r, r.a);
    for (int i = 0; i < COUNT; i++) CHECK(r.back[i] == (i < COUNT / 2 ? 2 : 0));
    atomic_store(&p->turn, 2);
    turn_is(p, 3);
    rig_close(&r);
    atomic_store(&p->turn, 4);
}

// A kernel reads the other process's memory, in a recording.
static void borrows_in_recording(page *p)
{
    rig r = rig_open_on(0, p);
    float *half, *y;
    borrow(&r, &half, &y);
    begin(&r);
    add(r.a, y, r.x); // 1 + 0
    r.d->ops->copy(r.a, r.y, half, BYTES / 2);
    device_recording *x = ended(&r);
    replay(&r, x);
    expect(&r, r.x, 1);
    r.d->ops->copy(r.a, r.back, r.y, BYTES);
    finish(&r, r.a);
    for (int i = 0; i < COUNT; i++) CHECK(r.back[i] == (i < COUNT / 2 ? 2 : 0));
    r.d->ops->recording_close(x);
    atomic_store(&p->turn, 2);
    turn_is(p, 3);
    rig_close(&r);
    atomic_store(&p->turn, 4);
}

static void memory_of_processes(void)
{
    in_two(lends, borrows);
}

static void memory_in_recording(void)
{
    in_two(lends, borrows_in_recording);
}

// ---- Two GPUs of one process. With one GPU there is nothing to try.
static void memory_of_another_gpu(void)
{
    device_description d;
    GOOD(device_describe("cuda", NULL, &d, &e));
    if (d.count < 2) return;
    rig r = rig_open(), other = rig_open_on(1, page_open());
    device_handle h;
    void *there = NULL;
    GOOD(other.d->ops->sharing->export_memory(other.d, other.x, &h, &e));
    GOOD(r.d->ops->sharing->import_memory(r.d, &h, &there, &e));
    add(r.a, there, r.y);
    expect(&r, r.y, 1);
    rig_close(&r);
    rig_close(&other);
}

// ---- The cases, in the order in which a failure explains the next ones

// Ranks that are threads and share a GPU run in this environment (docs/gpus.md).
static const char THREADS[] = "CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER";

// clang-format off
#define CASES(C)                                                                                   \
    C(a_kernel_first_launched_in_a_recording, "", kernel_in_recording) \
    C(a_product_first_launched_in_a_recording, "", product_in_recording) \
    C(a_flag_orders_two_streams, "", flags_of_streams) \
    C(a_stream_waits_for_the_host_and_is_released, "", flags_of_the_host) \
    C(flags_are_recorded_and_replayed, "", flags_in_recording) \
    C(sixteen_streams_wait_for_another_one, THREADS, many_streams) \
    C(two_devices_register_the_same_flags, "", flags_twice) \
    C(a_kernel_is_loaded_while_a_stream_waits, THREADS, kernel_while_waiting) \
    C(a_recording_is_made_while_a_stream_waits, THREADS, recording_while_waiting) \
    C(memory_is_allocated_while_a_stream_waits, "", allocation_while_waiting) \
    C(a_process_works_while_another_waits, "", flags_of_processes) \
    C(memory_of_another_process_at_an_offset, "", memory_of_processes) \
    C(memory_of_another_process_in_a_recording, "", memory_in_recording) \
    C(memory_of_another_gpu_of_the_process, "", memory_of_another_gpu)
// clang-format on

#define TEST(name, environment, body)                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        child_passes(environment, body);                                                           \
    }
CASES(TEST)

#define ROW(name, environment, body) cmocka_unit_test(name),
int main(void)
{
    const struct CMUnitTest tests[] = {CASES(ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
