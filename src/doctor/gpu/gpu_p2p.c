// gpu_p2p.c -- an active check: each GPU copies from and to the memory of each other GPU, as the communicator p2p does, and
// the data is compared. Broken IOMMU or ACS settings give wrong data here, or copies that never end.
//
// CUDA that has started does not survive a fork, and the doctor may start processes later. So a child process copies, and
// writes what it finds to a pipe. It announces each pair, so that its parent can name the one at which it stopped. It uses
// the tables of device/ alone and knows no CUDA.
#include "base/alloc.h"
#include "base/text.h"
#include "device/device.h"
#include "device/sharing.h"
#include "doctor/doctor.h"
#include "doctor/gpu/gpus.h"
#include "doctor/tables.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPY_BYTES = 8 << 20, SECONDS_MOST = 60, DEVICES_MOST = GPUS_MOST };

// What the child writes: one of these for each begin and end of a pair, and one at its end.
typedef enum p2p_kind { P2P_BEGINS, P2P_COPIED, P2P_REFUSED, P2P_ENDED } p2p_kind;

typedef struct p2p_record {
    p2p_kind kind;
    int from, to;   // numbers of devices
    uint64_t wrong; // bytes of P2P_COPIED
    status result;  // of P2P_ENDED
    char problem[256];
} p2p_record;

typedef struct p2p_device {
    device *device;
    device_stream *stream;
    char *source, *target; // [COPY_BYTES] of its memory
} p2p_device;

typedef struct p2p_run {
    int count, file;
    p2p_device of[DEVICES_MOST];
    uint64_t *pattern, *got; // [COPY_BYTES / 8] of the host
} p2p_run;

// ---- In the child

static void tell(const p2p_run *r, p2p_record what)
{
    while (write(r->file, &what, sizeof what) < 0 && errno == EINTR) continue;
}

// Other data for each device and each pass: a copy that did not happen is seen.
static void fill(uint64_t *out, int number, int pass)
{
    uint64_t x = (uint64_t)(number + 1) << 32 | (uint64_t)(pass + 1);
    for (size_t i = 0; i < COPY_BYTES / sizeof *out; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        out[i] = x ^ x >> 29;
    }
}

static uint64_t wrong_bytes(const void *a, const void *b)
{
    uint64_t wrong = 0;
    if (memcmp(a, b, COPY_BYTES) == 0) return 0;
    for (size_t i = 0; i < COPY_BYTES; i++) wrong += ((const char *)a)[i] != ((const char *)b)[i];
    return wrong;
}

static status open_one(p2p_run *r, int i, err *e)
{
    status result = OK;
    p2p_device *d = &r->of[i];
    const device_options options = {.index = i, .local_rank = i, .local_ranks = r->count};
    TRY(device_open("cuda", &options, &d->device, e));
    if (!d->device->ops->sharing) FAIL(E_USAGE, "device cuda does not share memory");
    TRY(d->device->ops->stream_open(d->device, STREAM_COPY, false, &d->stream, e));
    TRY(device_alloc(d->device, MEMORY_DEVICE, COPY_BYTES, (void **)&d->source, e));
    TRY(device_alloc(d->device, MEMORY_DEVICE, COPY_BYTES, (void **)&d->target, e));
done:
    return result;
}

// The device `to` copies the source of `from` into its target; or, the other way, its own source into the target of `from`.
static status copy_one(p2p_run *r, int from, int to, bool pushes, uint64_t *wrong, err *e)
{
    status result = OK;
    const p2p_device *a = &r->of[from], *b = &r->of[to];
    const int writer = pushes ? to : from;
    const p2p_device *reader = pushes ? a : b;
    device_handle handle;
    void *peer;
    TRY(a->device->ops->sharing->export_memory(a->device, pushes ? a->target : a->source, &handle,
                                               e));
    TRY(b->device->ops->sharing->import_memory(b->device, &handle, &peer, e));
    fill(r->pattern, writer, pushes);
    TRY(device_upload(r->of[writer].stream, r->of[writer].source, r->pattern, COPY_BYTES, e));
    if (pushes)
        b->device->ops->copy(b->stream, peer, b->source, COPY_BYTES);
    else
        b->device->ops->copy(b->stream, b->target, peer, COPY_BYTES);
    TRY(b->device->ops->sync(b->stream, e));
    memset(r->got, 0, COPY_BYTES);
    TRY(device_download(reader->stream, r->got, reader->target, COPY_BYTES, e));
    *wrong += wrong_bytes(r->pattern, r->got);
done:
    return result;
}

// Both devices copy, each way. A pair whose memory cannot be shared is not a fault here: gpu-p2p says why.
static status copy_pair(p2p_run *r, int a, int b, err *e)
{
    p2p_record told = {.kind = P2P_BEGINS, .from = a, .to = b};
    tell(r, told);
    status s = OK;
    for (int way = 0; way < 4 && s == OK; way++)
        s = copy_one(r, way < 2 ? a : b, way < 2 ? b : a, way % 2 == 1, &told.wrong, e);
    told.kind = s == E_IO ? P2P_REFUSED : P2P_COPIED;
    if (s == OK || s == E_IO) tell(r, told);
    return s == E_IO ? OK : s;
}

static status copy_all(p2p_run *r, err *e)
{
    status result = OK;
    TRY(alloc_array(&r->pattern, COPY_BYTES, 1, "the data to copy", e));
    TRY(alloc_array(&r->got, COPY_BYTES, 1, "the data to copy", e));
    for (int i = 0; i < r->count; i++) TRY(open_one(r, i, e));
    for (int i = 0; i < r->count; i++)
        for (int j = i + 1; j < r->count; j++) TRY(copy_pair(r, i, j, e));
done:
    return result;
}

static void close_all(p2p_run *r)
{
    for (int i = 0; i < r->count; i++) {
        p2p_device *d = &r->of[i];
        if (!d->device) continue;
        if (d->stream) d->device->ops->stream_close(d->stream);
        if (d->source) device_release(d->device, MEMORY_DEVICE, d->source, COPY_BYTES);
        if (d->target) device_release(d->device, MEMORY_DEVICE, d->target, COPY_BYTES);
        if (d->device->ops->sharing) d->device->ops->sharing->free_exported(d->device);
    }
    for (int i = 0; i < r->count; i++) device_close(r->of[i].device);
    free(r->pattern);
    free(r->got);
}

static void copy_and_end(int count, int file)
{
    p2p_run r = {.count = count, .file = file};
    err problem = {.code = OK};
    alarm(SECONDS_MOST); // ends the process where a copy does not
    p2p_record last = {.kind = P2P_ENDED, .result = copy_all(&r, &problem)};
    close_all(&r);
    (void)snprintf(last.problem, sizeof last.problem, "%.*s", TEXT_CUT(problem.text, 250));
    tell(&r, last);
    _exit(0);
}

// ---- In the doctor

static void find_pair(doctor_findings *out, const p2p_record *pair, const char *what)
{
    char where[48];
    (void)snprintf(where, sizeof where, "GPU %d and GPU %d", pair->from, pair->to);
    doctor_find(out, "where", where, "what", what, NULL);
}

static bool read_record(int file, p2p_record *out)
{
    for (size_t have = 0; have < sizeof *out;) {
        const ssize_t n = read(file, (char *)out + have, sizeof *out - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        have += (size_t)n;
    }
    return true;
}

static void read_records(int file, doctor_findings *out)
{
    p2p_record now = {.kind = P2P_ENDED}, last = now;
    char what[96];
    int copied = 0;
    while (read_record(file, &now)) {
        last = now;
        copied += now.kind == P2P_COPIED;
        snprintf(what, sizeof what, "copied %" PRIu64 " bytes of %d wrongly", now.wrong,
                 4 * COPY_BYTES);
        if (now.kind == P2P_COPIED && now.wrong > 0) find_pair(out, &now, what);
    }
    snprintf(what, sizeof what, "did not end a copy in %d s", SECONDS_MOST);
    if (last.kind == P2P_BEGINS)
        find_pair(out, &last, what);
    else if (last.result != OK || *last.problem)
        doctor_blind(out, "the copies failed: %s", last.problem);
    else if (copied == 0)
        doctor_skip(out, "no GPU reaches the memory of another");
}

static status probe_p2p_data(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    device_description d;
    err why = {.code = OK};
    int file[2] = {-1, -1}, ended;
    (void)c; // CUDA has no root
    if (device_describe("cuda", NULL, &d, &why) != OK) {
        doctor_skip(out, "%s", why.text);
        return OK;
    }
    if (d.count < 2) {
        doctor_skip(out, "this machine has one GPU");
        return OK;
    }
    if (pipe(file) != 0) return err_errno(e, "a pipe to a process that copies between GPUs");
    const pid_t child = fork();
    if (child < 0) {
        result = err_errno(e, "a process that copies between GPUs");
        goto done;
    }
    if (child == 0) copy_and_end(d.count < DEVICES_MOST ? d.count : DEVICES_MOST, file[1]);
    close(file[1]);
    file[1] = -1;
    read_records(file[0], out);
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
done:
    if (file[0] >= 0) close(file[0]);
    if (file[1] >= 0) close(file[1]);
    return result;
}

static const doctor_check ROWS[] = {
    {.code = "gpu-p2p-data",
     .level = DOCTOR_ACTIVE,
     .severity = DOCTOR_ERROR,
     .title = "GPUs copy right data to each other",
     .needs = "a build with device cuda; copies 32 MiB between every two GPUs",
     .issue = "{where} {what}",
     .why = "A run that exchanges data between these GPUs trains with wrong numbers, or hangs. The "
            "IOMMU or ACS of a PCIe switch is the usual cause.",
     .remedy = {"$ trireme doctor pci-iommu pci-acs",
                "Start the kernel with iommu=pt, or switch IOMMU and ACS off in the firmware.",
                "Until then, switch peer-to-peer copies off:", "$ export NCCL_P2P_DISABLE=1"},
     .reference = "NCCL User Guide: Troubleshooting, GPU Direct",
     .recipe = {155},
     .probe = probe_p2p_data},
};

const doctor_table DOCTOR_GPU_P2P = {"Copies between GPUs", ROWS, sizeof ROWS / sizeof *ROWS};
