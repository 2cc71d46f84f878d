/* SPDX-License-Identifier: MIT */
#include "shapes.h"
#include "explain.h"
#include "parse.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, LINE = 1024 };

/* 64x3x7x7 is 64 * 3 * 7 * 7. */
static bool parse_dimensions(char *text, size_t *n)
{
    char *saved = NULL, reason[WHY_SIZE];
    size_t d;

    if (!*text || *text == 'x' || text[strlen(text) - 1] == 'x' || strstr(text, "xx"))
        return false;
    *n = 1;
    for (char *item = strtok_r(text, "x", &saved); item; item = strtok_r(NULL, "x", &saved)) {
        if (!parse_size(item, 1, SIZE_MAX, &d, reason) || __builtin_mul_overflow(*n, d, n))
            return false;
    }
    return true;
}

static bool is_known(const shape_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!strcmp(list->shapes[i].name, name))
            return true;
    }
    return false;
}

static bool add_shape(shape_list *list, const char *name, size_t n, char *why)
{
    shape *shapes = realloc(list->shapes, (list->count + 1) * sizeof *shapes);

    if (!shapes)
        return explain(why, "out of memory");
    list->shapes = shapes;
    shapes[list->count] = (shape){.name = strdup(name), .n = n, .offset = list->room};
    if (!shapes[list->count].name)
        return explain(why, "out of memory");
    list->count++;
    list->values += n;
    list->room += (n + ALIGN - 1) / ALIGN * ALIGN;
    return true;
}

static bool take_line(shape_list *list, char *line, char *why)
{
    static const char blanks[] = " \t\r\n";
    char *saved = NULL;
    const char *name = strtok_r(line, blanks, &saved);
    char *dimensions = strtok_r(NULL, blanks, &saved);
    const char *more = strtok_r(NULL, blanks, &saved);
    char given[LINE];
    size_t n;

    if (!name || *name == '#')
        return true;
    snprintf(given, sizeof given, "%s%s%s%s%s", name, dimensions ? " " : "", dimensions ? dimensions : "",
             more ? " " : "", more ? more : "");
    if (!dimensions || more || !parse_dimensions(dimensions, &n))
        return explain(why, "'%s' is not a name and dimensions, as in 'conv1.weight 16x3x3x3'", given);
    if (is_known(list, name))
        return explain(why, "%s comes twice", name);
    if (list->count == MAX_TENSORS || n > SIZE_MAX / 64 - list->room)
        return explain(why, "there are too many tensors or values");
    return add_shape(list, name, n, why);
}

static bool take_lines(shape_list *list, FILE *f, char *why)
{
    char line[LINE], reason[WHY_SIZE];

    for (size_t number = 1; fgets(line, sizeof line, f); number++) {
        if (strlen(line) == sizeof line - 1)
            return explain(why, "line %zu: is too long", number);
        if (!take_line(list, line, reason))
            return explain(why, "line %zu: %s", number, reason);
    }
    if (ferror(f))
        return explain(why, "%s", strerror(errno));
    return list->count || explain(why, "has no tensors");
}

static char *model_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path, *dot = strrchr(start, '.');

    return strndup(start, dot && dot > start ? (size_t)(dot - start) : strlen(start));
}

bool shapes_load(shape_list *list, const char *path, char *why)
{
    char reason[WHY_SIZE];
    FILE *f = fopen(path, "r");
    bool ok;

    *list = (shape_list){.model = NULL};
    if (!f)
        return explain(why, "%s: %s", path, strerror(errno));
    list->model = model_of(path);
    ok = list->model ? take_lines(list, f, reason) : explain(reason, "out of memory");
    fclose(f);
    if (ok)
        return true;
    shapes_free(list);
    return explain(why, "%s: %s", path, reason);
}

void shapes_free(shape_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->shapes[i].name);
    free(list->shapes);
    free(list->model);
    *list = (shape_list){.model = NULL};
}

size_t shapes_largest(const shape_list *list)
{
    size_t largest = 0;

    for (size_t i = 0; i < list->count; i++)
        largest = list->shapes[i].n > largest ? list->shapes[i].n : largest;
    return largest;
}

bool shape_is_attention(const char *name)
{
    return strcasestr(name, "attn") || strcasestr(name, "attention");
}

bool shapes_have_attention(const shape_list *list)
{
    bool have = false;

    for (size_t i = 0; !have && i < list->count; i++)
        have = shape_is_attention(list->shapes[i].name);
    return have;
}
