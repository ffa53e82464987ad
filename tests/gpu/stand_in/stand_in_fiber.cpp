// stand_in_fiber.cpp -- stacks and the switch between them: a few instructions on x86-64, ucontext
// elsewhere. AddressSanitizer is told of every switch.
#include "stand_in_fiber.h"

#include "stand_in_block.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

fiber_stack fiber_stack_open(size_t number)
{
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
    void *p =
        mmap(nullptr, guard + FIBER_STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) stand_in_broken("the machine has no memory for the stack of a thread");
    unsigned char *memory = (unsigned char *)p + guard;
    if (mprotect(memory, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
        stand_in_broken("the machine has no memory for the stack of a thread");
    return {memory, guard, number * 7 % 64 * 64};
}

void fiber_stack_close(fiber_stack *s)
{
    munmap(s->memory - s->guard_bytes, s->guard_bytes + FIBER_STACK_BYTES);
}

bool fiber_stack_guards(const fiber_stack *s, const void *p)
{
    return p < s->memory && p >= s->memory - s->guard_bytes;
}

// ---- The sanitizer

#if defined(__SANITIZE_ADDRESS__)
static void leave(fiber_context *from, const fiber_context *to, bool ends)
{
    __sanitizer_start_switch_fiber(ends ? nullptr : &from->fake_stack, to->bottom, to->bytes);
}
static void arrive(fiber_context *self, fiber_context *from)
{
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self ? self->fake_stack : nullptr, &bottom, &bytes);
    from->bottom = bottom;
    from->bytes = bytes;
}
static void fresh(const fiber_stack *s)
{
    __asan_unpoison_memory_region(s->memory, FIBER_STACK_BYTES);
}
void fiber_entered(fiber_context *from)
{
    arrive(nullptr, from);
}
#else
static void leave(fiber_context *, const fiber_context *, bool)
{
}
static void fresh(const fiber_stack *)
{
}
void fiber_entered(fiber_context *)
{
}
#endif

// ---- The switch

#if defined(__x86_64__)

// Saves what a call preserves, and the stack pointer in *from; goes on at the stack pointer `to`.
extern "C" void stand_in_switch_stacks(void **from, void *to);
asm(R"(
.text
.p2align 4
.hidden stand_in_switch_stacks
.globl stand_in_switch_stacks
.type stand_in_switch_stacks, @function
stand_in_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size stand_in_switch_stacks, . - stand_in_switch_stacks
)");

void fiber_prepare(fiber_context *c, const fiber_stack *s, void (*entry)())
{
    fresh(s);
    void **top = (void **)(s->memory + FIBER_STACK_BYTES - s->unused);
    // The entry finds the stack as after a call: its own return address is none.
    *--top = nullptr;
    *--top = (void *)entry;
    for (int i = 0; i < 6; i++) *--top = nullptr; // the saved registers
    *c = {top, s->memory, FIBER_STACK_BYTES, nullptr};
}

static void go(fiber_context *from, fiber_context *to)
{
    stand_in_switch_stacks(&from->stack_pointer, to->stack_pointer);
}

#else

void fiber_prepare(fiber_context *c, const fiber_stack *s, void (*entry)())
{
    fresh(s);
    getcontext(&c->user);
    c->user.uc_stack.ss_sp = s->memory;
    c->user.uc_stack.ss_size = FIBER_STACK_BYTES;
    c->user.uc_link = nullptr;
    makecontext(&c->user, entry, 0);
    c->bottom = s->memory;
    c->bytes = FIBER_STACK_BYTES;
    c->fake_stack = nullptr;
}

static void go(fiber_context *from, fiber_context *to)
{
    swapcontext(&from->user, &to->user);
}

#endif

void fiber_switch(fiber_context *from, fiber_context *to, bool ends)
{
    leave(from, to, ends);
    go(from, to);
#if defined(__SANITIZE_ADDRESS__)
    fiber_context other; // the stack of whoever came back is known to its owner
    arrive(from, &other);
#endif
}
