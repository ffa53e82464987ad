// control.c -- cases with one mistake each, which the runner of cases must report; check.sh expects their
// lines. The mistakes are lies of the describing functions, so the kernels of any device will do.
#include "gpu/cases/case.h"

static int described; // calls of the function of the running case

// y = alpha x, where the call with number `variant` has another alpha. Of a case the first call is for the
// comparison of what must stay, the second for the reference, and each other one for a launch.
static kernel_call other_alpha(space *s, const void *shape)
{
    const int *odd_one = shape;
    const bool lies = described++ % 5 == *odd_one;
    return (kernel_call){.kind = K_ADD,
                         .u.add = {.count = 100,
                                   .a = space_random(s, 100, F32, 1, NULL),
                                   .y = space_array_of(s, 100, F32, "y"),
                                   .alpha = lies ? 1.5f : 1.50001f,
                                   .type = F32}};
}

static kernel_call written_input(space *s, const void *shape)
{
    (void)shape;
    return (kernel_call){.kind = K_FILL,
                         .u.fill = {.dst = space_array_of(s, 100, U8, NULL), .bytes = 100}};
}

static kernel_call one_byte_more(space *s, const void *shape)
{
    (void)shape;
    return (kernel_call){.kind = K_FILL,
                         .u.fill = {.dst = space_array_of(s, 100, F32, "dst"), .bytes = 401}};
}

static kernel_call foreign_pointer(space *s, const void *shape)
{
    static unsigned char elsewhere[100];
    (void)shape, (void)s;
    return (kernel_call){.kind = K_FILL, .u.fill = {.dst = elsewhere, .bytes = 100}};
}

// A kernel that adds up what its workspace holds before anyone has written there.
static bool reads_workspace;

static kernel_call unset_workspace(space *s, const void *shape)
{
    enum { COUNT = BEYOND / sizeof(float) };
    (void)shape;
    return (kernel_call){.kind = K_ADD,
                         .u.add = {.count = COUNT,
                                   .a = space_random(s, COUNT, F32, 1, NULL),
                                   .y = space_array_of(s, COUNT, F32, "y"),
                                   .alpha = 1,
                                   .type = F32}};
}

void case_before_launch(int repetition, kernel_call *call, void *workspace)
{
    (void)repetition;
    if (reads_workspace) call->u.add.a = workspace;
}

void cases_run(case_run *r)
{
    int odd_one = 1;
    case_check(r, other_alpha, &odd_one, "another result");
    odd_one = 4;
    case_check(r, other_alpha, &odd_one, "another third launch");
    case_check(r, written_input, NULL, "a written input");
    case_check(r, one_byte_more, NULL, "a byte outside");
    case_check(r, foreign_pointer, NULL, "a foreign pointer");
    reads_workspace = true;
    case_check(r, unset_workspace, NULL, "an unset workspace");
}
