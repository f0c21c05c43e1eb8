// SPDX-License-Identifier: MIT
/* What a load balancer is told, for every state of the broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/health.h"

static const struct {
    struct broker_health broker;
    int status;
    const char *text;
} rows[] = {
    {{0}, 503, "no broker"},
    {{.is_alive = false, .intake = "full", .note = "x"}, 503, "no broker"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 2},
     200,
     "ok"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .used_bytes = 99,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 2},
     200,
     "ok"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 1,
      .note = "3 corrupt records"},
     200,
     "ok; 3 corrupt records"},
    {{.is_alive = true,
      .intake = "full",
      .max_bytes = 100,
      .used_bytes = 100,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 1},
     503,
     "full"},
    {{.is_alive = true,
      .intake = "low disk",
      .max_bytes = 100,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 1,
      .note = "y"},
     503,
     "full; low disk; y"},
    {{.is_alive = true,
      .intake = "write error",
      .max_bytes = 100,
      .has_upstreams = true,
      .upstreams_up = 1,
      .upstreams_total = 1},
     503,
     "write error"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .has_upstreams = true,
      .upstreams_total = 2},
     200,
     "degraded; none of 2 upstream(s) answered in the last 30 s"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .used_bytes = 79,
      .has_upstreams = true,
      .upstreams_total = 2},
     200,
     "degraded; none of 2 upstream(s) answered in the last 30 s"},
    {{.is_alive = true,
      .intake = "ok",
      .max_bytes = 100,
      .used_bytes = 80,
      .has_upstreams = true,
      .upstreams_total = 2},
     503,
     "no upstream; none of 2 upstream(s) answered in the last 30 s"},
    {{.is_alive = true, .intake = "ok", .max_bytes = 100},
     200,
     "degraded; no courier has reported yet"},
    {{.is_alive = true, .intake = "ok", .max_bytes = 100, .used_bytes = 90},
     503,
     "no upstream; no courier has reported yet"},
    {{.is_alive = true, .intake = "ok"}, 200, "degraded; no courier has reported yet"},
};

static void test_readiness(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buf text;
        buf_init(&text, 1024);
        assert_int_equal(health_readiness(&rows[i].broker, &text), rows[i].status);
        assert_string_equal(buf_cstr(&text), rows[i].text);
        buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readiness)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
