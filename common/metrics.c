// SPDX-License-Identifier: MIT
/*
 * One slot a metric without labels; a metric with labels has a list of series that only grows, so a
 * series may be kept and counted on without a lock. The lists are walked lock-free by the renderer
 * and extended under one mutex.
 */
#include "common/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/options.h"

#define SERIES_MAX  1000
#define LABEL_NAMES 2

enum metric_kind { COUNTER, GAUGE, HISTOGRAM, SIZES };

struct metric_row {
    enum metric_kind kind;
    const char *name;
    unsigned roles;
    const char *labels;
    const char *help;
};

static const struct metric_row rows[METRIC_COUNT] = {
#define METRIC(kind, id, name, roles, labels, help) {kind, name, roles, labels, help},
#include "common/metrics.def"
#undef METRIC
};

/* Upper bounds of the histogram buckets; one more counts what is above. */
#define BOUND_COUNT 17
static const uint64_t bounds_us[BOUND_COUNT] = {
    100,    250,    500,    1000,    2500,    5000,    10000,    25000,   50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};
static const uint64_t bounds_sizes[BOUND_COUNT] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};

struct histogram {
    _Atomic uint64_t counts[BOUND_COUNT + 1];
    _Atomic uint64_t sum;
};

struct metric_series {
    struct metric_series *next;
    char *values[LABEL_NAMES];
    _Atomic int64_t value;
    struct histogram *histogram; /* instead of the value, where the metric is one */
};

static _Atomic int64_t values[METRIC_COUNT];
static struct histogram histograms[METRIC_COUNT];
static metric_series_t *_Atomic series_lists[METRIC_COUNT];
static pthread_mutex_t series_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t started_at_ms;

void metrics_add(enum metric id, uint64_t n)
{
    atomic_fetch_add_explicit(&values[id], (int64_t)n, memory_order_relaxed);
}

void metrics_set(enum metric id, int64_t value)
{
    atomic_store_explicit(&values[id], value, memory_order_relaxed);
}

int64_t metrics_get(enum metric id)
{
    return atomic_load_explicit(&values[id], memory_order_relaxed);
}

static void observe(struct histogram *h, const uint64_t bounds[BOUND_COUNT], uint64_t value)
{
    size_t bucket = 0;
    while (bucket < BOUND_COUNT && value > bounds[bucket])
        bucket++;
    atomic_fetch_add_explicit(&h->counts[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
}

void metrics_observe_us(enum metric id, uint64_t microseconds)
{
    observe(&histograms[id], bounds_us, microseconds);
}

void metrics_observe_size(enum metric id, uint64_t size)
{
    observe(&histograms[id], bounds_sizes, size);
}

static char *copy_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort();
    return copy;
}

static metric_series_t *make_series(enum metric id, const char *first, const char *second)
{
    metric_series_t *series = calloc(1, sizeof *series);
    if (!series)
        abort();
    series->values[0] = copy_text(first);
    series->values[1] = copy_text(second);
    if (rows[id].kind == HISTOGRAM && !(series->histogram = calloc(1, sizeof *series->histogram)))
        abort();
    return series;
}

static metric_series_t *find_series(enum metric id, const char *first, const char *second,
                                    size_t *count)
{
    *count = 0;
    for (metric_series_t *s = atomic_load(&series_lists[id]); s; s = s->next, ++*count)
        if (strcmp(s->values[0], first) == 0 && strcmp(s->values[1], second) == 0)
            return s;
    return NULL;
}

metric_series_t *metrics_series(enum metric id, const char *first, const char *second)
{
    second = second ? second : "";
    size_t count;
    metric_series_t *found = find_series(id, first, second, &count);
    if (found)
        return found;
    pthread_mutex_lock(&series_lock);
    found = find_series(id, first, second, &count);
    if (!found && count >= SERIES_MAX) {
        first = second = "other";
        found = find_series(id, first, second, &count);
    }
    if (!found) {
        found = make_series(id, first, second);
        found->next = atomic_load(&series_lists[id]);
        atomic_store(&series_lists[id], found);
    }
    pthread_mutex_unlock(&series_lock);
    return found;
}

void metric_series_add(metric_series_t *series, uint64_t n)
{
    atomic_fetch_add_explicit(&series->value, (int64_t)n, memory_order_relaxed);
}

void metric_series_set(metric_series_t *series, int64_t value)
{
    atomic_store_explicit(&series->value, value, memory_order_relaxed);
}

void metric_series_observe_us(metric_series_t *series, uint64_t microseconds)
{
    observe(series->histogram, bounds_us, microseconds);
}

/* A label's value: backslash, quote and line end escaped, as the text format asks. */
static int add_label_value(struct buf *out, const char *value)
{
    int rc = 0;
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            rc |= buf_add(out, "\\", 1);
        rc |= *value == '\n' ? buf_add(out, "\\n", 2) : buf_add(out, value, 1);
    }
    return rc;
}

/* name="value" of each label, separated by a comma. */
static int render_labels(const struct metric_row *row, const metric_series_t *series,
                         struct buf *out)
{
    int rc = 0;
    const char *label = row->labels;
    for (int i = 0; i < LABEL_NAMES && *label; i++) {
        size_t len = strcspn(label, ",");
        rc |= buf_printf(out, "%s%.*s=\"", i > 0 ? "," : "", (int)len, label);
        rc |= add_label_value(out, series->values[i]);
        rc |= buf_add_str(out, "\"");
        label += len + (label[len] == ',');
    }
    return rc;
}

/* The name of one line of a histogram, with the series' labels and the bucket's bound. */
static int render_name(const struct metric_row *row, const char *suffix,
                       const metric_series_t *series, const char *bound, struct buf *out)
{
    int rc = buf_printf(out, "%s%s", row->name, suffix);
    if (series || bound)
        rc |= buf_add_str(out, "{");
    if (series)
        rc |= render_labels(row, series, out);
    if (bound)
        rc |= buf_printf(out, "%sle=\"%s\"", series ? "," : "", bound);
    if (series || bound)
        rc |= buf_add_str(out, "}");
    return rc;
}

/* series: whose histogram it is, or null for the metric's own. */
static int render_histogram(const struct metric_row *row, const struct histogram *h,
                            const metric_series_t *series, struct buf *out)
{
    int rc = 0;
    uint64_t count = 0;
    char bound[32];
    bool is_time = row->kind == HISTOGRAM;
    const uint64_t *bounds = is_time ? bounds_us : bounds_sizes;
    double unit = is_time ? 1e6 : 1;
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        count += atomic_load(&h->counts[i]);
        snprintf(bound, sizeof bound, "%g", (double)bounds[i] / unit);
        rc |= render_name(row, "_bucket", series, bound, out);
        rc |= buf_printf(out, " %llu\n", (unsigned long long)count);
    }
    count += atomic_load(&h->counts[BOUND_COUNT]);
    rc |= render_name(row, "_bucket", series, "+Inf", out);
    rc |= buf_printf(out, " %llu\n", (unsigned long long)count);
    rc |= render_name(row, "_sum", series, NULL, out);
    rc |= buf_printf(out, " %.*f\n", is_time ? 6 : 0, (double)atomic_load(&h->sum) / unit);
    rc |= render_name(row, "_count", series, NULL, out);
    rc |= buf_printf(out, " %llu\n", (unsigned long long)count);
    return rc;
}

static int render_series(const struct metric_row *row, const metric_series_t *series,
                         struct buf *out)
{
    if (series->histogram)
        return render_histogram(row, series->histogram, series, out);
    int rc = render_name(row, "", series, NULL, out);
    rc |= buf_printf(out, " %lld\n", (long long)atomic_load(&series->value));
    return rc;
}

static const char *kind_word(enum metric_kind kind)
{
    static const char *const words[] = {"counter", "gauge", "histogram", "histogram"};
    return words[kind];
}

void metrics_start(void)
{
    atomic_store(&started_at_ms, clock_mono_ms());
}

int metrics_render(unsigned roles, struct buf *out)
{
    metrics_set(METRIC_uptime, (int64_t)((clock_mono_ms() - atomic_load(&started_at_ms)) / 1000));
    int rc = 0;
    for (int id = 0; id < METRIC_COUNT; id++) {
        const struct metric_row *row = &rows[id];
        if ((row->roles & roles) == 0)
            continue;
        rc |= buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                         kind_word(row->kind));
        if (*row->labels)
            for (metric_series_t *s = atomic_load(&series_lists[id]); s; s = s->next)
                rc |= render_series(row, s, out);
        else if (row->kind == HISTOGRAM || row->kind == SIZES)
            rc |= render_histogram(row, &histograms[id], NULL, out);
        else
            rc |= buf_printf(out, "%s %lld\n", row->name, (long long)metrics_get((enum metric)id));
    }
    return rc ? -1 : 0;
}

/* The roles as words, for the documentation. */
static const char *role_words(unsigned roles)
{
    if (roles == R_ALL)
        return "all";
    if (roles == (R_GATEWAY | R_DAEMON))
        return "gateway, relay, daemon";
    if (roles & R_DAEMON)
        return "daemon";
    return roles & R_GATEWAY  ? "gateway, relay"
           : roles & R_BROKER ? "broker, relay"
                              : "courier, relay";
}

void metrics_markdown(FILE *out)
{
    fprintf(out, "# Metrics\n\nGenerated from `common/metrics.def`; exported at `/metrics` in "
                 "Prometheus text format.\n\n| Metric | Type | Labels | Exported by | Meaning |\n"
                 "|---|---|---|---|---|\n");
    for (int id = 0; id < METRIC_COUNT; id++)
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", rows[id].name, kind_word(rows[id].kind),
                rows[id].labels, role_words(rows[id].roles), rows[id].help);
}
