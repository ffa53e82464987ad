// facts_python.c -- versions of python3 of PATH and of the packages that people train with beside Trireme. Private to
// `trireme env --python`. Packages are asked for their versions and not imported.
#include "cmd/doctor/facts.h"

#include <stdio.h>
#include <string.h>

static const char COMMAND[] = "python3 -c '\n"
                              "import sys\n"
                              "print(\"python3\", sys.version.split()[0], \"at\", sys.executable)\n"
                              "from importlib.metadata import version\n"
                              "for name in (\"torch\", \"torchvision\", \"deepspeed\", "
                              "\"accelerate\", \"transformers\", \"numpy\", "
                              "\"triton\", \"flash-attn\", \"mpi4py\"):\n"
                              "    try: print(name, version(name))\n"
                              "    except Exception: print(name, \"not installed\")\n"
                              "' 2>/dev/null </dev/null";

void facts_add_python(facts *f)
{
    char line[1024];
    int lines = 0;
    FILE *pipe = popen(COMMAND, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        line[strcspn(line, "\n")] = 0;
        char *const value = strchr(line, ' ');
        if (!value) continue;
        *value = 0;
        facts_put(f, "Python", line, "%s", value + 1);
        lines++;
    }
    if (pipe) pclose(pipe);
    if (!lines) facts_put(f, "Python", "python3", "not found, or it does not run");
}
