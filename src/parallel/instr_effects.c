// instr_effects.c -- says what an instruction does to the resources of its stage: one function per
// kind names its uses. Called by verify.c and simulate.c. Deliberately does not check anything:
// verify.c does.
#include "parallel/instructions.h"

// ---- Owners and slots

static int stages_of(const plan *p)
{
    return p->o.mesh.size[AXIS_PP];
}

int instr_owners(const plan *p, instr_resource r)
{
    const int owners[] = {[OWNER_STEP] = 1,
                          [OWNER_MICRO] = p->o.micros,
                          [OWNER_BUCKET] = p->buckets,
                          [OWNER_PASS] = p->o.micros * p->o.blocks};
    return owners[instr_resource_row_of(r)->owner];
}

int instr_slot_groups(const plan *p, instr_resource r)
{
    return instr_resource_row_of(r)->by_chunk ? p->chunks / stages_of(p) : 1;
}

int instr_slot_count(const schedule *s, instr_resource r, int group)
{
    const int count[RES_SLOTS] = {
        [RES_ACT_SLOT] = s->act_slots[group],
        [RES_WGRAD_SLOT] = s->wgrad_slots[group],
        [RES_ACT_GRAD_SLOT] = s->act_grad_slots,
        [RES_WEIGHT_SLOT] = s->weights.count,
        [RES_GRAD_SLOT] = s->gradients.count,
        [RES_STATE_SLOT + PLAN_WEIGHTS] = s->state[PLAN_WEIGHTS].count,
        [RES_STATE_SLOT + PLAN_GRADIENTS] = s->state[PLAN_GRADIENTS].count,
        [RES_STATE_SLOT + PLAN_OPTIMIZER_STATE] = s->state[PLAN_OPTIMIZER_STATE].count,
    };
    return count[r];
}

void instr_owner_print(const plan *p, instr_resource r, int owner, text *out)
{
    const instr_owner kind = instr_resource_row_of(r)->owner;
    if (kind == OWNER_MICRO) text_addf(out, "micro %d", owner);
    if (kind == OWNER_BUCKET) text_addf(out, "bucket %d", owner);
    if (kind == OWNER_PASS)
        text_addf(out, "micro %d block %d", owner % p->o.micros, owner / p->o.micros);
    if (kind == OWNER_STEP) text_add(out, "the step");
}

bool instr_is_due(const plan *p, schedule_pass pass, instr_resource r, int owner)
{
    const instr_owner kind = instr_resource_row_of(r)->owner;
    if (kind == OWNER_BUCKET) return !plan_group_of(p, owner)->o.frozen;
    if (kind != OWNER_PASS) return true;
    const int block = owner / p->o.micros, micros = pass == PASS_TRAIN ? p->o.micros : 1;
    return plan_has_block(p, block) && owner % p->o.micros < micros &&
           (pass == PASS_EVAL || block >= p->o.first_backward);
}

// ---- One use

// An instruction, and the function that its uses are given to.
typedef struct uses {
    const plan *p;
    const schedule_instr *x;
    bool trains; // the list is that of a training step
    instr_use_fn *visit;
    void *given;
    status result; // of the visits; there are no more after a failure
    err *e;
} uses;

enum { NO_SLOT = -1, ANY_SLOT = -2, THE_STEP = 0 };

static void use(uses *u, instr_access access, instr_resource r, int owner, int slot)
{
    const bool by_chunk = instr_resource_row_of(r)->by_chunk;
    const instr_use one = {.access = access,
                           .resource = r,
                           .group =
                               by_chunk ? plan_chunk_of(u->p, u->x->index) / stages_of(u->p) : 0,
                           .slot = slot == ANY_SLOT ? NO_SLOT : slot,
                           .any_slot = slot == ANY_SLOT,
                           .owner = owner};
    if (u->result == OK) u->result = u->visit(u->given, &one, u->e);
}

static void reads(uses *u, instr_resource r, int owner)
{
    use(u, ACCESS_READ, r, owner, NO_SLOT);
}

static void writes(uses *u, instr_resource r, int owner)
{
    use(u, ACCESS_WRITE, r, owner, NO_SLOT);
}

static void precedes(uses *u, instr_resource r, int owner)
{
    use(u, ACCESS_PRECEDE, r, owner, NO_SLOT);
}

static void allocates(uses *u, instr_resource r, int owner, int slot)
{
    use(u, ACCESS_ALLOCATE, r, owner, slot);
}

static void frees(uses *u, instr_resource r, int owner, int slot)
{
    use(u, ACCESS_FREE, r, owner, slot);
}

// ---- Conditions, and uses of more than one kind

// Passes are numbered block by block, so that those of one stage lie together.
static int pass_of(const uses *u, int block)
{
    return block * u->p->o.micros + u->x->micro;
}

static const plan_group *group_of(const uses *u)
{
    return plan_group_of(u->p, u->x->index);
}

static bool is_first_of_chunk(const uses *u)
{
    return u->x->index == u->p->chunk_first[plan_chunk_of(u->p, u->x->index)];
}

static bool is_last_of_chunk(const uses *u)
{
    return u->x->index + 1 == u->p->chunk_first[plan_chunk_of(u->p, u->x->index) + 1];
}

// No message brings the input of the block.
static bool input_is_local(const uses *u)
{
    return u->x->index == 0 || !is_first_of_chunk(u);
}

static bool has_input_grad(const uses *u)
{
    return u->x->index > u->p->o.first_backward;
}

static bool has_block_after(const uses *u)
{
    return u->x->index < u->p->o.blocks - 1;
}

static void reads_weights(uses *u)
{
    const plan_buckets l = plan_buckets_of(u->p, u->x->index);
    for (int i = 0; i < l.count; i++)
        if (plan_group_of(u->p, l.items[i])->weight_slots)
            use(u, ACCESS_READ, RES_WEIGHT_SLOT, l.items[i], ANY_SLOT);
}

// Names the uses of every pass that may add to the gradients of weights.
static void adds_to_gradients(uses *u)
{
    const unsigned computes = instr_row_of(u->x->kind)->computes;
    const plan_buckets l = plan_buckets_of(u->p, u->x->index);
    for (int i = 0; u->trains && i < l.count; i++) {
        const plan_group *g = plan_group_of(u->p, l.items[i]);
        if (g->o.frozen || !(plan_block_writes(u->p, u->x->index, l.items[i]) & computes)) continue;
        precedes(u, RES_REDUCED, l.items[i]);
        if (g->gradient_slots) use(u, ACCESS_MODIFY, RES_GRAD_SLOT, l.items[i], ANY_SLOT);
        use(u, ACCESS_MODIFY, RES_GRAD_SUM, l.items[i], NO_SLOT);
    }
}

// Names the first uses of every pass that computes the gradient of the input of its block.
static void begins_dgrad(uses *u)
{
    const int block = u->x->index;
    reads(u, RES_OUTPUT, pass_of(u, block));
    precedes(u, RES_INPUT_GRAD, pass_of(u, block));
    if (has_block_after(u)) reads(u, RES_INPUT_GRAD, pass_of(u, block + 1));
    adds_to_gradients(u);
    reads_weights(u);
}

// Gradients of the bucket are in a gradient slot, which is used with `access`, or only reduced shards
// remain of them.
static void finds_gradients(uses *u, instr_access access)
{
    const int bucket = u->x->index;
    if (!group_of(u)->gradient_slots) return;
    if (u->x->slot >= 0) {
        use(u, access, RES_GRAD_SLOT, bucket, u->x->slot);
    } else {
        reads(u, RES_REDUCED_MICRO, bucket);
        use(u, ACCESS_PRECEDE, RES_GRAD_SLOT, bucket, ANY_SLOT);
    }
}

// ---- Batches, numbers and state

static void use_load_batch(uses *u)
{
    writes(u, RES_BATCH, u->x->micro);
}

static void use_load_step(uses *u)
{
    for (int i = 0; plan_reads_batches(u->p) && i < u->p->o.micros; i++) reads(u, RES_BATCH, i);
    writes(u, RES_STEP, THE_STEP);
}

static instr_resource swapped_slot(const schedule_instr *x)
{
    return x->full ? RES_GRAD_SLOT : RES_STATE_SLOT + (instr_resource)x->what;
}

static void use_swap_in(uses *u)
{
    allocates(u, swapped_slot(u->x), u->x->index, u->x->slot);
}

static void use_swap_out(uses *u)
{
    frees(u, swapped_slot(u->x), u->x->index, u->x->slot);
    if (u->x->what != PLAN_GRADIENTS) reads(u, RES_UPDATED, u->x->index);
}

static void use_unshard(uses *u)
{
    const schedule_instr *x = u->x;
    if (x->post_forward)
        reads(u, RES_POST_FORWARD, x->index);
    else if (plan_is_swapped(group_of(u), PLAN_WEIGHTS))
        frees(u, RES_STATE_SLOT + PLAN_WEIGHTS, x->index, x->state[PLAN_WEIGHTS]);
    allocates(u, RES_WEIGHT_SLOT, x->index, x->slot);
}

static void use_reshard_post_forward(uses *u)
{
    use(u, ACCESS_READ, RES_WEIGHT_SLOT, u->x->index, u->x->slot);
    writes(u, RES_POST_FORWARD, u->x->index);
}

static void use_reshard(uses *u)
{
    frees(u, RES_WEIGHT_SLOT, u->x->index, u->x->slot);
}

static void use_alloc_grad(uses *u)
{
    allocates(u, RES_GRAD_SLOT, u->x->index, u->x->slot);
}

// ---- Passes and messages

static void use_recv_act(uses *u)
{
    allocates(u, RES_ACT_SLOT, u->x->micro, u->x->slot);
    writes(u, RES_OUTPUT, pass_of(u, u->x->index - 1));
}

// The output of a block without a backward is needed until the next block has read it.
static void use_forward(uses *u)
{
    const schedule_instr *x = u->x;
    const bool ends_block_before =
        u->trains && !is_first_of_chunk(u) && x->index - 1 < u->p->o.first_backward;
    if (u->trains) reads(u, RES_STEP, THE_STEP);
    if (x->index > 0) reads(u, RES_OUTPUT, pass_of(u, x->index - 1));
    reads_weights(u);
    if (input_is_local(u)) allocates(u, RES_ACT_SLOT, x->micro, x->slot);
    use(u, ACCESS_READ, RES_ACT_SLOT, x->micro, x->slot);
    if (ends_block_before) frees(u, RES_ACT_SLOT, x->micro, x->slot);
    adds_to_gradients(u);
    writes(u, RES_OUTPUT, pass_of(u, x->index));
}

static void use_send_act(uses *u)
{
    const schedule_instr *x = u->x;
    reads(u, RES_OUTPUT, pass_of(u, x->index));
    use(u, ACCESS_READ, RES_ACT_SLOT, x->micro, x->slot);
    if (u->trains && x->index < u->p->o.first_backward) frees(u, RES_ACT_SLOT, x->micro, x->slot);
}

static void use_recv_grad(uses *u)
{
    const int received = pass_of(u, u->x->index + 1);
    if (pipeline_schedule_splits_backward(u->p->o.strategy.pipeline.schedule))
        allocates(u, RES_WGRAD_SLOT, u->x->micro, u->x->wgrad_slot);
    else
        allocates(u, RES_ACT_GRAD_SLOT, received, u->x->grad_out);
    writes(u, RES_INPUT_GRAD, received);
}

// An input gradient that is computed in place takes over the slot of the output gradient. Otherwise
// its slot is allocated before the output gradient's is freed.
static void use_backward(uses *u)
{
    const schedule_instr *x = u->x;
    const int own = pass_of(u, x->index);
    const bool in_place = u->p->blocks.input_grad_in_place[x->index];
    begins_dgrad(u);
    frees(u, RES_ACT_SLOT, x->micro, x->slot);
    if (has_input_grad(u) && !in_place) allocates(u, RES_ACT_GRAD_SLOT, own, x->grad_out);
    if (has_block_after(u)) frees(u, RES_ACT_GRAD_SLOT, pass_of(u, x->index + 1), x->grad_in);
    if (has_input_grad(u) && in_place) allocates(u, RES_ACT_GRAD_SLOT, own, x->grad_in);
    if (has_input_grad(u)) use(u, ACCESS_READ, RES_ACT_GRAD_SLOT, own, x->grad_out);
    writes(u, RES_INPUT_GRAD, own);
    writes(u, RES_WEIGHT_GRAD, own);
}

// Gradients between the blocks of a chunk lie in its wgrad slot, because wgrad reads them later. The
// input gradient of the chunk's first block lies in an activation-gradient slot.
static void use_backward_input(uses *u)
{
    const schedule_instr *x = u->x;
    const int own = pass_of(u, x->index);
    const bool output_grad_is_local = !has_block_after(u) || !is_last_of_chunk(u);
    begins_dgrad(u);
    use(u, ACCESS_READ, RES_ACT_SLOT, x->micro, x->slot);
    if (output_grad_is_local) allocates(u, RES_WGRAD_SLOT, x->micro, x->wgrad_slot);
    use(u, ACCESS_READ, RES_WGRAD_SLOT, x->micro, x->wgrad_slot);
    if (!input_is_local(u) && has_input_grad(u)) allocates(u, RES_ACT_GRAD_SLOT, own, x->grad_out);
    writes(u, RES_INPUT_GRAD, own);
}

static void use_backward_weight(uses *u)
{
    const schedule_instr *x = u->x;
    const int own = pass_of(u, x->index);
    reads(u, RES_INPUT_GRAD, own);
    precedes(u, RES_WEIGHT_GRAD, own);
    adds_to_gradients(u);
    reads_weights(u);
    frees(u, RES_ACT_SLOT, x->micro, x->slot);
    frees(u, RES_WGRAD_SLOT, x->micro, x->wgrad_slot);
    writes(u, RES_WEIGHT_GRAD, own);
}

static void use_send_grad(uses *u)
{
    reads(u, RES_INPUT_GRAD, pass_of(u, u->x->index));
    frees(u, RES_ACT_GRAD_SLOT, pass_of(u, u->x->index), u->x->grad_in);
}

// ---- Gradients and the update

static void use_reduce_tied_grad(uses *u)
{
    precedes(u, RES_REDUCED, u->x->index);
    finds_gradients(u, ACCESS_READ);
    use(u, ACCESS_MODIFY, RES_GRAD_SUM, u->x->index, NO_SLOT);
    writes(u, RES_TIED_SUM, u->x->index);
}

static void use_reduce_grad(uses *u)
{
    const schedule_instr *x = u->x;
    precedes(u, RES_REDUCED, x->index);
    reads(u, RES_GRAD_SUM, x->index);
    if (x->last && plan_bucket_is_tied(u->p, x->index)) reads(u, RES_TIED_SUM, x->index);
    finds_gradients(u, ACCESS_FREE);
    if (plan_is_swapped(group_of(u), PLAN_GRADIENTS))
        allocates(u, RES_STATE_SLOT + PLAN_GRADIENTS, x->index, x->state[PLAN_GRADIENTS]);
    if (x->last)
        writes(u, RES_REDUCED, x->index);
    else
        use(u, ACCESS_MODIFY, RES_REDUCED_MICRO, x->index, NO_SLOT);
}

static void use_clip_grad_norm(uses *u)
{
    reads(u, RES_STEP, THE_STEP);
    for (int i = 0; i < u->p->buckets; i++)
        if (!plan_group_of(u->p, i)->o.frozen) reads(u, RES_REDUCED, i);
    writes(u, RES_AGREED, THE_STEP);
}

// Uses a state slot, where the update has the state in one.
static void updates(uses *u, instr_access access, plan_state what)
{
    if (plan_updates_in_slot(group_of(u), what))
        use(u, access, RES_STATE_SLOT + (instr_resource)what, u->x->index, u->x->state[what]);
}

// fp32 weights are updated in place, so their old values are needed. 16-bit weights are rounded
// from the fp32 master weights.
static void use_optimizer_step(uses *u)
{
    const bool in_place = group_of(u)->o.compute == F32;
    reads(u, RES_AGREED, THE_STEP);
    reads(u, RES_REDUCED, u->x->index);
    updates(u, ACCESS_FREE, PLAN_GRADIENTS);
    updates(u, in_place ? ACCESS_MODIFY : ACCESS_ALLOCATE, PLAN_WEIGHTS);
    updates(u, ACCESS_MODIFY, PLAN_OPTIMIZER_STATE);
    writes(u, RES_UPDATED, u->x->index);
}

static void use_all_gather_updated(uses *u)
{
    reads(u, RES_UPDATED, u->x->index);
    writes(u, RES_GATHERED, u->x->index);
}

#define USES_OF(KIND, name) [KIND] = use_##name,
typedef void uses_fn(uses *u);
static uses_fn *const USES[] = {SCHEDULE_INSTRS(USES_OF)};

status instr_each_use(const plan *p, const schedule *s, const schedule_instr *x,
                      instr_use_fn *visit, void *given, err *e)
{
    uses u = {p, x, s->pass == PASS_TRAIN, visit, given, OK, e};
    USES[x->kind](&u);
    return u.result;
}
