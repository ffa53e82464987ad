// step_blocks.c -- instructions that compute: batches in, blocks forward and backward, and what
// pipeline stages send each other. Called through the table in step.c.
//
// A stage sends straight from where it computed and does not wait; before such memory is written
// again, it waits until the message has been read.
#include "train/state.h"

// ---- Batches

// The batch before the current one has left the host's memory once its copy is done.
static void release_batch(trainer *t)
{
    if (!t->batch_held) return;
    trainer_ops(t)->event_sync(t->loaded[t->held_slot]);
    loader_release(t->loader);
    t->batch_held = false;
}

void trainer_upload(trainer *t, device_stream *on, int slot, const void *inputs, const void *labels)
{
    const graph_value *ids = t->model->block[0].g->ids;
    int64_t count = graph_value_rows(ids) * graph_value_cols(ids);
    // Ids and fp32 features have elements of one size.
    trainer_ops(t)->copy(on, t->features ? (void *)t->features : t->ids[slot], inputs,
                         (size_t)count * 4);
    trainer_ops(t)->copy(on, t->labels[slot], labels,
                         graph_value_bytes(t->model->block[t->model->blocks - 1].g->labels));
    if (!t->features) return;
    kernel_call c = {.kind = K_CONVERT};
    c.u.convert = (kernel_convert_args){.count = count,
                                        .src = t->features,
                                        .dst = t->ids[slot],
                                        .src_type = F32,
                                        .dst_type = ids->type};
    device_launch(on, &c);
}

// Several stages and tensor-parallel ranks read the same batches; one of them counts.
static bool answers_for_batches(const trainer *t)
{
    return plan_has_block(t->plan, 0) && mesh_at(&t->o.mesh, t->plan->o.rank, AXIS_TP) == 0;
}

status run_load_batch(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    device_stream *copy = t->stream[STREAM_COPY];
    release_batch(t);
    TRY(loader_next(t->loader, t->steps_done, x->micro, &t->batch, e));
    t->batch_held = true;
    t->held_slot = x->slot;
    if (t->steps_done == 0 && !t->inspecting) t->first_hash = t->first_hash * 31 + t->batch.hash;
    if (answers_for_batches(t) && !t->inspecting) t->samples += t->batch.samples;
    t->blank[x->slot] = t->o.micro_batch - t->batch.samples;
    trainer_ops(t)->wait(copy, t->consumed[x->slot]);
    trainer_upload(t, copy, x->slot, t->batch.inputs, t->batch.labels);
    trainer_ops(t)->record(t->loaded[x->slot], copy);
    trainer_ops(t)->wait(t->stream[STREAM_COMPUTE], t->loaded[x->slot]);
done:
    return result;
}

// ---- Where a block finds everything

static trainer_chunk *chunk_of(const trainer *t, int block)
{
    return &t->chunk[plan_part_of(t->plan, block) / t->plan->o.mesh.size[AXIS_PP]];
}

static void bind_parameter(trainer *t, int i, int block, int p)
{
    const plan_row *r = &t->plan->row[p];
    const int64_t within = r->offset[LAYOUT_FULL] - t->plan->bucket[r->bucket].first[LAYOUT_FULL];
    const bool tied_grad = r->tied_grad >= 0 && block == r->last_block;
    const int ws = t->weight_of[r->bucket], gs = t->gradient_of[r->bucket];
    char *weights = t->plan->weight_slots ? (ws < 0 ? NULL : t->weight_slot[ws].at) : t->weights;
    char *gradients =
        t->plan->gradient_slots ? (gs < 0 ? NULL : t->gradient_slot[gs].at) : (char *)t->gradients;
    int64_t weight_at = t->plan->weight_slots ? within : r->offset[LAYOUT_FULL];
    int64_t gradient_at = t->plan->gradient_slots ? within : r->offset[LAYOUT_FULL];
    t->run_weight[i] = weights ? weights + (size_t)weight_at * trainer_weight_bytes(t) : NULL;
    t->run_gradient[i] = tied_grad   ? t->tied_grads + r->tied_grad
                         : gradients ? (float *)(void *)gradients + gradient_at
                                     : NULL;
    t->run_grad_written[i] = tied_grad ? &t->tied_grad_written[p] : &t->grad_written[p];
}

// Logical number of a micro-batch's first row, which keys its random numbers on every stage.
static uint64_t first_row(const trainer *t, int micro)
{
    const uint64_t own = (uint64_t)(t->micros * t->o.micro_batch),
                   rank = (uint64_t)mesh_data_rank(&t->o.mesh, t->plan->o.rank);
    const uint64_t sample = t->steps_done * (uint64_t)t->o.global_batch + rank * own +
                            (uint64_t)(micro * t->o.micro_batch);
    return sample * (uint64_t)t->o.seq_len;
}

// The compute stream waits for the buckets that this block reads or adds to.
static void await_buckets(trainer *t, int block)
{
    const plan_buckets l = plan_buckets_of(t->plan, block);
    for (int i = 0; i < l.count; i++) {
        const int k = l.items[i];
        if (t->weight_of[k] >= 0)
            trainer_ops(t)->wait(t->stream[STREAM_COMPUTE], t->weight_slot[t->weight_of[k]].filled);
        if (t->gradient_of[k] >= 0)
            trainer_ops(t)->wait(t->stream[STREAM_COMPUTE],
                                 t->gradient_slot[t->gradient_of[k]].filled);
    }
}

static graph_run context(trainer *t, const schedule_instr *x)
{
    const model *m = t->running;
    const model_block *b = &m->block[x->index];
    const block_place *lies = &t->place[x->index];
    const trainer_chunk *c = chunk_of(t, x->index);
    char *act = c->act + (size_t)x->slot * c->act_bytes;
    const int batch_at = x->micro % t->schedule.batch_slots;
    await_buckets(t, x->index);
    for (int i = 0; i < b->g->params; i++) bind_parameter(t, i, x->index, b->param[i]);
    graph_run r = {.g = b->g,
                   .stream = t->stream[STREAM_COMPUTE],
                   .tp = t->axis[AXIS_TP],
                   .weight = t->run_weight,
                   .gradient = t->run_gradient,
                   .grad_written = t->run_grad_written,
                   .rope = t->rope,
                   .loss_sum = &t->sums[SUM_LOSS],
                   .loss_count = &t->sums[SUM_COUNT],
                   .padding_rows = t->blank[batch_at] * t->o.seq_len,
                   .grad_scale = (float)trainer_gradient_scale(t),
                   .outputs = t->outputs,
                   .seed = t->o.seed,
                   .step = t->steps_done,
                   .block = x->index,
                   .row0 = first_row(t, x->micro)};
    r.base[REGION_INPUT] = act + lies->input;
    r.base[REGION_OUTPUT] = act + lies->output;
    r.base[REGION_SAVED] = act + lies->saved;
    r.base[REGION_WORKSPACE] = t->work;
    r.base[REGION_IDS] = t->ids[batch_at];
    r.base[REGION_LABELS] = t->labels[batch_at];
    if (x->wgrad_slot >= 0 && c->held)
        r.base[REGION_SAVED_FOR_WGRAD] =
            c->held + (size_t)x->wgrad_slot * c->saved_for_wgrad_bytes + lies->held;
    return r;
}

status run_forward(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    trainer_chunk *c = chunk_of(t, x->index);
    if (x->index == c->last - 1 && c->sent[x->slot] > 0) { // what is there may still be on its way
        const int part = plan_part_of(t->plan, x->index), stages = t->plan->o.mesh.size[AXIS_PP];
        TRY(comm_send_wait(t->axis[AXIS_PP], (part + 1) % stages, c->sent[x->slot],
                           t->stream[STREAM_COMPUTE], e));
        c->sent[x->slot] = 0;
    }
    graph_run r = context(t, x);
    TRY(graph_run_forward(&r, e));
    // Without the first block here, nobody needs the batch after the loss.
    if (x->index == t->model->blocks - 1 && !plan_has_block(t->plan, 0))
        trainer_ops(t)->record(t->consumed[x->micro % t->schedule.batch_slots],
                               t->stream[STREAM_COMPUTE]);
done:
    return result;
}

// ---- Gradients between blocks

// The activation-gradient slot, once the stage that it was sent to has read it; NULL for -1.
static status take_act_grad(trainer *t, int slot, char **ptr, err *e)
{
    status result = OK;
    *ptr = NULL;
    if (slot < 0) return OK;
    act_grad_slot *g = &t->act_grad[slot];
    if (g->sent > 0) TRY(comm_send_wait(t->grads, g->peer, g->sent, t->stream[STREAM_COMPUTE], e));
    g->sent = 0;
    *ptr = g->ptr;
done:
    return result;
}

// The first block's pass is the last one that reads the batch.
static void end_batch(trainer *t, const schedule_instr *x)
{
    if (x->index == 0)
        trainer_ops(t)->record(t->consumed[x->micro % t->schedule.batch_slots],
                               t->stream[STREAM_COMPUTE]);
}

static char *act_grad_ptr(const trainer *t, int slot)
{
    return slot < 0 ? NULL : t->act_grad[slot].ptr;
}

// The block's input gradient is in its activation-gradient slot from now on. Some blocks leave it in
// memory that is written again too soon: a loss in the activation slot, dgrad in the wgrad slot.
static void keep_input_grad(trainer *t, const graph_run *r, char *to)
{
    const void *from = graph_run_ptr(r, r->g->input->grad);
    if (from != to)
        trainer_ops(t)->copy(t->stream[STREAM_COMPUTE], to, from, graph_value_bytes(r->g->input));
}

// dgrad and wgrad at once, from one activation-gradient slot to another.
status run_backward(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = context(t, x);
    char *to = act_grad_ptr(t, x->grad_out);
    if (x->grad_out != x->grad_in) TRY(take_act_grad(t, x->grad_out, &to, e));
    r.base[REGION_OUTPUT_GRAD] = act_grad_ptr(t, x->grad_in);
    r.base[REGION_INPUT_GRAD] = to;
    TRY(graph_run_backward(&r, e));
    if (to) keep_input_grad(t, &r, to);
    end_batch(t, x);
done:
    return result;
}

static char **output_grad_of(trainer *t, const schedule_instr *x)
{
    return &t->output_grad_ptr[x->wgrad_slot * t->model->blocks + x->index];
}

// Where the wgrad slot has room for the gradient of the block's output.
static char *wgrad_output_grad(const trainer *t, int wgrad_slot, int block)
{
    const trainer_chunk *c = chunk_of(t, block);
    return c->held + (size_t)wgrad_slot * c->saved_for_wgrad_bytes + t->place[block].output_grad;
}

// dgrad alone. The gradient of its output stays where it is until wgrad has read it.
status run_backward_input(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = context(t, x);
    char *to;
    TRY(take_act_grad(t, x->grad_out, &to, e));
    if (x->index == t->model->blocks - 1) t->output_grad = NULL;
    *output_grad_of(t, x) = t->output_grad;
    r.base[REGION_OUTPUT_GRAD] = t->output_grad;
    r.base[REGION_INPUT_GRAD] = to;
    if (x->index > chunk_of(t, x->index)->first)
        r.base[REGION_INPUT_GRAD] = wgrad_output_grad(t, x->wgrad_slot, x->index - 1);
    TRY(graph_run_dgrad(&r, e));
    if (r.g->input_grad_unused) goto done;
    t->output_grad = graph_run_ptr(&r, r.g->input->grad);
    if (to) keep_input_grad(t, &r, to);
done:
    return result;
}

status run_backward_weight(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = context(t, x);
    r.base[REGION_OUTPUT_GRAD] = *output_grad_of(t, x);
    TRY(graph_run_wgrad(&r, e));
    end_batch(t, x);
done:
    return result;
}

// ---- Messages between stages

status run_recv_act(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    const trainer_chunk *c = chunk_of(t, x->index);
    const graph *g = t->running->block[x->index].g;
    char *to = c->act + (size_t)x->slot * c->act_bytes + t->place[x->index].input;
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], t->stream[STREAM_COMM]);
    TRY(comm_recv(t->axis[AXIS_PP], to, graph_value_bytes(g->input), x->peer,
                  t->stream[STREAM_COMM], e));
    trainer_order(t, t->arrived, t->stream[STREAM_COMM], t->stream[STREAM_COMPUTE]);
done:
    return result;
}

status run_send_act(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    trainer_chunk *c = chunk_of(t, x->index);
    const graph *g = t->running->block[x->index].g;
    const char *from = c->act + (size_t)x->slot * c->act_bytes + t->place[x->index].output;
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], t->stream[STREAM_COMM]);
    TRY(comm_send(t->axis[AXIS_PP], from, graph_value_bytes(g->output), x->peer,
                  t->stream[STREAM_COMM], e));
    c->sent[x->slot] = ++t->acts_sent[x->peer];
done:
    return result;
}

status run_recv_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    char *to;
    TRY(take_act_grad(t, x->grad_out, &to, e));
    if (!to) to = wgrad_output_grad(t, x->wgrad_slot, x->index);
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], t->stream[STREAM_COMM]);
    TRY(comm_recv(t->grads, to, graph_value_bytes(t->model->block[x->index].g->output), x->peer,
                  t->stream[STREAM_COMM], e));
    trainer_order(t, t->arrived, t->stream[STREAM_COMM], t->stream[STREAM_COMPUTE]);
    t->output_grad = to;
done:
    return result;
}

status run_send_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    act_grad_slot *g = &t->act_grad[x->grad_in];
    trainer_order(t, t->computed, t->stream[STREAM_COMPUTE], t->stream[STREAM_COMM]);
    TRY(comm_send(t->grads, g->ptr, graph_value_bytes(t->model->block[x->index].g->input), x->peer,
                  t->stream[STREAM_COMM], e));
    g->peer = x->peer;
    g->sent = ++t->grads_sent[x->peer];
done:
    return result;
}
