/* Kernels for columns of records, and the module; see columns_python.py, which does the same in Python.
 *
 * Built on the stable ABI of Python 3.11. Buffers are held while a kernel runs; long runs let other threads
 * go on. Arrow's layout: numbers in the machine's byte order, bits from the lowest.
 */
#include "_kernels.h"

enum { LONG_RUN_BYTES = 64 * 1024 };

/* PyArg_ParseTuple takes anything else for a mistake of ours. */
static bool is_tuple(PyObject *object)
{
    if (object != NULL && !PyTuple_Check(object))
        PyErr_SetString(PyExc_TypeError, "a column or a run is a tuple");
    return object != NULL && PyTuple_Check(object);
}

/* --- columns that are written ------------------------------------------------------------------------ */

typedef struct {
    PyObject *offsets;  /* int32, one more than rows */
    PyObject *data;
    PyObject *validity;
    int32_t *offset_at;
    uint8_t *data_at;
    uint8_t *validity_at;
    int64_t size; /* bytes of data so far */
    bool has_nulls;
} BinaryOut;

static PyObject *new_bytes(int64_t size)
{
    return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
}

static void *room_of(PyObject *bytes)
{
    return PyByteArray_AsString(bytes);
}

static bool new_binary(BinaryOut *out, int64_t rows, int64_t data_size)
{
    out->offsets = new_bytes((rows + 1) * 4);
    out->data = new_bytes(data_size);
    out->validity = new_bytes((rows + 7) / 8);
    if (out->offsets == NULL || out->data == NULL || out->validity == NULL)
        return false;
    out->offset_at = room_of(out->offsets);
    out->data_at = room_of(out->data);
    out->validity_at = room_of(out->validity);
    memset(out->validity_at, 0, (size_t)((rows + 7) / 8));
    out->offset_at[0] = 0;
    return true;
}

static inline void append_slice(BinaryOut *out, int64_t row, Slice slice)
{
    if (slice.length == NULL_LENGTH) {
        out->has_nulls = true;
    } else {
        memcpy(out->data_at + out->size, slice.data, (size_t)slice.length);
        out->size += slice.length;
        out->validity_at[row >> 3] |= (uint8_t)(1 << (row & 7));
    }
    out->offset_at[row + 1] = (int32_t)out->size;
}

/* Cut the buffers to what is used; (offsets, data, validity or None). */
static PyObject *finish_binary(BinaryOut *out, int64_t rows)
{
    if (PyByteArray_Resize(out->offsets, (Py_ssize_t)(rows + 1) * 4) < 0 ||
        PyByteArray_Resize(out->data, (Py_ssize_t)out->size) < 0 ||
        PyByteArray_Resize(out->validity, (Py_ssize_t)(rows + 7) / 8) < 0)
        return NULL;
    return Py_BuildValue("(OOO)", out->offsets, out->data, out->has_nulls ? out->validity : Py_None);
}

static void drop_binary(BinaryOut *out)
{
    Py_XDECREF(out->offsets);
    Py_XDECREF(out->data);
    Py_XDECREF(out->validity);
}

typedef struct {
    Slice name;
    Slice value;
} Pair;

typedef struct {
    Pair *items;
    int64_t count;
    int64_t capacity;
    int64_t name_bytes;
    int64_t value_bytes;
} Pairs;

static bool append_pairs(Pairs *pairs, Cursor headers, int64_t count)
{
    if (pairs->capacity - pairs->count < count) {
        int64_t capacity = (pairs->count + count) * 2;
        Pair *items = realloc(pairs->items, (size_t)capacity * sizeof(Pair));
        if (items == NULL)
            return false;
        pairs->items = items;
        pairs->capacity = capacity;
    }
    for (int64_t index = 0; index < count; index++) {
        Pair *pair = &pairs->items[pairs->count];
        if (!read_header(&headers, &pair->name, &pair->value))
            return false; /* only if somebody else writes to the buffer meanwhile */
        pairs->name_bytes += pair->name.length;
        pairs->value_bytes += pair->value.length > 0 ? pair->value.length : 0;
        pairs->count++;
    }
    return true;
}

/* --- decode -------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer buffer;
    Batch batch;
} Run;

typedef enum { READ, MALFORMED, NO_MEMORY } Outcome;

typedef struct {
    PyObject *offsets;
    PyObject *timestamps;
    PyObject *types;
    int64_t *offset_at;
    int64_t *timestamp_at;
    int32_t *type_at;
    BinaryOut keys;
    BinaryOut values;
    PyObject *list_offsets;
    PyObject *list_validity;
    int32_t *list_offset_at;
    uint8_t *list_validity_at;
    bool has_bare_rows;
    Pairs pairs;
    int64_t rows;
} ColumnsOut;

static void drop_runs(Run *runs, Py_ssize_t count)
{
    for (Py_ssize_t index = 0; index < count; index++)
        PyBuffer_Release(&runs[index].buffer);
    free(runs);
}

static Run *take_runs(PyObject *list, Py_ssize_t count)
{
    Run *runs = calloc((size_t)count + 1, sizeof(Run));
    if (runs == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        Run *run = &runs[index];
        Py_ssize_t start, stop;
        long long base_offset, last_offset_delta, base_timestamp, append_time, record_count;
        int uses_append_time;
        PyObject *item = PyList_GetItem(list, index);
        if (!is_tuple(item) ||
            !PyArg_ParseTuple(item, "y*nnLLLLpL", &run->buffer, &start, &stop, &base_offset,
                              &last_offset_delta, &base_timestamp, &append_time, &uses_append_time,
                              &record_count)) {
            drop_runs(runs, index);
            return NULL;
        }
        if (start < 0 || stop < start || stop > run->buffer.len) {
            PyErr_SetString(PyExc_ValueError, "a run lies outside its buffer");
            drop_runs(runs, index + 1);
            return NULL;
        }
        const uint8_t *data = run->buffer.buf;
        run->batch = (Batch){.records = {data + start, data + stop},
                             .base_offset = base_offset,
                             .last_offset_delta = last_offset_delta,
                             .base_timestamp = base_timestamp,
                             .append_time = append_time,
                             .uses_append_time = uses_append_time != 0,
                             .record_count = record_count};
    }
    return runs;
}

static inline int64_t scaled(int64_t timestamp, int64_t scale)
{
    int64_t result;
    if (__builtin_mul_overflow(timestamp, scale, &result))
        return timestamp < 0 ? INT64_MIN : INT64_MAX;
    return result;
}

static Outcome decode_run(const Batch *batch, int64_t first, int64_t end, int64_t scale,
                          bool headers, ColumnsOut *out)
{
    Cursor cursor = batch->records;
    for (int64_t index = 0; index < batch->record_count; index++) {
        Record record;
        if (!read_record(&cursor, batch, &record))
            return MALFORMED;
        if (record.offset < first || record.offset >= end)
            continue;
        int64_t row = out->rows;
        out->offset_at[row] = record.offset;
        out->timestamp_at[row] = scaled(record.timestamp, scale);
        out->type_at[row] = batch->uses_append_time;
        append_slice(&out->keys, row, record.key);
        append_slice(&out->values, row, record.value);
        if (headers) {
            if (record.header_count == 0) {
                out->has_bare_rows = true;
            } else {
                if (!append_pairs(&out->pairs, record.headers, record.header_count))
                    return NO_MEMORY;
                out->list_validity_at[row >> 3] |= (uint8_t)(1 << (row & 7));
            }
            out->list_offset_at[row + 1] = (int32_t)out->pairs.count;
        }
        out->rows++;
    }
    return cursor.at == cursor.end ? READ : MALFORMED;
}

static bool new_columns(ColumnsOut *out, int64_t rows, int64_t bytes, bool headers)
{
    out->offsets = new_bytes(rows * 8);
    out->timestamps = new_bytes(rows * 8);
    out->types = new_bytes(rows * 4);
    if (out->offsets == NULL || out->timestamps == NULL || out->types == NULL)
        return false;
    out->offset_at = room_of(out->offsets);
    out->timestamp_at = room_of(out->timestamps);
    out->type_at = room_of(out->types);
    if (!new_binary(&out->keys, rows, bytes) || !new_binary(&out->values, rows, bytes))
        return false;
    if (!headers)
        return true;
    out->list_offsets = new_bytes((rows + 1) * 4);
    out->list_validity = new_bytes((rows + 7) / 8);
    if (out->list_offsets == NULL || out->list_validity == NULL)
        return false;
    out->list_offset_at = room_of(out->list_offsets);
    out->list_validity_at = room_of(out->list_validity);
    out->list_offset_at[0] = 0;
    memset(out->list_validity_at, 0, (size_t)((rows + 7) / 8));
    return true;
}

static void drop_columns(ColumnsOut *out)
{
    Py_XDECREF(out->offsets);
    Py_XDECREF(out->timestamps);
    Py_XDECREF(out->types);
    drop_binary(&out->keys);
    drop_binary(&out->values);
    Py_XDECREF(out->list_offsets);
    Py_XDECREF(out->list_validity);
    free(out->pairs.items);
}

static PyObject *finish_headers(ColumnsOut *out)
{
    Pairs *pairs = &out->pairs;
    BinaryOut names = {0}, values = {0};
    PyObject *name_column = NULL, *value_column = NULL, *result = NULL;
    if (PyByteArray_Resize(out->list_offsets, (Py_ssize_t)(out->rows + 1) * 4) < 0 ||
        PyByteArray_Resize(out->list_validity, (Py_ssize_t)(out->rows + 7) / 8) < 0)
        return NULL;
    if (new_binary(&names, pairs->count, pairs->name_bytes) &&
        new_binary(&values, pairs->count, pairs->value_bytes)) {
        for (int64_t index = 0; index < pairs->count; index++) {
            append_slice(&names, index, pairs->items[index].name);
            append_slice(&values, index, pairs->items[index].value);
        }
        name_column = finish_binary(&names, pairs->count);
        value_column = finish_binary(&values, pairs->count);
        if (name_column != NULL && value_column != NULL)
            result = Py_BuildValue("(OOOO)", out->list_offsets,
                                   out->has_bare_rows ? out->list_validity : Py_None, name_column,
                                   value_column);
    }
    Py_XDECREF(name_column);
    Py_XDECREF(value_column);
    drop_binary(&names);
    drop_binary(&values);
    return result;
}

static PyObject *finish_columns(ColumnsOut *out, bool headers)
{
    int64_t rows = out->rows;
    if (PyByteArray_Resize(out->offsets, (Py_ssize_t)rows * 8) < 0 ||
        PyByteArray_Resize(out->timestamps, (Py_ssize_t)rows * 8) < 0 ||
        PyByteArray_Resize(out->types, (Py_ssize_t)rows * 4) < 0)
        return NULL;
    PyObject *result = NULL;
    PyObject *keys = finish_binary(&out->keys, rows);
    PyObject *values = finish_binary(&out->values, rows);
    PyObject *lists = headers ? finish_headers(out) : Py_NewRef(Py_None);
    if (keys != NULL && values != NULL && lists != NULL)
        result = Py_BuildValue("(LOOOOOO)", (long long)rows, out->offsets, out->timestamps,
                               out->types, keys, values, lists);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    Py_XDECREF(lists);
    return result;
}

/* decode(runs, first, end, scale, headers) -> buffers, or None for what are not records */
static PyObject *decode(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long first, end, scale;
    int headers;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!LLLp", &PyList_Type, &list, &first, &end, &scale, &headers))
        return NULL;
    Py_ssize_t count = PyList_Size(list);
    Run *runs = take_runs(list, count);
    if (runs == NULL)
        return NULL;

    PyObject *result = NULL;
    ColumnsOut out = {0};
    int64_t rows = 0, bytes = 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!count_is_possible(&runs[index].batch)) {
            result = Py_NewRef(Py_None);
            goto done;
        }
        rows += runs[index].batch.record_count;
        bytes += bytes_left(&runs[index].batch.records);
    }
    if (bytes > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "more bytes than 32-bit offsets reach");
        goto done;
    }
    if (!new_columns(&out, rows, bytes, headers))
        goto done;

    Outcome outcome = READ;
    PyThreadState *others = bytes > LONG_RUN_BYTES ? PyEval_SaveThread() : NULL;
    for (Py_ssize_t index = 0; index < count && outcome == READ; index++)
        outcome = decode_run(&runs[index].batch, first, end, scale, headers, &out);
    if (others != NULL)
        PyEval_RestoreThread(others);

    if (outcome == READ)
        result = finish_columns(&out, headers);
    else if (outcome == MALFORMED)
        result = Py_NewRef(Py_None);
    else
        PyErr_NoMemory();
done:
    drop_columns(&out);
    drop_runs(runs, count);
    return result;
}

/* --- columns that are read ----------------------------------------------------------------- */

typedef struct {
    Py_buffer offsets;
    Py_buffer data;
    Py_buffer validity;
    int64_t rows; /* -1: there is no such column */
} BinaryIn;

static bool take_optional(PyObject *object, Py_buffer *buffer)
{
    return object == Py_None || PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) == 0;
}

static void drop_binary_in(BinaryIn *in)
{
    PyBuffer_Release(&in->offsets);
    PyBuffer_Release(&in->data);
    PyBuffer_Release(&in->validity);
}

/* The caller drops `in`, whether it was taken or not. */
static bool take_binary(PyObject *object, BinaryIn *in)
{
    PyObject *validity;
    in->rows = -1;
    if (object == Py_None)
        return true;
    if (!is_tuple(object))
        return false;
    if (!PyArg_ParseTuple(object, "y*y*O", &in->offsets, &in->data, &validity)) {
        memset(in, 0, sizeof *in); /* the parser has released what it took */
        in->rows = -1;
        return false;
    }
    if (!take_optional(validity, &in->validity))
        return false;
    in->rows = (int64_t)(in->offsets.len / 4) - 1;
    return true;
}

static inline bool bit_is_set(const Py_buffer *bits, int64_t row, bool *is_set)
{
    if (bits->buf == NULL) {
        *is_set = true;
        return true;
    }
    if (row / 8 >= bits->len)
        return false;
    *is_set = ((const uint8_t *)bits->buf)[row / 8] >> (row % 8) & 1;
    return true;
}

static inline bool span_of(const Py_buffer *offsets, int64_t row, int64_t limit, int64_t *start,
                           int64_t *stop)
{
    int32_t pair[2];
    memcpy(pair, (const char *)offsets->buf + row * 4, sizeof pair);
    *start = pair[0];
    *stop = pair[1];
    return 0 <= *start && *start <= *stop && *stop <= limit;
}

static inline bool slice_of(const BinaryIn *in, int64_t row, Slice *slice)
{
    bool is_set;
    int64_t start, stop;
    *slice = (Slice){NULL, NULL_LENGTH};
    if (in->rows < 0 && in->offsets.buf == NULL)
        return true;
    if (row < 0 || row >= in->rows || !bit_is_set(&in->validity, row, &is_set))
        return false;
    if (!is_set)
        return true;
    if (!span_of(&in->offsets, row, in->data.len, &start, &stop))
        return false;
    *slice = (Slice){(const uint8_t *)in->data.buf + start, stop - start};
    return true;
}

/* --- encode -------------------------------------------------------------------------------- */

typedef struct {
    BinaryIn keys;
    BinaryIn values;
    bool has_headers;
    Py_buffer list_offsets;
    Py_buffer list_validity;
    BinaryIn names;
    BinaryIn header_values;
    Py_buffer times; /* buf is NULL: all rows have `time` */
    int64_t time;
    Py_buffer rows;
} ColumnsIn;

typedef struct {
    int64_t time;
    Slice key;
    Slice value;
    int64_t first_pair;
    int64_t pair_count;
    int64_t headers_size;
} RowIn;

static bool take_headers(PyObject *object, ColumnsIn *in)
{
    PyObject *validity, *names, *values;
    if (object == Py_None)
        return true;
    if (!is_tuple(object))
        return false;
    if (!PyArg_ParseTuple(object, "y*OOO", &in->list_offsets, &validity, &names, &values)) {
        memset(&in->list_offsets, 0, sizeof in->list_offsets);
        return false;
    }
    in->has_headers = true;
    return take_optional(validity, &in->list_validity) && take_binary(names, &in->names) &&
           take_binary(values, &in->header_values);
}

static bool take_times(PyObject *object, ColumnsIn *in)
{
    if (!PyLong_Check(object))
        return PyObject_GetBuffer(object, &in->times, PyBUF_SIMPLE) == 0;
    in->time = PyLong_AsLongLong(object);
    return in->time != -1 || !PyErr_Occurred();
}

static void drop_columns_in(ColumnsIn *in)
{
    drop_binary_in(&in->keys);
    drop_binary_in(&in->values);
    PyBuffer_Release(&in->list_offsets);
    PyBuffer_Release(&in->list_validity);
    drop_binary_in(&in->names);
    drop_binary_in(&in->header_values);
    PyBuffer_Release(&in->times);
    PyBuffer_Release(&in->rows);
}

static bool find_headers(const ColumnsIn *in, int64_t row, RowIn *found)
{
    bool is_set;
    int64_t stop = 0;
    found->first_pair = found->pair_count = 0;
    found->headers_size = 1; /* the count, 0 */
    if (!in->has_headers)
        return true;
    if (row >= (int64_t)(in->list_offsets.len / 4) - 1 ||
        !bit_is_set(&in->list_validity, row, &is_set))
        return false;
    if (!is_set)
        return true;
    if (!span_of(&in->list_offsets, row, in->names.rows, &found->first_pair, &stop))
        return false;
    found->pair_count = stop - found->first_pair;
    found->headers_size = varint_size(found->pair_count);
    for (int64_t pair = found->first_pair; pair < stop; pair++) {
        Slice name, value;
        if (!slice_of(&in->names, pair, &name) || !slice_of(&in->header_values, pair, &value))
            return false;
        if (name.length == NULL_LENGTH)
            name.length = 0;
        found->headers_size += slice_size(name) + slice_size(value);
    }
    return true;
}

static bool find_row(const ColumnsIn *in, int64_t index, RowIn *found)
{
    int32_t row;
    memcpy(&row, (const char *)in->rows.buf + index * 4, sizeof row);
    if (row < 0)
        return false;
    found->time = in->time;
    if (in->times.buf != NULL) {
        if (row >= in->times.len / 8)
            return false;
        memcpy(&found->time, (const char *)in->times.buf + (int64_t)row * 8, sizeof found->time);
    }
    return slice_of(&in->keys, row, &found->key) && slice_of(&in->values, row, &found->value) &&
           find_headers(in, row, found);
}

typedef struct {
    int64_t size; /* with the reserve */
    int64_t after;
    int64_t base;
    int64_t latest;
} Extent;

/* How many rows from `index` on fit, and into how many bytes. */
static bool measure_rows(const ColumnsIn *in, int64_t index, int64_t bytes_max, int64_t reserve,
                         Extent *extent)
{
    int64_t count = in->rows.len / 4;
    *extent = (Extent){.size = reserve, .after = index};
    for (int64_t at = index; at < count; at++) {
        RowIn row;
        int64_t delta;
        if (!find_row(in, at, &row))
            return false;
        if (at == index)
            extent->base = extent->latest = row.time;
        if (__builtin_sub_overflow(row.time, extent->base, &delta))
            return false;
        int64_t size = body_size(delta, at - index, row.key, row.value, row.headers_size);
        size += varint_size(size);
        if (at > index && extent->size + size > bytes_max)
            break;
        extent->size += size;
        if (extent->size > INT32_MAX)
            return false;
        if (row.time > extent->latest)
            extent->latest = row.time;
        extent->after = at + 1;
    }
    return true;
}

/* Write what was measured. Input that changed meanwhile must not be written past the end. */
static bool write_rows(const ColumnsIn *in, int64_t index, const Extent *extent, uint8_t *out,
                       const uint8_t *end)
{
    for (int64_t at = index; at < extent->after; at++) {
        RowIn row;
        int64_t delta;
        if (!find_row(in, at, &row) || __builtin_sub_overflow(row.time, extent->base, &delta))
            return false;
        int64_t size = body_size(delta, at - index, row.key, row.value, row.headers_size);
        if (size + varint_size(size) > end - out)
            return false;
        out = write_record_start(out, size, delta, at - index, row.key, row.value);
        out = write_varint(out, row.pair_count);
        for (int64_t pair = 0; pair < row.pair_count; pair++) {
            Slice name, value;
            if (!slice_of(&in->names, row.first_pair + pair, &name) ||
                !slice_of(&in->header_values, row.first_pair + pair, &value))
                return false;
            if (name.length == NULL_LENGTH)
                name.length = 0;
            if (slice_size(name) + slice_size(value) > end - out)
                return false;
            out = write_slice(out, name);
            out = write_slice(out, value);
        }
    }
    return out == end;
}

/* encode(keys, values, headers, timestamps, rows, index, bytes_max, reserve)
 * -> (records, next index, first time, latest time) */
static PyObject *encode(PyObject *module, PyObject *args)
{
    PyObject *keys, *values, *headers, *times, *rows, *out = NULL, *result = NULL;
    long long index, bytes_max, reserve;
    ColumnsIn in = {0};
    Extent extent;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOLLL", &keys, &values, &headers, &times, &rows, &index,
                          &bytes_max, &reserve))
        return NULL;
    if (!take_binary(keys, &in.keys) || !take_binary(values, &in.values) ||
        !take_headers(headers, &in) || !take_times(times, &in) ||
        PyObject_GetBuffer(rows, &in.rows, PyBUF_SIMPLE) < 0)
        goto done;
    if (index < 0 || reserve < 0 || reserve > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "index and reserve are not negative");
        goto done;
    }
    PyThreadState *others = in.values.data.len > LONG_RUN_BYTES ? PyEval_SaveThread() : NULL;
    bool sound = measure_rows(&in, index, bytes_max, reserve, &extent);
    if (others != NULL)
        PyEval_RestoreThread(others);
    if (sound) {
        out = new_bytes(extent.size);
        if (out == NULL)
            goto done;
        uint8_t *at = room_of(out);
        memset(at, 0, (size_t)reserve);
        others = extent.size > LONG_RUN_BYTES ? PyEval_SaveThread() : NULL;
        sound = write_rows(&in, index, &extent, at + reserve, at + extent.size);
        if (others != NULL)
            PyEval_RestoreThread(others);
    }
    if (sound)
        result = Py_BuildValue("(OLLL)", out, (long long)extent.after, (long long)extent.base,
                               (long long)extent.latest);
    else
        PyErr_SetString(PyExc_ValueError, "the columns' parts contradict one another");
done:
    Py_XDECREF(out);
    drop_columns_in(&in);
    return result;
}

/* --- partitions and groups ----------------------------------------------------------------- */

static uint32_t murmur2(const uint8_t *data, int64_t length)
{
    const uint32_t m = 0x5BD1E995;
    uint32_t h = UINT32_C(0x9747B28C) ^ (uint32_t)length;
    int64_t at = 0;
    for (; at + 4 <= length; at += 4) {
        uint32_t k = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 |
                     (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24;
        k *= m;
        k ^= k >> 24;
        h = h * m ^ k * m;
    }
    if (at < length) {
        for (int shift = 0; at < length; at++, shift += 8)
            h ^= (uint32_t)data[at] << shift;
        h *= m;
    }
    h = (h ^ h >> 13) * m;
    return h ^ h >> 15;
}

/* partitions(keys, partition_count, keyless) -> int32 for each key */
static PyObject *partitions(PyObject *module, PyObject *args)
{
    PyObject *object, *out = NULL;
    int partition_count, keyless;
    BinaryIn keys = {0};
    bool sound = true;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!ii", &PyTuple_Type, &object, &partition_count, &keyless))
        return NULL;
    if (partition_count < 1) {
        PyErr_SetString(PyExc_ValueError, "a topic has at least one partition");
        return NULL;
    }
    if (!take_binary(object, &keys))
        goto done;
    int64_t rows = keys.rows < 0 ? 0 : keys.rows;
    out = new_bytes(rows * 4);
    if (out == NULL)
        goto done;
    int32_t *chosen = room_of(out);
    PyThreadState *others = keys.data.len > LONG_RUN_BYTES ? PyEval_SaveThread() : NULL;
    for (int64_t row = 0; row < rows && sound; row++) {
        Slice key;
        sound = slice_of(&keys, row, &key);
        if (!sound)
            break;
        chosen[row] = key.length == NULL_LENGTH
                          ? keyless
                          : (int32_t)((murmur2(key.data, key.length) & 0x7FFFFFFF) %
                                      (uint32_t)partition_count);
    }
    if (others != NULL)
        PyEval_RestoreThread(others);
    if (!sound) {
        Py_CLEAR(out);
        PyErr_SetString(PyExc_ValueError, "the column's parts contradict one another");
    }
done:
    drop_binary_in(&keys);
    return out;
}

/* group(groups, group_count) -> for each group the int32 numbers of its rows */
static PyObject *group(PyObject *module, PyObject *args)
{
    Py_buffer groups;
    long long group_count;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*L", &groups, &group_count))
        return NULL;
    int64_t rows = groups.len / 4;
    int64_t *sizes = NULL;
    int32_t **outs = NULL;
    if (group_count < 0 || group_count > INT32_MAX || rows > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many groups or rows");
        goto done;
    }
    sizes = calloc((size_t)group_count + 1, sizeof *sizes);
    outs = calloc((size_t)group_count + 1, sizeof *outs);
    if (sizes == NULL || outs == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (int64_t row = 0; row < rows; row++) {
        int32_t chosen;
        memcpy(&chosen, (const char *)groups.buf + row * 4, sizeof chosen);
        if (chosen < 0 || chosen >= group_count) {
            PyErr_Format(PyExc_ValueError, "row %lld is in group %d of %lld", (long long)row,
                         (int)chosen, group_count);
            goto done;
        }
        sizes[chosen]++;
    }
    result = PyList_New((Py_ssize_t)group_count);
    for (int64_t index = 0; result != NULL && index < group_count; index++) {
        PyObject *numbers = new_bytes(sizes[index] * 4);
        if (numbers == NULL) {
            Py_CLEAR(result);
            break;
        }
        outs[index] = room_of(numbers);
        sizes[index] = 0;
        PyList_SetItem(result, (Py_ssize_t)index, numbers);
    }
    for (int64_t row = 0; result != NULL && row < rows; row++) {
        int32_t chosen;
        memcpy(&chosen, (const char *)groups.buf + row * 4, sizeof chosen);
        outs[chosen][sizes[chosen]++] = (int32_t)row;
    }
done:
    free(sizes);
    free(outs);
    PyBuffer_Release(&groups);
    return result;
}

/* --- module -------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, "Records as columns, or None for what are not records."},
    {"encode", encode, METH_VARARGS, "The records of some rows, up to a size."},
    {"partitions", partitions, METH_VARARGS, "The partition of each key."},
    {"group", group, METH_VARARGS, "The numbers of the rows in each group."},
    {"records", kernel_records, METH_VARARGS, "Records as objects, or None."},
    {"encode_records", kernel_encode_records, METH_VARARGS, "Records from tuples."},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_constants},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "millpond.record._columns",
    .m_doc = "Kernels for records; their twins in Python say what they do.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__columns(void)
{
    return PyModuleDef_Init(&definition);
}
