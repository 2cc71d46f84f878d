/* SPDX-License-Identifier: MIT
 *
 * Which codec strings are codecs, and the messages of tlc_codec_check. All lists of stages are made and tried.
 */
#include "stage_list.h"

/* The rules of tlc_codec_check for any text. Returns its status. */
static tlc_status check(const char *text, char message[ROOM])
{
    size_t bound = 0;
    tlc_status status = tlc_codec_check(text, message, ROOM);
    char *end = message;

    set_note(text);
    require_status(tlc_codec_bound(text, TLC_F32, 10, &bound), status);
    require_status(tlc_codec_check(text, NULL, 0), status);
    require(memchr(message, 0, ROOM) != NULL && (status == TLC_OK) == (*message == 0));
    if (!status)
        return status;
    require_status(status, TLC_ERR_PARAM);
    require(!strncmp(message, "at ", 3) && strtoul(message + 3, &end, 10) <= strlen(text));
    require(end > message + 3 && !strncmp(end, ": ", 2) && end[2]);
    for (const char *c = message; *c; c++) /* printable for any text, since it may end up in a log or on a terminal */
        require(*c >= ' ' && *c <= '~');
    return status;
}

/* ---- reasons ----------------------------------------------------------------------------------------------------- */

#define ZEROS "00000000000000000000000000000000000000000000000000000000000000"
#define LONG "3lc:s=1." ZEROS ZEROS

static const struct {
    const char *text;
    unsigned long at;
    const char *words; /* parts of the message in this order, separated by " ... " */
} reasons[] = {
    {LONG, 0, "127"},
    {"", 0, "no codec or stage"},
    {"3l", 0, "\"3l\" ... no codec or stage"},
    {"3cl", 0, "\"3cl\" ... no codec or stage ... (did you mean 3lc?); there are"},
    {"trenary+quartic", 0, "no codec or stage ... (did you mean ternary?)"},
    {"ternary+quatric", 8, "no codec or stage ... (did you mean quartic?)"},
    {"3lc:blok=5", 4, "no such parameter (did you mean block?); it has s, block"},
    {"natural:rounding=nearst", 17, "rounding is random or nearest ... (did you mean nearest?)"},
    {"ternary+nothing", 8, "\"nothing\" ... no codec or stage"},
    {"ternary+", 8, "no codec or stage"},
    {"+quartic", 0, "no codec or stage"},
    {"ternary +quartic", 0, "\"ternary \""},
    {"3lc+zerorun", 0, "short name"},
    {"ternary+3lc", 8, "short name"},
    {"ternary+quartic+sbc", 16, "short name"},
    {"quartic+ternary", 0, "\"quartic\" ... 3-value symbols ... floats"},
    {"zerorun", 0, "\"zerorun\" ... quartic bytes ... floats"},
    {"int8+zerorun", 5, "\"zerorun\" ... quartic bytes ... \"int8\" ... bytes"},
    {"ternary+zerorun", 8, "\"zerorun\" ... \"ternary\" ... 3-value symbols"},
    {"sparse-binary+quartic", 14, "\"quartic\" ... 3-value ... \"sparse-binary\" ... binary symbols"},
    {"natural+golomb", 8, "\"golomb\" ... symbols ... \"natural\" ... bytes"},
    {"ternary+quartic+golomb", 16, "\"golomb\" ... \"quartic\" ... quartic bytes"},
    {"ternary+golomb+zerorun", 15, "\"zerorun\" ... \"golomb\""},
    {"raw+raw", 4, "\"raw\" ... floats ... bytes"},
    {"ternary", 7, "\"ternary\" ... not a frame ... +quartic ... +golomb"},
    {"ternary:s=1.5", 13, "not a frame"},
    {"sparse-binary", 13, "\"sparse-binary\" ... +golomb"},
    {"stochastic-ternary:block=5", 26, "not a frame ... +quartic ... +golomb"},
    {"3lc:", 4, "key=value"},
    {"3lc:s", 4, "\"s\" ... key=value"},
    {"3lc:s=1,", 8, "key=value"},
    {"3lc:,s=1", 4, "key=value"},
    {"3lc:x=1", 4, "\"x\" ... no such parameter ... s, block"},
    {"sbc:s=1", 4, "\"s\" ... no such parameter ... p, block"},
    {"natural:p=1", 8, "no such parameter ... bits, rounding, shift, block"},
    {"int8:bits=8", 5, "no such parameter ... block"},
    {"ternary+quartic:block=5", 16, "\"quartic\" has no such parameter"},
    {"ternary+quartic+zerorun:s=1", 24, "no such parameter"},
    {"3lc:s=1,s=1", 8, "\"s\" ... twice"},
    {"natural:block=5,shift=1,block=5", 24, "\"block\" ... twice"},
    {"3lc:s=2", 6, "\"2\" ... s is 1 <= s < 2"},
    {"3lc:s=", 6, "s is 1 <= s < 2"},
    {"ternary:block=7,s=1e0+quartic", 18, "\"1e0\" ... s is"},
    {"sbc:p=0", 6, "p is 0 < p <= 1 ... 0.01"},
    {"topk:p=1.5", 7, "\"1.5\" ... p is ... 0.05"},
    {"random-sparse:p=.5", 16, "p is ... 0.25"},
    {"natural:bits=7", 13, "\"7\" ... bits is 8 or 9"},
    {"natural:rounding=up", 17, "\"up\" ... rounding is random or nearest"},
    {"natural:shift=118", 14, "shift is ... 117"},
    {"natural:bits=9,shift=1.5", 21, "\"1.5\" ... shift is whole"},
    {"qsgd:bits=9", 10, "bits is 8 or 4"},
    {"int8:block=0", 11, "block is whole, 1 to 268435456"},
    {"raw:block=1.5", 10, "\"1.5\" ... block is whole"},
    {"3lc:s=1:block=5", 6, "\"1:block=5\""},
};

TEST(every_reason)
{
    char message[ROOM];

    for (size_t i = 0; i < COUNT(reasons); i++) {
        require_status(check(reasons[i].text, message), TLC_ERR_PARAM);
        set_note(message);
        at.i = i;
        require(strtoul(message + 3, NULL, 10) == reasons[i].at && holds(message, reasons[i].words));
    }
}

/* Where a name is wrong, the message ends with all that there are. */
TEST(all_names_are_told)
{
    char message[ROOM], want[ROOM] = "; there are ";

    for (size_t i = 0; i < COUNT(stages); i++)
        strcat(strcat(want, i ? ", " : ""), stages[i].name);
    require_status(check("3l", message), TLC_ERR_PARAM);
    set_note(message);
    require(strlen(message) > strlen(want) && !strcmp(message + strlen(message) - strlen(want), want));
}

/* Where a list is too short, it ends with all that could come next. */
TEST(next_stages_are_told)
{
    size_t open = 0;

    for (size_t i = 0; i < COUNT(stages); i++) {
        char message[ROOM], want[ROOM] = "";
        if (!takes(i, "f") || is_bytes(stages[i].gives))
            continue;
        for (size_t next = 0; next < COUNT(stages); next++)
            if (takes(next, stages[i].gives))
                strcat(strcat(want, *want ? " or +" : "; add +"), stages[next].name);
        require_status(check(stages[i].name, message), TLC_ERR_PARAM);
        set_note(message);
        require(*want && strlen(message) > strlen(want));
        require(!strcmp(message + strlen(message) - strlen(want), want));
        open++;
    }
    require(open > 0);
}

/* The message is cut to cap bytes with its NUL and ends with "...", without a list of codecs that is cut itself.
 * Nothing past cap is written. */
TEST(cut_messages)
{
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): LONG is of three parts */
    static const char *const texts[] = {"3lc:s=2", "", "natural:p=1", "int8+zerorun", "ternary", "3lc", LONG};
    char message[ROOM], part[ROOM + 8];

    for (size_t i = 0; i < COUNT(texts); i++) {
        tlc_status status = check(texts[i], message);
        for (size_t cap = 1; cap < strlen(message) + 4; cap++) {
            at.i = cap;
            memset(part, 0x3c, sizeof part);
            require_status(tlc_codec_check(texts[i], part, cap), status);
            require(is_shortened(part, cap, message));
            require(all_bytes(part + cap, sizeof part - cap, 0x3c));
        }
        memset(part, 0x3c, sizeof part);
        require_status(tlc_codec_check(texts[i], part, 0), status);
        require(all_bytes(part, sizeof part, 0x3c));
        require_status(tlc_codec_check(texts[i], NULL, 0), status);
        require_status(tlc_codec_check(texts[i], NULL, 10), TLC_ERR_PARAM);
    }
    require_status(tlc_codec_check(NULL, message, ROOM), TLC_ERR_PARAM);
    require(*message && strlen(message) < ROOM);
    require_status(tlc_codec_check(NULL, message, 1), TLC_ERR_PARAM);
    require(*message == 0);
    require_status(tlc_codec_check(NULL, NULL, 0), TLC_ERR_PARAM);
}

TEST(any_text)
{
    static const char *const parts[] = {
        "s",       "p",      "bits",   "rounding", "shift",    "block",    "=",        ":",
        ",",       "+",      "1",      "0.5",      "8",        "9",        "4",        "random",
        "nearest", ":p=0.1", ":s=1.5", ":bits=8",  ":block=7", ",block=7", "+quartic", "+golomb",
        "1.5",     "2",      " ",      "\n",       "x",        "\xff",     "\x1b[2J",
    };
    char text[200], message[ROOM];
    size_t good = 0, count = quick() ? 3000 : 100000;
    rng r = {5};

    for (at.i = 0; at.i < count; at.i++) {
        size_t len = 0;
        for (size_t k = 1 + rng_below(&r, rng_below(&r, 8) ? 5 : 14); k--;) {
            size_t i = rng_below(&r, COUNT(parts) + 2 * COUNT(stages)), name = i % COUNT(stages);
            if (i < 2 * COUNT(stages)) /* a stage that takes no floats often has its + */
                len += (size_t)snprintf(text + len, sizeof text - len, "%s%s",
                                        i < COUNT(stages) || *stages[name].takes == 'f' ? "" : "+", stages[name].name);
            else
                len += (size_t)snprintf(text + len, sizeof text - len, "%s", parts[i - 2 * COUNT(stages)]);
            if (len > 180)
                break;
        }
        good += check(text, message) == TLC_OK;
    }
    require(good > count / 100);
}

/* ---- lists of stages --------------------------------------------------------------------------------------------- */

/* How many lists of one to three stages are codecs, counted one stage at a time. */
static size_t count_of_codecs(void)
{
    size_t ending_with[COUNT(stages)] = {0}, codecs_found = 0;

    for (size_t len = 1; len <= 3; len++) {
        size_t longer[COUNT(stages)] = {0};
        for (size_t i = 0; i < COUNT(stages); i++) {
            longer[i] = len == 1 && takes(i, "f");
            for (size_t before = 0; len > 1 && before < COUNT(stages); before++)
                longer[i] += takes(i, stages[before].gives) ? ending_with[before] : 0;
            codecs_found += is_bytes(stages[i].gives) ? longer[i] : 0;
        }
        memcpy(ending_with, longer, sizeof longer);
    }
    return codecs_found;
}

/* All lists of one to three stages. A list is a codec if each stage takes what the one before it gives. */
TEST(every_list_of_stages)
{
    const size_t none = COUNT(stages);
    char text[ROOM], message[ROOM];
    size_t good = 0;

    for (size_t i = 0; i < none * (none + 1) * (none + 1); i++) {
        const size_t rest = i / none, part[3] = {i % none, rest % (none + 1), rest / (none + 1)};
        const char *given = "f";
        int fits = 1;
        if (part[1] == none && part[2] < none)
            continue;
        *text = 0;
        for (size_t k = 0; k < 3 && part[k] < none; k++) {
            fits &= takes(part[k], given);
            given = stages[part[k]].gives;
            strcat(strcat(text, k ? "+" : ""), stages[part[k]].name);
        }
        fits &= is_bytes(given);
        fits |= stages[part[0]].kind == TLC_ENTRY_SHORT_NAME && part[1] == none;
        require_status(check(text, message), fits ? TLC_OK : TLC_ERR_PARAM);
        good += fits && stages[part[0]].kind != TLC_ENTRY_SHORT_NAME;
    }
    require(good == count_of_codecs() && good >= 7 + 7); /* as many as there were in version 0.1 */
}
