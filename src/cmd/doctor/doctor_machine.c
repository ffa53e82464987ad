// doctor_machine.c -- finds the file with the thresholds of this type of machine. Called by doctor.c.
#include "base/alloc.h"
#include "base/file.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/facts.h"
#include "device/device.h"

#include <glob.h>
#include <stdlib.h>

// *path is a pattern of the shell for the files of the user's folder; NULL where he has no home.
static status find_pattern(char **path, err *e)
{
    status result = OK;
    text t = {0};
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    *path = NULL;
    if (config && *config)
        text_add(&t, config);
    else if (home && *home)
        text_addf(&t, "%s/.config", home);
    else
        return OK;
    text_add(&t, "/trireme/machines/*.yaml");
    TRY(text_take(&t, path, e));
done:
    text_clear(&t);
    return result;
}

// Every file is read, so that a mistake in one does not wait for its machine.
static status find_fit(const glob_t *found, doctor_machine **out, err *e)
{
    status result = OK;
    char cpu[FACTS_LINE] = "";
    device_description d;
    const bool has_gpu = device_describe("cuda", NULL, &d, NULL) == OK;
    (void)facts_read_value("/proc/cpuinfo", "model name", cpu);
    const doctor_identity i = {
        .gpu = has_gpu ? d.title : "", .gpus = has_gpu ? d.count : 0, .cpu = cpu};
    for (size_t k = 0; k < found->gl_pathc; k++) {
        doctor_machine *m = NULL;
        TRY(doctor_machine_open(found->gl_pathv[k], &m, e));
        if (!*out && doctor_machine_matches(m, &i))
            *out = m;
        else
            doctor_machine_close(m);
    }
done:
    return result;
}

status doctor_machine_find(const char *path, doctor_machine **out, err *e)
{
    status result = OK;
    char *pattern = NULL;
    glob_t found = {0};
    *out = NULL;
    if (path) return doctor_machine_open(path, out, e);
    TRY(find_pattern(&pattern, e));
    if (pattern && glob(pattern, 0, NULL, &found) == 0) TRY(find_fit(&found, out, e));
done:
    globfree(&found);
    free(pattern);
    return result;
}
