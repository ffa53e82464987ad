// training_arguments_finish.c -- what several keys of TrainingArguments decide together: length, optimizer, schedule,
// precision, evaluations, checkpoints, order, strategy, reports. training_arguments.c has the rows. See
// training_arguments.h.
#include "config/dialect/tuning/training_arguments.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static status finish_length(const dialect_reader *r, err *e)
{
    const double steps = tuning_number(r, "max_steps", -1);
    if (steps > 0) return dialect_set_count(r, "train.steps", (int64_t)steps, "max_steps", NULL, e);
    const double epochs = tuning_number(r, "num_train_epochs", 3);
    if (epochs <= 0)
        return dialect_refuse(r, "num_train_epochs", e,
                              "found %g without max_steps; valid: a number above 0", epochs);
    return dialect_set_number(r, "train.epochs", epochs, "num_train_epochs", NULL, e);
}

static status finish_schedule(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char NAME[] = "lr_scheduler_type";
    const char *name = dialect_text(r, NAME);
    const bool warms = strcasecmp(name, "constant") != 0;
    const char *theirs = "warmup_steps";
    double warmup = tuning_number(r, theirs, 0);
    if (warmup == 0 && dialect_value(r, "warmup_ratio")) {
        theirs = "warmup_ratio";
        warmup = tuning_number(r, theirs, 0);
    }
    TRY(tuning_schedule_set(r,
                            &(tuning_schedule){.name = name,
                                               .name_key = NAME,
                                               .kwargs = "lr_scheduler_kwargs",
                                               .rate = "learning_rate"},
                            e));
    if (warmup == 0 && strcasecmp(name, "inverse_sqrt") == 0)
        return dialect_refuse(r, NAME, e,
                              "found inverse_sqrt without a warm-up, whose length is its scale; "
                              "valid: warmup_steps from 1");
    TRY(tuning_warmup_set(r, warms ? warmup : 0, theirs,
                          warms || warmup == 0 ? NULL : "transformers' constant has no warm-up",
                          e));
done:
    return result;
}

static status finish_precision(const dialect_reader *r, err *e)
{
    status result = OK;
    const bool fp16 = dialect_is_on(r, "fp16"), bf16 = dialect_is_on(r, "bf16");
    if (fp16 && bf16 && dialect_value(r, "bf16"))
        return dialect_refuse(r, "fp16", e, "found true beside bf16: true; valid: one of them");
    if (fp16)
        TRY(dialect_set(r, "train.precision", "fp16", "fp16", NULL, e));
    else if (!bf16 && dialect_is_on(r, "tf32"))
        TRY(dialect_set(r, "train.precision", "tf32", "tf32", NULL, e));
    else
        TRY(dialect_set(r, "train.precision", bf16 ? "bf16" : "fp32", "bf16", NULL, e));
    if (dialect_is_on(r, "use_cpu"))
        TRY(dialect_set(r, "launch.device", "cpu", "use_cpu", NULL, e));
    else if (dialect_is_on(r, "no_cuda"))
        TRY(dialect_set(r, "launch.device", "cpu", "no_cuda", NULL, e));
done:
    return result;
}

static status finish_recompute(const dialect_reader *r, err *e)
{
    const bool is_new = dialect_value(r, "activation_checkpointing") != NULL;
    const char *theirs = is_new ? "activation_checkpointing" : "gradient_checkpointing";
    return dialect_set(r, "parallel.recompute", dialect_is_on(r, theirs) ? "full" : "none", theirs,
                       NULL, e);
}

// Sets a number of steps between two evaluations or checkpoints: a number, or a share of max_steps.
static status set_interval(const dialect_reader *r, const char *ours, double steps,
                           const char *theirs, err *e)
{
    const double all = tuning_number(r, "max_steps", -1);
    if (steps >= 1)
        return dialect_set_count(r, ours, steps < 1e9 ? (int64_t)steps : 1000000000, theirs, NULL,
                                 e);
    if (steps > 0 && all > 0)
        return dialect_set_count(r, ours, (int64_t)ceil(steps * all), theirs,
                                 "a share of max_steps", e);
    const status result = dialect_set(r, ours, TUNING_NEVER, theirs, NULL, e);
    if (result != OK) return result;
    return dialect_remark_on(r, theirs, true, e,
                             "found %g, a share of a run whose steps follow from the data; valid: "
                             "%s of the job",
                             steps, ours);
}

// Sets an interval by a strategy: "no", "steps", "epoch" or "best".
static status finish_interval(const dialect_reader *r, const char *ours, const char *strategy_key,
                              double steps, const char *steps_key, err *e)
{
    status result = OK;
    const char *strategy = dialect_text(r, strategy_key);
    const bool saves = strcmp(ours, "train.save_every") == 0;
    if (strcasecmp(strategy, "steps") == 0) return set_interval(r, ours, steps, steps_key, e);
    TRY(dialect_set(r, ours, saves ? TUNING_NEVER : "0", strategy_key,
                    saves ? "the end of the run saves" : NULL, e));
    if (strcasecmp(strategy, "epoch") == 0)
        TRY(dialect_remark_on(r, strategy_key, true, e,
                              "found epoch; %s counts steps, and is off here but at the end of the "
                              "run",
                              ours));
done:
    return result;
}

// Keeps the best checkpoint by the loss; transformers' other metrics come from a program.
static status finish_best(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char METRIC[] = "metric_for_best_model";
    const char *metric = dialect_text(r, METRIC);
    const bool best = strcasecmp(dialect_text(r, "save_strategy"), "best") == 0;
    if (!best && !dialect_is_on(r, "load_best_model_at_end")) return OK;
    if ((metric && strcmp(metric, "loss") != 0 && strcmp(metric, "eval_loss") != 0) ||
        dialect_is_on(r, "greater_is_better"))
        return dialect_refuse(r, metric ? METRIC : "greater_is_better", e,
                              "found %.*s; valid: eval_loss, the loss on data.valid, of which the "
                              "lowest is best",
                              TEXT_CUT(metric ? metric : "true", 100));
    TRY(dialect_set(r, "train.keep_best", "true", best ? "save_strategy" : "load_best_model_at_end",
                    "checkpoints/best names it; the weights at the end are those of the last step",
                    e));
done:
    return result;
}

static status finish_saving(const dialect_reader *r, err *e)
{
    status result = OK;
    const double logs = tuning_number(r, "logging_steps", 500);
    const char *eval_key = tuning_number(r, "eval_steps", 0) > 0 ? "eval_steps" : "eval_strategy";
    TRY(finish_interval(r, "train.eval_every", "eval_strategy",
                        tuning_number(r, "eval_steps", 0) > 0 ? tuning_number(r, "eval_steps", 0)
                                                              : logs,
                        eval_key, e));
    TRY(dialect_set(r, "train.eval_batches", "0", "eval_strategy", NULL, e));
    TRY(finish_interval(r, "train.save_every", "save_strategy", tuning_number(r, "save_steps", 500),
                        "save_steps", e));
    TRY(dialect_set_count(r, "train.keep", (int64_t)tuning_number(r, "save_total_limit", 0),
                          "save_total_limit", NULL, e));
    TRY(finish_best(r, e));
done:
    return result;
}

// The order of Accelerate's seeded sampler has the samples of PyTorch's DistributedSampler in each step.
static status finish_order(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char SAMPLING[] = "train_sampling_strategy";
    const char *strategy = dialect_text(r, SAMPLING);
    const double seed = tuning_number(r, "seed", 42);
    TRY(dialect_set(r, "data.order", dialect_our_word(r, SAMPLING), SAMPLING, NULL, e));
    if (strcasecmp(strategy, "group_by_length") == 0 ||
        strcasecmp(strategy, "batch_rebalance") == 0)
        TRY(dialect_remark_on(r, SAMPLING, true, e,
                              "found %s; samples of one length do not stand together", strategy));
    if (tuning_number(r, "data_seed", seed) != seed)
        TRY(dialect_remark_on(r, "data_seed", true, e,
                              "found %g beside seed %g; train.seed seeds the order of samples, too",
                              tuning_number(r, "data_seed", seed), seed));
done:
    return result;
}

// One report of a list.
static status take_report(const dialect_reader *r, const char *name, err *e)
{
    if (strcasecmp(name, "tensorboard") == 0)
        return dialect_set(r, "observe.tensorboard", "true", "report_to", NULL, e);
    if (strcasecmp(name, "none") == 0 || strcasecmp(name, "all") == 0 || !*name) return OK;
    return dialect_remark_on(r, "report_to", true, e, "found %.*s; %s", TEXT_CUT(name, 100),
                             TUNING_NO_MONITOR);
}

static status finish_reports(const dialect_reader *r, err *e)
{
    status result = OK;
    const yaml_node *n = dialect_value(r, "report_to");
    if (!n) return OK;
    if (n->kind == NODE_SCALAR) return take_report(r, n->scalar, e);
    for (const yaml_node *one = n->first; one; one = one->next)
        if (one->kind == NODE_SCALAR) TRY(take_report(r, one->scalar, e));
done:
    return result;
}

// The ranks that a launcher in a script starts.
static status finish_launcher(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const KEYS[] = {"launcher.nproc_per_node", "launcher.num_processes",
                                       "launcher.num_gpus"};
    const double hosts = tuning_number(r, "launcher.nnodes", 1);
    for (int i = 0; i < 3; i++) {
        const double ranks = tuning_number(r, KEYS[i], 0) * (i == 1 ? 1 : hosts);
        if (ranks < 1) continue;
        if (ranks > 1 << 20)
            return dialect_refuse(r, KEYS[i], e, "found more ranks than there are");
        TRY(dialect_set_count(r, "launch.ranks", (int64_t)ranks, KEYS[i], NULL, e));
    }
done:
    return result;
}

status training_arguments_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(tuning_deepspeed(r, "deepspeed", e)); // its defaults give way to those below
    TRY(finish_length(r, e));
    TRY(tuning_optimizer_set(
        r,
        &(tuning_optimizer){
            .name = "optim", .beta1 = "adam_beta1", .beta2 = "adam_beta2", .eps = "adam_epsilon"},
        e));
    TRY(finish_schedule(r, e));
    TRY(finish_precision(r, e));
    TRY(finish_recompute(r, e));
    TRY(finish_saving(r, e));
    TRY(finish_order(r, e));
    TRY(training_arguments_finish_fsdp(r, e));
    TRY(finish_reports(r, e));
    TRY(finish_launcher(r, e));
done:
    return result;
}
