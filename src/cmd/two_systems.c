// two_systems.c -- divides the arguments of a command that takes another system's options. See two_systems.h. It knows no
// system's options.
#include "cmd/two_systems.h"

#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void command_args_clear(command_args *a)
{
    free(a->ours);
    free(a->theirs);
    *a = (command_args){.ours = NULL};
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && strchr("0123456789.", word[1]) == NULL;
}

// Returns whether an option is a key of the job, "--train.steps", or a flag of `train`.
static bool is_ours(const char *word)
{
    static const char *const FLAGS[] = {"--resume", "--overwrite", "--quiet", "--json"};
    const size_t bytes = strcspn(word, "=");
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (strlen(FLAGS[i]) == bytes && strncmp(word, FLAGS[i], bytes) == 0) return true;
    return memchr(word, '.', bytes) != NULL;
}

// Takes the value of --config at argv[*i]: the text behind "=", or the next argument.
static status take_config(int argc, char **argv, int *i, command_args *out, err *e)
{
    const char *equals = strchr(argv[*i], '=');
    out->config = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    return out->config && *out->config ? OK : err_set(e, E_USAGE, "--config: needs a value (FILE)");
}

status command_args_divide(int argc, char **argv, command_args *out, err *e)
{
    status result = OK;
    bool ours = false;
    TRY(alloc_zeroed(&out->ours, (size_t)argc + 2, sizeof *out->ours, "arguments", e));
    TRY(alloc_zeroed(&out->theirs, (size_t)argc + 2, sizeof *out->theirs, "arguments", e));
    out->ours[out->our_count++] = argv[0];
    for (int i = 1; i < argc; i++) {
        const bool option = is_option(argv[i]);
        if (option && strncmp(argv[i], "--config", strcspn(argv[i], "=")) == 0 &&
            strcspn(argv[i], "=") == strlen("--config")) {
            TRY(take_config(argc, argv, &i, out, e));
            continue;
        }
        if (option) ours = is_ours(argv[i]);
        if (ours)
            out->ours[out->our_count++] = argv[i];
        else
            out->theirs[out->their_count++] = argv[i];
    }
done:
    return result;
}
