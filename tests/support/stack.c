/* SPDX-License-Identifier: MIT */
#include "stack.h"
#include "support.h"

enum {
    DEPTH = 160 * 1024, /* bytes that are painted */
    GAP = 1024,         /* between the caller's frame and the paint: for stack_paint itself */
    PAINT = 0xa5
};

static uint8_t *low, *end; /* the paint */
static size_t most;

static int measures(void)
{
    static int answer = -1;

    if (answer < 0) {
        const char *preload = getenv("LD_PRELOAD");
        answer = STACK_MEASURED && !(preload && strstr(preload, "vgpreload"));
    }
    return answer;
}

/* Linux lets a stack grow when it is used, and threads have theirs from the start. */
__attribute__((noinline)) static void grow(void)
{
    volatile uint8_t room[DEPTH + 2 * GAP];

    for (size_t i = sizeof room; i > 0; i -= i < 4096 ? i : 4096)
        room[i - 1] = 0;
}

/* The lowest place that is not painted, or `end`. */
static uint8_t *first_written(void)
{
    static uint8_t page[4096];
    uint8_t *p = low;

    if (!page[0])
        memset(page, PAINT, sizeof page);
    while ((size_t)(end - p) >= sizeof page && memcmp(p, page, sizeof page) == 0)
        p += sizeof page;
    while (p < end && *p == PAINT)
        p++;
    return p;
}

__attribute__((noinline)) void stack_paint(void)
{
    uint8_t *here = __builtin_frame_address(0);

    if (!measures())
        return;
    if (!low) {
        grow();
        low = here - DEPTH;
    }
    end = here - GAP;
    __asm__("" : "+r"(low), "+r"(end)); /* compilers know no object there */
    uint8_t *from = first_written();
    memset(from, PAINT, (size_t)(end - from));
}

__attribute__((noinline)) void stack_check(void)
{
    if (!low || !measures())
        return;
    const size_t used = (size_t)(end - first_written()) + GAP;
    if (used > most) {
        most = used;
        print_message("# %zu bytes of stack: %s, %s, %s, n = %zu\n", used, at.codec ? at.codec : "-",
                      tlc_isa_name(at.isa), at.note ? at.note : "-", at.n);
    }
    require(used <= STACK_MOST);
}
