// mapping.c -- see mapping.h. Called by world.c and attach.c.
#define _GNU_SOURCE // memfd_create, MAP_FIXED_NOREPLACE
#include "rendezvous/mapping.h"

#include "base/size.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Slots of 8 TiB in the 47 bits of addresses that every process has. The first and the last one hold what the
// system places: the program, its libraries and stacks.
enum { SLOT_BITS = 43, SLOTS = 16, FIRST_SLOT = 1, LAST_SLOT = SLOTS - 2 };

uint32_t comm_mapping_free_slots(void)
{
    uint32_t free = 0;
    char line[512];
    bool begins = true;
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f) return 0;
    for (int i = FIRST_SLOT; i <= LAST_SLOT; i++) free |= UINT32_C(1) << i;
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        const bool is_first = begins; // of the pieces of a long line
        begins = strchr(line, '\n') != NULL;
        if (!is_first || sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
        for (unsigned long i = from >> SLOT_BITS; i <= (to - 1) >> SLOT_BITS && i < SLOTS; i++)
            free &= ~(UINT32_C(1) << i);
    }
    fclose(f);
    return free;
}

#define LEAST ((size_t)64 << 20) // of an arena

static size_t most_bytes(size_t header)
{
    const size_t all = 4 * (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = all < (size_t)16 << 30 ? (size_t)16 << 30 : all;
    return header + (size_t)size_min((int64_t)bytes, INT64_C(1) << (SLOT_BITS - 1));
}

static status open_file(comm_mapping *m, err *e)
{
    m->fd = memfd_create("trireme-world", MFD_CLOEXEC);
    return m->fd >= 0 ? OK : err_errno(e, "cannot make memory that ranks share");
}

// A file that grows beyond the limit of ulimit -f would end the process.
static bool resize_file(int fd, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) return false;
    return ftruncate(fd, (off_t)bytes) == 0;
}

static bool map(comm_mapping *m, size_t bytes, void *address)
{
    const int flags = m->fd >= 0 ? MAP_FIXED_NOREPLACE : MAP_ANONYMOUS;
    void *memory =
        mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags, m->fd, 0);
    if (memory == MAP_FAILED) return false;
    if (address && memory != address) { // a kernel before 4.17 takes the address for a hint
        munmap(memory, bytes);
        errno = EEXIST;
        return false;
    }
    m->memory = memory;
    m->bytes = bytes;
    return true;
}

static bool map_in_slots(comm_mapping *m, size_t bytes, uint32_t slots)
{
    if (m->fd < 0) return map(m, bytes, NULL);
    if (!resize_file(m->fd, bytes)) return false;
    for (int i = FIRST_SLOT; i <= LAST_SLOT; i++)
        if ((slots >> i & 1) && map(m, bytes, (char *)((uintptr_t)i << SLOT_BITS))) return true;
    return false;
}

status comm_mapping_open(size_t header, bool has_arena, uint32_t slots, comm_mapping *out, err *e)
{
    status result = OK;
    const size_t least = header + (has_arena ? LEAST : 0);
    size_t bytes = has_arena ? most_bytes(header) : header;
    *out = (comm_mapping){.fd = -1};
    if (slots) TRY(open_file(out, e));
    while (!map_in_slots(out, bytes, slots)) {
        bytes /= 2;
        if (bytes < least)
            FAIL(E_IO, "cannot map %zu MiB of shared memory: see the limits that ulimit -v%s shows",
                 least >> 20, slots ? " and ulimit -f" : "");
    }
done:
    if (result != OK) comm_mapping_close(out);
    return result;
}

status comm_mapping_attach(int fd, void *address, size_t bytes, comm_mapping *out, err *e)
{
    status result = OK;
    *out = (comm_mapping){.fd = fd};
    if (!map(out, bytes, address))
        result = err_errno(e, "cannot map %zu MiB of memory that ranks share at %p", bytes >> 20,
                           address);
    comm_mapping_seal(out);
    return result;
}

void comm_mapping_seal(comm_mapping *m)
{
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}

void comm_mapping_close(comm_mapping *m)
{
    if (m->memory) munmap(m->memory, m->bytes);
    m->memory = NULL;
    comm_mapping_seal(m);
}
