// debug.c -- see debug.h.
#include "config/debug.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_word(const char *variable, const char *word)
{
    const char *value = getenv(variable);
    return value && strcasecmp(value, word) == 0;
}

static bool is_info(void)
{
    return is_word("NCCL_DEBUG", "INFO") || is_word("NCCL_DEBUG", "TRACE") ||
           is_word("TORCH_DISTRIBUTED_DEBUG", "INFO") ||
           is_word("TORCH_DISTRIBUTED_DEBUG", "DETAIL") || is_word("TORCH_CPP_LOG_LEVEL", "INFO");
}

// Returns whether a list of NCCL_DEBUG_SUBSYS chooses the subsystem. Words that are not known choose nothing.
static bool chooses(const char *list, const char *subsystem)
{
    const bool others = *list == '^';
    bool found = false;
    for (const char *word = list + others; *word && !found;) {
        const size_t bytes = strcspn(word, ",");
        found = (bytes == strlen(subsystem) && strncasecmp(word, subsystem, bytes) == 0) ||
                (bytes == 3 && strncasecmp(word, "ALL", bytes) == 0);
        word += bytes + (word[bytes] == ',');
    }
    return found != others;
}

bool debug_says(debug_kind kind)
{
    static const char *const subsystems[] = {
        [DEBUG_INIT] = "INIT", [DEBUG_NET] = "NET", [DEBUG_ENV] = "ENV"};
    const char *list = getenv("NCCL_DEBUG_SUBSYS");
    if (kind == DEBUG_VERSION)
        return is_word("NCCL_DEBUG", "VERSION") || is_word("NCCL_DEBUG", "INFO") ||
               is_word("NCCL_DEBUG", "TRACE");
    return is_info() && (!list || !*list || chooses(list, subsystems[kind]));
}
