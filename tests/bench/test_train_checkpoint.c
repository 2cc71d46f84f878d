/* SPDX-License-Identifier: MIT
 *
 * Files of checkpoints: what was written comes back, at addresses where floats may be; whatever a file has, nothing
 * beyond it is read. What a folder of checkpoints names, and what is removed from it.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/train/checkpoint.h"
#include "../../bench/train/saved.h"
#include "../support/support.h"
#include <ftw.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUES = 5 };

static char folder[] = "/tmp/test_train_checkpoint_XXXXXX", path[64], why[WHY_SIZE];
static const float weights[VALUES] = {1, 2, 3, 4, 5}, mean[VALUES] = {6, 7, 8, 9, 10}, square[VALUES] = {11, 12};

static void open_folder(void)
{
    strcpy(strrchr(folder, '_') + 1, "XXXXXX");
    require(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
}

static void write_file(const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    require(f && (!len || fwrite(bytes, len, 1, f) == 1) && !fclose(f));
}

/* A file with these settings, in new memory. */
static uint8_t *make_file(const char *settings, size_t *len)
{
    const checkpoint c = {.head = {.values = VALUES, .settings = strlen(settings) + 1, .state = 3},
                          .settings = settings,
                          .weights = weights,
                          .mean = mean,
                          .square = square,
                          .state = {"abc", 3}};
    require(checkpoint_write(&c, path, why));
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1000);
    require(f && bytes);
    *len = fread(bytes, 1, 1000, f);
    require(*len && *len < 1000 && !fclose(f));
    return bytes;
}

/* CRC-32, bit by bit: the header of zlib has names of ours. */
static uint32_t crc_of(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < 8 * len; i++) {
        crc ^= i % 8 ? 0 : bytes[i / 8];
        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* With the right checksum, and in a file: it is refused, or all that it promises is in it. */
static bool accepts(uint8_t *bytes, size_t len)
{
    const uint32_t crc = crc_of(bytes, len - sizeof crc);
    checkpoint c;

    memcpy(bytes + len - sizeof crc, &crc, sizeof crc);
    write_file(bytes, len);
    const bool ok = checkpoint_read(&c, path, why);
    require(ok || !c.block);
    if (ok) {
        require(memchr(c.settings, '\0', (size_t)c.head.settings) && (uintptr_t)c.weights % sizeof(float) == 0);
        require(sizeof c.head + c.head.settings + 3 * c.head.values * sizeof(float) + c.head.state + sizeof crc == len);
    }
    checkpoint_free(&c);
    return ok;
}

TEST(what_was_written_comes_back)
{
    size_t len;

    open_folder();
    for (size_t more = 0; more < 8; more++) { /* floats begin where the text ends */
        checkpoint c;
        free(make_file(&"settings"[more], &len));
        require(checkpoint_read(&c, path, why));
        require(!strcmp(c.settings, &"settings"[more]) && (uintptr_t)c.weights % sizeof(float) == 0);
        require(same(c.weights, weights, sizeof weights) && same(c.mean, mean, sizeof mean));
        require(same(c.square, square, sizeof square) && c.state.len == 3 && !memcmp(c.state.data, "abc", 3));
        checkpoint_free(&c);
    }
    unlink(path);
    rmdir(folder);
}

TEST(any_file_is_safe)
{
    static const size_t fields[] = {offsetof(checkpoint_head, values), offsetof(checkpoint_head, settings),
                                    offsetof(checkpoint_head, state)};
    static const uint64_t numbers[] = {0, 1, 2, 4, 9, 60, 1 << 20, UINT64_MAX / 4 + 1, UINT64_MAX / 2, UINT64_MAX};
    uint8_t copy[1000];
    size_t len;

    open_folder();
    uint8_t *bytes = make_file("settings", &len);
    require(accepts(bytes, len));
    memcpy(copy, bytes, len);
    copy[sizeof(checkpoint_head) + 8] = 'x'; /* the text does not end */
    require(!accepts(copy, len));
    require(strstr(why, "is not a whole checkpoint"));
    for (size_t f = 0; f < COUNT(fields); f++)
        for (size_t i = 0; i < COUNT(numbers); i++) {
            uint64_t before;
            memcpy(copy, bytes, len);
            memcpy(&before, copy + fields[f], sizeof before);
            memcpy(copy + fields[f], &numbers[i], sizeof numbers[i]);
            require(accepts(copy, len) == (before == numbers[i]));
        }
    for (size_t shorter = sizeof(uint32_t); shorter < len; shorter++) {
        memcpy(copy, bytes, len);
        require(!accepts(copy, shorter));
    }
    write_file(bytes, 3);
    checkpoint c;
    require(!checkpoint_read(&c, path, why));
    free(bytes);
    unlink(path);
    rmdir(folder);
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static void write_at(const char *name, const char *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_file(text, strlen(text));
}

static void make_at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    require(!mkdir(path, 0777));
}

static bool is_there(const char *name)
{
    char whole[300];

    snprintf(whole, sizeof whole, "%s/%s", folder, name);
    return access(whole, F_OK) == 0;
}

TEST(latest_names_a_step)
{
    static const struct {
        const char *text;
        saved_step step;
        bool good;
    } lines[] = {
        {"12 3\n", {12, 3, false}, true},
        {"12 3 again\n", {12, 3, true}, true},
        {"0 1048576\n", {0, 1 << 20, false}, true},
        {"", {0, 0, false}, false},
        {"\n", {0, 0, false}, false},
        {"x 3\n", {0, 0, false}, false},
        {"12\n", {12, 0, false}, false},
        {"12 0\n", {12, 0, false}, false},
        {"12 -1\n", {12, 0, false}, false},
        {"12 1048577\n", {12, 0, false}, false},
        {"12 99999999999999999999\n", {12, 0, false}, false},
    };
    saved_step s;

    open_folder();
    require(!saved_read(folder, &s));
    for (size_t i = 0; i < COUNT(lines); i++) {
        write_at("latest", lines[i].text);
        require(saved_read(folder, &s) == lines[i].good);
        require(!lines[i].good || (s.step == lines[i].step.step && s.ranks == lines[i].step.ranks));
        require(!lines[i].good || s.again == lines[i].step.again);
    }
    unlink(path);
    rmdir(folder);
}

static int remove_one(const char *file, const struct stat *st, int type, struct FTW *level)
{
    (void)st;
    (void)type;
    (void)level;
    return remove(file);
}

/* What is not of a checkpoint stays. */
TEST(rests_are_removed)
{
    static const char *const stay[] = {"latest",
                                       "notes",
                                       "step-",
                                       "step-x",
                                       "step-7.txt",
                                       "step-8-agains",
                                       "step-00000006",
                                       "step-00000006/rank-0",
                                       "mine/rank-0",
                                       "step-00000004",
                                       "step-00000004/notes"};
    static const char *const go[] = {"latest.part", "step-00000005", "step-00000006-again", "step-00000004/rank-0",
                                     "step-00000004/rank-11.part"};
    const saved_step last = {.step = 6, .ranks = 1};

    open_folder();
    static const char *const folders[] = {"step-",         "step-8-agains",       "step-00000006", "mine",
                                          "step-00000004", "step-00000006-again", "step-00000005"};
    for (size_t i = 0; i < COUNT(folders); i++)
        make_at(folders[i]);
    static const char *const files[] = {"notes",
                                        "step-x",
                                        "step-7.txt",
                                        "latest.part",
                                        "step-00000006/rank-0",
                                        "mine/rank-0",
                                        "step-00000004/notes",
                                        "step-00000004/rank-0",
                                        "step-00000004/rank-11.part",
                                        "step-00000005/rank-3"};
    for (size_t i = 0; i < COUNT(files); i++)
        write_at(files[i], "x");
    require(saved_end(folder, &last, why));
    for (size_t i = 0; i < COUNT(stay); i++)
        require(is_there(stay[i]));
    for (size_t i = 0; i < COUNT(go); i++)
        require(!is_there(go[i]));
    const saved_step again = {.step = 6, .ranks = 2, .again = true};
    require(saved_begin(folder, &again, why) && saved_end(folder, &again, why));
    require(is_there("step-00000006-again") && !is_there("step-00000006"));
    require(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}
