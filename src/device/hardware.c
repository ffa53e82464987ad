// hardware.c -- see hardware.h. Reads /sys and /dev. It knows no driver and no library.
#include "device/hardware.h"

#include "base/text.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

static bool is_nvidia(const char *path)
{
    char vendor[16] = "";
    FILE *f = fopen(path, "r");
    if (!f) return false;
    const bool got = fgets(vendor, sizeof vendor, f) != NULL;
    fclose(f);
    return got && strncmp(vendor, "0x10de", 6) == 0;
}

// Returns whether a path matches the pattern below `root` and passes the test. NULL: every path passes.
static bool any_path(const char *root, const char *pattern, bool (*passes)(const char *path))
{
    text full = {0};
    glob_t found = {0};
    bool any = false;
    text_addf(&full, "%s%s", root, pattern);
    if (!full.failed && glob(full.chars, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !any; i++)
            any = !passes || passes(found.gl_pathv[i]);
    globfree(&found);
    text_clear(&full);
    return any;
}

bool hardware_has_nvidia(const char *root)
{
    return any_path(root, "/dev/nvidia[0-9]*", NULL) ||
           any_path(root, "/sys/bus/pci/devices/*/vendor", is_nvidia);
}
