// policy.c -- the table of policies and their aliases. See policy.h.
#include "parallel/policy.h"

#include <strings.h>

static const policy ddp = {"ddp", WHOLE, PARTIAL, WHOLE};

static const struct alias {
    const char *word;
    const policy *means;
} aliases[] = {
    {"ddp", &ddp},
    {"dp", &ddp},
    {"NO_SHARD", &ddp},
    {"zero0", &ddp},
    {"DistributedDataParallel", &ddp},
    {"MirroredStrategy", &ddp},
};

enum { ALIASES = sizeof aliases / sizeof *aliases };

const policy *policy_find(const char *word)
{
    for (size_t i = 0; i < ALIASES; i++)
        if (strcasecmp(word, aliases[i].word) == 0) return aliases[i].means;
    return NULL;
}

const char *const *policy_words(size_t *count)
{
    static const char *const words[] = {
        "ddp", "dp", "NO_SHARD", "zero0", "DistributedDataParallel", "MirroredStrategy"};
    _Static_assert(sizeof words / sizeof *words == ALIASES, "one word per alias");
    *count = ALIASES;
    return words;
}
