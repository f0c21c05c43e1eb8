// SPDX-License-Identifier: MIT
/*
 * score_job: what a backend is asked of scoring. A trace is settled once, when it is complete as
 * far as anyone can tell; the transaction that settles it leaves a job for each scorer that is to
 * look at it. A job stays until the transaction that stores its score takes it away, so a score is
 * neither lost nor doubled, whoever leads. Times are the database's.
 */
#ifndef MCPD_STORE_SCORE_JOB_H
#define MCPD_STORE_SCORE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/grant.h"
#include "proto/batch.h"

#define SCORE_SCORERS_MAX  100
#define SCORE_PROJECT_SIZE (GRANT_PROJECT_MAX + 1)
/* Jobs of a scorer that are counted; more may wait. */
#define SCORE_COUNT_MAX 100000

/* Which scorers, by name, get a job for the trace: writes up to SCORE_SCORERS_MAX and returns how
 * many. The names live until the call that asked has returned. */
typedef size_t settle_choose(void *arg, const char *project, const uint8_t trace_id[16],
                             const char **scorers);

struct settle_call {
    uint64_t quiet_s;   /* a trace whose root has ended is settled when nothing came so long */
    uint64_t max_age_s; /* every trace is, so long after its first event */
    size_t max_rows;
    settle_choose *choose;
    void *arg;
};

struct score_job {
    char project[SCORE_PROJECT_SIZE];
    uint8_t trace_id[16];
    uint64_t tries; /* that failed */
};

/* A row of scores; null texts are not stored. */
struct score_row {
    const char *id;
    const char *name;
    enum score_type type;
    bool has_number;
    double number;
    const char *text;
    const char *source;
    const char *comment;
    const char *version;
    const char *error;
};

/* What becomes of a job. Written twice, as when the answer to a commit was lost, it changes nothing
 * more. */
struct score_outcome {
    const struct score_job *job;
    const char *scorer;
    const struct score_row *row; /* stored where none has its id; null: nothing is */
    uint64_t retry_s;            /* not 0: nothing is stored, the job has one more failed try and is
                                    due again in so long */
};

#endif
