// llamafactory_finish.c -- what several keys of LLaMA-Factory decide together: stage, adapter, quantization, packing.
// llamafactory.c has the rows. See llamafactory.h.
#include "config/dialect/tuning/llamafactory.h"

#include <string.h>
#include <strings.h>

static bool stage_is(const dialect_reader *r, const char *stage)
{
    return strcasecmp(dialect_text(r, "stage"), stage) == 0;
}

static status finish_dpo(const dialect_reader *r, err *e)
{
    status result = OK;
    const double smoothing = tuning_number(r, "dpo_label_smoothing", 0);
    if (strcasecmp(dialect_text(r, "pref_loss"), "sigmoid") != 0)
        TRY(dialect_set(r, "dpo.loss_type", dialect_text(r, "pref_loss"), "pref_loss", NULL, e));
    if (smoothing > 0)
        TRY(dialect_set_number(r, "dpo.label_smoothing", smoothing, "dpo_label_smoothing", NULL,
                               e));
done:
    return result;
}

static status finish_preferences(const dialect_reader *r, err *e)
{
    status result = OK;
    const bool kto = stage_is(r, "kto");
    const char *loss = kto ? "kto" : dialect_our_word(r, "pref_loss");
    if ((!kto && !stage_is(r, "dpo")) || !loss) return OK;
    text key = {0};
    text_addf(&key, "%s.beta", loss);
    TRY(text_check(&key, e));
    TRY(dialect_set(r, "train.loss", loss, dialect_value(r, "pref_loss") ? "pref_loss" : "stage",
                    NULL, e));
    TRY(dialect_set_number(r, key.chars, tuning_number(r, "pref_beta", 0.1), "pref_beta", NULL, e));
    TRY(tuning_pair_length(r, "cutoff_len", e));
    if (kto) {
        TRY(dialect_set_number(r, "kto.desirable_weight", tuning_number(r, "kto_chosen_weight", 1),
                               "kto_chosen_weight", NULL, e));
        TRY(dialect_set_number(r, "kto.undesirable_weight",
                               tuning_number(r, "kto_rejected_weight", 1), "kto_rejected_weight",
                               NULL, e));
    }
    if (strcmp(loss, "dpo") == 0) TRY(finish_dpo(r, e));
    if (dialect_value(r, "ref_model") && strcmp(loss, "orpo") != 0)
        TRY(tuning_set_text(r, kto ? "kto.reference" : "dpo.reference",
                            dialect_text(r, "ref_model"), "ref_model", NULL, e));
done:
    text_clear(&key);
    return result;
}

static status finish_adapter(const dialect_reader *r, err *e)
{
    status result = OK;
    static const tuning_lora KEYS = {.rank = "lora_rank",
                                     .alpha = "lora_alpha",
                                     .dropout = "lora_dropout",
                                     .target = "lora_target",
                                     .rslora = "use_rslora",
                                     .save = "additional_target"};
    static const char START[] = "adapter_name_or_path";
    const char *start = dialect_text(r, START);
    if (strcasecmp(dialect_text(r, "finetuning_type"), "lora") != 0) return OK;
    TRY(tuning_lora_set(r, &KEYS, e));
    if (start && dialect_is_on(r, "create_new_adapter"))
        return dialect_refuse(
            r, START, e,
            "found it beside create_new_adapter; valid: trireme checkpoint export "
            "--merge, and the folder that it writes as model_name_or_path");
    if (start && strchr(start, ','))
        return dialect_refuse(r, START, e, "found several adapters; valid: one");
    if (start) TRY(tuning_set_text(r, "lora.start", start, START, NULL, e));
done:
    return result;
}

static status finish_storage(const dialect_reader *r, err *e)
{
    static const char BITS[] = "quantization_bit";
    const double bits = tuning_number(r, BITS, 0);
    if (bits == 0) return OK;
    if (bits == 8)
        return dialect_remark_on(r, BITS, true, e,
                                 "found 8; frozen weights are kept as they compute: more memory, "
                                 "and no rounding to 8 bits");
    if (bits != 4) return dialect_refuse(r, BITS, e, "found %g; valid: 4", bits);
    if (strcasecmp(dialect_text(r, "finetuning_type"), "lora") != 0)
        return dialect_refuse(r, BITS, e,
                              "found 4 without finetuning_type: lora; valid: with it, because "
                              "weights in 4 bits are frozen");
    return dialect_set(r, "model.storage", "nf4", BITS, NULL, e);
}

// Freezing trains the last layers alone, whose numbers the model's folder says.
static status refuse_freeze(const dialect_reader *r, err *e)
{
    if (strcasecmp(dialect_text(r, "finetuning_type"), "freeze") != 0) return OK;
    return dialect_refuse(r, "finetuning_type", e,
                          "found freeze; valid: groups: [{match: 'model.layers.0.*', trainable: "
                          "false}, …] of the job, which freezes parameters by their names");
}

static status finish_rows(const dialect_reader *r, err *e)
{
    status result = OK;
    const bool neat = dialect_is_on(r, "neat_packing"), pt = stage_is(r, "pt");
    const bool packs = neat || (dialect_value(r, "packing") ? dialect_is_on(r, "packing") : pt);
    const char *theirs = neat ? "neat_packing" : "packing";
    TRY(dialect_set(r, "data.packing", packs ? "bfd" : "none", theirs, NULL, e));
    if (packs && !neat && !pt)
        TRY(dialect_remark_on(r, theirs, true, e,
                              "the samples of a row do not see each other here, as with "
                              "neat_packing: true"));
    TRY(dialect_set(
        r, "data.truncate", pt ? "split" : "keep_start", "cutoff_len",
        pt ? NULL : "LLaMA-Factory shortens the prompt and the answer of a turn by their shares",
        e));
    if (stage_is(r, "sft"))
        TRY(dialect_set(r, "data.train_on",
                        dialect_is_on(r, "train_on_prompt") ? "all"
                        : dialect_is_on(r, "mask_history")  ? "completion"
                                                            : "assistant",
                        dialect_is_on(r, "train_on_prompt") ? "train_on_prompt" : "mask_history",
                        NULL, e));
    if (dialect_is_on(r, "disable_shuffling"))
        TRY(dialect_set(r, "data.order", "sequential", "disable_shuffling", NULL, e));
done:
    return result;
}

static status finish_model(const dialect_reader *r, err *e)
{
    status result = OK;
    const char *name = dialect_text(r, "template");
    TRY(tuning_model(r, "model_name_or_path", "model_revision", e));
    if (dialect_is_on(r, "train_from_scratch"))
        TRY(dialect_set(r, "model.init", "random", "train_from_scratch", NULL, e));
    if (name && !stage_is(r, "pt")) TRY(tuning_template(r, "template", "model_name_or_path", e));
    // LLaMA-Factory recomputes unless it is told not to.
    if (!dialect_value(r, "activation_checkpointing") &&
        !dialect_value(r, "gradient_checkpointing"))
        TRY(dialect_set(r, "parallel.recompute",
                        dialect_is_on(r, "disable_gradient_checkpointing") ? "none" : "full",
                        "disable_gradient_checkpointing", NULL, e));
    if (dialect_is_on(r, "pure_bf16"))
        TRY(dialect_set(r, "train.precision", "bf16", "pure_bf16", NULL, e));
done:
    return result;
}

status llamafactory_finish(const dialect_reader *r, err *e)
{
    status result = OK;
    TRY(training_arguments_finish(r, e));
    TRY(finish_model(r, e));
    TRY(llamafactory_finish_data(r, e));
    TRY(finish_preferences(r, e));
    TRY(refuse_freeze(r, e));
    TRY(finish_adapter(r, e));
    TRY(finish_storage(r, e));
    TRY(finish_rows(r, e));
done:
    return result;
}
