/* SPDX-License-Identifier: MIT
 *
 * The data of tlc-mpi-train: idx files, good and bad; whose images are whose; optimisers.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/train/deal.h"
#include "../../bench/train/optimiser.h"
#include "../../bench/train/random.h"
#include "../support/support.h"
#include <math.h>
#include <unistd.h>

enum { RANKS = 5 };

/* ---- idx files --------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/train_data-XXXXXX";
static char path[2][64];

static void remove_folder(void)
{
    for (int i = 0; i < 2; i++)
        unlink(path[i]);
    rmdir(folder);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path[0], sizeof path[0], "%s/t-images-idx3-ubyte", folder);
    snprintf(path[1], sizeof path[1], "%s/t-labels-idx1-ubyte", folder);
    return atexit(remove_folder);
}
SETUP(make_folder)

enum { HEADS = 24, LENGTH_OF_THREE = 16 + 3 * PIXELS };

/* Three images with labels 1, 0, 9. */
typedef struct idx {
    uint8_t images[LENGTH_OF_THREE + 1], labels[8 + 3 + 1];
    size_t images_len, labels_len;
} idx;

static idx good_files(void)
{
    idx f = {.images = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
             .labels = {0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 9},
             .images_len = LENGTH_OF_THREE,
             .labels_len = 11};

    for (size_t i = 16; i < LENGTH_OF_THREE; i++)
        f.images[i] = (uint8_t)i;
    return f;
}

static bool reads(const idx *f, image_set *s, char *why)
{
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(path[i], "wb");
        assert_non_null(file);
        const size_t len = i ? f->labels_len : f->images_len;
        assert_true(!len || fwrite(i ? f->labels : f->images, len, 1, file) == 1);
        assert_int_equal(fclose(file), 0);
    }
    return images_read(s, folder, "t", why);
}

TEST(a_good_file)
{
    const idx f = good_files();
    char why[WHY_SIZE];
    image_set s;

    assert_true(reads(&f, &s, why));
    assert_int_equal(s.count, 3);
    assert_memory_equal(s.pixels, f.images + 16, 3 * PIXELS);
    assert_memory_equal(s.labels, f.labels + 8, 3);
    images_free(&s);
}

static void refuses(idx f, const char *sentence)
{
    char why[WHY_SIZE] = "";
    image_set s;

    assert_false(reads(&f, &s, why));
    if (!strstr(why, sentence))
        fail_msg("'%s' is not in '%s'", sentence, why);
}

TEST(bad_files)
{
    idx f = good_files();

    f.images_len--;
    refuses(f, "its header promises");
    f.images_len += 2;
    refuses(f, "its header promises");
    f.images_len = 15;
    refuses(f, "too short");
    f = good_files();
    f.labels_len--;
    refuses(f, "its header promises");
    f = good_files();
    f.images[2] = 9;
    refuses(f, "is an idx file of type 0x09");
    f = good_files();
    f.images[11] = SIDE - 1;
    refuses(f, "dimension 1 is 27; images are 28 x 28");
    f = good_files();
    f.images[7] = 0;
    refuses(f, "has 0 images");
    memcpy(f.images + 4, (uint8_t[]){0, 0x53, 0x97, 0x83}, 4); /* 2^32 + 304 bytes */
    refuses(f, "has 5478275 images");
    f = good_files();
    f.labels[7] = 2;
    f.labels_len--;
    refuses(f, "3 images have 2 labels");
    f = good_files();
    f.labels[9] = CLASSES;
    refuses(f, "label 1 is 10");
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

static void draw(image_set *s, uint32_t count)
{
    char why[WHY_SIZE];

    assert_true(images_draw(s, count, 1, 2, why));
}

/* How often each image is in the share of a rank. Returns all. */
static uint32_t *count_shares(const deal *d, const image_set *s, size_t ranks, size_t least, size_t most)
{
    uint32_t *times = calloc(s->count, sizeof *times);

    assert_non_null(times);
    for (size_t r = 0; r < ranks; r++) {
        size_t count;
        const uint32_t *share = deal_share(d, r, &count);
        assert_in_range(count, least, most);
        for (size_t i = 0; i < count; i++)
            times[share[i]]++;
    }
    return times;
}

TEST(every_image_has_a_rank)
{
    char why[WHY_SIZE];
    image_set s;
    deal d;

    draw(&s, 1003);
    for (size_t classes = 0; classes <= CLASSES; classes++) {
        assert_true(deal_open(&d, &s, RANKS, classes, 7, why));
        const size_t spread = classes ? classes : 1;
        uint32_t *times = count_shares(&d, &s, RANKS, 1003 / RANKS - spread, 1003 / RANKS + spread);
        for (uint32_t i = 0; i < s.count; i++)
            assert_int_equal(times[i], 1);
        free(times);
        deal_close(&d);
    }
    images_free(&s);
}

/* A shard is half as large as a class, so it holds images of one or two. Dealt i.i.d. a rank has all classes. */
TEST(classes_of_a_rank)
{
    char why[WHY_SIZE];
    image_set s;
    deal d;

    draw(&s, 2000);
    for (size_t classes = 0; classes <= 4; classes += 4) {
        assert_true(deal_open(&d, &s, RANKS, classes, 7, why));
        for (size_t r = 0; r < RANKS; r++) {
            size_t count, distinct = 0;
            const uint32_t *share = deal_share(&d, r, &count);
            bool seen[CLASSES] = {false};
            for (size_t i = 0; i < count; i++)
                seen[s.labels[share[i]]] = true;
            for (int c = 0; c < CLASSES; c++)
                distinct += seen[c];
            assert_in_range(distinct, classes ? 4 : CLASSES, classes ? 8 : CLASSES);
        }
        deal_close(&d);
    }
    images_free(&s);
}

TEST(too_few_images)
{
    char why[WHY_SIZE] = "";
    image_set s;
    deal d;

    draw(&s, 9);
    assert_false(deal_open(&d, &s, RANKS, 2, 7, why));
    assert_non_null(strstr(why, "9 images are too few for 10 shares"));
    deal_close(&d);
    images_free(&s);
}

/* A pass over its share gives a rank each of its images once, in another order each time. The batches of a rank do not
 * depend on what was asked before. */
TEST(batches)
{
    enum { COUNT = 7, PASS = 203 / COUNT };
    uint32_t index[COUNT], first[COUNT], again[COUNT], times[203] = {0};
    char why[WHY_SIZE];
    image_set s;
    deal d;

    draw(&s, 203);
    assert_true(deal_open(&d, &s, 1, 0, 7, why));
    deal_batch(&d, 0, 0, COUNT, first);
    for (uint64_t b = 0; b < PASS; b++) {
        deal_batch(&d, 0, b, COUNT, index);
        for (size_t i = 0; i < COUNT; i++)
            times[index[i]]++;
    }
    for (size_t i = 0; i < 203; i++)
        assert_int_equal(times[i], 1);
    deal_batch(&d, 0, PASS, COUNT, again);
    assert_memory_not_equal(first, again, sizeof first);
    deal_batch(&d, 0, 0, COUNT, again);
    assert_memory_equal(first, again, sizeof first);
    deal_close(&d);
    images_free(&s);
}

TEST(rounds)
{
    bool in[RANKS], before[RANKS] = {false};
    int often[RANKS] = {0}, changes = 0;

    for (uint64_t round = 0; round < 200; round++) {
        size_t count = 0;
        deal_round(7, round, RANKS, 2, in);
        for (size_t r = 0; r < RANKS; r++) {
            count += in[r];
            often[r] += in[r];
        }
        assert_int_equal(count, 2);
        changes += memcmp(in, before, sizeof in) != 0;
        memcpy(before, in, sizeof in);
    }
    for (size_t r = 0; r < RANKS; r++)
        assert_in_range(often[r], 50, 110); /* 80 on average */
    assert_true(changes > 150);
    deal_round(7, 0, RANKS, RANKS, in);
    for (size_t r = 0; r < RANKS; r++)
        assert_true(in[r]);
}

/* ---- optimisers -------------------------------------------------------------------------------------------------- */

enum { N = 100 };

/* Steps of two parts are steps of all. */
TEST(parts_of_a_step)
{
    for (int kind = MOMENTUM; kind <= ADAM; kind++) {
        float gradient[N], model[2][N] = {{0}};
        uint64_t random = 1;
        char why[WHY_SIZE];
        optimiser o[2];
        for (int i = 0; i < 2; i++)
            assert_true(optimiser_open(&o[i], (optimiser_kind)kind, 0.1f, N, 20, why));
        for (int step = 0; step < 10; step++) {
            for (size_t i = 0; i < N; i++)
                gradient[i] = random_unit(&random) - 0.5f;
            optimiser_step(&o[0], gradient, model[0]);
            optimiser_begin(&o[1]);
            optimiser_range(&o[1], 33, N - 33, gradient + 33, model[1] + 33);
            optimiser_range(&o[1], 0, 33, gradient, model[1]);
        }
        assert_memory_equal(model[0], model[1], sizeof model[0]);
        for (int i = 0; i < 2; i++)
            optimiser_close(&o[i]);
    }
}

/* The change that the first steps make, with gradients of 2. */
static void check_rule(optimiser_kind kind, bool constant, size_t warmup, float first, float second)
{
    const float gradient = 2;
    float model = 0;
    char why[WHY_SIZE];
    optimiser o;

    assert_true(optimiser_open(&o, kind, 0.1f, 1, 4, why));
    o.constant = constant;
    o.warmup = warmup;
    optimiser_step(&o, &gradient, &model);
    assert_true(fabsf(model + first) < 1e-5f);
    optimiser_step(&o, &gradient, &model);
    assert_true(fabsf(model + first + second) < 1e-5f);
    optimiser_close(&o);
}

TEST(rules)
{
    check_rule(MOMENTUM, true, 0, 0.2f, 0.38f);          /* 2, then 0.9 * 2 + 2 */
    check_rule(MOMENTUM, false, 0, 0.2f, 0.75f * 0.38f); /* 3 of 4 steps are left */
    check_rule(MOMENTUM, true, 2, 0.1f, 0.38f);          /* half of the rate, then all of it */
    check_rule(MOMENTUM, false, 3, 0.2f / 3, 2.0f / 3 * 0.75f * 0.38f);
    check_rule(ADAM, true, 0, 0.1f, 0.1f);
    check_rule(RMSPROP, true, 0, 1, 0.1f * 2 / sqrtf(0.99f * 0.04f + 0.04f));
}

/* Momentum of what is sent, and parameters that move by it, are momentum of what comes. */
TEST(momentum_correction)
{
    float sent[N], gradient[N], velocity[N], model[2][N] = {{0}};
    uint64_t random = 1;
    char why[WHY_SIZE];
    optimiser o[2];

    for (int i = 0; i < 2; i++)
        assert_true(optimiser_open(&o[i], MOMENTUM, 0.1f, N, 20, why));
    o[1].corrected = true;
    for (int step = 0; step < 10; step++) {
        for (size_t i = 0; i < N; i++)
            sent[i] = gradient[i] = random_unit(&random) - 0.5f;
        optimiser_step(&o[0], gradient, model[0]);
        optimiser_correct(&o[1], 33, N - 33, sent + 33);
        optimiser_correct(&o[1], 0, 33, sent);
        optimiser_step(&o[1], sent, model[1]);
        optimiser_keep(&o[1], 0, N, sent);
        memcpy(velocity, sent, sizeof velocity);
    }
    assert_memory_equal(model[0], model[1], sizeof model[0]);
    assert_memory_equal(o[1].mean, velocity, sizeof velocity);
    sent[N - 1] = INFINITY; /* what was dropped is not kept */
    sent[0] = 1;
    optimiser_keep(&o[1], 0, N, sent);
    assert_memory_equal(o[1].mean, velocity, sizeof velocity);
    optimiser_keep(&o[1], 0, N - 1, sent);
    assert_true(o[1].mean[0] == 1 && o[1].mean[N - 1] == velocity[N - 1]);
    for (int i = 0; i < 2; i++)
        optimiser_close(&o[i]);
}
