// training_arguments_fsdp.c -- the strategy that TrainingArguments.fsdp and fsdp_config choose. See
// training_arguments.h.
#include "config/dialect/tuning/training_arguments.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define IN(word) "fsdp_config.fsdp_" word

// What the words of the key fsdp say.
typedef struct fsdp_words {
    const char *dp; // NULL: none does
    bool frees, offloads, replicates;
} fsdp_words;

static bool take_word(const char *word, size_t bytes, fsdp_words *out)
{
    static const struct {
        const char *word, *dp;
        bool frees, replicates;
    } KNOWN[] = {{"full_shard", "zero3", true, false},
                 {"shard_grad_op", "zero2", false, false},
                 {"no_shard", "ddp", false, false},
                 {"hybrid_shard", "zero3", true, true},
                 {"hybrid_shard_zero2", "zero2", false, true},
                 {"true", "zero3", true, false}};
    if (bytes == 7 && strncasecmp(word, "offload", bytes) == 0) return out->offloads = true;
    if (bytes == 9 && strncasecmp(word, "auto_wrap", bytes) == 0) return true;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        if (strlen(KNOWN[i].word) != bytes || strncasecmp(KNOWN[i].word, word, bytes) != 0)
            continue;
        out->dp = KNOWN[i].dp;
        out->frees = KNOWN[i].frees;
        out->replicates = KNOWN[i].replicates;
        return true;
    }
    return false;
}

// Reads the words of a text, which blanks divide, or of a list.
static status read_words(const dialect_reader *r, const yaml_node *n, fsdp_words *out, err *e)
{
    status result = OK;
    if (n->kind == NODE_LIST) {
        for (const yaml_node *one = n->first; one; one = one->next) TRY(read_words(r, one, out, e));
        goto done;
    }
    for (const char *s = n->kind == NODE_SCALAR ? n->scalar : "?"; *s;) {
        const size_t bytes = strcspn(s, " ,");
        if (bytes && !take_word(s, bytes, out))
            return dialect_refuse(r, "fsdp", e,
                                  "found %.*s; valid: full_shard, shard_grad_op, no_shard, "
                                  "hybrid_shard, hybrid_shard_zero2, offload, auto_wrap",
                                  (int)text_cut(s, bytes), s);
        s += bytes;
        s += strspn(s, " ,");
    }
done:
    return result;
}

static status set_offload(const dialect_reader *r, const char *theirs, err *e)
{
    status result = OK;
    static const char *const STATE[] = {"weights", "gradients", "optimizer", "update"};
    char key[40];
    for (size_t i = 0; i < sizeof STATE / sizeof *STATE; i++) {
        snprintf(key, sizeof key, "parallel.offload.%s", STATE[i]);
        TRY(dialect_set(r, key, "host", theirs, i == 3 ? "FSDP updates on the CPU" : NULL, e));
    }
done:
    return result;
}

status training_arguments_finish_fsdp(const dialect_reader *r, err *e)
{
    status result = OK;
    static const char RESHARD[] = IN("reshard_after_forward");
    const yaml_node *n = dialect_value(r, "fsdp");
    fsdp_words words = {.dp = NULL};
    bool on = true;
    if (!n || (n->kind == NODE_SCALAR && (!*n->scalar || strcasecmp(n->scalar, "false") == 0)))
        return OK;
    TRY(read_words(r, n, &words, e));
    if (!words.dp) return OK; // offload and auto_wrap alone choose no strategy
    TRY(dialect_set(r, "parallel.dp", words.dp, "fsdp", NULL, e));
    const yaml_node *reshard = dialect_value(r, RESHARD);
    if (reshard && text_to_bool(dialect_text(r, RESHARD), &on))
        TRY(dialect_set(r, "parallel.reshard_after_forward", on ? "true" : "false", RESHARD, NULL,
                        e));
    if (words.replicates)
        TRY(dialect_remark_on(r, "fsdp", true, e,
                              "found a hybrid strategy; all ranks shard, unless "
                              "parallel.dp_replicate is the number of hosts"));
    if (words.offloads)
        TRY(set_offload(r, "fsdp", e));
    else if (dialect_is_on(r, IN("cpu_offload")))
        TRY(set_offload(r, IN("cpu_offload"), e));
    else if (dialect_is_on(r, IN("offload_params")))
        TRY(set_offload(r, IN("offload_params"), e));
    if (dialect_is_on(r, IN("activation_checkpointing")))
        TRY(dialect_set(r, "parallel.recompute", "full", IN("activation_checkpointing"), NULL, e));
done:
    return result;
}
