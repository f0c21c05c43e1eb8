// SPDX-License-Identifier: MIT
/*
 * pg_migrations: how the tables of a Postgres store come to be, step by step. A new step goes to
 * the end; one that was released is never changed. All steps that are missing run in one
 * transaction.
 */
#ifndef MCPD_STORE_PG_MIGRATIONS_H
#define MCPD_STORE_PG_MIGRATIONS_H

#include <stddef.h>

/* The statements of a step, one each, ended by null. */
typedef const char *const *pg_migration;

/* step is from 0 to below the count, which is the version of a schema that has them all. */
pg_migration pg_migration_step(size_t step);
size_t pg_migration_count(void);

#endif
