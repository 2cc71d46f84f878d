/* SPDX-License-Identifier: MIT */
#include "exchange_member.h"
#include <xxhash.h>

void member_destroy(member m)
{
    tlc_allreduce_destroy(m.rank);
    tlc_worker_destroy(m.worker);
    tlc_server_destroy(m.server);
}

uint64_t member_step(member m)
{
    return m.rank ? tlc_allreduce_step(m.rank) : m.worker ? tlc_worker_step(m.worker) : tlc_server_step(m.server);
}

uint64_t member_history(member m)
{
    return m.rank     ? tlc_allreduce_history(m.rank)
           : m.worker ? tlc_worker_history(m.worker)
                      : tlc_server_history(m.server);
}

size_t member_state_size(member m)
{
    return m.rank     ? tlc_allreduce_state_size(m.rank)
           : m.worker ? tlc_worker_state_size(m.worker)
                      : tlc_server_state_size(m.server);
}

tlc_message member_save(member m)
{
    size_t size = member_state_size(m), written = 0;
    uint8_t *state = bytes(size);

    require_status(MEMBER(m, state_save, state, size, &written), TLC_OK);
    require(written == size);
    return (tlc_message){state, size};
}

tlc_status member_load(member m, tlc_message state)
{
    return MEMBER(m, state_load, &state, 1);
}

tlc_exchange_stats member_stats(member m)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};

    require_status(MEMBER(m, stats, &stats), TLC_OK);
    return stats;
}

tlc_outcome member_outcome(member m, uint32_t server)
{
    tlc_outcome o = {.struct_size = sizeof o};

    require_status(member_ask_outcome(m, server, &o), TLC_OK);
    require_outcome_form(&o);
    return o;
}

size_t member_parts(member m)
{
    return m.rank ? tlc_allreduce_parts(m.rank) : m.server ? tlc_server_parts(m.server) : 0;
}

tlc_part member_part(member m, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    require_status(member_ask_part(m, i, &part), TLC_OK);
    return part;
}

tlc_status member_ask_outcome(member m, uint32_t server, tlc_outcome *o)
{
    return m.rank     ? tlc_allreduce_outcome(m.rank, o)
           : m.worker ? tlc_worker_outcome(m.worker, server, o)
                      : tlc_server_outcome(m.server, o);
}

tlc_status member_ask_part(member m, size_t i, tlc_part *part)
{
    return m.rank ? tlc_allreduce_part(m.rank, i, part) : tlc_server_part(m.server, i, part);
}

tlc_status member_set_codec(member m, size_t tensor, const char *codec)
{
    return m.rank     ? tlc_allreduce_set_codec(m.rank, tensor, codec, codec)
           : m.worker ? tlc_worker_set_codec(m.worker, tensor, codec)
                      : tlc_server_set_codec(m.server, tensor, codec);
}

tlc_status member_push(member m, const void *const *grads, double weight, tlc_message *to)
{
    return m.rank ? tlc_allreduce_push(m.rank, grads, weight, to) : tlc_worker_push(m.worker, grads, weight, to);
}

tlc_status member_pull(member m, const tlc_message *from, void *const *out)
{
    return m.rank ? tlc_allreduce_pull(m.rank, from, out) : tlc_worker_pull(m.worker, from, out);
}

tlc_status member_mask(member m, float *const *momentum)
{
    return m.rank ? tlc_allreduce_mask(m.rank, momentum) : tlc_worker_mask(m.worker, momentum);
}

tlc_message blob_copy(tlc_message m)
{
    uint8_t *copy = bytes(m.len);

    if (m.len)
        memcpy(copy, m.data, m.len);
    return (tlc_message){copy, m.len};
}

void blob_free(tlc_message *m)
{
    free((void *)(uintptr_t)m->data);
    *m = (tlc_message){NULL, 0};
}

int blob_same(tlc_message a, tlc_message b)
{
    return a.len == b.len && same(a.data, b.data, a.len);
}

static void store(uint8_t *p, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

void blob_seal(void *bytes, size_t len)
{
    if (len >= 4)
        store((uint8_t *)bytes + len - 4, XXH3_64bits(bytes, len - 4), 4);
}

void member_move(member m, uint64_t step)
{
    tlc_message state = member_save(m);
    uint8_t *p = (uint8_t *)(uintptr_t)state.data;

    store(p + 8, step, 8); /* as object_state.h draws it */
    blob_seal(p, state.len);
    require_status(member_load(m, state), TLC_OK);
    require(member_step(m) == step);
    blob_free(&state);
}

void require_state(member m, tlc_message state)
{
    tlc_message now = member_save(m);

    require(blob_same(now, state));
    blob_free(&now);
}

void require_same_states(member a, member b)
{
    tlc_message state = member_save(b);

    require_state(a, state);
    blob_free(&state);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

void require_outcome_form(const tlc_outcome *o)
{
    require(memchr(o->sentence, 0, sizeof o->sentence));
    require_says(o->sentence, "");
}

void require_words(const char *text, const char *words, const char *call)
{
    char word[128];

    for (const char *p = words; *p;) {
        size_t len = strcspn(p, "|");
        require(len < sizeof word);
        memcpy(word, p, len);
        word[len] = 0;
        if (!strstr(text, word))
            fail_msg("%s: \"%s\" does not say \"%s\"", call, text, word);
        p += len + (p[len] != 0);
    }
}

void require_sentence(const tlc_outcome *o, tlc_status status, const char *words, const char *call)
{
    require_status_is(call, o->status, status, __FILE__, __LINE__);
    require_status_is(call, o->cause, status, __FILE__, __LINE__);
    require(strcmp(o->sentence, "nothing is wrong") != 0);
    require_words(o->sentence, words, call);
}

/* ---- bytes that grow --------------------------------------------------------------------------------------------- */

void add_bytes(growing *g, const void *p, size_t len)
{
    if (g->len + len > g->room) {
        g->room = 2 * (g->len + len);
        void *more = realloc(g->p, g->room);
        require(more != NULL);
        g->p = more;
    }
    if (len)
        memcpy(g->p + g->len, p, len);
    g->len += len;
}

void add_number(growing *g, uint64_t number)
{
    add_bytes(g, &number, sizeof number);
}
