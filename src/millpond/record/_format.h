/* The format of records inside a batch: read one with every length checked, measure one, write one.
 *
 *     length varint | attributes i8 | timestamp delta varlong | offset delta varint
 *     key length varint, key | value length varint, value | header count varint
 *     each header: name length varint, name | value length varint, value
 *
 * Readers never look past the end they were given. They return only whether the bytes are records: the
 * Python code finds and names the fault in those that are not.
 */
#ifndef MILLPOND_FORMAT_H
#define MILLPOND_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { VARINT_BYTES_MAX = 5, VARLONG_BYTES_MAX = 10, RECORD_BYTES_MIN = 7 };

#define NULL_LENGTH (-1)

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

/* The fields of a batch's header that describe its records. */
typedef struct {
    Cursor records;
    int64_t base_offset;
    int64_t last_offset_delta;
    int64_t base_timestamp;
    int64_t append_time;
    bool uses_append_time;
    int64_t record_count;
} Batch;

typedef struct {
    const uint8_t *data;
    int64_t length; /* NULL_LENGTH: null */
} Slice;

typedef struct {
    int64_t offset;
    int64_t timestamp;
    Slice key;
    Slice value;
    int64_t header_count;
    Cursor headers;
} Record;

/* --- reading ------------------------------------------------------------------------------- */

static inline bool read_unsigned(Cursor *cursor, int bytes_max, uint64_t *number)
{
    const uint8_t *at = cursor->at;
    if (at < cursor->end && *at < 0x80) {
        *number = *at;
        cursor->at = at + 1;
        return true;
    }
    uint64_t value = 0;
    for (int index = 0; index < bytes_max; index++) {
        if (at >= cursor->end)
            return false;
        uint64_t byte = *at++;
        if (index == VARLONG_BYTES_MAX - 1 && byte > 1)
            return false; /* more than 64 bits */
        value |= (byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *number = value;
            cursor->at = at;
            return true;
        }
    }
    return false;
}

static inline int64_t unzigzag(uint64_t number)
{
    return (int64_t)((number >> 1) ^ (0 - (number & 1)));
}

static inline bool read_varint(Cursor *cursor, int64_t *number)
{
    uint64_t raw;
    if (!read_unsigned(cursor, VARINT_BYTES_MAX, &raw))
        return false;
    *number = unzigzag(raw);
    return true;
}

static inline int64_t bytes_left(const Cursor *cursor)
{
    return (int64_t)(cursor->end - cursor->at);
}

static inline bool read_slice(Cursor *cursor, bool nullable, Slice *slice)
{
    if (!read_varint(cursor, &slice->length))
        return false;
    slice->data = cursor->at;
    if (slice->length < 0)
        return nullable && slice->length == NULL_LENGTH;
    if (slice->length > bytes_left(cursor))
        return false;
    cursor->at += slice->length;
    return true;
}

static inline bool read_header(Cursor *cursor, Slice *name, Slice *value)
{
    return read_slice(cursor, false, name) && read_slice(cursor, true, value);
}

/* Read the record at `cursor`, all of it: headers are walked, so that reading them again cannot fail. */
static inline bool read_record(Cursor *cursor, const Batch *batch, Record *record)
{
    int64_t length, delta;
    uint64_t raw;
    if (!read_varint(cursor, &length) || length < 1 || length > bytes_left(cursor))
        return false;
    Cursor body = {cursor->at + 1, cursor->at + length}; /* no attributes are defined for records */

    if (!read_unsigned(&body, VARLONG_BYTES_MAX, &raw))
        return false;
    if (batch->uses_append_time)
        record->timestamp = batch->append_time;
    else if (__builtin_add_overflow(batch->base_timestamp, unzigzag(raw), &record->timestamp))
        return false;

    if (!read_varint(&body, &delta) || delta < 0 || delta > batch->last_offset_delta)
        return false;
    if (__builtin_add_overflow(batch->base_offset, delta, &record->offset))
        return false;

    if (!read_slice(&body, true, &record->key) || !read_slice(&body, true, &record->value))
        return false;
    if (!read_varint(&body, &record->header_count))
        return false;
    if (record->header_count < 0 || record->header_count > bytes_left(&body) / 2)
        return false;
    record->headers = body;
    for (int64_t index = 0; index < record->header_count; index++) {
        Slice name, value;
        if (!read_header(&body, &name, &value))
            return false;
    }
    if (body.at != body.end)
        return false;
    cursor->at = body.end;
    return true;
}

/* Whether this many records can be there at all, checked before memory is allocated for them. */
static inline bool count_is_possible(const Batch *batch)
{
    return batch->record_count >= 0 &&
           batch->record_count <= bytes_left(&batch->records) / RECORD_BYTES_MIN;
}

/* --- writing ------------------------------------------------------------------------------- */

static inline uint64_t zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

static inline int64_t varint_size(int64_t number)
{
    uint64_t raw = zigzag(number);
    int64_t size = 1;
    while (raw >= 0x80) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *write_varint(uint8_t *out, int64_t number)
{
    uint64_t raw = zigzag(number);
    while (raw >= 0x80) {
        *out++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *out++ = (uint8_t)raw;
    return out;
}

static inline int64_t slice_size(Slice slice)
{
    return varint_size(slice.length) + (slice.length > 0 ? slice.length : 0);
}

static inline uint8_t *write_slice(uint8_t *out, Slice slice)
{
    out = write_varint(out, slice.length);
    if (slice.length > 0) {
        memcpy(out, slice.data, (size_t)slice.length);
        out += slice.length;
    }
    return out;
}

/* A record's size after its length field; `headers_size` has the count of headers in it. */
static inline int64_t body_size(int64_t time_delta, int64_t offset_delta, Slice key, Slice value,
                                int64_t headers_size)
{
    return 1 + varint_size(time_delta) + varint_size(offset_delta) + slice_size(key) +
           slice_size(value) + headers_size;
}

static inline uint8_t *write_record_start(uint8_t *out, int64_t size, int64_t time_delta,
                                          int64_t offset_delta, Slice key, Slice value)
{
    out = write_varint(out, size);
    *out++ = 0;
    out = write_varint(out, time_delta);
    out = write_varint(out, offset_delta);
    out = write_slice(out, key);
    return write_slice(out, value);
}

#endif
