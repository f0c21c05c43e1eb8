// SPDX-License-Identifier: MIT
/* The bytes of the format: checksums, headers, entries; nothing of a damaged disk is believed. */
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "broker/segment.h"
#include "common/crc32c.h"

/* Published values of CRC-32C (RFC 3720, appendix B.4, and the usual check string). */
static void test_known_checksums(void **state)
{
    (void)state;
    uint8_t bytes[32];
    static const struct {
        uint8_t first;
        int step;
        uint32_t crc;
    } cases[] = {
        {0, 0, 0x8a9136aa}, {0xff, 0, 0x62a8ab43}, {0, 1, 0x46dd794e}, {31, -1, 0x113fdb5c}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (int i = 0; i < 32; i++)
            bytes[i] = (uint8_t)(cases[c].first + i * cases[c].step);
        assert_int_equal(crc32c(0, bytes, 32), cases[c].crc);
        assert_int_equal(crc32c_table(0, bytes, 32), cases[c].crc);
    }
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
}

/* The instruction and the table agree for every length and alignment, and when taken in parts. */
static void test_both_ways_agree(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 151 + 7);
    for (size_t from = 0; from < 9; from++) {
        for (size_t len = 0; from + len <= sizeof bytes; len++) {
            uint32_t crc = crc32c(0, bytes + from, len);
            assert_int_equal(crc, crc32c_table(0, bytes + from, len));
            size_t half = len / 2;
            assert_int_equal(
                crc, crc32c(crc32c(0, bytes + from, half), bytes + from + half, len - half));
        }
    }
}

static struct segment_header sample_header(void)
{
    struct segment_header header = {.segno = 42,
                                    .created_ns = 1700000000000000000,
                                    .limit_bytes = 1 << 20,
                                    .previous_segno = 41,
                                    .previous_end = 4096,
                                    .previous_batch = 7,
                                    .previous_records = 12};
    for (int i = 0; i < 16; i++)
        header.nonce[i] = (uint8_t)(i + 1);
    return header;
}

static struct record_header sample_record(void)
{
    return (struct record_header){.type = RECORD_DATA,
                                  .ordinal = 3,
                                  .batch = 5,
                                  .batch_first = 2,
                                  .meta_len = 100,
                                  .body_len = 1000,
                                  .enqueued_ns = 1700000000000000001,
                                  .nonce32 = 0x04030201,
                                  .data_crc = 0xdeadbeef};
}

/* A byte layout is a promise to files on disk: these bytes may never change in version 1. */
static void test_layout_is_fixed(void **state)
{
    (void)state;
    uint8_t bytes[SEGMENT_HEADER_SIZE];
    struct segment_header header = sample_header();
    segment_header_encode(&header, bytes);
    static const uint8_t start[] = {'m', 'c', 'p', 'd', 's', 'e', 'g', '\n', 1,  0,  0,  0, 0, 0,
                                    0,   0,   42,  0,   0,   0,   0,   0,    0,  0,  1,  2, 3, 4,
                                    5,   6,   7,   8,   9,   10,  11,  12,   13, 14, 15, 16};
    assert_memory_equal(bytes, start, sizeof start);
    uint8_t record[SEGMENT_RECORD_SIZE];
    struct record_header data = sample_record();
    record_header_encode(&data, record);
    static const uint8_t expected[] = {
        'm', 'c', 'R', '1', 1,    0,    0,    0,    3,    0,    0,    0,    1,    2,    3,
        4,   5,   0,   0,   0,    2,    0,    0,    0,    100,  0,    0,    0,    0xe8, 3,
        0,   0,   1,   0,   0x2a, 0x36, 0xfe, 0x9c, 0x97, 0x17, 0xef, 0xbe, 0xad, 0xde};
    assert_memory_equal(record, expected, sizeof expected);
    uint8_t ack[SEGMENT_ACK_SIZE];
    struct ack_entry entry = {.ordinal = 9, .kind = ACK_SUSPECT, .rounds = 4, .value = 0x01020304};
    ack_encode(&entry, header.nonce, ack);
    static const uint8_t ack_expected[] = {9, 0, 0, 0, 5, 4, 0, 0, 4, 3, 2, 1};
    assert_memory_equal(ack, ack_expected, sizeof ack_expected);
}

/* Any flipped bit of a header makes it invalid, and never unknown: a damaged version number must
 * not look like a newer version, which would refuse the start. */
static void test_flips_are_seen(void **state)
{
    (void)state;
    uint8_t bytes[SEGMENT_HEADER_SIZE], record[SEGMENT_RECORD_SIZE], ack[SEGMENT_ACK_SIZE];
    struct segment_header header = sample_header(), back;
    struct record_header data = sample_record(), data_back;
    struct ack_entry entry = {.ordinal = 9, .kind = ACK_DONE}, entry_back;
    segment_header_encode(&header, bytes);
    record_header_encode(&data, record);
    ack_encode(&entry, header.nonce, ack);
    assert_int_equal(segment_header_decode(&back, bytes), SEGMENT_VALID);
    assert_int_equal(back.previous_end, 4096);
    assert_int_equal(back.previous_records, 12);
    assert_int_equal(record_header_decode(&data_back, 0x04030201, record), SEGMENT_VALID);
    assert_true(ack_decode(&entry_back, header.nonce, ack));
    for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(segment_header_decode(&back, bytes), SEGMENT_INVALID);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (unsigned bit = 0; bit < 8 * sizeof record; bit++) {
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(record_header_decode(&data_back, 0x04030201, record), SEGMENT_INVALID);
        record[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (unsigned bit = 0; bit < 8 * sizeof ack; bit++) {
        ack[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(ack_decode(&entry_back, header.nonce, ack));
        ack[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void reseal(uint8_t *bytes, size_t len)
{
    uint32_t crc = crc32c(0, bytes, len - 4);
    for (int i = 0; i < 4; i++)
        bytes[len - 4 + (size_t)i] = (uint8_t)(crc >> (8 * i));
}

/* With a right checksum: a newer major version, an unknown kind and unknown flags are told from
 * damage; what is marked as ignorable is stepped over. */
static void test_newer_formats_are_known_as_such(void **state)
{
    (void)state;
    uint8_t bytes[SEGMENT_HEADER_SIZE], record[SEGMENT_RECORD_SIZE];
    struct segment_header header = sample_header(), back;
    struct record_header data = sample_record(), data_back;
    segment_header_encode(&header, bytes);
    bytes[8] = 2;
    reseal(bytes, sizeof bytes);
    assert_int_equal(segment_header_decode(&back, bytes), SEGMENT_UNKNOWN);
    static const struct {
        int at;
        uint8_t value;
        enum segment_validity expected;
    } cases[] = {
        {4, 9, SEGMENT_UNKNOWN},
        {4, 9 | RECORD_IGNORABLE, SEGMENT_VALID},
        {5, 4, SEGMENT_UNKNOWN},
        {5, 0x10, SEGMENT_VALID},
        {27, 1 /* meta 16 MiB */, SEGMENT_INVALID},
        {31, 0x80 /* body 2 GiB */, SEGMENT_INVALID},
        {5, RECORD_HAS_ORIGIN /* without the bytes */, SEGMENT_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        record_header_encode(&data, record);
        record[cases[i].at] = cases[i].value;
        reseal(record, sizeof record);
        assert_int_equal(record_header_decode(&data_back, 0x04030201, record), cases[i].expected);
    }
    record_header_encode(&data, record);
    assert_int_equal(record_header_decode(&data_back, 0x04030202, record), SEGMENT_INVALID);
}

/* Zeros are "nothing there", and a checksum that happens to be zero is not. */
static void test_a_zero_checksum_is_no_end(void **state)
{
    (void)state;
    uint8_t record[SEGMENT_RECORD_SIZE] = {0};
    struct record_header data = sample_record(), back;
    assert_int_equal(record_header_decode(&back, 0, record), SEGMENT_UNUSED);
    /* CRC is affine over the data checksum's 32 bits: solve for a header whose own is zero. */
    uint32_t base, column[32], want, solution = 0;
    data.data_crc = 0;
    record_header_encode(&data, record);
    memcpy(&base, record + 44, 4);
    for (int i = 0; i < 32; i++) {
        data.data_crc = (uint32_t)1 << i;
        record_header_encode(&data, record);
        memcpy(&column[i], record + 44, 4);
        column[i] ^= base;
    }
    uint32_t source[32];
    for (int i = 0; i < 32; i++)
        source[i] = (uint32_t)1 << i;
    want = base;
    for (int bit = 0, row = 0; bit < 32; bit++) {
        int pivot = row;
        while (pivot < 32 && !(column[pivot] >> bit & 1))
            pivot++;
        assert_true(pivot < 32);
        uint32_t c = column[pivot], s = source[pivot];
        column[pivot] = column[row], source[pivot] = source[row];
        column[row] = c, source[row] = s;
        for (int k = row + 1; k < 32; k++)
            if (column[k] >> bit & 1)
                column[k] ^= c, source[k] ^= s;
        if (want >> bit & 1)
            want ^= c, solution ^= s;
        row++;
    }
    data.data_crc = solution;
    record_header_encode(&data, record);
    static const uint8_t zeros[4];
    assert_memory_equal(record + 44, zeros, 4);
    assert_int_equal(record_header_decode(&back, data.nonce32, record), SEGMENT_VALID);
    assert_int_equal(back.data_crc, solution);
}

/* An ack counts for the segment whose nonce it carries, and no other. */
static void test_acks_are_bound_to_their_segment(void **state)
{
    (void)state;
    struct segment_header one = sample_header(), other = sample_header();
    other.nonce[15] ^= 1;
    uint8_t header[SEGMENT_ACK_HEADER_SIZE], bytes[SEGMENT_ACK_SIZE];
    ack_header_encode(&one, header);
    assert_true(ack_header_matches(&one, header));
    assert_false(ack_header_matches(&other, header));
    struct ack_entry entry = {.ordinal = 1, .kind = ACK_DONE}, back;
    ack_encode(&entry, one.nonce, bytes);
    assert_false(ack_decode(&back, other.nonce, bytes));
    assert_true(ack_is_final(ACK_DONE) && ack_is_final(ACK_DEAD) && ack_is_final(ACK_MOVED) &&
                ack_is_final(ACK_LOST));
    assert_false(ack_is_final(ACK_EXPIRY) || ack_is_final(ACK_SUSPECT) || ack_is_final(99));
}

static void test_origin_and_note_come_back(void **state)
{
    (void)state;
    struct record_origin origin = {.id = {7, 8, 9},
                                   .arrival_ns = 10,
                                   .history = {.first_fail_s = 11,
                                               .expiries = 12,
                                               .rounds = 13,
                                               .is_suspect = true},
                                   .moves = 14},
                         back;
    uint8_t bytes[SEGMENT_ORIGIN_SIZE];
    record_origin_encode(&origin, bytes);
    record_origin_decode(&back, bytes);
    assert_int_equal(back.id.segno, 7);
    assert_int_equal(back.id.ordinal, 8);
    assert_int_equal(back.id.nonce32, 9);
    assert_int_equal(back.arrival_ns, 10);
    assert_int_equal(back.history.first_fail_s, 11);
    assert_int_equal(back.history.expiries, 12);
    assert_int_equal(back.history.rounds, 13);
    assert_true(back.history.is_suspect);
    assert_int_equal(back.moves, 14);
    char excerpt[3000];
    memset(excerpt, 'x', sizeof excerpt);
    struct record_note note = {.dead_ns = 1,
                               .rounds = 2,
                               .status = 400,
                               .reason = slice_of("refused"),
                               .upstream = slice_of("http://a"),
                               .excerpt = {excerpt, sizeof excerpt}},
                       note_back;
    struct buf out;
    buf_init(&out, 4096);
    assert_int_equal(record_note_encode(&note, &out), 0);
    assert_int_equal(record_note_decode(&note_back, (struct slice){out.data, out.len}), 0);
    assert_int_equal(note_back.status, 400);
    assert_true(slice_equals(note_back.reason, "refused"));
    assert_true(slice_equals(note_back.upstream, "http://a"));
    assert_int_equal(note_back.excerpt.len, NOTE_EXCERPT_MAX);
    for (size_t len = 0; len < out.len; len++)
        assert_int_equal(record_note_decode(&note_back, (struct slice){out.data, len}), -1);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_checksums),
        cmocka_unit_test(test_both_ways_agree),
        cmocka_unit_test(test_layout_is_fixed),
        cmocka_unit_test(test_flips_are_seen),
        cmocka_unit_test(test_newer_formats_are_known_as_such),
        cmocka_unit_test(test_a_zero_checksum_is_no_end),
        cmocka_unit_test(test_acks_are_bound_to_their_segment),
        cmocka_unit_test(test_origin_and_note_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
