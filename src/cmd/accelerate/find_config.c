// find_config.c -- finds the default file of HuggingFace Accelerate. See accelerate.h.
#include "cmd/accelerate/accelerate.h"

#include "base/file.h"
#include "base/text.h"

#include <stdlib.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

// Appends the folder; ~ at its beginning is the user's.
static void add_folder(text *out)
{
    const char *home = variable("HOME"), *cache = variable("XDG_CACHE_HOME"),
               *hub = variable("HF_HOME");
    const char *folder = hub ? hub : cache ? cache : "~/.cache";
    if (*folder == '~' && (folder[1] == '/' || !folder[1])) text_add(out, home ? home : "");
    text_add(out, *folder == '~' ? folder + 1 : folder);
    text_add(out, hub ? "/accelerate" : "/huggingface/accelerate");
}

status accelerate_find_config(char **out, err *e)
{
    status result = OK;
    static const char *const NAMES[] = {"default_config.yaml", "default_config.json"};
    text path = {0};
    *out = NULL;
    for (int i = 0; i < 2 && !*out; i++) {
        text_clear(&path);
        add_folder(&path);
        text_addf(&path, "/%s", NAMES[i]);
        TRY(text_check(&path, e));
        if (file_exists(path.chars)) TRY(text_take(&path, out, e));
    }
done:
    text_clear(&path);
    return result;
}
