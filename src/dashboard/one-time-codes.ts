// Which time step a one-time code is of (RFC 6238), as apps make them: SHA-1, six digits, 30 seconds.
import { createHmac } from 'node:crypto'

const STEP_MS = 30_000

/** The latest step at which the code is right, of those around `now` in milliseconds; undefined when there is none. */
export function timeStepOf(secret: string, code: string, now: number): number | undefined {
  const current = Math.floor(now / STEP_MS)
  // One more into the past: the clock may have gone on since the code was accepted.
  return [1, 0, -1, -2].map((steps) => current + steps).find((step) => codeAt(secret, step) === code)
}

function codeAt(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', secret).update(counter).digest()
  const at = mac.at(-1)! & 15
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}
