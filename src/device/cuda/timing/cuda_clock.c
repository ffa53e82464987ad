// cuda_clock.c -- the clock of the cuda device, and how it lies beside that of the host. Called through device_ops by the
// trainer (train/spans/spans.c). The clocks drift apart, so they are compared again and again: the host takes its time before
// and after a kernel that writes the GPU's. Half of the time between is the error.
#include "base/clock.h"
#include "device/cuda/cuda_own.h"

enum { TRIES = 3, EVERY_NS = 1000000000, DRIFT_PER_MILLION = 10 };

static void write_clock(cuda_device *d, cudaStream_t on, err *failure, int64_t *slot)
{
    const cuda_context x = {.stream = on, .failure = failure};
    (void)cuda_bind(d);
    cuda_time(&x, slot);
}

void cuda_stamp(device_stream *base, int64_t *slot)
{
    cuda_stream *s = (cuda_stream *)base;
    write_clock((cuda_device *)base->device, s->handle, &s->failure, slot);
}

// The comparison that is the surest now.
static void compare(cuda_device *d, int64_t now_ns)
{
    cuda_clock *c = &d->clock;
    const int64_t old_ns = now_ns - c->compared_ns;
    c->error_ns += old_ns / 1000000 * DRIFT_PER_MILLION;
    for (int i = 0; i < TRIES; i++) {
        err failure = {.code = OK};
        const int64_t before = clock_ns();
        write_clock(d, d->setup, &failure, c->slot);
        if (cudaStreamSynchronize(d->setup) != cudaSuccess || failure.code != OK) {
            (void)cudaGetLastError(); // a stream that is in use reports it
            return;
        }
        const int64_t half = (clock_ns() - before) / 2;
        if (c->compared_ns && half >= c->error_ns) continue;
        *c = (cuda_clock){c->slot, before + half - *c->slot, half, now_ns};
    }
    c->compared_ns = now_ns;
}

status cuda_clock_open(cuda_device *d, err *e)
{
    status result = OK;
    TRY(cuda_status(
        d, cudaHostAlloc((void **)&d->clock.slot, sizeof *d->clock.slot, cudaHostAllocPortable),
        "host memory", e));
    compare(d, clock_ns());
done:
    return result;
}

void cuda_clock_close(cuda_device *d)
{
    if (d->clock.slot) (void)cudaFreeHost(d->clock.slot);
}

int64_t cuda_clock_offset(device *base)
{
    cuda_device *d = (cuda_device *)base;
    const int64_t now = clock_ns();
    if (now - d->clock.compared_ns > EVERY_NS) compare(d, now);
    return d->clock.offset_ns;
}
