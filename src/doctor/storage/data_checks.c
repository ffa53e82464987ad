// data_checks.c -- the files and folders that a job reads: are they there, may they be read, do they hold anything. The table
// of this room calls the probes.
#include "doctor/storage/storage.h"

#include "doctor/doctor.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void data_look(doctor_findings *out, const char *shown, const char *full);

static status look_at_each(const doctor_context *c, doctor_findings *out, data_look *look, err *e)
{
    status result = OK;
    char *full = NULL;
    if (!c->paths || !c->paths[0]) doctor_skip(out, "no data files are given");
    for (int i = 0; c->paths && c->paths[i]; i++) {
        TRY(doctor_path(c, c->paths[i], &full, e));
        look(out, c->paths[i], full);
        free(full);
        full = NULL;
    }
done:
    return result;
}

static void look_for(doctor_findings *out, const char *shown, const char *full)
{
    struct stat info;
    if (stat(full, &info) == 0) return;
    const bool is_link = lstat(full, &info) == 0 && S_ISLNK(info.st_mode);
    doctor_find(out, "where", shown, "problem",
                is_link ? "is a link to something that does not exist" : "does not exist", NULL);
}

static void look_for_rights(doctor_findings *out, const char *shown, const char *full)
{
    struct stat info;
    if (stat(full, &info) != 0) return;
    const bool is_folder = S_ISDIR(info.st_mode);
    if (!is_folder && !S_ISREG(info.st_mode))
        doctor_find(out, "where", shown, "problem", "is no regular file and no folder", NULL);
    else if (access(full, is_folder ? R_OK | X_OK : R_OK) != 0)
        doctor_find(out, "where", shown, "problem", "may not be read by this user", NULL);
}

static void look_for_content(doctor_findings *out, const char *shown, const char *full)
{
    struct stat info;
    if (stat(full, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0)
        doctor_find(out, "where", shown, NULL);
}

status storage_probe_data_missing(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_each(c, out, look_for, e);
}

status storage_probe_data_readable(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_each(c, out, look_for_rights, e);
}

status storage_probe_data_empty(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_each(c, out, look_for_content, e);
}
