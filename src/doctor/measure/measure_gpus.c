// measure_gpus.c -- the rates of the products and of the copies of each GPU, all at once, as in a run. Called by the checks.
#include "doctor/measure/measure.h"

#include "device/device.h"

#include <math.h>

enum { ROUNDS = 2 };
static const double SECONDS = 0.5;
static const size_t MOST = (size_t)512 << 20,
                    SHARE = 16; // of a copy; it takes at most this part of what is free

static status time_products(int index, void *arg, err *e)
{
    status result = OK;
    doctor_measured *const out = arg;
    device *d = NULL;
    TRY(device_open("cuda", &(device_options){.index = index}, &d, e));
    for (int i = 0; i < ROUNDS; i++)
        out->gpu_products.value[index] =
            fmax(out->gpu_products.value[index], device_matmul_rate(d, BF16, SECONDS) * 1e-9);
done:
    device_close(d);
    return result;
}

static status time_copies(int index, void *arg, err *e)
{
    status result = OK;
    doctor_measured *const out = arg;
    device *d = NULL;
    device_description described;
    double rate = 0;
    const device_options o = {.index = index};
    TRY(device_describe("cuda", &o, &described, e));
    TRY(device_open("cuda", &o, &d, e));
    const size_t bytes = (size_t)(described.free_bytes / SHARE);
    TRY(device_copy_rate(d, bytes < MOST ? bytes : MOST, SECONDS, &rate, e));
    out->gpu_copies.value[index] = rate * 1e-9;
done:
    device_close(d);
    return result;
}

static int count_gpus(void)
{
    device_description d;
    return device_describe("cuda", NULL, &d, NULL) == OK ? d.count : 0;
}

status measure_gpu_products(const doctor_context *c, doctor_measured *out, err *e)
{
    (void)c;
    status result = OK;
    const int count = count_gpus();
    TRY(measured_list_make(&out->gpu_products, count, e));
    TRY(measure_run_on_cores(NULL, count, time_products, out, e));
done:
    return result;
}

status measure_gpu_copies(const doctor_context *c, doctor_measured *out, err *e)
{
    (void)c;
    status result = OK;
    const int count = count_gpus();
    TRY(measured_list_make(&out->gpu_copies, count, e));
    TRY(measure_run_on_cores(NULL, count, time_copies, out, e));
done:
    return result;
}
