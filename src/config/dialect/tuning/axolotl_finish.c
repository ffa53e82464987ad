// axolotl_finish.c -- what several keys of axolotl decide together: length, schedule, precision, adapter, loss, strategy,
// evaluations, checkpoints, plugins. axolotl.c has the rows. See axolotl.h.
#include "config/dialect/tuning/axolotl.h"

#include <math.h>
#include <string.h>
#include <strings.h>

const char *axolotl_word(const dialect_reader *r, const char *theirs)
{
    const char *s = dialect_is_auto(r, theirs) ? "auto" : dialect_text(r, theirs);
    bool on;
    return !s || !*s || (text_to_bool(s, &on) && !on) ? NULL : s;
}

static status finish_length(const dialect_reader *r, err *e)
{
    const double steps = tuning_number(r, "max_steps", 0),
                 epochs = tuning_number(r, "num_epochs", 1);
    if (steps > 0) return dialect_set_count(r, "train.steps", (int64_t)steps, "max_steps", NULL, e);
    if (epochs <= 0)
        return dialect_refuse(r, "num_epochs", e, "found %g; valid: a number above 0", epochs);
    return dialect_set_number(r, "train.epochs", epochs, "num_epochs", NULL, e);
}

// The schedule. Where a file gives no warm-up, axolotl takes three hundredths of the run, and at most 100 steps.
static status finish_schedule(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char NAME[] = "lr_scheduler", LOW[] = "cosine_min_lr_ratio";
    const char *name = dialect_text(r, NAME);
    const double low = tuning_number(r, LOW, 0) * tuning_number(r, "learning_rate", 0);
    const bool warms = strcasecmp(name, "constant") != 0;
    TRY(tuning_schedule_set(r,
                            &(tuning_schedule){.name = name,
                                               .name_key = NAME,
                                               .kwargs = "lr_scheduler_kwargs",
                                               .rate = "learning_rate"},
                            e));
    if (strcasecmp(name, "cosine") == 0 && low > 0)
        TRY(dialect_set_number(r, "lr_schedule.min_lr", low, LOW, NULL, e));
    if (dialect_value(r, "warmup_steps") || !warms)
        TRY(tuning_warmup_set(r, warms ? floor(tuning_number(r, "warmup_steps", 0)) : 0,
                              "warmup_steps", NULL, e));
    else if (dialect_value(r, "warmup_ratio"))
        TRY(tuning_warmup_set(r, tuning_number(r, "warmup_ratio", 0), "warmup_ratio", NULL, e));
    else
        TRY(tuning_warmup_set(r, 0.03, "warmup_ratio",
                              "axolotl takes at most 100 steps; lr_schedule.lr_warmup_steps of the "
                              "job sets them",
                              e));
done:
    return result;
}

static status finish_precision(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *half = dialect_is_on(r, "fp16")      ? "fp16"
                       : dialect_is_on(r, "float16") ? "float16"
                                                     : NULL;
    const bool bf16 =
        (axolotl_word(r, "bf16") || dialect_is_on(r, "bfloat16")) && !dialect_is_on(r, "float32");
    const bool says =
        tuning_is_given(r, "bf16") && axolotl_word(r, "bf16") && !dialect_is_auto(r, "bf16");
    if (half && says)
        return dialect_refuse(r, half, e, "found true beside bf16; valid: one of them");
    if (half)
        TRY(dialect_set(r, "train.precision", "fp16", half, NULL, e));
    else if (bf16)
        TRY(dialect_set(r, "train.precision", "bf16", "bf16",
                        dialect_is_auto(r, "bf16") ? "auto is bf16 on devices that have it" : NULL,
                        e));
    else
        TRY(dialect_set(r, "train.precision",
                        axolotl_word(r, "tf32") && dialect_value(r, "tf32") ? "tf32" : "fp32",
                        "bf16", NULL, e));
    const char *recompute = axolotl_word(r, "gradient_checkpointing");
    bool on;
    TRY(dialect_set(r, "parallel.recompute", recompute ? "full" : "none", "gradient_checkpointing",
                    NULL, e));
    if (recompute && !text_to_bool(recompute, &on))
        TRY(dialect_remark_on(r, "gradient_checkpointing", true, e,
                              "found %.*s; the inputs of recomputed blocks stay on the device",
                              TEXT_CUT(recompute, 60)));
done:
    return result;
}

static status finish_adapter(const dialect_reader *r, err *e)
{
    status result = OK;
    static const tuning_lora KEYS = {.rank = "lora_r",
                                     .alpha = "lora_alpha",
                                     .dropout = "lora_dropout",
                                     .target = "lora_target_modules",
                                     .rslora = "peft_use_rslora",
                                     .save = "lora_modules_to_save"};
    const char *adapter = dialect_text(r, "adapter");
    const bool quantized = dialect_is_on(r, "load_in_4bit");
    if (!adapter && quantized)
        return dialect_refuse(r, "load_in_4bit", e,
                              "found true without adapter; valid: with it, because weights in 4 "
                              "bits are frozen");
    if (!adapter) return OK;
    TRY(tuning_lora_set(r, &KEYS, e));
    if (dialect_is_on(r, "lora_target_linear"))
        TRY(dialect_set(r, "lora.target_modules", "all-linear", "lora_target_linear", NULL, e));
    if (dialect_value(r, "lora_model_dir"))
        TRY(tuning_set_text(r, "lora.start", dialect_text(r, "lora_model_dir"), "lora_model_dir",
                            NULL, e));
    if (quantized || strcasecmp(adapter, "qlora") == 0)
        TRY(dialect_set(r, "model.storage", "nf4", quantized ? "load_in_4bit" : "adapter",
                        "its scales are quantized, too, as axolotl's are", e));
done:
    return result;
}

static status finish_loss(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *loss = dialect_our_word(r, "rl");
    const char *beta =
        dialect_value(r, "rl_beta") || !dialect_value(r, "dpo_beta") ? "rl_beta" : "dpo_beta";
    if (!loss) return OK;
    TRY(dialect_set(r, "train.loss", loss, "rl", NULL, e));
    TRY(tuning_pair_length(r, "sequence_len", e));
    if (strcasecmp(dialect_text(r, "rl"), "ipo") == 0)
        TRY(dialect_set(r, "dpo.loss_type", "ipo", "rl", NULL, e));
    if (strcmp(loss, "orpo") == 0)
        TRY(dialect_set_number(r, "orpo.beta", tuning_number(r, "orpo_alpha", 0.1), "orpo_alpha",
                               NULL, e));
    else
        TRY(dialect_set_number(r, strcmp(loss, "kto") == 0 ? "kto.beta" : "dpo.beta",
                               tuning_number(r, beta, 0.1), beta, NULL, e));
    if (strcmp(loss, "kto") == 0) {
        TRY(dialect_set_number(r, "kto.desirable_weight",
                               tuning_number(r, "kto_desirable_weight", 1), "kto_desirable_weight",
                               NULL, e));
        TRY(dialect_set_number(r, "kto.undesirable_weight",
                               tuning_number(r, "kto_undesirable_weight", 1),
                               "kto_undesirable_weight", NULL, e));
    }
done:
    return result;
}

// A section fsdp_config without the key fsdp is FSDP2.
static status finish_strategy(const dialect_reader *r, err *e)
{
    status result = OK;
    const yaml_node *section = dialect_value(r, "fsdp_config");
    if (section && section->first && !dialect_value(r, "fsdp"))
        TRY(dialect_set(r, "parallel.dp", "zero3", "fsdp_config", NULL, e));
    TRY(training_arguments_finish_fsdp(r, e));
done:
    return result;
}

// Sets an interval in steps, or says that it is counted otherwise.
static status set_interval(const dialect_reader *r, const char *ours, const char *theirs,
                           const char *otherwise, err *e)
{
    const double steps = tuning_number(r, theirs, 0), all = tuning_number(r, "max_steps", 0);
    if (steps >= 1 || (steps > 0 && all > 0))
        return dialect_set_count(
            r, ours, (int64_t)(steps >= 1 ? fmin(steps, 1e9) : ceil(steps * all)), theirs, NULL, e);
    const status result = dialect_set(r, ours, otherwise, theirs, NULL, e);
    if (result != OK || steps == 0) return result;
    return dialect_remark_on(r, theirs, true, e,
                             "found %g, a share of a run whose steps follow from the data; valid: "
                             "%s of the job",
                             steps, ours);
}

static status finish_saving(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char SAVES[] = "save_strategy";
    TRY(set_interval(r, "train.eval_every", "eval_steps", "0", e));
    TRY(dialect_set(r, "train.eval_batches", "0", "eval_steps", NULL, e));
    TRY(set_interval(r, "train.save_every", "save_steps", TUNING_NEVER, e));
    if (!dialect_value(r, "save_steps") && !dialect_value(r, "saves_per_epoch"))
        TRY(dialect_remark_on(r, SAVES, true, e,
                              "found %s; train.save_every counts steps, and the end of the run "
                              "saves",
                              dialect_text(r, SAVES)));
done:
    return result;
}

// Plugins that change no result.
static status finish_plugins(const dialect_reader *r, err *e)
{
    static const char *const FUSED[] = {"liger", "cut_cross_entropy"};
    const yaml_node *list = dialect_value(r, "plugins");
    for (const yaml_node *n = list ? list->first : NULL; n; n = n->next) {
        const char *name = n->kind == NODE_SCALAR ? n->scalar : "a map";
        bool fused = false;
        for (size_t i = 0; i < sizeof FUSED / sizeof *FUSED; i++)
            fused = fused || strstr(name, FUSED[i]);
        if (!fused)
            return dialect_refuse(r, "plugins", e,
                                  "found %.*s, which changes the training; valid: plugins of liger "
                                  "and cut_cross_entropy, whose kernels are fused already",
                                  TEXT_CUT(name, 100));
    }
    return OK;
}

static status finish_model(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char *const SAME[] = {"base_model_config", "tokenizer_config"};
    const char *base = dialect_text(r, "base_model");
    if (!base) return dialect_refuse(r, "base_model", e, "not given; valid: a model");
    TRY(tuning_model(r, "base_model", "revision_of_model", e));
    for (int i = 0; i < 2; i++) {
        const char *name = dialect_text(r, SAME[i]);
        if (name && *name && strcmp(name, base) != 0)
            TRY(dialect_remark_on(r, SAME[i], true, e,
                                  "found %.*s; config.json and tokenizer of the model's folder are "
                                  "used",
                                  TEXT_CUT(name, 200)));
    }
    const yaml_node *tokens = dialect_value(r, "tokens");
    if (tokens && (tokens->kind != NODE_LIST || tokens->first))
        return dialect_refuse(
            r, "tokens", e,
            "found new tokens; valid: a folder with these tokens, and rows of the "
            "embedding for them");
done:
    return result;
}

status axolotl_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(tuning_deepspeed(r, "deepspeed", e));
    TRY(finish_plugins(r, e));
    TRY(finish_model(r, e));
    TRY(axolotl_finish_data(r, e));
    TRY(finish_length(r, e));
    TRY(tuning_optimizer_set(r,
                             &(tuning_optimizer){.name = "optimizer",
                                                 .beta1 = "adam_beta1",
                                                 .beta2 = "adam_beta2",
                                                 .eps = "adam_epsilon"},
                             e));
    TRY(finish_schedule(r, e));
    TRY(finish_precision(r, e));
    TRY(finish_adapter(r, e));
    TRY(finish_loss(r, e));
    TRY(finish_strategy(r, e));
    TRY(finish_saving(r, e));
done:
    return result;
}
