// SPDX-License-Identifier: MIT
/*
 * err: the reason text of a failure, written where it happens, logged once by the layer that
 * decides. Any thread; the struct belongs to the caller and lives on its stack.
 */
#ifndef MCPD_ERR_H
#define MCPD_ERR_H

#define MUST_USE          __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

struct err {
    char text[256];
};

/* Writes the reason, cut to fit. err may be null (the caller does not care). Always returns -1, so
 * that `return err_set(err, ...)` reads as what it is. */
int err_set(struct err *err, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
