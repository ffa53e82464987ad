// matrix.c -- the table of matrix.h: dimensions, values, legal points, references. The equivalence
// tests call it. It does not know how a point is run.
#include "equiv/matrix_pair.h"

#include <stdio.h>
#include <string.h>

enum { MOST_VALUES = 11, LAYERS = 6 };

static const struct {
    const char *name, *value[MOST_VALUES];
} DIM[DIMS] = {
    [DIM_MODEL] = {"model", {"gpt2", "llama", "llama_tied"}},
    [DIM_REPLICATE] = {"replicate", {"1", "2", "3", "4", "5", "6", "7", "8"}},
    [DIM_SHARD] = {"shard", {"1", "2", "3", "4", "5", "6", "7", "8"}},
    [DIM_PP] = {"pp", {"1", "2", "4", "3"}},
    [DIM_CP] = {"cp", {"1", "2", "4", "3"}},
    [DIM_TP] = {"tp", {"1", "2", "2sp", "4"}}, // 4: more than the llamas have key-value heads
    [DIM_OUTER] = {"outer", {"ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"}},
    [DIM_INNER] = {"inner", {"ddp", "zero1", "zero2", "zero3", "fsdp_no_sync"}},
    [DIM_SCHEDULE] = {"schedule", {"1f1b", "gpipe", "interleaved", "zb"}},
    [DIM_MICROS] = {"micros", {"4", "1", "3", "8"}},
    [DIM_NO_SYNC] = {"no_sync", {"true", "false"}},
    [DIM_RESHARD] = {"reshard", {"1", "0", "2"}},
    [DIM_RECOMPUTE] = {"recompute", {"none", "selective", "full"}},
    [DIM_TIER] = {"file",
                  {"-", "o", "og", "ogw", "g", "w", "og_host", "ogw_host_apart",
                   "ogw_host_apart_update", "og_host_apart_update", "ogw_file_apart"}},
    [DIM_PRECISION] = {"precision", {"fp32", "bf16", "fp16"}},
    [DIM_GROUPS] = {"groups",
                    {"one", "frozen", "settings", "mlp_ddp", "mlp_zero3", "optimizers", "types",
                     "lora"}},
    [DIM_SPLIT] = {"split", {"even", "3_1", "1_2_1"}},
};

static const struct {
    int ranks, of[3];
} SPLITS[] = {{0, {0}}, {2, {3, 1}}, {3, {1, 2, 1}}};

// How many data-parallel ranks the split of a point is for; 0: for any number.
static int split_ranks(const point *p)
{
    return SPLITS[p->v[DIM_SPLIT]].ranks;
}

int64_t matrix_length(const point *p)
{
    // Context-parallel ranks have two chunks of a sequence each.
    return p->v[DIM_CP] == 3 ? 12 : 8;
}

const char *matrix_dim(dim d)
{
    return DIM[d].name;
}

int matrix_values(dim d)
{
    int n = 0;
    while (n < MOST_VALUES && DIM[d].value[n]) n++;
    return n;
}

const char *matrix_value(dim d, int v)
{
    return DIM[d].value[v];
}

void matrix_print(const point *p, char out[MATRIX_NAME])
{
    int length = 0;
    for (int d = 0; d < DIMS; d++)
        length += snprintf(out + length, (size_t)(MATRIX_NAME - length), "%s%s=%s", d ? "," : "",
                           DIM[d].name, DIM[d].value[p->v[d]]);
}

static bool parse_one(const char *from, size_t bytes, point *out)
{
    for (int d = 0; d < DIMS; d++)
        for (int v = 0; v < matrix_values((dim)d); v++) {
            char name[64];
            const int n = snprintf(name, sizeof name, "%s=%s", DIM[d].name, DIM[d].value[v]);
            if ((size_t)n != bytes || strncmp(name, from, bytes) != 0) continue;
            out->v[d] = v;
            return true;
        }
    return false;
}

bool matrix_parse(const char *name, point *out)
{
    *out = (point){{0}};
    while (*name) {
        const size_t bytes = strcspn(name, ",");
        if (!parse_one(name, bytes, out)) return false;
        name += bytes + (name[bytes] == ',');
    }
    return true;
}

int matrix_ranks(const point *p)
{
    trainer_options o;
    matrix_options(p, &o);
    return o.mesh.ranks;
}

// ---- The trainer's options of a point

static const int MICROS[] = {4, 1, 3, 8};

static void set_tiers(const point *p, memory_tier out[PLAN_STATES])
{
    const char *word = DIM[DIM_TIER].value[p->v[DIM_TIER]];
    const memory_tier away = strstr(word, "host") ? TIER_HOST : TIER_FILE;
    const size_t letters = strcspn(word, "_");
    out[PLAN_WEIGHTS] = memchr(word, 'w', letters) ? away : TIER_DEVICE;
    out[PLAN_GRADIENTS] = memchr(word, 'g', letters) ? away : TIER_DEVICE;
    out[PLAN_OPTIMIZER_STATE] = memchr(word, 'o', letters) ? away : TIER_DEVICE;
}

void matrix_options(const point *p, trainer_options *o)
{
    static const int pp[] = {1, 2, 4, 3}, cp[] = {1, 2, 4, 3}, tp[] = {1, 2, 2, 4},
                     reshard[] = {1, 0, 2};
    static const dtype precision[] = {F32, BF16, F16};
    static const pipeline_schedule order[] = {PIPE_1F1B, PIPE_GPIPE, PIPE_INTERLEAVED, PIPE_ZB};
    const pipeline_schedule how = order[p->v[DIM_SCHEDULE]];
    const int replicate = p->v[DIM_REPLICATE] + 1, shard = p->v[DIM_SHARD] + 1;
    *o = (trainer_options){
        .strategy = {.dp = {*policy_row((size_t)p->v[DIM_OUTER]),
                            *policy_row((size_t)p->v[DIM_INNER])},
                     .no_sync = p->v[DIM_NO_SYNC] == 0 ? NO_SYNC_TRUE : NO_SYNC_FALSE,
                     .reshard_after_forward = reshard[p->v[DIM_RESHARD]],
                     .sequence_parallel = p->v[DIM_TP] == 2,
                     .pipeline = {.schedule = how,
                                  .virtual_stages = how == PIPE_INTERLEAVED ? 2 : 1},
                     .recompute = (recompute_mode)p->v[DIM_RECOMPUTE]},
        .precision = precision[p->v[DIM_PRECISION]],
        .micro_batch = 1,
        .global_batch = (int64_t)replicate * shard * MICROS[p->v[DIM_MICROS]]};
    set_tiers(p, o->strategy.offload.tier);
    const char *const word = DIM[DIM_TIER].value[p->v[DIM_TIER]];
    o->strategy.offload.host_is_apart = strstr(word, "apart");
    o->strategy.offload.updates_on_host = strstr(word, "update");
    for (int a = 0; a < AXES; a++) o->mesh.size[a] = 1;
    o->mesh.size[AXIS_DP_REPLICATE] = replicate;
    o->mesh.size[AXIS_DP_SHARD] = shard;
    o->mesh.size[AXIS_PP] = pp[p->v[DIM_PP]];
    o->mesh.size[AXIS_CP] = cp[p->v[DIM_CP]];
    o->mesh.size[AXIS_TP] = tp[p->v[DIM_TP]];
    o->mesh.ranks = 1;
    for (int a = 0; a < AXES; a++) o->mesh.ranks *= o->mesh.size[a];
    if (split_ranks(p) != replicate * shard) return;
    o->batch_split = SPLITS[p->v[DIM_SPLIT]].of;
    const batch_split s = trainer_split(o);
    o->micro_batch = batch_split_of(&s, batch_split_largest(&s));
    o->global_batch = batch_split_before(&s, s.ranks) * MICROS[p->v[DIM_MICROS]];
}

// ---- Parameter groups

enum {
    GROUPS_ONE,
    GROUPS_FROZEN,
    GROUPS_SETTINGS,
    GROUPS_MLP_DDP,
    GROUPS_MLP_ZERO3,
    GROUPS_OPTIMIZERS,
    GROUPS_TYPES,
    GROUPS_LORA // adapters of all linear layers
};

const model_lora *matrix_lora(const point *p)
{
    static char all[] = "all-linear";
    static char *targets[] = {all};
    static const model_lora lora = {
        .rank = 2, .alpha = 6, .dropout = 0.1, .targets = targets, .target_count = 1};
    return p->v[DIM_GROUPS] == GROUPS_LORA ? &lora : NULL;
}

// The policy that the weights of the MLPs have over dp_shard and cp; NULL: that of all others.
static const char *policy_of_mlps(const point *p)
{
    const int groups = p->v[DIM_GROUPS];
    return groups == GROUPS_MLP_DDP ? "ddp" : groups == GROUPS_MLP_ZERO3 ? "zero3" : NULL;
}

param_groups matrix_groups(const point *p, const trainer_options *o, param_group out[MATRIX_GROUPS])
{
    // The embeddings, also where the head uses them, and the first three layers.
    static const char *const frozen[] = {"*.wte.*", "*.wpe.*", "*.embed_tokens.*",
                                         "*.0.*",   "*.1.*",   "*.2.*"};
    param_group base = {.dp = o->strategy.dp,
                        .over = POLICY_AXES,
                        .precision = o->precision,
                        .optimizer = o->optimizer,
                        .lr_scale = 1};
    int count = 0;
    memcpy(base.tier, o->strategy.offload.tier, sizeof base.tier);
    if (p->v[DIM_GROUPS] == GROUPS_FROZEN)
        for (size_t i = 0; i < sizeof frozen / sizeof *frozen; i++) {
            out[count] = base;
            out[count].match = frozen[i];
            out[count++].frozen = true;
        }
    if (p->v[DIM_GROUPS] == GROUPS_SETTINGS) {
        out[count] = base;
        out[count].match = "*.mlp.*";
        out[count].optimizer.weight_decay = 0;
        out[count++].lr_scale = 2;
        out[count] = base;
        out[count].match = "*.4.*";
        out[count++].optimizer.beta1 = 0.5;
    }
    if (p->v[DIM_GROUPS] == GROUPS_OPTIMIZERS) {
        out[count] = base;
        out[count].match = "*.mlp.*";
        out[count].optimizer.rule = UPDATE_SGD;
        out[count++].optimizer.beta1 = 0.9;
        out[count] = base;
        out[count].match = "*.wte.*";
        out[count++].optimizer.rule = UPDATE_LION;
    }
    if (p->v[DIM_GROUPS] == GROUPS_TYPES) {
        out[count] = base;
        out[count].match = "*.mlp.*";
        out[count++].precision = o->precision == F32 ? BF16 : F32;
    }
    if (matrix_lora(p)) {
        out[count] = base;
        out[count].match = "*";
        out[count].trains = model_lora_trains, out[count].trains_arg = matrix_lora(p);
        out[count].of_base = true;
        out[count++].frozen = true;
    }
    if (policy_of_mlps(p)) {
        out[count] = base;
        out[count].match = "*.mlp.*";
        out[count++].dp.inner = *policy_find(policy_of_mlps(p));
    }
    if (count > 0) out[count++] = base;
    return (param_groups){.items = out, .count = count};
}

// ---- The legal points

// Returns whether the plan accepts a model with the same blocks and very few parameters.
static bool plan_allows(const point *p, const trainer_options *o)
{
    enum { BLOCKS = LAYERS + 2 };
    plan *made = NULL;
    plan_param row[BLOCKS];
    double cost[BLOCKS];
    plan_use use[BLOCKS];
    for (int b = 0; b < BLOCKS; b++) {
        row[b] = (plan_param){.name = "", .rows = 8, .cols = 1};
        cost[b] = 1;
        use[b] = (plan_use){.param = b, .block = b};
    }
    param_group own[MATRIX_GROUPS];
    plan_group_options group[MATRIX_GROUPS] = {{.dp = o->strategy.dp,
                                                .over = POLICY_AXES,
                                                .compute = o->precision,
                                                .has_m = true,
                                                .has_v = true}};
    memcpy(group[0].tier, o->strategy.offload.tier, sizeof group[0].tier);
    const param_groups groups = matrix_groups(p, o, own);
    for (int b = BLOCKS / 2; groups.count > 0 && b < BLOCKS; b++) row[b].group = groups.count - 1;
    for (int i = groups.count - 1; i >= 0; i--) {
        group[i] = group[0];
        group[i].dp = own[i].dp;
        group[i].frozen = own[i].frozen;
    }
    plan_options options = {.mesh = o->mesh,
                            .strategy = o->strategy,
                            .group = group,
                            .groups = groups.count > 0 ? groups.count : 1,
                            .micros = MICROS[p->v[DIM_MICROS]],
                            .cost = cost,
                            .blocks = BLOCKS,
                            .use = use,
                            .uses = BLOCKS};
    options.strategy.bucket_bytes = 64;
    const strategy_pipeline *const pipeline = &o->strategy.pipeline;
    pipeline_list list = {NULL, 0};
    bool allowed = plan_make(&options, row, BLOCKS, &made, NULL) == OK &&
                   pipeline_make(pipeline->schedule, o->mesh.size[AXIS_PP],
                                 pipeline->virtual_stages, options.micros, 0, &list, NULL) == OK;
    pipeline_list_clear(&list);
    plan_free(made);
    return allowed;
}

// Returns whether the process group of the inner policy, dp_shard and cp, has several ranks.
static bool has_inner_ranks(const point *p)
{
    return p->v[DIM_SHARD] > 0 || p->v[DIM_CP] > 0;
}

static bool keeps_parts_of_weights(const point *p)
{
    return (p->v[DIM_REPLICATE] > 0 && policy_row((size_t)p->v[DIM_OUTER])->weight == SHARD) ||
           (has_inner_ranks(p) && policy_row((size_t)p->v[DIM_INNER])->weight == SHARD) ||
           p->v[DIM_GROUPS] == GROUPS_MLP_ZERO3;
}

static bool is_legal(const point *p, bool apart)
{
    trainer_options o;
    matrix_options(p, &o);
    o.strategy.offload.host_is_apart = o.strategy.offload.host_is_apart || apart;
    if (o.mesh.ranks > MATRIX_RANKS) return false;
    if (split_ranks(p) > 0 && !o.batch_split) return false;
    if (p->v[DIM_REPLICATE] == 0 && p->v[DIM_OUTER] > 0) return false;
    if (!has_inner_ranks(p) && p->v[DIM_INNER] > 0) return false;
    const policy *mlps = policy_of_mlps(p) ? policy_find(policy_of_mlps(p)) : NULL;
    if (mlps && (!has_inner_ranks(p) || mlps == policy_row((size_t)p->v[DIM_INNER]))) return false;
    if (p->v[DIM_PP] == 0 && p->v[DIM_SCHEDULE] > 0) return false;
    if (MICROS[p->v[DIM_MICROS]] == 1 && p->v[DIM_NO_SYNC] > 0) return false;
    // Only the tiers that are swapped have weights away from the device.
    const bool gathers =
        keeps_parts_of_weights(p) || o.strategy.offload.tier[PLAN_WEIGHTS] != TIER_DEVICE;
    if (!gathers && p->v[DIM_RESHARD] > 0) return false;
    return plan_allows(p, &o);
}

bool matrix_legal(const point *p)
{
    return is_legal(p, false);
}

bool matrix_legal_apart(const point *p)
{
    return is_legal(p, true);
}

// ---- References and tolerances

nearness matrix_nearness(const point *p)
{
    // Where gradients are reduced in each micro-batch, the ranks are summed before the micro-batches. The
    // reference does the reverse.
    const point r = matrix_reference(p);
    return pair_must_equal(p, &r) ? MATRIX_EXACT : MATRIX_CLOSE;
}

// A tiny difference of fp32 master weights can change a 16-bit weight by a unit in the last place. Over
// eight micro-batches that changes a gradient norm by up to 1 %.
double matrix_tolerance(const point *p)
{
    return p->v[DIM_PRECISION] == 0 && p->v[DIM_GROUPS] != GROUPS_TYPES ? 1e-5 : 2e-3;
}

point matrix_reference(const point *p)
{
    point r = {{0}};
    const dim kept[] = {DIM_MODEL, DIM_CP, DIM_TP, DIM_MICROS, DIM_PRECISION, DIM_SPLIT};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) r.v[kept[i]] = p->v[kept[i]];
    if (!policy_of_mlps(p)) r.v[DIM_GROUPS] = p->v[DIM_GROUPS];
    r.v[DIM_REPLICATE] = (p->v[DIM_REPLICATE] + 1) * (p->v[DIM_SHARD] + 1) - 1;
    return r;
}

point matrix_one_rank(const point *p, int64_t *micro_batch)
{
    trainer_options o;
    matrix_options(p, &o);
    *micro_batch = o.global_batch;
    point one = {{0}};
    one.v[DIM_MODEL] = p->v[DIM_MODEL];
    one.v[DIM_PRECISION] = p->v[DIM_PRECISION];
    if (!policy_of_mlps(p)) one.v[DIM_GROUPS] = p->v[DIM_GROUPS];
    one.v[DIM_MICROS] = 1; // the value number of one micro-batch
    return one;
}
