// tuning.c -- what the dialects of fine-tuning systems share: LoRA, the losses of pairs, the optimizers and schedules of
// transformers.
// tuning_data.c has the model and the data. See tuning.h. It knows no system's own keys.
#include "config/dialect/tuning/tuning.h"

#include "config/keys.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char TUNING_NO_MONITOR[] = "log.jsonl in train.out has these values";
const char TUNING_NO_UPLOAD[] = "nothing is uploaded: a checkpoint is a HuggingFace folder";
const char TUNING_ATTENTION[] = "attention has one kernel for each device";
const char TUNING_KERNELS[] = "kernels are fused already, and no result depends on it";
const char TUNING_ENCODED[] = "samples are read and encoded when the run starts";
const char TUNING_READERS[] = "data are read ahead in the background";
const char TUNING_NO_CODE[] = "no Python of a model's folder is executed";

const char *const TUNING_OPTIMIZERS[][2] = {TUNING_OPTIMIZER_WORDS, {NULL, NULL}};

const char *const TUNING_SCHEDULES[][2] = {TUNING_SCHEDULE_WORDS, {NULL, NULL}};

double tuning_number(const dialect_reader *r, const char *theirs, double otherwise)
{
    double n;
    return dialect_number(r, theirs, &n) ? n : otherwise;
}

bool tuning_is_given(const dialect_reader *r, const char *theirs)
{
    return dialect_node(r->root, theirs) != NULL;
}

status tuning_set_text(const dialect_reader *r, const char *key, const char *value,
                       const char *theirs, const char *note, err *e)
{
    text s = {0};
    yaml_node_quote(value, &s);
    status result = text_check(&s, e);
    if (result == OK) result = dialect_set(r, key, s.chars, theirs, note, e);
    text_clear(&s);
    return result;
}

// Appends the words of a text between commas as items of flow YAML.
static void add_words(const char *s, text *out)
{
    for (bool first = true; *s; s += *s == ',') {
        text word = {0};
        s += strspn(s, " ");
        size_t bytes = strcspn(s, ",");
        const char *end = s + bytes;
        while (bytes && s[bytes - 1] == ' ') bytes--;
        text_add_bytes(&word, s, bytes);
        text_add(out, first ? "" : ", ");
        yaml_node_quote(word.chars ? word.chars : "", out);
        text_clear(&word);
        first = false;
        s = end;
    }
}

status tuning_set_list(const dialect_reader *r, const char *key, const yaml_node *n,
                       const char *theirs, const char *note, err *e)
{
    text s = {0};
    if (n->kind == NODE_SCALAR) {
        text_add(&s, "[");
        add_words(n->scalar, &s);
        text_add(&s, "]");
    } else {
        yaml_node_text(n, &s);
    }
    status result = text_check(&s, e);
    if (result == OK) result = dialect_set(r, key, s.chars, theirs, note, e);
    text_clear(&s);
    return result;
}

status tuning_deepspeed(const dialect_reader *r, const char *theirs, err *e)
{
    status result = OK;
    const yaml_node *n = dialect_value(r, theirs);
    const dialect *deepspeed = dialect_find("deepspeed");
    char *s = NULL;
    json_t *all = NULL;
    if (!n || (n->kind == NODE_SCALAR && !*n->scalar)) return OK;
    if (n->kind == NODE_SCALAR) return dialect_include(r, deepspeed, theirs, e);
    all = yaml_node_json(n);
    s = all ? json_dumps(all, JSON_COMPACT) : NULL;
    if (!s) FAIL(E_MEMORY, "no memory for a dialect");
    result = dialect_read_text(deepspeed, s, r->out, e);
    if (result == E_USAGE) dialect_refuse_at(r, dialect_line_of(r, theirs), theirs, e);
done:
    free(s);
    json_decref(all);
    return result;
}

// ---- adapters

static bool is_all(const yaml_node *n)
{
    static const char *const ALL[] = {"all", "all-linear", "all_linear"};
    if (n->kind == NODE_LIST && n->first && !n->first->next) n = n->first;
    for (size_t i = 0; n->kind == NODE_SCALAR && i < sizeof ALL / sizeof *ALL; i++)
        if (strcasecmp(n->scalar, ALL[i]) == 0) return true;
    return false;
}

static status set_target(const dialect_reader *r, const char *theirs, err *e)
{
    const yaml_node *n = dialect_value(r, theirs);
    const dialect_row *row = dialect_row_of_key(r->of, theirs);
    if (n && !is_all(n)) return tuning_set_list(r, "lora.target_modules", n, theirs, NULL, e);
    if (n || (row->fallback && strcmp(row->fallback, "all") == 0))
        return dialect_set(r, "lora.target_modules", "all-linear", theirs, NULL, e);
    return dialect_set(r, "lora.target_modules", "[q_proj, v_proj]", theirs,
                       "PEFT's default for Llama, Mistral, Qwen2, Qwen3 and Gemma", e);
}

status tuning_lora_set(const dialect_reader *r, const tuning_lora *k, err *e)
{
    status result = OK;
    const yaml_node *save = k->save ? dialect_value(r, k->save) : NULL;
    const double rank = tuning_number(r, k->rank, 8);
    TRY(dialect_set_number(r, "lora.rank", rank, k->rank, NULL, e));
    TRY(dialect_set_number(r, "lora.alpha", tuning_number(r, k->alpha, 2 * rank), k->alpha, NULL,
                           e));
    TRY(dialect_set_number(r, "lora.dropout", tuning_number(r, k->dropout, 0), k->dropout, NULL,
                           e));
    TRY(set_target(r, k->target, e));
    if (k->rslora && dialect_is_on(r, k->rslora))
        TRY(dialect_set(r, "lora.rslora", "true", k->rslora, NULL, e));
    if (save) TRY(tuning_set_list(r, "lora.modules_to_save", save, k->save, NULL, e));
done:
    return result;
}

// ---- schedule of the learning rate

// Refuses a parameter of a schedule that is not the value which makes it one of ours.
static status need(const dialect_reader *r, const char *section, const char *word, double value,
                   err *e)
{
    status result = OK;
    text key = {0};
    text_addf(&key, "%s.%s", section, word);
    TRY(text_check(&key, e));
    const double found = tuning_number(r, key.chars, value);
    if (found != value)
        result = dialect_refuse(r, key.chars, e, "found %g; valid: %g", found, value);
done:
    text_clear(&key);
    return result;
}

// Reads a number of a schedule's section.
static double parameter(const dialect_reader *r, const char *section, const char *word,
                        double otherwise)
{
    text key = {0};
    text_addf(&key, "%s.%s", section, word);
    const double n = key.chars ? tuning_number(r, key.chars, otherwise) : otherwise;
    text_clear(&key);
    return n;
}

// The steps of a final decay, and its form.
static status set_wsd(const dialect_reader *r, const tuning_schedule *s, double rate, err *e)
{
    status result = OK;
    const double decay = parameter(r, s->kwargs, "num_decay_steps", 0);
    const double low = rate * parameter(r, s->kwargs, "min_lr_ratio", 0);
    text form = {0};
    if (decay <= 0)
        return dialect_refuse(r, s->name_key, e, "found %s without num_decay_steps; valid: with it",
                              s->name);
    TRY(need(r, s->kwargs, "num_cycles", 0.5, e));
    TRY(dialect_set_number(r, "lr_schedule.wsd_decay_steps", decay, s->kwargs, NULL, e));
    text_addf(&form, "%s.decay_type", s->kwargs);
    TRY(text_check(&form, e));
    TRY(dialect_set(r, "lr_schedule.lr_wsd_decay_style", dialect_our_word(r, form.chars),
                    form.chars, NULL, e));
    TRY(dialect_set_number(r, "lr_schedule.min_lr", low, s->kwargs, NULL, e));
    TRY(dialect_set_number(r, "lr_schedule.init_lr", low, s->kwargs, NULL, e));
done:
    text_clear(&form);
    return result;
}

status tuning_schedule_set(const dialect_reader *r, const tuning_schedule *s, err *e)
{
    status result = OK;
    const double rate = tuning_number(r, s->rate, 0);
    const char *style = dialect_our_word(r, s->name_key);
    double low = 0;
    if (!style) return OK; // The row refuses it.
    TRY(dialect_set(r, "lr_schedule.name", "OptimizerParamScheduler", s->name_key,
                    "its rates are those of transformers, whose first step of a warm-up has 0", e));
    TRY(dialect_set(r, "lr_schedule.lr_decay_style", style, s->name_key, NULL, e));
    if (strcasecmp(s->name, "warmup_stable_decay") == 0) return set_wsd(r, s, rate, e);
    if (strcasecmp(s->name, "polynomial") == 0) {
        TRY(need(r, s->kwargs, "power", 1, e));
        low = parameter(r, s->kwargs, "lr_end", 1e-7);
    } else if (strcasecmp(s->name, "cosine_with_restarts") == 0) {
        TRY(need(r, s->kwargs, "num_cycles", 1, e));
    } else if (strncasecmp(s->name, "cosine", 6) == 0) {
        TRY(need(r, s->kwargs, "num_cycles", 0.5, e));
    }
    if (strcasecmp(s->name, "cosine_with_min_lr") == 0)
        low = parameter(r, s->kwargs, "min_lr", rate * parameter(r, s->kwargs, "min_lr_rate", 0));
    TRY(dialect_set_number(r, "lr_schedule.min_lr", low, s->name_key, NULL, e));
    TRY(dialect_set(r, "lr_schedule.init_lr", "0", s->name_key, NULL, e));
done:
    return result;
}

status tuning_warmup_set(const dialect_reader *r, double warmup, const char *theirs,
                         const char *note, err *e)
{
    if (warmup < 0) return dialect_refuse(r, theirs, e, "found %g; valid: from 0", warmup);
    if (warmup > 0 && warmup < 1)
        return dialect_set_number(r, "lr_schedule.warmup_ratio", warmup, theirs, note, e);
    return dialect_set_count(r, "lr_schedule.lr_warmup_steps", (int64_t)warmup, theirs, note, e);
}

// ---- optimizer

status tuning_optimizer_set(const dialect_reader *r, const tuning_optimizer *k, err *e)
{
    status result = OK;
    const char *theirs = dialect_text(r, k->name), *ours = dialect_our_word(r, k->name);
    text betas = {0};
    if (!ours) return OK; // The row refuses it.
    TRY(dialect_set(r, "optimizer.name", ours, k->name, NULL, e));
    if (strstr(theirs, "8bit") || strstr(theirs, "4bit") || strstr(theirs, "fp8"))
        TRY(dialect_remark_on(r, k->name, true, e,
                              "found %s; the optimizer's state is fp32 here: the same rule, more "
                              "memory",
                              theirs));
    if (strcmp(ours, "sgd") == 0) {
        TRY(dialect_set(r, "optimizer.momentum", "0", k->name, NULL, e));
        goto done;
    }
    text_add(&betas, "[");
    text_add_number(&betas, tuning_number(r, k->beta1, 0.9));
    text_add(&betas, ", ");
    text_add_number(&betas, tuning_number(r, k->beta2, 0.999));
    text_add(&betas, "]");
    TRY(text_check(&betas, e));
    TRY(dialect_set(r, "optimizer.betas", betas.chars,
                    dialect_value(r, k->beta1) || !dialect_value(r, k->beta2) ? k->beta1 : k->beta2,
                    NULL, e));
    if (strcmp(ours, "adamw") == 0)
        TRY(dialect_set_number(r, "optimizer.eps", tuning_number(r, k->eps, 1e-8), k->eps, NULL,
                               e));
done:
    text_clear(&betas);
    return result;
}

// ---- Losses of pairs

const char *tuning_dpo_loss(const yaml_node *n)
{
    if (n->kind != NODE_SCALAR) return NULL;
    for (int i = 0; DPO_LOSSES[i]; i++)
        if (strcmp(DPO_LOSSES[i], n->scalar) == 0) return DPO_LOSSES[i];
    return NULL;
}

status tuning_refuse_loss(const dialect_reader *r, const char *theirs, const yaml_node *n,
                          const char *valid, err *e)
{
    status result = OK;
    text found = {0}, all = {0};
    yaml_node_text(n, &found);
    text_add(&all, valid);
    for (int i = 0; DPO_LOSSES[i]; i++) text_addf(&all, "%s %s", i ? "," : "", DPO_LOSSES[i]);
    TRY(text_check(&found, e));
    TRY(text_check(&all, e));
    result = dialect_refuse(r, theirs, e, "found %.*s; valid: %s", TEXT_CUT(found.chars, 100),
                            all.chars);
done:
    text_clear(&found);
    text_clear(&all);
    return result;
}
