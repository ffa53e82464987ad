// runtime_stream.cc -- streams and events of the CUDA runtime's stand-in. An event stands for a mark: an item of
// a stream's queue that is complete when it has run.
#include "runtime_state.h"

namespace stand_in
{

CUstream_st *null_stream(int index)
{
    CUstream_st *&s = the().devices[index].null_stream;
    if (!s) {
        s = new CUstream_st();
        s->device = index;
        s->blocking = false;
        the().streams.insert(s);
    }
    return s;
}

CUstream_st *stream_of(cudaStream_t handle, cudaError_t *error)
{
    *error = cudaSuccess;
    if (!handle || handle == cudaStreamLegacy) return null_stream(current_device());
    if (the().streams.count(handle) && !handle->destroyed) return handle;
    *error = cudaErrorInvalidResourceHandle;
    return nullptr;
}

static bool is_event(const CUevent_st *v)
{
    return the().events.count(const_cast<CUevent_st *>(v));
}

static cudaError_t add_stream(cudaStream_t *out, unsigned flags, int priority)
{
    if (!out || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
    CUstream_st *s = new CUstream_st();
    s->device = current_device();
    s->blocking = flags != cudaStreamNonBlocking;
    s->priority = priority;
    the().streams.insert(s);
    *out = s;
    return cudaSuccess;
}

// What the host may not do with a stream: wait for it while it is captured, or for others while a capture
// forbids waiting.
static cudaError_t check_wait_for_stream(CUstream_st *s)
{
    if (running_name()) return cudaErrorNotPermitted;
    if (s->capture) return invalidate(*s->capture, cudaErrorStreamCaptureUnsupported);
    if (s == the().devices[s->device].null_stream)
        if (cudaError_t error = check_legacy_use(s->device)) return error;
    return check_unsafe_call();
}

static cudaError_t check_wait_for_event(CUevent_st *v)
{
    if (running_name()) return cudaErrorNotPermitted;
    if (v->capture) {
        const auto found = the().captures.find(v->capture);
        if (found != the().captures.end()) invalidate(*found->second, cudaSuccess);
        return cudaErrorCapturedEvent;
    }
    return check_unsafe_call();
}

static goals all_of_stream(CUstream_st *s)
{
    goals out = {{s, s->issued}};
    // The legacy stream is complete when the blocking streams that it would wait for are.
    if (s == the().devices[s->device].null_stream)
        for (CUstream_st *other : the().streams)
            if (other->device == s->device && other->blocking)
                out.push_back({other, other->issued});
    return out;
}

static bool is_complete(const goals &what)
{
    for (const goal &one : what)
        if (one.stream->done < one.position) return false;
    return true;
}

static cudaError_t record_in_capture(CUevent_st *v, CUstream_st *s, bool external)
{
    if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    if (external) {
        op o = {};
        o.kind = op_kind::MARK;
        o.event = v;
        return record(s, o);
    }
    v->mark = nullptr;
    v->capture = s->capture->id;
    v->nodes = s->capture->streams[s];
    return cudaSuccess;
}

static cudaError_t record_event(guard &g, CUevent_st *v, cudaStream_t stream, unsigned flags)
{
    cudaError_t error;
    if (!is_event(v)) return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventRecordExternal) return cudaErrorInvalidValue;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return error;
    if (s->device != v->device) return cudaErrorInvalidResourceHandle;
    if (s->capture) return record_in_capture(v, s, flags == cudaEventRecordExternal);
    if (flags) return cudaErrorIllegalState;
    op o = {};
    o.kind = op_kind::MARK;
    o.mark = std::make_shared<mark>();
    const std::shared_ptr<mark> m = o.mark;
    m->stream = s;
    if ((error = issue(g, s, o))) return error;
    m->position = s->issued;
    v->mark = m;
    v->capture = 0;
    v->nodes.clear();
    return cudaSuccess;
}

// A wait for an event of a capture: the stream is captured from now on.
static cudaError_t join_capture(CUstream_st *s, const CUevent_st *v)
{
    const auto found = the().captures.find(v->capture);
    if (found == the().captures.end()) return cudaErrorCapturedEvent;
    const std::shared_ptr<capture> c = found->second;
    if (s == the().devices[s->device].null_stream)
        return invalidate(*c, cudaErrorStreamCaptureImplicit);
    if (s->capture && s->capture != c.get()) {
        invalidate(*s->capture, cudaSuccess);
        return invalidate(*c, cudaErrorStreamCaptureMerge);
    }
    if (c->invalid) return cudaErrorStreamCaptureInvalidated;
    s->capture = c.get();
    c->streams[s].insert(v->nodes.begin(), v->nodes.end());
    return cudaSuccess;
}

static cudaError_t wait_event(guard &g, cudaStream_t stream, CUevent_st *v, unsigned flags)
{
    cudaError_t error;
    if (!is_event(v)) return cudaErrorInvalidResourceHandle;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return error;
    if (flags > cudaEventWaitExternal) return cudaErrorInvalidValue;
    if (flags) return cudaErrorNotSupported; // no source of ours waits for events in a graph
    if (v->capture) return join_capture(s, v);
    if (s->capture) return invalidate(*s->capture, cudaErrorStreamCaptureIsolation);
    if (!v->mark) return cudaSuccess; // never recorded
    op o = {};
    o.kind = op_kind::WAIT;
    o.mark = v->mark;
    return issue(g, s, o);
}

static cudaError_t elapsed(float *ms, CUevent_st *start, CUevent_st *end)
{
    if (!ms) return cudaErrorInvalidValue;
    if (!is_event(start) || !is_event(end)) return cudaErrorInvalidResourceHandle;
    if ((start->flags | end->flags) & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
    if (!start->mark || !end->mark) return cudaErrorInvalidResourceHandle;
    if (!start->mark->done || !end->mark->done) return cudaErrorNotReady;
    *ms = (float)((double)(end->mark->ns - start->mark->ns) * 1e-6);
    return cudaSuccess;
}

} // namespace stand_in

using namespace stand_in;

#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error)

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    ENTER;
    return report(add_stream(out, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ENTER;
    if (!stream || stream == cudaStreamLegacy || !the().streams.count(stream) || stream->destroyed)
        return report(cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        invalidate(*stream->capture, cudaSuccess);
        stream->capture->streams.erase(stream);
        stream->capture = nullptr;
    }
    stream->destroyed = true; // its work still runs
    if (stream->items.empty()) {
        the().streams.erase(stream);
        the().ended.push_back(stream);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s || (error = check_wait_for_stream(s))) return report(error);
    await(g, all_of_stream(s));
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s || (error = check_wait_for_stream(s))) return report(error);
    const goals what = all_of_stream(s);
    if (!is_complete(what)) run_one(g);
    return report(is_complete(what) ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaDeviceSynchronize(void)
{
    ENTER;
    if (running_name()) return report(cudaErrorNotPermitted);
    goals what;
    for (CUstream_st *s : the().streams) {
        if (s->device != current_device()) continue;
        if (s->capture) return report(invalidate(*s->capture, cudaErrorStreamCaptureUnsupported));
        what.push_back({s, s->issued});
    }
    if ((error = check_unsafe_call())) return report(error);
    await(g, what);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    ENTER;
    return report(wait_event(g, stream, event, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *arg)
{
    ENTER;
    CUstream_st *s = stream_of(stream, &error);
    if (!s) return report(error);
    if (!fn) return report(cudaErrorInvalidValue);
    op o = {};
    o.kind = op_kind::HOST;
    o.host = fn;
    o.host_arg = arg;
    return report(issue(g, s, o));
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    ENTER;
    const unsigned most = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!out || flags > most) return report(cudaErrorInvalidValue);
    if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming))
        return report(cudaErrorInvalidValue);
    CUevent_st *v = new CUevent_st();
    v->device = current_device();
    v->flags = flags;
    the().events.insert(v);
    *out = v;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ENTER;
    if (!is_event(event)) return report(cudaErrorInvalidResourceHandle);
    the().events.erase(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ENTER;
    return report(record_event(g, event, stream, cudaEventRecordDefault));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    ENTER;
    return report(record_event(g, event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    ENTER;
    if (!is_event(event)) return report(cudaErrorInvalidResourceHandle);
    if ((error = check_wait_for_event(event))) return report(error);
    const std::shared_ptr<mark> m = event->mark;
    if (m && !m->done) run_one(g);
    return report(m && !m->done ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ENTER;
    if (!is_event(event)) return report(cudaErrorInvalidResourceHandle);
    if ((error = check_wait_for_event(event))) return report(error);
    const std::shared_ptr<mark> m = event->mark;
    if (m) await(g, {{m->stream, m->position}});
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    ENTER;
    return report(elapsed(ms, start, end));
}
}
