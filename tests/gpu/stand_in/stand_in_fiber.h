// stand_in_fiber.h -- fibers: stacks, and the switch from one to another. stand_in_block.cpp calls it. It
// does not know what runs on a stack.
#ifndef TRIREME_TESTS_STAND_IN_FIBER_H
#define TRIREME_TESTS_STAND_IN_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

// The sanitizer's frames are larger.
#if defined(__SANITIZE_ADDRESS__)
enum { FIBER_STACK_BYTES = 512 * 1024 };
#else
enum { FIBER_STACK_BYTES = 64 * 1024 };
#endif

// Memory for a fiber, above a page that traps.
struct fiber_stack {
    unsigned char *memory; // FIBER_STACK_BYTES
    size_t guard_bytes;    // below it
    size_t unused;         // bytes at its top
};

// Stacks with different numbers begin at different lines of a cache, or its sets would be too few for the
// threads of a block.
fiber_stack fiber_stack_open(size_t number);
void fiber_stack_close(fiber_stack *s);
bool fiber_stack_guards(const fiber_stack *s, const void *p);

// Where a fiber, or the thread that runs fibers, goes on.
struct fiber_context {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t user;
#endif
    const void
        *bottom; // of its stack, for the sanitizer; known after the first switch away from a thread
    size_t bytes;
    void *fake_stack;
};

// Makes a context that calls entry(), which never returns, on the stack.
void fiber_prepare(fiber_context *c, const fiber_stack *s, void (*entry)());
// The first call on a new stack: completes the switch from `from`.
void fiber_entered(fiber_context *from);
// Goes from the running context to another. With `ends` nothing returns to the running one.
void fiber_switch(fiber_context *from, fiber_context *to, bool ends);

#endif
