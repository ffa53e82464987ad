// case_orders.cpp -- on the stand-in, every launch of a case runs its blocks and threads in another order.
#include "stand_in_block.h"

struct kernel_call;
extern "C" void case_before_launch(int repetition, struct kernel_call *call, void *workspace);

void case_before_launch(int repetition, struct kernel_call *, void *)
{
    stand_in_set_order((uint64_t)repetition);
}
