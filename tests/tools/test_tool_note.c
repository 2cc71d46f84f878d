/* SPDX-License-Identifier: MIT
 *
 * The list of files in a message of tlc-delta: no path leads out of the folder, and no list is believed that no model
 * can have.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/tlc-delta/models/note.h"
#include "../support/support.h"

static bool reads(const char *note, model *m)
{
    char why[WHY_SIZE] = "";
    const bool ok = note_read((const uint8_t *)note, strlen(note), m, why);

    assert_int_equal(ok, !*why);
    return ok;
}

static bool reads_path(const char *path)
{
    char note[8192];
    model m;

    snprintf(note, sizeof note,
             "{\"format\":\"tlc-delta 1\",\"folder\":true,\"files\":[{\"path\":\"%s\",\"kind\":\"u8\",\"size\":1}]}",
             path);
    if (!reads(note, &m))
        return false;
    assert_string_equal(m.files[0].path, path);
    model_close(&m);
    return true;
}

TEST(paths_stay_in_the_folder)
{
    static const char *const good[] = {"a", "a/b.c/d", "a b", "x..", "\xc3\xa4"};
    static const char *const bad[] = {"",       "/",   "/a",     "a/",   "a//b",     ".",   "..",   "../a",
                                      "a/../b", "a/.", "a/.b/c", ".git", "a/..\\/b", "./a", "\xff", "a/.."};
#if defined(_WIN32)
    static const char *const bad_there[] = {"..\\\\a", "a\\\\..\\\\..\\\\b",  "C:a",
                                            "a:b",     "\\\\\\\\server\\\\a", "a/C:/b"};

    for (size_t i = 0; i < sizeof bad_there / sizeof bad_there[0]; i++)
        assert_false(reads_path(bad_there[i]));
#endif
    char text[5000];

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(reads_path(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(reads_path(bad[i]));
    memset(text, 'x', sizeof text);
    text[4095] = '\0';
    assert_true(reads_path(text));
    text[4095] = 'x';
    text[4096] = '\0';
    assert_false(reads_path(text));
}

#define FILES(files) "{\"format\":\"tlc-delta 1\",\"folder\":true,\"files\":[" files "]}"
#define A "{\"path\":\"a\",\"kind\":\"u8\",\"size\":1}"
#define B "{\"path\":\"b\",\"kind\":\"safetensors\",\"size\":9}"

TEST(lists_are_those_of_models)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        FILES(""),
        FILES("1"),
        FILES(B "," A),
        FILES(A "," A),
        FILES("{\"path\":\"a\",\"kind\":\"u8\"}"),
        FILES("{\"path\":\"a\",\"kind\":\"u9\",\"size\":1}"),
        FILES("{\"path\":\"a\",\"kind\":\"u8\",\"size\":-1}"),
        FILES("{\"path\":\"a\",\"kind\":\"u8\",\"size\":1.0}"),
        FILES("{\"path\":\"a\",\"kind\":\"f32\",\"size\":3}"),
        FILES("{\"path\":1,\"kind\":\"f32\",\"size\":4}"),
        FILES("{\"path\":\"a\",\"kind\":1,\"size\":4}"),
        "{\"format\":\"tlc-delta 2\",\"folder\":true,\"files\":[" A "]}",
        "{\"folder\":true,\"files\":[" A "]}",
        "{\"format\":\"tlc-delta 1\",\"files\":[" A "," B "]}", /* two files, and no folder */
        "{\"format\":\"tlc-delta 1\",\"folder\":true,\"files\":{\"a\":" A "}}",
    };
    model m;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(reads(bad[i], &m));
    assert_true(reads(FILES(A "," B), &m));
    assert_true(m.is_folder);
    assert_int_equal(m.file_count, 2);
    assert_true(m.files[0].is_laid_out && !m.files[1].is_laid_out);
    assert_int_equal(m.files[1].kind, FILE_SAFETENSORS);
    model_close(&m);
}
