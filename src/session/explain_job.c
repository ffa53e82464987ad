// explain_job.c -- the text of `trireme explain` and trm_job_explain: values, pipeline, plan and
// schedule of a job that does not run. See session.h. Starts nothing.
#include "session/plan/estimate.h"

#include "graph/execute.h"
#include "parallel/capture.h"
#include "parallel/draw.h"
#include "session/groups.h"
#include "session/plan/simulated_trace.h"
#include "session/stages.h"

static void print_json_pipeline(const pipeline_picture *x, text *out)
{
    const plan *p = x->plan_of_stage[0];
    const int stages = x->times->stages, chunks = p->chunks / stages;
    text_addf(out,
              ",\"pipeline\":{\"schedule\":\"%s\",\"stages\":%d,\"virtual_stages\":%d,"
              "\"micro_batches\":%d,\"bubble_analytic\":%.9g,\"bubble_simulated\":%.9g,"
              "\"stage_idle\":[",
              pipeline_schedule_name(p->o.strategy.pipeline.schedule), stages, chunks, p->o.micros,
              pipeline_bubble(p->o.strategy.pipeline.schedule, stages, chunks, p->o.micros),
              x->times->bubble);
    for (int i = 0; i < stages; i++)
        text_addf(out, "%s%.9g", i ? "," : "", x->times->idle[i] / x->times->seconds);
    text_add(out, "],\"first_blocks\":[");
    for (int k = 0; k < p->chunks; k++) text_addf(out, "%s%d", k ? "," : "", p->chunk_first[k]);
    text_add(out, "]}");
}

static void print_pipeline(const pipeline_picture *x, bool even, text *out)
{
    enum { COLUMNS = 110 };
    const char *by = x->in_seconds ? "as predicted"
                     : even        ? "as if all model chunks took the same time"
                                   : "by the FLOPs of the blocks";
    const plan *p = x->plan_of_stage[0];
    text_add(out, "pipeline:");
    for (int k = 0; k < p->chunks; k++)
        text_addf(out, "%s blocks %d-%d on stage %d", k ? "," : "", p->chunk_first[k],
                  p->chunk_first[k + 1] - 1, k % x->times->stages);
    text_addf(out, "\n  time runs to the right, %s; F forward, B backward%s\n", by,
              pipeline_schedule_splits_backward(p->o.strategy.pipeline.schedule)
                  ? " (dgrad), W wgrad"
                  : "");
    pipeline_draw_text(x, COLUMNS, out);
}

static void show_pipeline(const pipeline_picture *x, const explain_options *o, text *out)
{
    if (o->json)
        print_json_pipeline(x, out);
    else
        print_pipeline(x, o->even, out);
}

// Simulates all stages and prints them side by side.
static status explain_pipeline(const trainer_options *o, const explain_options *x, text *out,
                               err *e)
{
    status result = OK;
    session_stages s = {.count = 0};
    simulate_result times = {.stages = 0};
    if (o->mesh.size[AXIS_PP] == 1) return OK;
    TRY(session_stages_open(o, &s, e));
    TRY(session_stages_simulate(&s, o, x->even, &times, e));
    const pipeline_picture picture = {s.train_of, s.plan_of, &times, false};
    show_pipeline(&picture, x, out);
    if (x->svg) pipeline_draw_svg(&picture, x->svg);
done:
    simulate_result_clear(&times);
    session_stages_close(&s);
    return result;
}

// The same with predicted times, and their sums.
static status explain_times(const job *j, const session_inputs *in, const explain_options *x,
                            const explained_times *t, text *out, err *e)
{
    status result = OK;
    const pipeline_picture picture = {t->stages.train_of, t->stages.plan_of, &t->result, true};
    if (t->stages.count > 1) show_pipeline(&picture, x, out);
    explained_times_print(t, x->json, out);
    if (x->svg) explained_times_draw(t, x->svg);
    if (x->trace) TRY(simulated_trace_write(j, in, t, x->trace, e));
done:
    return result;
}

// Lists the parameters of a job that has parameter groups.
static status explain_groups(const job *j, const session_inputs *in, bool json, text *out, err *e)
{
    status result = OK;
    model *m = NULL;
    const model_options once = session_once(j);
    if (!j->groups && j->lora.how.rank == 0) return OK;
    TRY(model_open(in->family, in->config, &once, &m, e));
    TRY(session_print_groups(j, m, json, out, e));
done:
    model_close(m);
    return result;
}

// Returns the name of what computes attention and its gradient, "" where the model has none or the device has one way.
typedef struct attention_ways {
    const kernel_needs *needs;
    const char *forward, *gradient;
} attention_ways;

static void note_way(void *arg, const kernel_call *c)
{
    attention_ways *w = arg;
    if (c->kind == K_ATTENTION) w->forward = w->needs->computed_by(c);
    if (c->kind == K_ATTENTION_GRAD) w->gradient = w->needs->computed_by(c);
}

// All blocks of a model have attention of one shape.
static status explain_attention(const trainer_options *o, bool json, text *out, err *e)
{
    status result = OK;
    model *m = NULL;
    attention_ways w = {.needs = o->place.needs};
    if (!w.needs || !w.needs->computed_by) return OK;
    TRY(session_open_model(o, &m, e));
    for (int i = 0; i < m->graphs; i++)
        graph_visit(m->graph[i], &(graph_visitor){.take = note_way, .arg = &w});
    if (!w.forward) goto done;
    text_addf(out,
              json ? ",\"attention\":{\"forward\":\"%s\",\"gradient\":\"%s\"}"
                   : "attention: forward by %s, gradient by %s\n",
              w.forward, w.gradient ? w.gradient : "none");
done:
    model_close(m);
    return result;
}

static void print_device(const device_description *d, bool json, text *out)
{
    char bytes[24];
    text_bytes(bytes, (double)d->free_bytes);
    if (json) {
        text_add(out, d->index ? "," : ",\"devices\":[");
        text_add(out, "{\"name\":");
        text_add_json(out, d->title);
        text_addf(out, ",\"kind\":\"%s\",\"free_bytes\":%llu", d->kind,
                  (unsigned long long)d->free_bytes);
        if (d->utilization >= 0) text_addf(out, ",\"utilization\":%d", d->utilization);
        text_add(out, d->index + 1 == d->count ? "}]" : "}");
        return;
    }
    text_addf(out, "device %s %d: %s (%s), %s free", d->name, d->index, d->title, d->kind, bytes);
    if (d->utilization >= 0) text_addf(out, ", utilization %d %%", d->utilization);
    text_add(out, "\n");
}

// Lists the devices of this machine that have memory of their own, and what their environment hides and lacks.
static status explain_devices(const job *j, bool json, text *out, err *e)
{
    status result = OK;
    device_description d = {.count = j->own.planned ? 0 : 1};
    for (int i = 0; i < d.count; i++) {
        TRY(job_describe_device(j, &(device_options){.index = i}, &d, e));
        if (d.is_host_memory) break;
        print_device(&d, json, out);
    }
    if (!json) text_add(out, d.note);
done:
    return result;
}

// Says how many ranks the communicator can have, where that is not any number.
static status explain_communicator(const job *j, bool json, text *out, err *e)
{
    status result = OK;
    comm_description d;
    TRY(session_describe_communicator(j, j->launch.ranks, &d, e));
    text_addf(out, json ? ",\"communicator\":{\"name\":\"%s\"" : "communicator %s", d.name);
    if (d.most_ranks > 1)
        text_addf(out, json ? ",\"least_ranks\":%d,\"most_ranks\":%d" : ": %d to %d ranks",
                  d.least_ranks, d.most_ranks);
    text_add(out, json ? "}" : "\n");
done:
    return result;
}

static void print_rank(const trainer_options *o, text *out)
{
    text_addf(out, "\nrank %d of %d", o->place.rank, o->mesh.ranks);
    for (int a = 0; a < AXES; a++)
        if (o->mesh.size[a] > 1)
            text_addf(out, ", %s %d", axis_name((axis)a),
                      mesh_coord(&o->mesh, o->place.rank, (axis)a));
    text_add(out, "\n");
}

// What the model's folder holds beside the model.
static void explain_carried(const model_folder *f, bool json, text *out)
{
    if (json) {
        text_addf(out, ",\"carried_tensors\":%zu", f ? f->carried_count : 0);
    } else if (f && f->carried_count > 0) {
        text_add(out, "carried: ");
        model_folder_describe(f, out);
        text_add(out, "\n");
    }
}

status session_explain(const job *j, const session_inputs *in, const explain_options *x, text *out,
                       err *e)
{
    status result = OK;
    trainer_options o = {0};
    memory_estimate_base base;
    explained_times times = {.machine = NULL};
    plan *p = NULL;
    schedule s = {0};
    uint64_t params;
    double flops;
    TRY(memory_estimate_read_base(j, in, &base, e));
    TRY(session_options(j, in, j->launch.ranks, &o, e));
    o.place.rank = x->rank;
    TRY(memory_estimate_plan(&o, &base, &p, &s, &params, &flops, e));
    if (x->json) text_add(out, "{\"job\":");
    job_explain(j, x->json, out);
    job_explain_remarks(j, x->json, out);
    if (x->json)
        text_addf(out, ",\"params\":%llu,\"rank\":%d,\"flops_per_rank_and_step\":%.17g",
                  (unsigned long long)params, x->rank, flops);
    else
        text_addf(out, "\nmodel: %llu parameters; %.4g FLOP per rank and step\n",
                  (unsigned long long)params, flops);
    explain_carried(in->folder, x->json, out);
    TRY(explain_devices(j, x->json, out, e));
    TRY(explain_communicator(j, x->json, out, e));
    TRY(explain_attention(&o, x->json, out, e));
    TRY(explain_groups(j, in, x->json, out, e));
    if (x->machine) {
        TRY(explained_times_open(j, in, x->machine, &times, e));
        TRY(explain_times(j, in, x, &times, out, e));
    } else {
        TRY(explain_pipeline(&o, x, out, e));
    }
    if (x->json)
        text_add(out, ",\"plan\":");
    else
        print_rank(&o, out);
    plan_print(p, x->json, out);
    text_add(out, x->json ? ",\"schedule\":" : "\n");
    if (x->json || !x->machine) schedule_print(p, &s, x->json, out);
    if (x->machine) explained_times_print_list(&times, p->coord[AXIS_PP], x->json, out);
    text_add(out, x->json ? ",\"capture\":" : "\n");
    TRY(capture_print(p, &s, x->json, out, e));
    text_add(out, x->json ? "}\n" : "");
    if (x->svg) TRY(text_check(x->svg, e));
    TRY(text_check(out, e));
done:
    explained_times_close(&times);
    plan_free(p);
    schedule_clear(&s);
    session_options_clear(&o);
    return result;
}
