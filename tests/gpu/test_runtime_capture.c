// test_runtime_capture.c -- captures and graphs of the stand-in's CUDA runtime: graphs replay what was recorded,
// in every order that they allow, and what CUDA forbids in a capture gives CUDA's errors.
#include "kernels.h"

#include <cuda.h>
#include <pthread.h>

static void begin(cudaStream_t s)
{
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
}

static cudaGraphExec_t end(cudaStream_t s)
{
    cudaGraph_t graph;
    cudaGraphExec_t out;
    CUDA(cudaStreamEndCapture(s, &graph));
    CUDA(cudaGraphInstantiate(&out, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return out;
}

static void follow(cudaStream_t later, cudaStream_t earlier)
{
    cudaEvent_t v = kernel_event();
    CUDA(cudaEventRecord(v, earlier));
    CUDA(cudaStreamWaitEvent(later, v, 0));
    CUDA(cudaEventDestroy(v));
}

// ---- Replays

static void replays(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *a = kernel_int(0), *b = kernel_int(0), *host;
    CUDA(cudaHostAlloc((void **)&host, sizeof *host, cudaHostAllocDefault));
    *host = 5;
    begin(s);
    CUDA(cudaMemcpyAsync(a, host, sizeof *a, cudaMemcpyHostToDevice, s));
    CUDA(kernel_add(s, b, a, 1));
    cudaGraphExec_t graph = end(s);
    CUDA(cudaStreamSynchronize(s));
    CHECK(kernel_value(b) == 0); // only recorded
    CUDA(cudaGraphUpload(graph, s));
    for (int32_t i = 1; i < 4; i++) {
        *host = 10 * i; // sources are read by the replay
        CUDA(cudaGraphLaunch(graph, i == 2 ? t : s));
        CUDA(cudaDeviceSynchronize());
        CHECK(kernel_value(b) == 10 * i + 1);
    }
    CUDA(cudaGraphLaunch(graph, t));
    CUDA(cudaGraphExecDestroy(graph)); // the launch goes on
    CHECK_IS(cudaErrorInvalidValue, cudaGraphLaunch(graph, t));
    CUDA(kernel_store(t, a, 1));
    CUDA(cudaStreamSynchronize(t));
    CHECK(kernel_value(a) == 1 && kernel_value(b) == 31);
}

// a = 1; then b = a + 1 and c = a + 2, on two streams; then d = 10 b + c.
static void diamond(int join)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *a = kernel_int(0), *b = kernel_int(0), *c = kernel_int(0), *d = kernel_int(0);
    begin(s);
    CUDA(kernel_store(s, a, 1));
    follow(t, s);
    CUDA(kernel_add(t, c, a, 2));
    if (join) follow(s, t);
    CUDA(kernel_add(s, b, a, 1));
    CUDA(kernel_add(s, d, c, 0));
    if (!join) follow(s, t); // too late for d
    cudaGraphExec_t graph = end(s);
    for (int i = 0; i < 3; i++) {
        CUDA(cudaMemset(c, 0, sizeof *c));
        CUDA(cudaGraphLaunch(graph, s));
        CUDA(cudaStreamSynchronize(s));
        CHECK(kernel_value(a) == 1 && kernel_value(b) == 2 && kernel_value(c) == 3);
        CHECK(kernel_value(d) == 3);
    }
}

static void diamond_joined(void)
{
    diamond(1);
}

static void diamond_too_late(void)
{
    diamond(0);
}

// Launches of one graph on two streams follow each other, as CUDA promises.
static void launches_in_order(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *a = kernel_int(0), *b = kernel_int(0);
    begin(s);
    CUDA(kernel_append(s, a, 1));
    CUDA(kernel_add(s, b, a, 0));
    CUDA(kernel_add(s, a, b, 1));
    cudaGraphExec_t graph = end(s);
    for (int i = 0; i < 4; i++) CUDA(cudaGraphLaunch(graph, i % 2 ? s : t));
    CUDA(cudaDeviceSynchronize());
    CHECK(kernel_value(a) == 2222);
}

static void external_events(void)
{
    cudaStream_t s = kernel_stream();
    cudaEvent_t start, stop;
    float ms;
    int32_t *a = kernel_int(0);
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreate(&stop));
    begin(s);
    CUDA(cudaEventRecordWithFlags(start, s, cudaEventRecordExternal));
    CUDA(kernel_store(s, a, 1));
    CUDA(cudaEventRecordWithFlags(stop, s, cudaEventRecordExternal));
    cudaGraphExec_t graph = end(s);
    for (int i = 0; i < 2; i++) {
        CUDA(cudaGraphLaunch(graph, s));
        CHECK_IS(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, stop));
        CUDA(cudaEventSynchronize(stop));
        CUDA(cudaEventElapsedTime(&ms, start, stop));
        CHECK(ms >= 0);
    }
}

static void values_in_a_graph(void)
{
    CUresult (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*write)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    int32_t *flag = kernel_int(0), *a = kernel_int(0), *b = kernel_int(0);
    CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", (void **)&wait, 12000,
                                          cudaEnableDefault, NULL));
    CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", (void **)&write, 12000,
                                          cudaEnableDefault, NULL));
    begin(s);
    CHECK(wait(s, (CUdeviceptr)flag, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    CUDA(kernel_add(s, b, a, 1));
    CHECK(write(s, (CUdeviceptr)flag, 0, 0) == CUDA_SUCCESS);
    cudaGraphExec_t graph = end(s);
    for (int32_t i = 1; i < 4; i++) {
        CUDA(cudaGraphLaunch(graph, s));
        CUDA(kernel_store(t, a, i));
        CHECK(write(t, (CUdeviceptr)flag, 1, 0) == CUDA_SUCCESS);
        CUDA(cudaStreamSynchronize(s));
        CHECK(kernel_value(b) == i + 1 && kernel_value(flag) == 0);
    }
}

static void change_source_of_graph(void)
{
    cudaStream_t s = kernel_stream();
    int32_t *a = kernel_int(0), *host;
    CUDA(cudaHostAlloc((void **)&host, sizeof *host, cudaHostAllocDefault));
    begin(s);
    CUDA(cudaMemcpyAsync(a, host, sizeof *a, cudaMemcpyHostToDevice, s));
    cudaGraphExec_t graph = end(s);
    CUDA(cudaGraphLaunch(graph, s));
    *host = 1;
    CUDA(cudaStreamSynchronize(s));
}

static void test_replays(void **state)
{
    (void)state;
    child_passes_in_all_orders(replays);
    child_passes_in_all_orders(diamond_joined);
    child_fails_in_some_order(diamond_too_late);
    child_passes_in_all_orders(launches_in_order);
    child_passes_in_all_orders(external_events);
    child_passes_in_all_orders(values_in_a_graph);
    child_is_ended(change_source_of_graph, "the host wrote to the source of the copy");
}

// ---- What a capture forbids

// After a forbidden call the capture is no more than something to end.
static void check_invalidated(cudaStream_t s)
{
    cudaGraph_t graph = (cudaGraph_t)s;
    enum cudaStreamCaptureStatus status;
    CUDA(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusInvalidated);
    CHECK_IS(cudaErrorStreamCaptureInvalidated, kernel_store(s, NULL, 0));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &graph));
    CHECK(!graph);
    CUDA(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    CUDA(cudaStreamSynchronize(s));
}

static void forbidden_calls(void)
{
    cudaStream_t s = kernel_stream(), other = kernel_stream(), t = kernel_stream();
    cudaEvent_t v = kernel_event(), before = kernel_event();
    int32_t *a = kernel_int(0);
    void *p;
    CUDA(cudaEventRecord(before, other));
    CUDA(cudaEventSynchronize(before));
#define FORBIDDEN(error, call)                                                                     \
    begin(s);                                                                                      \
    CUDA(cudaEventRecord(v, s));                                                                   \
    CUDA(cudaStreamWaitEvent(t, v, 0));                                                            \
    CHECK_IS(error, call);                                                                         \
    check_invalidated(s)
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(t));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(other));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(s));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaMalloc(&p, 8));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaFree(a));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaHostAlloc(&p, 8, 0));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaMemset(a, 0, 4));
    FORBIDDEN(cudaErrorStreamCaptureUnsupported, cudaEventQuery(before));
    FORBIDDEN(cudaErrorCapturedEvent, cudaEventQuery(v));
    FORBIDDEN(cudaErrorCapturedEvent, cudaEventSynchronize(v));
    FORBIDDEN(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(s, before, 0));
    FORBIDDEN(cudaErrorStreamCaptureImplicit, cudaStreamWaitEvent(NULL, v, 0));
    CHECK_IS(cudaErrorCapturedEvent, cudaStreamWaitEvent(other, v, 0)); // its capture has ended
    CUDA(cudaEventRecord(v, other));
    CUDA(cudaEventSynchronize(v));
}

static void ends(void)
{
    cudaStream_t s = kernel_stream(), t = kernel_stream();
    cudaGraph_t graph;
    size_t nodes;
    int32_t *a = kernel_int(0);
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    CHECK_IS(cudaErrorIllegalState, cudaStreamEndCapture(s, &graph));
    CHECK_IS(cudaErrorStreamCaptureUnsupported,
             cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    begin(s);
    CHECK_IS(cudaErrorIllegalState, cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CUDA(cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL, NULL));
    CHECK(status == cudaStreamCaptureStatusActive && id != 0);
    follow(t, s);
    CUDA(kernel_store(t, a, 1));
    CHECK_IS(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(s, &graph));
    begin(s);
    follow(t, s);
    CHECK_IS(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(t, &graph));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &graph));
    begin(s);
    begin(t);
    cudaEvent_t v = kernel_event();
    CUDA(cudaEventRecord(v, s));
    CHECK_IS(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(t, v, 0));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &graph));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(t, &graph));
    begin(s);
    follow(t, s); // nothing was recorded on t: it is joined
    CUDA(kernel_store(s, a, 1));
    CUDA(cudaStreamEndCapture(s, &graph));
    CUDA(cudaGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 1);
    CUDA(cudaGraphDestroy(graph));
    CHECK_IS(cudaErrorInvalidValue, cudaGraphDestroy(graph));
}

// A blocking stream that is captured keeps everybody from the legacy stream.
static void legacy_use(void)
{
    cudaStream_t s;
    cudaGraph_t graph;
    int32_t *a = kernel_int(0);
    CUDA(cudaStreamCreate(&s));
    begin(s);
    CHECK_IS(cudaErrorStreamCaptureImplicit, kernel_store(NULL, a, 1));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &graph));
    s = kernel_stream();
    begin(s);
    CUDA(kernel_store(NULL, a, 1));
    CUDA(cudaStreamEndCapture(s, &graph));
}

// ---- Modes

static cudaStream_t captured;
static cudaError_t of_thread;

static void *malloc_in_thread(void *unused)
{
    void *p;
    of_thread = cudaMalloc(&p, 8);
    return unused;
}

static void *end_in_thread(void *unused)
{
    cudaGraph_t graph;
    of_thread = cudaStreamEndCapture(captured, &graph);
    return unused;
}

static cudaError_t in_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
    pthread_join(thread, NULL);
    return of_thread;
}

static void modes(void)
{
    cudaGraph_t graph;
    void *p;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    captured = kernel_stream();
    begin(captured);
    CHECK_IS(cudaErrorStreamCaptureUnsupported, in_thread(malloc_in_thread));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(captured, &graph));
    CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    CUDA(in_thread(malloc_in_thread));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeGlobal);
    CUDA(cudaMalloc(&p, 8));
    CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK_IS(cudaErrorStreamCaptureWrongThread, in_thread(end_in_thread));
    CHECK_IS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(captured, &graph));
    CUDA(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    CUDA(cudaMalloc(&p, 8));
    CUDA(in_thread(end_in_thread));
}

static void test_forbidden(void **state)
{
    (void)state;
    child_passes("", forbidden_calls);
    child_passes("", ends);
    child_passes("", legacy_use);
    child_passes("", modes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays),
        cmocka_unit_test(test_forbidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
