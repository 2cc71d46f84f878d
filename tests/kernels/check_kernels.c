/* SPDX-License-Identifier: MIT
 *
 * Every kernel of every ISA that this machine supports against the scalar one, bit for bit: for every length, alignment
 * and kind of input, in buffers that end or begin at a page that faults, with the bytes around the outputs watched. The
 * scalar kernels run in the same buffers, but nothing is there to compare their results with.
 * The kernels are described in check_list.c, the command is in check_main.c.
 */
#include "check.h"
#include "../support/guard.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 65537, CANARY = 128, CANARY_BYTE = 0xca, UNTOUCHED = 0x5a, SWEEP_STEP = 4096 };
enum { AT_END, AT_START, INSIDE };

/* A stream of an operand: what the scalar kernel works on, and where the tested one does. */
typedef struct slot {
    operand of;
    unsigned stream;
    uint8_t *plain;
    guard_buffer guarded;
} slot;

typedef struct check_case {
    const check_kernel *kernel;
    const tlc_kernels *tables;
    const char *isa;
    int kind, place;
    unsigned align, step;
    check_args scalar, tested;
} check_case;

static slot slots[CHECK_SLOTS];
static size_t slot_count;

static void slots_alloc(void)
{
    for (size_t i = 0; i < CHECK_SLOTS; i++) {
        size_t capacity = (LONGEST + CHECK_EXTRA) * sizeof(float);

        slots[i].plain = malloc(capacity);
        if (!slots[i].plain || guard_alloc(&slots[i].guarded, capacity + 2 * CANARY + 64)) {
            fputs("check_kernels: out of memory\n", stderr);
            exit(2);
        }
    }
}

static void slots_describe(const check_kernel *kernel)
{
    slot_count = 0;
    for (size_t i = 0; i < CHECK_OPERANDS && kernel->operand[i].type; i++)
        for (unsigned stream = 0; stream < kernel->operand[i].streams; stream++) {
            slots[slot_count].of = kernel->operand[i];
            slots[slot_count++].stream = stream;
        }
}

/* ---- one failure, told once for each kernel and ISA ---- */

static void tell_case(const check_case *c)
{
    static const char *const places[] = {"before a faulting page", "after a faulting page", "inside"};

    printf("# %s %s: n %zu, %s, %s", c->isa, c->kernel->name, c->scalar.n, c->kernel->kinds[c->kind], places[c->place]);
    if (c->place == INSIDE)
        printf(" (first buffer at %zu mod 64)", (size_t)((uintptr_t)c->tested.p[0] & 63));
    for (size_t i = 0; i < slot_count; i++)
        if (!c->tested.p[i] && slots[i].stream == 0)
            printf(", %s NULL", slots[i].of.name);
    printf(", M %a, K %g, shift %d, run %zu, cut %zu, seed %llu\n", (double)c->scalar.scale, (double)c->scalar.K,
           c->scalar.shift, c->scalar.run, c->scalar.cut, (unsigned long long)check_opt.seed);
}

static uint64_t value_at(const uint8_t *p, size_t at, value_type type)
{
    uint64_t mask;
    uint32_t word;
    uint16_t half;

    if (type == MASK) {
        memcpy(&mask, p + 8 * at, sizeof mask);
        return mask;
    }
    if (type == F32 || type == WORD) {
        memcpy(&word, p + 4 * at, sizeof word);
        return word;
    }
    if (type == HALF) {
        memcpy(&half, p + 2 * at, sizeof half);
        return half;
    }
    return p[at];
}

static void tell_value(const check_case *c, size_t i, size_t at)
{
    value_type type = slots[i].of.type;
    int digits = (int)(2 * type_size(type));

    printf("#   %s", slots[i].of.name);
    if (slots[i].of.streams > 1)
        printf("[%u]", slots[i].stream);
    printf("[%zu] is 0x%0*llx, scalar 0x%0*llx\n", at, digits, (unsigned long long)value_at(c->tested.p[i], at, type),
           digits, (unsigned long long)value_at(c->scalar.p[i], at, type));
}

/* ---- the tested call: a fault is a result ---- */

static int fault_signal;
static uintptr_t fault_address;

#if defined(_WIN32) /* a fault ends the program there */
static void catch_faults(void)
{
}

static int call_tested(const check_case *c, check_result *result)
{
    *result = c->kernel->call(c->tables, &c->tested);
    return 1;
}
#else
static sigjmp_buf fault_return;
static volatile sig_atomic_t fault_expected;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (!fault_expected) {
        (void)signal(number, SIG_DFL);
        return; /* and fault again, for a core file */
    }
    fault_signal = number;
    fault_address = (uintptr_t)info->si_addr;
    siglongjmp(fault_return, 1);
}

static void catch_faults(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

static int call_tested(const check_case *c, check_result *result)
{
    if (sigsetjmp(fault_return, 1)) {
        fault_expected = 0;
        return 0;
    }
    fault_expected = 1;
    *result = c->kernel->call(c->tables, &c->tested);
    fault_expected = 0;
    return 1;
}
#endif

static void tell_fault(const check_case *c)
{
    tell_case(c);
    printf("#   signal %d", fault_signal);
    for (size_t i = 0; i < slot_count; i++) {
        uintptr_t start = (uintptr_t)slots[i].guarded.start, end = (uintptr_t)slots[i].guarded.end;
        size_t page = slots[i].guarded.page;

        if (fault_address >= end && fault_address < end + page)
            printf(": byte %zu past the end of %s[%u]", (size_t)(fault_address - end), slots[i].of.name,
                   slots[i].stream);
        else if (fault_address < start && fault_address >= start - page)
            printf(": byte %zu before the start of %s[%u]", (size_t)(start - fault_address), slots[i].of.name,
                   slots[i].stream);
    }
    printf("\n");
}

/* ---- one case ---- */

static uint8_t *place(const check_case *c, size_t i)
{
    const guard_buffer *b = &slots[i].guarded;
    size_t unit = type_size(slots[i].of.type), offset;

    unit = unit < 4 ? 1 : unit;

    if (c->place == AT_END)
        return guard_at_end(b, c->tested.size[i]);
    if (c->place == AT_START)
        return b->start;
    /* The first buffer walks through all the places in a cache line, the others are somewhere in it. */
    offset = i ? rng_below(64 / unit) : (c->align * 4 + c->step % 4) / unit;
    return b->start + CANARY + offset * unit;
}

/* The watched bytes: [from, p) and [p + size, to). */
static void watched(const check_case *c, size_t i, uint8_t **from, uint8_t **to)
{
    uint8_t *p = c->tested.p[i], *end = p + c->tested.size[i];
    const guard_buffer *b = &slots[i].guarded;

    *from = (size_t)(p - b->start) < CANARY ? b->start : p - CANARY;
    *to = (size_t)(b->end - end) < CANARY ? b->end : end + CANARY;
}

/* Copies what fill made (and what outputs hold before) to its place between watched bytes. */
static void prepare_tested(check_case *c)
{
    uint8_t *from, *to;

    c->tested = c->scalar;
    for (size_t i = 0; i < slot_count; i++) {
        if (!c->scalar.p[i])
            continue;
        c->tested.p[i] = place(c, i);
        watched(c, i, &from, &to);
        memset(from, CANARY_BYTE, (size_t)(to - from));
        memcpy(c->tested.p[i], c->scalar.p[i], c->scalar.size[i]);
    }
}

static int same_values(const check_case *c, size_t i, size_t bytes)
{
    value_type type = slots[i].of.type;

    if (memcmp(c->tested.p[i], c->scalar.p[i], bytes) == 0)
        return 1;
    for (size_t at = 0; at < bytes / type_size(type); at++) {
        uint64_t have = value_at(c->tested.p[i], at, type), want = value_at(c->scalar.p[i], at, type);
        int both_nan = (have & TLC_F32_ABS) > TLC_F32_INF && (want & TLC_F32_ABS) > TLC_F32_INF;

        if (have == want || (c->kernel->flags & ANY_NAN && both_nan))
            continue;
        tell_case(c);
        tell_value(c, i, at);
        return 0;
    }
    return 1;
}

static int untouched_around(const check_case *c, size_t i)
{
    const uint8_t *p = c->tested.p[i], *end = p + c->tested.size[i], *after = end;
    uint8_t *from, *to;

    watched(c, i, &from, &to);
    while (from < p && *from == CANARY_BYTE)
        from++;
    while (after < to && *after == CANARY_BYTE)
        after++;
    if (from == p && after == to)
        return 1;
    tell_case(c);
    printf("#   %s[%u]: byte %zu %s was written\n", slots[i].of.name, slots[i].stream,
           from < p ? (size_t)(p - from) : (size_t)(after - end), from < p ? "before the start" : "past the end");
    return 0;
}

static int same_result(const check_case *c, check_result have, check_result want)
{
    if (c->kernel->flags & MAGNITUDE && have.value[0] >= TLC_F32_INF && want.value[0] >= TLC_F32_INF)
        return 1;
    if (have.value[0] == want.value[0] && have.value[1] == want.value[1])
        return 1;
    tell_case(c);
    printf("#   returned %#llx, %llu; scalar %#llx, %llu\n", (unsigned long long)have.value[0],
           (unsigned long long)have.value[1], (unsigned long long)want.value[0], (unsigned long long)want.value[1]);
    return 0;
}

static int fill(check_case *c)
{
    check_args *a = &c->scalar;

    for (size_t i = 0; i < slot_count; i++) {
        a->p[i] = slots[i].plain;
        a->size[i] = type_bytes(slots[i].of.type, a->n);
        if (slots[i].of.io & OUT)
            memset(a->p[i], UNTOUCHED, a->size[i] + (slots[i].of.io & PREFIX ? CHECK_EXTRA : 0));
    }
    if (!c->kernel->fill(a, c->kind))
        return 0;
    for (size_t i = 0, maybe = 0; i < slot_count; i++)
        if (slots[i].of.io & MAYBE) { /* both, without the first, without the second */
            maybe += slots[i].stream == 0;
            if (c->step % 3 == maybe)
                a->p[i] = NULL;
        }
    return 1;
}

static int check_one(check_case *c)
{
    const tlc_kernels *scalar = tlc_kernels_for(TLC_ISA_SCALAR);
    int compare = c->tables != scalar;
    check_result want = {{0}}, have;

    c->step++;
    if (!fill(c))
        return 1;
    prepare_tested(c);
    if (compare)
        want = c->kernel->call(scalar, &c->scalar);
    if (!call_tested(c, &have)) {
        tell_fault(c);
        return 0;
    }
    if (compare && !same_result(c, have, want))
        return 0;
    for (size_t i = 0; i < slot_count; i++) {
        size_t bytes = slots[i].of.io & PREFIX ? (size_t)want.value[0] : c->scalar.size[i];

        if (!c->scalar.p[i])
            continue;
        if ((compare || !(slots[i].of.io & OUT)) && !same_values(c, i, bytes))
            return 0;
        if (!untouched_around(c, i))
            return 0;
    }
    return 1;
}

/* ---- all cases of a kernel ---- */

/* Every kind at both guards and `aligns` places inside, which differ from length to length; few of each when short. */
static int check_length(check_case *c, size_t n, unsigned aligns, int kinds)
{
    c->scalar.n = n;
    c->scalar.base = rng();
    for (int turn = 0; turn < kinds; turn++)
        for (c->place = AT_END; c->place <= AT_START; c->place++) {
            c->kind = kinds < c->kernel->kind_count ? (int)(c->step / 2) % c->kernel->kind_count : turn;
            if (!check_one(c))
                return 0;
        }
    c->place = INSIDE;
    for (unsigned i = 0; i < aligns; i++) {
        c->align = (i * (16 / aligns) + (unsigned)n) % 16;
        c->kind = (int)(c->step % (unsigned)c->kernel->kind_count);
        if (!check_one(c))
            return 0;
    }
    return 1;
}

static int check_sweep(check_case *c)
{
    uint64_t count = c->kernel->sweep ? c->kernel->sweep() : 0;

    c->kind = 0;
    c->place = INSIDE;
    c->scalar.n = SWEEP_STEP;
    for (c->scalar.base = 0; c->scalar.base < count; c->scalar.base += SWEEP_STEP)
        if (!check_one(c))
            return 0;
    return 1;
}

int check_kernel_isa(const check_kernel *kernel, const tlc_kernels *tables, const char *isa)
{
    static const size_t large[] = {1025, 5003, 1023, 4095, LONGEST}; /* 5003 bytes 255: more than 16 bits can count */
    static const struct {
        size_t lengths, large;
        unsigned aligns;
        int kinds;
    } efforts[] = {{701, 5, 16, 100}, {131, 2, 4, 3}, {71, 0, 2, 1}};
    check_case c = {.kernel = kernel, .tables = tables, .isa = isa};
    int kinds = efforts[check_opt.effort].kinds;

    kinds = kinds < kernel->kind_count ? kinds : kernel->kind_count;
    rng_seed(check_opt.seed);
    slots_describe(kernel);
    for (size_t n = 0; n < efforts[check_opt.effort].lengths; n++)
        if (!check_length(&c, n, efforts[check_opt.effort].aligns, kinds))
            return 0;
    for (size_t i = 0; i < efforts[check_opt.effort].large; i++)
        if (!check_length(&c, large[i], 2, kernel->kind_count))
            return 0;
    return check_sweep(&c);
}

void check_begin(void)
{
    slots_alloc();
    catch_faults();
}
