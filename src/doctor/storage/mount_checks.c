// mount_checks.c -- what the file system of a run's folder (train.out) keeps and promises: memory, networks,
// object stores, and mount options. Types and options are data. The table of this room calls the probes.
#include "doctor/storage/storage.h"

#include "base/text.h"
#include "doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

static const char *const IN_MEMORY[] = {"tmpfs", "ramfs", NULL};
// Network file systems that are not made for clusters. Lustre, GPFS, BeeGFS, WekaFS and CephFS are.
static const char *const OF_NETWORKS[] = {"cifs",
                                          "smb3",
                                          "smbfs",
                                          "9p",
                                          "afs",
                                          "fuse.sshfs",
                                          "fuse.davfs",
                                          "fuse.curlftpfs",
                                          "davfs",
                                          "vboxsf",
                                          "fuse.vmhgfs-fuse",
                                          NULL};
static const char *const OF_OBJECTS[] = {
    "fuse.s3fs",    "s3fs",       "fuse.goofys", "fuse.gcsfuse",  "fuse.mountpoint-s3",
    "fuse.rclone",  "fuse.riofs", "fuse.ossfs",  "fuse.blobfuse", "fuse.blobfuse2",
    "fuse.geesefs", "fuse.cosfs", "fuse.yas3fs", "fuse.azcopy",   NULL};

static bool is_among(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return true;
    return false;
}

static bool is_nfs(const storage_mount *m)
{
    return strcmp(m->type, "nfs") == 0 || strcmp(m->type, "nfs4") == 0;
}

// The option that a mount of these has first; NULL: none.
static const char *first_option(const storage_mount *m, const char *const *options)
{
    for (; *options; options++)
        if (storage_has_option(m, *options)) return *options;
    return NULL;
}

static void find(doctor_findings *out, const storage_folder *f, const char *option)
{
    doctor_find(out, "where", f->shown, "mount", f->mount->point, "type", f->mount->type, "source",
                f->mount->source, "option", option ? option : "", NULL);
}

static status look_at_type(const doctor_context *c, doctor_findings *out, const char *const *types,
                           err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    TRY(storage_folder_find(c, out, &f, &known, e));
    if (known && is_among(f.mount->type, types)) find(out, &f, NULL);
    storage_folder_close(&f);
done:
    return result;
}

static status look_at_options(const doctor_context *c, doctor_findings *out, bool of_nfs,
                              const char *const *options, err *e)
{
    status result = OK;
    storage_folder f;
    bool known;
    TRY(storage_folder_find(c, out, &f, &known, e));
    if (known && of_nfs && !is_nfs(f.mount)) {
        doctor_skip(out, "%s is not on NFS", f.shown);
    } else if (known) {
        const char *option = first_option(f.mount, options);
        if (option) find(out, &f, option);
    }
    storage_folder_close(&f);
done:
    return result;
}

status storage_probe_memory(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_type(c, out, IN_MEMORY, e);
}

status storage_probe_network(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_type(c, out, OF_NETWORKS, e);
}

status storage_probe_objects(const doctor_context *c, doctor_findings *out, err *e)
{
    return look_at_type(c, out, OF_OBJECTS, e);
}

status storage_probe_nfs_soft(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const options[] = {"soft", "softerr", "softreval", NULL};
    return look_at_options(c, out, true, options, e);
}

status storage_probe_nfs_locks(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const options[] = {"nolock", "local_lock=all", "local_lock=flock", NULL};
    return look_at_options(c, out, true, options, e);
}

status storage_probe_nfs_attributes(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const options[] = {"noac", "actimeo=0", "lookupcache=none", NULL};
    return look_at_options(c, out, true, options, e);
}

status storage_probe_sync(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const options[] = {"sync", "dirsync", NULL};
    return look_at_options(c, out, false, options, e);
}

status storage_probe_barriers(const doctor_context *c, doctor_findings *out, err *e)
{
    static const char *const options[] = {"nobarrier", "barrier=0", "data=writeback", NULL};
    return look_at_options(c, out, false, options, e);
}

// Each file or folder that a job reads and that lies on an object store or a slow network file system.
status storage_probe_data_network(const doctor_context *c, doctor_findings *out, err *e)
{
    status result = OK;
    storage_folder f = {0};
    if (!c->paths || !c->paths[0]) doctor_skip(out, "no data files are given");
    for (int i = 0; c->paths && c->paths[i]; i++) {
        TRY(storage_folder_open(c, c->paths[i], &f, e));
        const char *type = f.mount ? f.mount->type : "";
        if (is_among(type, OF_OBJECTS) || is_among(type, OF_NETWORKS)) find(out, &f, NULL);
        storage_folder_close(&f);
    }
done:
    return result;
}
