/* SPDX-License-Identifier: MIT
 *
 * What tlc_codec_list says of names and parameters, and that it is true.
 */
#include "stage_list.h"

static tlc_codec_entry entry(size_t i)
{
    tlc_codec_entry e = {.struct_size = sizeof e};
    require_status(tlc_codec_list(i, &e), TLC_OK);
    return e;
}

static size_t entry_count(void)
{
    tlc_codec_entry e = {.struct_size = sizeof e};
    size_t i = 0;

    while (tlc_codec_list(i, &e) == TLC_OK)
        i++;
    return i;
}

/* The letters of kinds of data in words; NULL for others. */
static const char *in_words(const char *letters)
{
    static const char *const words[][2] = {{"f", "floats"},
                                           {"t", "3-value symbols"},
                                           {"s", "binary symbols"},
                                           {"q", "quartic bytes"},
                                           {"b", "bytes"},
                                           {"m", "members"},
                                           {"tsm", "3-value or binary symbols, or members"}};

    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcmp(words[i][0], letters))
            return words[i][1];
    return NULL;
}

TEST(walk_the_list)
{
    size_t names = 0;

    require(entry_count() == COUNT(stages));
    for (size_t i = 0; i < COUNT(stages); i++) {
        const tlc_codec_entry e = entry(i);
        const char *takes_words = in_words(stages[i].takes), *gives_words = in_words(stages[i].gives);
        at = (place){.codec = stages[i].name, .i = i};
        require(e.name && *e.name && !strcmp(e.name, stages[i].name));
        require(e.takes && e.gives && e.meaning && *e.meaning && e.source);
        require(takes_words && gives_words && !strcmp(e.takes, takes_words) && !strcmp(e.gives, gives_words));
        for (size_t j = 0; j < i; j++)
            require(strcmp(stages[j].name, e.name) != 0);
        if (e.list) {
            require(i == names++); /* short names come first */
            require_status(tlc_codec_check(e.list, NULL, 0), TLC_OK);
            require(strchr(e.list, '+') && !strcmp(e.takes, "floats") && !strcmp(e.gives, "bytes"));
        }
        require(!strcmp(e.takes, "floats") || (!e.feedback && !e.param_count));
    }
    require(names >= 3);
}

/* What programs are told of each entry. */
TEST(entry_facts)
{
    require(entry_count() == COUNT(stages));
    for (size_t i = 0; i < COUNT(stages); i++) {
        const tlc_codec_entry e = entry(i);
        const unsigned facts = (e.feedback ? FEEDBACK : 0u) | (e.symbols ? SYMBOLS : 0u) | (e.sparse ? SPARSE : 0u);
        at = (place){.codec = stages[i].name, .i = i};
        require(!strcmp(e.name, stages[i].name) && e.kind == stages[i].kind && facts == stages[i].facts);
        require(!(e.feedback >> 1 || e.symbols >> 1 || e.sparse >> 1 || e.codec >> 1)); /* 0 or 1 */
        require(e.codec == (e.kind <= TLC_ENTRY_QUANTIZER && is_bytes(stages[i].gives)));
        require(e.codec == (tlc_codec_check(e.name, NULL, 0) == TLC_OK)); /* and this is true */
        require((e.kind == TLC_ENTRY_SHORT_NAME) == (e.list != NULL));
        require((e.kind <= TLC_ENTRY_QUANTIZER) == !strcmp(e.takes, "floats"));
    }
}

/* symbols and sparse are true of what is decoded: -1, 0 or 1 times a scale, and there are zeros; and 0 for values that
 * were not sent. */
TEST(entry_facts_are_true)
{
    enum { N = 400 };
    uint8_t frame[8 * N];
    float g[N], out[N];

    for (size_t i = 0; i < N; i++)
        g[i] = (i % 2 ? -1.0f : 1.0f) * (1 + (float)i);
    for (size_t i = 0; i < COUNT(stages); i++) {
        char text[ROOM];
        if (stages[i].kind > TLC_ENTRY_QUANTIZER)
            continue;
        complete(strcpy(text, stages[i].name), stages[i].gives);
        tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, N);
        size_t len = compress(ctx, g, frame), zeros = 0;
        float largest = 0;
        int symbols = 1;
        tlc_destroy(ctx);
        at = (place){.codec = text, .n = N};
        require_status(tlc_decompress(frame, len, TLC_F32, out, N, NULL), TLC_OK);
        for (size_t k = 0; k < N; k++) {
            float magnitude = out[k] < 0 ? -out[k] : out[k];
            zeros += magnitude == 0;
            largest = magnitude > largest ? magnitude : largest;
        }
        for (size_t k = 0; k < N; k++)
            symbols &= out[k] == 0 || out[k] == largest || out[k] == -largest;
        require(!(stages[i].facts & SYMBOLS) == !(symbols && zeros));
        require(!(stages[i].facts & SPARSE) || zeros > N / 2);
    }
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* A codec that starts with this stage. */
static void as_codec(size_t stage, const char *params, char text[ROOM])
{
    snprintf(text, ROOM, "%s%s", stages[stage].name, params);
    complete(text, stages[stage].gives);
}

static size_t frame_of(const char *codec, const float *g, size_t n, uint8_t *dst, int *feedback)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, n);
    size_t len = compress(ctx, g, dst);

    *feedback = tlc_residual(ctx) != NULL;
    tlc_destroy(ctx);
    return len;
}

/* A context can be made of every entry that takes floats. It has the error feedback that the entry says. To give a
 * parameter its default, as its range tells it, changes nothing. */
TEST(defaults_are_true)
{
    enum { N = 300 };
    uint8_t plain[8 * N], given[8 * N];
    float g[N];

    fill(DATA_LAPLACE, 1, g, N);
    for (size_t i = 0; i < COUNT(stages); i++) {
        tlc_codec_entry e = entry(i);
        char text[ROOM], param[64], keys[ROOM] = "";
        int feedback, same_feedback;
        if (strcmp(e.takes, "floats") != 0)
            continue;
        as_codec(i, "", text);
        at = (place){.codec = e.name, .note = text};
        size_t len = frame_of(text, g, N, plain, &feedback);
        require(feedback == e.feedback);
        if (e.list) {
            require(frame_of(e.list, g, N, given, &same_feedback) == len && same(plain, given, len));
            require(same_feedback == feedback);
        }
        for (size_t p = 0; p < e.param_count; p++) {
            const char *fallback = strstr(e.param[p].range, "default ");
            require(e.param[p].key && *e.param[p].meaning && fallback);
            strcat(strcat(keys, p ? " " : ""), e.param[p].key);
            snprintf(param, sizeof param, ":%s=%s", e.param[p].key, fallback + strlen("default "));
            as_codec(i, param, text);
            require(frame_of(text, g, N, given, &same_feedback) == len && same(plain, given, len));
        }
        require(!strcmp(keys, stages[i].parameters));
        for (size_t p = e.param_count; p < COUNT(e.param); p++)
            require(!e.param[p].key && !e.param[p].range && !e.param[p].meaning);
        as_codec(i, ":block=7", text);
        require_status(tlc_codec_check(text, NULL, 0), TLC_OK);
    }
}

/* Does a codec of the manifest have this stage, short name or parameter? */
static int in_manifest(const char *word)
{
    const size_t len = strlen(word);

    FOR_EACH_CODEC(c)
        for (const char *text = c->text; *text; text += strspn(text, ":+,=")) {
            size_t here = strcspn(text, ":+,=");
            if (here == len && !strncmp(text, word, len))
                return 1;
            text += here;
        }
    return 0;
}

/* A stage that codecs.def does not name would not be tested. */
TEST(manifest_names_all)
{
    for (size_t i = 0; i < entry_count(); i++) {
        tlc_codec_entry e = entry(i);
        at = (place){.codec = e.name};
        require(in_manifest(e.name));
        for (size_t p = 0; p < e.param_count; p++) {
            at.note = e.param[p].key;
            require(in_manifest(e.param[p].key));
        }
    }
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

TEST(entry_sizes)
{
    static const size_t ends[] =
        {offsetof(tlc_codec_entry, name),     offsetof(tlc_codec_entry, list),        offsetof(tlc_codec_entry, takes),
         offsetof(tlc_codec_entry, feedback), offsetof(tlc_codec_entry, param_count), offsetof(tlc_codec_entry, param),
         offsetof(tlc_codec_entry, kind),     offsetof(tlc_codec_entry, sparse),      sizeof(tlc_codec_entry)};
    struct {
        tlc_codec_entry e;
        uint8_t more[16];
    } other;
    const size_t first = sizeof other.e.struct_size, count = entry_count();
    tlc_codec_entry full = entry(0);

    for (at.i = 0; at.i < COUNT(ends); at.i++) {
        memset(&other, 0xa5, sizeof other);
        other.e.struct_size = ends[at.i];
        require_status(tlc_codec_list(0, &other.e), TLC_OK);
        require(other.e.struct_size == ends[at.i]);
        if (ends[at.i] > offsetof(tlc_codec_entry, name))
            require(other.e.name == full.name);
        require(all_bytes((uint8_t *)&other + ends[at.i], sizeof other - ends[at.i], 0xa5));
    }
    memset(&other, 0xa5, sizeof other);
    other.e.struct_size = sizeof other;
    require_status(tlc_codec_list(0, &other.e), TLC_OK);
    require(other.e.struct_size == sizeof other && all_bytes(other.more, sizeof other.more, 0));

    memset(&other, 0xa5, sizeof other);
    other.e.struct_size = sizeof other.e;
    require_status(tlc_codec_list(count, &other.e), TLC_ERR_SIZE);
    require_status(tlc_codec_list(SIZE_MAX, &other.e), TLC_ERR_SIZE);
    require_status(tlc_codec_list(0, NULL), TLC_ERR_PARAM);
    require(all_bytes((uint8_t *)&other + first, sizeof other - first, 0xa5));
    other.e.struct_size = first - 1;
    require_status(tlc_codec_list(0, &other.e), TLC_ERR_PARAM);
    require(all_bytes((uint8_t *)&other + first, sizeof other - first, 0xa5));
}
