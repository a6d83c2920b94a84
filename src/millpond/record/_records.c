/* Kernels for records as objects; see decode_records in records.py and encode_records in builder.py. And the kernel
 * that checks all records of a batch without creating objects; see check_records in inspection.py. */
#include "_kernels.h"

/* --- records that are read ----------------------------------------------------------------- */

static PyObject *bytes_or_none(Slice slice)
{
    if (slice.length == NULL_LENGTH)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize((const char *)slice.data, (Py_ssize_t)slice.length);
}

static PyObject *new_headers(const Record *record)
{
    Cursor cursor = record->headers;
    PyObject *headers = PyTuple_New((Py_ssize_t)record->header_count);
    for (int64_t index = 0; headers != NULL && index < record->header_count; index++) {
        Slice name, value;
        PyObject *pair = NULL;
        if (read_header(&cursor, &name, &value)) {
            PyObject *text = PyUnicode_DecodeUTF8((const char *)name.data, (Py_ssize_t)name.length,
                                                  "surrogateescape");
            PyObject *bytes = bytes_or_none(value);
            if (text != NULL && bytes != NULL)
                pair = PyTuple_Pack(2, text, bytes);
            Py_XDECREF(text);
            Py_XDECREF(bytes);
        }
        if (pair == NULL || PyTuple_SetItem(headers, (Py_ssize_t)index, pair) < 0)
            Py_CLEAR(headers);
    }
    return headers;
}

/* Fill a tuple that only this module holds; it keeps its items until the next call. */
static bool fill(PyObject *fields, const Record *record)
{
    PyObject *values[] = {
        PyLong_FromLongLong(record->offset), PyLong_FromLongLong(record->timestamp),
        bytes_or_none(record->key),          bytes_or_none(record->value),
        new_headers(record),
    };
    bool sound = true;
    for (Py_ssize_t index = 0; index < 5; index++)
        sound = values[index] != NULL && sound;
    for (Py_ssize_t index = 0; index < 5; index++) {
        if (sound)
            sound = PyTuple_SetItem(fields, index, values[index]) == 0;
        else
            Py_XDECREF(values[index]);
    }
    return sound;
}

/* records(payload, base_offset, last_offset_delta, base_timestamp, append_time, uses_append_time,
 *         record_count, type) -> list of `type`, a named tuple; None if the bytes are not records */
PyObject *kernel_records(PyObject *module, PyObject *args)
{
    Py_buffer payload;
    long long base_offset, last_offset_delta, base_timestamp, append_time, record_count;
    int uses_append_time;
    PyTypeObject *type;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*LLLLpLO!", &payload, &base_offset, &last_offset_delta,
                          &base_timestamp, &append_time, &uses_append_time, &record_count,
                          &PyType_Type, &type))
        return NULL;
    const uint8_t *data = payload.buf;
    Batch batch = {.records = {data, data + payload.len},
                   .base_offset = base_offset,
                   .last_offset_delta = last_offset_delta,
                   .base_timestamp = base_timestamp,
                   .append_time = append_time,
                   .uses_append_time = uses_append_time != 0,
                   .record_count = record_count};
    PyObject *list = NULL, *fields = NULL, *call = NULL;
    bool sound = count_is_possible(&batch);
    if (!sound)
        goto done;
    /* A named tuple is made from another tuple; one serves for all. */
    newfunc new_tuple = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    list = PyList_New((Py_ssize_t)record_count);
    fields = PyTuple_New(5);
    call = fields == NULL ? NULL : PyTuple_Pack(1, fields);
    if (list == NULL || call == NULL)
        goto failed;
    Py_DECREF(fields); /* `call` owns it alone, so that it may be filled again */
    Cursor cursor = batch.records;
    for (long long index = 0; index < record_count; index++) {
        Record record;
        sound = read_record(&cursor, &batch, &record);
        if (!sound)
            break;
        if (!fill(fields, &record))
            goto failed_later;
        PyObject *object = new_tuple(type, call, NULL);
        if (object == NULL)
            goto failed_later;
        PyList_SetItem(list, (Py_ssize_t)index, object);
    }
    sound = sound && cursor.at == cursor.end;
    goto done;
failed:
    Py_XDECREF(fields);
failed_later:
    Py_CLEAR(list);
done:
    Py_XDECREF(call);
    PyBuffer_Release(&payload);
    if (!sound) {
        Py_XDECREF(list);
        return Py_NewRef(Py_None);
    }
    return list;
}

/* --- records that are checked -------------------------------------------------------------- */

#define NO_TIMESTAMP (-1)

/* Positions of records in their batch, the first few of many. */
typedef struct {
    int64_t *items;
    int64_t count;
    int64_t max;
} Positions;

static bool new_positions(Positions *positions, int64_t max)
{
    positions->items = max > 0 ? malloc((size_t)max * sizeof(int64_t)) : NULL;
    positions->max = positions->items == NULL ? 0 : max;
    return positions->items != NULL || max == 0;
}

static inline void note_position(Positions *positions, int64_t position)
{
    if (positions->count < positions->max)
        positions->items[positions->count++] = position;
}

static PyObject *list_of(const Positions *positions)
{
    PyObject *list = PyList_New((Py_ssize_t)positions->count);
    for (int64_t index = 0; list != NULL && index < positions->count; index++) {
        PyObject *number = PyLong_FromLongLong(positions->items[index]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)index, number) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* check(payload, base_timestamp, record_count, earliest, latest, positions_max)
 *     -> (sound records from the start, where the last of them ends, largest timestamp,
 *         positions without a key, positions with a time before `earliest` or after `latest`) */
PyObject *kernel_check(PyObject *module, PyObject *args)
{
    Py_buffer payload;
    long long base_timestamp, record_count, earliest, latest, positions_max;
    Positions keyless = {0}, untimely = {0};
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*LLLLL", &payload, &base_timestamp, &record_count, &earliest, &latest,
                          &positions_max))
        return NULL;
    const uint8_t *data = payload.buf;
    Batch batch = {.records = {data, data + payload.len},
                   .last_offset_delta = record_count - 1,
                   .base_timestamp = base_timestamp,
                   .record_count = record_count};
    int64_t possible = payload.len / RECORD_BYTES_MIN;
    int64_t noted_max = positions_max < possible ? positions_max : possible;
    if (!new_positions(&keyless, noted_max) || !new_positions(&untimely, noted_max)) {
        PyErr_NoMemory();
        goto done;
    }
    Cursor cursor = batch.records;
    int64_t newest = NO_TIMESTAMP;
    int64_t index = 0;
    PyThreadState *state = payload.len > LONG_WORK_BYTES ? PyEval_SaveThread() : NULL;
    for (; index < record_count; index++) {
        Cursor next = cursor;
        Record record;
        if (!read_record(&next, &batch, &record) || record.offset != index)
            break;
        cursor = next;
        if (record.key.length == NULL_LENGTH)
            note_position(&keyless, index);
        if (record.timestamp > newest)
            newest = record.timestamp;
        if ((record.timestamp < earliest || record.timestamp > latest) &&
            record.timestamp != NO_TIMESTAMP)
            note_position(&untimely, index);
    }
    if (state != NULL)
        PyEval_RestoreThread(state);
    PyObject *without_key = list_of(&keyless);
    PyObject *out_of_time = without_key == NULL ? NULL : list_of(&untimely);
    if (out_of_time != NULL)
        result = Py_BuildValue("(LLLOO)", (long long)index, (long long)(cursor.at - data),
                               (long long)newest, without_key, out_of_time);
    Py_XDECREF(without_key);
    Py_XDECREF(out_of_time);
done:
    free(keyless.items);
    free(untimely.items);
    PyBuffer_Release(&payload);
    return result;
}

/* --- records that are written -------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    int64_t size;
    int64_t capacity;
} Growing;

static uint8_t *room_for(Growing *out, int64_t more)
{
    if (out->capacity - out->size < more) {
        int64_t capacity = (out->size + more) * 2 + 256;
        uint8_t *data = realloc(out->data, (size_t)capacity);
        if (data == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        out->data = data;
        out->capacity = capacity;
    }
    return out->data + out->size;
}

/* Bytes, null or something with a buffer, which the caller releases. */
static bool take_slice(PyObject *object, Slice *slice, Py_buffer *buffer)
{
    buffer->obj = NULL;
    if (object == Py_None) {
        *slice = (Slice){NULL, NULL_LENGTH};
        return true;
    }
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) < 0)
        return false;
    *slice = (Slice){buffer->buf, buffer->len};
    return true;
}

static bool add_slice(Growing *out, Slice slice)
{
    uint8_t *at = room_for(out, slice_size(slice));
    if (at == NULL)
        return false;
    out->size = write_slice(at, slice) - out->data;
    return true;
}

static bool add_header(Growing *out, PyObject *pair)
{
    Py_buffer buffer;
    Slice value;
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "a header is a tuple of its name and its value");
        return false;
    }
    PyObject *name = PyUnicode_AsEncodedString(PyTuple_GetItem(pair, 0), "utf-8", "surrogateescape");
    if (name == NULL)
        return false;
    Slice text = {(const uint8_t *)PyBytes_AsString(name), (int64_t)PyBytes_Size(name)};
    bool added = add_slice(out, text);
    Py_DECREF(name);
    if (!added || !take_slice(PyTuple_GetItem(pair, 1), &value, &buffer))
        return false;
    added = add_slice(out, value);
    PyBuffer_Release(&buffer);
    return added;
}

/* The pairs one behind another, without their count, which comes back; -1 for an error. */
static int64_t encode_headers(Growing *out, PyObject *headers)
{
    int64_t count = 0;
    out->size = 0;
    if (PyTuple_Check(headers) && PyTuple_Size(headers) == 0)
        return 0;
    PyObject *pairs = PyObject_GetIter(headers);
    if (pairs == NULL)
        return -1;
    for (PyObject *pair; (pair = PyIter_Next(pairs)) != NULL; count++) {
        bool added = add_header(out, pair);
        Py_DECREF(pair);
        if (!added)
            break;
    }
    Py_DECREF(pairs);
    return PyErr_Occurred() ? -1 : count;
}

static bool encode_record(Growing *out, Growing *headers, PyObject *record, int64_t base_timestamp,
                          int64_t offset_delta)
{
    Py_buffer key_buffer, value_buffer;
    Slice key, value;
    int64_t delta;
    if (!PyTuple_Check(record) || PyTuple_Size(record) != 4) {
        PyErr_SetString(PyExc_TypeError, "a new record is a tuple of time, key, value and headers");
        return false;
    }
    long long timestamp = PyLong_AsLongLong(PyTuple_GetItem(record, 0));
    if (timestamp == -1 && PyErr_Occurred())
        return false;
    if (__builtin_sub_overflow((int64_t)timestamp, base_timestamp, &delta)) {
        PyErr_SetString(PyExc_OverflowError, "times too far apart for one batch");
        return false;
    }
    int64_t count = encode_headers(headers, PyTuple_GetItem(record, 3));
    if (count < 0 || !take_slice(PyTuple_GetItem(record, 1), &key, &key_buffer))
        return false;
    if (!take_slice(PyTuple_GetItem(record, 2), &value, &value_buffer)) {
        PyBuffer_Release(&key_buffer);
        return false;
    }
    int64_t size =
        body_size(delta, offset_delta, key, value, varint_size(count) + headers->size);
    uint8_t *at = room_for(out, size + varint_size(size));
    if (at != NULL) {
        at = write_record_start(at, size, delta, offset_delta, key, value);
        at = write_varint(at, count);
        if (headers->size)
            memcpy(at, headers->data, (size_t)headers->size);
        out->size = at + headers->size - out->data;
    }
    PyBuffer_Release(&key_buffer);
    PyBuffer_Release(&value_buffer);
    return at != NULL;
}

/* encode_records(records, offset_deltas, base_timestamp) -> bytes */
PyObject *kernel_encode_records(PyObject *module, PyObject *args)
{
    PyObject *records, *deltas, *result = NULL;
    long long base_timestamp;
    Growing out = {0}, headers = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOL", &records, &deltas, &base_timestamp))
        return NULL;
    records = PyObject_GetIter(records);
    deltas = PyObject_GetIter(deltas);
    if (records == NULL || deltas == NULL)
        goto done;
    for (;;) {
        PyObject *record = PyIter_Next(records);
        PyObject *delta = PyErr_Occurred() ? NULL : PyIter_Next(deltas);
        bool added = false;
        if (record != NULL && delta != NULL) {
            long long number = PyLong_AsLongLong(delta);
            if (number != -1 || !PyErr_Occurred())
                added = encode_record(&out, &headers, record, base_timestamp, number);
        } else if (!PyErr_Occurred() && record != delta) {
            PyErr_SetString(PyExc_ValueError, "not as many offsets as records");
        }
        Py_XDECREF(record);
        Py_XDECREF(delta);
        if (!added)
            break;
    }
    if (!PyErr_Occurred())
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
done:
    Py_XDECREF(records);
    Py_XDECREF(deltas);
    free(out.data);
    free(headers.data);
    return result;
}
