/* SPDX-License-Identifier: MIT */
#include "missing_states.h"

#define MOST_NAMED 8

void tlc_states_look(const tlc_given_states *given, uint64_t from, tlc_states_window *w)
{
    *w = (tlc_states_window){.from = from, .next = UINT64_MAX};
    for (size_t i = 0; i < given->count; i++) {
        const uint64_t rank = given->rank_of(given->states[i]);
        if (rank < from)
            continue;
        if (rank - from >= TLC_STATES_WINDOW)
            w->next = rank < w->next ? rank : w->next;
        else if (!w->state[rank - from])
            w->state[rank - from] = i + 1;
    }
}

static int is_given(const tlc_given_states *given, uint64_t rank)
{
    for (size_t i = 0; i < given->count; i++)
        if (given->rank_of(given->states[i]) == rank)
            return 1;
    return 0;
}

uint64_t tlc_states_ranks(const tlc_given_states *given)
{
    tlc_states_window w;
    uint64_t ranks = 0;

    for (uint64_t from = 0; from != UINT64_MAX; from = w.next) {
        tlc_states_look(given, from, &w);
        for (size_t i = 0; i < TLC_STATES_WINDOW; i++)
            ranks += w.state[i] != 0;
    }
    return ranks;
}

static uint64_t count_missing(const tlc_given_states *given)
{
    if (given->only != TLC_NOBODY)
        return !is_given(given, given->only);
    return given->ranks - tlc_states_ranks(given);
}

/* "the states of ranks 1, 2 and 5" */
static void say_missing(tlc_text *w, const tlc_setup *x, const tlc_given_states *given, uint64_t missing)
{
    uint64_t rank = given->only == TLC_NOBODY ? 0 : given->only;
    tlc_states_window near;

    tlc_states_look(given, rank, &near);
    tlc_text_say(w, missing > 1 ? "the states of " : "the state of ");
    tlc_text_say(w, tlc_role_word(x->role));
    tlc_text_say(w, missing > 1 ? "s " : " ");
    for (uint64_t i = 0; i < missing && i < MOST_NAMED; rank++) {
        if (rank - near.from >= TLC_STATES_WINDOW)
            tlc_states_look(given, rank, &near);
        if (near.state[rank - near.from])
            continue;
        tlc_text_say(w, i == 0 ? "" : i + 1 == missing ? " and " : ", ");
        tlc_text_number(w, rank);
        i++;
    }
    if (missing <= MOST_NAMED)
        return;
    tlc_text_say(w, " and ");
    tlc_text_number(w, missing - MOST_NAMED);
    tlc_text_say(w, " more");
}

tlc_status tlc_states_check(const tlc_setup *x, const tlc_given_states *given, int lost)
{
    const uint64_t missing = count_missing(given);
    char text[TLC_SENTENCE];
    tlc_text w = {text, 0, sizeof text};

    if (lost || !missing)
        return TLC_OK;
    say_missing(&w, x, given, missing);
    return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "%s %s missing of a run of %llu; state_salvage takes %s for lost",
                      text, missing > 1 ? "are" : "is", (unsigned long long)given->ranks, missing > 1 ? "them" : "it");
}

void tlc_states_tell(const tlc_setup *x, const tlc_given_states *given, const tlc_report *notes, uint64_t step,
                     size_t missing)
{
    const uint64_t lost = count_missing(given);
    tlc_finding names = tlc_finding_of(TLC_REASON_NAMES);
    tlc_report *r = x->report;
    tlc_text w = {r->said, 0, sizeof r->said};

    names.tensor = missing;
    tlc_report_set(r, step, TLC_OK, &names);
    r->unknown = notes->unknown;
    r->missing = notes->missing;
    memcpy(r->unknown_name, notes->unknown_name, sizeof r->unknown_name);
    if (lost) {
        say_missing(&w, x, given, lost);
        tlc_text_say(&w, lost > 1 ? " are lost; " : " is lost; ");
    }
    tlc_report_share(x);
}
