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

void fiber_prepare(fiber_context *c, const fiber_stack *s, void (*entry)())
{
    fresh(s);
    void **top = (void **)(s->memory + FIBER_STACK_BYTES - s->unused);
    // The entry finds the stack as after a call: its own return address is none.
    *--top = nullptr;
    *--top = (void *)entry;
    *c = {top, s->memory, FIBER_STACK_BYTES, nullptr};
}

// Pushes where it goes on, saves the stack pointer, and jumps to what lies on top of the other stack. No call and no return:
// the processor predicts returns from the calls that it saw, and the lanes of a warp have made the same ones. The function
// that holds this may keep data in the 128 bytes below its stack pointer.
static inline __attribute__((always_inline)) void go(fiber_context *from, fiber_context *to)
{
    void **save = &from->stack_pointer, *other = to->stack_pointer;
    asm volatile("leaq -128(%%rsp), %%rsp\n\t"
                 "pushq %%rbp\n\t"
                 "pushq %%rbx\n\t"
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "movq %%rsp, (%0)\n\t"
                 "movq %1, %%rsp\n\t"
                 "popq %%rax\n\t"
                 "jmp *%%rax\n"
                 "1:\tpopq %%rbx\n\t"
                 "popq %%rbp\n\t"
                 "leaq 128(%%rsp), %%rsp"
                 : "+D"(save), "+S"(other)
                 :
                 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                   "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
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
