/* SPDX-License-Identifier: MIT */
#include "tasks.h"
#include "../support/float_modes.h"

tlc_isa isa_of(const run *r, unsigned role, uint32_t rank)
{
    tlc_isa isa = (tlc_isa)below(drawn(r->play.tasks, ABOUT_ISA, role, rank, 0), TLC_ISA_NEON + 1);

    return tlc_isa_supported(isa) ? isa : TLC_ISA_AUTO;
}

/* Each time another start and direction; then all even tasks before the odd ones, or not. */
static void run_tasks(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    run *r = opaque;
    uint64_t draw = drawn(r->play.tasks, ABOUT_TASKS, count, r->task_runs++, 0);
    size_t start = count ? (size_t)below(draw, count) : 0, stride = draw >> 63 ? 2 : 1;

    for (size_t lane = 0; lane < stride; lane++)
        for (size_t i = lane; i < count; i += stride) {
            size_t next = (i + start) % count;
            task(arg, draw >> 62 & 1 ? count - 1 - next : next);
        }
}

tlc_parallel tasks_of(run *r, unsigned role, uint32_t rank)
{
    if (drawn(r->play.tasks, ABOUT_TASKS, role, rank, 1) & 1)
        return (tlc_parallel){NULL, NULL};
    return (tlc_parallel){run_tasks, r};
}

void begin_mode(run *r)
{
    uint64_t draw = drawn(r->play.tasks, ABOUT_MODE, r->calls++, 0, 0);

    r->mode = MODE_DEFAULT;
    if (draw >> 61)
        return;
    r->mode = (int)below(draw, MODE_COUNT);
    (void)mode_enter((float_mode)r->mode);
    r->mode_bits = mode_read();
}

tlc_status end_mode(run *r, tlc_status status)
{
    if (r->mode == MODE_DEFAULT)
        return status;
    int same_mode = mode_read() == r->mode_bits;
    mode_leave();
    must(r, E7, same_mode, "a call changed the float mode of the caller, %s", mode_name[r->mode]);
    return status;
}
