"""The small pictures beside this file, and expected.txt: what Pillow 13.0.0 makes of each of them, as lines
    name width height sha256(RGB) target_width target_height sha256(resized RGB)
Usage: make.py   (needs pillow==13.0.0 and numpy)"""
import hashlib
import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent
rng = np.random.default_rng(20261201)
files = {}


def waves(h, w, c):
    y, x = np.mgrid[0:h, 0:w]
    planes = [127 + 110 * np.sin(x / rng.uniform(1, 9) + y / rng.uniform(1, 9)) + rng.normal(0, 8, (h, w)) for _ in range(c)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def picture(mode, h, w):
    if mode == "RGB":
        return Image.fromarray(waves(h, w, 3))
    if mode == "L":
        return Image.fromarray(waves(h, w, 1)[..., 0])
    if mode == "P":
        return Image.fromarray(waves(h, w, 3)).quantize(16)
    rgba = waves(h, w, 4)
    return Image.merge(mode, [Image.fromarray(rgba[..., i]) for i in range(4)])


def add(name, image, **options):
    out = io.BytesIO()
    ending = name.rsplit(".")[-1]
    image.save(out, "JPEG" if ending == "jpg" else ending, **options)
    files[name] = out.getvalue()


def png(colour, depth, h, w, interlaced=False, chunks=()):
    """Random samples with random row filters; Pillow cannot write all of these itself."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x0, y0, dx, dy in passes if interlaced else [(0, 0, 1, 1)]:
        pw, ph = -(-(w - x0) // dx), -(-(h - y0) // dy)
        for _ in range(ph if pw > 0 else 0):
            raw += bytes([rng.integers(0, 5)]) + rng.integers(0, 256, (pw * samples * depth + 7) // 8, dtype=np.uint8).tobytes()
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def bmp(bits, h, w, header=40, masks=(), colours=0, top_down=False):
    pixels = rng.integers(0, 256, (w * bits + 31) // 32 * 4 * h, dtype=np.uint8).tobytes()
    palette = b"".join(bytes(rng.integers(0, 256, 3, dtype=np.uint8)) + (b"" if header == 12 else b"\0") for _ in range(colours))
    if header == 12:
        head = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, w, -h if top_down else h, 1, bits, 3 if masks else 0, len(pixels), 2835, 2835, colours, 0)
        fields = b"".join(struct.pack("<I", m) for m in masks)
        head += fields if header == 40 else fields.ljust(header - 40, b"\0")
    at = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(pixels), 0, 0, at) + head + palette + pixels


for mode in ("RGB", "L", "CMYK"):
    for sampling in (0, 1, 2):
        add(f"{mode.lower()}_{('444', '422', '420')[sampling]}.jpg", picture(mode, 19, 27), quality=80, subsampling=sampling)
add("progressive.jpg", picture("RGB", 33, 26), quality=85, progressive=True)
add("restarts.jpg", picture("RGB", 24, 40), restart_marker_blocks=2)
add("keep_rgb.jpg", picture("RGB", 12, 18), keep_rgb=True)
files["trailing.jpg"] = files["rgb_420.jpg"] + b"more bytes"
turned = picture("RGB", 14, 22)
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    add(f"turned_{orientation}.jpg", turned, exif=exif)
    add(f"turned_{orientation}.png", turned, exif=exif)
big_endian = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
files["turned_be.png"] = png(2, 8, 5, 7, chunks=[(b"eXIf", big_endian)])
for interlaced in (0, 1):
    for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
        for depth in depths:
            palette = [(b"PLTE", rng.integers(0, 256, 3 << depth, dtype=np.uint8).tobytes())] if colour == 3 else []
            files[f"{'adam7' if interlaced else 'plain'}_{colour}_{depth}.png"] = png(colour, depth, 9, 13, interlaced, palette)
files["short_palette.png"] = png(3, 8, 5, 6, chunks=[(b"PLTE", bytes(range(60)))])
files["transparent_palette.png"] = png(3, 4, 5, 6, chunks=[(b"PLTE", bytes(range(48))), (b"tRNS", b"\0\x80")])
files["transparent_grey.png"] = png(0, 8, 5, 6, chunks=[(b"tRNS", b"\0\x07")])
files["dot.png"] = png(2, 8, 1, 1)
for bits in (1, 4, 8):
    files[f"palette_{bits}.bmp"] = bmp(bits, 5, 7, colours=1 << bits)
files["palette_20.bmp"] = bmp(8, 5, 7, colours=20)
files["top_down.bmp"] = bmp(24, 5, 7, top_down=True)
files["555.bmp"] = bmp(16, 5, 7)
files["565.bmp"] = bmp(16, 5, 7, masks=(0xF800, 0x7E0, 0x1F))
files["32.bmp"] = bmp(32, 5, 7)
files["v4_fields.bmp"] = bmp(32, 5, 7, 108, (0xFF, 0xFF00, 0xFF0000, 0xFF000000))
files["os2_24.bmp"] = bmp(24, 5, 7, 12)
files["os2_4.bmp"] = bmp(4, 5, 7, 12, colours=16)
add("plain.gif", picture("P", 11, 17), interlace=0)
add("interlaced.gif", picture("P", 21, 17), interlace=1, transparency=3)
add("noise.gif", Image.fromarray(rng.integers(0, 256, (90, 90), dtype=np.uint8)), interlace=0)
add("animated.gif", picture("P", 9, 9), save_all=True, append_images=[picture("P", 9, 9)])
for name, options in (("screen.gif", {}), ("screen_clear.gif", {"transparency": 2})):
    add(name, picture("P", 6, 8), **options)
    data = bytearray(files[name])
    data[6:10] = struct.pack("<HH", 12, 10)
    frame = data.index(b"\x2c", 13 + 48)
    data[frame + 1:frame + 5] = struct.pack("<HH", 2, 3)
    files[name] = bytes(data)
add("lossy.webp", picture("RGB", 21, 30))
add("lossy_alpha.webp", picture("RGBA", 21, 30))
add("lossless.webp", picture("RGB", 21, 30), lossless=True)
add("lossless_alpha.webp", picture("RGBA", 21, 30), lossless=True, exact=True)
exif[0x0112] = 6
add("turned_6.webp", turned, exif=exif)
add("tall.png", Image.fromarray(rng.integers(0, 256, (120, 20, 3), dtype=np.uint8)))

with open(HERE / "expected.txt", "w") as expected:
    for i, (name, data) in enumerate(sorted(files.items())):
        (HERE / name).write_bytes(data)
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        target = (19, 40) if name == "tall.png" else ((31, 24), (6, 31), (image.width, 3), (48, image.height))[i % 4]
        sha = lambda im: hashlib.sha256(np.asarray(im).tobytes()).hexdigest()
        print(name, *image.size, sha(image), *target, sha(image.resize(target, Image.BICUBIC)), file=expected)
