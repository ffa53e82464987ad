// config.json of a model. What is accepted is written, and reads again as the same model.
#include "fuzz.h"

#include "model/config.h"

#include <stdlib.h>
#include <string.h>

static bool run(const uint8_t *input, size_t bytes)
{
    model_config c, again;
    err e = {.code = OK};
    fuzz_put("config.json", input, bytes);
    status s = model_config_read(fuzz_path(""), &c, &e);
    if (s != OK) {
        fuzz_refused(s, &e);
        return false;
    }
    char *first = NULL;
    FUZZ_CLAIM(model_config_write(&c, "float32", &first, &e) == OK, "%s", e.text);
    fuzz_put("config.json", first, strlen(first));
    s = model_config_read(fuzz_path(""), &again, &e);
    FUZZ_CLAIM(s == OK, "what was written of an accepted config.json is refused: %s", e.text);
    char *second = NULL;
    FUZZ_CLAIM(model_config_write(&again, "float32", &second, &e) == OK, "%s", e.text);
    FUZZ_CLAIM(strcmp(first, second) == 0, "config.json reads as another model: %s", first);
    free(first);
    free(second);
    return true;
}

const fuzz_target fuzz_this = {.run = run};
