// runtime_protect.cc -- when device memory is accessible in the CUDA runtime's stand-in, and what is said of a
// fault. Running work may use the memory that its device may use. While no work runs, nobody may.
#include "runtime_state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

stand_in_where where;
struct sigaction before[2];
const int SIGNALS[2] = {SIGSEGV, SIGBUS};

void handle(int signal, siginfo_t *info, void *)
{
    stand_in_fault(info->si_addr);
    // None of ours: the handler before gets the fault when the instruction runs again.
    sigaction(signal, &before[signal == SIGBUS], nullptr);
}

// Test frameworks replace handlers, so every call looks again.
void install()
{
    for (int i = 0; i < 2; i++) {
        struct sigaction now, own = {};
        own.sa_sigaction = handle;
        own.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigaction(SIGNALS[i], nullptr, &now);
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle) continue;
        before[i] = now;
        sigaction(SIGNALS[i], &own, nullptr);
    }
}

// The end of the stack of a fiber must not be what the handler stands on.
struct fault_stack {
    void *memory = nullptr;
    ~fault_stack()
    {
        if (!memory) return;
        stack_t off = {};
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        free(memory);
    }
};
thread_local fault_stack stack_of_thread;

const char *who(char *text, size_t room)
{
    const char *name = stand_in::running_name();
    if (!name) return "the host";
    if (where)
        where(text, room);
    else
        snprintf(text, room, "%s", name);
    return text;
}

} // namespace

namespace stand_in
{

static void protect(const block &b, int protection)
{
    if (mprotect(b.pages, b.page_bytes, protection) != 0)
        stand_in_die("mprotect refused %zu bytes", b.page_bytes);
}

static bool is_of_device(const block &b)
{
    return b.kind == block_kind::DEVICE || b.kind == block_kind::IMPORT;
}

void open_memory(int device)
{
    process &p = the();
    if (p.open_for == device && p.blocks_open == p.blocks_now) return;
    for (const block *b : p.usable)
        protect(*b, is_visible_to(*b, device) ? PROT_READ | PROT_WRITE : PROT_NONE);
    p.open_for = device;
    p.blocks_open = p.blocks_now;
}

void close_memory()
{
    process &p = the();
    if (p.open_for < 0) return;
    for (const block *b : p.usable) protect(*b, PROT_NONE);
    p.open_for = -1;
}

// The block in whose pages, or next to which, an address lies: an overrun goes to the block before it.
static const block *block_near(const char *address)
{
    if (const block *b = find_block(address)) return b;
    auto after = the().blocks.upper_bound((uintptr_t)address);
    if (after != the().blocks.begin()) {
        const block &b = std::prev(after)->second;
        if (address < b.pages + b.page_bytes + PAGE) return &b;
    }
    if (after != the().blocks.end() && address >= after->second.pages - PAGE) return &after->second;
    return nullptr;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

void stand_in_set_where(stand_in_where fn)
{
    where = fn;
}

void stand_in_watch_faults(void)
{
    const size_t bytes = 64 * 1024;
    if (!stack_of_thread.memory) {
        stack_t now;
        sigaltstack(nullptr, &now);
        stack_t own = {};
        own.ss_sp = stack_of_thread.memory = malloc(bytes);
        own.ss_size = bytes;
        if (own.ss_sp) sigaltstack(&own, nullptr);
    }
    install();
}

bool stand_in_fault(const void *address)
{
    char text[256];
    guard g(the().mutex, std::defer_lock);
    const bool locked = g.try_lock(); // else this thread may hold it; the process ends anyway
    const block *b = block_near((const char *)address);
    if (locked) g.unlock();
    if (!b) return true;
    const char *subject = who(text, sizeof text);
    const ptrdiff_t offset = (const char *)address - b->start;
    if (!b->live)
        stand_in_die("%s uses %p, in an allocation of %zu bytes that was freed", subject, address,
                     b->bytes);
    if (offset < 0 || (size_t)offset >= b->bytes)
        stand_in_die("%s uses byte %td of an allocation of %zu bytes", subject, offset, b->bytes);
    if (!is_of_device(*b)) return true;
    if (!running_name())
        stand_in_die("the host dereferences device memory: byte %td of an allocation of %zu bytes "
                     "of device %d",
                     offset, b->bytes, b->device);
    stand_in_die("%s uses memory of device %d, to which its device has no access", subject,
                 b->device);
}
}
