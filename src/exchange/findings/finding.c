/* SPDX-License-Identifier: MIT */
#include "../../frames/formats.h"
#include "finding.h"

/* In the sentences, %w is who is at fault, %p the same with a colon or nothing, %t the tensor, %g what we got, %s the
 * step, %c the cause, %m more of what is wrong with a message. */
static const struct {
    tlc_status cause;
    const char *sentence;
} reasons[] = {
    [TLC_REASON_NONE] = {TLC_OK, "nothing is wrong"},
    [TLC_REASON_GRADIENT] = {TLC_ERR_NONFINITE, "%w: NaN or infinity in the gradient of tensor %t"},
    [TLC_REASON_SUM] = {TLC_ERR_NONFINITE, "%w: residual + gradient of tensor %t is not finite"},
    [TLC_REASON_MEAN] = {TLC_ERR_NONFINITE, "%pthe mean of tensor %t is not finite"},
    [TLC_REASON_DELTA] = {TLC_ERR_NONFINITE, "%w: the delta of tensor %t is not finite"},
    [TLC_REASON_MISSING] = {TLC_ERR_CORRUPT, "no message came from %w"},
    [TLC_REASON_CORRUPT] = {TLC_ERR_CORRUPT, "the message of %w %m"},
    [TLC_REASON_CHECKSUM] = {TLC_ERR_CHECKSUM, "the message of %w has a wrong checksum"},
    [TLC_REASON_VERSION] = {TLC_ERR_VERSION, "the message of %w %m"},
    [TLC_REASON_KIND] = {TLC_ERR_PARAM, "the message of %w %m"},
    [TLC_REASON_FINGERPRINT] = {TLC_ERR_PARAM, "%w has other tensors, codecs or settings"},
    [TLC_REASON_SENDER] = {TLC_ERR_PARAM, "the message of %w was made by number %g"},
    [TLC_REASON_STEP] = {TLC_ERR_ORDER, "%w sent step %g, this is step %s"},
    [TLC_REASON_FRAME] = {TLC_ERR_CORRUPT, "%w: a bad frame of tensor %t: %c"},
    [TLC_REASON_RECEIVER] = {TLC_ERR_PARAM, "the message of %w is for number %g"},
    [TLC_REASON_MOVED] = {TLC_ERR_NONFINITE, "%w stays where it was: tensor %t would not be finite"},
    [TLC_REASON_WEIGHT] = {TLC_ERR_PARAM, "%w has another weight for the edge to this node"},
    [TLC_REASON_ROW] = {TLC_ERR_PARAM, "the weights of %w are not positive or do not add up to 1"},
    [TLC_REASON_MODEL] = {TLC_ERR_PARAM, "the model of %w is not its replica here"},
    [TLC_REASON_REPLICA] = {TLC_ERR_NONFINITE, "%w: NaN or infinity in the replica of tensor %t"},
    [TLC_REASON_START] = {TLC_ERR_NONFINITE, "NaN or infinity in tensor %t of the model"},
    [TLC_REASON_TWICE] = {TLC_ERR_ORDER, "%w sent two different messages for step %s"},
    [TLC_REASON_TAKEN] = {TLC_ERR_CORRUPT, "%w does not agree with the others who took part"},
    [TLC_REASON_SAID] = {TLC_ERR_PARAM, ""},
    [TLC_REASON_CANCELLED] = {TLC_ERR_STEP, "step %s was cancelled"},
    [TLC_REASON_STATE_TWICE] = {TLC_ERR_PARAM, "%w has two states"},
    [TLC_REASON_STATE_STEP] = {TLC_ERR_PARAM, "%w: its state is of step %g, that of another is of step %s"},
    [TLC_REASON_NAMES] = {TLC_OK, ""},
};

tlc_finding tlc_finding_of(tlc_reason reason)
{
    return (tlc_finding){.reason = reason,
                         .cause = reasons[reason].cause,
                         .rank = TLC_NOBODY,
                         .told_by = TLC_NOBODY,
                         .tensor = TLC_ALL};
}

void tlc_say_who(tlc_text *w, tlc_role role, uint32_t rank)
{
    if (rank == TLC_NOBODY)
        tlc_text_say(w, "unknown ");
    tlc_text_say(w, tlc_role_word(role));
    if (rank == TLC_NOBODY)
        return;
    tlc_text_say(w, " ");
    tlc_text_number(w, rank);
}

void tlc_say_name(tlc_text *w, const char *name)
{
    size_t len = name ? strlen(name) : 0, most = sizeof((tlc_report *)0)->unknown_name - 1;

    tlc_text_quoted(w, name ? name : "?", len < most ? len : most);
}

static void say_names(tlc_text *w, const tlc_report *r, const char *name)
{
    tlc_text_say(w, r->said);
    tlc_text_say(w, "entries of the states without a place here: ");
    tlc_text_number(w, r->unknown);
    if (r->unknown) {
        tlc_text_say(w, ", first ");
        tlc_say_name(w, r->unknown_name);
    }
    tlc_text_say(w, "; tensors in no state: ");
    tlc_text_number(w, r->missing);
    if (r->missing) {
        tlc_text_say(w, ", first ");
        tlc_say_name(w, name);
    }
}

/* "a push of an all-reduce" */
static void say_kind(tlc_text *w, unsigned kind)
{
    static const char *const phases[] = {"a message", "a push", "an answer", "a hello"};
    const unsigned phase = kind >> 4;

    tlc_text_say(w, phases[phase <= TLC_PHASE_HELLO ? phase : 0]);
    tlc_text_say(w, " of ");
    tlc_text_say(w, (kind & 15) - 1 < TLC_EXCHANGE_ECD ? tlc_kind_words((tlc_exchange_kind)(kind & 15))
                                                       : "an unknown exchange");
}

/* What is wrong with a message. */
static void say_more(tlc_text *w, const tlc_finding *f)
{
    const unsigned got = (unsigned)f->got; /* without TLC_GOT_MORE */

    if (f->reason == TLC_REASON_VERSION && f->got >= TLC_GOT_MORE)
        tlc_text_format(w, "has version %u of its format, this library reads %d", got, TLC_MESSAGE_VERSION);
    else if (f->reason == TLC_REASON_VERSION)
        tlc_text_say(w, "has another version");
    else if (f->reason == TLC_REASON_KIND && f->got >= TLC_GOT_MORE) {
        tlc_text_say(w, "is ");
        say_kind(w, got & 255);
        tlc_text_say(w, ", not ");
        say_kind(w, got >> 8);
    } else if (f->reason == TLC_REASON_KIND)
        tlc_text_say(w, "is of another kind");
    else if (f->got >= TLC_GOT_MORE)
        tlc_text_format(w, "is not a message of the exchange, but a %s", tlc_format_name(got));
    else
        tlc_text_say(w, "is truncated or altered");
}

void tlc_report_sentence(const tlc_report *r, const char *name, char *text, size_t cap)
{
    const tlc_finding *f = &r->finding;
    tlc_text w = {text, 0, cap};

    if (f->reason == TLC_REASON_NAMES) {
        say_names(&w, r, name);
        return;
    }
    tlc_text_say(&w, f->reason == TLC_REASON_SAID ? r->said : "");
    for (const char *p = reasons[f->reason].sentence; *p; p++) {
        if (*p != '%') {
            tlc_text_put(&w, p, 1);
            continue;
        }
        switch (*++p) {
        case 'w': tlc_say_who(&w, f->role, f->rank); break;
        case 'p':
            if (f->rank != TLC_NOBODY) {
                tlc_say_who(&w, f->role, f->rank);
                tlc_text_say(&w, ": ");
            }
            break;
        case 't': tlc_say_name(&w, name); break;
        case 'g': tlc_text_number(&w, f->got); break;
        case 's': tlc_text_number(&w, r->step); break;
        case 'm': say_more(&w, f); break;
        default: tlc_text_say(&w, tlc_status_string(f->cause)); break;
        }
    }
    if (f->reason != TLC_REASON_NONE && f->told_by != TLC_NOBODY &&
        (f->role == TLC_ROLE_WORKER || f->told_by != f->rank)) {
        tlc_text_say(&w, ", says ");
        tlc_say_who(&w, f->role == TLC_ROLE_RANK ? TLC_ROLE_RANK : TLC_ROLE_SERVER, f->told_by);
    }
}
