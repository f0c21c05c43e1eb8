// SPDX-License-Identifier: MIT
/* The promises: a settings file is taken as a whole or refused with the line, the field and what is
 * allowed; nothing of a secret stands in the reason; no file makes the process large. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/settings.h"

#define DIGEST_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define DIGEST_B "BBbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct settings *parse(const char *text)
{
    struct err err = {{0}};
    const struct settings *settings = settings_parse(slice_of(text), &err);
    if (!settings)
        fail_msg("%s", err.text);
    return settings;
}

static const char whole[] =
    "version: 1\n"
    "keys:\n"
    "  - {name: edge, project: shop, scope: in, sha256: \"" DIGEST_A "\", expires: 2027-01-01}\n"
    "  - name: ops\n"
    "    scope: ad\n"
    "    sha256: " DIGEST_B "\n"
    "projects: {shop: {retention: 30d, quota: {requests: 6000, events: 600000, bytes: 512MiB}},"
    " free: {}}\n"
    "scorers:\n"
    "  - {name: no-tool-error, where: 'env = \"prod\"', rule: 'errors = 0'}\n"
    "  - {name: helpful, on: trace, project: shop, sample: 0.1,\n"
    "     output: {type: number, min: 0, max: 1},\n"
    "     judge: {url: \"https://judge.internal/score\", key_env: JUDGE_KEY, timeout: 250ms}}\n"
    "  - {name: intent, judge: {url: 'http://j'}, output: {type: label, labels: [order, refund]},"
    " version: v7}\n";

static void every_field(void **state)
{
    (void)state;
    const struct settings *self = parse(whole);
    assert_true(self->has_keys);
    assert_int_equal(self->keys_count, 2);
    assert_string_equal(self->keys[0].name, "edge");
    assert_string_equal(self->keys[0].project, "shop");
    assert_int_equal(self->keys[0].scope, GRANT_IN);
    assert_int_equal(self->keys[0].sha256[31], 0xaa);
    assert_int_equal(self->keys[0].expires_s, 1798761600);
    assert_string_equal(self->keys[1].project, "default");
    assert_int_equal(self->keys[1].scope, GRANT_AD);
    assert_int_equal(self->keys[1].expires_s, 0);

    assert_int_equal(self->projects_count, 2);
    const struct settings_project *shop = settings_project(self, "shop");
    assert_int_equal(shop->retention_days, 30);
    assert_int_equal(shop->quota->requests, 6000);
    assert_int_equal(shop->quota->events, 600000);
    assert_int_equal(shop->quota->bytes, 512 << 20);
    assert_null(settings_project(self, "free")->quota);
    assert_null(settings_project(self, "other"));

    assert_int_equal(self->scorers_count, 3);
    const struct settings_scorer *rule = &self->scorers[0];
    assert_string_equal(rule->where, "env = \"prod\"");
    assert_string_equal(rule->rule, "errors = 0");
    assert_null(rule->project);
    assert_null(rule->judge);
    assert_int_equal(rule->output->type, SCORE_BOOLEAN);
    assert_true(rule->sample == 1);
    assert_int_equal(strlen(rule->version), SETTINGS_VERSION_LEN);

    const struct settings_scorer *judge = &self->scorers[1];
    assert_string_equal(judge->project, "shop");
    assert_true(judge->sample == 0.1);
    assert_string_equal(judge->judge->url, "https://judge.internal/score");
    assert_string_equal(judge->judge->key_env, "JUDGE_KEY");
    assert_int_equal(judge->judge->timeout_ms, 250);
    assert_int_equal(judge->judge->max_input_bytes, 64 << 10);
    assert_int_equal(judge->judge->retries, 4);
    assert_int_equal(judge->judge->parallel, 4);
    assert_true(judge->output->min == 0 && judge->output->max == 1);

    const struct settings_scorer *label = &self->scorers[2];
    assert_int_equal(label->output->type, SCORE_LABEL);
    assert_int_equal(label->output->labels_count, 2);
    assert_string_equal(label->output->labels[1], "refund");
    assert_string_equal(label->version, "v7");
    assert_null(label->judge->key_env);
    settings_release(&self);
}

static void json_is_the_same(void **state)
{
    (void)state;
    const struct settings *self =
        parse("{\"version\": 1, \"keys\": [{\"name\": \"edge\", \"scope\": \"rd\",\n"
              "\"sha256\": \"" DIGEST_A "\", \"expires\": \"2027-01-01T12:00:00Z\"}],\n"
              "\"projects\": {\"a\": {\"quota\": {\"bytes\": \"1MiB\"}}},\n"
              "\"scorers\": [{\"name\": \"s\", \"rule\": \"errors = 0\", \"sample\": 2.5e-1}]}\n");
    assert_int_equal(self->keys[0].expires_s, 1798761600 + 43200);
    assert_int_equal(self->keys[0].scope, GRANT_RD);
    assert_int_equal(self->projects[0].quota->bytes, 1 << 20);
    assert_int_equal(self->projects[0].quota->events, 0);
    assert_true(self->scorers[0].sample == 0.25);
    settings_release(&self);
    self = parse("version: 1");
    assert_false(self->has_keys);
    settings_release(&self);
    self = parse("version: 1\nkeys: []\n");
    assert_true(self->has_keys);
    assert_int_equal(self->keys_count, 0);
    settings_release(&self);
}

#define KEY(more)    "version: 1\nkeys:\n- {name: a, scope: in, sha256: " DIGEST_A more "}\n"
#define SCORER(more) "version: 1\nscorers:\n- {name: a" more "}\n"
#define QUOTA(more)  "version: 1\nprojects:\n  shop:\n    quota: {" more "}\n"

static void refusals(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "line 1: the file is empty"},
        {"# nothing\n", "line 1: the file is empty"},
        {"hello", "line 1: a map of fields is expected"},
        {"[1]", "line 1: a map of fields is expected"},
        {"keys: []", "line 1: 'version' is missing"},
        {"version: 2", "line 1: version: '2' is not a whole number (1 to 1)"},
        {"version:\n", "line 1: version: nothing is not a whole number"},
        {"version: 1\nversion: 1\n", "line 2: 'version' stands here twice, first in line 1"},
        {"version: 1\nkeyz: []",
         "line 2: 'keyz' is unknown; allowed are version, keys, projects, scorers"},
        {"version: 1\nmonitors: []", "line 2: the section 'monitors' is not known to this version"},
        {"version: 1\nsampling: {}", "line 2: the section 'sampling' is not known to this version"},
        {"version: 1\nkeys: {}", "line 2: keys: a map is not a list"},
        {"version: 1\nkeys:\n", "line 2: keys: nothing is not a list; an empty one is written []"},
        {"version: 1\nkeys: [a]", "line 2: keys[0]: a map of fields is expected"},
        {"version: 1\n---\nversion: 1\n", "line 2: a second document begins"},
        {"version: &a 1", "line 1: anchors (&), aliases (*) and tags (!) are not taken"},
        {"version: *a", "anchors (&), aliases (*) and tags (!) are not taken"},
        {"version: !!int 1", "anchors (&), aliases (*) and tags (!) are not taken"},
        {"version: 1\nkeys: [\n", "line 3: this is neither YAML nor JSON"},
        {"version: 1\n\tkeys: []", "line 2: this is neither YAML nor JSON"},
        {"version: \"\\0\"", "line 1: a text holds a control character"},
        {"version: 1\n? [a]\n: b\n", "line 2: a name is expected here"},
        {"version: \xff", "line 1: invalid leading UTF-8 octet"},
        {"version: [[[[[[[[[1]]]]]]]]]", "line 1: more than 8 levels deep"},
        {KEY(", secret: x"),
         "line 3: keys[0]: 'secret' is unknown; allowed are name, project, scope"},
        {KEY(", expires: soon"), "line 3: keys[0].expires: 'soon' is not a date or time"},
        {KEY(", expires: 1798761600"), "line 3: keys[0].expires: '1798761600' is not a date"},
        {KEY(", project: Shop"), "line 3: keys[0].project: 'Shop' is not a project: 1 to 40"},
        {KEY("}\n- {name: a, scope: rd, sha256: " DIGEST_B),
         "line 4: keys[1].name: 'a' is the name of keys[0], too"},
        {KEY("}\n- {name: b, scope: rd, sha256: " DIGEST_A),
         "line 4: keys[1].sha256: this is the key of keys[0], too"},
        {"version: 1\nkeys: [{name: a, sha256: " DIGEST_A "}]",
         "line 2: keys[0]: 'scope' is missing"},
        {"version: 1\nkeys: [{name: a, sha256: " DIGEST_A ", scope: all}]",
         "line 2: keys[0].scope: 'all' is not one of in|rd|sc|ad"},
        {"version: 1\nprojects: {A: {}}", "line 2: projects: 'A' is not a project"},
        {"version: 1\nprojects: {a: }", "line 2: projects.a: a map of fields is expected"},
        {"version: 1\nprojects: {a: {retention: 36h}}",
         "line 2: projects.a.retention: '36h' is not whole days such as 30d (1d to 36500d)"},
        {"version: 1\nprojects: {a: {retention: 0d}}", "'0d' is not whole days"},
        {QUOTA("requests: 0"),
         "line 4: projects.shop.quota.requests: '0' is not a whole number (1 to"},
        {QUOTA("requests: -1"), "'-1' is not a whole number"},
        {QUOTA("requests: 99999999999999999999999"), "is not a whole number"},
        {QUOTA("bytes: 1 MiB"), "'1 MiB' is not a size such as 64KiB"},
        {QUOTA("tokens: 1"),
         "line 4: projects.shop.quota: 'tokens' is unknown; allowed are requests"},
        {SCORER(""), "line 3: scorers[0]: exactly one of rule and judge must be there"},
        {SCORER(", rule: a, judge: {url: 'http://j'}"), "exactly one of rule and judge"},
        {SCORER(", rule: ''"), "line 3: scorers[0].rule: '' is not a text"},
        {SCORER(", rule: ~"), "line 3: scorers[0].rule: nothing is not a text"},
        {SCORER(", rule: errors"), "line 3: scorers[0].rule: at character 7: expected = != < <= >"},
        {SCORER(", where: 'count(tool) = 1', judge: {url: 'http://j'}"),
         "line 3: scorers[0].where: at character 11: expected = != in contains ^=, not )"},
        {SCORER(", rule: a, sample: 1.5"), "scorers[0].sample: '1.5' is not a number (0 to 1)"},
        {SCORER(", rule: a, sample: nan"), "scorers[0].sample: 'nan' is not a number"},
        {SCORER(", rule: a, sample: 0x1"), "scorers[0].sample: '0x1' is not a number"},
        {SCORER(", rule: a, on: span"), "scorers[0].on: 'span' is not one of trace"},
        {SCORER(", rule: a, output: {type: number}"), "scorers[0].output: a rule gives a boolean"},
        {SCORER(", judge: {url: 'ftp://j'}"), "scorers[0].judge.url: this is not a URL"},
        {SCORER(", judge: {url: 'http:///x'}"), "scorers[0].judge.url: this is not a URL"},
        {SCORER(", judge: {format: mcpd}"), "scorers[0].judge: 'url' is missing"},
        {SCORER(", judge: {url: 'http://j', parallel: 65}"),
         "'65' is not a whole number (1 to 64)"},
        {SCORER(", judge: {url: 'http://j', timeout: 1h}"),
         "'1h' is not a time such as 30s (100ms to 10m)"},
        {SCORER(", judge: {url: 'http://j'}, output: {type: label, min: 1}"),
         "min and max are for the type number"},
        {SCORER(", judge: {url: 'http://j'}, output: {labels: [a]}"),
         "labels are for the type label"},
        {SCORER(", judge: {url: 'http://j'}, output: {min: 2, max: 1}"), "min is above max"},
        {SCORER(", judge: {url: 'http://j'}, output: {min: inf}"), "'inf' is not a number"},
        {SCORER(", rule: errors = 0}\n- {name: a, rule: errors = 0"),
         "line 4: scorers[1].name: 'a' is the name of scorers[0]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {{0}};
        const struct settings *self = settings_parse(slice_of(cases[i].text), &err);
        if (self || !strstr(err.text, cases[i].reason))
            fail_msg("case %zu: '%s', expected '%s'", i, self ? "taken" : err.text,
                     cases[i].reason);
    }
}

/* People put a secret where its digest or the name of its variable belongs. */
static void no_secret_is_shown(void **state)
{
    static const char *const texts[] = {
        "version: 1\nkeys: [{name: a, scope: in, sha256: hunter2-hunter2}]",
        SCORER(", judge: {url: 'https://u:hunter2@j'}"),
        SCORER(", judge: {url: 'https://j', key_env: sk-hunter2}"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct err err = {{0}};
        assert_null(settings_parse(slice_of(texts[i]), &err));
        assert_null(strstr(err.text, "hunter2"));
    }
}

/* What decides a score is in the version; how it is asked for is not. */
static void versions(void **state)
{
    static const struct {
        const char *text;
        bool is_other;
    } cases[] = {
        {SCORER(", judge: {url: 'http://j', retries: 1, timeout: 1s, parallel: 1}, sample: 0.5"),
         false},
        {SCORER(", judge: {url: 'http://j'}, output: {type: number}"), false},
        {SCORER(", judge: {url: 'http://k'}"), true},
        {SCORER(", judge: {url: 'http://j'}, where: errors = 0"), true},
        {SCORER(", judge: {url: 'http://j', max_input: 1KiB}"), true},
        {SCORER(", judge: {url: 'http://j'}, output: {min: 0}"), true},
        {SCORER(", judge: {url: 'http://j'}, output: {type: label, labels: [a]}"), true},
        {SCORER(", rule: 'name = \"http://j\"'"), true},
    };
    (void)state;
    const struct settings *base = parse(SCORER(", judge: {url: 'http://j'}"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct settings *self = parse(cases[i].text);
        assert_int_equal(strcmp(base->scorers[0].version, self->scorers[0].version) != 0,
                         cases[i].is_other);
        settings_release(&self);
    }
    settings_release(&base);
}

/* What many values say is bounded before memory is spent on it. */
static void too_much(void **state)
{
    struct buf text;
    struct err err = {{0}};
    (void)state;
    buf_init(&text, SETTINGS_FILE_MAX);
    assert_int_equal(buf_add_str(&text, "version: 1\nprojects:\n"), 0);
    for (int i = 0; i < 1001; i++)
        assert_int_equal(buf_printf(&text, "  p%d: {}\n", i), 0);
    assert_null(settings_parse((struct slice){text.data, text.len}, &err));
    assert_non_null(strstr(err.text, "line 3: projects: 1001 are given, 1000 are allowed"));
    buf_reset(&text);
    assert_int_equal(buf_add_str(&text, "version: ["), 0);
    while (buf_add_str(&text, "1,") == 0)
        ;
    assert_null(settings_parse((struct slice){text.data, text.len}, &err));
    assert_non_null(strstr(err.text, "line 1: a list or map holds more than 2000 items"));
    buf_reset(&text);
    assert_int_equal(buf_add_str(&text, "version: [\n"), 0);
    for (int i = 0; i < 101; i++) {
        assert_int_equal(buf_add_str(&text, "["), 0);
        for (int j = 0; j < 1000; j++)
            assert_int_equal(buf_add_str(&text, "1,"), 0);
        assert_int_equal(buf_add_str(&text, "],\n"), 0);
    }
    assert_null(settings_parse((struct slice){text.data, text.len}, &err));
    assert_non_null(strstr(err.text, "line 101: the file says too much"));
    buf_fini(&text);
}

static void holders(void **state)
{
    (void)state;
    const struct settings *one = parse(whole);
    const struct settings *other = settings_hold(one);
    settings_release(&one);
    assert_null(one);
    assert_string_equal(other->keys[0].name, "edge");
    settings_release(&other);
    settings_release(&other);
    one = settings_none();
    assert_int_equal(one->keys_count, 0);
    assert_string_equal(one->hash, "");
    settings_release(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field), cmocka_unit_test(json_is_the_same),
        cmocka_unit_test(refusals),    cmocka_unit_test(no_secret_is_shown),
        cmocka_unit_test(versions),    cmocka_unit_test(too_much),
        cmocka_unit_test(holders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
