/* SPDX-License-Identifier: MIT
 *
 * The reader of .npy and raw files: what it reads, and what it says of files that are not as they should be.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/lib/npy.h"
#include "../support/support.h"
#include <sys/stat.h>
#include <unistd.h>

#define GOOD "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"

static char folder[] = "/tmp/test_npy.XXXXXX";
static char why[WHY_SIZE];

typedef struct image {
    unsigned char *bytes;
    size_t len;
} image;

/* A file of this version, dict and data_len bytes of data. Its buffer ends with the file, for sanitizers to watch. */
static image make(int version, const char *dict, const void *data, size_t data_len)
{
    size_t head = version == 1 ? 10 : 12, text = strlen(dict);
    image f = {malloc(head + text + data_len), head + text + data_len};

    assert_non_null(f.bytes);
    memset(f.bytes, 0, head);
    memcpy(f.bytes, "\x93NUMPY", 6);
    f.bytes[6] = (unsigned char)version;
    f.bytes[8] = (unsigned char)(text & 255);
    f.bytes[9] = (unsigned char)(text >> 8);
    memcpy(f.bytes + head, dict, text);
    if (data)
        memcpy(f.bytes + head + text, data, data_len);
    else
        memset(f.bytes + head + text, 0, data_len);
    return f;
}

static bool parse(image f, npy_header *h)
{
    why[0] = '\0';
    return npy_parse_header(f.bytes, f.len, f.len, h, why);
}

static void reads(const char *dict, size_t data_len, uint64_t rows, uint64_t cols, unsigned width, bool big_endian)
{
    for (int version = 1; version <= 3; version++) {
        char text[256];
        npy_header h;
        snprintf(text, sizeof text, "%s\n", dict);
        image f = make(version, text, NULL, data_len);
        if (!parse(f, &h))
            fail_msg("%s: %s", dict, why);
        assert_true(h.offset == f.len - data_len);
        assert_true(h.rows == rows && h.cols == cols && h.width == width && h.big_endian == big_endian);
        free(f.bytes);
    }
}

/* said: a part of the message. */
static void refused(bool accepted, const char *what, const char *said)
{
    if (accepted)
        fail_msg("accepted: %s", what);
    if (!strstr(why, said))
        fail_msg("%s: \"%s\" does not say \"%s\"", what, why, said);
}

/* dict with its newline. */
static void refuses(const char *dict, size_t data_len, const char *said)
{
    image f = make(1, dict, NULL, data_len);
    npy_header h;

    refused(parse(f, &h), dict, said);
    free(f.bytes);
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

TEST(good_headers)
{
    reads(GOOD, 24, 2, 3, 4, false);
    reads(GOOD "                   ", 24, 2, 3, 4, false);
    reads("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", 24, 2, 3, 4, true);
    reads("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3,)}", 12, 2, 3, 2, false);
    reads("{\"descr\": \">f2\", \"fortran_order\": False, \"shape\": (7,)}", 14, 1, 7, 2, true);
    reads("{'shape':(4,),'fortran_order':False,'descr':'<f4'}", 16, 1, 4, 4, false);
    reads("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", 0, 1, 0, 4, false);
    reads("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 0), }", 0, 5, 0, 4, false);
    reads("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", 0, 0, 5, 4, false);
    reads("{'descr': '<f4', 'fortran_order': False, 'shape': (00, 5), }", 0, 0, 5, 4, false);
    reads("{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1 , 1 ) , }", 4, 1, 1, 4, false);
}

TEST(kinds_of_arrays)
{
    static const char *const descrs[] = {"'<f8'",         "'<i4'",      "'<u4'", "'<float32'",
                                         "'<<f4'",        "'<f44'",     "''",    "[('a', '<f4'), ('b', '<i4', (2,))]",
                                         "('<f4', (3,))", "'f4,f4,f4'", "[]"};
    char dict[128], said[128];

    for (size_t i = 0; i < COUNT(descrs); i++) {
        snprintf(dict, sizeof dict, "{'descr': %s, 'fortran_order': False, 'shape': (3,), }\n", descrs[i]);
        snprintf(said, sizeof said, "dtype %s is not supported", descrs[i]);
        refuses(dict, 24, said);
    }
    refuses("{'descr': 'a dtype of more than sixty-four characters is cut before its end, which is here', "
            "'fortran_order': False, 'shape': (3,), }\n",
            12, "dtype a dtype of more than sixty-four characters is cut before its en is");
    refuses("{'descr': '\t\x7f', 'fortran_order': False, 'shape': (3,), }\n", 12, "dtype '?\?' is");
}

/* What NumPy loads, and other programs write. */
TEST(loose_headers)
{
    const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    const struct {
        const char *name;
        unsigned width;
        bool big;
    } descrs[] = {{"f4", 4, big},   {"=f4", 4, big},     {"|f4", 4, big}, {"<f", 4, false}, {">e", 2, true},
                  {"half", 2, big}, {"float32", 4, big}, {"|u2", 2, big}, {"V2", 2, big}};

    reads("{'descr': '<f4',\n\t'fortran_order':\tFalse,\r\n 'shape':\f(2,\n3)}\n\t", 24, 2, 3, 4, false);
    reads("\n {'shape': (2L, 3L), 'fortran_order': False, 'descr': u'<f4'}", 24, 2, 3, 4, false);
    for (size_t i = 0; i < COUNT(descrs); i++) {
        char dict[128];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", descrs[i].name);
        reads(dict, 3 * descrs[i].width, 1, 3, descrs[i].width, descrs[i].big);
    }
    reads("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, 1, 1, 4, false);
    reads("{'descr': '<f4', 'fortran_order': True, 'shape': ()}", 4, 1, 1, 4, false);
    reads("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, 2, 3, 4, false);
    for (int line_end = 0; line_end < 2; line_end++) {
        image f = make(1, line_end ? GOOD "\n\n" : GOOD, NULL, 24);
        npy_header h;
        assert_true(parse(f, &h));
        free(f.bytes);
    }
}

/* Also of many dimensions. The order in the file makes a difference only if two dimensions are not 1. */
TEST(layouts)
{
    static const struct {
        const char *descr, *order, *shape;
        tlc_dtype dtype;
        unsigned dims, rows, cols;
        bool fortran;
    } arrays[] = {
        {"<f4", "False", "(3,)", TLC_F32, 1, 1, 3, false},
        {">f2", "False", "(3, 2)", TLC_F16, 2, 3, 2, false},
        {"<u2", "False", "(3, 2, 1)", TLC_BF16, 3, 3, 2, false},
        {"<V2", "False", "(3, 1, 2, 1)", TLC_BF16, 4, 3, 2, false},
        {"|V2", "False", "(6,)", TLC_BF16, 1, 1, 6, false},
        {"<f4", "True", "(6,)", TLC_F32, 1, 1, 6, false},
        {"<f4", "True", "(1, 6)", TLC_F32, 2, 1, 6, false},
        {"<f4", "True", "(6, 1)", TLC_F32, 2, 6, 1, false},
        {"<f4", "True", "(1, 1, 6, 1)", TLC_F32, 4, 1, 6, false},
        {"<f4", "True", "(2, 3)", TLC_F32, 2, 2, 3, true},
        {"<f4", "True", "(1, 2, 3)", TLC_F32, 3, 1, 6, true},
    };

    for (size_t i = 0; i < COUNT(arrays); i++) {
        char dict[128];
        npy_header h;
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", arrays[i].descr,
                 arrays[i].order, arrays[i].shape);
        image f = make(1, dict, NULL, (size_t)arrays[i].rows * arrays[i].cols * (arrays[i].dtype == TLC_F32 ? 4 : 2));
        if (!parse(f, &h))
            fail_msg("%s: %s", dict, why);
        assert_true(h.dtype == arrays[i].dtype && h.dims == arrays[i].dims && h.fortran == arrays[i].fortran);
        assert_true(h.rows == arrays[i].rows && h.cols == arrays[i].cols);
        free(f.bytes);
    }
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4294967296, 4294967296)}\n", 24, "too large");
}

TEST(malformed_dicts)
{
    /* NOLINTBEGIN(bugprone-suspicious-missing-comma): GOOD and what follows it */
    static const char *const dicts[] = {
        "",
        "\n",
        "{}\n",
        "{",
        GOOD "x\n",
        GOOD "\v\n",
        GOOD GOOD,
        "[]\n",
        "{'descr': '<f4', 'fortran_order': False}\n",
        "{'descr': '<f4', 'shape': (2, 3)}\n",
        "{'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}\n",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}\n",
        "{, 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),,}\n",
        "{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}\n",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}\n",
        "{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': [('a', '<f4), 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': uu'<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{descr: '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape'\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 18446744073709551616)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 99999999999999999999999)}\n",
        "{'descr': '<f4\n",
        "{'descr': '<f4\", 'fortran_order': False, 'shape': (2, 3)}\n",
    };
    /* NOLINTEND(bugprone-suspicious-missing-comma) */
    static const char *const shapes[] = {"6",        "(6)",     "[2, 3]",   "(,)",     "(2 3)",   "(2,, 3)", "(-2, -3)",
                                         "(2LL, 3)", "(2l, 3)", "(0x2, 3)", "(02, 3)", "(2, 03)", "(02L, 3)"};
    char dict[128];

    for (size_t i = 0; i < COUNT(dicts); i++)
        refuses(dicts[i], 24, i ? "malformed" : "header");
    for (size_t i = 0; i < COUNT(shapes); i++) {
        snprintf(dict, sizeof dict, "{'descr': '<f4', 'fortran_order': False, 'shape': %s}\n", shapes[i]);
        refuses(dict, 24, "malformed");
    }
}

/* A shape is believed only if the file has as many values. */
TEST(sizes)
{
    refuses(GOOD "\n", 23, "needs 24 bytes of values, the file has 23");
    refuses(GOOD "\n", 0, "needs 24 bytes");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}\n", 24, "too large");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 1)}\n", 24, "too large");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}\n", 24, "too large");
    /* 2^62 + 6 and 2^61 + 3 values of 4 bytes are 24 modulo 2^64 */
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387910,)}\n", 24, "too large");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2305843009213693955)}\n", 24, "too large");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}\n", 24, "needs 4000000000000");
}

TEST(heads)
{
    image f = make(1, GOOD "\n", NULL, 24);
    npy_header h;

    f.bytes[6] = 4;
    refused(parse(f, &h), "4.0", "version 4.0");
    f.bytes[6] = 1;
    f.bytes[7] = 1;
    refused(parse(f, &h), "1.1", "version 1.1");
    f.bytes[7] = 0;
    f.bytes[0] = 'x';
    refused(parse(f, &h), "another magic", "is not a .npy file");
    f.bytes[0] = 0x93;
    f.bytes[8] = f.bytes[9] = 255;
    refused(parse(f, &h), "a long header", "is truncated in its header");
    f.bytes[6] = 2;
    f.bytes[10] = f.bytes[11] = 255;
    refused(parse(f, &h), "a longer header", "too long");
    refused(parse((image){f.bytes, 0}, &h), "no bytes", "is empty");
    free(f.bytes);
}

/* Whatever the bytes are, it reads nothing beyond them and believes nothing that does not fit the file. */
TEST(altered_files)
{
    static const unsigned char bytes[] = {0,   1,   9,   '\n', ' ', '\'', '"', '(', ')',
                                          ',', '-', '0', '9',  ':', '{',  '}', 255};
    image f = make(1, GOOD "    \n", NULL, 24);

    for (size_t i = 0; i < f.len; i++) {
        image cut = {malloc(i + 1), i};
        npy_header h;
        assert_non_null(cut.bytes);
        memcpy(cut.bytes, f.bytes, i);
        assert_false(parse((image){memmove(cut.bytes + 1, cut.bytes, i), i}, &h));
        free(cut.bytes);
    }
    for (size_t i = 0; i < f.len; i++) {
        unsigned char was = f.bytes[i];
        for (size_t k = 0; k < sizeof bytes; k++) {
            npy_header h;
            f.bytes[i] = bytes[k];
            if (parse(f, &h))
                assert_true(h.offset <= f.len && h.offset + h.rows * h.cols * h.width + h.trailing == f.len);
        }
        f.bytes[i] = was;
    }
    free(f.bytes);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *write_file(const char *name, const void *bytes, size_t len)
{
    static char path[256];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fwrite(bytes, 1, len, f) == len);
    assert_int_equal(fclose(f), 0);
    return path;
}

static const char *write_npy(const char *descr, bool fortran, const char *shape, const void *data, size_t data_len)
{
    char dict[128];

    snprintf(dict, sizeof dict, "{'descr': %s, 'fortran_order': %s, 'shape': %s}\n", descr, fortran ? "True" : "False",
             shape);
    image f = make(1, dict, data, data_len);
    const char *path = write_file("x.npy", f.bytes, f.len);
    free(f.bytes);
    return path;
}

/* Values in both byte orders. */
TEST(values)
{
    static const unsigned char little[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 0, 0, 0, 0, 0, 0xc0, 0x7f};
    static const unsigned char big[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 0xc0, 0, 0};
    static const unsigned char little_halves[] = {0x00, 0x3c, 0x01, 0x80}, big_halves[] = {0x3c, 0x00, 0x80, 0x01};
    static const uint32_t bits[] = {0x3f800000, 0xc0000000, 1, 0x7fc00000};
    uint32_t row[2];
    uint16_t halves[2];
    npy_file f;

    for (int swapped = 0; swapped < 2; swapped++) {
        const char *path = write_npy(swapped ? "'>f4'" : "'<f4'", false, "(2, 2)", swapped ? big : little, 16);
        assert_true(npy_open(&f, path, why));
        assert_true(npy_read_row(&f, row, why) && row[0] == bits[0] && row[1] == bits[1]);
        assert_true(npy_read_row(&f, row, why) && row[0] == bits[2] && row[1] == bits[3]);
        assert_false(npy_read_row(&f, row, why));
        npy_close(&f);
        path = write_npy(swapped ? "'>f2'" : "'<f2'", false, "(2,)", swapped ? big_halves : little_halves, 4);
        assert_true(npy_open(&f, path, why));
        assert_true(npy_read_row(&f, halves, why) && halves[0] == 0x3c00 && halves[1] == 0x8001);
        npy_close(&f);
    }
}

/* Values that are 0 to 23 in C order, as NumPy writes them with order='F'. */
TEST(transposed)
{
    static const size_t shape[] = {2, 3, 4};
    uint16_t file[24], row[12];
    npy_file f;

    for (int swapped = 0; swapped < 2; swapped++) {
        for (size_t i = 0; i < shape[0]; i++)
            for (size_t k = 0; k < shape[1]; k++)
                for (size_t l = 0; l < shape[2]; l++) {
                    unsigned char *to = (unsigned char *)&file[i + shape[0] * (k + shape[1] * l)];
                    to[swapped] = (unsigned char)(l + shape[2] * (k + shape[1] * i));
                    to[!swapped] = 0x3c;
                }
        const char *path = write_npy(swapped ? "'>f2'" : "'<f2'", true, "(2, 3, 4)", file, sizeof file);
        assert_true(npy_open(&f, path, why));
        assert_true(f.header.rows == 2 && f.header.cols == 12 && f.header.fortran);
        for (unsigned r = 0; r < 2; r++) {
            assert_true(npy_read_row(&f, row, why));
            for (unsigned i = 0; i < 12; i++)
                assert_int_equal(row[i], 0x3c00 + 12 * r + i);
        }
        assert_false(npy_read_row(&f, row, why));
        npy_close(&f);
    }
    for (int fortran = 0; fortran < 2; fortran++) { /* no values */
        assert_true(npy_open(&f, write_npy("'<f4'", fortran, fortran ? "(2, 0, 3)" : "(2, 0)", "", 0), why));
        assert_true(npy_read_row(&f, NULL, why) && npy_read_row(&f, NULL, why));
        npy_close(&f);
    }
}

/* As NumPy reads a file with more than one array: the first one. */
TEST(more_arrays)
{
    static const unsigned char bytes[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 2, 3, 4, 5};
    uint32_t row[2];
    npy_header h;
    npy_file f;

    for (size_t extra = 0; extra < 3; extra++) {
        image one = make(1, GOOD "\n", NULL, 24 + extra);
        assert_true(parse(one, &h));
        assert_true(h.rows == 2 && h.cols == 3 && h.trailing == extra);
        free(one.bytes);
    }
    for (int fortran = 0; fortran < 2; fortran++) {
        assert_true(npy_open(&f, write_npy("'<f4'", fortran, "(2, 1)", bytes, sizeof bytes), why));
        assert_true(f.header.trailing == 5);
        assert_true(npy_read_row(&f, row, why) && npy_read_row(&f, row + 1, why) && !npy_read_row(&f, row, why));
        assert_true(row[0] == 0x3f800000 && row[1] == 0xc0000000);
        npy_close(&f);
    }
}

TEST(other_dtypes)
{
    char descr[NPY_DESCR_TEXT + 2];

    assert_true(npy_has_other_dtype(write_npy("'<i8'", false, "()", "12345678", 8), descr));
    assert_string_equal(descr, "'<i8'");
    assert_true(npy_has_other_dtype(write_npy("[('a', '<f4')]", false, "(1,)", "1234", 4), descr));
    assert_string_equal(descr, "[('a', '<f4')]");
    assert_false(npy_has_other_dtype(write_npy("'<f4'", false, "()", "1234", 4), descr));
    assert_false(npy_has_other_dtype(write_npy("'<i8'", false, "3", "1234", 4), descr));
    assert_false(npy_has_other_dtype("/nowhere/x.npy", descr));
}

/* A message names what is in the file. */
TEST(what_was_found)
{
    refuses("{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}\n", 24,
            "at character 34: false, 'shape': (2, 3)");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shapes': (2, 3)}\n", 24, "at character 42: shapes'");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (04, 257)}\n", 4112, "at character 51: 04, 257)}");
    refuses("{'descr': '<f4', 'fortran_order': False}\n", 24, "it has no 'shape'");
    refuses("{'descr': '<f4', 'fortran_order': False", 24, "it ends too early");
    refuses("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\x01", 24, "at character 57: ?");
}

TEST(raw_files)
{
    static const unsigned char bytes[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 1, 0, 0, 0, 0, 0, 0xc0, 0x7f};
    const char *path = write_file("x.f32", bytes, 16);
    uint32_t row[4];
    npy_file f;

    assert_true(npy_open_raw(&f, path, TLC_F32, 0, why));
    assert_true(f.header.rows == 1 && f.header.cols == 4);
    assert_true(npy_read_row(&f, row, why) && row[0] == 0x3f800000 && row[3] == 0x7fc00000);
    npy_close(&f);
    assert_true(npy_open_raw(&f, path, TLC_F32, 2, why));
    assert_true(f.header.rows == 2 && f.header.cols == 2);
    assert_true(npy_read_row(&f, row, why) && npy_read_row(&f, row, why) && row[0] == 1);
    npy_close(&f);
    refused(npy_open_raw(&f, path, TLC_F32, 3, why), "a file", "its 4 values are not rows of 3");
    assert_false(npy_open_raw(&f, path, TLC_F32, UINT64_MAX, why));
    refused(npy_open_raw(&f, write_file("x.f32", bytes, 15), TLC_F32, 0, why), "a file",
            "its 15 bytes are not a multiple of 4");
    refused(npy_open_raw(&f, write_file("x.f32", bytes, 15), TLC_BF16, 0, why), "a file",
            "its 15 bytes are not a multiple of 2");
    assert_true(npy_open_raw(&f, write_file("x.f32", bytes, 6), TLC_BF16, 0, why));
    assert_true(f.header.cols == 3 && f.header.width == 2 && f.header.dtype == TLC_BF16);
    npy_close(&f);
    refused(npy_open_raw(&f, write_file("x.f32", bytes, 0), TLC_F32, 0, why), "a file", "is empty");
}

/* No pipe is waited for. */
TEST(not_files)
{
    char path[256];
    npy_file f;

    snprintf(path, sizeof path, "%s/none.npy", folder);
    refused(npy_open(&f, path, why), "a file", "No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(npy_open(&f, path, why), "a file", "is not a regular file");
    assert_int_equal(unlink(path), 0);
    refused(npy_open(&f, folder, why), "a file", "is not a regular file");
    refused(npy_open(&f, write_file("x.npy", "", 0), why), "a file", "is empty");
}

TEST(shrinking_file)
{
    const char *path = write_npy("'<f4'", false, "(20000,)", NULL, 80000);
    static float row[20000];
    npy_file f;

    assert_true(npy_open(&f, path, why));
    assert_int_equal(truncate(path, 100), 0);
    refused(npy_read_row(&f, row, why), "a row", "is shorter than it was");
    npy_close(&f);
}

static void remove_folder(void)
{
    char path[256];

    snprintf(path, sizeof path, "%s/x.npy", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/x.f32", folder);
    unlink(path);
    rmdir(folder);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? atexit(remove_folder) : -1;
}
SETUP(make_folder)
