// SPDX-License-Identifier: MIT
#include "store/judge_text.h"

#include <math.h>
#include <string.h>

#include "common/utf8.h"
#include "proto/codec.h"
#include "proto/genai.h"
#include "proto/json_read.h"
#include "store/row_json.h"

#define ROOM_MAX    ((size_t)64 * 1024) /* for what is not the trace's content */
#define ESCAPED_MAX 6                   /* bytes that one takes in JSON */
#define SLACK       64
#define LABEL_MAX   200 /* characters, as of scores that are sent */
#define TEXT_MAX    500

void judge_input_init(struct judge_input *self, size_t max_bytes)
{
    *self = (struct judge_input){.max_bytes = max_bytes};
    json_out_init(&self->spans, max_bytes / 2, NULL);
    json_out_init(&self->input, ESCAPED_MAX * max_bytes / 4 + SLACK, NULL);
    json_out_init(&self->output, ESCAPED_MAX * max_bytes / 4 + SLACK, NULL);
}

void judge_input_fini(struct judge_input *self)
{
    json_out_fini(&self->spans);
    json_out_fini(&self->input);
    json_out_fini(&self->output);
}

static size_t column_of(const char *name)
{
    const struct listing *listing = listing_row(LISTING_SPANS);
    size_t i = 0;
    while (strcmp(listing->columns[i].name, name) != 0)
        i++;
    return i;
}

static struct slice cut(struct slice text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t len = max;
    while (len > 0 && ((unsigned char)text.data[len] & 0xc0) == 0x80)
        len--;
    return (struct slice){text.data, len};
}

/* A value as it stands in content; a long one as a text, cut. */
static void write_side(struct json_out *out, struct slice content, const struct value *value,
                       size_t max)
{
    bool is_container = value->type == VALUE_ARRAY || value->type == VALUE_MAP;
    json_out_reset(out);
    if (value->type == VALUE_TEXT) {
        json_out_text(out, cut(value->text, max));
    } else if (!is_container) {
        json_out_value(out, value);
    } else {
        struct slice source = {content.data + value->source_at, value->source_len};
        if (value->source_at + (size_t)value->source_len > content.len)
            source = content;
        if (source.len <= max)
            json_out_raw(out, source.data, source.len);
        else
            json_out_text(out, cut(source, max));
    }
}

static void take_sides(struct judge_input *self, struct slice content, bool is_root)
{
    struct arena arena;
    struct value tree;
    arena_init(&arena, json_tree_max(content.len));
    if (json_read(&arena, content, &tree, NULL) == BATCH_OK && tree.type == VALUE_MAP) {
        const struct value *input = genai_find_side(GENAI_INPUT, tree.first);
        const struct value *output = genai_find_side(GENAI_OUTPUT, tree.first);
        if (input && (is_root || self->input.buf.len == 0)) {
            write_side(&self->input, content, input, self->max_bytes / 4);
            self->has_root_input |= is_root;
        }
        if (output && (is_root || !self->has_root_output)) {
            write_side(&self->output, content, output, self->max_bytes / 4);
            self->has_root_output |= is_root;
        }
    }
    arena_fini(&arena);
}

void judge_input_add(struct judge_input *self, const struct list_value *span)
{
    const struct list_value *content = &span[column_of("content")];
    bool is_root = span[column_of("parent_id")].type == LIST_NULL;
    if (content->type != LIST_NULL)
        take_sides(self, content->bytes, is_root);
    size_t before = self->spans.buf.len;
    if (self->spans_omitted == 0) {
        json_out_str(&self->spans, before > 0 ? "," : "");
        row_json_write(&self->spans, listing_row(LISTING_SPANS), span);
        json_out_str(&self->spans, "}");
    }
    if (self->spans_omitted > 0 || self->spans.is_full) {
        /* No later one either: a gap would mislead. */
        self->spans.buf.len = before;
        self->spans.is_full = false;
        self->spans_omitted++;
    }
    self->span_count++;
}

static void write_output(struct json_out *out, const struct settings_output *output)
{
    json_out_key(out, "output");
    json_out_str(out, "{");
    json_out_text_member(out, "type", slice_of(score_type_name(output->type)));
    const struct {
        const char *name;
        double number;
    } ends[] = {{"min", output->min}, {"max", output->max}};
    for (size_t i = 0; i < 2; i++) {
        if (!isfinite(ends[i].number))
            continue;
        json_out_key(out, ends[i].name);
        json_out_value(out, &(struct value){.type = VALUE_DOUBLE, .number = ends[i].number});
    }
    for (size_t i = 0; i < output->labels_count; i++) {
        if (i == 0)
            json_out_key(out, "labels");
        json_out_str(out, i == 0 ? "[" : ",");
        json_out_text(out, slice_of(output->labels[i]));
    }
    json_out_str(out, output->labels_count > 0 ? "]}" : "}");
}

static void write_target(struct json_out *out, const struct score_job *job)
{
    char id[2 * TRACE_ID_LEN];
    codec_hex_encode(job->trace_id, TRACE_ID_LEN, id);
    json_out_key(out, "target");
    json_out_str(out, "{");
    json_out_text_member(out, "type", slice_of("trace"));
    json_out_text_member(out, "project", slice_of(job->project));
    json_out_text_member(out, "trace_id", (struct slice){id, sizeof id});
    json_out_str(out, "}");
}

static void write_part(struct json_out *out, const char *name, const struct json_out *part)
{
    json_out_key(out, name);
    if (part->buf.len > 0 && !part->is_full)
        json_out_raw(out, part->buf.data, part->buf.len);
    else
        json_out_str(out, "null");
}

int judge_write_request(const struct judge_input *input, const struct settings_scorer *scorer,
                        const struct score_job *job, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, ROOM_MAX + (1 + ESCAPED_MAX) * input->max_bytes, NULL);
    json_out_str(&json, "{");
    json_out_key(&json, "scorer");
    json_out_str(&json, "{");
    json_out_text_member(&json, "name", slice_of(scorer->name));
    json_out_text_member(&json, "version", slice_of(scorer->version));
    write_output(&json, scorer->output);
    json_out_str(&json, "}");
    write_target(&json, job);
    write_part(&json, "input", &input->input);
    write_part(&json, "output", &input->output);
    json_out_key(&json, "spans");
    json_out_str(&json, "[");
    json_out_raw(&json, input->spans.buf.data, input->spans.buf.len);
    json_out_str(&json, "]");
    json_out_number_member(&json, "spans_omitted", input->spans_omitted);
    json_out_str(&json, "}");
    int rc = json.is_full ? -1 : buf_add(out, json.buf.data, json.buf.len);
    json_out_fini(&json);
    return rc;
}

static const struct value *member(const struct value *map, const char *name)
{
    const struct value *found = NULL;
    for (const struct value *one = map->first; one; one = one->next)
        if (slice_equals(one->key, name))
            found = one;
    return found && found->type != VALUE_NULL ? found : NULL;
}

/* A text of at most so many characters; 1 where it is none or has more. */
static bool is_text(const struct value *value, size_t max)
{
    if (value->type != VALUE_TEXT || value->text.len == 0 || !utf8_is_clean(value->text))
        return false;
    size_t characters = 0;
    for (size_t i = 0; i < value->text.len; i++)
        characters += ((unsigned char)value->text.data[i] & 0xc0) != 0x80;
    return characters <= max;
}

static void copy_text(struct slice text, char *out, size_t size)
{
    struct slice part = cut(text, size - 1);
    snprintf(out, size, "%.*s", (int)part.len, part.data);
}

static int take_number(const struct value *value, const struct settings_output *output,
                       struct judge_answer *answer, struct err *err)
{
    if (!value || (value->type != VALUE_INT && value->type != VALUE_DOUBLE))
        return err_set(err, "its value is no number");
    answer->has_number = true;
    answer->number = value->type == VALUE_INT ? (double)value->integer : value->number;
    if (!isfinite(answer->number) || answer->number < output->min || answer->number > output->max)
        return err_set(err, "its value %g is not from %g to %g", answer->number, output->min,
                       output->max);
    return 0;
}

static int take_boolean(const struct value *value, struct judge_answer *answer, struct err *err)
{
    bool is_bit = value && value->type == VALUE_INT && (uint64_t)value->integer < 2;
    if (!is_bit && (!value || value->type != VALUE_BOOL))
        return err_set(err, "its value is neither true nor false");
    answer->has_number = true;
    answer->number = is_bit ? (double)value->integer : value->boolean;
    return 0;
}

static int take_label(const struct value *value, const struct settings_output *output,
                      struct judge_answer *answer, struct err *err)
{
    if (!value || !is_text(value, LABEL_MAX))
        return err_set(err, "its value is no label of up to %d characters", LABEL_MAX);
    bool is_known = output->labels_count == 0;
    for (size_t i = 0; i < output->labels_count; i++)
        is_known |= slice_equals(value->text, output->labels[i]);
    if (!is_known)
        return err_set(err, "its value is none of the labels");
    copy_text(value->text, answer->text, sizeof answer->text);
    return 0;
}

static int take_value(const struct value *map, const struct settings_output *output,
                      struct judge_answer *answer, struct err *err)
{
    const struct value *value = member(map, "value");
    const struct value *label = member(map, "label");
    switch (output->type) {
    case SCORE_NUMBER:
    case SCORE_BOOLEAN:
        if (label && is_text(label, LABEL_MAX))
            copy_text(label->text, answer->text, sizeof answer->text);
        return output->type == SCORE_NUMBER ? take_number(value, output, answer, err)
                                            : take_boolean(value, answer, err);
    case SCORE_LABEL:
        return take_label(value ? value : label, output, answer, err);
    case SCORE_TEXT:
    case SCORE_TYPE_COUNT:
        break;
    }
    if (!value || !is_text(value, TEXT_MAX))
        return err_set(err, "its value is no text of up to %d characters", TEXT_MAX);
    copy_text(value->text, answer->text, sizeof answer->text);
    return 0;
}

int judge_read_answer(struct slice body, const struct settings_output *output,
                      struct judge_answer *answer, struct err *err)
{
    struct arena arena;
    struct value tree;
    int rc = -1;
    *answer = (struct judge_answer){0};
    arena_init(&arena, json_tree_max(body.len));
    if (json_read(&arena, body, &tree, NULL) != BATCH_OK || tree.type != VALUE_MAP) {
        err_set(err, "its answer is no JSON object");
    } else {
        const struct value *comment = member(&tree, "comment");
        if (comment && comment->type == VALUE_TEXT && utf8_is_clean(comment->text))
            copy_text(comment->text, answer->comment, sizeof answer->comment);
        rc = take_value(&tree, output, answer, err);
    }
    arena_fini(&arena);
    return rc;
}
