// spans.c -- makes, writes and reads the record of a rank (spans.h).
#include "base/spans.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char MAGIC[8] = {'T', 'R', 'M', 'S', 'P', 'A', 'N', '1'};
enum { FIRST_BUCKET_BITS = 10, PART_ALIGN = 64 };

const char *spans_phase_word(spans_phase p)
{
#define WORD_OF(NAME, word) [PHASE_##NAME] = word,
    static const char *const words[] = {SPANS_PHASE_LIST(WORD_OF)};
#undef WORD_OF
    return words[p];
}

const char *spans_memory_word(spans_memory m)
{
    static const char *const words[] = {
        [MEMORY_OF_WEIGHTS] = "weights",     [MEMORY_OF_GRADIENTS] = "gradients",
        [MEMORY_OF_OPTIMIZER] = "optimizer", [MEMORY_OF_ACTIVATIONS] = "activations",
        [MEMORY_OF_WORKSPACE] = "workspace", [MEMORY_OF_COMM] = "communication",
        [MEMORY_OF_OTHER] = "other"};
    return words[m];
}

int spans_bucket_of(int64_t ns)
{
    const uint64_t units = ns > 0 ? (uint64_t)ns >> FIRST_BUCKET_BITS : 0;
    const int bucket = units ? 64 - __builtin_clzll(units) : 0;
    return bucket < SPANS_BUCKETS ? bucket : SPANS_BUCKETS - 1;
}

int64_t spans_bucket_begin(int bucket)
{
    return bucket > 0 ? (int64_t)1 << (FIRST_BUCKET_BITS + bucket - 1) : 0;
}

// ---- The file's parts

// Sets where each part lies, from rows, ring and ranks, and the bytes of all.
static void place_parts(spans_head *h)
{
    h->head_bytes = sizeof *h;
    h->rows_at = size_align(sizeof *h, PART_ALIGN);
    h->waits_at = size_align(h->rows_at + h->rows * sizeof(spans_row), PART_ALIGN);
    h->steps_at = size_align(h->waits_at + (uint64_t)h->ranks * sizeof(int64_t), PART_ALIGN);
    h->ring_at = size_align(h->steps_at + h->kept * sizeof(spans_step), PART_ALIGN);
    h->bytes = h->ring_at + h->ring * sizeof(span);
}

static void find_parts(spans *s, void *memory, const spans_head *checked)
{
    char *first = memory;
    s->head = memory;
    s->rows = (spans_row *)(void *)(first + checked->rows_at);
    s->waits = (int64_t *)(void *)(first + checked->waits_at);
    s->steps = (spans_step *)(void *)(first + checked->steps_at);
    s->ring = (span *)(void *)(first + checked->ring_at);
    s->row_count = checked->rows;
    s->step_count = checked->kept;
    s->ring_count = checked->ring;
    s->rank_count = checked->ranks;
    s->bytes = (size_t)checked->bytes;
}

// ---- The writer

static status make_folder_of(const char *path, err *e)
{
    status result = OK;
    char *folder = NULL;
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return OK;
    TRY(alloc_zeroed(&folder, (size_t)(slash - path) + 1, 1, "a path", e));
    memcpy(folder, path, (size_t)(slash - path));
    TRY(file_make_directories(folder, e));
done:
    free(folder);
    return result;
}

// A reader of an older file of this name keeps what it has mapped.
static status make_file(const char *path, uint64_t bytes, void **memory, err *e)
{
    status result = OK;
    int fd = -1;
    TRY(make_folder_of(path, e));
    unlink(path);
    TRY(file_create_zeros(path, bytes, &fd, e));
    close(fd);
    fd = open(path, O_RDWR | O_CLOEXEC); // a mapping for writing also reads
    if (fd < 0) FAIL(E_IO, "%s: cannot open it", path);
    *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*memory == MAP_FAILED) result = err_errno(e, "%s: cannot map it", path);
done:
    if (fd >= 0) close(fd);
    return result;
}

static uint32_t ring_of(uint32_t least)
{
    uint32_t ring = 1024;
    while (ring < least && ring < SPANS_MOST_RING) ring *= 2;
    return ring;
}

status spans_create(const char *path, const spans_head *head, const spans_row *rows, uint32_t count,
                    spans_room room, spans **out, err *e)
{
    status result = OK;
    spans *s = NULL;
    void *memory;
    spans_head h;
    memcpy(&h, head, sizeof h);
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    h.version = SPANS_VERSION;
    h.rows = count;
    h.kept = room.steps;
    h.ring = ring_of(room.ring);
    place_parts(&h);
    if (count > SPANS_MOST_ROWS || !room.steps)
        FAIL(E_INTERNAL, "%s: %u rows, %u steps", path, count, room.steps);
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a record of spans", e));
    TRY(make_file(path, h.bytes, &memory, e));
    find_parts(s, memory, &h);
    memcpy(s->rows, rows, count * sizeof *rows);
    memcpy(s->head, &h, sizeof h);
    atomic_store(&s->head->running, -1);
    atomic_store(&s->head->updated_ns, clock_ns());
    *out = s;
    s = NULL;
done:
    free(s);
    return result;
}

void spans_add(spans *s, const span *x)
{
    const uint64_t n = atomic_load_explicit(&s->head->spans, memory_order_relaxed);
    spans_row *row = &s->rows[x->row];
    s->ring[n & (s->ring_count - 1)] = *x;
    atomic_store_explicit(&s->head->spans, n + 1, memory_order_release);
    row->count++;
    row->sum_ns += (uint64_t)x->duration_ns;
    row->waited_ns += (uint64_t)x->waited_ns;
    if ((uint64_t)x->duration_ns > row->max_ns) row->max_ns = (uint64_t)x->duration_ns;
    row->bucket[spans_bucket_of(x->duration_ns)]++;
    // The wait of an instruction is that of its calls.
    if (row->kind == SPANS_CALL && x->last >= 0 && x->last < s->rank_count)
        s->waits[x->last] += x->waited_ns;
}

void spans_add_step(spans *s, const spans_step *x)
{
    const uint64_t n = atomic_load_explicit(&s->head->steps, memory_order_relaxed);
    s->steps[n % s->step_count] = *x;
    atomic_store_explicit(&s->head->steps, n + 1, memory_order_release);
    atomic_store_explicit(&s->head->updated_ns, clock_ns(), memory_order_release);
}

void spans_finish(spans *s)
{
    if (!s) return;
    atomic_store(&s->head->updated_ns, clock_ns());
    atomic_store(&s->head->ended, 1);
    spans_close(s);
}

void spans_close(spans *s)
{
    if (!s) return;
    munmap(s->head, s->bytes);
    free(s);
}

// ---- Readers

// The head says where its parts lie; they must lie where this version puts them, inside the file.
static status check_head(const char *path, const spans_head *h, uint64_t bytes, err *e)
{
    spans_head expected;
    if (bytes < sizeof *h || memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
        return err_set(e, E_USAGE, "%s: not a record of spans", path);
    if (h->version != SPANS_VERSION)
        return err_set(e, E_USAGE, "%s: version %u of the format; this program reads version %d",
                       path, h->version, SPANS_VERSION);
    memcpy(&expected, h, sizeof expected);
    const bool sizes = h->rows <= SPANS_MOST_ROWS && h->kept && h->kept <= SPANS_MOST_RING &&
                       h->ring && h->ring <= SPANS_MOST_RING && !(h->ring & (h->ring - 1)) &&
                       h->ranks > 0 && h->ranks < 1 << 24 && h->rank >= 0 && h->rank < h->ranks;
    if (sizes) place_parts(&expected);
    if (!sizes || expected.rows_at != h->rows_at || expected.ring_at != h->ring_at ||
        expected.waits_at != h->waits_at || expected.steps_at != h->steps_at ||
        expected.bytes != h->bytes || h->bytes > bytes)
        return err_set(e, E_USAGE, "%s: damaged: its sizes do not fit its %llu bytes", path,
                       (unsigned long long)bytes);
    return OK;
}

static bool ends(const char *chars, size_t room)
{
    return memchr(chars, 0, room) != NULL;
}

static status check_rows(const char *path, const spans *s, err *e)
{
    const spans_head *h = s->head;
    bool good = ends(h->host, sizeof h->host) && ends(h->boot, sizeof h->boot) &&
                ends(h->place, sizeof h->place) && ends(h->device, sizeof h->device);
    for (uint32_t i = 0; good && i < s->row_count; i++) {
        const spans_row *r = &s->rows[i];
        good = ends(r->name, sizeof r->name) && ends(r->group, sizeof r->group) && r->kind >= 0 &&
               r->kind < SPANS_KINDS && r->phase >= 0 && r->phase < SPANS_PHASES &&
               r->stream >= -1 && r->stream <= 2 && r->parent >= -1 &&
               r->parent < (int32_t)s->row_count && r->peer < s->rank_count;
    }
    return good ? OK : err_set(e, E_USAGE, "%s: damaged: a row is not valid", path);
}

status spans_open(const char *path, spans **out, err *e)
{
    status result = OK;
    spans *s = NULL;
    file_map map = {.ptr = NULL};
    spans_head head;
    TRY(alloc_zeroed(&s, 1, sizeof *s, "a record of spans", e));
    TRY(file_map_open(path, &map, e));
    memset(&head, 0, sizeof head);
    if (map.bytes >= sizeof head) memcpy(&head, map.ptr, sizeof head);
    TRY(check_head(path, &head, map.bytes, e));
    // Mapped as shared memory, which its writer changes.
    void *memory = mmap(NULL, (size_t)head.bytes, PROT_READ, MAP_SHARED, map.fd, 0);
    if (memory == MAP_FAILED) FAIL(E_IO, "%s: cannot map it", path);
    find_parts(s, memory, &head);
    result = check_rows(path, s, e);
    if (result != OK) munmap(memory, (size_t)head.bytes);
    if (result != OK) goto done;
    *out = s;
    s = NULL;
done:
    file_unmap(&map);
    free(s);
    return result;
}

size_t spans_read(const spans *s, uint64_t *from, span *out, size_t most)
{
    const uint64_t end = atomic_load_explicit(&s->head->spans, memory_order_acquire);
    uint64_t first = *from;
    size_t count = 0;
    if (end > s->ring_count && first < end - s->ring_count) first = end - s->ring_count;
    while (count < most && first + count < end) {
        out[count] = s->ring[(first + count) & (s->ring_count - 1)];
        count++;
    }
    atomic_thread_fence(memory_order_acquire);
    // The writer may be about to write the span behind its last one.
    const uint64_t now = atomic_load_explicit(&s->head->spans, memory_order_relaxed) + 1;
    const uint64_t oldest = now > s->ring_count ? now - s->ring_count : 0;
    const size_t lost = oldest <= first          ? 0
                        : oldest - first < count ? (size_t)(oldest - first)
                                                 : count;
    memmove(out, out + lost, (count - lost) * sizeof *out);
    count -= lost;
    // A row that a damaged file names is nobody's.
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (out[i].row < s->row_count) out[kept++] = out[i];
    *from = first + lost + count;
    return kept;
}

bool spans_read_step(const spans *s, uint64_t n, spans_step *out)
{
    const uint64_t end = atomic_load_explicit(&s->head->steps, memory_order_acquire);
    if (n >= end || n + s->step_count < end + 1) return false;
    *out = s->steps[n % s->step_count];
    atomic_thread_fence(memory_order_acquire);
    return n + s->step_count >= atomic_load_explicit(&s->head->steps, memory_order_relaxed) + 1;
}
