/* The module, and the kernel that makes columns of records; see columns_python.py for the same in Python.
 *
 * Built on the stable ABI of Python 3.11. Buffers are held while a kernel runs; long runs release the
 * interpreter's lock. Arrow's layout: numbers in the machine's byte order, bits from the lowest.
 */
#include "_kernels.h"

/* --- output columns ------------------------------------------------------------------------ */

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

/* Trim the buffers to the used size; return (offsets, data, validity or None). */
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
} Source;

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

static void drop_sources(Source *sources, Py_ssize_t count)
{
    for (Py_ssize_t index = 0; index < count; index++)
        PyBuffer_Release(&sources[index].buffer);
    free(sources);
}

static Source *take_sources(PyObject *list, Py_ssize_t count)
{
    Source *sources = calloc((size_t)count + 1, sizeof(Source));
    if (sources == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        Source *source = &sources[index];
        Py_ssize_t start, stop;
        long long base_offset, last_offset_delta, base_timestamp, append_time, record_count;
        int uses_append_time;
        PyObject *item = PyList_GetItem(list, index);
        if (!is_tuple(item) ||
            !PyArg_ParseTuple(item, "y*nnLLLLpL", &source->buffer, &start, &stop, &base_offset,
                              &last_offset_delta, &base_timestamp, &append_time, &uses_append_time,
                              &record_count)) {
            drop_sources(sources, index);
            return NULL;
        }
        if (start < 0 || stop < start || stop > source->buffer.len) {
            PyErr_SetString(PyExc_ValueError, "a batch lies outside its buffer");
            drop_sources(sources, index + 1);
            return NULL;
        }
        const uint8_t *data = source->buffer.buf;
        source->batch = (Batch){.records = {data + start, data + stop},
                             .base_offset = base_offset,
                             .last_offset_delta = last_offset_delta,
                             .base_timestamp = base_timestamp,
                             .append_time = append_time,
                             .uses_append_time = uses_append_time != 0,
                             .record_count = record_count};
    }
    return sources;
}

static inline int64_t scaled(int64_t timestamp, int64_t scale)
{
    int64_t result;
    if (__builtin_mul_overflow(timestamp, scale, &result))
        return timestamp < 0 ? INT64_MIN : INT64_MAX;
    return result;
}

static Outcome decode_batch(const Batch *batch, int64_t first, int64_t end, int64_t scale,
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

/* decode(sources, first, end, scale, headers) -> buffers, or None if the bytes are not records */
static PyObject *decode(PyObject *module, PyObject *args)
{
    PyObject *list;
    long long first, end, scale;
    int headers;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!LLLp", &PyList_Type, &list, &first, &end, &scale, &headers))
        return NULL;
    Py_ssize_t count = PyList_Size(list);
    Source *sources = take_sources(list, count);
    if (sources == NULL)
        return NULL;

    PyObject *result = NULL;
    ColumnsOut out = {0};
    int64_t rows = 0, bytes = 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!count_is_possible(&sources[index].batch)) {
            result = Py_NewRef(Py_None);
            goto done;
        }
        rows += sources[index].batch.record_count;
        bytes += bytes_left(&sources[index].batch.records);
    }
    if (bytes > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "more bytes than 32-bit offsets reach");
        goto done;
    }
    if (!new_columns(&out, rows, bytes, headers))
        goto done;

    Outcome outcome = READ;
    PyThreadState *others = bytes > LONG_WORK_BYTES ? PyEval_SaveThread() : NULL;
    for (Py_ssize_t index = 0; index < count && outcome == READ; index++)
        outcome = decode_batch(&sources[index].batch, first, end, scale, headers, &out);
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
    drop_sources(sources, count);
    return result;
}

/* --- module -------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, "Records as columns, or None for what are not records."},
    {"encode", kernel_encode, METH_VARARGS, "The records of some rows, up to a size."},
    {"partitions", kernel_partitions, METH_VARARGS, "The partition of each key."},
    {"group", kernel_group, METH_VARARGS, "The numbers of the rows in each group."},
    {"records", kernel_records, METH_VARARGS, "Records as objects, or None."},
    {"check", kernel_check, METH_VARARGS, "How many records are sound, and what their times and keys are."},
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
