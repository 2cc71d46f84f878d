/* SPDX-License-Identifier: MIT
 *
 * The input is a configuration of the exchange, an object, and one to three states, tried with right checksums, too.
 * What is refused must change nothing. Where states are missing, the others are taken all the same. After what is
 * accepted the object must go on, and its own state must make
 * another object the same.
 */
#include "exchange_mail.h"

enum { MOST_STATES = 3, MOST_INPUT = 1 << 16 };

/* Another object takes the state of this one. */
static void same_in_another(const party *p)
{
    const tlc_message state = party_save(p);
    party other;

    fuzz_fold_number(state.len);
    party_open(&other, p->plan, p->role, p->index);
    require_status(ON(&other, state_load, other.it, &state, 1), TLC_OK);
    require(party_step(&other) == party_step(p));
    party_require_state(&other, state);
    party_close(&other);
    free((void *)(uintptr_t)state.data);
}

/* What the residuals are, they are sent or refused, but nobody stops. */
static void goes_on(party *p)
{
    const uint64_t step = party_step(p);
    tlc_message to[MOST_RANKS];
    const void *grads[MOST_TENSORS];
    const tlc_status scaled = party_scale(p, 0.5f);

    fuzz_fold_number(scaled);
    require(scaled == TLC_OK || scaled == TLC_ERR_NONFINITE);
    party_fill(p, DENSE, 1);
    for (size_t t = 0; t < p->plan->count; t++)
        grads[t] = p->grad[t];
    if (p->role == RANK) {
        require_status(tlc_allreduce_push(p->it, grads, 1, to), TLC_OK);
        require_status(tlc_allreduce_cancel(p->it), TLC_OK);
        require(party_step(p) == step + 1);
    } else if (p->role == WORKER) {
        require_status(tlc_worker_push(p->it, grads, 1, to), TLC_OK);
        require_status(tlc_worker_join(p->it, step + 1, NULL), step < LAST_STEP ? TLC_OK : TLC_ERR_PARAM);
    }
}

static tlc_status try_states(const exchange_plan *plan, party_role role, uint32_t index, const letter *letters,
                             size_t count)
{
    tlc_message states[MOST_STATES];
    party p;

    party_open(&p, plan, role, index);
    for (size_t i = 0; i < count; i++)
        states[i] = letter_message(&letters[i]);
    const uint64_t before = party_digest(&p);
    tlc_status status = ON(&p, state_load, p.it, states, count);
    party_check(&p, status, before);
    if (status == TLC_ERR_PARAM) { /* perhaps states are missing */
        status = ON(&p, state_salvage, p.it, states, count);
        party_check(&p, status, before);
    }
    if (!status) {
        require(party_step(&p) - 1 < LAST_STEP);
        same_in_another(&p);
        goes_on(&p);
    }
    party_close(&p);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    letter letters[MOST_STATES] = {{.bytes = NULL}};
    exchange_plan plan;

    if (size > MOST_INPUT)
        return 0;
    plan_read(&plan, &in);
    const unsigned who = take_byte(&in);
    const size_t count = take_byte(&in) % MOST_STATES + 1;
    const party_role role = plan.cfg.servers && who >> 7 ? SERVER : plan_role(&plan);
    const uint32_t index = who % (role == SERVER ? plan.cfg.servers : plan.cfg.workers);
    for (size_t i = 0; i < count; i++) {
        const size_t left = (size_t)(in.end - in.at), len = i + 1 < count ? take_number(&in, 2) % (left + 1) : left;
        const size_t most = (size_t)(in.end - in.at);
        letter_write(&letters[i], (tlc_message){in.at, len < most ? len : most}, 0, 0);
        in.at += letters[i].len;
    }
    at = (place){.codec = plan.cfg.push, .i = who};
    if (try_states(&plan, role, index, letters, count) == TLC_ERR_CHECKSUM) {
        for (size_t i = 0; i < count; i++)
            letter_seal(&letters[i]);
        require(try_states(&plan, role, index, letters, count) != TLC_ERR_CHECKSUM);
    }
    for (size_t i = 0; i < count; i++)
        letter_free(&letters[i]);
    return 0;
}
