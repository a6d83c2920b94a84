"""The log core: segments, indexes, recovery. Files, but no sockets, no clock, no asyncio."""

from millpond.log.config import LogConfig
from millpond.log.file_storage import FileStorage
from millpond.log.flush import FlushPlan
from millpond.log.log_dir import LogDir
from millpond.log.log_dirs import LogDirs
from millpond.log.partition_log import AppendInfo, PartitionLog
from millpond.log.recovery import RecoveryReport
from millpond.log.segment import TimedOffset
from millpond.log.segment_list import ReadSlice
from millpond.log.storage import Storage

__all__ = [
    "AppendInfo",
    "FileStorage",
    "FlushPlan",
    "LogConfig",
    "LogDir",
    "LogDirs",
    "PartitionLog",
    "ReadSlice",
    "RecoveryReport",
    "Storage",
    "TimedOffset",
]
