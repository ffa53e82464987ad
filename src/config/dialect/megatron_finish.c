// megatron_finish.c -- what several of Megatron-LM's arguments decide together: ranks, batch, schedule, strategy, data,
// checkpoints. The reader of dialects calls it after the table. See megatron.h.
#include "config/dialect/megatron.h"

#include "base/size.h"

#include <math.h>
#include <string.h>
#include <strings.h>

status megatron_convert_bucket(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                               text *out, err *e)
{
    int64_t parameters = 0;
    (void)r, (void)row;
    if (!text_to_count(n->scalar, &parameters) || parameters > INT64_MAX / 4)
        parameters = INT64_MAX / 4;
    text_addf(out, "%lld", (long long)parameters * 4);
    return text_check(out, e);
}

status megatron_convert_minutes(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                                text *out, err *e)
{
    (void)r, (void)row;
    text_addf(out, "%sm", n->scalar);
    return text_check(out, e);
}

status megatron_convert_offload(const dialect_reader *r, const dialect_row *row, const yaml_node *n,
                                text *out, err *e)
{
    bool on = false;
    (void)r, (void)row;
    text_to_bool(n->scalar, &on);
    text_add(out, on ? "host" : "device");
    return text_check(out, e);
}

static int64_t count_or(const dialect_reader *r, const char *theirs, int64_t otherwise)
{
    int64_t n;
    return dialect_count(r, theirs, &n) ? n : otherwise;
}

// Refuses an argument for another one, which the line spells as an option.
static status refuse_with(const dialect_reader *r, const char *theirs, const char *found,
                          const char *other, const char *then, err *e)
{
    text line = {0};
    text_add(&line, found);
    dialect_add_option(other, &line);
    text_add(&line, then);
    status result = text_check(&line, e);
    if (result == OK) result = dialect_refuse(r, theirs, e, "%s", line.chars);
    text_clear(&line);
    return result;
}

// ---- ranks and batch ----

// The ranks that the launcher starts; 0: it does not say.
static int64_t launched_ranks(const dialect_reader *r)
{
    int64_t each = 0;
    const bool deepspeed = dialect_value(r, "launcher.num_gpus") != NULL;
    const char *per_host = deepspeed ? "launcher.num_gpus" : "launcher.nproc_per_node";
    const char *hosts = deepspeed ? "launcher.num_nodes" : "launcher.nnodes";
    if (!dialect_count(r, per_host, &each) || each < 1 || each > INT32_MAX) return 0;
    const int64_t all = dialect_value(r, hosts) ? count_or(r, hosts, 0) : 1;
    return all > 0 && all < INT32_MAX ? each * all : 0;
}

// The sequences of a step; 0: not known.
static int64_t batch_of(const dialect_reader *r)
{
    const int64_t given = count_or(r, "global_batch_size", 0), ranks = launched_ranks(r);
    const int64_t micro = count_or(r, "micro_batch_size", 0);
    int64_t model = 1;
    static const char *const AXES_OF[] = {"tensor_model_parallel_size",
                                          "pipeline_model_parallel_size", "context_parallel_size"};
    if (given > 0) return given;
    for (int i = 0; i < 3; i++) {
        const int64_t size = count_or(r, AXES_OF[i], 1);
        if (size < 1 || size > INT32_MAX || model > INT32_MAX) return 0;
        model *= size;
    }
    if (micro < 1 || ranks % model != 0) return 0;
    const uint64_t batch = size_mul((uint64_t)(ranks / model), (uint64_t)micro);
    return size_fits(batch) ? (int64_t)batch : 0;
}

static status finish_batch(const dialect_reader *r, err *e)
{
    status result = OK;
    const int64_t ranks = launched_ranks(r), batch = batch_of(r);
    const int64_t samples = count_or(r, "train_samples", 0);
    if (ranks)
        TRY(dialect_set_count(r, "launch.ranks", ranks,
                              dialect_value(r, "launcher.num_gpus") ? "launcher.num_gpus"
                                                                    : "launcher.nproc_per_node",
                              NULL, e));
    if (!dialect_value(r, "global_batch_size") && dialect_value(r, "micro_batch_size"))
        TRY(dialect_set(r, "train.accumulation", "1", "global_batch_size", NULL, e));
    if (samples && dialect_value(r, "train_iters"))
        return dialect_refuse(r, "train_samples", e,
                              "found it beside --train-iters; valid: one of them");
    if (!samples) return OK;
    if (!batch)
        return dialect_refuse(r, "train_samples", e,
                              "found %lld without --global-batch-size; valid: with it",
                              (long long)samples);
    if (samples < batch)
        return dialect_refuse(r, "train_samples", e, "found %lld; valid: a step of %lld or more",
                              (long long)samples, (long long)batch);
    TRY(dialect_set_count(r, "train.steps", samples / batch, "train_samples",
                          "divided by the global batch", e));
done:
    return result;
}

// ---- optimizer and schedule ----

// Reads a length that is given in steps or in samples, in steps. *theirs is the argument that gives it; NULL: neither.
static status length_of(const dialect_reader *r, const char *iters, const char *samples,
                        double *out, const char **theirs, err *e)
{
    double n = 0;
    const int64_t batch = batch_of(r);
    const bool by_samples = dialect_value(r, "train_samples") != NULL;
    const char *wrong = by_samples ? iters : samples;
    *theirs = by_samples ? samples : iters;
    if (dialect_value(r, wrong) && dialect_number(r, wrong, &n) && n != 0)
        return refuse_with(r, wrong,
                           by_samples ? "found it with --train-samples; valid: "
                                      : "found it with --train-iters; valid: ",
                           *theirs, "", e);
    if (!dialect_value(r, *theirs)) {
        *theirs = NULL;
        return OK;
    }
    dialect_number(r, *theirs, out);
    if (by_samples && batch) *out /= (double)batch;
    return OK;
}

static status set_warmup(const dialect_reader *r, double decay, err *e)
{
    status result = OK;
    double warmup = 0, fraction = 0;
    const char *theirs;
    TRY(length_of(r, "lr_warmup_iters", "lr_warmup_samples", &warmup, &theirs, e));
    if (dialect_number(r, "lr_warmup_fraction", &fraction)) {
        if (warmup != 0)
            return refuse_with(r, "lr_warmup_fraction", "found it beside ", theirs,
                               "; valid: one of them", e);
        if (decay <= 0)
            return dialect_refuse(r, "lr_warmup_fraction", e,
                                  "found it without --train-iters or --lr-decay-iters");
        theirs = "lr_warmup_fraction";
        warmup = fraction * decay;
    }
    if (decay > 0 && warmup >= decay)
        return dialect_refuse(r, theirs ? theirs : "lr_warmup_iters", e,
                              "found a warm-up of %g steps, and the decay ends at step %g; valid: "
                              "fewer",
                              warmup, decay);
    TRY(dialect_set_number(r, "lr_schedule.lr_warmup_steps", warmup,
                           theirs ? theirs : "lr_warmup_iters", NULL, e));
done:
    return result;
}

static status finish_schedule(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *theirs, *style = dialect_text(r, "lr_decay_style");
    double decay = 0, wsd = 0, low = 0, first = 0;
    const int64_t batch = batch_of(r);
    if (!dialect_value(r, "lr")) return OK;
    TRY(dialect_set(r, "lr_schedule.name", "OptimizerParamScheduler", "lr_decay_style", NULL, e));
    TRY(dialect_set(r, "lr_schedule.lr_decay_style", style, "lr_decay_style", NULL, e));
    TRY(length_of(r, "lr_decay_iters", "lr_decay_samples", &decay, &theirs, e));
    if (!theirs && dialect_value(r, "train_samples") && batch) {
        theirs = "train_samples";
        decay = (double)count_or(r, theirs, 0) / (double)batch;
    }
    if (theirs)
        TRY(dialect_set_number(r, "lr_schedule.lr_decay_steps", decay, theirs, NULL, e));
    else
        decay = (double)count_or(r, "train_iters", 0);
    TRY(set_warmup(r, decay, e));
    dialect_number(r, "min_lr", &low);
    dialect_number(r, "lr_warmup_init", &first);
    TRY(dialect_set_number(r, "lr_schedule.min_lr", low, "min_lr", NULL, e));
    TRY(dialect_set_number(r, "lr_schedule.init_lr", first, "lr_warmup_init", NULL, e));
    if (strcmp(style, "WSD") != 0) return OK;
    TRY(length_of(r, "lr_wsd_decay_iters", "lr_wsd_decay_samples", &wsd, &theirs, e));
    if (!theirs)
        return dialect_refuse(r, "lr_decay_style", e,
                              "found WSD; it needs --lr-wsd-decay-iters or --lr-wsd-decay-samples");
    TRY(dialect_set_number(r, "lr_schedule.wsd_decay_steps", wsd, theirs, NULL, e));
    TRY(dialect_set(r, "lr_schedule.lr_wsd_decay_style", dialect_text(r, "lr_wsd_decay_style"),
                    "lr_wsd_decay_style", NULL, e));
done:
    return result;
}

static status set_betas(const dialect_reader *r, const char *first, const char *second, err *e)
{
    double a = 0, b = 0;
    text s = {0};
    dialect_number(r, first, &a);
    dialect_number(r, second, &b);
    text_add(&s, "[");
    text_add_number(&s, a);
    text_add(&s, ", ");
    text_add_number(&s, b);
    text_add(&s, "]");
    status result = text_check(&s, e);
    if (result == OK)
        result = dialect_set(r, "optimizer.betas", s.chars,
                             dialect_value(r, second) ? second : first, NULL, e);
    text_clear(&s);
    return result;
}

static status finish_optimizer(const dialect_reader *r, err *e)
{
    status result = OK;
    double number = 0, start = 0, end = 0;
    const char *name = dialect_text(r, "optimizer");
    if (strcmp(name, "adam") == 0) {
        dialect_number(r, "adam_eps", &number);
        TRY(dialect_set_number(r, "optimizer.eps", number, "adam_eps", NULL, e));
        TRY(set_betas(r, "adam_beta1", "adam_beta2", e));
    } else if (strcmp(name, "lion") == 0) {
        TRY(set_betas(r, "lion_beta1", "lion_beta2", e));
    } else {
        dialect_number(r, "sgd_momentum", &number);
        TRY(dialect_set_number(r, "optimizer.momentum", number, "sgd_momentum", NULL, e));
    }
    TRY(dialect_set(r, "optimizer.decay", "matrices", "weight_decay", NULL, e));
    if (dialect_number(r, "start_weight_decay", &start) &&
        dialect_number(r, "end_weight_decay", &end) && start != end)
        return dialect_refuse(r, "end_weight_decay", e,
                              "found %g after %g; weight decay is the same in all steps", end,
                              start);
    if (dialect_is_on(r, "optimizer_cpu_offload"))
        TRY(dialect_set(r, "parallel.offload.update", "host", "optimizer_cpu_offload", NULL, e));
done:
    return result;
}

static status finish_scaler(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const COUNTS[][2] = {
        {"loss_scale_window", "train.fp16.loss_scale_window"},
        {"hysteresis", "train.fp16.hysteresis"},
        {"min_loss_scale", "train.fp16.min_loss_scale"},
    };
    double scale = 0;
    int power;
    dialect_number(r, "initial_loss_scale", &scale);
    if (!(scale >= 1) || frexp(scale, &power) != 0.5)
        return dialect_refuse(r, "initial_loss_scale", e, "found %g; valid: a power of 2", scale);
    TRY(dialect_set_count(r, "train.fp16.initial_scale_power", power - 1, "initial_loss_scale",
                          NULL, e));
    for (int i = 0; i < 3; i++) {
        dialect_number(r, COUNTS[i][0], &scale);
        TRY(dialect_set_number(r, COUNTS[i][1], scale, COUNTS[i][0], NULL, e));
    }
done:
    return result;
}

static status finish_precision(const dialect_reader *r, err *e)
{
    status result = OK;
    const bool fp16 = dialect_is_on(r, "fp16"), bf16 = dialect_is_on(r, "bf16");
    if (fp16 && bf16)
        return dialect_refuse(r, "fp16", e, "found it beside --bf16; valid: one of them");
    TRY(dialect_set(r, "train.precision",
                    fp16   ? "fp16"
                    : bf16 ? "bf16"
                           : "fp32",
                    fp16 ? "fp16" : "bf16", NULL, e));
    if (dialect_is_on(r, "grad_reduce_in_bf16"))
        TRY(dialect_set(r, "train.reduce_dtype", "bf16", "grad_reduce_in_bf16", NULL, e));
    else if (fp16 && !dialect_is_on(r, "accumulate_allreduce_grads_in_fp32"))
        TRY(dialect_set(r, "train.reduce_dtype", "fp16", "accumulate_allreduce_grads_in_fp32",
                        "a rank sums its micro-batches in fp32 all the same", e));
    else
        TRY(dialect_set(r, "train.reduce_dtype", "fp32", "accumulate_allreduce_grads_in_fp32", NULL,
                        e));
    if (fp16) TRY(finish_scaler(r, e));
done:
    return result;
}

// ---- strategy ----

static status finish_sharding(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const SHARDING[][2] = {{"no_shard", "ddp"},
                                              {"optim", "zero1"},
                                              {"optim_grads", "zero2"},
                                              {"optim_grads_params", "zero3"}};
    const char *theirs = "use_distributed_optimizer", *dp = "ddp";
    const int64_t copies = count_or(r, "num_distributed_optimizer_instances", 1);
    if (dialect_is_on(r, theirs)) dp = "zero1";
    if (dialect_is_on(r, "use_torch_fsdp2")) theirs = "use_torch_fsdp2", dp = "zero3";
    if (dialect_is_on(r, "use_megatron_fsdp") || dialect_is_on(r, "use_custom_fsdp")) {
        theirs = "data_parallel_sharding_strategy";
        for (int i = 0; i < 4; i++)
            if (strcasecmp(dialect_text(r, theirs), SHARDING[i][0]) == 0) dp = SHARDING[i][1];
    } else if (dialect_value(r, "data_parallel_sharding_strategy")) {
        TRY(dialect_remark_on(r, "data_parallel_sharding_strategy", false, e,
                              "Megatron-LM reads it with --use-megatron-fsdp alone"));
    }
    TRY(dialect_set(r, "parallel.dp", dp, theirs, NULL, e));
    if (copies > 1 && strcmp(dp, "ddp") != 0)
        TRY(dialect_set_count(r, "parallel.dp_replicate", copies,
                              "num_distributed_optimizer_instances", NULL, e));
    if (dialect_is_on(r, "torch_fsdp2_no_reshard_after_forward") && strcmp(dp, "zero3") == 0)
        TRY(dialect_set(r, "parallel.reshard_after_forward", "false",
                        "torch_fsdp2_no_reshard_after_forward", NULL, e));
    if (dialect_is_on(r, "sequence_parallel") && count_or(r, "tensor_model_parallel_size", 1) > 1)
        TRY(dialect_set(r, "parallel.sequence_parallel", "true", "sequence_parallel", NULL, e));
done:
    return result;
}

// The layers of each stage, where the first or the last has others.
static status set_split(const dialect_reader *r, int64_t layers, int64_t stages, err *e)
{
    static const char first[] = "decoder_first_pipeline_num_layers",
                      last[] = "decoder_last_pipeline_num_layers";
    const bool has_first = dialect_value(r, first), has_last = dialect_value(r, last);
    const int64_t others = stages - has_first - has_last;
    const int64_t of_first = count_or(r, first, 0), of_last = count_or(r, last, 0);
    // -1: the two have more than all layers.
    const int64_t left =
        of_first <= layers && of_last <= layers - of_first ? layers - of_first - of_last : -1;
    text s = {0};
    if (!has_first && !has_last) return OK;
    if (others < 0 || left < 0 || stages > 4096 || (others ? left % others : left) != 0)
        return dialect_refuse(r, has_first ? first : last, e,
                              "found stages whose layers do not add up to the %lld of the model",
                              (long long)layers);
    for (int64_t i = 0; i < stages; i++) {
        const int64_t n = i == 0 && has_first           ? of_first
                          : i == stages - 1 && has_last ? of_last
                                                        : left / others;
        text_addf(&s, "%s%lld", i ? ", " : "[", (long long)n);
    }
    text_add(&s, "]");
    status result = text_check(&s, e);
    if (result == OK)
        result = dialect_set(r, "parallel.split", s.chars, has_first ? first : last, NULL, e);
    text_clear(&s);
    return result;
}

static status finish_pipeline(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char each[] = "num_layers_per_virtual_pipeline_stage",
                      chunks[] = "num_virtual_stages_per_pipeline_rank";
    const int64_t layers = count_or(r, "num_layers", 0);
    const int64_t stages = count_or(r, "pipeline_model_parallel_size", 1);
    const int64_t per_chunk = count_or(r, each, 0);
    int64_t virtual_stages = count_or(r, chunks, 1);
    if (per_chunk && dialect_value(r, chunks))
        return refuse_with(r, each, "found it beside ", chunks, "; valid: one of them", e);
    if (stages < 2) return OK;
    if (per_chunk) {
        if (layers % stages != 0 || layers / stages % per_chunk != 0)
            return dialect_refuse(r, each, e,
                                  "found %lld; valid: a divisor of the %lld layers of a stage",
                                  (long long)per_chunk, (long long)(layers / stages));
        virtual_stages = layers / stages / per_chunk;
    }
    if (virtual_stages > 1) {
        TRY(dialect_set_count(r, "parallel.virtual_stages", virtual_stages,
                              per_chunk ? each : chunks, NULL, e));
        TRY(dialect_set(r, "parallel.pp_schedule", "interleaved", per_chunk ? each : chunks, NULL,
                        e));
        return OK;
    }
    TRY(set_split(r, layers, stages, e));
done:
    return result;
}

static status finish_recompute(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *theirs = "recompute_granularity", *ours = dialect_text(r, theirs);
    const char *method = dialect_text(r, "recompute_method");
    if (dialect_is_on(r, "recompute_activations"))
        theirs = "recompute_activations", ours = "selective";
    if (dialect_is_on(r, "checkpoint_activations"))
        theirs = "checkpoint_activations", ours = "full";
    if (dialect_value(r, "activations_checkpoint_method"))
        theirs = "activations_checkpoint_method", ours = "full";
    if (!ours) return OK;
    TRY(dialect_set(r, "parallel.recompute", ours, theirs, NULL, e));
    if (strcmp(ours, "full") == 0 && method &&
        (strcmp(method, "block") == 0 || count_or(r, "recompute_num_layers", 1) > 1))
        TRY(dialect_remark_on(r, "recompute_num_layers", true, e,
                              "every block is recomputed, and the input of each is kept: the same "
                              "results with other memory and time"));
done:
    return result;
}

status megatron_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(megatron_finish_model(r, e));
    TRY(finish_batch(r, e));
    TRY(finish_precision(r, e));
    TRY(finish_optimizer(r, e));
    TRY(finish_schedule(r, e));
    TRY(finish_sharding(r, e));
    TRY(finish_pipeline(r, e));
    TRY(finish_recompute(r, e));
    TRY(megatron_finish_data(r, e));
    TRY(megatron_finish_checkpoints(r, e));
done:
    return result;
}
