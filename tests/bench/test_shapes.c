/* SPDX-License-Identifier: MIT
 *
 * The lists of bench/shapes against the known sizes of these models. Every list is in the table, and nothing else.
 */
#include "../../bench/lib/shapes.h"
#include "../../bench/lib/explain.h"
#include "../support/support.h"
#include <dirent.h>
#include <inttypes.h>
#include <xxhash.h>

enum { SMALL = 256, ALIGN = 16, MOST_VALUES = 138357544 };

typedef struct model {
    const char *name;
    size_t tensors, values;
    size_t small, small_values; /* tensors of fewer than SMALL values */
    uint64_t digest;            /* of names and sizes, in order */
} model;

/* Values: of ResNet-20 and ResNet-110 0.27 and 1.7 million (He et al., 2016, table 6); of AlexNet, Inception-v3,
 * ResNet-50 and VGG-16 as torchvision counts them; of GPT-2 as its weights have them. Those of LeNet-5 and of the LSTM
 * follow from the widths of their layers. */
static const model models[] = {
    {"alexnet", 16, 61100840, 2, 256, UINT64_C(0x1d7aa9b3b69dfd87)},
    {"gpt2", 148, 124439808, 0, 0, UINT64_C(0xb6869253cf8d467b)},
    {"inceptionv3", 292, 27161264, 154, 20992, UINT64_C(0xcc2bff1063bfcf2a)},
    {"lenet5", 8, 431080, 3, 80, UINT64_C(0xb3013a8a2760808d)},
    {"lstm", 11, 19780400, 0, 0, UINT64_C(0x3e3671aba778d01b)},
    {"resnet110", 329, 1727962, 219, 8106, UINT64_C(0x88f52f5fa1057ee7)},
    {"resnet20", 59, 269722, 39, 1386, UINT64_C(0xd071cc63d32218f2)},
    {"resnet50", 161, 25557032, 30, 2944, UINT64_C(0x33f988956d41a334)},
    {"vgg16", 32, MOST_VALUES, 4, 384, UINT64_C(0x417ccb15e7965d92)},
};

static const model *find(const char *name)
{
    for (size_t i = 0; i < COUNT(models); i++) {
        if (!strcmp(models[i].name, name))
            return &models[i];
    }
    fail_msg("%s is not in the table", name);
    return NULL;
}

static model measure(const shape_list *list)
{
    model m = {.name = list->model, .tensors = list->count, .values = list->values};

    for (size_t i = 0; i < list->count; i++) {
        const shape *s = &list->shapes[i];
        if (s->n < SMALL) {
            m.small++;
            m.small_values += s->n;
        }
        m.digest = XXH3_64bits_withSeed(s->name, strlen(s->name), m.digest + s->n);
    }
    return m;
}

/* Returns false after a message that names the list. */
static bool is_known(const shape_list *list)
{
    model got = measure(list);
    const model *want = find(list->model);

    if (got.tensors == want->tensors && got.values == want->values && got.small == want->small &&
        got.small_values == want->small_values && got.digest == want->digest)
        return true;
    print_message("# %s: %zu tensors, %zu values; %zu small ones with %zu values; digest 0x%016" PRIx64 "\n", got.name,
                  got.tensors, got.values, got.small, got.small_values, got.digest);
    return false;
}

/* In an array of all tensors none lies on another, and each is aligned. */
static void check_offsets(const shape_list *list)
{
    size_t end = 0, values = 0;

    for (size_t i = 0; i < list->count; i++) {
        const shape *s = &list->shapes[i];
        require(s->offset % ALIGN == 0);
        require(s->offset >= end && s->offset - end < ALIGN);
        end = s->offset + s->n;
        values += s->n;
    }
    require(list->room >= end && list->room - end < ALIGN);
    require(list->values == values);
}

static bool check_file(const char *name)
{
    char path[4096], why[WHY_SIZE];
    shape_list list;
    bool known;

    if (strlen(name) < 4 || strcmp(name + strlen(name) - 4, ".txt") != 0)
        fail_msg("%s/%s is no .txt file", test_argument, name);
    require((size_t)snprintf(path, sizeof path, "%s/%s", test_argument, name) < sizeof path);
    if (!shapes_load(&list, path, why)) {
        if (strstr(why, "too many tensors or values") && SIZE_MAX / 64 < MOST_VALUES)
            return true; /* the largest lists are not for machines with 32 bits */
        fail_msg("%s", why);
    }
    known = is_known(&list);
    check_offsets(&list);
    shapes_free(&list);
    return known;
}

TEST(every_list)
{
    size_t files = 0;
    bool known = true;

    require(test_argument);
    DIR *dir = opendir(test_argument);
    require(dir);
    for (const struct dirent *file; (file = readdir(dir));) {
        if (*file->d_name == '.')
            continue;
        known &= check_file(file->d_name);
        files++;
    }
    closedir(dir);
    require(known);
    require(files == COUNT(models)); /* each model had its own: names of files differ, and all end in .txt */
}
