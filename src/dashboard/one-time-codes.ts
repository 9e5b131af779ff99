// Finds the time step of a one-time code (RFC 6238 with SHA-1, six digits and 30 seconds).
import { createHmac } from 'node:crypto'

const STEP_MS = 30_000

/** The latest time step near `now` (Unix time in ms) whose code matches; undefined if none does. */
export function timeStepOf(secret: string, code: string, now: number): number | undefined {
  const current = Math.floor(now / STEP_MS)
  // better-auth accepts one step either way. A second step back is tried too, because the clock may have advanced
  // since better-auth accepted the code.
  return [1, 0, -1, -2].map((steps) => current + steps).find((step) => codeAt(secret, step) === code)
}

function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', secret).update(counter).digest()
  const offset = mac.at(-1)! & 15
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}
