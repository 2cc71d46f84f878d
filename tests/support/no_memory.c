/* SPDX-License-Identifier: MIT */
#include "no_memory.h"
#include "stack.h"

memory_use memory;

#if defined(_WIN32) /* MinGW's variables of threads call malloc; programs that starve have one thread */
#define OF_THREAD
#else
#define OF_THREAD _Thread_local
#endif
static OF_THREAD int inside; /* a call of the library */

/* Where there are very many calls, the stack of some is measured. */
enum { ALL = 20000, ONE_IN = 64 };
static size_t calls;
static int measured;

void ration(size_t left)
{
    memory.asked = 0;
    memory.left = left;
    measured = 0;
    inside = 1;
}

void starve(size_t left)
{
    const int measures = calls++ < ALL || calls % ONE_IN == 0;

    if (measures)
        stack_paint();
    ration(left);
    measured = measures;
}

void feed(void)
{
    inside = 0;
    if (measured)
        stack_check();
}

static int refused(void)
{
    if (!inside)
        return 0;
    memory.asked++;
    if (!memory.left)
        return 1;
    memory.left--;
    memory.live++;
    return 0;
}

/* ---- what the linker puts in the place of malloc and its kin ----------------------------------------------------- */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void __wrap_free(void *ptr);

/* used: link-time optimisation does not see who calls them */
__attribute__((used)) void *__wrap_malloc(size_t size)
{
    void *p = refused() ? NULL : __real_malloc(size);

    if (inside && p)
        memset(p, 0xd5, size); /* malloc promises no zeros */
    return p;
}

__attribute__((used)) void *__wrap_calloc(size_t count, size_t size)
{
    return refused() ? NULL : __real_calloc(count, size);
}

__attribute__((used)) void *__wrap_realloc(void *ptr, size_t size)
{
    return refused() ? NULL : __real_realloc(ptr, size);
}

__attribute__((used)) void __wrap_free(void *ptr)
{
    if (inside && ptr)
        memory.live--;
    __real_free(ptr);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- an allocator that counts ------------------------------------------------------------------------------------ */

void *counted_alloc(void *opaque, size_t size)
{
    counter *c = opaque;
    size_t asked = memory.asked;

    if (!c->left) {
        c->refused++;
        c->left = c->once ? SIZE_MAX : 0;
        return NULL;
    }
    c->left--;
    c->made++;
    inside = 0;                                /* this is not the library's call of malloc */
    void *p = memset(bytes(size), 0xd5, size); /* malloc promises no zeros */
    inside = c->starved;
    memory.asked = asked;
    return p;
}

void counted_free(void *opaque, void *ptr)
{
    counter *c = opaque;

    require(ptr != NULL);
    c->freed++;
    memory.live += (size_t)c->starved; /* it was not counted when it was taken */
    free(ptr);
}

/* ---- tlc_parallel ------------------------------------------------------------------------------------------------ */

typedef struct handed {
    void (*task)(void *arg, size_t i);
    void *arg;
} handed;

static void run_task(void *arg, size_t i)
{
    const handed *h = arg;

    inside = 1;
    h->task(h->arg, i);
    inside = 0;
}

static void run(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    const tlc_parallel *theirs = opaque;
    handed h = {task, arg};

    inside = 0;
    theirs->run(theirs->opaque, count, run_task, &h);
    inside = 1;
}

tlc_parallel starved_runner(const runner *r)
{
    return r->parallel.run ? (tlc_parallel){run, (void *)(uintptr_t)&r->parallel} : r->parallel;
}
