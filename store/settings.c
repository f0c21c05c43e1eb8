// SPDX-License-Identifier: MIT
/*
 * A snapshot lies in an arena of its own, with the tree that it was read from. It is made by one
 * thread, then only read; the last holder frees it.
 */
#include "store/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/settings_check.h"
#include "store/settings_fields.h"

/* Room for the largest file's tree and for what is made of it. */
#define MEMORY_MAX ((size_t)64 * 1024 * 1024)

static struct settings *make(void)
{
    struct settings *self = calloc(1, sizeof *self);
    assert(self);
    arena_init(&self->arena, MEMORY_MAX);
    atomic_store(&self->holders, 1);
    return self;
}

const struct settings *settings_none(void)
{
    return make();
}

const struct settings *settings_hold(const struct settings *self)
{
    atomic_fetch_add(&((struct settings *)self)->holders, 1);
    return self;
}

void settings_release(const struct settings **self_p)
{
    struct settings *self = (struct settings *)*self_p;
    *self_p = NULL;
    if (!self || atomic_fetch_sub(&self->holders, 1) > 1)
        return;
    arena_fini(&self->arena);
    free(self);
}

const struct settings *settings_parse(struct slice text, struct err *err)
{
    struct settings *self = make();
    const struct node *root = settings_yaml_read(text, &self->arena, err);
    if (root && settings_fill(self, root, err) == 0 && settings_check(self, root, err) == 0) {
        sha256_hex(text, self->hash);
        return self;
    }
    const struct settings *failed = self;
    settings_release(&failed);
    return NULL;
}

/* A plain read that follows links, as mounted configuration is links. Of a pipe it could wait for
 * ever. */
int settings_load(const char *path, struct buf *content, struct err *err)
{
    struct stat kind;
    if (stat(path, &kind) == 0 && !S_ISREG(kind.st_mode))
        return err_set(err, "cannot be read: it is no plain file");
    FILE *file = fopen(path, "re");
    char *to = buf_reserve(content, SETTINGS_FILE_MAX + 1);
    int rc = 0;
    if (!file || !to)
        rc = err_set(err, "cannot be read: %s", strerror(errno));
    if (rc == 0) {
        content->len = fread(to, 1, SETTINGS_FILE_MAX + 1, file);
        if (ferror(file))
            rc = err_set(err, "cannot be read: %s", strerror(errno));
        else if (content->len > SETTINGS_FILE_MAX)
            rc = err_set(err, "is larger than %zu bytes", SETTINGS_FILE_MAX);
    }
    if (file)
        fclose(file);
    return rc;
}

const struct settings *settings_read(const char *path, struct err *err)
{
    struct buf content;
    const struct settings *self = NULL;
    buf_init(&content, SETTINGS_FILE_MAX + 1);
    if (settings_load(path, &content, err) == 0)
        self = settings_parse((struct slice){content.data, content.len}, err);
    buf_fini(&content);
    return self;
}

const struct settings_project *settings_project(const struct settings *self, const char *name)
{
    for (size_t i = 0; i < self->projects_count; i++)
        if (strcmp(self->projects[i].name, name) == 0)
            return &self->projects[i];
    return NULL;
}
