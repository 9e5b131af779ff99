// Compresses PNG screenshots without changing a pixel.
import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE_BYTES = 8
/** Screenshots compress best without a filter, or with the difference from the row above. */
const FILTERS = { none: 0, up: 2 } as const

/** Recompresses an 8-bit RGB or RGBA PNG as Chromium creates it. Returns any other PNG unchanged. */
export function smallerPng(png: Buffer): Buffer {
  const chunks = chunksOf(png)
  const header = chunks.find(({ type }) => type === 'IHDR')!.data
  const [width, bits, kind, interlaced] = [header.readUInt32BE(0), header[8], header[9], header[12]]
  if (bits !== 8 || (kind !== 2 && kind !== 6) || interlaced !== 0) return png
  const pixel = kind === 2 ? 3 : 4
  const rows = unfiltered(
    inflateSync(Buffer.concat(chunks.filter(({ type }) => type === 'IDAT').map(({ data }) => data))),
    width * pixel,
    pixel,
  )
  const packed = Object.values(FILTERS).map((filter) =>
    deflateSync(filtered(rows, filter), { level: 9, memLevel: 9 }),
  )
  const [smallest] = packed.toSorted((a, b) => a.length - b.length)
  return Buffer.concat([
    png.subarray(0, SIGNATURE_BYTES),
    chunk('IHDR', header),
    chunk('IDAT', smallest!),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

function chunksOf(png: Buffer): { type: string; data: Buffer }[] {
  const found = []
  for (let at = SIGNATURE_BYTES; at < png.length;) {
    const length = png.readUInt32BE(at)
    found.push({ type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) })
    at += length + 12
  }
  return found
}

function chunk(type: string, data: Buffer): Buffer {
  const [length, named, sum] = [
    Buffer.alloc(4),
    Buffer.concat([Buffer.from(type, 'latin1'), data]),
    Buffer.alloc(4),
  ]
  length.writeUInt32BE(data.length)
  sum.writeUInt32BE(crc32(named))
  return Buffer.concat([length, named, sum])
}

/** Removes the row filters (PNG, section 9). `bytes`: bytes per row. `pixel`: bytes per pixel. */
function unfiltered(data: Buffer, bytes: number, pixel: number): Buffer[] {
  const rows: Buffer[] = []
  let above = Buffer.alloc(bytes)
  for (let at = 0; at < data.length; at += bytes + 1) {
    const filter = data[at]
    const row = Buffer.from(data.subarray(at + 1, at + 1 + bytes))
    for (let n = 0; n < bytes; n += 1) {
      const [left, up, corner] = [
        n < pixel ? 0 : row[n - pixel]!,
        above[n]!,
        n < pixel ? 0 : above[n - pixel]!,
      ]
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter!]!
      row[n] = (row[n]! + guess) & 255
    }
    rows.push(row)
    above = row
  }
  return rows
}

function filtered(rows: Buffer[], filter: number): Buffer {
  return Buffer.concat(
    rows.flatMap((row, at) => {
      const above = rows[at - 1]
      const bytes =
        filter === FILTERS.none || above === undefined ? row : row.map((byte, n) => (byte - above[n]!) & 255)
      return [Buffer.from([filter]), bytes]
    }),
  )
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}
