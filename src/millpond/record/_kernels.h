/* Declarations shared by the parts of the extension. */
#ifndef MILLPOND_KERNELS_H
#define MILLPOND_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "_format.h"

/* As in compiled.py: another number, another set of arguments. */
enum { INTERFACE = 3 };

/* A kernel releases the interpreter's lock for more bytes than this. */
enum { LONG_WORK_BYTES = 64 * 1024 };

PyObject *kernel_encode(PyObject *module, PyObject *args);
PyObject *kernel_partitions(PyObject *module, PyObject *args);
PyObject *kernel_group(PyObject *module, PyObject *args);
PyObject *kernel_records(PyObject *module, PyObject *args);
PyObject *kernel_check(PyObject *module, PyObject *args);
PyObject *kernel_encode_records(PyObject *module, PyObject *args);

static inline PyObject *new_bytes(int64_t size)
{
    return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
}

static inline void *room_of(PyObject *bytes)
{
    return PyByteArray_AsString(bytes);
}

/* PyArg_ParseTuple takes anything else for a mistake of ours. */
static inline bool is_tuple(PyObject *object)
{
    if (object != NULL && !PyTuple_Check(object))
        PyErr_SetString(PyExc_TypeError, "a column or a batch is a tuple");
    return object != NULL && PyTuple_Check(object);
}

#endif
