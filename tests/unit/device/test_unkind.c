// test_unkind.c -- each rule of the unkind device: work that keeps it runs, and work that breaks it is
// an error or ends the process with a line that names it. It is the negative control of every test
// that passes on the unkind device.
#include "unit/device/unkind_rig.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void twice(const rig *r, const float *a, float *y)
{
    const kernel_call call = {.kind = K_ADD, .u.add = {.count = COUNT, .a = a, .y = y, .alpha = 2}};
    device_launch(r->compute, &call);
}

static void copy(const rig *r, void *dst, const void *src)
{
    r->d->ops->copy(r->compute, dst, src, BYTES);
}

// The stream's work broke no rule.
static void assert_kept(const rig *r)
{
    err e = {0};
    if (r->d->ops->sync(r->compute, &e) != OK) fail_msg("%s", e.text);
    assert_null(unkind_broken(r->d));
}

// The stream's next sync returns a line that contains `words`, and the device keeps it.
static void assert_broken(rig *r, const char *words)
{
    err e = {0};
    assert_int_equal(r->d->ops->sync(r->compute, &e), E_INTERNAL);
    if (!strstr(e.text, words)) fail_msg("%s: does not contain \"%s\"", e.text, words);
    assert_non_null(unkind_broken(r->d));
    assert_string_equal(unkind_broken(r->d), e.text);
    rig_close(r);
}

static void assert_release_broken(rig *r, const char *words)
{
    assert_non_null(unkind_broken(r->d));
    if (!strstr(unkind_broken(r->d), words)) fail_msg("%s", unkind_broken(r->d));
    rig_close(r);
}

// Runs `act` on a new device in a process of its own. Returns its exit status and its output.
static int run_alone(void (*act)(rig *r), char said[4096])
{
    int end[2], how;
    size_t bytes = 0;
    ssize_t more;
    assert_int_equal(pipe(end), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(end[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); // not the test framework's
        rig r = rig_open(LATE_OTHERS_LAST);
        act(&r);
        _exit(0);
    }
    close(end[1]);
    while ((more = read(end[0], said + bytes, 4095 - bytes)) > 0) bytes += (size_t)more;
    said[bytes] = 0;
    close(end[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void assert_ends(void (*act)(rig *r), const char *words)
{
    char said[4096];
    assert_int_equal(run_alone(act, said), 1);
    if (!strstr(said, words)) fail_msg("%s: does not contain \"%s\"", said, words);
}

static void assert_goes_on(void (*act)(rig *r))
{
    char said[4096];
    if (run_alone(act, said) != 0) fail_msg("%s", said);
}

// ---- Addresses

static void work_with_device_and_host_memory_runs(void **state)
{
    (void)state;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        rig r = rig_open((late_order)order);
        copy(&r, r.x, r.host);
        twice(&r, r.x, r.y);
        copy(&r, r.back, r.y);
        assert_kept(&r);
        for (int i = 0; i < COUNT; i++) assert_true(r.back[i] == (float)(2 * i));
        twice(&r, r.host, r.back); // a kernel may use host memory of the device
        assert_kept(&r);
        assert_true(r.back[3] == 6);
        rig_close(&r);
    }
}

static void read_device(rig *r)
{
    volatile float *x = r->x;
    (void)*x;
}

static void write_device(rig *r)
{
    r->y[3] = 1;
}

static void use_host(rig *r)
{
    r->host[COUNT - 1] = r->back[0];
}

static void the_host_cannot_dereference_device_memory(void **state)
{
    (void)state;
    assert_goes_on(use_host);
    assert_ends(read_device, "device memory was dereferenced");
    assert_ends(write_device, "device memory was dereferenced");
}

static void fill(rig *r, int64_t bytes)
{
    const kernel_call call = {.kind = K_FILL, .u.fill = {r->x, bytes}};
    device_launch(r->compute, &call);
    r->d->ops->sync(r->compute, NULL);
}

static void fill_all(rig *r)
{
    fill(r, BYTES);
}

static void fill_beyond(rig *r)
{
    fill(r, DEVICE_ALIGN + 1);
}

static void a_kernel_that_runs_beyond_an_allocation_ends_the_process(void **state)
{
    (void)state;
    assert_goes_on(fill_all);
    assert_ends(fill_beyond, "device work ran beyond an allocation of device memory");
}

static void use_released_host(rig *r)
{
    device_release(r->d, MEMORY_HOST, r->back, BYTES);
    r->back[0] = 1;
}

static void use_host_beyond(rig *r)
{
    r->host[DEVICE_ALIGN / sizeof(float)] = 1;
}

static void host_memory_ends_with_its_allocation_and_its_release(void **state)
{
    (void)state;
    assert_ends(use_released_host, "used host memory that was released");
    assert_ends(use_host_beyond, "beyond its allocation");
}

static void crash_elsewhere(rig *r)
{
    volatile uintptr_t nowhere = 16 + (r->d == NULL);
    *(volatile int *)nowhere = 1;
}

static void the_handler_leaves_other_addresses_alone(void **state)
{
    (void)state;
    char said[4096];
    assert_int_equal(run_alone(crash_elsewhere, said), -1); // killed by the signal
    assert_null(strstr(said, "unkind device"));
}

// ---- Memory

static void device_and_host_memory_have_limits_of_their_own(void **state)
{
    (void)state;
    device *d = NULL;
    void *p = NULL;
    err e = {0};
    const unkind_options o = {.device_bytes = 1000, .host_bytes = 300};
    assert_int_equal(unkind_device_open(&o, &d, &e), OK);
    void *a = take(d, MEMORY_DEVICE, 600), *b = take(d, MEMORY_ZEROED, 400);
    assert_int_equal(device_alloc(d, MEMORY_DEVICE, 1, &p, &e), E_FIT);
    assert_string_equal(e.text, "device memory: 1 bytes asked for, 1000 of 1000 are in use");
    void *c = take(d, MEMORY_HOST, 300);
    assert_int_equal(device_alloc(d, MEMORY_HOST, 1, &p, &e), E_FIT);
    assert_string_equal(e.text, "host memory: 1 bytes asked for, 300 of 300 are in use");
    device_release(d, MEMORY_DEVICE, a, 600);
    device_release(d, MEMORY_ZEROED, b, 400);
    device_release(d, MEMORY_HOST, c, 300);
    a = take(d, MEMORY_DEVICE, 1000);
    assert_int_equal(unkind_peak(d, MEMORY_DEVICE), 1000);
    assert_int_equal(unkind_peak(d, MEMORY_HOST), 300);
    device_release(d, MEMORY_DEVICE, a, 1000);
    assert_null(unkind_broken(d));
    device_close(d);
}

static void new_memory_is_poisoned_unless_it_is_zeroed(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    float *zeros = take(r.d, MEMORY_ZEROED, BYTES);
    assert_true(isnan(r.back[0]) && isnan(r.back[COUNT - 1]));
    copy(&r, r.back, zeros);
    assert_kept(&r);
    assert_true(r.back[0] == 0 && r.back[COUNT - 1] == 0);
    copy(&r, r.back, r.x);
    assert_kept(&r);
    assert_true(isnan(r.back[0]) && isnan(r.back[COUNT - 1]));
    rig_close(&r);
}

static void released_memory_is_an_error(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    device_release(r.d, MEMORY_DEVICE, r.x, BYTES);
    copy(&r, r.back, r.y);
    assert_kept(&r);
    copy(&r, r.x, r.host);
    assert_broken(&r, "copy: its target");
    r = rig_open(LATE_OTHERS_LAST);
    device_release(r.d, MEMORY_DEVICE, r.x, BYTES);
    twice(&r, r.x, r.y);
    assert_broken(&r, "was released");
    r = rig_open(LATE_OTHERS_LAST);
    device_release(r.d, MEMORY_DEVICE, r.x, BYTES);
    device_release(r.d, MEMORY_DEVICE, r.x, BYTES);
    assert_release_broken(&r, "is no live allocation of device memory");
    r = rig_open(LATE_OTHERS_LAST);
    device_release(r.d, MEMORY_HOST, r.x, BYTES);
    assert_release_broken(&r, "is no live allocation of host memory");
}

static void memory_is_not_released_while_work_with_it_is_pending(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, r.host);
    twice(&r, r.x, r.y);
    assert_kept(&r);
    device_release(r.d, MEMORY_DEVICE, r.x, BYTES);
    device_release(r.d, MEMORY_DEVICE, r.y, BYTES);
    device_release(r.d, MEMORY_HOST, r.host, BYTES);
    assert_kept(&r);
    rig_close(&r);
    r = rig_open(LATE_OTHERS_LAST);
    twice(&r, r.x, r.y);
    device_release(r.d, MEMORY_DEVICE, r.y, BYTES);
    assert_release_broken(&r, "work with these 32 bytes of device memory is pending");
    r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, r.host);
    device_release(r.d, MEMORY_HOST, r.host, BYTES);
    assert_release_broken(&r, "work with these 32 bytes of host memory is pending");
}

// ---- Pointers

static void memory_of_malloc_is_an_error(void **state)
{
    (void)state;
    float *pageable = calloc(COUNT, sizeof *pageable), stack[COUNT] = {0};
    rig r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, pageable);
    assert_broken(&r, "copy: its source: ");
    r = rig_open(LATE_OTHERS_LAST);
    copy(&r, stack, r.x);
    assert_broken(&r, "copy: its target: ");
    r = rig_open(LATE_OTHERS_LAST);
    twice(&r, pageable, r.y);
    assert_broken(&r, "add: the pointer at byte 8 of its arguments: ");
    free(pageable);
}

static void memory_of_another_device_is_an_error(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST), other = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, other.x);
    assert_broken(&r, "is neither memory of this device nor its host memory");
    assert_kept(&other);
    rig_close(&other);
}

static void a_copy_beyond_an_allocation_is_an_error(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    r.d->ops->copy(r.compute, r.x + 1, r.host + 1, BYTES - sizeof(float));
    r.d->ops->copy(r.compute, r.x + COUNT, r.host + COUNT, 0);
    assert_kept(&r);
    copy(&r, r.x + 1, r.host);
    assert_broken(&r, "copy: its target: 32 bytes from byte 4 on end beyond an allocation of 32 "
                      "bytes of device memory");
    r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, r.host + 1);
    assert_broken(&r, "copy: its source: 32 bytes from byte 4 on end beyond an allocation of 32 "
                      "bytes of host memory");
}

static void the_host_does_not_write_what_a_pending_copy_reads(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, r.host);
    assert_kept(&r);
    r.host[2] = 7; // the copy has run
    copy(&r, r.back, r.x);
    copy(&r, r.x, r.back); // the device itself writes `back` before this copy reads it
    assert_kept(&r);
    assert_true(r.back[2] == 2);
    copy(&r, r.x, r.host);
    r.host[2] = 8;
    assert_broken(&r, "the host wrote these 32 bytes of host memory while the copy was pending");
}

static void the_host_reads_nothing_where_a_copy_is_pending(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    copy(&r, r.x, r.host);
    copy(&r, r.back, r.x);
    assert_kept(&r);
    assert_true(r.back[5] == 5);
    copy(&r, r.back, r.x);
    assert_true(isnan(r.back[5])); // not what the copy before brought
    assert_kept(&r);
    assert_true(r.back[5] == 5);
    rig_close(&r);
}

// ---- Streams

static void there_is_no_call_and_the_memory_is_not_the_host_s(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    assert_null(r.d->ops->call);
    assert_false(r.d->is_host_memory);
    rig_close(&r);
}

// The copy stream brings x, and the compute stream doubles it, with or without the wait.
static float read_after_copy(late_order order, bool with_wait)
{
    rig r = rig_open(order);
    r.d->ops->copy(r.copy, r.x, r.host, BYTES);
    r.d->ops->record(r.event, r.copy);
    if (with_wait) r.d->ops->wait(r.compute, r.event);
    twice(&r, r.x, r.y);
    copy(&r, r.back, r.y);
    assert_kept(&r);
    const float y = r.back[3];
    assert_int_equal(r.d->ops->sync(r.copy, NULL), OK);
    rig_close(&r);
    return y;
}

static void streams_run_late(void **state)
{
    (void)state;
    assert_true(read_after_copy(LATE_OTHERS_LAST, true) == 6);
    assert_true(read_after_copy(LATE_OTHERS_FIRST, true) == 6);
    assert_true(isnan(read_after_copy(LATE_OTHERS_LAST, false)));
}

// ---- Work of communicators

typedef struct halving {
    device *d;
    float *x;
    status result;
} halving;

static status halve(void *arg, err *e)
{
    const halving *h = arg;
    float *x = unkind_ptr(h->d, h->x);
    if (!x) return err_set(e, E_INTERNAL, "nothing to halve");
    for (int i = 0; i < COUNT; i++) x[i] /= 2;
    return h->result == OK ? OK : err_set(e, h->result, "rank 7 is lost");
}

static void enqueued_work_runs_in_stream_order_with_translated_pointers(void **state)
{
    (void)state;
    for (int order = LATE_OTHERS_FIRST; order <= LATE_OTHERS_LAST; order++) {
        rig r = rig_open((late_order)order);
        halving h = {r.d, r.x, OK};
        copy(&r, r.x, r.host);
        unkind_enqueue(r.compute, halve, &h, sizeof h);
        h.x = NULL; // the stream has a copy
        twice(&r, r.x, r.y);
        copy(&r, r.back, r.y);
        assert_kept(&r);
        assert_true(r.back[5] == 5);
        h = (halving){r.d, r.x, E_PEER};
        unkind_enqueue(r.compute, halve, &h, sizeof h);
        err e = {0};
        assert_int_equal(r.d->ops->sync(r.compute, &e), E_PEER);
        assert_string_equal(e.text, "rank 7 is lost");
        rig_close(&r);
    }
}

static void enqueued_work_finds_device_memory_only(void **state)
{
    (void)state;
    rig r = rig_open(LATE_OTHERS_LAST);
    const halving h = {r.d, r.host, OK};
    unkind_enqueue(r.compute, halve, &h, sizeof h);
    assert_int_equal(r.d->ops->sync(r.compute, NULL), E_INTERNAL);
    assert_release_broken(&r, "unkind_ptr: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_with_device_and_host_memory_runs),
        cmocka_unit_test(the_host_cannot_dereference_device_memory),
        cmocka_unit_test(a_kernel_that_runs_beyond_an_allocation_ends_the_process),
        cmocka_unit_test(host_memory_ends_with_its_allocation_and_its_release),
        cmocka_unit_test(the_handler_leaves_other_addresses_alone),
        cmocka_unit_test(device_and_host_memory_have_limits_of_their_own),
        cmocka_unit_test(new_memory_is_poisoned_unless_it_is_zeroed),
        cmocka_unit_test(released_memory_is_an_error),
        cmocka_unit_test(memory_is_not_released_while_work_with_it_is_pending),
        cmocka_unit_test(memory_of_malloc_is_an_error),
        cmocka_unit_test(memory_of_another_device_is_an_error),
        cmocka_unit_test(a_copy_beyond_an_allocation_is_an_error),
        cmocka_unit_test(the_host_does_not_write_what_a_pending_copy_reads),
        cmocka_unit_test(the_host_reads_nothing_where_a_copy_is_pending),
        cmocka_unit_test(there_is_no_call_and_the_memory_is_not_the_host_s),
        cmocka_unit_test(streams_run_late),
        cmocka_unit_test(enqueued_work_runs_in_stream_order_with_translated_pointers),
        cmocka_unit_test(enqueued_work_finds_device_memory_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
