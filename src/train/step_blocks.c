// step_blocks.c -- the blocks of a stage: allocates their memory, and executes the instructions
// that run them and that send activations and gradients between stages. See blocks.h. Called by
// trainer.c and through the table in step.c.
//
// messages.c sends and receives. Before a slot is written again, its last message must have been read.
#include "base/size.h"
#include "parallel/instructions.h"
#include "train/blocks.h"
#include "train/messages.h"
#include "train/trainer_private.h"

// One of this stage's model chunks.
typedef struct blocks_chunk {
    int first, last;              // blocks first … last-1
    size_t act_bytes;             // of one act slot
    size_t saved_for_wgrad_bytes; // of one wgrad slot
    char *act;                    // [act slots, act_bytes]
    char *saved_for_wgrad;        // [wgrad slots, saved_for_wgrad_bytes]
    messages_sent *sent;          // [act slots] the last message from the slot
} blocks_chunk;

// Offsets of a block's values within the slots of its chunk.
typedef struct blocks_offsets {
    size_t input, output, saved;         // in the act slot
    size_t saved_for_wgrad, output_grad; // in the wgrad slot
} blocks_offsets;

// An activation-gradient slot of the schedule.
typedef struct blocks_act_grad {
    char *ptr;
    messages_sent sent; // its last value, if that was sent
} blocks_act_grad;

struct trainer_blocks {
    blocks_chunk *chunk;     // [chunks of the stage]
    blocks_offsets *offsets; // [blocks]
    char *workspace;
    float *rope;               // the rotary tables; NULL: the model has none
    blocks_act_grad *act_grad; // [schedule's act_grad_slots]
    char *output_grad;         // output gradient of the next block of the backward pass
    char **output_grad_ptr;    // [wgrad slots, blocks] where dgrad read its output gradient
    messages messages;
    // [parameters of the block] the arrays of the block that runs.
    void **weight;
    float **gradient;
    bool **grad_written;
};

// ---- Memory

static int chunk_count(const trainer *t)
{
    return t->plan->chunks / t->plan->o.mesh.size[AXIS_PP];
}

// The aligned offset after `bytes` bytes at `offset`.
static size_t after(size_t offset, size_t bytes)
{
    return size_add(offset, size_align(bytes, 64));
}

// Where block b writes its output: behind the chunk's other values, or, where only the next block's
// forward reads it, over the output of block b - 2.
static size_t lay_out_output(trainer *t, blocks_chunk *c, int b)
{
    const size_t bytes = t->model->block[b].g->bytes.output, end = c->act_bytes;
    const bool passes = b + 1 < t->plan->o.first_backward && b + 1 < c->last && b - 2 >= c->first;
    if (passes && t->model->block[b - 2].g->bytes.output == bytes)
        return t->blocks->offsets[b - 2].output;
    c->act_bytes = after(end, bytes);
    return end;
}

// Lays out the values of the stage's chunk `number`, which is model chunk `model_chunk`, in its
// slots.
static void lay_out_chunk(trainer *t, int number, int model_chunk)
{
    blocks_chunk *c = &t->blocks->chunk[number];
    const plan *p = t->plan;
    c->first = p->chunk_first[model_chunk], c->last = p->chunk_first[model_chunk + 1];
    c->act_bytes = c->saved_for_wgrad_bytes = 0;
    for (int b = c->first; b < c->last; b++) {
        const graph *g = t->model->block[b].g;
        blocks_offsets *x = &t->blocks->offsets[b];
        if (b > c->first) x->input = t->blocks->offsets[b - 1].output;
        if (b == c->first && b > 0) {
            x->input = c->act_bytes;
            c->act_bytes = after(c->act_bytes, g->bytes.input);
        }
        x->output = lay_out_output(t, c, b);
        x->saved = c->act_bytes;
        c->act_bytes = after(c->act_bytes, g->bytes.saved);
        x->saved_for_wgrad = c->saved_for_wgrad_bytes;
        c->saved_for_wgrad_bytes = after(c->saved_for_wgrad_bytes, g->bytes.saved_for_wgrad);
        x->output_grad = c->saved_for_wgrad_bytes;
        c->saved_for_wgrad_bytes = after(c->saved_for_wgrad_bytes, g->bytes.output);
    }
}

// Activations are sent without a copy, so the receiving stages must be able to read them.
// Ranks that compute a block together sum them in place, or read each other's.
static memory_source activation_source(const trainer *t)
{
    return mesh_group_size(&t->plan->o.mesh, AXES_PASSES) > 1 ? FROM_SHARED : FROM_DEVICE;
}

static status allocate_chunks(trainer *t, err *e)
{
    status result = OK;
    trainer_memory *m = t->memory;
    const memory_source from = activation_source(t);
    int wgrad_slots = 0;
    for (int k = 0; k < chunk_count(t); k++) {
        blocks_chunk *c = &t->blocks->chunk[k];
        const int acts = t->schedule.act_slots[k], wgrads = t->schedule.wgrad_slots[k];
        lay_out_chunk(t, k, k * t->plan->o.mesh.size[AXIS_PP] + t->plan->coord[AXIS_PP]);
        TRY(memory_take(m, BYTES_ACTIVATIONS, from, size_mul((uint64_t)acts, c->act_bytes), &c->act,
                        e));
        TRY(memory_take(m, BYTES_ACTIVATIONS, from,
                        size_mul((uint64_t)wgrads, c->saved_for_wgrad_bytes), &c->saved_for_wgrad,
                        e));
        TRY(memory_table(m, (size_t)acts, sizeof *c->sent, &c->sent, e));
        for (int i = 0; c->sent && i < acts; i++) TRY(messages_open_slot(t, &c->sent[i], e));
        if (wgrads > wgrad_slots) wgrad_slots = wgrads;
    }
    TRY(memory_table(m, (size_t)wgrad_slots * (size_t)t->model->blocks, sizeof(char *),
                     &t->blocks->output_grad_ptr, e));
done:
    return result;
}

static size_t workspace_bytes(const trainer *t)
{
    size_t bytes = 0;
    for (int b = 0; b < t->model->blocks; b++) {
        if (!plan_has_block(t->plan, b)) continue;
        const size_t train = t->model->block[b].g->bytes.workspace,
                     eval = t->eval ? t->eval->block[b].g->bytes.workspace : 0;
        if (train > bytes) bytes = train;
        if (eval > bytes) bytes = eval;
    }
    return bytes;
}

// The largest activation gradient of the blocks of this stage.
static size_t act_grad_bytes(const trainer *t)
{
    size_t bytes = 0;
    for (int b = 0; b < t->model->blocks; b++) {
        const graph *g = t->model->block[b].g;
        if (!plan_has_block(t->plan, b)) continue;
        if (g->bytes.output > bytes) bytes = g->bytes.output;
        if (g->bytes.input > bytes) bytes = g->bytes.input;
    }
    return size_align(bytes, 64);
}

static status allocate_workspace(trainer *t, err *e)
{
    status result = OK;
    trainer_blocks *x = t->blocks;
    const memory_source from = activation_source(t);
    const int slots = t->schedule.act_grad_slots;
    const bool counting = memory_is_counting(t->memory);
    TRY(memory_take(t->memory, BYTES_WORKSPACE, from, workspace_bytes(t), &x->workspace, e));
    TRY(memory_table(t->memory, (size_t)slots, sizeof *x->act_grad, &x->act_grad, e));
    for (int i = 0; i < slots; i++) {
        blocks_act_grad *const slot = counting ? NULL : &x->act_grad[i];
        TRY(memory_take(t->memory, BYTES_WORKSPACE, from, act_grad_bytes(t),
                        slot ? &slot->ptr : NULL, e));
        if (slot) TRY(messages_open_slot(t, &slot->sent, e));
    }
done:
    return result;
}

// The tables have room for all parameters, because a block may use any number of them.
static status allocate_tables(trainer *t, err *e)
{
    status result = OK;
    trainer_blocks *x = t->blocks;
    const size_t params = (size_t)t->model->params;
    TRY(memory_table(t->memory, params, sizeof *x->weight, &x->weight, e));
    TRY(memory_table(t->memory, params, sizeof *x->gradient, &x->gradient, e));
    TRY(memory_table(t->memory, params, sizeof *x->grad_written, &x->grad_written, e));
    TRY(messages_allocate(t, &x->messages, e));
done:
    return result;
}

static status allocate_rope(trainer *t, err *e)
{
    status result = OK;
    const size_t bytes = model_rope_bytes(t->model);
    float **rope = &t->blocks->rope;
    if (bytes == 0) return OK;
    TRY(memory_take(t->memory, BYTES_KERNELS, FROM_DEVICE, bytes, rope, e));
    if (!memory_is_counting(t->memory))
        TRY(model_upload_rope(t->model, trainer_stream(t, STREAM_COMPUTE), *rope, e));
done:
    return result;
}

status blocks_allocate(trainer *t, err *e)
{
    status result = OK;
    TRY(trainer_object(&t->blocks, sizeof *t->blocks, e));
    trainer_blocks *x = t->blocks;
    TRY(trainer_object(&x->chunk, (size_t)chunk_count(t) * sizeof *x->chunk, e));
    TRY(trainer_object(&x->offsets, (size_t)t->model->blocks * sizeof *x->offsets, e));
    TRY(allocate_chunks(t, e));
    TRY(allocate_workspace(t, e));
    TRY(allocate_tables(t, e));
    TRY(allocate_rope(t, e));
done:
    return result;
}

static void close_slots(trainer *t)
{
    trainer_blocks *x = t->blocks;
    for (int k = 0; x->chunk && k < chunk_count(t); k++)
        for (int i = 0; x->chunk[k].sent && i < t->schedule.act_slots[k]; i++)
            messages_close_slot(t, &x->chunk[k].sent[i]);
    for (int i = 0; x->act_grad && i < t->schedule.act_grad_slots; i++)
        messages_close_slot(t, &x->act_grad[i].sent);
}

void blocks_close(trainer *t)
{
    trainer_blocks *x = t->blocks;
    if (!x) return;
    if (!memory_is_counting(t->memory)) close_slots(t); // a plan has none
    free(x->chunk);
    free(x->offsets);
    free(x);
}

// ---- Binding a block to its memory

static blocks_chunk *chunk_of(const trainer *t, int block)
{
    return &t->blocks->chunk[plan_chunk_of(t->plan, block) / t->plan->o.mesh.size[AXIS_PP]];
}

// Binds parameter i of the block, which is row p of the plan. Its weight and its gradient each lie
// in a slot or in a flat array of the trainer.
static void bind_parameter(trainer *t, int i, int block, int p)
{
    trainer_blocks *x = t->blocks;
    const plan_row *r = &t->plan->row[p];
    const plan_group *g = plan_group_of(t->plan, r->bucket);
    const size_t full = (size_t)r->offset[LAYOUT_FULL];
    const bool tied_grad = r->tied_grad >= 0 && block == r->last_block;
    const trainer_slot *ws = slots_weight_of(t, r->bucket), *gs = slots_gradient_of(t, r->bucket);
    char *weights =
        g->weight_slots ? (ws ? ws->ptr : NULL) : state_bucket(t, ARRAY_WEIGHTS, r->bucket);
    char *gradients =
        g->gradient_slots ? (gs ? gs->ptr : NULL) : state_bucket(t, ARRAY_GRADIENTS, r->bucket);
    x->weight[i] = weights ? weights + full * dtype_bytes(g->o.compute) : NULL;
    x->gradient[i] = tied_grad   ? state_tied_gradient(t, r)
                     : gradients ? (float *)(void *)gradients + full
                                 : NULL;
    x->grad_written[i] = tied_grad ? state_tied_grad_written(t, p) : state_grad_written(t, p);
}

// The compute stream waits for the buckets that this block reads or adds to.
static void await_buckets(trainer *t, int block)
{
    const plan_buckets l = plan_buckets_of(t->plan, block);
    device_stream *on = trainer_stream(t, STREAM_COMPUTE);
    for (int i = 0; i < l.count; i++) {
        const trainer_slot *weights = slots_weight_of(t, l.items[i]),
                           *gradients = slots_gradient_of(t, l.items[i]);
        if (weights) trainer_wait(t, on, &weights->filled);
        if (gradients) trainer_wait(t, on, &gradients->filled);
    }
}

// Binds a block to its weights, gradients, activations and batch.
static graph_run bind_block(trainer *t, const schedule_instr *x)
{
    const trainer_blocks *all = t->blocks;
    const model_block *b = &t->pass.running->block[x->index];
    const blocks_offsets *offsets = &all->offsets[x->index];
    const blocks_chunk *c = chunk_of(t, x->index);
    char *act = c->act + (size_t)x->slot * c->act_bytes;
    const trainer_batch batch = batches_get(t, x->micro);
    double *sums = results_sums(t);
    await_buckets(t, x->index);
    for (int i = 0; i < b->g->params; i++) bind_parameter(t, i, x->index, b->param[i]);
    graph_run r = {.g = b->g,
                   .stream = trainer_stream(t, STREAM_COMPUTE),
                   .weight = all->weight,
                   .gradient = all->gradient,
                   .grad_written = all->grad_written,
                   .documents = batch.documents,
                   .rope = model_block_rope(t->pass.running, x->index, all->rope),
                   .loss_sum = &sums[SUM_LOSS],
                   .loss_count = &sums[SUM_COUNT],
                   .preference_sums = &sums[SUM_PREFERENCE],
                   .preference_shared = &results_step(t)->shared,
                   .labelled = batch.labelled,
                   .filled_rows = batch.filled,
                   .step = t->pass.running == t->model ? results_step(t) : NULL,
                   .outputs = t->pass.outputs,
                   .seed = t->o.seed,
                   .block = x->index,
                   .row0 = (uint64_t)x->micro * (uint64_t)(t->o.micro_batch * t->o.seq_len)};
    for (int a = 0; a < AXES; a++) r.comm[a] = trainer_group(t, GROUP_PASSES + a);
    r.base[REGION_INPUT] = act + offsets->input;
    r.base[REGION_OUTPUT] = act + offsets->output;
    r.base[REGION_SAVED] = act + offsets->saved;
    r.base[REGION_WORKSPACE] = all->workspace;
    r.base[REGION_IDS] = batch.ids;
    r.base[REGION_LABELS] = batch.labels;
    if (x->wgrad_slot >= 0 && c->saved_for_wgrad)
        r.base[REGION_SAVED_FOR_WGRAD] = c->saved_for_wgrad +
                                         (size_t)x->wgrad_slot * c->saved_for_wgrad_bytes +
                                         offsets->saved_for_wgrad;
    return r;
}

status run_forward(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    blocks_chunk *c = chunk_of(t, x->index);
    if (x->index == c->last - 1)
        TRY(messages_await_read(t, MESH_AXIS(AXIS_PP), &c->sent[x->slot], e));
    graph_run r = bind_block(t, x);
    trainer_span_begin(t, x);
    TRY(graph_run_forward(&r, e));
done:
    return result;
}

// ---- Gradients between blocks

// Waits until the stage to which the activation-gradient slot was sent has read it. *ptr is the
// slot's memory, or NULL for slot -1.
static status take_act_grad(trainer *t, int slot, char **ptr, err *e)
{
    status result = OK;
    *ptr = NULL;
    if (slot < 0) return OK;
    blocks_act_grad *g = &t->blocks->act_grad[slot];
    TRY(messages_await_read(t, GROUP_PASSES + AXIS_PP, &g->sent, e));
    *ptr = g->ptr;
done:
    return result;
}

static char *act_grad_ptr(const trainer *t, int slot)
{
    return slot < 0 ? NULL : t->blocks->act_grad[slot].ptr;
}

// Copies the block's input gradient to its activation-gradient slot `to`, unless it is there
// already. Some blocks compute it in memory that is overwritten too soon: a loss in the act slot,
// dgrad in the wgrad slot. A block has none where nothing before it trains.
static void store_input_grad(trainer *t, const graph_run *r, char *to)
{
    const void *from = graph_run_ptr(r, r->g->input->grad);
    if (from && from != to)
        trainer_ops(t)->copy(trainer_stream(t, STREAM_COMPUTE), to, from,
                             graph_value_bytes(r->g->input));
}

// Runs dgrad and wgrad together. Reads the output gradient from one activation-gradient slot and
// writes the input gradient to another.
status run_backward(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = bind_block(t, x);
    char *to = act_grad_ptr(t, x->grad_out);
    if (x->grad_out != x->grad_in) TRY(take_act_grad(t, x->grad_out, &to, e));
    trainer_span_begin(t, x);
    r.base[REGION_OUTPUT_GRAD] = act_grad_ptr(t, x->grad_in);
    r.base[REGION_INPUT_GRAD] = to;
    TRY(graph_run_backward(&r, e));
    if (to) store_input_grad(t, &r, to);
done:
    return result;
}

static char **output_grad_of(trainer *t, const schedule_instr *x)
{
    return &t->blocks->output_grad_ptr[x->wgrad_slot * t->model->blocks + x->index];
}

// The address of the block's output gradient in the wgrad slot.
static char *wgrad_output_grad(const trainer *t, int wgrad_slot, int block)
{
    const blocks_chunk *c = chunk_of(t, block);
    return c->saved_for_wgrad + (size_t)wgrad_slot * c->saved_for_wgrad_bytes +
           t->blocks->offsets[block].output_grad;
}

// Runs dgrad alone. The output gradient stays in its memory until wgrad has read it.
status run_backward_input(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = bind_block(t, x);
    char *to;
    TRY(take_act_grad(t, x->grad_out, &to, e));
    trainer_span_begin(t, x);
    if (x->index == t->model->blocks - 1) t->blocks->output_grad = NULL;
    *output_grad_of(t, x) = t->blocks->output_grad;
    r.base[REGION_OUTPUT_GRAD] = t->blocks->output_grad;
    r.base[REGION_INPUT_GRAD] = to;
    if (x->index > chunk_of(t, x->index)->first)
        r.base[REGION_INPUT_GRAD] = wgrad_output_grad(t, x->wgrad_slot, x->index - 1);
    TRY(graph_run_dgrad(&r, e));
    if (r.g->input_grad.unused) goto done;
    t->blocks->output_grad = graph_run_ptr(&r, r.g->input->grad);
    if (to) store_input_grad(t, &r, to);
done:
    return result;
}

status run_backward_weight(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    graph_run r = bind_block(t, x);
    trainer_span_begin(t, x);
    r.base[REGION_OUTPUT_GRAD] = *output_grad_of(t, x);
    TRY(graph_run_wgrad(&r, e));
done:
    return result;
}

// ---- Messages between stages

static char *act_ptr(const trainer *t, const schedule_instr *x, size_t offset)
{
    const blocks_chunk *c = chunk_of(t, x->index);
    return c->act + (size_t)x->slot * c->act_bytes + offset;
}

status run_recv_act(trainer *t, const schedule_instr *x, err *e)
{
    return messages_receive(t, &t->blocks->messages, x, MESH_AXIS(AXIS_PP),
                            act_ptr(t, x, t->blocks->offsets[x->index].input), e);
}

status run_send_act(trainer *t, const schedule_instr *x, err *e)
{
    return messages_send(t, &t->blocks->messages, x, MESH_AXIS(AXIS_PP),
                         act_ptr(t, x, t->blocks->offsets[x->index].output),
                         &chunk_of(t, x->index)->sent[x->slot], e);
}

status run_recv_grad(trainer *t, const schedule_instr *x, err *e)
{
    status result = OK;
    char *to;
    TRY(take_act_grad(t, x->grad_out, &to, e));
    if (!to) to = wgrad_output_grad(t, x->wgrad_slot, x->index);
    TRY(messages_receive(t, &t->blocks->messages, x, GROUP_PASSES + AXIS_PP, to, e));
    t->blocks->output_grad = to;
done:
    return result;
}

status run_send_grad(trainer *t, const schedule_instr *x, err *e)
{
    blocks_act_grad *g = &t->blocks->act_grad[x->grad_in];
    return messages_send(t, &t->blocks->messages, x, GROUP_PASSES + AXIS_PP, g->ptr, &g->sent, e);
}

// ---- What an instruction has written

static blocks_values values_of(const graph_value *v, const void *ptr)
{
    if (!v || !ptr) return (blocks_values){NULL, F32, 0};
    return (blocks_values){ptr, v->type, graph_value_rows(v) * graph_value_cols(v)};
}

blocks_values blocks_written(const trainer *t, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    const unsigned computes = row->computes;
    const bool received = row->peers.waits_for == WAITS_FOR_SENDER;
    if (row->subject != ABOUT_BLOCK) return values_of(NULL, NULL);
    const graph *g = t->model->block[x->index].g;
    const blocks_offsets *offsets = &t->blocks->offsets[x->index];
    if (computes & COMPUTES_FORWARD) return values_of(g->output, act_ptr(t, x, offsets->output));
    if (received && row->peers.channel == CHANNEL_ACTIVATIONS)
        return values_of(g->input, act_ptr(t, x, offsets->input));
    if (received) return values_of(g->output, t->blocks->output_grad);
    if (!(computes & COMPUTES_DGRAD) || g->input_grad.unused) return values_of(NULL, NULL);
    const bool split = !(computes & COMPUTES_WGRAD);
    return values_of(g->input, split ? t->blocks->output_grad : act_grad_ptr(t, x->grad_out));
}
