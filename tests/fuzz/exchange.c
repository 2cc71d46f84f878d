/* SPDX-License-Identifier: MIT
 *
 * The input is a run of the exchange: a configuration, then a program of calls, in any order, and of accidents.
 * Messages and states are altered, with a right checksum too, cut, lost, swapped, and come again. A call that fails
 * must change nothing. Messages for others must be refused, and the right ones be taken afterwards. The same messages
 * must make the same results. In the end all must be able to go on.
 */
#include "exchange_calls.h"

enum { MOST_OPERATIONS = 48, MOST_STATES = 6, MOST_INPUT = 2000 };

/* A state that was saved. */
typedef struct saved {
    letter state;
    party_role role;
    uint32_t index;
} saved;

typedef struct program {
    run run;
    saved saved[MOST_STATES];
    size_t states;
    int ended; /* a state has led to the end of the steps, where nobody goes on */
    fuzz_input in;
} program;

static unsigned below(program *p, unsigned count)
{
    return take_byte(&p->in) % count;
}

static party *anyone(program *p)
{
    return &p->run.party[below(p, (unsigned)p->run.parties)];
}

static party *pusher(program *p)
{
    return &p->run.party[below(p, p->run.plan.cfg.workers)];
}

/* NULL: there are none. */
static party *server(program *p)
{
    const uint32_t servers = p->run.plan.cfg.servers;

    return servers ? run_server(&p->run, below(p, servers)) : NULL;
}

static values take_values(program *p)
{
    static const double weights[] = {1, 1, 1, 1, 0.5, 3.7, 1, 1, 0x1p50, 0x1p-50, 1, 0};
    const unsigned how = take_byte(&p->in);

    return (values){(value_way)(how % WAYS), take_byte(&p->in), weights[how / WAYS % COUNT(weights)]};
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void push(program *p)
{
    party *from = pusher(p);
    (void)run_push(&p->run, from, take_values(p));
}

static void deliver(program *p)
{
    party *to = server(p);
    if (to)
        (void)run_deliver(&p->run, to, below(p, p->run.plan.cfg.workers));
}

static void reduce(program *p)
{
    party *by = p->run.plan.cfg.servers ? server(p) : pusher(p);
    (void)run_reduce(&p->run, by);
}

static void answer(program *p)
{
    party *by = p->run.plan.cfg.servers ? server(p) : pusher(p);
    const unsigned with_delta = below(p, 2);
    (void)run_answer(&p->run, by, (int)with_delta, take_values(p));
}

static void pull(program *p)
{
    (void)run_pull(&p->run, pusher(p));
}

static void whole_step(program *p)
{
    (void)run_round(&p->run, take_values(p));
}

static void again(program *p)
{
    const party *from = p->run.plan.cfg.servers ? server(p) : pusher(p);
    run_again(&p->run, from, party_step(from) + 1 - below(p, 8));
}

static void join(program *p)
{
    party *worker = pusher(p);
    const unsigned how = take_byte(&p->in);
    if (worker->role == WORKER)
        (void)run_join(&p->run, worker, how == 255 ? LAST_STEP + 1 : tlc_worker_step(worker->it) - 1 + (how & 7),
                       how >> 3 & 1);
}

static void cancel(program *p)
{
    party *rank = pusher(p);
    if (rank->role == RANK)
        (void)run_cancel(rank);
}

static void restart(program *p)
{
    run_restart(&p->run, anyone(p));
}

static void set_codec(program *p)
{
    const party *of = anyone(p);
    const unsigned which = below(p, MOST_TENSORS + 2);
    const size_t tensor = which > MOST_TENSORS ? TLC_ALL : which;
    const char *codec = codecs[below(p, (unsigned)codec_count)].text;
    const uint64_t before = party_digest(of);
    const tlc_status status = of->role == RANK     ? tlc_allreduce_set_codec(of->it, tensor, codec, codec)
                              : of->role == WORKER ? tlc_worker_set_codec(of->it, tensor, codec)
                                                   : tlc_server_set_codec(of->it, tensor, codec);

    fuzz_fold_number(status);
    require(status == TLC_OK || party_digest(of) == before);
}

static void scale(program *p)
{
    static const uint32_t factors[] = {0x3f800000, 0x3f000000, 0, 0xbf800000, 0x40000000, 0x7f000000, 0x7f800000};
    const party *of = anyone(p);
    const unsigned which = below(p, COUNT(factors));
    const uint64_t before = party_digest(of);
    const tlc_status status = party_scale(of, bits_float(factors[which]));

    fuzz_fold_number(status);
    require(status == TLC_OK || party_digest(of) == before);
    p->run.calm &= which < 4;
}

static void mask(program *p)
{
    const party *of = pusher(p);
    float *momentum[MOST_TENSORS];
    const uint64_t before = party_digest(of);

    for (size_t t = 0; t < p->run.plan.count; t++) {
        const size_t n = p->run.plan.tensor[t].n;
        momentum[t] = floats(n);
        for (size_t i = 0; i < n; i++)
            momentum[t][i] = 1;
    }
    require_status(of->role == RANK ? tlc_allreduce_mask(of->it, momentum) : tlc_worker_mask(of->it, momentum), TLC_OK);
    require(party_digest(of) == before);
    for (size_t t = 0; t < p->run.plan.count; t++) {
        for (size_t i = 0; i < p->run.plan.tensor[t].n; i++)
            require(float_bits(momentum[t][i]) == 0 || momentum[t][i] == 1);
        fuzz_fold(momentum[t], p->run.plan.tensor[t].n, 4);
        free(momentum[t]);
    }
}

/* ---- accidents --------------------------------------------------------------------------------------------------- */

ACCIDENT(splice)
ACCIDENT(splice_frame)
ACCIDENT(swap)
ACCIDENT(bring_old)

static void mend(program *p)
{
    mail_mend(&p->run.mail);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void save(program *p)
{
    const party *of = anyone(p);
    const tlc_message state = party_save(of);
    saved *s = &p->saved[p->states % MOST_STATES];

    fuzz_fold_number(state.len);
    if (!state.len)
        return;
    if (p->run.calm)
        fuzz_fold(state.data, state.len, 1);
    letter_write(&s->state, state, 0, 0);
    s->role = of->role;
    s->index = of->index;
    p->states++;
    free((void *)(uintptr_t)state.data);
}

static void splice_state(program *p)
{
    letter_splice(&p->saved[below(p, MOST_STATES)].state, &p->in);
}

static void load(program *p)
{
    party *into = anyone(p);
    tlc_message states[3];
    const unsigned count = below(p, COUNT(states) + 1);
    const saved *one = NULL;
    int genuine = 1, busy = into->turn != IDLE;

    for (unsigned i = 0; i < count; i++) {
        one = &p->saved[below(p, MOST_STATES)];
        states[i] = letter_message(&one->state);
        genuine &= one->state.genuine;
    }
    const uint64_t before = party_digest(into);
    const tlc_status status = ON(into, state_load, into->it, states, count);
    party_check(into, status, before);
    if (status == TLC_OK) {
        require(!busy);
        p->run.strange = 1;
        p->run.calm &= genuine;
        p->ended = party_step(into) > LAST_STEP / 2;
    }
    if (count == 1 && genuine && one->role == into->role && one->index == into->index) {
        require(status == TLC_OK || status == TLC_ERR_ORDER);
        if (status == TLC_OK)
            party_require_state(into, letter_message(&one->state));
    }
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void (*const operations[])(program *) = {push,  deliver,      reduce,       answer,  pull,      whole_step,
                                                again, join,         cancel,       restart, set_codec, scale,
                                                mask,  splice,       splice_frame, swap,    bring_old, mend,
                                                save,  splice_state, load};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    program p = {.states = 0, .in = {data, data + size}};

    if (size > MOST_INPUT)
        return 0;
    at = (place){.note = "operation"};
    run_open(&p.run, &p.in);
    at.codec = p.run.plan.cfg.push;
    for (; at.i < MOST_OPERATIONS && p.in.at < p.in.end && !p.ended; at.i++)
        operations[below(&p, COUNT(operations))](&p);
    if (!p.ended)
        run_finish(&p.run);
    run_close(&p.run);
    for (size_t i = 0; i < MOST_STATES; i++)
        letter_free(&p.saved[i].state);
    return 0;
}
