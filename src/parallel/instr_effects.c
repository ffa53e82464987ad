// instr_effects.c -- applies the row of a kind to one instruction: which of the row's effects take
// place in this plan, on which owners and in which slots. Called by verify.c and simulate.c.
// Deliberately does not check anything: verify.c does.
#include "parallel/instructions.h"

typedef struct context {
    const plan *p;
    const schedule *s;
    const schedule_instr *x;
    int bucket; // that the effect is about; -1: it is about no bucket
} context;

static int stages_of(const plan *p)
{
    return p->o.mesh.size[AXIS_PP];
}

static bool is_first_of_chunk(const plan *p, int block)
{
    return block == p->chunk_first[plan_chunk_of(p, block)];
}

static bool is_last_of_chunk(const plan *p, int block)
{
    return block + 1 == p->chunk_first[plan_chunk_of(p, block) + 1];
}

// ---- Conditions

static const plan_group *group_of(const context *c)
{
    return plan_group_of(c->p, c->bucket);
}

static bool is_swapped(const context *c, instr_resource r)
{
    return plan_is_swapped(group_of(c), (plan_state)(r - RES_STATE_SLOT));
}

typedef bool when_fn(const context *c, instr_resource r);

static bool when_never(const context *c, instr_resource r)
{
    return (void)c, (void)r, false;
}

static bool when_always(const context *c, instr_resource r)
{
    (void)c, (void)r;
    return true;
}

static bool when_has_block_before(const context *c, instr_resource r)
{
    (void)r;
    return c->x->index > 0;
}

static bool when_has_block_after(const context *c, instr_resource r)
{
    (void)r;
    return c->x->index < c->p->o.blocks - 1;
}

static bool when_training(const context *c, instr_resource r)
{
    (void)r;
    return c->s->pass == PASS_TRAIN;
}

static bool when_stage_reads_batches(const context *c, instr_resource r)
{
    (void)r;
    return plan_reads_batches(c->p);
}

static bool when_has_input_grad(const context *c, instr_resource r)
{
    (void)r;
    return c->x->index > c->p->o.first_backward;
}

static bool when_input_is_local(const context *c, instr_resource r)
{
    (void)r;
    return c->x->index == 0 || !is_first_of_chunk(c->p, c->x->index);
}

static bool when_output_grad_is_local(const context *c, instr_resource r)
{
    return !when_has_block_after(c, r) || !is_last_of_chunk(c->p, c->x->index);
}

static bool when_sends_input_grad(const context *c, instr_resource r)
{
    return !when_input_is_local(c, r) && when_has_input_grad(c, r);
}

// The output of a block without a backward is needed until the next block has read it.
static bool when_ends_block_before(const context *c, instr_resource r)
{
    (void)r;
    const int block = c->x->index;
    return c->s->pass == PASS_TRAIN && !is_first_of_chunk(c->p, block) &&
           block - 1 < c->p->o.first_backward;
}

static bool when_has_no_backward(const context *c, instr_resource r)
{
    (void)r;
    return c->s->pass == PASS_TRAIN && c->x->index < c->p->o.first_backward;
}

static bool when_split_backward(const context *c, instr_resource r)
{
    (void)r;
    return pipeline_schedule_splits_backward(c->p->o.strategy.pipeline.schedule);
}

static bool when_fused_backward(const context *c, instr_resource r)
{
    return !when_split_backward(c, r);
}

static bool when_input_grad_in_place(const context *c, instr_resource r)
{
    return when_has_input_grad(c, r) && c->p->blocks.input_grad_in_place[c->x->index];
}

static bool when_input_grad_apart(const context *c, instr_resource r)
{
    return when_has_input_grad(c, r) && !c->p->blocks.input_grad_in_place[c->x->index];
}

static bool when_weight_slots(const context *c, instr_resource r)
{
    (void)r;
    return group_of(c)->weight_slots;
}

static bool when_trains(const context *c, instr_resource r)
{
    (void)r;
    return !group_of(c)->o.frozen;
}

static bool when_adds_to_gradients(const context *c, instr_resource r)
{
    const unsigned computes = instr_row_of(c->x->kind)->computes;
    return c->s->pass == PASS_TRAIN && when_trains(c, r) &&
           (plan_block_writes(c->p, c->x->index, c->bucket) & computes) != 0;
}

static bool when_grad_slots(const context *c, instr_resource r)
{
    (void)r;
    return group_of(c)->gradient_slots;
}

static bool when_adds_in_slot(const context *c, instr_resource r)
{
    return when_adds_to_gradients(c, r) && when_grad_slots(c, r);
}

static bool when_in_grad_slot(const context *c, instr_resource r)
{
    return when_grad_slots(c, r) && c->x->slot >= 0;
}

static bool when_not_in_grad_slot(const context *c, instr_resource r)
{
    return when_grad_slots(c, r) && c->x->slot < 0;
}

static bool when_full(const context *c, instr_resource r)
{
    (void)r;
    return c->x->full;
}

static bool when_shard(const context *c, instr_resource r)
{
    (void)r;
    return !c->x->full;
}

static bool when_post_forward(const context *c, instr_resource r)
{
    (void)r;
    return c->x->post_forward;
}

static bool when_writes_updated(const context *c, instr_resource r)
{
    (void)r;
    return c->x->what != PLAN_GRADIENTS;
}

static bool when_swapped(const context *c, instr_resource r)
{
    return is_swapped(c, r);
}

static bool when_unshards_swapped(const context *c, instr_resource r)
{
    return !c->x->post_forward && is_swapped(c, r);
}

static bool when_last(const context *c, instr_resource r)
{
    (void)r;
    return c->x->last;
}

static bool when_not_last(const context *c, instr_resource r)
{
    (void)r;
    return !c->x->last;
}

static bool when_last_of_tied(const context *c, instr_resource r)
{
    (void)r;
    return c->x->last && plan_bucket_is_tied(c->p, c->x->index);
}

static bool when_updated_in_slot(const context *c, instr_resource r)
{
    return plan_updates_in_slot(group_of(c), (plan_state)(r - RES_STATE_SLOT));
}

// fp32 weights are updated in place, so their old values are needed. 16-bit weights are rounded
// from the fp32 master weights.
static bool when_swapped_in(const context *c, instr_resource r)
{
    return when_updated_in_slot(c, r) && group_of(c)->o.compute == F32;
}

static bool when_only_swapped_out(const context *c, instr_resource r)
{
    return when_updated_in_slot(c, r) && group_of(c)->o.compute != F32;
}

static bool when_on_host(const context *c, instr_resource r)
{
    return (void)r, c->x->on_host;
}

static bool when_with_next(const context *c, instr_resource r)
{
    return (void)r, c->x->with_next;
}

static bool is_of_file(const context *c, plan_state what)
{
    return plan_is_swapped(group_of(c), what) && group_of(c)->o.tier[what] == TIER_FILE;
}

static bool when_moves_file(const context *c, instr_resource r)
{
    return (void)r, is_of_file(c, c->x->what);
}

static bool when_uses_file(const context *c, instr_resource r)
{
    (void)r;
    for (int k = 0; k < PLAN_STATES; k++)
        if (c->x->state[k] >= 0 && is_of_file(c, (plan_state)k)) return true;
    return false;
}

static bool when_low_rank(const context *c, instr_resource r)
{
    return (void)r, c->p->o.strategy.hook.kind == HOOK_POWERSGD;
}

static when_fn *const WHENS[INSTR_WHENS] = {
    [NEVER] = when_never,
    [ALWAYS] = when_always,
    [WHEN_HAS_BLOCK_BEFORE] = when_has_block_before,
    [WHEN_HAS_BLOCK_AFTER] = when_has_block_after,
    [WHEN_HAS_INPUT_GRAD] = when_has_input_grad,
    [WHEN_HAS_NO_BACKWARD] = when_has_no_backward,
    [WHEN_ENDS_BLOCK_BEFORE] = when_ends_block_before,
    [WHEN_TRAINING] = when_training,
    [WHEN_STAGE_READS_BATCHES] = when_stage_reads_batches,
    [WHEN_INPUT_IS_LOCAL] = when_input_is_local,
    [WHEN_OUTPUT_GRAD_IS_LOCAL] = when_output_grad_is_local,
    [WHEN_SENDS_INPUT_GRAD] = when_sends_input_grad,
    [WHEN_SPLIT_BACKWARD] = when_split_backward,
    [WHEN_FUSED_BACKWARD] = when_fused_backward,
    [WHEN_INPUT_GRAD_IN_PLACE] = when_input_grad_in_place,
    [WHEN_INPUT_GRAD_APART] = when_input_grad_apart,
    [WHEN_WEIGHT_SLOTS] = when_weight_slots,
    [WHEN_TRAINS] = when_trains,
    [WHEN_ADDS_TO_GRADIENTS] = when_adds_to_gradients,
    [WHEN_ADDS_IN_SLOT] = when_adds_in_slot,
    [WHEN_IN_GRAD_SLOT] = when_in_grad_slot,
    [WHEN_NOT_IN_GRAD_SLOT] = when_not_in_grad_slot,
    [WHEN_FULL] = when_full,
    [WHEN_SHARD] = when_shard,
    [WHEN_POST_FORWARD] = when_post_forward,
    [WHEN_UNSHARDS_SWAPPED] = when_unshards_swapped,
    [WHEN_WRITES_UPDATED] = when_writes_updated,
    [WHEN_LAST] = when_last,
    [WHEN_NOT_LAST] = when_not_last,
    [WHEN_LAST_OF_TIED] = when_last_of_tied,
    [WHEN_SWAPPED] = when_swapped,
    [WHEN_UPDATED_IN_SLOT] = when_updated_in_slot,
    [WHEN_SWAPPED_IN] = when_swapped_in,
    [WHEN_ONLY_SWAPPED_OUT] = when_only_swapped_out,
    [WHEN_WITH_NEXT] = when_with_next,
    [WHEN_MOVES_FILE] = when_moves_file,
    [WHEN_USES_FILE] = when_uses_file,
    [WHEN_LOW_RANK] = when_low_rank,
    [WHEN_ON_HOST] = when_on_host,
};

bool instr_when_holds(instr_when when, const schedule_instr *x)
{
    return WHENS[when](&(context){.x = x}, RES_ACT_SLOT);
}

const char *instr_needs_host(const plan *p, const schedule *s, const schedule_instr *x)
{
    const instr_row *row = instr_row_of(x->kind);
    const context c = {p, s, x, row->subject == ABOUT_BUCKET ? x->index : -1};
    for (int i = 0; i < INSTR_REASONS; i++)
        if (WHENS[row->host[i].when](&c, RES_BATCH)) return row->host[i].why;
    return NULL;
}

// ---- Owners and slots

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

// Passes are numbered block by block, so that those of one stage lie together.
static int pass_of(const plan *p, int micro, int block)
{
    return block * p->o.micros + micro;
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

static int own_owner(const context *c, instr_resource r)
{
    const schedule_instr *x = c->x;
    switch (instr_resource_row_of(r)->owner) {
    case OWNER_MICRO:
        return x->micro;
    case OWNER_BUCKET:
        return x->index;
    case OWNER_PASS:
        return pass_of(c->p, x->micro, x->index);
    default:
        return 0;
    }
}

// A slot number that the instruction has. It is not checked.
static int slot_of(const context *c, const instr_effect *f, instr_resource r)
{
    const schedule_instr *x = c->x;
    switch (f->where) {
    case IN_SLOT:
        return x->slot;
    case IN_WGRAD_SLOT:
        return x->wgrad_slot;
    case IN_GRAD_IN:
        return x->grad_in;
    case IN_GRAD_OUT:
        return x->grad_out;
    case IN_STATE:
        return x->state[r - RES_STATE_SLOT];
    case IN_RESULT:
    case IN_ANY_SLOT:
        break;
    }
    return -1;
}

// ---- Effects

// Visits the effect on the owner of `use`, or on a bucket, where it takes place.
static status visit_effect(const context *c, const instr_effect *f, instr_use *use,
                           instr_use_fn *visit, void *given, err *e)
{
    return WHENS[f->when](c, use->resource) ? visit(given, use, e) : OK;
}

static status visit_buckets(context *c, const instr_effect *f, instr_use *use, instr_use_fn *visit,
                            void *given, err *e)
{
    status result = OK;
    const bool all = f->whose == OF_ALL_BUCKETS;
    const plan_buckets l =
        all ? (plan_buckets){NULL, c->p->buckets} : plan_buckets_of(c->p, c->x->index);
    for (int i = 0; i < l.count; i++) {
        use->owner = c->bucket = all ? i : l.items[i];
        TRY(visit_effect(c, f, use, visit, given, e));
    }
done:
    return result;
}

static status visit_micros(const context *c, const instr_effect *f, instr_use *use,
                           instr_use_fn *visit, void *given, err *e)
{
    status result = OK;
    for (int i = 0; i < c->p->o.micros; i++) {
        use->owner = i;
        TRY(visit_effect(c, f, use, visit, given, e));
    }
done:
    return result;
}

static status use_effect(context *c, const instr_effect *f, instr_use_fn *visit, void *given,
                         err *e)
{
    const plan *p = c->p;
    const schedule_instr *x = c->x;
    const bool named = f->resource == RES_STATE_SLOT && f->where == IN_SLOT,
               about_bucket = instr_row_of(x->kind)->subject == ABOUT_BUCKET;
    instr_use use = {.access = f->access,
                     .resource = f->resource + (named ? (instr_resource)x->what : 0),
                     .any_slot = f->where == IN_ANY_SLOT};
    use.slot = slot_of(c, f, use.resource);
    if (instr_resource_row_of(use.resource)->by_chunk)
        use.group = plan_chunk_of(p, x->index) / stages_of(p);
    if (f->whose == OF_ITS_BUCKETS || f->whose == OF_ALL_BUCKETS)
        return visit_buckets(c, f, &use, visit, given, e);
    if (f->whose == OF_ALL_MICROS) return visit_micros(c, f, &use, visit, given, e);
    c->bucket = about_bucket ? x->index : -1;
    use.owner = own_owner(c, use.resource);
    if (f->whose == OF_BLOCK_BEFORE) use.owner = pass_of(p, x->micro, x->index - 1);
    if (f->whose == OF_BLOCK_AFTER) use.owner = pass_of(p, x->micro, x->index + 1);
    return visit_effect(c, f, &use, visit, given, e);
}

status instr_each_use(const plan *p, const schedule *s, const schedule_instr *x,
                      instr_use_fn *visit, void *given, err *e)
{
    status result = OK;
    context c = {p, s, x, -1};
    for (const instr_effect *f = instr_row_of(x->kind)->effect; f->access != ACCESS_END; f++)
        TRY(use_effect(&c, f, visit, given, e));
done:
    return result;
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
