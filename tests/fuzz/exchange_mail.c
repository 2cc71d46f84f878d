/* SPDX-License-Identifier: MIT */
#include "exchange_mail.h"
#include <threelc/bundle.h>
#include <xxhash.h>

enum { CHECKSUM = 4 };

/* ---- letters ----------------------------------------------------------------------------------------------------- */

void letter_free(letter *l)
{
    free(l->bytes);
    *l = (letter){.bytes = NULL};
}

void letter_write(letter *l, tlc_message message, size_t slot, uint64_t step)
{
    uint8_t *copy = message.len ? memcpy(bytes(message.len), message.data, message.len) : NULL;

    letter_free(l);
    *l = (letter){copy, message.len, 1, slot, step};
}

void letter_copy(letter *to, const letter *from)
{
    const int genuine = from->genuine;

    if (to == from)
        return;
    letter_write(to, letter_message(from), from->slot, from->step);
    to->genuine = genuine;
}

static uint32_t sum_of(const uint8_t *data, size_t len)
{
    return (uint32_t)XXH3_64bits(data, len);
}

int letter_sealed(const letter *l)
{
    if (l->len <= CHECKSUM)
        return 0;
    fuzz_input sum = {l->bytes + l->len - CHECKSUM, l->bytes + l->len};
    return take_number(&sum, CHECKSUM) == sum_of(l->bytes, l->len - CHECKSUM);
}

void letter_seal(letter *l)
{
    if (l->len <= CHECKSUM)
        return;
    const size_t len = l->len - CHECKSUM;
    const uint32_t sum = sum_of(l->bytes, len);

    for (size_t i = 0; i < CHECKSUM; i++)
        l->bytes[len + i] = (uint8_t)(sum >> (8 * i));
}

void letter_splice(letter *l, fuzz_input *in)
{
    const unsigned how = take_byte(in), offset = take_number(in, 2), cut = take_byte(in), more = how & 15;
    const int from_end = how >> 6 & 1, sealed = how >> 7 && l->len > CHECKSUM;
    const size_t room = l->len - (sealed ? CHECKSUM : 0), begin = offset % (room + 1);
    const size_t kept = from_end ? room - begin : begin, most = room - kept;
    const size_t end = kept + (cut == 255 || cut > most ? most : cut), len = kept + more + (l->len - end);
    uint8_t *copy = bytes(len);

    if (kept)
        memcpy(copy, l->bytes, kept);
    for (unsigned i = 0; i < more; i++)
        copy[kept + i] = take_byte(in);
    if (end < l->len)
        memcpy(copy + kept + more, l->bytes + end, l->len - end);
    l->genuine &= len == l->len && same(copy, l->bytes, len);
    free(l->bytes);
    l->bytes = copy;
    l->len = len;
    if (sealed)
        letter_seal(l);
}

void letter_forge(letter *l, fuzz_input *in)
{
    const unsigned how = take_byte(in), said = take_number(in, 2), head = how & 15;
    const size_t left = (size_t)(in->end - in->at), more = said < left ? said : left;
    const size_t kept = head < l->len ? head : l->len, sum = how >> 7 ? CHECKSUM : 0;
    uint8_t *forged = memset(bytes(kept + more + sum), 0, kept + more + sum);

    if (kept)
        memcpy(forged, l->bytes, kept);
    for (size_t i = 0; i < more; i++)
        forged[kept + i] = take_byte(in);
    letter_free(l);
    *l = (letter){.bytes = forged, .len = kept + more + sum};
    if (sum)
        letter_seal(l);
}

/* Finds the bundle of a message. Returns where it begins, or 0: there is none. */
static size_t find_bundle(const letter *l, tlc_bundle_reader *r)
{
    for (size_t begin = 1; begin + CHECKSUM < l->len; begin++)
        if (tlc_bundle_open(r, l->bytes + begin, l->len - CHECKSUM - begin) == TLC_OK)
            return begin;
    return 0;
}

/* The same for one of the frames in a message: lengths and checksum stay right. Else the bundle could not be read. */
static void letter_splice_frame(letter *l, fuzz_input *in)
{
    const unsigned which = take_byte(in);
    tlc_bundle_reader r;
    const size_t begin = find_bundle(l, &r);
    const uint32_t count = begin ? tlc_bundle_count(&r) : 0;
    letter *frame = calloc(count + 1, sizeof *frame);
    tlc_bundle_writer w;
    tlc_message m;
    size_t all = 0, bound = 0;

    require(frame != NULL);
    for (uint32_t i = 0; i < count; i++) {
        require_status(tlc_bundle_next(&r, &m.data, &m.len), TLC_OK);
        letter_write(&frame[i], m, 0, 0);
        if (i == which % count)
            letter_splice(&frame[i], in);
        all += frame[i].len;
    }
    require_status(tlc_bundle_bound(count, all, &bound), TLC_OK);
    uint8_t *room = bytes(bound);
    require_status(tlc_bundle_init(&w, room, bound, count), TLC_OK);
    for (uint32_t i = 0; i < count; i++)
        require_status(tlc_bundle_add(&w, frame[i].bytes, frame[i].len), TLC_OK);
    require_status(tlc_bundle_finish(&w, &m), TLC_OK);
    if (count) {
        uint8_t *whole = bytes(begin + m.len + CHECKSUM);
        memcpy(whole, l->bytes, begin);
        memcpy(whole + begin, m.data, m.len);
        free(l->bytes);
        l->bytes = whole;
        l->len = begin + m.len + CHECKSUM;
        l->genuine = 0;
        letter_seal(l);
    }
    for (uint32_t i = 0; i < count; i++)
        letter_free(&frame[i]);
    free(frame);
    free(room);
}

/* ---- mail -------------------------------------------------------------------------------------------------------- */

void mail_post(mail *m, size_t slot, tlc_message message, uint64_t step)
{
    letter_write(&m->honest[slot], message, slot, step);
    letter_copy(&m->slot[slot], &m->honest[slot]);
    letter_copy(&m->old[m->count++ % OLD], &m->honest[slot]);
    fuzz_fold(message.data, message.len, 1);
}

void mail_fetched(mail *m, size_t slot, tlc_message message, uint64_t step)
{
    for (size_t back = 1; back <= OLD && back <= m->count; back++) {
        const letter *old = &m->old[(m->count - back) % OLD];
        if (old->slot != slot || old->step != step)
            continue;
        require(old->len == message.len && same(old->bytes, message.data, message.len));
        break;
    }
    letter_write(&m->slot[slot], message, slot, step);
}

static letter *any(mail *m, fuzz_input *in)
{
    return &m->slot[take_byte(in) % SLOTS];
}

void mail_splice(mail *m, fuzz_input *in)
{
    letter_splice(any(m, in), in);
}

void mail_splice_frame(mail *m, fuzz_input *in)
{
    letter_splice_frame(any(m, in), in);
}

void mail_forge(mail *m, fuzz_input *in)
{
    letter_forge(any(m, in), in);
}

void mail_swap(mail *m, fuzz_input *in)
{
    letter *a = any(m, in), *b = any(m, in), was = *a;

    *a = *b;
    *b = was;
}

void mail_bring_old(mail *m, fuzz_input *in)
{
    letter *to = any(m, in);
    letter_copy(to, &m->old[take_byte(in) % OLD]);
}

void mail_mend(mail *m)
{
    for (size_t i = 0; i < SLOTS; i++)
        letter_copy(&m->slot[i], &m->honest[i]);
}

void mail_free(mail *m)
{
    for (size_t i = 0; i < SLOTS; i++) {
        letter_free(&m->slot[i]);
        letter_free(&m->honest[i]);
    }
    for (size_t i = 0; i < OLD; i++)
        letter_free(&m->old[i]);
}

/* Was a letter made for this slot? With gather a push is the same for all. */
static int is_for(const mail *m, const letter *l, size_t slot)
{
    if (m->gather && l->slot < ANSWERS && slot < ANSWERS)
        return l->slot / MOST_RANKS == slot / MOST_RANKS;
    return l->slot == slot;
}

int mail_wrong(const mail *m, size_t slot, uint64_t step)
{
    const letter *l = &m->slot[slot];

    return !letter_sealed(l) || (l->genuine && (!is_for(m, l, slot) || l->step != step));
}

int mail_has(const mail *m, size_t slot, uint64_t step)
{
    return m->honest[slot].len && m->honest[slot].step == step;
}
