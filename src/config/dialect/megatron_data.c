// megatron_data.c -- data, evaluations and checkpoints of Megatron-LM's arguments. megatron_finish.c calls it.
#include "config/dialect/megatron.h"

#include <stdlib.h>
#include <string.h>

enum { SPLITS = 3 };

// The ends of the splits, as shares of a shard's documents: training is before end[0], validation before end[1].
typedef struct megatron_splits {
    double end[SPLITS];
} megatron_splits;

static status read_splits(const dialect_reader *r, megatron_splits *out, err *e)
{
    const char *s = dialect_text(r, "split");
    double part[SPLITS] = {0}, sum = 0;
    int count = 0;
    for (const char *c = s ? s : "969, 30, 1"; *c;) {
        const size_t bytes = strspn(c, ".0123456789");
        char *end;
        if (!bytes) {
            c++;
            continue;
        }
        if (count == SPLITS)
            return dialect_refuse(r, "split", e, "found %.*s; valid: at most three numbers",
                                  TEXT_CUT(s, 60));
        part[count] = strtod(c, &end);
        if (end != c + bytes)
            return dialect_refuse(r, "split", e, "found %.*s; valid: numbers such as 969,30,1",
                                  TEXT_CUT(s, 60));
        c = end;
        sum += part[count++];
    }
    if (!(part[0] > 0) || sum > 1e300)
        return dialect_refuse(r, "split", e, "found %.*s; valid: a share of training above 0",
                              TEXT_CUT(s ? s : "", 60));
    double end = 0;
    for (int i = 0; i < SPLITS; i++) {
        end += part[i] / sum;
        out->end[i] = end < 1 ? end : 1;
    }
    return OK;
}

// Adds an entry {path, weight, documents} of a list.
static void add_part(const char *path, const char *weight, double from, double to, text *out)
{
    text_add(out, out->bytes ? ", {path: " : "[{path: ");
    yaml_node_quote(path, out);
    if (weight) text_addf(out, ", weight: %s", weight);
    if (from > 0 || to < 1) {
        text_add(out, ", documents: [");
        text_add_number(out, from);
        text_add(out, ", ");
        text_add_number(out, to);
        text_add(out, "]");
    }
    text_add(out, "}");
}

// Sets our key to the paths of an argument, from share to share of their documents.
static status set_paths(const dialect_reader *r, const char *key, const char *theirs, double from,
                        double to, err *e)
{
    status result = OK;
    text list = {0};
    const yaml_node *n = dialect_value(r, theirs);
    double weight;
    int words = 0, numbers = 0;
    for (const yaml_node *c = n->first; c; c = c->next, words++) {
        if (c->kind != NODE_SCALAR)
            return dialect_refuse(r, theirs, e, "found a list in a list; valid: words");
        if (words % 2 == 0 && text_to_double(c->scalar, &weight)) numbers++;
    }
    const bool weighted = words > 1 && words % 2 == 0 && numbers * 2 == words;
    if (!weighted && words != 1)
        return dialect_refuse(r, theirs, e,
                              "found %d words; valid: one prefix of token shards, or a weight "
                              "before each of several",
                              words);
    for (const yaml_node *c = n->first; c; c = c->next) {
        const char *share = weighted ? c->scalar : NULL;
        if (weighted) c = c->next;
        if (share && text_to_double(share, &weight) && weight == 0) continue;
        add_part(c->scalar, share, from, to, &list);
    }
    if (!list.bytes) return dialect_refuse(r, theirs, e, "found no weight above 0");
    text_add(&list, "]");
    TRY(text_check(&list, e));
    TRY(dialect_set(r, key, list.chars, theirs, NULL, e));
done:
    text_clear(&list);
    return result;
}

static status finish_evaluation(const dialect_reader *r, bool has_valid, err *e)
{
    status result = OK;
    int64_t every = 0, iters = 100;
    dialect_count(r, "eval_interval", &every);
    dialect_count(r, "eval_iters", &iters);
    if (!has_valid || iters == 0) every = 0;
    TRY(dialect_set_count(r, "train.eval_every", every, "eval_interval", NULL, e));
    if (every)
        TRY(dialect_remark_on(r, "eval_iters", false, e,
                              "each evaluation reads the same samples, from the beginning of "
                              "data.valid"));
done:
    return result;
}

status megatron_finish_data(const dialect_reader *r, err *e)
{
    status result = OK;
    megatron_splits splits = {.end = {1, 1, 1}};
    const bool mock = dialect_is_on(r, "mock_data");
    const char *train = dialect_value(r, "data_path") ? "data_path" : "train_data_path";
    const char *valid = dialect_value(r, "data_path") ? "data_path" : "valid_data_path";
    const bool apart = !dialect_value(r, "data_path");
    bool has_valid = mock || dialect_value(r, valid);
    if (mock) {
        TRY(dialect_set(r, "data.train", "mock", "mock_data", NULL, e));
        TRY(dialect_set(r, "data.valid", "mock", "mock_data", NULL, e));
    } else if (dialect_value(r, train)) {
        if (!apart) TRY(read_splits(r, &splits, e));
        TRY(set_paths(r, "data.train", train, 0, splits.end[0], e));
        has_valid = has_valid && (apart || splits.end[1] > splits.end[0]);
        if (has_valid)
            TRY(set_paths(r, "data.valid", valid, apart ? 0 : splits.end[0],
                          apart ? 1 : splits.end[1], e));
        TRY(dialect_set(r, "data.order", "megatron", train,
                        "the samples of GPTDataset, in its order", e));
        if (dialect_value(r, "test_data_path") || (!apart && splits.end[1] < 1))
            TRY(dialect_remark_on(r, apart ? "test_data_path" : "split", true, e,
                                  "no test set is evaluated at the end of a run; valid: trireme "
                                  "eval"));
    }
    TRY(finish_evaluation(r, has_valid, e));
done:
    return result;
}

status megatron_finish_checkpoints(const dialect_reader *r, err *e)
{
    status result = OK;
    int64_t every = 0;
    double keep = -1;
    const char *save = dialect_text(r, "save"), *load = dialect_text(r, "load");
    const char *interval =
        dialect_value(r, "persistent_save_interval") ? "persistent_save_interval" : "save_interval";
    if (load && (!save || strcmp(load, save) != 0))
        return dialect_refuse(r, "load", e,
                              "found %.*s; checkpoints of Megatron-LM are not read; valid: the "
                              "folder of --save, from which a run resumes by itself",
                              TEXT_CUT(load, 200));
    if (load && dialect_is_on(r, "finetune"))
        return dialect_refuse(r, "finetune", e,
                              "valid: model.path, a HuggingFace folder with the weights");
    if (load)
        TRY(dialect_remark_on(r, "load", false, e,
                              "a run resumes from its newest checkpoint in train.out by itself"));
    if (save) dialect_count(r, interval, &every);
    TRY(dialect_set_count(r, "train.save_every", every, save ? interval : "save", NULL, e));
    dialect_number(r, "most_recent_k", &keep);
    TRY(dialect_set_count(r, "train.keep", keep > 0 && keep < 1e9 ? (int64_t)keep : 0,
                          "most_recent_k", NULL, e));
done:
    return result;
}
