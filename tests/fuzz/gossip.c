/* SPDX-License-Identifier: MIT
 *
 * The input is a run of gossip: a graph and a configuration, then a program of calls, in any order, and of accidents.
 * Messages and states are altered or made of bytes of the input, with a right checksum too, cut, lost, swapped, and
 * come again. A call that fails must change nothing. Wrong messages must be refused, and the right ones be taken
 * afterwards. The replicas of a model must be the model, as long as no message was taken that no node has made. In the
 * end all must be able to go on.
 */
#include "gossip_calls.h"

enum { MOST_OPERATIONS = 48, MOST_STATES = 8, MOST_INPUT = 4000 };

typedef struct program {
    run run;
    saved saved[MOST_STATES];
    size_t states;
    fuzz_input in;
} program;

static unsigned below(program *p, unsigned count)
{
    return take_byte(&p->in) % count;
}

static uint32_t anyone(program *p)
{
    return below(p, p->run.nodes);
}

static movement take_movement(program *p)
{
    const unsigned how = take_byte(&p->in);
    movement m = {.way = (value_way)(how % WAYS), .from_mean = how >> 3 & 1, .count = (how >> 4) % 5};

    m.seed = take_byte(&p->in);
    for (size_t i = 0; i < m.count; i++)
        m.given[i] = bits_float(take_number(&p->in, 4));
    return m;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void push(program *p)
{
    const uint32_t i = anyone(p);
    const movement m = take_movement(p);
    run_push(&p->run, i, &m);
}

static void pull(program *p)
{
    (void)run_pull(&p->run, anyone(p));
}

static void whole_step(program *p)
{
    const movement m = take_movement(p);
    run_round(&p->run, &m);
}

static void hello(program *p)
{
    const unsigned how = take_byte(&p->in);
    run_hello(&p->run, how / 2 % p->run.nodes, (int)(how & 1));
}

static void greet(program *p)
{
    const uint32_t i = anyone(p);
    (void)run_greet(&p->run, i, take_byte(&p->in));
}

static void meet(program *p)
{
    run_meet(&p->run, (int)below(p, 2));
}

static void again(program *p)
{
    const uint32_t i = anyone(p);
    run_again(&p->run, i, party_step(&p->run.node[i]) + 1 - below(p, 8));
}

static void lose(program *p)
{
    const uint32_t i = anyone(p);
    run_lose(&p->run, i, below(p, MOST_NODES));
}

static void join(program *p)
{
    const uint32_t i = anyone(p);
    const unsigned how = take_byte(&p->in);
    const uint64_t step = how >> 4 == 15 ? LAST_STEP + (how & 1) : party_step(&p->run.node[i]) - 1 + (how & 7);
    const movement m = how & 8 ? take_movement(p) : (movement){.count = 0};

    run_join(&p->run, i, step, how & 8 ? &m : NULL);
}

static void restart(program *p)
{
    run_restart(&p->run, anyone(p));
}

static void set_codec(program *p)
{
    const unsigned who = below(p, MOST_NODES + 1), which = below(p, MOST_TENSORS + 2);
    const size_t codec = below(p, (unsigned)codec_count);

    for (uint32_t i = 0; i < p->run.nodes; i++)
        if (who == i || who >= p->run.nodes)
            run_set_codec(&p->run, i, which > MOST_TENSORS ? TLC_ALL : which, codec);
}

/* ---- accidents --------------------------------------------------------------------------------------------------- */

ACCIDENT(splice)
ACCIDENT(splice_frame)
ACCIDENT(forge)
ACCIDENT(swap)
ACCIDENT(bring_old)

static void mend(program *p)
{
    mail_mend(&p->run.mail);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static saved *any_saved(program *p)
{
    return &p->saved[below(p, MOST_STATES)];
}

static void save(program *p)
{
    run_save(&p->run, anyone(p), &p->saved[p->states++ % MOST_STATES]);
}

static void splice_state(program *p)
{
    letter_splice(&any_saved(p)->state, &p->in);
}

static void forge_state(program *p)
{
    letter_forge(&any_saved(p)->state, &p->in);
}

static void load(program *p)
{
    const saved *states[MOST_NODES];
    const uint32_t i = anyone(p);
    const size_t count = below(p, MOST_NODES + 1);

    for (size_t s = 0; s < count; s++)
        states[s] = any_saved(p);
    run_load(&p->run, i, states, count);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void (*const operations[])(program *) = {push,         pull,        whole_step, hello,     greet,     meet,
                                                again,        lose,        join,       restart,   set_codec, splice,
                                                splice_frame, forge,       swap,       bring_old, mend,      save,
                                                splice_state, forge_state, load};

/* Nobody goes on at the end of the steps, where a join or a state may lead. */
static int ended(const program *p)
{
    for (uint32_t i = 0; i < p->run.nodes; i++)
        if (party_step(&p->run.node[i]) > LAST_STEP / 2)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    program p = {.states = 0, .in = {data, data + size}};

    if (size > MOST_INPUT)
        return 0;
    at = (place){.note = "operation"};
    run_open(&p.run, &p.in);
    at.codec = p.run.plan.common.cfg.push;
    for (; at.i < MOST_OPERATIONS && p.in.at < p.in.end && !ended(&p); at.i++)
        operations[below(&p, COUNT(operations))](&p);
    if (!ended(&p))
        run_finish(&p.run);
    run_close(&p.run);
    for (size_t i = 0; i < MOST_STATES; i++)
        letter_free(&p.saved[i].state);
    return 0;
}
