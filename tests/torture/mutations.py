"""Mutations of valid files: bytes, JSON values, tables, arrays, archives, pickles and checkpoints.

Every function takes what is valid and a `random.Random`, and returns something that may not be. The
same numbers give the same mutation, so that a case can be repeated by its number.
"""

import csv
import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutate = Callable[[bytes, Random], bytes]

DEEP = 3000
LENGTHS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 65535, 2_000_000)
LENGTHS += (2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)
NUMBERS: tuple[float, ...] = (0, -1, 1, 2, 3, 7, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400)
NUMBERS += (-(2**63), 0.0, -0.0, 0.5, 1.5, -1.5, 1e-320, 1e30, 1e39, 1e308)
NUMBERS += (math.nan, math.inf, -math.inf)
STRINGS = ("", "0", "-1", "nan", "1e999", "x" * 5000, "../../escape", "/etc/passwd", "a\0b")
STRINGS += ("\ud800", "\u202e", "classes", "GCN-BBGDC", "gdc", "float64")
VALUES: tuple[Any, ...] = (None, True, False, *NUMBERS, *STRINGS, [], {}, [0], [[]], [None])
VALUES += ({"": None}, {"class": "os.system"}, {"class": "LearnedRate"})
VALUES += ({"class": "FixedRate", "keep": 2.0},)


def mutated_bytes(raw: bytes, random: Random) -> bytes:
    """One to four local changes."""
    content = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = bytearray(random.choice(_BYTES)(content, random))
    return bytes(content)


def _place(content: bytearray, random: Random) -> int:
    return random.randrange(len(content)) if content else 0


def _flip(content: bytearray, random: Random) -> bytearray:
    if content:
        content[_place(content, random)] ^= 1 << random.randrange(8)
    return content


def _replace(content: bytearray, random: Random) -> bytearray:
    if content:
        content[_place(content, random)] = random.choice((0, 1, 10, 44, 46, 127, 128, 255))
    return content


def _truncate(content: bytearray, random: Random) -> bytearray:
    return content[: _place(content, random)]


def _cut(content: bytearray, random: Random) -> bytearray:
    start = _place(content, random)
    del content[start : start + random.choice((1, 2, 4, 8, 64, 1000))]
    return content


def _splice(content: bytearray, random: Random) -> bytearray:
    start, size, to = (
        _place(content, random),
        random.choice((1, 4, 16, 300)),
        _place(content, random),
    )
    part = content[start : start + size]
    if random.random() < 0.5:
        return content[:to] + part + content[to:]
    content[to : to + len(part)] = part
    return content


def _number(content: bytearray, random: Random) -> bytearray:
    """A length or count of 2, 4 or 8 bytes becomes another."""
    size = random.choice((2, 4, 8))
    start = _place(content, random)
    value = random.choice(LENGTHS) % 256**size
    new = value.to_bytes(size, random.choice(("little", "big")))
    content[start : start + size] = new[: max(0, len(content) - start)]
    return content


def _noise(content: bytearray, random: Random) -> bytearray:
    start = _place(content, random)
    return content[:start] + random.randbytes(random.choice((1, 3, 40))) + content[start:]


_BYTES: tuple[Callable[[bytearray, Random], bytearray], ...] = (
    *(_flip, _flip, _replace, _truncate, _cut, _splice, _splice, _number, _noise),
)


def garbage(random: Random) -> bytes:
    """What was never a valid file: noise, text, one byte often, or deep brackets."""
    kind = random.randrange(5)
    if kind == 0:
        return random.randbytes(random.choice((0, 1, 10, 300)))
    if kind == 1:
        return bytes(
            random.choice(b'{}[]",:=\n0123456789.e-abc\xff') for _ in range(random.randrange(200))
        )
    if kind == 2:
        return bytes([random.randrange(256)]) * random.choice((1, 100, 70_000))
    if kind == 3:
        return random.choice((b"[", b"{", b'{"a":', b"((")) * DEEP
    return json.dumps(random.choice(VALUES)).encode()


def mutated_value(value: Any, random: Random) -> Any:
    """A JSON value with one part replaced, removed, swapped or added."""
    places = list(_places(value))
    if not places:
        return random.choice(VALUES)
    owner, key = random.choice(places)
    kind = random.randrange(6)
    if kind == 0:
        del owner[key]
    elif kind == 1:
        other, second = random.choice(places)
        if not _inside(owner[key], other) and not _inside(other[second], owner):
            owner[key], other[second] = other[second], owner[key]
    elif kind == 2 and isinstance(owner, dict):
        owner[random.choice(("", "x", "class", "format", "a" * 300, "../x"))] = random.choice(
            VALUES
        )
    elif kind == 3 and isinstance(owner, list):
        owner.append(random.choice(VALUES))
    elif kind == 4 and isinstance(owner[key], (int, float)) and not isinstance(owner[key], bool):
        new = _near(owner[key], random)
        owner[key] = new
    else:
        owner[key] = random.choice(VALUES)
    return value


def _near(number: float, random: Random) -> Any:
    try:
        return random.choice(
            (number + 1, number - 1, -number, 2 * number, number / 3, float(number))
        )
    except OverflowError:
        return 0


def _places(value: Any) -> Any:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _inside(outer: Any, owner: Any) -> bool:
    return outer is owner or any(place is owner for place, _ in _places(outer))


def mutated_json(raw: bytes, random: Random) -> bytes:
    """A JSON document, as a value or as bytes."""
    if random.random() < 0.3:
        return mutated_bytes(raw, random)
    try:
        value = json.loads(raw)
    except ValueError:
        return mutated_bytes(raw, random)
    for _ in range(random.choice((1, 1, 2, 3))):
        value = mutated_value(value, random)
    return json.dumps(value).encode()


def mutated_lines(raw: bytes, random: Random) -> bytes:
    """Lines of JSON: one line changed, or lines lost, doubled, swapped or joined."""
    lines = raw.splitlines(keepends=True)
    if random.random() < 0.2 or not lines:
        return mutated_bytes(raw, random)
    place = random.randrange(len(lines))
    kind = random.randrange(6)
    if kind < 3:
        lines[place] = mutated_json(lines[place], random) + b"\n"
    elif kind == 3:
        lines.insert(
            place, random.choice((b"\n", b"null\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * DEEP))
        )
    elif kind == 4:
        del lines[place]
    else:
        lines[place] = lines[place].rstrip(b"\n")
    return b"".join(lines)


CELLS = ("", " ", "nan", "NaN", "inf", "-inf", "1e999", "1e39", "0x10", "1_000", "1,5", "-1", "0")
CELLS += ("é", '"', '""', "\0", "=1+1", "a" * 3000, "1" * 400, "\u2028", "true", "none", "train")
CELLS += ("\ufeff",)


def mutated_table(raw: bytes, random: Random) -> bytes:
    """A CSV file: cells, rows and columns, its separator and its encoding."""
    if random.random() < 0.25:
        return mutated_bytes(raw, random)
    rows = list(csv.reader(io.StringIO(raw.decode())))
    for _ in range(random.choice((1, 1, 2, 5))):
        row = random.choice(rows[:1] if random.random() < 0.2 else rows)
        kind = random.randrange(8)
        if kind < 4 and row:
            row[random.randrange(len(row))] = random.choice((*CELLS, *random.choice(rows)))
        elif kind == 4:
            rows.insert(random.randrange(len(rows) + 1), list(row))
        elif kind == 5 and len(rows) > 1:
            rows.remove(row)
        elif kind == 6:
            column = random.randrange(len(rows[0]) + 1)
            for one in rows:
                one.insert(column, random.choice(CELLS)) if random.random() < 0.9 else None
        elif rows[0]:
            column = random.randrange(len(rows[0]))
            for one in rows:
                del one[column : column + 1]
        if not rows or not rows[0]:
            break
    text = io.StringIO()
    separator = random.choice((",", ",", ",", ";", "\t"))
    csv.writer(text, delimiter=separator, lineterminator=random.choice(("\n", "\r\n"))).writerows(
        rows
    )
    encoding = random.choice(
        ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-16-be")
    )
    return text.getvalue().encode(encoding, errors="replace")


HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (%s), }",
    "{'descr': [('a', '<f8'), ('b', '|O')], 'fortran_order': False, 'shape': (%s), }",
    "{'descr': '<U4000000000', 'fortran_order': True, 'shape': (%s), }",
    "{'descr': '>i8', 'fortran_order': True, 'shape': (%s), }",
    "{'descr': '<f2', 'fortran_order': False, 'shape': (%s), }",
    "{'descr': '<f16', 'fortran_order': False, 'shape': (%s), }",
    "{'descr': '|b1', 'fortran_order': False, 'shape': (%s), }",
    "__import__('os').mkdir('escaped')  # %s",
)
SHAPES = ("", "0,", "1,", "-1,", "2**3,", "99999999999,", "4,4", "2, -1", "1,1,1", "True,", "1e3,")


def mutated_array(raw: bytes, random: Random) -> bytes:
    """An .npy file: another header, another version, or other bytes."""
    kind = random.randrange(5)
    if kind < 2 or raw[:6] != b"\x93NUMPY":
        return mutated_bytes(raw, random)
    start = 10 + struct.unpack("<H", raw[8:10])[0]
    header = raw[10:start].decode("latin-1")
    if kind == 2:
        shape = header[header.index("'shape'") :]
        numbers = "".join(c if c.isdigit() else " " for c in shape).split()
        if numbers:
            header = header.replace(random.choice(numbers), str(random.choice((*LENGTHS, -1))))
    elif kind == 3:
        header = random.choice(HEADERS) % random.choice(SHAPES)
    else:
        words = ("<f4", "<f8", "<i8", "<i4", "|b1", "<u8", ">f8", "|u1", "<M8[s]", "|S4", "|V8")
        found = [word for word in words if word in header]
        header = header.replace(found[0], random.choice(words)) if found else header
        header = header.replace("False", random.choice(("False", "True", "1", "None")))
    body = raw[start:]
    if random.random() < 0.3:
        body = bytes(len(body)) if random.random() < 0.5 else mutated_bytes(body, random)
    encoded = header.rstrip().encode("latin-1")
    encoded += b" " * (-(len(encoded) + 11) % 64) + b"\n"
    version = random.choice((b"\1\0",) * 6 + (b"\2\0", b"\3\0", b"\xff\xff"))
    return b"\x93NUMPY" + version + struct.pack("<H", len(encoded) % 65536) + encoded + body


def mutated_archive(raw: bytes, random: Random) -> bytes:
    """An .npz file: its bytes, or its members changed, renamed, doubled or left out."""
    if random.random() < 0.3:
        return mutated_bytes(raw, random)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(len(members))
        name, content = members[place]
        kind = random.randrange(8)
        if kind < 5:
            members[place] = name, mutated_array(content, random)
        elif kind == 5:
            new = random.choice(
                ("../escape.npy", "/tmp/x.npy", "", "a\0b.npy", members[0][0], name[:-4])
            )
            members[place] = new, content
        elif kind == 6:
            members[place] = name, random.choice(members)[1]
        elif len(members) > 1:
            del members[place]
    stream = io.BytesIO()
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
    with zipfile.ZipFile(stream, "w", random.choice(methods)) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name or "empty"), content, archive.compression)
    return stream.getvalue()


NAMES = tuple(
    b"c%s\n%s\n" % tuple(name.encode().rsplit(b".", 1))
    for name in (
        *("posix.system", "builtins.eval", "numpy.memmap", "numpy.ndarray", "numpy.dtype"),
        *("collections.defaultdict", "scipy.sparse.csr.csr_matrix", "__builtin__.list"),
        "numpy.core.multiarray._reconstruct",
    )
)
INSTRUCTIONS = tuple(bytes([code]) for code in b"N\x88\x89]})(tRb\x81aesu02\x85\x86\x87.")
INSTRUCTIONS += (b"K\x05", b"M\xff\xff", b"J\xff\xff\xff\xff", b"J\0\0\0\x80", b"q\0", b"h\0")
INSTRUCTIONS += (b"r\xff\xff\xff\x7f", b"T\x08\0\0\0osmkdir!", b"X\1\0\0\0a", b"\x8a\1\1")


def mutated_pickle(raw: bytes, random: Random) -> bytes:
    """A pickle: other names, other instructions, other bytes."""
    kind = random.randrange(4)
    if kind == 0:
        return mutated_bytes(raw, random)
    if kind == 1:
        present = [name for name in NAMES if name in raw]
        if present:
            return raw.replace(random.choice(present), random.choice(NAMES), random.choice((1, 9)))
    place = random.randrange(2, max(3, len(raw)))
    after = place + random.choice((0, 0, 1, 5))
    return raw[:place] + random.choice((*INSTRUCTIONS, *NAMES)) + raw[after:]


def mutated_tensors(raw: bytes, random: Random) -> bytes:
    """A safetensors file: its bytes, its header, or graphdrop's JSON in it with a right checksum.

    The checksum finds accidents. Who changes a file on purpose computes it anew, as here.
    """
    if random.random() < 0.25:
        return mutated_bytes(raw, random)
    size = struct.unpack("<Q", raw[:8])[0]
    try:
        header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
        stored = json.loads(header["__metadata__"]["graphdrop"])
        inner = json.loads(stored["header"])
    except (ValueError, KeyError, TypeError):
        return mutated_bytes(raw, random)
    kind = random.randrange(4)
    if kind == 0:
        header = mutated_value(header, random)
    else:
        if kind == 1 and body:
            body = mutated_bytes(body, random)[: len(body)].ljust(len(body), b"\0")
        elif kind == 2:
            names = [name for name in header if name != "__metadata__"]
            header[random.choice((*names, "new"))] = header.pop(random.choice(names))
        else:
            for _ in range(random.choice((1, 1, 2))):
                inner = mutated_value(inner, random)
        text = json.dumps(inner)
        sha256 = _checksum(header, body, text)
        header["__metadata__"]["graphdrop"] = json.dumps({"header": text, "sha256": sha256})
    encoded = json.dumps(header).encode("utf-8", "replace")
    return struct.pack("<Q", len(encoded)) + encoded + body


_TORCH = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "BOOL": "bool"}


def _checksum(header: dict[str, Any], body: bytes, text: str) -> str:
    """The checksum that `write_tensors` computes, where the header is still one of tensors."""
    digest = hashlib.sha256(text.encode("utf-8", "replace"))
    for name, about in sorted(header.items()):
        if name != "__metadata__":
            start, end = about["data_offsets"]
            dtype = _TORCH.get(about["dtype"], "other")
            digest.update(f"\n{name} torch.{dtype} {tuple(about['shape'])}\n".encode())
            digest.update(body[start:end])
    return digest.hexdigest()


def mutated_words(words: Sequence[str], random: Random) -> list[str]:
    """The words of a command: one changed, added, doubled, swapped or left out."""
    found = list(words)
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.randrange(len(found)) if found else 0
        kind = random.randrange(6)
        if kind < 2 and found:
            found[place] = _word(random)
        elif kind == 2:
            found.insert(place, _word(random))
        elif kind == 3 and found:
            del found[place]
        elif kind == 4 and found and "/" not in found[place]:  # another path may be written to
            raw = mutated_bytes(found[place].encode("utf-8", "surrogatepass"), random)
            found[place] = raw.decode("utf-8", "surrogateescape").replace("/", "")
        elif found:
            other = random.randrange(len(found))
            found[place], found[other] = found[other], found[place]
    return [word.replace("\0", "") for word in found]


_LINE = """
- -- --help --version --json --quiet -o --out --seed --epochs 0 -1 1 2 1e3 nan inf é ~nobody/x ~
/dev/null /dev/zero /proc/self/mem . .. / a=b train.epochs=1 train.epochs= model.hidden=99999999999
model.layers=10000000 model.nothing=1 = [ { %s data info verify list train evaluate predict card
report --set --dataset --method GCN-BBGDC GCN-XXX --split random-fractions synthetic2 --root
--samples
"""
WORDS = ("", "9" * 30, "x" * 300, "\ud800", "\n", *_LINE.split())


def _word(random: Random) -> str:
    if random.random() < 0.8:
        return random.choice(WORDS)
    return "".join(
        chr(random.choice((random.randrange(32, 127), random.randrange(0x3000)))) for _ in range(5)
    )
