#!/usr/bin/env python3
"""Lists and verifies a closed Sealstone store, without Sealstone.

Written from the pages in docs/format alone, with nothing but Python's standard
library, to show that they suffice and to have a second opinion on a store. It
does not read the index (a Pebble database): which blocks there are follows from
the segments, their tombstones and the log, by the rule of a rebuild.

usage: readstore.py DIR [--json] [--no-blocks] [--compare FILE]

Nothing in DIR is changed. It is slow: XXH64 in Python takes some 10 MB a
second. Where the modules xxhash, or zstandard or compression.zstd, can be
imported they are used; without one of the latter, zstd chunks are verified as
they are stored and not decoded, and the report says so.

A block's verdict is ok, damaged, padding (the fill beside its bytes is not zero,
the bytes are good) or unsure: the bytes are good, and it may have been dropped,
since the tombstones of its segment are damaged.

With --compare it takes the report of "sealstone verify DIR --json FILE", and
says of which blocks the two think differently.

exit status: 0 clean, 1 error, 2 damage found, 3 the store is in use, 4 usage,
5 the reports differ (with --compare; 0 if they do not, damage or no damage),
6 the store is of a format that this reader does not know
"""

import argparse
import fcntl
import json
import os
import struct
import sys
import time

PAGE = 4096
CHUNK = 64 << 10
MASK = (1 << 64) - 1

EXIT_CLEAN, EXIT_ERROR, EXIT_DAMAGE, EXIT_LOCKED, EXIT_USAGE, EXIT_DIFFERS, EXIT_UNSUPPORTED = range(7)


class Damaged(Exception):
    """Bytes that do not verify; the message says which and why."""


class Unsupported(Exception):
    """Bytes that verify, and were written by a later version."""


# --- sums (docs/format/sums.md) -------------------------------------------

P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
    0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)


def _rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def _round(acc, lane):
    return (_rotl((acc + lane * P2) & MASK, 31) * P1) & MASK


def xxh64_slow(data, seed=0):
    """XXH64 of bytes, as of its specification (github.com/Cyan4973/xxHash)."""
    n = len(data)
    at = n & ~31
    if n >= 32:
        a, b, c, d = (seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK
        for w, x, y, z in struct.iter_unpack("<4Q", memoryview(data)[:at]):
            a = (a + w * P2) & MASK
            a = (((a << 31) | (a >> 33)) * P1) & MASK
            b = (b + x * P2) & MASK
            b = (((b << 31) | (b >> 33)) * P1) & MASK
            c = (c + y * P2) & MASK
            c = (((c << 31) | (c >> 33)) * P1) & MASK
            d = (d + z * P2) & MASK
            d = (((d << 31) | (d >> 33)) * P1) & MASK
        h = (_rotl(a, 1) + _rotl(b, 7) + _rotl(c, 12) + _rotl(d, 18)) & MASK
        for lane in (a, b, c, d):
            h = ((h ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + n) & MASK
    while at + 8 <= n:
        h = (_rotl(h ^ _round(0, int.from_bytes(data[at:at + 8], "little")), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= n:
        h = (_rotl(h ^ (int.from_bytes(data[at:at + 4], "little") * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    while at < n:
        h = (_rotl(h ^ (data[at] * P5 & MASK), 11) * P1) & MASK
        at += 1
    h = ((h ^ (h >> 33)) * P2) & MASK
    h = ((h ^ (h >> 29)) * P3) & MASK
    return h ^ (h >> 32)


try:
    import xxhash

    def xxh64(data, seed=0):
        return xxhash.xxh64_intdigest(data, seed)
except ImportError:
    xxh64 = xxh64_slow


def keyed_sum(secret, domain, *parts):
    """The sum of an artifact, keyed by the store's secret and its domain."""
    seed = xxh64(secret, int.from_bytes(domain, "little"))
    joined = bytearray(secret)
    for p in parts:
        joined += struct.pack("<Q", len(p))
        joined += p
    return xxh64(bytes(joined), seed)


def content_id(plane_lengths, chunk_sums):
    b = b"sealstone content v1\n" + struct.pack("<I", len(plane_lengths))
    b += struct.pack("<%dQ" % len(plane_lengths), *plane_lengths)
    b += struct.pack("<%dQ" % len(chunk_sums), *chunk_sums)
    return struct.pack("<QQ", xxh64(b, 0x3044494354534C53), xxh64(b, 0x3144494354534C53))


# --- decoding of compressed chunks (docs/format/extent.md) -----------------

def s2_decode(src, raw_bytes):
    """An S2 block: Snappy's elements, and copies of the last offset again."""
    length = shift = at = 0
    while True:
        if at >= len(src) or shift > 35:
            raise Damaged("the decoded length of an S2 block is cut short")
        b = src[at]
        at += 1
        length |= (b & 0x7F) << shift
        shift += 7
        if b < 0x80:
            break
    if length != raw_bytes:
        raise Damaged("an S2 block names %d bytes, the chunk has %d" % (length, raw_bytes))
    out = bytearray()
    offset = 0
    try:
        while at < len(src):
            tag = src[at]
            kind = tag & 3
            if kind == 0:  # literal
                n = tag >> 2
                at += 1
                if n >= 60:
                    more = n - 59
                    n = int.from_bytes(src[at:at + more], "little")
                    at += more
                n += 1
                if at + n > len(src) or len(out) + n > raw_bytes:
                    raise Damaged("a literal of an S2 block is too long")
                out += src[at:at + n]
                at += n
                continue
            if kind == 1:
                n = tag >> 2 & 7
                new = (tag & 0xE0) << 3 | src[at + 1]
                at += 2
                if new:
                    offset = new
                elif n >= 5:  # the last offset again, and a longer length behind
                    more = n - 4
                    n = int.from_bytes(src[at:at + more], "little") + (4, 1 << 8, 1 << 16)[more - 1]
                    at += more
                n += 4
            else:
                more = 2 if kind == 2 else 4
                n = 1 + (tag >> 2)
                offset = int.from_bytes(src[at + 1:at + 1 + more], "little")
                at += 1 + more
            if offset <= 0 or offset > len(out) or len(out) + n > raw_bytes:
                raise Damaged("a copy of an S2 block leads out of it")
            for _ in range(n):
                out.append(out[-offset])
    except IndexError:
        raise Damaged("an S2 block is cut short") from None
    if len(out) != raw_bytes:
        raise Damaged("an S2 block decodes to %d bytes, not %d" % (len(out), raw_bytes))
    return bytes(out)


def zstd_decoder():
    """A function that decodes a frame to at most so many bytes, or None."""
    try:
        from compression import zstd  # Python 3.14

        return lambda src, n: zstd.ZstdDecompressor().decompress(src, n + 1)
    except ImportError:
        pass
    try:
        import zstandard

        return lambda src, n: zstandard.ZstdDecompressor().decompress(src, max_output_size=n + 1)
    except ImportError:
        return None


ZSTD = zstd_decoder()
CODEC_RAW, CODEC_ZSTD, CODEC_S2 = 0, 1, 2


def decode(codec, stored, raw_bytes):
    """The raw bytes of a chunk, or None where it can not be decoded here."""
    if len(stored) == raw_bytes:
        return stored
    if codec == CODEC_S2:
        return s2_decode(stored, raw_bytes)
    if ZSTD is None:
        return None
    try:
        return ZSTD(stored, raw_bytes)
    except Exception as e:  # each module has errors of its own
        raise Damaged("zstd: %s" % e) from None


# --- STORE and NAMESPACES (store.md, namespaces.md) -------------------------

def read_file(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def check_features(what, version, incompat):
    if version != 1:
        raise Unsupported("%s has version %d" % (what, version))
    if incompat:
        raise Unsupported("%s has unknown incompatible features %#x" % (what, incompat))


def newest(directory, names, parse, report):
    """The valid copy of the highest generation. A copy that is not used is a
    finding."""
    good = []
    if not any(os.path.lexists(os.path.join(directory, n)) for n in names):
        raise FileNotFoundError("no store: neither %s nor %s is there" % tuple(names))
    for name in names:
        try:
            good.append((parse(read_file(directory, name)), name))
        except FileNotFoundError:
            report.damage(name, "is missing")
        except Damaged as e:
            report.damage(name, str(e))
    if not good:
        raise Damaged("no copy of %s is whole: the store can not be read" % names[0])
    top = max(g["generation"] for g, _ in good)
    for g, name in good:
        if g["generation"] < top:
            report.damage(name, "is of generation %d, the other copy of %d" % (g["generation"], top))
    newest_of = [g for g, _ in good if g["generation"] == top]
    if len(newest_of) > 1 and newest_of[0] != newest_of[1]:
        raise Damaged("the copies of %s have one generation and differ" % names[0])
    return newest_of[0]


def parse_store(b):
    if len(b) != 512 or b[:8] != b"SLSTORE1":
        raise Damaged("is not a file of 512 bytes that begins with SLSTORE1")
    secret = b[48:80]
    if keyed_sum(secret, b"storefil", b[:504]) != struct.unpack("<Q", b[504:])[0]:
        raise Damaged("its sum does not match")
    version, _, incompat = struct.unpack_from("<HHI", b, 8)
    check_features("STORE", version, incompat)
    segment_bytes, = struct.unpack_from("<Q", b, 104)
    return {"generation": struct.unpack_from("<Q", b, 24)[0], "uuid": b[32:48], "secret": secret,
            "segment_bytes": segment_bytes, "created": struct.unpack_from("<q", b, 120)[0]}


def parse_namespaces(b, store):
    if len(b) < 88 or b[:8] != b"SLNAMES1":
        raise Damaged("does not begin with SLNAMES1, or is cut")
    if keyed_sum(store["secret"], b"namespcs", b[:-8]) != struct.unpack("<Q", b[-8:])[0]:
        raise Damaged("its sum does not match")
    version, _, incompat = struct.unpack_from("<HHI", b, 8)
    check_features("NAMESPACES", version, incompat)
    count, size = struct.unpack_from("<IQ", b, 68)
    if b[32:48] != store["uuid"] or size != len(b):
        raise Damaged("is of another store, or of another length")
    spaces, at = {}, 80
    for _ in range(count):
        number, tenant_bytes, layout_bytes, epoch, floor, created = struct.unpack_from("<IIIQQq", b, at)
        at += 36
        spaces[number] = {"tenant": b[at:at + tenant_bytes].decode(), "epoch": epoch, "floor": floor,
                          "created": created, "layout": layout_fields(b[at + tenant_bytes:at + tenant_bytes + layout_bytes])}
        at += tenant_bytes + layout_bytes
    if at != len(b) - 8:
        raise Damaged("its records do not fill it")
    return {"generation": struct.unpack_from("<Q", b, 24)[0], "spaces": spaces}


LAYOUT_TEXTS = {1: "model", 2: "weights_digest", 3: "dtype", 4: "kv_layout", 19: "engine"}


def layout_fields(b):
    """The fields of a layout that a reader of a listing wants to see."""
    if b[:8] != b"SLLAYOU1":
        raise Unsupported("a layout does not begin with SLLAYOU1")
    out, at = {}, 10
    for _ in range(struct.unpack_from("<H", b, 8)[0]):
        tag, n = struct.unpack_from("<HI", b, at)
        if tag in LAYOUT_TEXTS:
            out[LAYOUT_TEXTS[tag]] = b[at + 6:at + 6 + n].decode()
        at += 6 + n
    return out


# --- artifacts of segments (segment.md, extent.md, tombstone.md) -----------

def check_artifact(store, b, magic, domain, what, extra=None):
    """Preamble and keyed sum over all of b. Sum first: only then is a version
    believed."""
    if b[:8] != magic:
        raise Damaged("%s: no magic" % what)
    parts = (b[:24], b[32:]) if extra is None else (extra, b[:24], b[32:])
    found = struct.unpack_from("<Q", b, 24)[0]
    if keyed_sum(store["secret"], domain, *parts) != found:
        raise Damaged("%s: its sum does not match" % what)
    version, _, incompat = struct.unpack_from("<HHI", b, 8)
    check_features(what, version, incompat)
    return found


class Extent:
    """The header of one block in a segment."""

    def __init__(self, store, segment, page, b):
        self.segment, self.page = segment, page
        self.sum = check_artifact(store, b, b"SLSTEXTN", b"exthead ", "extent header")
        (self.header_pages,) = struct.unpack_from("<H", b, 10)
        seg, at_page, self.payload_pages, self.sequence, self.namespace, self.depth = struct.unpack_from("<QIIQII", b, 48)
        self.content = b[80:96]
        target, target_page, self.kind, self.codec, hash_n, parent_n, key_n, planes, chunks = \
            struct.unpack_from("<QIBBBBHHI", b, 96)
        self.target = (target, target_page)
        if b[32:48] != store["uuid"] or (seg, at_page) != (segment, page):
            raise Damaged("extent header: of another store, segment or page")
        if self.codec > CODEC_S2:
            raise Unsupported("extent header: codec %d" % self.codec)
        at = 128
        self.hash, self.parent = b[at:at + hash_n], b[at + hash_n:at + hash_n + parent_n]
        at += hash_n + parent_n
        self.plain_key = b[at:at + key_n]
        at += key_n
        self.planes = []
        for _ in range(planes):
            n = b[at]
            name = b[at + 1:at + 1 + n]
            self.planes.append((name.decode(),) + struct.unpack_from("<III", b, at + 1 + n))
            at += 1 + n + 12
        at += -at % 8
        self.chunks = []
        for name, raw, stored, offset in self.planes:
            for begin in range(0, raw, CHUNK):
                n = min(CHUNK, raw - begin)
                raw_sum, = struct.unpack_from("<Q", b, at)
                at += 8
                stored_sum, stored_n = raw_sum, n
                if self.codec != CODEC_RAW:
                    stored_sum, stored_n, _ = struct.unpack_from("<QII", b, at)
                    at += 16
                self.chunks.append((offset, n, raw_sum, stored_n, stored_sum))
                offset += stored_n
        if len(self.chunks) != chunks or any(b[at:]):
            raise Damaged("extent header: the chunk table does not fit the planes")
        if content_id([p[1] for p in self.planes], [c[2] for c in self.chunks]) != self.content:
            raise Damaged("extent header: the chunk sums do not make the content id")

    @property
    def address(self):
        return self.segment, self.page

    @property
    def pages(self):
        return self.header_pages + self.payload_pages

    @property
    def key(self):
        return self.namespace, self.hash

    @property
    def raw_bytes(self):
        return sum(p[1] for p in self.planes)

    def is_alias(self):
        return self.kind == 2


class Segment:
    """A segment's file: its extents, and what its sidecar says."""

    def __init__(self, store, directory, number, report):
        self.store, self.number, self.report = store, number, report
        base = os.path.join("segments", "%02x" % (number & 0xFF), "%016x" % number)
        self.name, self.sidecar = base + ".seg", base + ".del"
        self.path = os.path.join(directory, self.name)
        self.size = os.path.getsize(self.path)
        self.file = open(self.path, "rb")
        self.tombstones, self.tombstones_whole = [], True
        try:
            self.read_tombstones(read_file(directory, self.sidecar))
        except FileNotFoundError:
            self.tombstones_whole = False
            report.damage(self.sidecar, "is missing")
        self.check_header()
        self.sealed, self.extents = False, []
        self.read_extents()

    def read(self, page, pages):
        self.file.seek(page * PAGE)
        return self.file.read(pages * PAGE)

    def check_header(self):
        b = self.read(0, 1)
        try:
            check_artifact(self.store, b, b"SLSTSEGM", b"seghead ", "segment header")
            if b[32:48] != self.store["uuid"] or struct.unpack_from("<Q", b, 48)[0] != self.number:
                raise Damaged("segment header: of another store or segment")
        except Damaged as e:
            self.report.damage(self.name, str(e), 0)

    # Tombstones: (kind, namespace, sequence, page, hash).
    def read_tombstones(self, b):
        try:
            check_artifact(self.store, b[:512], b"SLSTTOMB", b"tombfile", "sidecar header")
        except Damaged as e:
            self.bad_tombstones(0, str(e))
        used, last_batch, bad = [], None, False
        for slot in range(4, len(b) // 128):
            s = b[slot * 128:slot * 128 + 128]
            if not any(s):
                continue
            kind, hash_n, _, ns, seq, page, batch, found = struct.unpack_from("<BBHIQIIQ", s)
            at = struct.pack("<QQ", self.number, slot)
            if keyed_sum(self.store["secret"], b"tombslot", at, s[:24], s[32:]) != found:
                self.bad_tombstones(slot * 128, "a tombstone does not match its sum")
                used.append(slot)
                last_batch, bad = None, True
                continue
            if kind not in (1, 2, 3):
                raise Unsupported("%s: a tombstone of kind %d" % (self.sidecar, kind))
            used.append(slot)
            last_batch = batch
            self.tombstones.append((kind, ns, seq, page, s[32:32 + hash_n]))
        # Holes from the batch of the last used slot on are a torn append.
        limit = last_batch if last_batch is not None else (used[-1] if used else 4)
        holes = set(range(4, limit)) - set(used)
        if holes:
            self.bad_tombstones(min(holes) * 128, "tombstones are lost")

    def bad_tombstones(self, offset, why):
        self.tombstones_whole = False
        self.report.damage(self.sidecar, why + ": what was dropped of its blocks can not be told", offset)

    def read_extents(self):
        last = self.size // PAGE - 1
        b = self.read(last, 1)
        if self.size % PAGE == 0 and b[-64:-56] == b"SLSTTRLR":
            try:
                self.read_footer(b[-64:])
                self.sealed = True
                return
            except Damaged as e:
                self.report.damage(self.name, str(e), last * PAGE)
        self.walk()

    def read_footer(self, trailer):
        check_artifact(self.store, trailer, b"SLSTTRLR", b"trailer ", "trailer")
        number, first, pages = struct.unpack_from("<QII", trailer, 48)
        if trailer[32:48] != self.store["uuid"] or number != self.number or (first + pages) * PAGE != self.size:
            raise Damaged("trailer: of another store or segment, or not at its place")
        b = self.read(first, pages)
        check_artifact(self.store, b, b"SLSTFOOT", b"footer  ", "footer")
        count, entry_bytes = struct.unpack_from("<II", b, 64)
        if b[32:48] != self.store["uuid"] or struct.unpack_from("<QII", b, 48) != (number, first, pages):
            raise Damaged("footer: of another store or segment, or not at its place")
        at = 96
        for _ in range(count):
            page, payload, seq, header_sum = struct.unpack_from("<IIQQ", b, at)
            raw, ns, depth, header_pages, kind, hash_n, parent_n = struct.unpack_from("<IIIHBBB", b, at + 40)
            entry = {"page": page, "pages": header_pages + payload, "sum": header_sum, "namespace": ns,
                     "hash": b[at + 64:at + 64 + hash_n], "sequence": seq, "kind": kind, "raw": raw,
                     "content": b[at + 24:at + 40]}
            at += 64 + hash_n + parent_n
            at += -at % 8
            self.extents.append(self.listed(entry, header_pages))
        if at != 96 + entry_bytes:
            raise Damaged("footer: its entries do not fill it")

    def listed(self, entry, header_pages):
        """The extent of a footer's entry: if its header is damaged, what the
        footer knows of it."""
        try:
            e = Extent(self.store, self.number, entry["page"], self.read(entry["page"], header_pages))
            if e.sum == entry["sum"]:
                e.problem = None
                return e
            why = "extent header: sound, but not the one that the footer lists"
        except (Damaged, struct.error, IndexError, UnicodeDecodeError) as err:
            why = str(err) or "extent header: does not parse"
        e = Extent.__new__(Extent)
        e.segment, e.page, e.sum = self.number, entry["page"], entry["sum"]
        e.header_pages, e.payload_pages = header_pages, entry["pages"] - header_pages
        e.namespace, e.hash, e.sequence, e.kind = entry["namespace"], entry["hash"], entry["sequence"], entry["kind"]
        e.content, e.planes, e.chunks, e.target = entry["content"], [("", entry["raw"], 0, 0)], [], (0, 0)
        e.problem = why
        return e

    def recorded(self, rec, before):
        """The extent of a put's or a move's record, whose header the walk did
        not find. A move does not say all; before is what was moved."""
        e = Extent.__new__(Extent)
        e.segment, e.page, e.sum = self.number, rec["page"], rec["sum"]
        e.header_pages, e.payload_pages = rec["header_pages"], rec["pages"] - rec["header_pages"]
        e.namespace, e.hash, e.sequence = rec["namespace"], rec["hash"], rec["sequence"]
        e.kind, e.content, e.planes, e.chunks, e.target = 1, b"", [], [], (0, 0)
        if rec["kind"] == "put":
            e.kind, e.content, e.target = 2 if rec["alias"] else 1, rec["content"], rec["target"]
            e.planes = [("", rec["raw"], 0, 0)]
        elif before is not None:
            e.kind, e.content, e.target, e.planes = before.kind, before.content, before.target, before.planes
        e.problem = "extent header: not found where the log says that it is"
        return e

    def walk(self):
        """The extents of a segment without a footer, header by header. Where
        there is none, a failed write left a hole: on with the next page."""
        page, end = 1, self.size // PAGE
        while page < end:
            b = self.read(page, 1)
            step = 1
            if b[:8] == b"SLSTEXTN":
                pages = struct.unpack_from("<H", b, 10)[0]
                try:
                    if not 1 <= pages <= 16:
                        raise Damaged("header pages")
                    e = Extent(self.store, self.number, page, self.read(page, pages))
                    e.problem = None
                    self.extents.append(e)
                    step = e.pages
                except (Damaged, struct.error, IndexError, UnicodeDecodeError):
                    pass
            page += step

    def payload(self, e):
        return self.read(e.page + e.header_pages, e.payload_pages)


def verify_payload(e, b):
    """None, or what does not hold of an extent's bytes; and whether all chunks
    were decoded."""
    decoded = True
    for offset, raw_n, raw_sum, stored_n, stored_sum in e.chunks:
        stored = b[offset:offset + stored_n]
        if len(stored) != stored_n or xxh64(stored) != stored_sum:
            return "the chunk at payload offset %d does not match its sum" % offset, decoded
        if e.codec != CODEC_RAW:
            raw = decode(e.codec, stored, raw_n)
            if raw is None:
                decoded = False
            elif len(raw) != raw_n or xxh64(raw) != raw_sum:
                return "the chunk at payload offset %d decodes to other bytes" % offset, decoded
    return None, decoded


def padding_problem(e, b):
    """None, or where the fill between planes is not zero."""
    at = 0
    for _, _, stored, offset in e.planes:
        if any(b[at:offset]):
            return "the fill before payload offset %d is not zero" % offset
        at = offset + stored
    if any(b[at:]):
        return "the fill behind payload offset %d is not zero" % at
    return None


# --- the log (wal.md, record.md) -------------------------------------------

class Log:
    """The records that the log holds, in order, as (position, record)."""

    def __init__(self, store, directory, report):
        self.store, self.directory, self.report = store, directory, report
        self.records, self.mark, self.rotten = [], 0, False
        names = sorted(n for n in os.listdir(os.path.join(directory, "wal")) if is_log_name(n))
        previous = None  # (base of the last file, end, chain sum)
        headers = [self.header(n, i + 1 < len(names)) for i, n in enumerate(names)]
        for i, h in enumerate(headers):
            if h is None:
                continue
            if h["continues"] and i > 0 and (previous is None or previous != (h["continues"], h["base"], h["chain"])):
                self.rot(h["name"], 0, "it does not continue the file before it")
                return
            last = i + 1 == len(headers) or headers[i + 1] is None or not headers[i + 1]["continues"]
            previous = self.groups(h, last)
            if previous is None:
                return

    def rot(self, name, offset, why):
        self.rotten = True
        self.report.damage("wal/" + name, why, offset)

    def header(self, name, is_continued):
        b = read_file(self.directory, "wal", name)
        h = b[:PAGE]
        if len(h) == PAGE and h[:8] == b"SEALWAL\n" and xxh64(h[:4088]) == struct.unpack_from("<Q", h, 4088)[0]:
            version, _, incompat = struct.unpack_from("<IIQ", h, 8)
            check_features("the log file " + name, version, incompat)
            base, size, salt, continues, chain = struct.unpack_from("<QQQQQ", h, 56)
            if h[40:56] == self.store["uuid"] and base == int(name[:16], 16):
                return {"name": name, "base": base, "salt": h[72:80], "continues": continues, "chain": chain,
                        "sum": h[4088:4096], "bytes": b, "size": size}
        if is_continued or any(b[PAGE:]):
            self.rot(name, 0, "the header does not verify")
        return None  # else the creation was cut off

    def groups(self, h, newest):
        """Walks the groups of a file; returns (base, end, chain sum)."""
        b, at, chain = h["bytes"], PAGE, h["sum"]
        synced_max = 0
        while True:
            g = self.group(h, at, chain)
            if g is None:
                break
            end, records, synced, mark, chain = g
            self.records += records
            synced_max, self.mark = max(synced_max, synced), max(self.mark, mark)
            at = end
        end_lsn = h["base"] + at - PAGE
        if any(b[at:]):
            if not newest:
                self.rot(h["name"], at, "a group in a file that was closed does not verify")
                return None
            for look in range(at, len(b) - 47, 8):
                c = self.commit(h, look)
                if c is not None:
                    synced_max = max(synced_max, c[2])
            if synced_max > end_lsn:
                self.rot(h["name"], at, "durable groups do not verify")
                return None
        return h["base"], end_lsn, int.from_bytes(chain, "little")

    def commit(self, h, at):
        """(group bytes, records, synced, mark) of a commit frame whose own sum
        is good, or None."""
        b = h["bytes"]
        if at + 48 > len(b) or struct.unpack_from("<IB", b, at) != (40, 2):
            return None
        lsn = struct.pack("<Q", h["base"] + at - PAGE)
        if xxh64(h["salt"] + lsn + b[at:at + 32]) != struct.unpack_from("<Q", b, at + 32)[0]:
            return None
        return struct.unpack_from("<IIQQ", b, at + 8)

    def group(self, h, at, chain):
        b, frame, records = h["bytes"], at, []
        while frame + 8 <= len(b):
            n, kind = struct.unpack_from("<IB", b, frame)
            if kind == 2:
                c = self.commit(h, frame)
                if c is None or c[0] != frame + 48 - at or c[1] != len(records):
                    return None
                if xxh64(chain + b[at:frame + 40]) != struct.unpack_from("<Q", b, frame + 40)[0]:
                    return None
                # Only now are the records known to be the writer's.
                return (frame + 48, [(lsn, parse_record(r)) for lsn, r in records], c[2], c[3],
                        b[frame + 40:frame + 48])
            if kind != 1 or n == 0 or frame + 8 + n > len(b):
                return None
            records.append((h["base"] + frame - PAGE, b[frame + 8:frame + 8 + n]))
            frame += 8 + n + -n % 8
        return None


def is_log_name(name):
    return len(name) == 20 and name.endswith(".wal") and all(c in "0123456789abcdef" for c in name[:16])


RECORD_KINDS = {1: "put", 2: "drop", 3: "quarantine", 4: "move", 5: "evict"}


def parse_record(b):
    version, kind, ns, hash_n = struct.unpack_from("<BBIB", b)
    if version != 1 or kind not in RECORD_KINDS:
        raise Unsupported("a log record of version %d, kind %d" % (version, kind))
    r = {"kind": RECORD_KINDS[kind], "namespace": ns, "hash": b[7:7 + hash_n]}
    at = 7 + hash_n
    if kind == 1:
        r["target"] = struct.unpack_from("<QI", b, at)
        r["content"] = b[at + 26:at + 42]
        r["sequence"], _, r["raw"] = struct.unpack_from("<QIQ", b, at + 42)
        own = struct.unpack_from("<QIHIQ", b, at + 62)
        r["alias"] = own[0] != 0
        home = own if r["alias"] else struct.unpack_from("<QIHIQ", b, at)
        r["segment"], r["page"], r["header_pages"], r["pages"], r["sum"] = home
    elif kind == 4:
        r["sequence"], from_segment, from_page = struct.unpack_from("<QQI", b, at)
        r["segment"], r["page"], r["header_pages"], r["pages"], r["sum"] = struct.unpack_from("<QIHIQ", b, at + 20)
        r["from"] = (from_segment, from_page)
    elif kind == 5:
        r["segment"], = struct.unpack_from("<Q", b, at)
    else:
        r["sequence"], r["segment"], r["page"] = struct.unpack_from("<QQI", b, at)
    return r


# --- which blocks there are (protocol.md, Rebuild) --------------------------

class Report:
    def __init__(self):
        self.damages, self.notes, self.blocks = [], [], []

    def damage(self, file, why, offset=None):
        self.damages.append({"file": file, "offset": offset, "reason": why})


class Store:
    def __init__(self, directory):
        self.directory, self.report = directory, Report()
        r = self.report
        self.store = newest(directory, ("STORE", "STORE.2"), parse_store, r)
        self.spaces = newest(directory, ("NAMESPACES", "NAMESPACES.2"),
                             lambda b: parse_namespaces(b, self.store), r)["spaces"]
        self.log = Log(self.store, directory, r)
        self.evicted = {rec["segment"] for _, rec in self.log.records if rec["kind"] == "evict"}
        self.segments = {}
        for number in self.segment_numbers():
            if number not in self.evicted:
                self.segments[number] = Segment(self.store, directory, number, r)

    def segment_numbers(self):
        out = []
        root = os.path.join(self.directory, "segments")
        for hh in os.listdir(root):
            for name in os.listdir(os.path.join(root, hh)):
                if name.endswith(".seg") and len(name) == 20:
                    out.append(int(name[:16], 16))
        return sorted(out)

    def tombstones(self):
        """What is dropped up to which sequence, by key; what is dead and what
        is bad, by address."""
        drops, dead, bad = {}, set(), set()
        for s in self.segments.values():
            for kind, ns, seq, page, h in s.tombstones:
                if kind == 1:
                    drops[ns, h] = max(drops.get((ns, h), 0), seq)
                else:
                    (bad if kind == 2 else dead).add((s.number, page))
        return drops, dead, bad

    def missing(self):
        """Adds the extents that a durable record names and the walk of a
        segment without a footer does not find: their headers are damaged."""
        known = {(e.namespace, e.hash, e.sequence): e for s in self.segments.values() for e in s.extents}
        for at, rec in self.log.records:
            if rec["kind"] not in ("put", "move") or at >= self.log.mark:
                continue
            s = self.segments.get(rec["segment"])
            if s is None or s.sealed or any(e.page == rec["page"] for e in s.extents):
                continue
            e = s.recorded(rec, known.get((rec["namespace"], rec["hash"], rec["sequence"])))
            known[e.namespace, e.hash, e.sequence] = e
            s.extents.append(e)

    def durable(self):
        """Addresses that a record at or below the durable mark names."""
        return {(r["segment"], r["page"]) for at, r in self.log.records
                if r["kind"] in ("put", "move") and at < self.log.mark}

    def verify(self):
        """Chooses the blocks and verifies the bytes of each."""
        self.missing()
        drops, dead, bad = self.tombstones()
        durable, contents, best = self.durable(), {}, {}
        for s in self.segments.values():
            for e in s.extents:
                self.judge(s, e)
                if not s.sealed and e.problem and e.address not in durable:
                    continue  # was never answered as durable: no block, no damage
                tenant = self.tenant(e.namespace)
                if not e.is_alias() and e.address not in bad:
                    contents.setdefault((tenant, e.content), []).append(e)
                e.unsure = not s.tombstones_whole  # it may have been dropped
                if e.address in dead or e.address in bad:
                    continue
                if e.namespace not in self.spaces or e.sequence < self.spaces[e.namespace]["floor"]:
                    continue
                if e.sequence <= drops.get(e.key, 0):
                    continue
                if e.key not in best or (e.sequence, e.address) > (best[e.key].sequence, best[e.key].address):
                    best[e.key] = e
        told = set()
        for key in sorted(best):
            told.add(self.add_block(best[key], contents))
        for s in self.segments.values():
            for e in s.extents:
                if s.sealed and e.problem and e.address not in told | bad:
                    self.report.damage(s.name, "an extent that no block refers to: " + e.problem, e.page * PAGE)

    def tenant(self, namespace):
        return self.spaces[namespace]["tenant"] if namespace in self.spaces else None

    def judge(self, s, e):
        """Sets e.problem, and reports where the fill is not zero."""
        e.decoded, e.padding = True, None
        if e.problem is None and not e.is_alias():
            b = s.payload(e)
            try:
                e.problem, e.decoded = verify_payload(e, b)
            except Damaged as err:
                e.problem = str(err)
            if e.problem is None:
                e.padding = padding_problem(e, b)
            if e.padding:
                self.report.damage(s.name, e.padding, (e.page + e.header_pages) * PAGE)

    def add_block(self, e, contents):
        """Lists the block; returns the address where its damage would lie."""
        home, problem, decoded = e, e.problem, e.decoded
        if e.is_alias():
            home, problem = self.resolve(e, contents)
            decoded = home.decoded if home else True
            if e.problem:  # no loss as long as somebody else knows of the alias
                self.report.damage(self.segments[e.segment].name, "an alias's page: " + e.problem, e.page * PAGE)
        if home is None:
            home = e
        block = {"namespace": e.namespace, "hash": e.hash.hex(), "segment": home.segment, "page": home.page,
                 "sequence": e.sequence, "raw_bytes": e.raw_bytes, "content_id": e.content.hex(),
                 "verdict": "damaged" if problem else "unsure" if e.unsure else "padding" if home.padding else "ok"}
        if e.is_alias():
            block["alias_segment"], block["alias_page"] = e.address
        if problem:
            block["problem"] = problem
            self.report.damage(self.segments[home.segment].name, "namespace %d, hash %s: %s" % (e.namespace, e.hash.hex(), problem),
                               home.page * PAGE)
        elif not decoded:
            block["note"] = "stored bytes verified, not decoded: no zstd module"
        self.report.blocks.append(block)
        return home.address

    def resolve(self, alias, contents):
        """The extent that holds an alias's bytes: the one that it names, or
        another of the same content and tenant."""
        found = contents.get((self.tenant(alias.namespace), alias.content), [])
        whole = [e for e in found if e.problem is None]
        named = [e for e in found if e.address == alias.target]
        for e in named + sorted(whole, key=lambda e: e.address, reverse=True):
            if e.problem is None:
                return e, None
        if found:
            return found[0], found[0].problem
        return None, "no extent of the tenant has its content"


# --- command line ------------------------------------------------------------

def lock(directory):
    """Holds the store against an owner, as an owner would. LOCK is not
    written."""
    held = []
    for name in ("LOCK", "."):
        try:
            fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # a file system that locks no directories
        held.append(fd)
    return held


def arguments(argv):
    class Parser(argparse.ArgumentParser):
        def error(self, message):
            self.print_usage(sys.stderr)
            self.exit(EXIT_USAGE, "readstore: %s\n" % message)

    p = Parser(prog="readstore.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", metavar="DIR", help="a store that nobody has open")
    p.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    p.add_argument("--compare", metavar="FILE", help="a report of sealstone verify --json to compare with (-: standard input)")
    p.add_argument("--no-blocks", action="store_true", help="leave the blocks out, print what is damaged and the sums")
    return p.parse_args(argv)


COMPARED = ("segment", "page", "alias_segment", "alias_page", "sequence", "raw_bytes", "verdict")


def load_report(file):
    """The blocks in a report of "sealstone verify", by namespace and hash."""
    with sys.stdin if file == "-" else open(file, encoding="utf-8") as f:
        return {(x["namespace"], x["hash"]): x for x in json.load(f)["extents"] if x["role"] == "block"}


def compare(blocks, theirs):
    """What the report of "sealstone verify" says differently, a line each."""
    ours = {(b["namespace"], b["hash"]): b for b in blocks}
    out = []
    for key in sorted(ours.keys() | theirs.keys()):
        a, b = ours.get(key), theirs.get(key)
        if a is not None and a["verdict"] == "unsure":
            continue  # the tombstones that would tell are damaged
        who = "namespace %d, hash %s" % key
        if a is None or b is None:
            out.append("%s: only in %s" % (who, "the other report: " + b["verdict"] if a is None else "this one: " + a["verdict"]))
            continue
        out += ["%s: %s is %s here, %s there" % (who, k, a.get(k), b.get(k)) for k in COMPARED if a.get(k) != b.get(k)]
    return out


def summary(s, seconds):
    r = s.report
    return {"segments": len(s.segments), "sealed": sum(x.sealed for x in s.segments.values()),
            "log_records": len(s.log.records), "namespaces": len(s.spaces), "blocks": len(r.blocks),
            "blocks_ok": sum(b["verdict"] == "ok" for b in r.blocks), "damage": len(r.damages),
            "raw_bytes": sum(b["raw_bytes"] for b in r.blocks), "seconds": round(seconds, 1)}


def print_text(s, sums, blocks):
    for number, space in sorted(s.spaces.items()):
        print("namespace %d  tenant %r  model %r  epoch %d" %
              (number, space["tenant"], space["layout"].get("model", ""), space["epoch"]))
    if blocks:
        print("%4s %-64s %16s %6s %10s  %s" % ("ns", "hash", "segment", "page", "bytes", "verdict"))
        for b in s.report.blocks:
            print("%4d %-64s %016x %6d %10d  %s" %
                  (b["namespace"], b["hash"], b["segment"], b["page"], b["raw_bytes"], b["verdict"]))
    for d in s.report.damages:
        print("DAMAGE %s%s: %s" % (d["file"], "" if d["offset"] is None else " at %d" % d["offset"], d["reason"]))
    print(", ".join("%s %s" % (v, k.replace("_", " ")) for k, v in sums.items()))


def tell_differences(s, theirs):
    lines = compare(s.report.blocks, theirs)
    for line in lines:
        print("readstore: " + line, file=sys.stderr)
    print("readstore: %d differences in %d blocks" % (len(lines), len(s.report.blocks)), file=sys.stderr)
    return EXIT_DIFFERS if lines else EXIT_CLEAN


def main(argv=None):
    args = arguments(argv)
    began = time.monotonic()
    try:
        # First: a verify at the other end of a pipe has the store until it ends.
        theirs = load_report(args.compare) if args.compare else None
    except (OSError, ValueError, KeyError, TypeError) as e:
        print("readstore: %s is no report of sealstone verify: %s" % (args.compare, e), file=sys.stderr)
        return EXIT_ERROR
    try:
        held = lock(args.dir)
        s = Store(args.dir)
        s.verify()
    except BlockingIOError:
        print("readstore: %s is in use by another process" % args.dir, file=sys.stderr)
        return EXIT_LOCKED
    except Damaged as e:
        print("readstore: %s: %s" % (args.dir, e), file=sys.stderr)
        return EXIT_DAMAGE
    except (OSError, Unsupported) as e:
        print("readstore: %s: %s" % (args.dir, e), file=sys.stderr)
        return EXIT_UNSUPPORTED if isinstance(e, Unsupported) else EXIT_ERROR
    sums = summary(s, time.monotonic() - began)
    if args.json:
        out = {"dir": args.dir, "summary": sums, "damage": s.report.damages}
        if not args.no_blocks:
            out["blocks"] = s.report.blocks
        json.dump(out, sys.stdout, indent=1)
        print()
    else:
        print_text(s, sums, not args.no_blocks)
    for fd in held:
        os.close(fd)
    if theirs is not None:
        return tell_differences(s, theirs)
    return EXIT_DAMAGE if s.report.damages else EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
