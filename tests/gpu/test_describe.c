// test_describe.c -- which GPUs the cuda device finds before it is opened, and what it says where it finds
// none. Each machine is the stand-in in a child process with an environment of its own.
#include "child.h"

#include "device/cuda/cuda_gpus.h"
#include "device/device.h"

static void say(status result, const err *e)
{
    fprintf(stderr, "%d %s", (int)result, e->text);
}

static void describe(void)
{
    device_description d;
    err e = {0};
    const status result = device_describe("cuda", NULL, &d, &e);
    if (result == OK)
        fprintf(stderr, "%d of %s, host %d", d.count, d.kind, d.is_host_memory);
    else
        say(result, &e);
}

// What auto takes, and why.
static void resolve(void)
{
    err why = {0};
    const char *name = device_resolve("auto", &why);
    fprintf(stderr, "%s: %s", name, why.text);
}

// What is described is what is opened.
static void open_second(void)
{
    const device_options o = {.index = 1};
    device_description about;
    device *d = NULL;
    err e = {0};
    CHECK(device_describe("cuda", &o, &about, &e) == OK);
    CHECK(about.free_bytes > 0 && about.own_bytes > 0 && about.index == 1);
    CHECK(device_open("cuda", &o, &d, &e) == OK);
    CHECK(d->bytes_now == about.own_bytes && d->bytes_scratch == about.own_bytes);
    CHECK(d->needs == about.needs && !d->is_host_memory);
    device_close(d);
    CHECK(device_open("cuda", &(device_options){.index = 2}, &d, &e) == E_USAGE);
    say(E_USAGE, &e);
}

typedef struct machine {
    const char *environment;
    void (*body)(void);
    const char *says;
} machine;

static const machine MACHINES[] = {
    {"", describe, "2 of sm_90, host 0"},
    {"TRIREME_STAND_IN_DEVICES=5 TRIREME_STAND_IN_ARCH=80", describe, "5 of sm_80, host 0"},
    {"CUDA_VISIBLE_DEVICES=1", describe, "1 of sm_90, host 0"},
    {"TRIREME_STAND_IN_DEVICES=8 CUDA_VISIBLE_DEVICES=-1", describe,
     "1 device cuda: CUDA_VISIBLE_DEVICES=-1 hides all 8 GPUs of this machine"},
    {"TRIREME_STAND_IN_DEVICES=1 CUDA_VISIBLE_DEVICES=", describe,
     "1 device cuda: CUDA_VISIBLE_DEVICES= hides the GPU of this machine"},
    {"TRIREME_STAND_IN_DEVICES=0", describe, "1 device cuda: this machine has no GPU"},
    {"TRIREME_STAND_IN_DRIVER=none", describe, "1 device cuda: this machine has no NVIDIA driver"},
    {"TRIREME_STAND_IN_DRIVER=old", describe, "1 device cuda: the NVIDIA driver supports CUDA "},
    {"TRIREME_STAND_IN_DRIVER=mismatch", describe,
     "1 device cuda: the NVIDIA driver does not work: "},
    {"TRIREME_STAND_IN_ARCH=75", describe,
     "1 device cuda: GPU 0 (Stand-in GPU) has compute capability 7.5; valid are 8.0 and above"},
    // Without NVML, CUDA itself is asked.
    {"TRIREME_STAND_IN_WITHOUT=NVML", describe, "2 of sm_90, host 0"},
    {"TRIREME_STAND_IN_WITHOUT=NVML CUDA_VISIBLE_DEVICES=1", describe, "1 of sm_90, host 0"},
    {"TRIREME_STAND_IN_WITHOUT=NVML CUDA_VISIBLE_DEVICES=-1", describe,
     "1 device cuda: CUDA_VISIBLE_DEVICES=-1 hides the GPUs of this machine"},
    {"", resolve, "cuda: "},
    {"TRIREME_STAND_IN_DRIVER=none", resolve,
     "cpu: device cuda: this machine has no NVIDIA driver"},
    {"", open_second, "1 device cuda: index 2; valid are 0 to 1"},
    {"TRIREME_STAND_IN_WITHOUT=NVML", open_second, "1 device cuda: index 2; valid are 0 to 1"},
};

static void test_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        const machine *m = &MACHINES[i];
        char text[2048];
        const int ended = child_run(m->environment, m->body, text);
        if (ended != 0 || strncmp(text, m->says, strlen(m->says)) != 0)
            fail_msg("'%s': ended with %d: '%s', not '%s'", m->environment, ended, text, m->says);
    }
}

// ---- CUDA_VISIBLE_DEVICES, as CUDA reads it

static void expect_visible(const char *value, const char *indices)
{
    cuda_gpus all = {.count = 4};
    char found[64] = "";
    static const char *const uuids[] = {"GPU-11aa", "GPU-11bb", "GPU-22cc", "GPU-33dd"};
    for (int i = 0; i < 4; i++) {
        snprintf(all.gpu[i].uuid, sizeof all.gpu[i].uuid, "%s", uuids[i]);
        all.gpu[i].free_bytes = (uint64_t)i;
    }
    cuda_gpus_select(&all, value);
    for (int i = 0; i < all.count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%d",
                 (int)all.gpu[i].free_bytes);
    if (strcmp(found, indices) != 0) fail_msg("'%s': '%s', not '%s'", value, found, indices);
}

static void test_visible_devices(void **state)
{
    (void)state;
    expect_visible("0", "0");
    expect_visible("3,0,2", "302");
    expect_visible(" 1 , 2", "12");
    expect_visible("", "");
    expect_visible("-1", "");
    expect_visible("0,-1,2", "0"); // the first that is none ends the list
    expect_visible("2,4,1", "2");
    expect_visible("1,none,2", "1");
    expect_visible("0,0", ""); // twice
    expect_visible("GPU-22", "2");
    expect_visible("GPU-33dd,GPU-11b", "31");
    expect_visible("GPU-11", ""); // the beginning of two
    expect_visible("GPU-22,GPU-22cc", "");
    expect_visible("GPU-44", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_visible_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
