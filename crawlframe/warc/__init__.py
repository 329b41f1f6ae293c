"""WARC: fetched pages in the archive format of the web, written by workers and read by place.

ISO 28500:2017 (WARC 1.1), https://iipc.github.io/warc-specifications/."""

from crawlframe.warc.archive import Archive, DirectoryArchive, S3Archive, open_archive, records_in
from crawlframe.warc.downloads import FORMATS, wacz_of, warc_of
from crawlframe.warc.reading import StoredRecord, records_of
from crawlframe.warc.records import Capture, CapturePlace, Original, Redirection
from crawlframe.warc.segment_writer import SUFFIX, SegmentWriter, is_segment, node_of, recover

__all__ = (
    "FORMATS",
    "SUFFIX",
    "Archive",
    "Capture",
    "CapturePlace",
    "DirectoryArchive",
    "Original",
    "Redirection",
    "S3Archive",
    "SegmentWriter",
    "StoredRecord",
    "is_segment",
    "node_of",
    "open_archive",
    "records_in",
    "records_of",
    "recover",
    "wacz_of",
    "warc_of",
)
