// python_checks.c -- the Python and the PyTorch beside Trireme, by the folders NAME-VERSION.dist-info of their packages: no
// program is started. The table of this room calls the probes, which look only where the user asks for it (--python).
#include "doctor/launch/launch_checks.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_BYTES = 64 };

typedef struct launch_python {
    char torch[VERSION_BYTES], numpy[VERSION_BYTES]; // "": not there
    char cuda[2][16];                                // "cu11" and "cu12", of NVIDIA's packages
} launch_python;

static void take_package(launch_python *p, const char *name)
{
    char version[VERSION_BYTES], cuda[16];
    if (sscanf(name, "torch-%63[^-/]", version) == 1)
        snprintf(p->torch, VERSION_BYTES, "%.*s", (int)strcspn(version, "\n"), version);
    if (sscanf(name, "numpy-%63[^-/]", version) == 1)
        snprintf(p->numpy, VERSION_BYTES, "%s", version);
    const char *kind = strncmp(name, "nvidia_", 7) == 0 ? strstr(name, "_cu1") : NULL;
    if (!kind || sscanf(kind, "_%15[a-z0-9]", cuda) != 1) return;
    if (!*p->cuda[0])
        strcpy(p->cuda[0], cuda);
    else if (strcmp(p->cuda[0], cuda) != 0)
        strcpy(p->cuda[1], cuda);
}

static status read_folder(const doctor_context *c, const char *folder, launch_python *p, err *e)
{
    status result = OK;
    char **names = NULL;
    int count = 0;
    TRY(doctor_names(c, folder, &names, &count, e));
    for (int i = 0; i < count; i++) {
        char *end = strstr(names[i], ".dist-info");
        if (!end) continue;
        *end = 0;
        take_package(p, names[i]);
    }
done:
    doctor_names_free(names, count);
    return result;
}

// Packages lie in PREFIX/lib/python3.N/site-packages, where PREFIX/bin/python3 is; Debian's in dist-packages.
static status read_packages(const doctor_context *c, const char *python, launch_python *p, err *e)
{
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    status result = OK;
    char prefix[300], lib[320], folder[700], **names = NULL;
    int count = 0;
    snprintf(prefix, sizeof prefix, "%s", python);
    for (int up = 0; up < 2; up++)
        if (strrchr(prefix, '/')) *strrchr(prefix, '/') = 0;
    snprintf(lib, sizeof lib, "%s/lib", prefix);
    TRY(doctor_names(c, lib, &names, &count, e));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < 2 && strncmp(names[i], "python3", 7) == 0; k++) {
            snprintf(folder, sizeof folder, "%s/%s/%s", lib, names[i], kinds[k]);
            TRY(read_folder(c, folder, p, e));
        }
done:
    doctor_names_free(names, count);
    return result;
}

// *python is NULL where the check is skipped. The caller frees it.
static status open_python(const doctor_context *c, doctor_findings *out, char **python,
                          launch_python *p, err *e)
{
    status result = OK;
    *python = NULL;
    *p = (launch_python){0};
    if (!c->python) {
        doctor_skip(out, "Python is looked at with --python");
        return OK;
    }
    TRY(launch_find_program(c, "python3", python, e));
    if (*python) TRY(read_packages(c, *python, p, e));
done:
    if (result != OK) {
        free(*python);
        *python = NULL;
    }
    return result;
}

// The same for probes that need PyTorch.
static status open_torch(const doctor_context *c, doctor_findings *out, char **python,
                         launch_python *p, err *e)
{
    status result = open_python(c, out, python, p, e);
    if (result != OK || !c->python || *p->torch) return result;
    doctor_skip(out, "the python3 of PATH has no PyTorch");
    free(*python);
    *python = NULL;
    return OK;
}

status launch_probe_python(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *python;
    launch_python p;
    TRY(open_python(c, out, &python, &p, e));
    if (c->python && !python) doctor_find(out, "where", "python3", NULL);
    if (*p.torch) doctor_fact(out, "torch", p.torch);
    if (*p.numpy) doctor_fact(out, "numpy", p.numpy);
    free(python);
done:
    return result;
}

status launch_probe_torch_cpu(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *python = NULL, **names = NULL;
    int gpus = 0;
    launch_python p;
    TRY(open_torch(c, out, &python, &p, e));
    TRY(doctor_names(c, "/proc/driver/nvidia/gpus", &names, &gpus, e));
    if (python && gpus > 0 && strstr(p.torch, "+cpu"))
        doctor_find(out, "where", python, "version", p.torch, NULL);
done:
    doctor_names_free(names, gpus);
    free(python);
    return result;
}

status launch_probe_torch_cuda(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *python;
    launch_python p;
    TRY(open_torch(c, out, &python, &p, e));
    if (python && *p.cuda[1])
        doctor_find(out, "where", python, "first", p.cuda[0], "second", p.cuda[1], NULL);
    free(python);
done:
    return result;
}

status launch_probe_torch_numpy(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    char *python;
    int major_number = 0, minor_number = 0;
    launch_python p;
    TRY(open_torch(c, out, &python, &p, e));
    const bool is_old = python && sscanf(p.torch, "%d.%d", &major_number, &minor_number) == 2 &&
                        (major_number < 2 || (major_number == 2 && minor_number < 3));
    if (is_old && atoi(p.numpy) >= 2)
        doctor_find(out, "where", python, "torch", p.torch, "numpy", p.numpy, NULL);
    free(python);
done:
    return result;
}
