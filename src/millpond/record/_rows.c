/* Kernels that take rows out of columns: records from them, partitions for them. See columns_python.py. */
#include "_kernels.h"

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

/* Write what was measured. Input that changed meanwhile must not overrun the buffer. */
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
PyObject *kernel_encode(PyObject *module, PyObject *args)
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
    PyThreadState *others = in.values.data.len > LONG_WORK_BYTES ? PyEval_SaveThread() : NULL;
    bool sound = measure_rows(&in, index, bytes_max, reserve, &extent);
    if (others != NULL)
        PyEval_RestoreThread(others);
    if (sound) {
        out = new_bytes(extent.size);
        if (out == NULL)
            goto done;
        uint8_t *at = room_of(out);
        memset(at, 0, (size_t)reserve);
        others = extent.size > LONG_WORK_BYTES ? PyEval_SaveThread() : NULL;
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
PyObject *kernel_partitions(PyObject *module, PyObject *args)
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
    PyThreadState *others = keys.data.len > LONG_WORK_BYTES ? PyEval_SaveThread() : NULL;
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
PyObject *kernel_group(PyObject *module, PyObject *args)
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
