// runtime_capture.cc -- captures of streams of the CUDA runtime's stand-in, and what CUDA forbids while one is
// under way. A forbidden call returns CUDA's error and invalidates the captures that it concerns, so that
// cudaStreamEndCapture fails, too.
#include "runtime_state.h"

#include <atomic>

namespace
{

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

} // namespace

namespace stand_in
{

uint64_t thread_id()
{
    static std::atomic<uint64_t> last;
    thread_local const uint64_t own = ++last;
    return own;
}

cudaError_t invalidate(capture &c, cudaError_t error)
{
    c.invalid = true;
    return error;
}

// CUDA: a thread may not call what could be unsafe while it captures itself, or while any thread captures in
// the global mode. The relaxed mode, of the capture or of the thread, lifts that.
cudaError_t check_unsafe_call()
{
    bool bad = false;
    if (mode_of_thread == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    for (auto &[id, c] : the().captures) {
        const bool own = c->thread == thread_id() && c->mode != cudaStreamCaptureModeRelaxed;
        const bool others =
            c->mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
        if (!own && !others) continue;
        invalidate(*c, cudaSuccess);
        bad = true;
    }
    return bad ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t check_legacy_use(int device)
{
    cudaError_t error = cudaSuccess;
    for (auto &[id, c] : the().captures)
        for (auto &[s, nodes] : c->streams)
            if (s->device == device && s->blocking)
                error = invalidate(*c, cudaErrorStreamCaptureImplicit);
    return error;
}

cudaError_t record(CUstream_st *s, op o)
{
    capture &c = *s->capture;
    if (c.invalid) return cudaErrorStreamCaptureInvalidated;
    node_set &last = c.streams[s];
    graph_node n = {};
    n.device = s->device;
    n.after.assign(last.begin(), last.end());
    n.op = std::move(o);
    n.op.source_hash = 0;
    n.priority = s->priority;
    c.nodes->push_back(std::move(n));
    last = {c.nodes->size() - 1};
    return cudaSuccess;
}

static cudaError_t begin_capture(CUstream_st *s, cudaStreamCaptureMode mode)
{
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    if (s == the().devices[s->device].null_stream) return cudaErrorStreamCaptureUnsupported;
    if (s->capture) return cudaErrorIllegalState;
    auto c = std::make_shared<capture>();
    c->id = ++the().last_capture;
    c->mode = mode;
    c->origin = s;
    c->thread = thread_id();
    c->streams[s] = {};
    the().captures[c->id] = c;
    s->capture = c.get();
    return cudaSuccess;
}

// True if the origin's last nodes come after every node of the capture.
static bool is_joined(const capture &c)
{
    std::vector<bool> before(c.nodes->size(), false);
    for (size_t n : c.streams.at(c.origin)) before[n] = true;
    for (size_t n = c.nodes->size(); n-- > 0;)
        if (before[n])
            for (size_t earlier : (*c.nodes)[n].after) before[earlier] = true;
    for (const auto &[s, last] : c.streams)
        for (size_t n : last)
            if (!before[n]) return false;
    return true;
}

static cudaError_t end_capture(CUstream_st *s, cudaGraph_t *out)
{
    *out = nullptr;
    if (!s->capture) return cudaErrorIllegalState;
    if (s->capture->origin != s) return invalidate(*s->capture, cudaErrorStreamCaptureUnmatched);
    if (s->capture->mode != cudaStreamCaptureModeRelaxed && s->capture->thread != thread_id())
        return invalidate(*s->capture, cudaErrorStreamCaptureWrongThread);
    const std::shared_ptr<capture> c = the().captures.at(s->capture->id);
    the().captures.erase(c->id);
    for (auto &[captured, last] : c->streams) captured->capture = nullptr;
    if (c->invalid) return cudaErrorStreamCaptureInvalidated;
    if (!is_joined(*c)) return cudaErrorStreamCaptureUnjoined;
    *out = new CUgraph_st{c->nodes};
    add_graph(*out);
    return cudaSuccess;
}

static cudaStreamCaptureStatus status_of(const CUstream_st *s)
{
    return !s->capture           ? cudaStreamCaptureStatusNone
           : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

} // namespace stand_in

using namespace stand_in;

#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error)

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    ENTER;
    if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return report(cudaErrorInvalidValue);
    std::swap(*mode, mode_of_thread);
    return cudaSuccess;
}

cudaError_t stand_in_unsafe_call(void)
{
    ENTER;
    return report(check_unsafe_call());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    return report(s ? begin_capture(s, mode) : error);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (!graph) return report(cudaErrorInvalidValue);
    return report(end_capture(s, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (!status) return report(cudaErrorInvalidValue);
    if (s == the().devices[s->device].null_stream && (error = check_legacy_use(s->device)))
        return report(error);
    *status = status_of(s);
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (!status) return report(cudaErrorInvalidValue);
    // No source of ours changes a graph while it is captured.
    if (graph || dependencies || edges || count) return report(cudaErrorNotSupported);
    *status = status_of(s);
    if (id && *status == cudaStreamCaptureStatusActive) *id = s->capture->id;
    return cudaSuccess;
}
}
