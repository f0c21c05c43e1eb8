# SPDX-License-Identifier: MIT
"""A reader of spools, written from docs/spool-format.md alone: what it can read proves the page."""
import pathlib
import struct
from dataclasses import dataclass

DATA, MARK, SEAL, DEAD = 1, 2, 3, 4
FINAL = {1: "done", 2: "dead", 3: "moved", 6: "lost"}


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Header:
    number: int
    nonce: bytes
    is_dead: bool
    previous: int
    previous_end: int
    previous_records: int


@dataclass
class Record:
    kind: int
    ordinal: int
    batch: int
    batch_first: int
    time_ns: int
    offset: int
    extra: bytes
    meta: bytes
    body: bytes

    @property
    def origin(self):
        """(segment, ordinal, nonce), arrival."""
        segment, ordinal, nonce, arrival = struct.unpack("<QIIQ", self.extra[:24])
        return (segment, ordinal, nonce), arrival

    @property
    def note(self):
        """when, rounds, status, reason, upstream, excerpt."""
        when, rounds, status, *lengths = struct.unpack("<QIHHHH", self.extra[32:52])
        texts, at = [], 32 + 24
        for length in lengths:
            texts.append(self.extra[at:at + length])
            at += length
        return (when, rounds, status, *texts)


def read_header(data):
    assert data[:8] == b"mcpdseg\n" and struct.unpack("<I", data[124:128])[0] == crc32c(data[:124])
    major, _, flags, number = struct.unpack("<HHIQ", data[8:24])
    assert major == 1 and flags & 0xFFFE == 0
    previous, end, _, records = struct.unpack("<QQII", data[56:80])
    return Header(number, data[24:40], bool(flags & 1), previous, end, records)


def read_record(data, at, nonce):
    """The record at `at` and where the next begins, or None."""
    head = data[at:at + 48]
    if len(head) < 48 or head[:4] != b"mcR1" or head[12:16] != nonce[:4]:
        return None
    kind, _, extra, ordinal, _, batch, first, meta, body, time_ns, data_crc, head_crc = \
        struct.unpack("<BBHIIIIIIQII", head[4:])
    if head_crc != crc32c(head[:44]):
        return None
    begin, end = at + 48, at + 48 + extra + meta + body
    content = data[begin:end]
    assert crc32c(content) == data_crc, f"damaged record at {at}"
    record = Record(kind, ordinal, batch, first, time_ns, at, content[:extra],
                    content[extra:extra + meta], content[extra + meta:])
    return record, (end + 7) & ~7


def read_log(path):
    """The header, the records, and the seal's numbers or None."""
    data = pathlib.Path(path).read_bytes()
    header = read_header(data)
    assert path.name == f"{header.number:020}.log"
    records, at = [], 128
    while (found := read_record(data, at, header.nonce)) is not None:
        record, at = found
        if record.kind == SEAL:
            seal = struct.unpack("<IIQQQQII", record.body[:48])
            assert seal[5] == record.offset
            length, magic = struct.unpack("<I4s", data[-8:])
            assert magic == b"mcZ1" and len(data) - length == record.offset
            return header, records, seal
        records.append(record)
    assert not any(data[at:]), f"{path}: bytes behind the last record"
    return header, records, None


def read_acks(path, header):
    """[(ordinal, kind, rounds, value)]"""
    if not path.exists():
        return []
    data = path.read_bytes()
    assert data[:8] == b"mcpdack\n" and data[24:40] == header.nonce
    assert struct.unpack("<I", data[60:64])[0] == crc32c(data[:60])
    entries = []
    for at in range(64, len(data) - 15, 16):
        entry = data[at:at + 16]
        if struct.unpack("<I", entry[12:])[0] == crc32c(header.nonce + entry[:12]):
            ordinal, kind, rounds, _, value = struct.unpack("<IBBHI", entry[:12])
            entries.append((ordinal, kind, rounds, value))
    return entries


def read_folder(folder, kind):
    """[(header, record)] of all that has no final ack, in order, and all seals."""
    waiting, seals = [], []
    for path in sorted(pathlib.Path(folder).glob("*.log")):
        header, records, seal = read_log(path)
        seals.append(seal)
        settled = {entry[0] for entry in read_acks(path.with_suffix(".ack"), header)
                   if entry[1] in FINAL}
        mine = [record for record in records if record.kind == kind]
        for number, record in enumerate(mine):
            assert record.ordinal == number and record.batch_first <= record.ordinal
        if seal:
            assert seal[0] == seal[1] == len(mine)
        waiting += [(header, record) for record in mine if record.ordinal not in settled]
    return waiting, seals
