// stand_in_fault.cpp -- names broken rules: of words, of fibers that wait for ever, and of addresses that
// trap while a kernel runs.
#include "stand_in_engine.h"

#include <atomic>
#include <mutex>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

// ---- The seed

static std::atomic<uint64_t> order_now;
static std::once_flag order_read;

static void read_order()
{
    order_now = stand_in_seed();
}

uint64_t stand_in_order()
{
    std::call_once(order_read, read_order);
    return order_now.load(std::memory_order_relaxed);
}

void stand_in_set_order(uint64_t seed)
{
    std::call_once(order_read, read_order);
    order_now = seed;
}

// ---- Messages

// Where the calling thread is, as stand_in_set_where wants it.
static void say_where(char *text, size_t bytes)
{
    const engine *x = engine_now;
    const dim3 b = stand_in_now.block, t = stand_in_now.thread;
    if (!x)
        snprintf(text, bytes, "work of a library");
    else if (x->running < 0)
        snprintf(text, bytes, "kernel %s, block (%u,%u,%u)", x->launch->what, b.x, b.y, b.z);
    else
        snprintf(text, bytes, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", x->launch->what,
                 b.x, b.y, b.z, t.x, t.y, t.z);
}

void stand_in_broken(const char *rule, ...)
{
    char where[200], text[700];
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof text, rule, args);
    va_end(args);
    say_where(where, sizeof where);
    stand_in_die("%s: %s", where, text);
}

// What a fiber does that others wait for.
static void say_state(const fiber *f, char *text, size_t bytes)
{
    const dim3 t = f->thread;
    if (f->state == FIBER_DONE)
        snprintf(text, bytes, "thread (%u,%u,%u) has left the kernel", t.x, t.y, t.z);
    else
        snprintf(text, bytes, "thread (%u,%u,%u) waits in %s (%s:%d)", t.x, t.y, t.z, f->site.word,
                 f->site.file, f->site.line);
}

static bool meets(const fiber *f, const fiber *other)
{
    return other->state == f->state && other->mask == f->mask && other->site.line == f->site.line &&
           other->site.word == f->site.word && other->site.file == f->site.file;
}

// The first fiber that f waits for and that does not come.
static const fiber *missing(const engine *x, int number)
{
    const fiber *f = &x->fibers[(size_t)number];
    const int first = f->state == FIBER_IN_WARP ? engine_warp_start(number) : 0;
    const int count = f->state == FIBER_IN_WARP ? STAND_IN_LANES : (int)x->fibers.size();
    for (int i = 0; i < count; i++) {
        const fiber *other = &x->fibers[(size_t)(first + i)];
        if (f->state == FIBER_AT_BARRIER && other->state != FIBER_AT_BARRIER) return other;
        if (f->state == FIBER_IN_WARP && f->mask >> i & 1 && !meets(f, other)) return other;
    }
    return f;
}

void engine_stuck(engine *x)
{
    char other[400];
    for (size_t i = 0; i < x->fibers.size(); i++) {
        const fiber *f = &x->fibers[i];
        if (f->state == FIBER_DONE) continue;
        x->running = (int)i;
        stand_in_now.thread = f->thread;
        say_state(missing(x, (int)i), other, sizeof other);
        stand_in_broken("it waits for ever in %s (%s:%d), because %s", f->site.word, f->site.file,
                        f->site.line, other);
    }
    stand_in_broken("no thread is left");
}

// ---- Faults

static const int SIGNALS[5] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};

static void name_fault(const engine *x, int signal, const void *p)
{
    const auto *address = (const unsigned char *)p;
    if (signal == SIGILL || signal == SIGTRAP)
        stand_in_broken("it reads or writes at an address that is not aligned to the type");
    if (signal == SIGFPE) stand_in_broken("it divides by zero");
    if (x->running >= 0 && fiber_stack_guards(&x->fibers[(size_t)x->running].stack, p))
        stand_in_broken("it needs more than %d bytes of stack", (int)FIBER_STACK_BYTES);
    if (address >= x->shared_end && address < x->shared_end + engine_shared_guard())
        stand_in_broken("it reads or writes beyond its %zu bytes of shared memory",
                        x->launch->shared_bytes);
    stand_in_fault(p); // memory of the runtime, which says more of it
    stand_in_broken("it reads or writes at %p, which is no memory of the device", p);
}

static void on_fault(int signal, siginfo_t *info, void *)
{
    if (engine_now) name_fault(engine_now, signal, info->si_addr);
    if (signal == SIGSEGV || signal == SIGBUS) stand_in_fault(info->si_addr);
    // Another thread's fault. The instruction runs again, and ends the process.
    ::signal(signal, SIG_DFL);
}

fault_watch::fault_watch()
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    stand_in_watch_faults();
    stand_in_set_where(say_where);
    for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &action, &before[i]);
}

fault_watch::~fault_watch()
{
    for (int i = 0; i < 5; i++) sigaction(SIGNALS[i], &before[i], nullptr);
}
