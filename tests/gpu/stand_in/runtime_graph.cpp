// runtime_graph.cc -- graphs of the CUDA runtime's stand-in. A launch is one item of its stream. Its nodes run in
// any order that the graph allows, among the work of other streams, with the arguments that were recorded.
#include "runtime_state.h"

namespace stand_in
{

void start_node(graph_run &r, size_t node)
{
    std::erase(r.ready, node);
}

void finish_node(graph_run &r, size_t node)
{
    r.left--;
    for (size_t next : (*r.nodes)[node].next)
        if (--r.missing[next] == 0) r.ready.push_back(next);
}

// True if a node before this one may write the source of its copy: then the host does not own it.
static bool writes_source(const std::vector<graph_node> &nodes, const op &copy)
{
    for (const graph_node &n : nodes) {
        if (n.op.kind == op_kind::HOST) return true;
        if (n.op.kind != op_kind::COPY && n.op.kind != op_kind::SET) continue;
        const char *start = (const char *)n.op.dst;
        if (start < (const char *)copy.src + copy.bytes &&
            (const char *)copy.src < start + n.op.bytes)
            return true;
    }
    return false;
}

static std::shared_ptr<graph_run> start_run(const CUgraphExec_st &x)
{
    auto run = std::make_shared<graph_run>();
    const size_t count = x.nodes->size();
    run->nodes = x.nodes;
    run->node_priorities = x.node_priorities;
    run->marks.resize(count);
    run->left = count;
    for (size_t i = 0; i < count; i++) {
        const graph_node &n = (*x.nodes)[i];
        run->missing.push_back(n.after.size());
        if (n.after.empty()) run->ready.push_back(i);
        const bool owned = n.op.kind == op_kind::COPY && !writes_source(*x.nodes, n.op);
        run->source_hash.push_back(owned ? hash_source(n.op) : 0);
    }
    return run;
}

static cudaError_t queue_mark(guard &g, CUstream_st *s, std::shared_ptr<mark> m)
{
    op o = {};
    o.kind = op_kind::MARK;
    o.mark = m;
    m->stream = s;
    const cudaError_t error = issue(g, s, o);
    m->position = s->issued;
    return error;
}

static cudaError_t launch(guard &g, CUgraphExec_st &x, CUstream_st *s)
{
    // No source of ours launches a graph into a capture.
    if (s->capture) return invalidate(*s->capture, cudaErrorStreamCaptureUnsupported);
    op o = {};
    if (x.last && !x.last->done) { // launches of one graph follow each other
        o.kind = op_kind::WAIT;
        o.mark = x.last;
        if (cudaError_t error = issue(g, s, o)) return error;
    }
    if (!x.nodes->empty()) {
        o.kind = op_kind::GRAPH;
        o.run = start_run(x);
        if (cudaError_t error = issue(g, s, o)) return error;
        for (size_t i = 0; i < x.nodes->size(); i++) {
            CUevent_st *v = (*x.nodes)[i].op.event;
            if (!v || !the().events.count(v)) continue;
            o.run->marks[i] = v->mark = std::make_shared<mark>();
            v->capture = 0;
            v->mark->stream = s;
            v->mark->position = s->issued;
        }
    }
    x.last = std::make_shared<mark>();
    return queue_mark(g, s, x.last);
}

static std::set<CUgraph_st *> &graphs()
{
    static auto *const all = new std::set<CUgraph_st *>;
    return *all;
}

static std::set<CUgraphExec_st *> &executables()
{
    static auto *const all = new std::set<CUgraphExec_st *>;
    return *all;
}

void add_graph(CUgraph_st *graph)
{
    graphs().insert(graph);
}

} // namespace stand_in

using namespace stand_in;

#define ENTER                                                                                      \
    guard g(the().mutex);                                                                          \
    cudaError_t error;                                                                             \
    if (!begin(&error)) return report(error)

extern "C" {

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    ENTER;
    if (!graphs().count(graph) || !count) return report(cudaErrorInvalidValue);
    if (nodes) return report(cudaErrorNotSupported); // only the number is asked for
    *count = graph->nodes->size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    ENTER;
    if (!out || !graphs().count(graph) || flags > 15) return report(cudaErrorInvalidValue);
    for (graph_node &n : *graph->nodes) n.next.clear();
    for (size_t i = 0; i < graph->nodes->size(); i++)
        for (size_t before : (*graph->nodes)[i].after) (*graph->nodes)[before].next.push_back(i);
    *out = new CUgraphExec_st{current_device(), graph->nodes, nullptr,
                              (flags & cudaGraphInstantiateFlagUseNodePriority) != 0};
    executables().insert(*out);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
    ENTER;
    if (!executables().count(graph)) return report(cudaErrorInvalidValue);
    CUstream_st *s = stream_of(stream, &error);
    if (s && s->capture) error = invalidate(*s->capture, cudaErrorStreamCaptureUnsupported);
    return report(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    ENTER;
    if (!executables().count(graph)) return report(cudaErrorInvalidValue);
    CUstream_st *s = stream_of(stream, &error);
    return report(s ? launch(g, *graph, s) : error);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    ENTER;
    if (!executables().erase(graph)) return report(cudaErrorInvalidValue);
    delete graph; // launches that are pending hold on to the nodes
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    ENTER;
    if (!graphs().erase(graph)) return report(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}
}
