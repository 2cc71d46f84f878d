/* SPDX-License-Identifier: MIT
 *
 * A model in files: a file, or a folder with all files in it and in its folders, but for those whose names begin with a
 * dot. Its entries are tensors and, of files that are not raw, the rest: what is in no tensor.
 */
#ifndef DELTA_MODEL_H
#define DELTA_MODEL_H

#include "kinds.h"
#include "mapped.h"

#define MODEL_REST_PREFIX "__rest__/" /* what the name of a file's rest begins with; its path follows */
#define MODEL_REST SIZE_MAX           /* in place of the number of a tensor */

/* The longest rest: a header, and bytes between tensors, which the format does not have. */
#define MODEL_REST_MAX (UINT64_C(128) << 20)

typedef struct model_file {
    char *path; /* in the folder, with / between its parts; of a model that is one file "data" */
    file_kind kind;
    tlc_dtype dtype; /* of a raw file */
    uint64_t size;
    bool is_laid_out;
    layout layout;
    mapped_file map; /* of a model that was opened */
} model_file;

typedef struct model_entry {
    char *name;
    size_t file, tensor; /* the number of a tensor in the layout of the file, or MODEL_REST */
} model_entry;

typedef struct model {
    bool is_folder;
    size_t file_count;
    model_file *files; /* by path, in the order of bytes */
    size_t count;
    model_entry *entries; /* by name, in the order of bytes */
} model;

/* Opens all files of a folder, or a file. raw: the dtype of a raw file; NULL, and in folders: bytes, if it is not
 * called .f32, .f16 or .bf16. false: why says what is wrong, and there is nothing to close. */
bool model_open(model *m, const char *path, const tlc_dtype *raw, char *why);
void model_close(model *m);

/* Adds a file, which has a copy of the path, to a model that is being made. */
bool model_add_file(model *m, const model_file *file, char *why);

/* Puts the files in order, once they were all added. */
void model_sort_files(model *m);

/* Finds the tensors of a file. bytes: the first len ones. */
bool model_lay_out(model_file *file, const uint8_t *bytes, uint64_t len, char *why);

/* Makes the list of entries, after all files have been laid out. */
bool model_list(model *m, char *why);

model_file *model_find_file(const model *m, const char *path);   /* NULL: there is none */
const model_entry *model_find(const model *m, const char *name); /* NULL: there is none */

/* What an entry is: of the rest bytes. Its name is not set. */
layout_tensor model_tensor(const model *m, const model_entry *e);

/* The parts of an entry in its file: *at is 0 for the first one. false: there is no other one. */
bool model_part(const model *m, const model_entry *e, size_t *at, uint64_t *offset, uint64_t *len);

/* The weights of an entry of a model that was opened, in its map; or NULL, if they are not together there, or not in
 * the byte order of this machine. Then model_load copies them. */
uint8_t *model_weights(const model *m, const model_entry *e);
void model_load(const model *m, const model_entry *e, uint8_t *weights);

/* The weights of an entry are not needed for now, so that files that are mapped do not fill the memory. */
void model_release(const model *m, const model_entry *e);
#endif
