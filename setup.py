"""What pyproject.toml cannot say of the build: the extension in C, on the stable ABI where there is one."""

import os
import sysconfig

from setuptools import Extension, setup

# Free-threaded Pythons have no stable ABI yet.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

FOLDER = "src/millpond/record"

setup(
    ext_modules=[
        Extension(
            "millpond.record._columns",
            sources=[f"{FOLDER}/{name}" for name in ("_columns.c", "_rows.c", "_records.c")],
            depends=[f"{FOLDER}/{name}" for name in ("_format.h", "_kernels.h")],
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
            py_limited_api=STABLE,
            extra_compile_args=["-O3", "-std=c11"],
            # Without a compiler the installation goes on: the twins in Python do the same, slower.
            optional="MILLPOND_REQUIRE_EXTENSION" not in os.environ,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
)
