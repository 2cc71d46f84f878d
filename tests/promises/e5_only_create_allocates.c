/* SPDX-License-Identifier: MIT
 *
 * E5: only `_create` allocates. If one of its allocations fails it returns TLC_ERR_NOMEM and frees the others. All
 * other functions of the exchange work when there is no memory at all, with tlc_exchange_config.alloc and without.
 */
#include "../support/exchange_run.h"
#include "../support/no_memory.h"
#include <math.h>

enum { WORKERS = 3, CONV = 1 };

/* ---- every function ---------------------------------------------------------------------------------------------- */

#define OK(f, call) STATUS(f, call, TLC_OK)
#define STATUS(f, call, want)                                                                                          \
    do {                                                                                                               \
        tlc_status got_;                                                                                               \
        FLEET_CALL(f, got_ = (call));                                                                                  \
        require_status_is(#call, got_, want, __FILE__, __LINE__);                                                      \
    } while (0)

/* What all objects have. Its state is saved and loaded. */
static void use_member(fleet *f, member m)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_part part = {.struct_size = sizeof part};
    size_t size, written, parts;

    FLEET_CALL(f, size = member_state_size(m));
    uint8_t *state = bytes(size);
    const tlc_message saved = {state, size};
    OK(f, MEMBER(m, state_save, state, size, &written));
    OK(f, MEMBER(m, state_load, &saved, 1));
    STATUS(f, MEMBER(m, state_load, &saved, 0), TLC_ERR_PARAM);
    OK(f, MEMBER(m, residual_scale, 0.5f));
    STATUS(f, MEMBER(m, residual_scale, INFINITY), TLC_ERR_PARAM);
    OK(f, m.rank     ? tlc_allreduce_set_codec(m.rank, CONV, "sbc", "onebit")
          : m.worker ? tlc_worker_set_codec(m.worker, CONV, "sbc")
                     : tlc_server_set_codec(m.server, CONV, "sbc"));
    OK(f, MEMBER(m, stats, &stats));
    OK(f, member_ask_outcome(m, 0, &outcome));
    FLEET_CALL(f, parts = member_parts(m));
    if (parts)
        OK(f, member_ask_part(m, 0, &part));
    FLEET_CALL(f, (void)member_step(m));
    free(state);
}

static void use_worker(fleet *f, uint32_t w)
{
    float *momentum[TENSORS];
    member m = f->worker[w];

    for (size_t t = 0; t < TENSORS; t++)
        momentum[t] = floats(f->tensors[t].n);
    OK(f, member_mask(m, momentum));
    for (size_t t = 0; t < TENSORS; t++)
        free(momentum[t]);
}

/* A push that is not answered: the step is cancelled, or the worker joins. */
static void give_up(fleet *f, uint32_t w)
{
    member m = f->worker[w];
    uint64_t taken[3] = {0};

    STATUS(f, fleet_push_one(f, w), TLC_ERR_ORDER);
    if (m.rank)
        OK(f, tlc_allreduce_cancel(m.rank));
    else
        OK(f, tlc_worker_join(m.worker, member_step(m) + 1, taken));
}

static void use_again(fleet *f)
{
    tlc_message kept;
    uint64_t step;

    for (uint32_t o = 0; o < f->lanes; o++) {
        if (f->cfg.servers) {
            OK(f, tlc_server_again(f->owner[o].server, 1, &kept));
            OK(f, tlc_server_taken(f->owner[o].server, 1, &step));
            FLEET_CALL(f, (void)tlc_server_ready(f->owner[o].server));
        } else
            OK(f, tlc_allreduce_again(f->worker[o].rank, 1, &kept));
    }
}

/* Steps of which the second fails, or goes on without a worker. */
static void use(fleet *f)
{
    const float bad = NAN;

    fleet_step(f, 1);
    require_pulled(f, TLC_OK);
    use_again(f);
    f->delta = fleet_half;
    for (uint32_t w = 0; w < f->workers; w++)
        use_worker(f, w);
    fleet_gradients(f, 2);
    memcpy(f->grad[CONV], &bad, dtype_size[f->cfg.dtype]);
    fleet_push(f);
    fleet_reduce(f);
    fleet_pull(f);
    require_pulled(f, f->cfg.servers ? TLC_OK : TLC_ERR_STEP);
    fleet_gradients(f, 3);
    for (uint32_t w = 0; w < f->workers; w++)
        use_member(f, f->worker[w]);
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        use_member(f, f->owner[i]);
    fleet_push(f);
    for (uint32_t w = 0; w < f->workers; w++)
        give_up(f, w);
}

static tlc_exchange_config configuration(fleet_kind kind, size_t turn)
{
    tlc_exchange_config cfg = fleet_config(kind, WORKERS, small_tensors);

    cfg.push = at.codec = codecs[turn % codec_count].text;
    cfg.pull = codecs[turn * 3 % codec_count].text;
    cfg.reserve = reserve_all();
    cfg.dtype = at.dtype = TLC_F32;
    cfg.sum = (int)(turn % 2);
    return cfg;
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

TEST(e5_allocator)
{
    for (size_t turn = 0; turn < codec_count; turn += quick() ? 11 : 1)
        FOR_EACH_KIND(kind) {
            counter count = {.left = SIZE_MAX};
            tlc_exchange_config cfg = configuration(kind, turn);
            fleet f;
            cfg.alloc = (tlc_allocator){counted_alloc, counted_free, &count};
            fleet_open(&f, &cfg, small_tensors, 0);
            size_t made = count.made;
            count.left = 0;
            use(&f);
            require(count.made == made && count.freed == 0);
            fleet_close(&f);
            require(count.made == made && count.freed == made);
        }
}

static void alone(fleet *f, int before)
{
    (void)f;
    if (before) {
        starve(0);
        return;
    }
    feed();
    require(memory.asked == 0);
}

TEST(e5_every_call)
{
    for (size_t turn = 0; turn < codec_count; turn += quick() ? 11 : 1)
        FOR_EACH_KIND(kind) {
            tlc_exchange_config cfg = configuration(kind, turn);
            fleet f;
            cfg.parallel = starved_runner(&runners[turn % runner_count]);
            fleet_open(&f, &cfg, small_tensors, 0);
            f.around = alone;
            use(&f);
            fleet_close(&f);
        }
}

/* Large tensors, so that there are tasks. */
TEST(e5_tasks)
{
    tlc_tensor tensors[TENSORS];

    memcpy(tensors, large_tensors, sizeof tensors);
    tensors[3].n = 150000;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = configuration(kind, 0);
        fleet f;
        cfg.workers = 2;
        cfg.parallel = starved_runner(&runners[1 + (size_t)kind % (runner_count - 1)]);
        fleet_open(&f, &cfg, tensors, 0);
        f.around = alone;
        most_tasks = 0;
        use(&f);
        require(most_tasks > 1);
        fleet_close(&f);
    }
}

typedef enum memory_kind { MALLOC, ALLOCATOR, ALLOCATOR_ONCE, MEMORY_KINDS } memory_kind;

/* One object, of which `left` allocations succeed and then no more, or all but one. Returns the status. */
static tlc_status try_to_make(fleet *f, const tlc_exchange_config *cfg, int server, size_t left, memory_kind kind)
{
    int theirs = kind != MALLOC;
    counter count = {.left = left, .once = kind == ALLOCATOR_ONCE, .starved = theirs};
    tlc_exchange_config with = *cfg;
    void *const other = &count;
    member m = {other, other, other}, made = {NULL, NULL, NULL};
    tlc_status status;

    if (theirs)
        with.alloc = (tlc_allocator){counted_alloc, counted_free, &count};
    starve(theirs ? 0 : left);
    status = fleet_make(f, &with, 0, server, &m);
    feed();
    require(!theirs || memory.asked == 0);
    require(status || !(theirs ? count.refused : memory.asked > left)); /* it has all that it asked for */
    if (status)
        require((void *)m.rank == other && (void *)m.worker == other && (void *)m.server == other);
    else if (server)
        made.server = m.server;
    else if (cfg->servers)
        made.worker = m.worker;
    else
        made.rank = m.rank;
    starve(0);
    member_destroy(made);
    feed();
    require(count.made == count.freed && memory.live == 0);
    return status;
}

/* The k-th allocation fails, for k = 1, 2, ... until the object is made. */
TEST(e5_no_memory)
{
    for (size_t turn = 0; turn < codec_count; turn += quick() ? 20 : 5)
        FOR_EACH_KIND(kind)
            for (int way = 0; way < 2 * MEMORY_KINDS; way++) {
                tlc_exchange_config cfg = configuration(kind, turn);
                int server = way / MEMORY_KINDS;
                fleet f;
                if (server && !cfg.servers)
                    continue;
                fleet_open(&f, &cfg, small_tensors, way % 2);
                tlc_status status = TLC_ERR_NOMEM;
                size_t k;
                for (k = 0; status; k++) {
                    at.i = k;
                    status = try_to_make(&f, &cfg, server, k, (memory_kind)(way % MEMORY_KINDS));
                    require(status == TLC_OK || status == TLC_ERR_NOMEM);
                }
                require(k > 5);
                fleet_close(&f);
            }
}

/* What is refused frees all that was taken by then. */
TEST(e5_refused)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, WORKERS, small_tensors);
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 0);
        for (int server = 0; server < (cfg.servers ? 2 : 1); server++) {
            const tlc_tensor good = f.tensors[TENSORS - 1];
            tlc_tensor *last = &f.tensors[TENSORS - 1];
            last->pull = "4lc";
            require_status(try_to_make(&f, &cfg, server, SIZE_MAX, server ? ALLOCATOR : MALLOC), TLC_ERR_PARAM);
            *last = good;
            last->name = f.tensors[0].name;
            require_status(try_to_make(&f, &cfg, server, SIZE_MAX, server ? ALLOCATOR : MALLOC), TLC_ERR_PARAM);
            *last = good;
            last->n = SIZE_MAX / 2;
            last->push = "raw"; /* four bytes each */
            require_status(try_to_make(&f, &cfg, server, SIZE_MAX, server ? ALLOCATOR : MALLOC), TLC_ERR_SIZE);
            *last = good;
            cfg.reserve = "3lc;;";
            require_status(try_to_make(&f, &cfg, server, SIZE_MAX, server ? ALLOCATOR : MALLOC), TLC_ERR_PARAM);
            cfg.reserve = NULL;
            require_status(try_to_make(&f, &cfg, server, SIZE_MAX, server ? ALLOCATOR : MALLOC), TLC_OK);
        }
        fleet_close(&f);
    }
}
